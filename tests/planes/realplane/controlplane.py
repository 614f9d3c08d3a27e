"""One real control plane: etcd, kube-apiserver, kube-controller-manager and kube-scheduler as child processes on loopback.

Everything is its own: ports asked from the system, certificates, keys, a folder. The children die with this process, even when
it is killed.
"""

import contextlib
import ctypes
import json
import os
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import trustme
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.planes.realplane.binaries import Binaries, cache_folder, find
from tests.planes.realplane.ports import free_port

READY_LIMIT = 90.0
"""Seconds for all parts to become ready; seen: 2 to 4."""
STOP_LIMIT = 10.0
SERVICE_ADDRESS = "10.0.0.1"
"""The address of the Service ``kubernetes``: the first one of the range."""
PR_SET_PDEATHSIG = 1


class PlaneFailed(Exception):
    """A part did not come up or died; the message ends with its last log lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a suite may choose. Times are in seconds."""

    controller_qps: int = 1000
    """Requests/s of the controller manager; Kubernetes' own default is 20."""
    node_monitor_grace: float = 4.0
    """After how long without a heartbeat a node is lost; Kubernetes' own default is 50."""
    controllers: bool = True
    audit: bool = False
    """Keep an audit log of all writes in ``folder/audit.log``."""
    feature_gates: str = ""
    runtime_config: str = ""
    """API versions to serve beyond those that are served by default."""
    address: str = "127.0.0.1"
    """Where the API server listens: nodes in network namespaces of their own do not reach loopback."""
    pods_call: bool = False
    """Pods get tokens and reach the API server at its Service's address, and it calls webhooks of Services at their pods."""
    unreachable_toleration: int = 300
    """How long pods that say nothing about it stay on a lost node."""
    runs: Path | None = None
    """Where the folder of this run is made, in place of the cache."""


@dataclass(slots=True)
class _Part:
    name: str
    process: subprocess.Popen[bytes]
    log: Path


