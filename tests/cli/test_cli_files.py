"""Files that scripts wait for: `regroup sandbox --help` tells them to."""

import os
import threading
from pathlib import Path

import pytest

from regroup.cli.files import write_whole


def test_a_reader_finds_all_or_nothing(tmp_path: Path) -> None:
    """The text takes the place of the file in one step: who has the old one open keeps it, and nothing else is left behind."""
    file = tmp_path / "kubeconfig.yaml"
    file.write_text("old")
    with file.open() as reader:
        write_whole(file, "new ä\n")
        assert reader.read() == "old"
    assert file.read_text(encoding="utf-8") == "new ä\n"
    assert [one.name for one in tmp_path.iterdir()] == [file.name]


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    """`--kubeconfig >(...)` and /dev/stdout: what is no file is not replaced by one."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "text")
    reader.join()
    assert read == ["text"]
    assert pipe.is_fifo()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """The error is the caller's to tell; nothing is left."""
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "none" / "file", "text")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_whole(tmp_path / "folder", "text")
    assert [one.name for one in tmp_path.iterdir()] == ["folder"]
