"""The transport over sockets: aiohttp with TLS, keep-alive, and time limits on everything.

A connection whose other end is gone is noticed: by TCP keepalive, by ``TCP_USER_TIMEOUT`` for what was sent and not acknowledged,
and by the time limit of every call and every read.
"""

import asyncio
import contextlib
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from regroup.wire.auth import Authenticator, Certificate
from regroup.wire.errors import ConnectionFailed
from regroup.wire.kubeconfig import ClusterAccess
from regroup.wire.transport import Request, Response, Stream

CONNECT_LIMIT = 10.0
KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_COUNT = 30, 10, 3
USER_TIMEOUT_MS = 30_000
"""Milliseconds that sent bytes may stay unacknowledged before the connection is given up."""
CONNECTIONS = 100
READ_SIZE = 256 * 1024


class HttpTransport:
    """A ``Transport`` to one cluster. Opens its session at the first request, on the loop that runs then."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self._base = access.server.rstrip("/")
        self._auth = Authenticator(access)
        self._session: aiohttp.ClientSession | None = None
        self._stamp: tuple[Any, ...] = ()
        self._context: ssl.SSLContext | bool = True
        self._closed = False
        self._opening = asyncio.Lock()

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send and read the whole answer. Raises ``ConnectionFailed`` or ``CredentialsFailed``."""
        answer = await self._once(request, timeout)
        if answer.status == 401 and self._auth.reject():
            answer = await self._once(request, timeout)
        return answer

    @asynccontextmanager
    async def stream(self, request: Request, *, connect_timeout: float, read_timeout: float) -> AsyncIterator[Stream]:
        """Open a stream. Raises ``ConnectionFailed`` or ``CredentialsFailed``."""
        answer = await self._open(request, connect_timeout, read_timeout)
        try:
            if answer.status == 401 and self._auth.reject():
                answer.close()
                answer = await self._open(request, connect_timeout, read_timeout)
            yield _HttpStream(answer, read_timeout)
        finally:
            # A watch is left in the middle of its body: the connection cannot be used again.
            answer.close()

    async def close(self) -> None:
        self._closed = True
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _once(self, request: Request, timeout: float) -> Response:
        sent = False
        try:
            async with asyncio.timeout(timeout):
                session = await self._ready()
                headers = await self._headers(request)
                sent = True
                async with session.request(
                    request.method, self._url(request), data=request.body, headers=headers, ssl=self._context, **self._options()
                ) as answer:
                    body = await answer.read()
                    return Response(answer.status, _lower(answer.headers), body)
        except TimeoutError:
            raise ConnectionFailed(f"no answer within {timeout:g} s", maybe_done=sent) from None
        except aiohttp.ClientConnectorError as error:
            raise ConnectionFailed(_reason(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionFailed(_reason(error), maybe_done=True) from error

    async def _open(self, request: Request, connect_timeout: float, read_timeout: float) -> aiohttp.ClientResponse:
        try:
            async with asyncio.timeout(connect_timeout):
                session = await self._ready()
                return await session.request(
                    request.method,
                    self._url(request),
                    data=request.body,
                    headers=await self._headers(request),
                    ssl=self._context,
                    timeout=aiohttp.ClientTimeout(total=None, sock_read=read_timeout),
                    read_bufsize=READ_SIZE,
                    **self._options(),
                )
        except TimeoutError:
            raise ConnectionFailed(f"no answer within {connect_timeout:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionFailed(_reason(error)) from error

    def _url(self, request: Request) -> URL:
        url = URL(self._base + request.path, encoded=True)
        return url.with_query(list(request.query)) if request.query else url

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if self._access.proxy_url:
            options["proxy"] = self._access.proxy_url
        if self._access.tls_server_name:
            options["server_hostname"] = self._access.tls_server_name
        return options

    async def _headers(self, request: Request) -> CIMultiDict[str]:
        headers: CIMultiDict[str] = CIMultiDict(request.headers)
        headers.update(await self._auth.headers())
        for name, value in self._auth.repeated_headers():
            headers.add(name, value)
        return headers

    async def _ready(self) -> aiohttp.ClientSession:
        """The session; a new one when certificates on disk or from a plugin have changed."""
        if self._closed:
            raise ConnectionFailed("the client is closed")
        async with self._opening:
            certificate = await self._auth.certificate() if self._base.startswith("https:") else None
            stamp = _stamps(self._access.ca, certificate)
            if self._session is None or stamp != self._stamp:
                if self._base.startswith("https:"):
                    self._context = _context(self._access, certificate)
                if self._session is not None:
                    # Requests under way on the old session end by themselves; new ones need the new certificates.
                    await self._session.close()
                self._session = _session()
                self._stamp = stamp
            return self._session


class _HttpStream:
    def __init__(self, answer: aiohttp.ClientResponse, read_timeout: float) -> None:
        self._answer = answer
        self._read_timeout = read_timeout

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        return _lower(self._answer.headers)

    async def chunks(self) -> AsyncIterator[bytes]:
        content = self._answer.content
        while True:
            try:
                piece = await content.readany()
            except TimeoutError:
                raise ConnectionFailed(f"nothing came for {self._read_timeout:g} s", maybe_done=True) from None
            except (aiohttp.ClientError, OSError) as error:
                raise ConnectionFailed(_reason(error), maybe_done=True) from error
            if not piece:
                return
            yield piece

    async def read(self) -> bytes:
        return b"".join([piece async for piece in self.chunks()])


def _session() -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=0, limit_per_host=0, keepalive_timeout=60.0, socket_factory=_socket)
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_LIMIT),
        auto_decompress=True,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("User-Agent", "Content-Type"),
        headers={"Accept-Encoding": "identity"},
        max_line_size=65536,
        max_field_size=65536,
    )


