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
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from regroup.wire.auth import Authenticator, Certificate, Credentials
from regroup.wire.errors import ConnectionFailed
from regroup.wire.kubeconfig import ClusterAccess
from regroup.wire.transport import Request, Response, Stream

CONNECT_LIMIT = 10.0
KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_COUNT = 30, 10, 3
USER_TIMEOUT_MS = 30_000
"""Milliseconds that sent bytes may stay unacknowledged before the connection is given up."""
IDLE_LIMIT = 45.0
"""Seconds that an idle connection is kept: less than servers and load balancers keep theirs, so that none is used as it ends."""
CONNECTIONS = 100
"""Requests under way at once; streams do not count."""
READ_SIZE = 256 * 1024


class HttpTransport:
    """A ``Transport`` to one cluster. Opens its session at the first request, on the loop that runs then."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self._base = access.server.rstrip("/")
        self._auth = Authenticator(access)
        self._proxy = _proxy(access)
        self._session: aiohttp.ClientSession | None = None
        self._stamp: tuple[Any, ...] | None = None
        self._context: ssl.SSLContext | bool = True
        self._closed = False
        self._slots = asyncio.Semaphore(CONNECTIONS)

    async def request(self, request: Request, *, timeout: float) -> Response:
        """Send and read the whole answer. Raises ``ConnectionFailed`` or ``CredentialsFailed``."""
        # A plugin may ask a person: its time is not the request's.
        credentials = await self._auth.credentials()
        answer = await self._once(request, credentials, timeout)
        if answer.status == 401 and self._auth.reject(credentials):
            answer = await self._once(request, await self._auth.credentials(), timeout)
        return answer

    @asynccontextmanager
    async def stream(self, request: Request, *, connect_timeout: float, read_timeout: float) -> AsyncIterator[Stream]:
        """Open a stream. Raises ``ConnectionFailed`` or ``CredentialsFailed``."""
        credentials = await self._auth.credentials()
        answer = await self._open(request, credentials, connect_timeout, read_timeout)
        try:
            if answer.status == 401 and self._auth.reject(credentials):
                answer.close()
                answer = await self._open(request, await self._auth.credentials(), connect_timeout, read_timeout)
            yield _HttpStream(answer, read_timeout)
        finally:
            # A watch is left in the middle of its body: the connection cannot be used again.
            answer.close()

    async def close(self) -> None:
        self._closed = True
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _once(self, request: Request, credentials: Credentials, timeout: float) -> Response:
        sent = False
        try:
            async with asyncio.timeout(timeout), self._slots:
                sent = True
                async with await self._send(request, credentials) as answer:
                    return Response(answer.status, _lower(answer.headers), await answer.read())
        except TimeoutError as error:
            sent = sent and not isinstance(error, aiohttp.ConnectionTimeoutError)
            raise ConnectionFailed(f"no answer within {timeout:g} s", maybe_done=sent) from None
        except (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError) as error:
            raise ConnectionFailed(_reason(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionFailed(_reason(error), maybe_done=True) from error

    async def _open(
        self, request: Request, credentials: Credentials, connect_timeout: float, read_timeout: float
    ) -> aiohttp.ClientResponse:
        try:
            async with asyncio.timeout(connect_timeout):
                return await self._send(request, credentials, read_timeout=read_timeout)
        except TimeoutError:
            raise ConnectionFailed(f"no answer within {connect_timeout:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionFailed(_reason(error)) from error

    async def _send(
        self, request: Request, credentials: Credentials, *, read_timeout: float | None = None
    ) -> aiohttp.ClientResponse:
        headers: CIMultiDict[str] = CIMultiDict(request.headers)
        for name, value in credentials.headers:
            headers.add(name, value)
        url = URL(self._base + request.path, encoded=True)
        return await self._ready(credentials.certificate).request(
            request.method,
            url.with_query(list(request.query)) if request.query else url,
            data=request.body,
            headers=headers,
            # Where a server sends us is not where our credentials were meant to go.
            allow_redirects=False,
            ssl=self._context,
            server_hostname=self._access.tls_server_name or None,
            proxy=self._proxy or None,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_LIMIT, sock_read=read_timeout),
            read_bufsize=READ_SIZE,
        )

    def _ready(self, certificate: Certificate | None) -> aiohttp.ClientSession:
        """The session, with TLS settings that hold the certificates as they are now."""
        if self._closed:
            raise ConnectionFailed("the client is closed")
        if urlsplit(self._proxy).scheme not in {"", "http", "https"}:
            raise ConnectionFailed(f"the proxy {_without_login(self._proxy)} cannot be used: only http and https proxies can")
        if self._base.startswith("https:"):
            self._renew_context(certificate)
        if self._session is None:
            self._session = _session()
        return self._session

    def _renew_context(self, certificate: Certificate | None) -> None:
        stamp = _stamps(self._access.ca, certificate)
        if stamp == self._stamp:
            return
        try:
            # Connections belong to their context: new ones get this one, those in use go on until they end.
            self._context = _context(self._access, certificate)
        except ConnectionFailed:
            if self._stamp is None:
                raise
            # Files in the middle of a rotation; the old ones serve until the next request looks again.
            return
        self._stamp = stamp


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
    connector = aiohttp.TCPConnector(limit=0, limit_per_host=0, keepalive_timeout=IDLE_LIMIT, socket_factory=_socket)
    session = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("User-Agent", "Content-Type"),
        headers={"Accept-Encoding": "identity"},
        max_line_size=65536,
        max_field_size=65536,
    )
    # aiohttp would send DELETE and PUT a second time by itself after a lost connection. Whether that is safe only the client
    # knows; a test watches that this switch still works.
    session._retry_connection = False  # noqa: SLF001 - there is no public way
    return session


def _proxy(access: ClusterAccess) -> str:
    """The proxy of the access, else that of the environment, which never holds for this machine."""
    if access.proxy_url:
        return access.proxy_url
    parts = urlsplit(access.server)
    host = parts.hostname or ""
    if host in {"localhost", "::1"} or host.startswith("127."):
        return ""
    proxy = getproxies_environment().get(parts.scheme, "")
    return "" if not proxy or proxy_bypass(parts.netloc) else proxy


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


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
        # As other Kubernetes clients: any certificate of the bundle is an anchor, and cluster CAs without key identifiers, which
        # the strict checks of newer Pythons refuse, are common.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
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
        # Without this ssl would ask for the password of an encrypted key on the terminal.
        context.load_cert_chain(paths[0], paths[1], password=lambda: "")


def _stamps(ca: bytes | Path | None, certificate: Certificate | None) -> tuple[Any, ...]:
    """What tells one set of certificates from the next: times of files, or the content itself."""
    parts = [ca, *((certificate.certificate, certificate.key) if certificate else ())]
    return tuple(part.stat().st_mtime_ns if isinstance(part, Path) and part.exists() else part for part in parts)


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    """Names in lower case; what came in several headers of one name (``Warning``) is one, with commas."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        found[key] = f"{found[key]}, {value}" if key in found else value
    return found


def _reason(error: BaseException) -> str:
    """What went wrong, for a person: the system's words where there are some."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status} {error.message}"
    inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(inner, ssl.SSLCertVerificationError):
        return f"the server's certificate is not trusted: {inner.verify_message}"
    words = str(getattr(inner, "strerror", None) or inner or type(error).__name__)
    return f"the proxy cannot be reached: {words}" if isinstance(error, aiohttp.ClientProxyConnectionError) else words
