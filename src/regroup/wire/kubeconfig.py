"""Kubeconfig files, and the credentials of a pod: how to reach a cluster, and as whom. Reads files; opens no connection.

Several files merge as kubectl merges them: the first that names a thing wins, and paths are relative to the file they stand in.
"""

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from regroup.wire import yamlish

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")


class KubeconfigError(Exception):
    """A kubeconfig that cannot be used; one line with the file, the entry and what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecPlugin:
    """A program that gives credentials (``users[].user.exec``)."""

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    api_version: str = EXEC_VERSIONS[0]
    interactive_mode: str = "IfAvailable"
    provide_cluster_info: bool = False
    install_hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """As whom to speak: one of token file, token, basic and exec, in that order; a certificate may come beside."""

    token: str = field(default="", repr=False)
    token_file: Path | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    exec: ExecPlugin | None = None
    certificate: bytes | Path | None = field(default=None, repr=False)
    key: bytes | Path | None = field(default=None, repr=False)
    impersonate: str = ""
    impersonate_uid: str = ""
    impersonate_groups: Sequence[str] = ()
    impersonate_extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """One cluster and one identity."""

    server: str
    """The URL that messages show."""
    identity: Identity = Identity()
    namespace: str = "default"
    ca: bytes | Path | None = None
    """PEM, or the file that holds it, which is read again when it changes."""
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    source: str = ""
    """Where this was read, for messages."""


def load_kubeconfig(path: str | None = None, context: str | None = None) -> ClusterAccess:
    """The access that a context names; the current one when ``context`` is None.

    ``path`` may hold several files, as ``$KUBECONFIG`` does; None reads that variable, then ``~/.kube/config``. Raises
    ``KubeconfigError``.
    """
    files = _files(path)
    documents = [(file, _read(file)) for file in files]
    source = ", ".join(map(str, files))
    name = context or next((str(found) for _, doc in documents if (found := doc.get("current-context"))), "")
    if not name:
        raise KubeconfigError(f"{source}: no current-context is set: choose one with --context ({_known(documents, 'contexts')})")
    chosen = _entry(documents, "contexts", name, source)[1]
    base, cluster = _entry(documents, "clusters", str(chosen.get("cluster") or ""), source, by=f"context {name!r}")
    user_base, user = (
        (base, {}) if not chosen.get("user") else _entry(documents, "users", str(chosen["user"]), source, by=f"context {name!r}")
    )
    server = str(cluster.get("server") or "")
    if urlsplit(server).scheme not in {"http", "https"}:
        raise KubeconfigError(f"{base}: cluster {chosen.get('cluster')!r}: server {server!r} is no http or https URL")
    return ClusterAccess(
        server=server.rstrip("/"),
        identity=_identity(user, user_base, str(chosen.get("user") or "")),
        namespace=str(chosen.get("namespace") or "default"),
        ca=_material(cluster, "certificate-authority", base, f"cluster {chosen.get('cluster')!r}"),
        insecure=cluster.get("insecure-skip-tls-verify") is True,
        tls_server_name=str(cluster.get("tls-server-name") or ""),
        proxy_url=str(cluster.get("proxy-url") or ""),
        source=source,
    )


def in_cluster(environ: Mapping[str, str] | None = None, *, folder: Path = SERVICE_ACCOUNT) -> ClusterAccess | None:
    """The access of the pod that this process runs in, None outside of one. Its token file is read again as it rotates."""
    environment = os.environ if environ is None else environ
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    token = folder / "token"
    if not host or not port or not token.is_file():
        return None
    namespace = folder / "namespace"
    host = f"[{host}]" if ":" in host else host
    return ClusterAccess(
        server=f"https://{host}:{port}",
        identity=Identity(token_file=token),
        namespace=namespace.read_text().strip() if namespace.is_file() else "default",
        ca=folder / "ca.crt",
        source=str(folder),
    )


def _files(path: str | None) -> list[Path]:
    given = path or os.environ.get("KUBECONFIG") or ""
    if not given:
        usual = Path.home() / ".kube" / "config"
        if not usual.is_file():
            raise KubeconfigError(f"there is no kubeconfig: {usual} does not exist and KUBECONFIG is not set")
        return [usual]
    files = [Path(part).expanduser() for part in given.split(os.pathsep) if part]
    there = [file for file in files if file.is_file()]
    if not there:
        raise KubeconfigError(f"there is no kubeconfig at {given}")
    return there


def _read(file: Path) -> dict[str, Any]:
    try:
        documents = yamlish.load_documents(file.read_text())
    except yamlish.YamlError as error:
        raise KubeconfigError(f"{file}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{file}: {error}") from error
    document = documents[0] if documents else {}
    if not isinstance(document, dict):
        raise KubeconfigError(f"{file}: not a kubeconfig: a map with clusters, users and contexts is expected")
    return document


def _entry(
    documents: Sequence[tuple[Path, dict[str, Any]]], section: str, name: str, source: str, *, by: str = ""
) -> tuple[Path, dict[str, Any]]:
    """The file and the content of a named entry."""
    key = section.removesuffix("s")
    for file, document in documents:
        for entry in document.get(section) or []:
            if isinstance(entry, dict) and entry.get("name") == name:
                content = entry.get(key) or {}
                if not isinstance(content, dict):
                    raise KubeconfigError(f"{file}: {key} {name!r} is no map")
                return file, content
    wanted = f"{by} wants {key} {name!r}, which" if by else f"{key} {name!r}"
    raise KubeconfigError(f"{source}: {wanted} does not exist ({_known(documents, section)})")


def _known(documents: Sequence[tuple[Path, dict[str, Any]]], section: str) -> str:
    names = [
        str(entry.get("name")) for _, document in documents for entry in document.get(section) or [] if isinstance(entry, dict)
    ]
    return f"there: {', '.join(names[:20])}" if names else f"there are no {section}"


def _material(entry: Mapping[str, Any], name: str, base: Path, what: str) -> bytes | Path | None:
    """``NAME-data`` decoded, or the path of ``NAME``; data wins."""
    data = entry.get(f"{name}-data")
    if data:
        try:
            return base64.b64decode(str(data), validate=True)
        except (binascii.Error, ValueError) as error:
            raise KubeconfigError(f"{base}: {what}: {name}-data is not base64") from error
    if not entry.get(name):
        return None
    file = base.parent / Path(str(entry[name])).expanduser()
    if not file.is_file():
        raise KubeconfigError(f"{base}: {what}: {name} {file} does not exist")
    return file


def _identity(user: Mapping[str, Any], base: Path, name: str) -> Identity:
    what = f"user {name!r}"
    if user.get("auth-provider"):
        raise KubeconfigError(f"{base}: {what}: auth-provider is not supported any more by Kubernetes: use an exec plugin")
    token_file = None
    if user.get("tokenFile"):
        token_file = base.parent / Path(str(user["tokenFile"])).expanduser()
    return Identity(
        token=str(user.get("token") or ""),
        token_file=token_file,
        username=str(user.get("username") or ""),
        password=str(user.get("password") or ""),
        exec=_exec(user["exec"], base, what) if user.get("exec") else None,
        certificate=_material(user, "client-certificate", base, what),
        key=_material(user, "client-key", base, what),
        impersonate=str(user.get("as") or ""),
        impersonate_uid=str(user.get("as-uid") or ""),
        impersonate_groups=tuple(user.get("as-groups") or ()),
        impersonate_extra={key: tuple(values) for key, values in (user.get("as-user-extra") or {}).items()},
    )


def _exec(config: Mapping[str, Any], base: Path, what: str) -> ExecPlugin:
    version = str(config.get("apiVersion") or "")
    if version not in EXEC_VERSIONS:
        raise KubeconfigError(f"{base}: {what}: exec.apiVersion {version!r}: {' or '.join(EXEC_VERSIONS)} is expected")
    command = str(config.get("command") or "")
    if not command:
        raise KubeconfigError(f"{base}: {what}: exec.command is missing")
    mode = str(config.get("interactiveMode") or "IfAvailable")
    if mode not in INTERACTIVE_MODES:
        raise KubeconfigError(f"{base}: {what}: exec.interactiveMode {mode!r}: one of {', '.join(INTERACTIVE_MODES)} is expected")
    if "/" in command and not Path(command).is_absolute():
        command = str((base.parent / command).resolve())
    return ExecPlugin(
        command=command,
        args=tuple(map(str, config.get("args") or ())),
        env={str(entry["name"]): str(entry.get("value", "")) for entry in config.get("env") or ()},
        api_version=version,
        interactive_mode=mode,
        provide_cluster_info=config.get("provideClusterInfo") is True,
        install_hint=str(config.get("installHint") or ""),
    )
