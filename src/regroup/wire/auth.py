"""Credentials that change while we run: tokens in files that rotate, and exec plugins whose answers expire."""

import asyncio
import base64
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from regroup.wire import codec
from regroup.wire.errors import WireError
from regroup.wire.kubeconfig import ClusterAccess, ExecPlugin

TOKEN_PERIOD = 60.0
"""Seconds between looks at a token file; a projected token is renewed long before it runs out."""
EXEC_LIMIT = 60.0
EARLY = timedelta(seconds=30)
"""An exec plugin is asked again this much before its answer expires."""


class CredentialsFailed(WireError):
    """No credentials could be had; one line that says from where and what to do."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate and its key: PEM, or files."""

    certificate: bytes | Path = field(repr=False)
    key: bytes | Path = field(repr=False)


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _ExecStatus | None = None


class Authenticator:
    """Gives the headers and the client certificate for one access, fresh ones when the old are stale."""

    def __init__(self, access: ClusterAccess, *, now: Callable[[], datetime] | None = None) -> None:
        self._access = access
        self._now = now or partial(datetime.now, UTC)  # expiry is in the wall's time, whatever clock the program runs by
        self._identity = access.identity
        self._token = ""
        self._token_at = -TOKEN_PERIOD
        self._exec: _ExecStatus | None = None
        self._lock = asyncio.Lock()

    async def headers(self) -> Mapping[str, str]:
        """Headers that carry who we are. Raises ``CredentialsFailed``."""
        headers = dict(self._impersonation())
        identity = self._identity
        if identity.token_file is not None:
            headers["authorization"] = f"Bearer {self._file_token(identity.token_file)}"
        elif identity.token:
            headers["authorization"] = f"Bearer {identity.token}"
        elif identity.username:
            pair = f"{identity.username}:{identity.password}".encode()
            headers["authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        elif identity.exec is not None:
            status = await self._plugin_status()
            if status.token:
                headers["authorization"] = f"Bearer {status.token}"
        return headers

    async def certificate(self) -> Certificate | None:
        """The client certificate to present, if any. Raises ``CredentialsFailed``."""
        identity = self._identity
        if identity.certificate is not None and identity.key is not None:
            return Certificate(identity.certificate, identity.key)
        if identity.exec is not None:
            status = await self._plugin_status()
            if status.client_certificate_data:
                return Certificate(status.client_certificate_data.encode(), status.client_key_data.encode())
        return None

    def reject(self) -> bool:
        """The server did not accept what it got (401): forget it. True when other credentials may come of asking again."""
        identity = self._identity
        self._token_at = -TOKEN_PERIOD
        self._exec = None
        return identity.token_file is not None or (identity.exec is not None and not identity.token)

    def _impersonation(self) -> Mapping[str, str]:
        identity = self._identity
        headers = {}
        if identity.impersonate:
            headers["impersonate-user"] = identity.impersonate
        if identity.impersonate_uid:
            headers["impersonate-uid"] = identity.impersonate_uid
        return headers

    def repeated_headers(self) -> list[tuple[str, str]]:
        """Headers that may come several times: groups and extras of impersonation."""
        identity = self._identity
        groups = [("impersonate-group", group) for group in identity.impersonate_groups]
        extras = [
            (f"impersonate-extra-{key.lower()}", value) for key, values in identity.impersonate_extra.items() for value in values
        ]
        return [*groups, *extras]

    def _file_token(self, file: Path) -> str:
        now = asyncio.get_running_loop().time()
        if now - self._token_at >= TOKEN_PERIOD or not self._token:
            try:
                token = file.read_text().strip()
            except OSError as error:
                if not self._token:
                    raise CredentialsFailed(f"cannot read the token file {file}: {error.strerror or error}") from error
                token = self._token  # between two rotations; the old one still serves
            if not token:
                raise CredentialsFailed(f"the token file {file} is empty")
            self._token, self._token_at = token, now
        return self._token

    async def _plugin_status(self) -> _ExecStatus:
        plugin = self._identity.exec
        assert plugin is not None  # noqa: S101 - callers have looked
        async with self._lock:  # one question at a time, however many requests wait for its answer
            status = self._exec
            if status is None or (status.expiration_timestamp and status.expiration_timestamp - EARLY <= self._now()):
                status = self._exec = await self._ask(plugin)
            return status

    async def _ask(self, plugin: ExecPlugin) -> _ExecStatus:
        interactive = sys.stdin is not None and sys.stdin.isatty() and plugin.interactive_mode != "Never"
        if plugin.interactive_mode == "Always" and not interactive:
            raise CredentialsFailed(f"the credential plugin {plugin.command} needs a terminal (interactiveMode Always)")
        info: dict[str, Any] = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": {"interactive": interactive}}
        if plugin.provide_cluster_info:
            info["spec"]["cluster"] = self._cluster_info()
        environment = {**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": codec.encode(info).decode()}
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                env=environment,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            hint = f" ({plugin.install_hint.strip().splitlines()[0]})" if plugin.install_hint.strip() else ""
            raise CredentialsFailed(
                f"cannot run the credential plugin {plugin.command}: {error.strerror or error}{hint}"
            ) from error
        try:
            async with asyncio.timeout(EXEC_LIMIT):
                output, complaint = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise CredentialsFailed(f"the credential plugin {plugin.command} gave no answer within {EXEC_LIMIT:g} s") from None
        if process.returncode != 0:
            said = complaint.decode(errors="replace").strip()[-300:]
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
        if access.ca is not None:
            data = access.ca if isinstance(access.ca, bytes) else access.ca.read_bytes()
            info["certificate-authority-data"] = base64.b64encode(data).decode()
        return info


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
