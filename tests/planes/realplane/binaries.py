"""Finds or builds the binaries of a real control plane.

In this order: a user's own (``REGROUP_ASSETS``, ``KUBEBUILDER_ASSETS``), the cache, a build from the Go module beside this file.
The cache is outside of the checkout and keyed by the sources, so every clone shares it. The kubelet is a second binary of the
same module: it builds on Linux only, and only the suites with real containers need it. Helm, for the chart, is another module.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.planes.realplane.toolchain import NoGo, find_go

PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
VERSION = "1.36.3"
SOURCES = Path(__file__).parent
KUBELET = SOURCES / "kubelet"
HELM = SOURCES / "helm"
HELM_PACKAGE = "helm.sh/helm/v3"
BUILD_LIMIT = 45 * 60
"""Seconds; a first build takes about five minutes on two cores."""


UNAVAILABLE = 69
"""Exit code of what cannot run on this machine, as sysexits.h has it: CI tells it from a failure."""


class PlaneUnavailable(Exception):
    """There is no real control plane to be had here; the message says why in one line."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """How to start each part: the command's first words. ``ours`` is True for the binary that we built."""

    commands: dict[str, tuple[str, ...]]
    ours: bool


def find(*, build: bool = True) -> Binaries:
    """The binaries to use. Raises ``PlaneUnavailable``."""
    for variable in ("REGROUP_ASSETS", "KUBEBUILDER_ASSETS"):
        if folder := os.environ.get(variable):
            return _assets(Path(folder), variable)
    binary = cache_folder() / f"realplane-{_key(SOURCES)}"
    if not binary.exists():
        if not build:
            raise PlaneUnavailable("the real control plane is not built yet: make test-real builds it")
        _build(binary, SOURCES, what=f"the real control plane (Kubernetes {VERSION})", stamps=_kubernetes_stamps())
    return Binaries({part: (str(binary), part) for part in PARTS}, ours=True)


def find_kubelet(*, build: bool = True) -> Path:
    """The kubelet to use: a user's own when the folder of assets has one. Raises ``PlaneUnavailable``."""
    for variable in ("REGROUP_ASSETS", "KUBEBUILDER_ASSETS"):
        if (folder := os.environ.get(variable)) and os.access(own := Path(folder) / "kubelet", os.X_OK):
            return own
    binary = cache_folder() / f"kubelet-{_key(KUBELET)}"
    if not binary.exists():
        if not build:
            raise PlaneUnavailable("the kubelet is not built yet: make test-node builds it")
        _build(binary, KUBELET, what=f"the kubelet (Kubernetes {VERSION})", stamps=_kubernetes_stamps())
    return binary


def find_helm(*, build: bool = True) -> Path:
    """The helm to use: a user's own when the folder of assets has one. Raises ``PlaneUnavailable``."""
    for variable in ("REGROUP_ASSETS", "KUBEBUILDER_ASSETS"):
        if (folder := os.environ.get(variable)) and os.access(own := Path(folder) / "helm", os.X_OK):
            return own
    binary = cache_folder() / f"helm-{_key(HELM, module=HELM)}"
    if not binary.exists():
        if not build:
            raise PlaneUnavailable("helm is not built yet: make test-real builds it")
        # What it takes a cluster to be when it renders without one: its own build says so too, else it is 1.20.
        major, minor, _ = VERSION.split(".")
        versions = {
            f"{HELM_PACKAGE}/pkg/{package}.k8sVersion{name}": value
            for package in ("chartutil", "lint/rules")
            for name, value in (("Major", major), ("Minor", minor))
        }
        _build(binary, HELM, what="helm", stamps=versions, package=f"{HELM_PACKAGE}/cmd/helm")
    return binary


def cache_folder() -> Path:
    """Where builds are kept: ``$XDG_CACHE_HOME/regroup``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "regroup"


def _assets(folder: Path, variable: str) -> Binaries:
    missing = [part for part in PARTS if not os.access(folder / part, os.X_OK)]
    needed = [part for part in missing if part in {"etcd", "kube-apiserver"}]
    if needed:
        raise PlaneUnavailable(f"{variable}={folder} has no {' and no '.join(needed)}")
    if missing:
        raise PlaneUnavailable(
            f"{variable}={folder} has no {' and no '.join(missing)}: the suites need controllers and a scheduler as well"
        )
    return Binaries({part: (str(folder / part),) for part in PARTS}, ours=False)


def _key(folder: Path, *, module: Path = SOURCES) -> str:
    digest = hashlib.sha256(VERSION.encode())
    for path in sorted([*folder.glob("*.go"), module / "go.mod", module / "go.sum"]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _kubernetes_stamps() -> dict[str, str]:
    major, minor, _ = VERSION.split(".")
    stamp = "k8s.io/component-base/version"
    return {f"{stamp}.gitVersion": f"v{VERSION}", f"{stamp}.gitMajor": major, f"{stamp}.gitMinor": minor}


def _build(binary: Path, folder: Path, *, what: str, stamps: dict[str, str], package: str = ".") -> None:
    try:
        go = find_go(cache_folder())
    except NoGo as error:
        raise PlaneUnavailable(f"{what} cannot be had here, nor does REGROUP_ASSETS name its binaries: {error}") from error
    binary.parent.mkdir(parents=True, exist_ok=True)
    with (binary.parent / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs at once: the second waits and finds the binary
        if binary.exists():
            return
        print(
            f"building {what} into {binary}; some minutes, once",
            file=sys.stderr,
            flush=True,
        )
        flags = " ".join(["-s -w", *(f"-X {name}={value}" for name, value in stamps.items())])
        with tempfile.TemporaryDirectory(dir=binary.parent) as scratch:
            fresh = Path(scratch) / "fresh"
            result = subprocess.run(
                [go, "build", "-trimpath", "-mod=readonly", "-ldflags", flags, "-o", str(fresh), package],
                cwd=folder,
                env={**os.environ, "CGO_ENABLED": "0"},
                capture_output=True,
                text=True,
                timeout=BUILD_LIMIT,
                check=False,
            )
            if result.returncode != 0:
                raise PlaneUnavailable(f"{what} does not build: {result.stderr.strip()[-600:]}")
            fresh.rename(binary)


if __name__ == "__main__":
    try:
        print(find().commands["kube-apiserver"][0])
    except PlaneUnavailable as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(UNAVAILABLE)
    try:
        print(find_helm())
    except PlaneUnavailable as error:
        print(f"no chart can be tested: {error}", file=sys.stderr)  # those tests fail, and the others do not need it
