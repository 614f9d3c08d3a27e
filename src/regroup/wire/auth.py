"""Credentials that change while we run: tokens in files that rotate, and exec plugins whose answers expire."""

import asyncio
import base64
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import msgspec

from regroup.wire import codec
from regroup.wire.errors import WireError
from regroup.wire.kubeconfig import ClusterAccess, ExecPlugin, Identity

TOKEN_PERIOD = 60.0
"""Seconds between looks at a token file; a projected token is renewed long before it runs out."""
EXEC_LIMIT = 60.0
"""Seconds that a plugin may take."""
EXEC_LIMIT_INTERACTIVE = 600.0
"""The same when it may ask a person."""
EARLY = timedelta(seconds=30)
"""An exec plugin is asked again this much before its answer expires, or after three quarters of a shorter life."""
_HEADER_CHARACTERS = "!#$&'*+-.^_`|~"


class CredentialsFailed(WireError):
    """No credentials could be had; one line that says from where and what to do."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate and its key: PEM, or files."""

    certificate: bytes | Path = field(repr=False)
    key: bytes | Path = field(repr=False)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Headers that say who we are, and the certificate to present."""

    headers: tuple[tuple[str, str], ...] = field(repr=False)
    certificate: Certificate | None = None


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _ExecStatus | None = None


class Authenticator:
    """Gives the credentials for one access, fresh ones when the old are stale."""

    def __init__(self, access: ClusterAccess, *, now: Callable[[], datetime] | None = None) -> None:
        self._access = access
        self._now = now or partial(datetime.now, UTC)  # expiry is in the wall's time, whatever clock the program runs by
        self._identity = access.identity
        self._fixed = _impersonation(access.identity)
        self._current: Credentials | None = None
        self._renew_at: datetime | None = None
        """When the plugin's answer is stale, in the wall's time."""
        self._look_at = 0.0
        """When the token file is looked at again, in the loop's time."""
        self._lock = asyncio.Lock()

    async def credentials(self) -> Credentials:
        """What to present now. Raises ``CredentialsFailed``."""
        if self._current is not None and not self._stale():
            return self._current
        async with self._lock:  # one question at a time, however many requests wait for its answer
            if self._current is None or self._stale():
                self._current = await self._fresh()
            return self._current

    def reject(self, used: Credentials) -> bool:
        """The server did not accept ``used`` (401). True when other credentials are there or may come of asking again."""
        identity = self._identity
        if identity.token_file is None and (identity.exec is None or identity.token or identity.username):
            return False
        if used is self._current:  # else somebody else has got new ones since
            self._look_at, self._renew_at = 0.0, datetime.min.replace(tzinfo=UTC)
        return True

    def _stale(self) -> bool:
        if self._identity.token_file is not None:
            return asyncio.get_running_loop().time() >= self._look_at
        return self._renew_at is not None and self._renew_at <= self._now()

    async def _fresh(self) -> Credentials:
        identity = self._identity
        certificate = None
        if identity.certificate is not None and identity.key is not None:
            certificate = Certificate(identity.certificate, identity.key)
        token, basic = identity.token, ""
        if identity.token_file is not None:
            token = self._file_token(identity.token_file)
        elif not token and identity.username:
            basic = base64.b64encode(f"{identity.username}:{identity.password}".encode()).decode()
        elif not token and identity.exec is not None:
            status = await self._ask(identity.exec)
            self._renew_at = self._renewal(status)
            token = status.token
            if status.client_certificate_data:
                certificate = Certificate(status.client_certificate_data.encode(), status.client_key_data.encode())
        if not (token.isascii() and token.isprintable()):
            raise CredentialsFailed(
                f"the token of {self._access.source or self._access.server} has characters that no header can carry"
            )
        who = [("authorization", f"Bearer {token}")] if token else [("authorization", f"Basic {basic}")] if basic else []
        return Credentials((*who, *self._fixed), certificate)

    def _renewal(self, status: _ExecStatus) -> datetime | None:
        expiry = status.expiration_timestamp
        return expiry - min(EARLY, max((expiry - self._now()) / 4, timedelta())) if expiry is not None else None

    def _file_token(self, file: Path) -> str:
        token, why = "", "it is empty"
        try:
            token = file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = str(getattr(error, "strerror", None) or error)
        if not token and self._current is not None:
            # Between two rotations; the old one still serves.
            token = self._current.headers[0][1].removeprefix("Bearer ")
        if not token:
            raise CredentialsFailed(f"cannot use the token file {file}: {why}")
        self._look_at = asyncio.get_running_loop().time() + TOKEN_PERIOD
        return token

    async def _ask(self, plugin: ExecPlugin) -> _ExecStatus:
        interactive = plugin.interactive_mode != "Never" and _at_terminal()
        if plugin.interactive_mode == "Always" and not interactive:
            raise CredentialsFailed(f"the credential plugin {plugin.command} needs a terminal (interactiveMode Always)")
        info: dict[str, Any] = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": {"interactive": interactive}}
        if plugin.provide_cluster_info:
            info["spec"]["cluster"] = self._cluster_info()
        try:
            process = await _start(plugin, info=codec.encode(info).decode(), interactive=interactive)
        except (OSError, ValueError) as error:
            hint = f" ({plugin.install_hint.strip().splitlines()[0]})" if plugin.install_hint.strip() else ""
            why = str(getattr(error, "strerror", None) or error)
            raise CredentialsFailed(f"cannot run the credential plugin {plugin.command}: {why}{hint}") from error
        output, complaint = await _output(process, plugin, EXEC_LIMIT_INTERACTIVE if interactive else EXEC_LIMIT)
        if process.returncode != 0:
            said = " ".join(complaint.decode(errors="replace").split())[-300:]
            raise CredentialsFailed(f"the credential plugin {plugin.command} ended with code {process.returncode}: {said}")
        return _status(output, plugin)

    def _cluster_info(self) -> dict[str, Any]:
        access = self._access
        info: dict[str, Any] = {"server": access.server}
        if access.tls_server_name:
            info["tls-server-name"] = access.tls_server_name
        if access.insecure:
            info["insecure-skip-tls-verify"] = True
        if access.proxy_url:
            info["proxy-url"] = access.proxy_url
        if access.exec_config is not None:
            info["config"] = access.exec_config
        if access.ca is not None:
            try:
                data = access.ca if isinstance(access.ca, bytes) else access.ca.read_bytes()
            except OSError as error:
                raise CredentialsFailed(f"cannot read the CA file {error.filename}: {error.strerror}") from error
            info["certificate-authority-data"] = base64.b64encode(data).decode()
        return info


