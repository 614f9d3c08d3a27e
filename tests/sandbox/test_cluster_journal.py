"""A data directory keeps a cluster's objects over a stop, and over a kill in the middle of a write."""

from pathlib import Path

import pytest

from regroup.kube.resources import CONFIGMAPS, NODES
from regroup.sandbox import journal as journal_module
from regroup.sandbox.apiserver.storage import Storage
from regroup.sandbox.journal import FILE, DataDirError, open_storage
from regroup.wire.resource import Resource


def put(storage: Storage, name: str, value: str, *, resource: Resource = CONFIGMAPS) -> None:
    storage.put(resource, ("d", name), {"metadata": {"name": name, "namespace": "d"}, "data": {"v": value}})


def contents(storage: Storage) -> dict[str, str]:
    return {stored.obj["metadata"]["name"]: stored.obj["data"]["v"] for stored in storage.items(CONFIGMAPS)}


def test_what_was_written_is_there_again(tmp_path: Path) -> None:
    """Last versions, no deleted objects, and versions that go on, also after a deletion as the last write."""
    storage, journal = open_storage(tmp_path)
    for name, value in (("a", "1"), ("b", "1"), ("a", "2")):
        put(storage, name, value)
    storage.remove(CONFIGMAPS, ("d", "b"))
    version = storage.version
    journal.close()
    storage, journal = open_storage(tmp_path)
    assert contents(storage) == {"a": "2"}
    assert storage.version == version
    put(storage, "c", "1")
    assert storage.version == version + 1
    journal.close()
    storage, journal = open_storage(tmp_path)
    assert contents(storage) == {"a": "2", "c": "1"}
    journal.close()


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    """A process killed in mid-write: everything before the torn line is there."""
    storage, journal = open_storage(tmp_path)
    put(storage, "a", "1")
    put(storage, "b", "1")
    journal.close()
    data = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(data[:-9])
    storage, journal = open_storage(tmp_path)
    assert contents(storage) == {"a": "1"}
    journal.close()


def test_damage_is_an_error_that_says_where(tmp_path: Path) -> None:
    """A broken line before the end is not passed over in silence."""
    storage, journal = open_storage(tmp_path)
    put(storage, "a", "1")
    put(storage, "b", "1")
    journal.close()
    lines = (tmp_path / FILE).read_bytes().split(b"\n")
    lines[1] = b"{broken"
    (tmp_path / FILE).write_bytes(b"\n".join(lines))
    with pytest.raises(DataDirError, match="damaged in line 2"):
        open_storage(tmp_path)


def test_one_sandbox_at_a_time(tmp_path: Path) -> None:
    """A second one on the same folder is refused, and may come when the first has stopped."""
    _, journal = open_storage(tmp_path)
    with pytest.raises(DataDirError, match="in use by another sandbox"):
        open_storage(tmp_path)
    journal.close()
    _, journal = open_storage(tmp_path)
    journal.close()


def test_a_folder_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    """A file in the way: one sentence, no traceback of ours."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataDirError, match="cannot be used"):
        open_storage(tmp_path / "file")


def test_history_is_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file does not grow without end, and the rewrite loses nothing."""
    monkeypatch.setattr(journal_module, "SLACK", 20)
    storage, journal = open_storage(tmp_path)
    for number in range(500):
        put(storage, "a", str(number))
    put(storage, "n", "x", resource=NODES)
    assert len((tmp_path / FILE).read_bytes().split(b"\n")) < 40
    journal.close()
    storage, journal = open_storage(tmp_path)
    assert contents(storage) == {"a": "499"}
    assert storage.count(NODES) == 1
    journal.close()
