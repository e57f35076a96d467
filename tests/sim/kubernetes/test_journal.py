"""The file of the simulated API server: it stays small, and is not written anew again and again."""

from pathlib import Path

import pytest

from tests.kube.api_model import new_store
from topo.sim.kubernetes.apiserver import journal
from topo.sim.kubernetes.apiserver.journal import Journal
from topo.sim.kubernetes.apiserver.store import ObjectStore

NODES, MOST = "/api/v1/nodes", 4000


def change(store: ObjectStore, name: str, value: int) -> None:
    store.objects[NODES, name].document["spec"] = {"value": value}
    store.record(NODES, name)


def test_a_file_is_written_anew_when_it_has_grown_and_not_at_each_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the objects alone need more than the file may have."""
    monkeypatch.setattr(journal, "MAX_BYTES", MOST)
    path, store = tmp_path / "objects.jsonl", new_store()
    kept = Journal(path, store)
    kept.open()
    names = [f"node-{number}" for number in range(50)]
    for name in names:
        store.create(NODES, {"metadata": {"name": name}}, "tests")
    written, largest = list[int](), 0
    rewrite = Journal._rewrite

    def counted(self: Journal) -> None:
        written.append(0)
        rewrite(self)

    monkeypatch.setattr(Journal, "_rewrite", counted)
    for value in range(400):
        change(store, names[value % 50], value)
        largest = max(largest, path.stat().st_size)
    kept.close()
    assert 1 < len(written) < 20
    again = new_store()
    reopened = Journal(path, again)
    reopened.open()
    reopened.close()
    assert largest < 4 * path.stat().st_size
    assert {key: stored.document for key, stored in again.objects.items()} == {
        key: stored.document for key, stored in store.objects.items()
    }