class ControlPlane:
    """A running control plane; use it as a context manager. ``url`` and ``ca`` reach it, ``admin_token`` may do all."""

    def __init__(self, *, options: Options | None = None, binaries: Binaries | None = None) -> None:
        self.options = options or Options()
        self._binaries = binaries or find()
        runs = self.options.runs or cache_folder() / "runs"
        _tell_leftovers(runs)
        runs.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=runs))
        self.admin_token = secrets.token_hex(16)
        self.port = 443 if self.options.pods_call else free_port()
        self.url = f"https://{self.options.address}:{self.port}"
        self.ca = self.folder / "ca.crt"
        self._parts: list[_Part] = []
        self._failed = False

    def __enter__(self) -> "ControlPlane":
        try:
            self.start()
        except BaseException:
            self._failed = True
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start all parts and wait until they are ready. Raises ``PlaneFailed``."""
        began = time.monotonic()
        self._write_keys()
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._spawn("etcd", self._etcd_flags(client, peer))
        self._spawn("kube-apiserver", self._apiserver_flags(client))
        self._wait_ready(began + READY_LIMIT)
        if self.options.controllers:
            kubeconfig = self.folder / "admin.kubeconfig"
            kubeconfig.write_text(self.kubeconfig())
            self._spawn("kube-controller-manager", self._controller_flags(kubeconfig))
            self._spawn(
                "kube-scheduler",
                [
                    *("--kubeconfig", str(kubeconfig), "--leader-elect=false", "--secure-port=0"),
                    *self._client_limits(),
                    *([f"--feature-gates={self.options.feature_gates}"] if self.options.feature_gates else []),
                ],
            )
            self._wait_for_namespace(began + READY_LIMIT)
        self.check()

    def check(self) -> None:
        """Raise ``PlaneFailed`` when a part has died."""
        for part in self._parts:
            if (code := part.process.poll()) is not None:
                self._failed = True
                raise PlaneFailed(f"{part.name} ended with code {code}; its last lines:\n{_tail(part.log)}")

    def stop(self) -> None:
        """Stop every part by its pid and remove the folder, unless something failed: then the logs stay."""
        for part in reversed(self._parts):
            part.process.kill()  # nothing here is worth a graceful end, which takes ten seconds
        for part in self._parts:
            part.process.wait(STOP_LIMIT)
        self._parts.clear()
        if self._failed:
            print(f"the logs of the failed control plane are kept in {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def keep_logs(self) -> None:
        """Keep the folder after ``stop``, because a test failed."""
        self._failed = True

    def kubeconfig(self, *, token: str | None = None) -> str:
        """A kubeconfig for the admin, or for another ``token``."""
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "real", "cluster": {"server": self.url, "certificate-authority": str(self.ca)}}],
                "users": [{"name": "user", "user": {"token": token or self.admin_token}}],
                "contexts": [{"name": "real", "context": {"cluster": "real", "user": "user"}}],
                "current-context": "real",
            }
        )

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """One request as the admin, decoded. Raises ``urllib.error.HTTPError``."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.admin_token}", "Content-Type": "application/json"},
        )
        context = ssl.create_default_context(cafile=str(self.ca))
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            data = answer.read()
        return json.loads(data) if data[:1] in {b"{", b"["} else data.decode()

    def audit(self) -> Iterator[dict[str, Any]]:
        """The audit log so far: one entry for each finished write."""
        with (self.folder / "audit.log").open() as lines:
            for line in lines:
                yield json.loads(line)

    def resident_mebibytes(self) -> dict[str, float]:
        """Resident memory of each part."""
        pages = {part.name: int(Path(f"/proc/{part.process.pid}/statm").read_text().split()[1]) for part in self._parts}
        return {name: count * os.sysconf("SC_PAGE_SIZE") / 2**20 for name, count in pages.items()}

    def _spawn(self, part: str, flags: Sequence[str]) -> None:
        log = self.folder / f"{part}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*self._binaries.commands[part], *flags],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call, before exec
            )
        self._parts.append(_Part(part, process, log))
        (self.folder / f"{part}.pid").write_text(str(process.pid))

    def _write_keys(self) -> None:
        authority = trustme.CA(organization_name="regroup tests")
        authority.cert_pem.write_to_path(str(self.ca))
        serving = authority.issue_cert(self.options.address, "127.0.0.1", "localhost", SERVICE_ADDRESS)
        serving.private_key_pem.write_to_path(str(self.folder / "serving.key"))
        with (self.folder / "serving.crt").open("wb") as target:
            for blob in serving.cert_chain_pems:
                target.write(blob.bytes())
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (self.folder / "sa.key").write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        (self.folder / "tokens.csv").write_text(f'{self.admin_token},admin,admin,"system:masters"\n')
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{"level": "None", "verbs": ["get", "list", "watch"]}, {"level": "Metadata"}],
        }
        (self.folder / "audit-policy.yaml").write_text(yaml.safe_dump(policy))

    def _etcd_flags(self, client: str, peer: str) -> list[str]:
        data = str(self.folder / "etcd")
        if self._binaries.ours:
            return ["--data-dir", data, "--client-url", client, "--peer-url", peer]
        return [
            *("--data-dir", data, "--unsafe-no-fsync"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"),
        ]

    def _apiserver_flags(self, etcd: str) -> list[str]:
        folder = self.folder
        flags = [
            f"--etcd-servers={etcd}",
            f"--secure-port={self.port}",
            # The Service's address is another one of the same machine.
            f"--bind-address={'0.0.0.0' if self.options.pods_call else self.options.address}",
            f"--tls-cert-file={folder / 'serving.crt'}",
            f"--tls-private-key-file={folder / 'serving.key'}",
            "--service-account-issuer=https://regroup.invalid",
            f"--service-account-key-file={folder / 'sa.key'}",
            f"--service-account-signing-key-file={folder / 'sa.key'}",
            f"--token-auth-file={folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--allow-privileged=true",
            "--kubelet-preferred-address-types=InternalIP,Hostname",  # nobody resolves the names of our nodes
            "--max-requests-inflight=2000",
            "--max-mutating-requests-inflight=1000",
            f"--default-unreachable-toleration-seconds={self.options.unreachable_toleration}",
            f"--default-not-ready-toleration-seconds={self.options.unreachable_toleration}",
        ]
        if self.options.pods_call:
            flags += [f"--advertise-address={self.options.address}", "--enable-aggregator-routing=true"]
        else:
            flags.append("--disable-admission-plugins=ServiceAccount")
        if self.options.feature_gates:
            flags.append(f"--feature-gates={self.options.feature_gates}")
        if self.options.runtime_config:
            flags.append(f"--runtime-config={self.options.runtime_config}")
        if self.options.audit:
            flags += [f"--audit-policy-file={folder / 'audit-policy.yaml'}", f"--audit-log-path={folder / 'audit.log'}"]
        return flags

    def _controller_flags(self, kubeconfig: Path) -> list[str]:
        flags = [
            f"--kubeconfig={kubeconfig}",
            f"--service-account-private-key-file={self.folder / 'sa.key'}",
            "--leader-elect=false",
            "--secure-port=0",
            f"--node-monitor-grace-period={self.options.node_monitor_grace}s",
            "--node-monitor-period=1s",
            f"--root-ca-file={self.ca}",
            *self._client_limits(),
        ]
        if self.options.feature_gates:
            flags.append(f"--feature-gates={self.options.feature_gates}")
        return flags

    def _client_limits(self) -> list[str]:
        return [f"--kube-api-qps={self.options.controller_qps}", f"--kube-api-burst={self.options.controller_qps}"]

    def _wait_ready(self, deadline: float) -> None:
        while True:
            self.check()
            try:
                if self.request("GET", "/readyz") == "ok":
                    return
            except (urllib.error.URLError, OSError):
                pass
            self._not_later_than(deadline, "the API server is not ready")

    def _wait_for_namespace(self, deadline: float) -> None:
        while True:
            self.check()
            try:
                self.request("GET", "/api/v1/namespaces/default")
            except urllib.error.HTTPError:
                self._not_later_than(deadline, "the namespace default is not there")
            else:
                return

    def _not_later_than(self, deadline: float, what: str) -> None:
        if time.monotonic() > deadline:
            raise PlaneFailed(f"{what} after {READY_LIMIT:g} s; its last lines:\n{_tail(self._parts[-1].log)}")
        time.sleep(0.05)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def _tell_leftovers(runs: Path) -> None:
    """Say what an earlier run left behind. A live process of it is an error: it would hold ports and memory."""
    for folder in sorted(runs.glob("*-*")) if runs.is_dir() else []:
        owner = folder.name.partition("-")[0]
        if Path(f"/proc/{owner}").exists():
            continue
        alive = [path.stem for path in folder.glob("*.pid") if _is_ours(path)]
        if alive:
            raise PlaneFailed(f"an earlier run left {', '.join(alive)} running: stop the pids in {folder} and remove that folder")
        print(f"an earlier run left its logs in {folder}; remove the folder when they are read", file=sys.stderr)


def _is_ours(pid_file: Path) -> bool:
    """Whether the process that the file names is still that control plane's, not a newcomer with the same pid."""
    try:
        command = Path(f"/proc/{pid_file.read_text().strip()}/cmdline").read_bytes()
    except OSError:
        return False
    return pid_file.parent.name.encode() in command


if __name__ == "__main__":
    with ControlPlane() as plane:
        print(plane.kubeconfig())
        print("Ctrl-C stops it", file=sys.stderr)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
