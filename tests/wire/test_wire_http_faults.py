"""The HTTP transport against real servers that cut, redirect, rotate and refuse."""

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from aiohttp import web
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat, load_pem_private_key
from tests.wire.wire_servers import GET, listening, served, transport_to

from regroup.wire.client import Client
from regroup.wire.errors import ApiError, ConnectionFailed
from regroup.wire.http import CONNECTIONS, USER_TIMEOUT_MS
from regroup.wire.kubeconfig import Identity
from regroup.wire.resource import Resource
from regroup.wire.transport import Request

PODS = Resource("", "v1", "pods", "Pod")


async def echo(request: web.Request) -> web.Response:
    return web.json_response({"path": request.raw_path, "agent": request.headers.get("User-Agent", "")})


async def head_of(reader: asyncio.StreamReader) -> bytes:
    """The next request's head; empty at the end of the connection."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "POST"])
async def test_nothing_is_sent_twice_behind_our_back(method: str) -> None:
    """A server that takes a request on a kept connection and hangs up has seen it once: whether it is sent again is the client's
    decision (a DELETE without a UID sent twice could hit a replacement)."""
    seen: list[bytes] = []

    async def hang_up_on_the_second(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await head_of(reader):
            seen.append(head.split(b" ", 1)[0])
            if len(seen) != 1:
                return
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            await writer.drain()

    async with listening(hang_up_on_the_second) as address, transport_to(f"http://{address}") as transport:
        assert (await transport.request(GET, timeout=5)).status == 200
        with pytest.raises(ConnectionFailed) as raised:
            await transport.request(Request(method, "/x"), timeout=5)

    assert raised.value.maybe_done
    assert seen == [b"GET", method.encode()]


async def test_connections_are_kept() -> None:
    """Many requests, one after the other, use one connection."""
    ports: set[Any] = set()

    async def who(request: web.Request) -> web.Response:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername"))
        return web.Response()

    async with served(who) as address, transport_to(f"http://{address}") as transport:
        for _ in range(5):
            await transport.request(GET, timeout=5)

    assert len(ports) == 1


async def test_requests_at_once_are_bounded_and_streams_do_not_count() -> None:
    """A burst waits for its turn, within its time limit; a request that never got one was surely not done."""
    inside, most = 0, 0
    gate, full = asyncio.Event(), asyncio.Event()

    async def count(request: web.Request) -> web.Response:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        if inside == CONNECTIONS:
            full.set()
        await gate.wait()
        inside -= 1
        return web.Response()

    async with served(count) as address, transport_to(f"http://{address}") as transport:
        burst = [asyncio.create_task(transport.request(GET, timeout=20)) for _ in range(CONNECTIONS)]
        await full.wait()
        with pytest.raises(ConnectionFailed) as raised:
            await transport.request(GET, timeout=0.05)
        gate.set()
        async with transport.stream(GET, connect_timeout=5, read_timeout=5) as stream:
            assert stream.status == 200
        assert [answer.status for answer in await asyncio.gather(*burst)] == [200] * CONNECTIONS

    assert not raised.value.maybe_done
    assert most <= CONNECTIONS + 1


async def test_redirects_are_not_followed() -> None:
    """Our credentials go to the server of the kubeconfig and nowhere else."""
    visits: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        visits.append(request.path)
        raise web.HTTPFound("/stolen")

    async with served(elsewhere) as address, transport_to(f"http://{address}") as transport:
        with pytest.raises(ApiError) as raised:
            await Client(transport).get(PODS, "a", namespace="b")

    assert raised.value.code == 302
    assert visits == ["/api/v1/namespaces/b/pods/a"]


async def test_paths_and_queries_arrive_as_they_were_meant() -> None:
    """A server with a path, selectors with signs that have a meaning in URLs, our own User-Agent."""
    async with served(echo) as address, transport_to(f"http://{address}/clusters/one/") as transport:
        request = Request("GET", "/api/v1/pods", (("labelSelector", "a in (b,c),d=e&f+g"),), None, {"user-agent": "regroup"})
        body = (await transport.request(request, timeout=5)).body

    assert b'"agent": "regroup"' in body
    path = body.decode()
    assert "/clusters/one/api/v1/pods?" in path
    assert "%26f%2Bg" in path


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"no http at all\r\n\r\n",
        b"",
    ],
)
async def test_cut_answers_are_connection_failures(answer: bytes) -> None:
    """Half a body, a missing last chunk, rubbish, nothing: one kind of error, and the request may have been done."""

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(answer)
        await writer.drain()

    async with listening(cut) as address, transport_to(f"http://{address}") as transport:
        with pytest.raises(ConnectionFailed) as raised:
            await transport.request(GET, timeout=5)
        with pytest.raises(ConnectionFailed):
            async with transport.stream(GET, connect_timeout=5, read_timeout=5) as stream:
                await stream.read()

    assert raised.value.maybe_done


async def test_a_stream_ends_cleanly() -> None:
    """Pieces as they come; the end of the body is the end of the iterator, not an error."""

    async def three(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in (b"a", b"b", b"c"):
            await response.write(piece)
        return response

    async with (
        served(three) as address,
        transport_to(f"http://{address}") as transport,
        transport.stream(GET, connect_timeout=5, read_timeout=5) as stream,
    ):
        assert b"".join([piece async for piece in stream.chunks()]) == b"abc"


async def test_a_closed_transport_says_so() -> None:
    async with served(echo) as address, transport_to(f"http://{address}") as transport:
        await transport.close()
        with pytest.raises(ConnectionFailed, match="closed"):
            await transport.request(GET, timeout=5)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no TCP_USER_TIMEOUT")
async def test_sockets_notice_that_the_other_end_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """C114: keepalive and the limit for unacknowledged bytes are set on the socket that is really used."""
    sockets: list[socket.socket] = []
    connector = aiohttp.TCPConnector.__init__

    def spy(self: Any, *, socket_factory: Any, **options: Any) -> None:
        def make(info: Any) -> socket.socket:
            sockets.append(socket_factory(info))
            return sockets[-1]

        connector(self, socket_factory=make, **options)

    monkeypatch.setattr(aiohttp.TCPConnector, "__init__", spy)
    async with served(echo) as address, transport_to(f"http://{address}") as transport:
        await transport.request(GET, timeout=5)
        assert sockets[0].getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert sockets[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == USER_TIMEOUT_MS


class Authority:
    """A CA, a server that asks for client certificates of it, and who came."""

    def __init__(self, *, name: str = "127.0.0.1") -> None:
        self.ca = trustme.CA()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(name).configure_cert(self.context)
        self.ca.configure_trust(self.context)
        self.context.verify_mode = ssl.CERT_OPTIONAL
        self.came: list[str] = []

    @property
    def pem(self) -> bytes:
        return self.ca.cert_pem.bytes()

    async def answer(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        certificate = request.transport.get_extra_info("peercert") or {}
        self.came.append(",".join(value for _, value in certificate.get("subjectAltName", ())))
        return web.Response()

    def pair(self, name: str) -> tuple[bytes, bytes]:
        issued = self.ca.issue_cert(name)
        return issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()


async def test_rotated_client_certificates_are_used_at_once_and_streams_go_on(tmp_path: Path) -> None:
    """New files mean new connections; a watch on the old one is not cut; a file missing in mid-rotation does no harm."""
    authority = Authority()
    certificate, key = tmp_path / "crt", tmp_path / "key"
    first, second = authority.pair("first@example.test"), authority.pair("second@example.test")
    go_on = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path != "/watch":
            return await authority.answer(request)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"before ")
        await go_on.wait()
        await response.write(b"after")
        return response

    certificate.write_bytes(first[0])
    key.write_bytes(first[1])
    identity = Identity(certificate=certificate, key=key)
    async with (
        served(answer, context=authority.context) as address,
        transport_to(f"https://{address}", identity=identity, ca=authority.pem) as transport,
        transport.stream(Request("GET", "/watch"), connect_timeout=5, read_timeout=5) as stream,
    ):
        await transport.request(GET, timeout=5)
        key.unlink()
        await transport.request(GET, timeout=5)
        certificate.write_bytes(second[0])
        key.write_bytes(second[1])
        await transport.request(GET, timeout=5)
        go_on.set()
        assert await stream.read() == b"before after"

    assert authority.came == ["first@example.test", "first@example.test", "second@example.test"]


async def test_a_rotated_ca_is_trusted(tmp_path: Path) -> None:
    """The CA file is read again when it changes; until then a server of another CA is refused, in words."""
    old, new = Authority(), Authority()
    ca = tmp_path / "ca.crt"
    ca.write_bytes(old.pem)
    async with served(new.answer, context=new.context) as address, transport_to(f"https://{address}", ca=ca) as transport:
        with pytest.raises(ConnectionFailed, match="not trusted") as raised:
            await transport.request(GET, timeout=5)
        ca.write_bytes(old.pem + new.pem)
        assert (await transport.request(GET, timeout=5)).status == 200

    assert not raised.value.maybe_done


async def test_the_name_in_the_certificate_counts() -> None:
    """tls-server-name stands for the host of the URL; a wrong name is refused; insecure takes anything."""
    authority = Authority(name="api.example.test")
    async with served(authority.answer, context=authority.context) as address:
        server = f"https://{address}"
        async with transport_to(server, ca=authority.pem) as transport:
            with pytest.raises(ConnectionFailed, match="not trusted"):
                await transport.request(GET, timeout=5)
        async with transport_to(server, ca=authority.pem, tls_server_name="api.example.test") as transport:
            assert (await transport.request(GET, timeout=5)).status == 200
        async with transport_to(server, insecure=True) as transport:
            assert (await transport.request(GET, timeout=5)).status == 200


async def test_certificates_that_cannot_be_used_are_said(tmp_path: Path) -> None:
    """Rubbish as CA, and a key with a password: one line, and nobody is asked."""
    authority = Authority()
    certificate, plain = authority.pair("me@example.test")
    locked = load_pem_private_key(plain, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    async with transport_to("https://127.0.0.1:1", ca=b"rubbish", source="/some/config") as transport:
        with pytest.raises(ConnectionFailed, match="certificates of /some/config cannot be used"):
            await transport.request(GET, timeout=5)
    identity = Identity(certificate=certificate, key=locked)
    async with transport_to("https://127.0.0.1:1", identity=identity, ca=authority.pem) as transport:
        with pytest.raises(ConnectionFailed, match="cannot be used"):
            await transport.request(GET, timeout=5)


class Proxy:
    """A proxy that tunnels, and whom it was asked for."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.asked: list[str] = []
        self.refuses = refuses

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await head_of(reader)
        self.asked.append(head.split(b"\r\n")[0].decode())
        if self.refuses:
            writer.write(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n")
            return
        port = self.asked[-1].split(" ")[1].rpartition(":")[2]
        there, back = await asyncio.open_connection("127.0.0.1", int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while piece := await source.read(65536):
                target.write(piece)
            target.close()

        await asyncio.gather(pump(reader, back), pump(there, writer), return_exceptions=True)


async def test_a_proxy_is_used_for_tls_as_well() -> None:
    """proxy-url: the tunnel goes to the server's name, and TLS is with the server, not with the proxy."""
    authority, proxy = Authority(name="api.example.test"), Proxy()
    async with served(authority.answer, context=authority.context) as address, listening(proxy) as between:
        server = f"https://api.example.test:{address.rpartition(':')[2]}"
        async with transport_to(server, ca=authority.pem, proxy_url=f"http://{between}") as transport:
            assert (await transport.request(GET, timeout=5)).status == 200

    assert proxy.asked == [f"CONNECT api.example.test:{address.rpartition(':')[2]} HTTP/1.1"]


async def test_the_environments_proxy_holds_unless_it_is_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTPS_PROXY and NO_PROXY as kubectl reads them; never for this machine; a refusal was surely not done."""
    proxy = Proxy(refuses=True)
    async with listening(proxy) as between:
        monkeypatch.setenv("https_proxy", f"http://{between}")
        monkeypatch.setenv("no_proxy", "0.0.0.0")
        async with transport_to("https://api.example.test:6443") as transport:
            with pytest.raises(ConnectionFailed, match="the proxy answered 407") as raised:
                await transport.request(GET, timeout=5)
        for server in ("https://0.0.0.0:1", "https://127.0.0.1:1", "https://localhost:1"):
            async with transport_to(server) as transport:
                with pytest.raises(ConnectionFailed):
                    await transport.request(GET, timeout=5)

    assert not raised.value.maybe_done
    assert proxy.asked == ["CONNECT api.example.test:6443 HTTP/1.1"]


async def test_proxies_that_cannot_be_used_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """SOCKS is not spoken; a proxy that is not there is told apart from the server; its password is not shown."""
    async with transport_to("https://api.example.test", proxy_url="http://me:secret@127.0.0.1:1") as transport:
        with pytest.raises(ConnectionFailed, match="the proxy cannot be reached") as raised:
            await transport.request(GET, timeout=5)
    assert "secret" not in str(raised.value)
    monkeypatch.setenv("https_proxy", "socks5://me:secret@127.0.0.1:1")
    async with transport_to("https://api.example.test") as transport:
        with pytest.raises(ConnectionFailed, match=r"proxy socks5://127.0.0.1:1 cannot be used"):
            await transport.request(GET, timeout=5)
