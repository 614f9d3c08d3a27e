"""A cluster's objects in a folder, so that a sandbox goes on where it stopped: one file of JSON lines, one line a write.

A line is with the operating system when its write is answered, so a killed process loses nothing; a machine that loses power may
lose the last moments. A line that the end cut off is dropped. The file is written anew when most of it is history.
"""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from regroup.sandbox.apiserver.storage import Key, Storage, Stored
from regroup.wire import codec
from regroup.wire.resource import Resource

FILE = "objects.jsonl"
SLACK = 10_000
"""Lines of history that are always borne before the file is written anew."""


class DataDirError(Exception):
    """The data directory cannot be used; the message says why and what to do."""


class FileJournal:
    """The journal in ``folder``. ``open_storage`` is the way in; ``close`` gives the folder free."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._live: dict[tuple[Resource, Key], bytes] = {}
        self._lines = 0
        self._version = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock: IO[bytes] = (folder / "lock").open("ab")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._lock.close()
                raise DataDirError(f"the data directory {folder} is in use by another sandbox") from None
            try:
                self._read()
                self._file = self._write_anew()
            except BaseException:
                self._lock.close()
                raise
        except OSError as error:
            raise DataDirError(f"the data directory {folder} cannot be used: {error.strerror or error}") from error

    def entries(self) -> Iterator[tuple[Resource, Key, dict[str, Any]]]:
        """What is kept."""
        for (resource, key), data in self._live.items():
            yield resource, key, codec.decode(data, dict)

    @property
    def version(self) -> int:
        """The last version that was given out."""
        return self._version

    def record(self, resource: Resource, key: Key, stored: Stored | None, version: int) -> None:
        """Keep one write; None for a deletion."""
        self._version = version
        if stored is None:
            self._live.pop((resource, key), None)
        else:
            self._live[resource, key] = stored.data
        self._file.write(_line(version, resource, key, stored.data if stored is not None else b"null"))
        self._file.flush()
        self._lines += 1
        if self._lines > SLACK + 2 * len(self._live):
            self._file.close()
            self._file = self._write_anew()

    def close(self) -> None:
        """Write what is buffered and give the folder free."""
        self._file.close()
        self._lock.close()

    def _read(self) -> None:
        if not self._path.exists():
            return
        lines = self._path.read_bytes().split(b"\n")
        for number, line in enumerate(lines, start=1):
            if not line:
                continue
            try:
                entry = codec.decode(line, dict)
                self._version = max(self._version, int(entry["v"]))
                if "r" in entry:
                    self._take(entry)
            except (codec.DecodeError, KeyError, TypeError, ValueError) as error:
                if number == len(lines):
                    return  # Cut off in the middle of a write that was never answered.
                raise DataDirError(
                    f"{self._path} is damaged in line {number}: {error}; move the file away to start with an empty cluster"
                ) from error

    def _take(self, entry: dict[str, Any]) -> None:
        group, version, plural, kind, namespaced = entry["r"]
        resource = Resource(group, version, plural, kind, namespaced=namespaced)
        namespace, name = entry["k"]
        if entry["o"] is None:
            self._live.pop((resource, (namespace, name)), None)
        else:
            self._live[resource, (namespace, name)] = codec.encode(entry["o"])

    def _write_anew(self) -> IO[bytes]:
        """A file with what is there now and no history, in the place of the old one once it is whole."""
        fresh = self._path.with_suffix(".new")
        file = fresh.open("wb")
        file.write(codec.encode({"v": self._version}) + b"\n")
        for (resource, key), data in self._live.items():
            file.write(_line(self._version, resource, key, data))
        file.flush()
        os.fsync(file.fileno())
        fresh.replace(self._path)
        self._lines = len(self._live)
        return file


def open_storage(folder: Path) -> tuple[Storage, FileJournal]:
    """The storage of the cluster in ``folder``, filled with what it kept. Raises ``DataDirError``."""
    journal = FileJournal(folder)
    storage = Storage(journal=journal)
    storage.restore(journal.entries(), version=journal.version)
    return storage, journal


def _line(version: int, resource: Resource, key: Key, data: bytes) -> bytes:
    where = [resource.group, resource.version, resource.plural, resource.kind, resource.namespaced]
    head = codec.encode({"v": version, "r": where, "k": list(key)})
    return head[:-1] + b',"o":' + data + b"}\n"
