"""Kubeconfig files, and the credentials of a pod: how to reach a cluster, and as whom. Reads files; opens no connection.

Several files merge as kubectl merges them: the first that names a thing wins, and paths are relative to the file they stand in.
"""

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from regroup.wire import yamlish

S = TypeVar("S")

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")
EXEC_EXTENSION = "client.authentication.k8s.io/exec"
"""The extension of a cluster whose content goes to exec plugins."""


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
    exec_config: Any = None
    """What the cluster's entry has for exec plugins."""
    source: str = ""
    """Where this was read, for messages."""


class _Context(msgspec.Struct):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _Extension(msgspec.Struct):
    name: str = ""
    extension: Any = None


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: list[_Extension] | None = None


class _Variable(msgspec.Struct):
    name: str
    value: str = ""


class _Exec(msgspec.Struct, rename="camel"):
    api_version: str = ""
    command: str = ""
    args: list[str] | None = None
    env: list[_Variable] | None = None
    interactive_mode: str = ""
    provide_cluster_info: bool = False
    install_hint: str = ""


class _User(msgspec.Struct, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    username: str = ""
    password: str = ""
    exec: _Exec | None = None
    auth_provider: Any = None
    as_: str = msgspec.field(name="as", default="")
    as_uid: str = ""
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None


class _Entry(msgspec.Struct):
    """One named thing; only the chosen ones are looked into, so that an odd entry nobody uses does no harm."""

    name: str = ""
    cluster: Any = None
    user: Any = None
    context: Any = None


class _File(msgspec.Struct, rename="kebab"):
    current_context: str | None = None
    clusters: list[_Entry] | None = None
    users: list[_Entry] | None = None
    contexts: list[_Entry] | None = None


def load_kubeconfig(path: str | None = None, context: str | None = None) -> ClusterAccess:
    """The access that a context names; the current one when ``context`` is None.

    ``path`` may hold several files, as ``$KUBECONFIG`` does; None reads that variable, then ``~/.kube/config``. Raises
    ``KubeconfigError``.
    """
    files = [(file, _read(file)) for file in _files(path)]
    source = ", ".join(str(file) for file, _ in files)
    name = context or next((found for _, content in files if (found := content.current_context)), "")
    if not name:
        raise KubeconfigError(f"{source}: no current-context is set: choose one with --context ({_known(files, 'context')})")
    _, chosen = _entry(files, "context", name, _Context)
    by = f"context {name!r} wants "
    base, cluster = _entry(files, "cluster", chosen.cluster, _Cluster, by=by)
    what = f"{base}: cluster {chosen.cluster!r}"
    identity = Identity()
    if chosen.user:
        user_base, user = _entry(files, "user", chosen.user, _User, by=by)
        identity = _identity(user, user_base, f"{user_base}: user {chosen.user!r}")
    return ClusterAccess(
        server=_url(cluster.server, f"{what}: server").rstrip("/"),
        identity=identity,
        namespace=chosen.namespace or "default",
        ca=_material(cluster.certificate_authority_data, cluster.certificate_authority, base, f"{what}: certificate-authority"),
        insecure=cluster.insecure_skip_tls_verify,
        tls_server_name=cluster.tls_server_name,
        proxy_url=_url(cluster.proxy_url, f"{what}: proxy-url") if cluster.proxy_url else "",
        exec_config=next((entry.extension for entry in cluster.extensions or () if entry.name == EXEC_EXTENSION), None),
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
        usual = _path("~/.kube/config")
        if not usual.is_file():
            raise KubeconfigError(f"there is no kubeconfig: {usual} does not exist and KUBECONFIG is not set")
        return [usual]
    files = [_path(part) for part in given.split(os.pathsep) if part]
    there = [file for file in files if file.is_file()]
    if not there:
        raise KubeconfigError(f"there is no kubeconfig at {given}")
    return there


def _read(file: Path) -> _File:
    try:
        documents = yamlish.load_documents(file.read_text())
    except yamlish.YamlError as error:
        raise KubeconfigError(f"{file}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    document = documents[0] if documents else {}
    if not isinstance(document, dict):
        raise KubeconfigError(f"{file}: not a kubeconfig: a map with clusters, users and contexts is expected")
    return _typed(document, _File, str(file))


def _typed(value: Any, kind: type[S], what: str) -> S:
    try:
        return msgspec.convert(_without_nulls(value), kind)
    except msgspec.ValidationError as error:
        raise KubeconfigError(f"{what}: {error}") from error


def _without_nulls(value: Any) -> Any:
    """``namespace:`` with nothing behind it is as good as no namespace."""
    if isinstance(value, dict):
        return {key: _without_nulls(entry) for key, entry in value.items() if entry is not None}
    return [_without_nulls(entry) for entry in value] if isinstance(value, list) else value


def _entry(files: Sequence[tuple[Path, _File]], section: str, name: str, kind: type[S], *, by: str = "") -> tuple[Path, S]:
    """The file and the content of a named entry; the first file that has it wins."""
    for file, content in files:
        for entry in _entries(content, section):
            if entry.name == name:
                return file, _typed(getattr(entry, section) or {}, kind, f"{file}: {section} {name!r}")
    source = ", ".join(str(file) for file, _ in files)
    raise KubeconfigError(f"{source}: {by}{section} {name!r}, which does not exist ({_known(files, section)})")


def _entries(content: _File, section: str) -> Sequence[_Entry]:
    entries: Sequence[_Entry] | None = getattr(content, f"{section}s")
    return entries or ()


def _known(files: Sequence[tuple[Path, _File]], section: str) -> str:
    names = [entry.name for _, content in files for entry in _entries(content, section)]
    return f"there: {', '.join(names[:20])}" if names else f"there are no {section}s"


def _url(text: str, what: str) -> str:
    try:
        parts = urlsplit(text)
        fits = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none
        fits = False
    if not fits:
        raise KubeconfigError(f"{what} {text!r} is no http or https URL")
    return text


def _material(data: str, path: str, base: Path, what: str) -> bytes | Path | None:
    """Inline content decoded, or the path of a file; inline wins."""
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise KubeconfigError(f"{what}-data is not base64") from error
    if not path:
        return None
    file = _beside(base, path)
    if not file.is_file():
        raise KubeconfigError(f"{what} {file} does not exist")
    return file


def _beside(base: Path, path: str) -> Path:
    return base.parent / _path(path)


def _path(text: str) -> Path:
    """The path, with the user's home in place of ``~``. It stays where there is no home: a container's user may have none."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 - pathlib raises there


def _identity(user: _User, base: Path, what: str) -> Identity:
    if user.auth_provider:
        raise KubeconfigError(f"{what}: auth-provider is not supported any more by Kubernetes: use an exec plugin")
    certificate = _material(user.client_certificate_data, user.client_certificate, base, f"{what}: client-certificate")
    key = _material(user.client_key_data, user.client_key, base, f"{what}: client-key")
    if (certificate is None) is not (key is None):
        missing = "client-key" if key is None else "client-certificate"
        raise KubeconfigError(f"{what}: {missing} is missing: a client certificate and its key go together")
    if (user.as_uid or user.as_groups or user.as_user_extra) and not user.as_:
        raise KubeconfigError(f"{what}: as-uid, as-groups and as-user-extra need 'as', the user to act as")
    return Identity(
        token=user.token,
        token_file=_beside(base, user.token_file) if user.token_file else None,
        username=user.username,
        password=user.password,
        exec=_exec(user.exec, base, what) if user.exec else None,
        certificate=certificate,
        key=key,
        impersonate=user.as_,
        impersonate_uid=user.as_uid,
        impersonate_groups=tuple(user.as_groups or ()),
        impersonate_extra={key: tuple(values) for key, values in (user.as_user_extra or {}).items()},
    )


def _exec(config: _Exec, base: Path, what: str) -> ExecPlugin:
    if config.api_version not in EXEC_VERSIONS:
        raise KubeconfigError(f"{what}: exec.apiVersion {config.api_version!r}: {' or '.join(EXEC_VERSIONS)} is expected")
    if not config.command:
        raise KubeconfigError(f"{what}: exec.command is missing")
    mode = config.interactive_mode or "IfAvailable"
    if mode not in INTERACTIVE_MODES:
        raise KubeconfigError(f"{what}: exec.interactiveMode {mode!r}: one of {', '.join(INTERACTIVE_MODES)} is expected")
    command = config.command
    if "/" in command and not Path(command).is_absolute():
        command = str((base.parent / command).resolve())
    return ExecPlugin(
        command=command,
        args=tuple(config.args or ()),
        env={entry.name: entry.value for entry in config.env or ()},
        api_version=config.api_version,
        interactive_mode=mode,
        provide_cluster_info=config.provide_cluster_info,
        install_hint=config.install_hint,
    )