def _socket(info: tuple[Any, ...]) -> socket.socket:
    """A socket that notices when its other end is gone."""
    family, kind, protocol, *_ = info
    result = socket.socket(family, kind, protocol)
    with contextlib.suppress(OSError):  # a socket of another family than TCP
        result.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        result.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for name, value in (
            ("TCP_KEEPIDLE", KEEPALIVE_IDLE),
            ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL),
            ("TCP_KEEPCNT", KEEPALIVE_COUNT),
            ("TCP_USER_TIMEOUT", USER_TIMEOUT_MS),
        ):
            if hasattr(socket, name):
                result.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return result


def _context(access: ClusterAccess, certificate: Certificate | None) -> ssl.SSLContext:
    """The TLS settings of an access. Raises ``ConnectionFailed`` for certificates that cannot be used."""
    try:
        if access.ca is None:
            context = ssl.create_default_context()
        else:
            pem = access.ca if isinstance(access.ca, bytes) else access.ca.read_bytes()
            context = ssl.create_default_context(cadata=pem.decode())
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if access.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            _load(context, certificate)
    except (OSError, ValueError, ssl.SSLError) as error:
        raise ConnectionFailed(f"the certificates of {access.source or access.server} cannot be used: {error}") from error
    return context


def _load(context: ssl.SSLContext, certificate: Certificate) -> None:
    # ssl reads client certificates only from files; these are readable by us alone and gone at once.
    with tempfile.TemporaryDirectory(prefix="regroup-client-") as folder:
        paths: list[Path] = []
        for name, content in (("crt", certificate.certificate), ("key", certificate.key)):
            if isinstance(content, Path):
                paths.append(content)
                continue
            path = Path(folder, name)
            path.touch(mode=0o600)
            path.write_bytes(content)
            paths.append(path)
        context.load_cert_chain(paths[0], paths[1])


def _stamps(ca: bytes | Path | None, certificate: Certificate | None) -> tuple[Any, ...]:
    """What tells one set of certificates from the next: times of files, or the content itself."""
    parts = [ca, *((certificate.certificate, certificate.key) if certificate else ())]
    return tuple(part.stat().st_mtime_ns if isinstance(part, Path) and part.exists() else part for part in parts)


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _reason(error: BaseException) -> str:
    """What went wrong, for a person: the system's words where there are some."""
    inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(inner, ssl.SSLCertVerificationError):
        return f"the server's certificate is not trusted: {inner.verify_message}"
    return str(getattr(inner, "strerror", None) or inner or type(error).__name__)
