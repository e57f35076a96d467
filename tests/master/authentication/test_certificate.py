"""How long the certificate of the ports lasts is known, at the start and after each renewal."""

import datetime as dt
from pathlib import Path

from master.admission.certificates import issue
from master.certificate import renewal
from master.file_warnings import FileWarnings
from topo.kit.tls import server_context
from topo.model.conditions.master import MasterCondition

NOW = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


def _written(directory: Path, *, days: int) -> tuple[tuple[Path, Path], tuple[float, float]]:
    """The files of a pair that ends so many days from then, and when it begins and ends."""
    made = issue(["m"], NOW, dt.timedelta(days=days))
    chain, key = directory / "tls.crt", directory / "tls.key"
    chain.write_bytes(made.chain)
    key.write_bytes(made.key)
    return (chain, key), (made.begins.timestamp(), made.ends.timestamp())


def test_the_life_is_that_of_the_pair_in_use(tmp_path: Path) -> None:
    """A key that does not match leaves the old pair in use, and its life."""
    pair, first = _written(tmp_path, days=9)
    told: list[tuple[float, float]] = []

    def lasts(begin_s: float, end_s: float) -> None:
        told.append((begin_s, end_s))

    warnings = FileWarnings()
    renew = renewal(warnings, server_context(*pair), pair, lasts)
    assert told == [first]
    renew()
    assert told == [first]
    key = pair[1].read_bytes()
    _, second = _written(tmp_path, days=900)
    good = pair[1].read_bytes()
    pair[1].write_bytes(key)
    renew()
    assert [each.code for each in warnings.warnings] == [MasterCondition.TLS_FILES]
    assert told == [first]
    pair[1].write_bytes(good)
    renew()
    assert told == [first, second]
    assert not warnings.warnings
