"""When the certificate of the ports ends is known, at the start and after each renewal."""

import datetime as dt
from pathlib import Path

from master.admission.certificates import issue
from master.certificate import CERTIFICATE, renewal
from master.file_warnings import FileWarnings
from topo.kit.tls import server_context

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


def _written(directory: Path, *, days: int) -> tuple[tuple[Path, Path], float]:
    """The files of a pair that ends so many days from then, and that time."""
    made = issue(["m"], NOW, dt.timedelta(days=days))
    chain, key = directory / "tls.crt", directory / "tls.key"
    chain.write_bytes(made.chain)
    key.write_bytes(made.key)
    return (chain, key), made.ends.timestamp()


def test_the_end_is_that_of_the_pair_in_use(tmp_path: Path) -> None:
    """A key that does not match leaves the old pair in use, and its end."""
    pair, first_s = _written(tmp_path, days=9)
    told: list[float] = []
    warnings = FileWarnings()
    renew = renewal(warnings, server_context(*pair), pair, told.append)
    assert told == [first_s]
    renew()
    assert told == [first_s]
    key = pair[1].read_bytes()
    _, second_s = _written(tmp_path, days=900)
    good = pair[1].read_bytes()
    pair[1].write_bytes(key)
    renew()
    assert [each.code for each in warnings.warnings] == [CERTIFICATE]
    assert told == [first_s]
    pair[1].write_bytes(good)
    renew()
    assert told == [first_s, second_s]
    assert not warnings.warnings