def _impersonation(identity: Identity) -> tuple[tuple[str, str], ...]:
    """Headers that say whom to act as; those of groups and extras may come several times."""
    single = [("impersonate-user", identity.impersonate), ("impersonate-uid", identity.impersonate_uid)]
    groups = [("impersonate-group", group) for group in identity.impersonate_groups]
    extras = [
        (f"impersonate-extra-{quote(key.lower(), safe=_HEADER_CHARACTERS)}", value)
        for key, values in identity.impersonate_extra.items()
        for value in values
    ]
    return tuple((name, value) for name, value in (*single, *groups, *extras) if value)


def _at_terminal() -> bool:
    try:
        return sys.stdin is not None and sys.stdin.isatty()
    except ValueError:  # closed
        return False


async def _start(plugin: ExecPlugin, *, info: str, interactive: bool) -> asyncio.subprocess.Process:
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env={**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": info},
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            # Questions to a person come on the error output: it stays the terminal's then.
            stderr=None if interactive else asyncio.subprocess.PIPE,
            start_new_session=not interactive,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # It may run already, with children that asyncio would leave behind.
        process = await starting
        _end(process)
        await process.wait()
        raise


async def _output(process: asyncio.subprocess.Process, plugin: ExecPlugin, limit: float) -> tuple[bytes, bytes]:
    try:
        async with asyncio.timeout(limit):
            output, complaint = await process.communicate()
    except TimeoutError:
        raise CredentialsFailed(f"the credential plugin {plugin.command} gave no answer within {limit:g} s") from None
    finally:
        if process.returncode is None:  # too late, or nobody waits any more
            _end(process)
            await process.wait()
    return output, complaint or b""


def _end(process: asyncio.subprocess.Process) -> None:
    """Kill it and, when it has a session of its own, what it has started."""
    with suppress(ProcessLookupError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _status(output: bytes, plugin: ExecPlugin) -> _ExecStatus:
    try:
        credential = codec.decode(output, _ExecCredential)
    except codec.DecodeError as error:
        raise CredentialsFailed(
            f"the credential plugin {plugin.command} did not answer with an ExecCredential: {error}"[:400]
        ) from error
    if credential.api_version != plugin.api_version:
        raise CredentialsFailed(
            f"the credential plugin {plugin.command} answered as {credential.api_version!r}, {plugin.api_version!r} was asked for"
        )
    status = credential.status
    if status is None or not (status.token or (status.client_certificate_data and status.client_key_data)):
        raise CredentialsFailed(f"the credential plugin {plugin.command} gave neither a token nor a certificate with its key")
    return status
