"""Reaching a cluster: kubeconfigs, credentials that change, and the HTTP transport against real local servers."""

import asyncio
import ssl
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
from aiohttp import web

from regroup.wire.auth import CredentialsFailed
from regroup.wire.errors import ConnectionFailed
from regroup.wire.http import HttpTransport
from regroup.wire.kubeconfig import ClusterAccess, Identity, KubeconfigError, in_cluster, load_kubeconfig
from regroup.wire.transport import Request, Response
from regroup.wire.yamlish import dump

GET = Request("GET", "/version", (("timeout", "5s"),), None, {"user-agent": "test"})
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def authorization(answer: Response) -> str:
    headers: dict[str, str] = msgspec.json.decode(answer.body)["headers"]
    return next(value for name, value in headers.items() if name.lower() == "authorization")


def kubeconfig(folder: Path, *, name: str = "config", user: dict[str, Any] | None = None, **cluster: Any) -> Path:
    file = folder / name
    file.write_text(
        dump(
            {
                "current-context": "c",
                "clusters": [{"name": "k", "cluster": {"server": "https://example.test:6443", **cluster}}],
                "users": [{"name": "u", "user": user or {}}],
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "inference"}}],
            }
        )
    )
    return file


@asynccontextmanager
async def served(handler: Handler, *, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def transport_to(access: ClusterAccess) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(access)
    try:
        yield transport
    finally:
        await transport.close()


async def echo(request: web.Request) -> web.Response:
    return web.json_response({"headers": dict(request.headers), "path": request.path_qs})


def test_the_current_context_is_read_with_relative_files(tmp_path: Path) -> None:
    """Paths are relative to the file they stand in; the namespace and the server come from the context."""
    (tmp_path / "ca.pem").write_text("pem")
    cluster: dict[str, Any] = {"certificate-authority": "ca.pem"}
    access = load_kubeconfig(str(kubeconfig(tmp_path, **cluster)))

    assert (access.server, access.namespace, access.ca) == ("https://example.test:6443", "inference", tmp_path / "ca.pem")


def test_several_files_merge_and_the_first_wins(tmp_path: Path) -> None:
    """$KUBECONFIG with several files, of which one need not exist."""
    first = tmp_path / "first"
    first.write_text(dump({"current-context": "other", "contexts": [{"name": "other", "context": {"cluster": "k"}}]}))
    paths = f"{tmp_path / 'missing'}:{first}:{kubeconfig(tmp_path)}"

    assert load_kubeconfig(paths).namespace == "default"
    assert load_kubeconfig(paths, "c").namespace == "inference"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"context": "nope"}, r"context 'nope', which does not exist|context 'nope' does not exist"),
        ({"cluster": {"server": "example.test"}}, "server 'example.test' is no http or https URL"),
        ({"user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "x"}}}, "exec.apiVersion"),
        ({"user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}}, "exec.command is missing"),
        ({"user": {"client-certificate": "gone.pem"}}, "gone.pem does not exist"),
        ({"user": {"client-key-data": "%%"}}, "client-key-data is not base64"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "auth-provider is not supported"),
    ],
)
def test_what_is_wrong_in_a_kubeconfig_is_said_with_its_place(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """One line with the file, the entry and the rule."""
    file = kubeconfig(tmp_path, user=change.get("user"), **change.get("cluster", {}))

    with pytest.raises(KubeconfigError, match=message) as raised:
        load_kubeconfig(str(file), change.get("context"))

    assert str(file) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_files_that_are_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="there is no kubeconfig"):
        load_kubeconfig(str(tmp_path / "missing"))
    broken = tmp_path / "broken"
    broken.write_text("a: [1\nb: }")
    with pytest.raises(KubeconfigError, match="line 2"):
        load_kubeconfig(str(broken))


def test_a_user_without_a_home_is_told_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container's user has neither HOME nor an entry in passwd: one line that says what is missing, no traceback."""
    for name in ("HOME", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 65532000)
    with pytest.raises(KubeconfigError, match=r"there is no kubeconfig: ~/\.kube/config does not exist"):
        load_kubeconfig()


def test_inside_a_cluster_the_pods_own_account_is_used(tmp_path: Path) -> None:
    """The service account's files and the two variables that every pod has; outside there is nothing."""
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    assert in_cluster(environ, folder=tmp_path) is None
    (tmp_path / "token").write_text("t")
    (tmp_path / "namespace").write_text("home\n")

    access = in_cluster(environ, folder=tmp_path)

    assert access is not None
    assert (access.server, access.namespace, access.identity.token_file) == ("https://[fd00::1]:443", "home", tmp_path / "token")
    assert in_cluster({}, folder=tmp_path) is None


async def test_requests_carry_identity_and_impersonation() -> None:
    """A token or basic credentials, and who to act as; the query goes out as it is."""
    identity = Identity(token="s3", impersonate="jane", impersonate_groups=("a", "b"), impersonate_extra={"Scope": ("x",)})
    async with (
        served(echo) as port,
        transport_to(ClusterAccess(server=f"http://127.0.0.1:{port}", identity=identity)) as transport,
    ):
        seen = msgspec.json.decode((await transport.request(GET, timeout=5)).body)

    headers = {name.lower(): value for name, value in seen["headers"].items()}
    assert headers["authorization"] == "Bearer s3"
    assert (headers["impersonate-user"], headers["impersonate-extra-scope"]) == ("jane", "x")
    assert seen["path"] == "/version?timeout=5s"


async def test_a_rotated_token_is_read_again_after_401(tmp_path: Path) -> None:
    """In-cluster tokens rotate: one 401 makes us read the file and ask once more."""
    token = tmp_path / "token"
    token.write_text("old")

    async def guarded(request: web.Request) -> web.Response:
        return web.Response(status=200 if request.headers["Authorization"] == "Bearer new" else 401)

    async with served(guarded) as port:
        access = ClusterAccess(server=f"http://127.0.0.1:{port}", identity=Identity(token_file=token))
        async with transport_to(access) as transport:
            assert (await transport.request(GET, timeout=5)).status == 401
            token.write_text("new")
            assert (await transport.request(GET, timeout=5)).status == 200


def plugin(folder: Path, body: str) -> dict[str, Any]:
    script = folder / "plugin.sh"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": "./plugin.sh", "interactiveMode": "Never"}


async def test_an_exec_plugin_gives_a_token_and_is_asked_again_when_it_expires(tmp_path: Path) -> None:
    """Expired credentials are renewed; the plugin gets KUBERNETES_EXEC_INFO."""
    answer = (
        '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        '"status":{"token":"t%s","expirationTimestamp":"2020-01-01T00:00:00Z"}}'
    )
    config = plugin(
        tmp_path,
        'echo x >> "$(dirname "$0")/calls"\n[ -n "$KUBERNETES_EXEC_INFO" ] || exit 1\n'
        f'printf \'{answer}\' "$(wc -l < "$(dirname "$0")/calls" | tr -d \' \')"',
    )
    async with served(echo) as port:
        file = kubeconfig(tmp_path, user={"exec": config}, server=f"http://127.0.0.1:{port}")
        async with transport_to(load_kubeconfig(str(file))) as transport:
            seen = [authorization(await transport.request(GET, timeout=5)) for _ in range(2)]

    assert seen == ["Bearer t1", "Bearer t2"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("echo nope >&2; exit 3", "ended with code 3: nope"),
        ("echo hello", "did not answer with an ExecCredential"),
        ('echo \'{"apiVersion":"client.authentication.k8s.io/v1","status":{}}\'', "neither a token nor a certificate"),
        ('echo \'{"apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"x"}}\'', "was asked for"),
    ],
)
async def test_a_plugin_that_fails_is_named(tmp_path: Path, body: str, message: str) -> None:
    file = kubeconfig(tmp_path, user={"exec": plugin(tmp_path, body)})
    async with transport_to(load_kubeconfig(str(file))) as transport:
        with pytest.raises(CredentialsFailed, match=message):
            await transport.request(GET, timeout=5)


async def test_tls_with_client_certificates(tmp_path: Path) -> None:
    """The server is verified by the CA of the kubeconfig, and sees our certificate; without the CA it is not trusted."""
    authority = trustme.CA()
    serving, client = authority.issue_cert("127.0.0.1"), authority.issue_cert("me@example.test")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    ca = authority.cert_pem.bytes()
    pair = Identity(certificate=client.cert_chain_pems[0].bytes(), key=client.private_key_pem.bytes())
    async with served(echo, context=context) as port:
        server = f"https://127.0.0.1:{port}"
        async with transport_to(ClusterAccess(server=server, identity=pair, ca=ca)) as transport:
            assert (await transport.request(GET, timeout=5)).status == 200
        async with transport_to(ClusterAccess(server=server, identity=pair)) as transport:
            with pytest.raises(ConnectionFailed, match="not trusted"):
                await transport.request(GET, timeout=5)


async def test_calls_and_silences_end() -> None:
    """C114: a server that accepts and says nothing ends a call at its limit and a stream at its read limit."""
    silence = asyncio.Event()

    async def silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if request.path == "/stream":
            await response.write(b"first")
        await silence.wait()
        return response

    async with served(silent) as port, transport_to(ClusterAccess(server=f"http://127.0.0.1:{port}")) as transport:
        with pytest.raises(ConnectionFailed, match="no answer within") as raised:
            await transport.request(GET, timeout=0.05)
        assert raised.value.maybe_done
        async with transport.stream(Request("GET", "/stream"), connect_timeout=5, read_timeout=0.05) as stream:
            pieces = stream.chunks()
            assert await anext(pieces) == b"first"
            with pytest.raises(ConnectionFailed, match="nothing came"):
                await anext(pieces)
        silence.set()


async def test_a_refused_connection_was_surely_not_done() -> None:
    """So that a create may be sent again; the message is the system's."""
    async with served(echo) as port:
        pass
    async with transport_to(ClusterAccess(server=f"http://127.0.0.1:{port}")) as transport:
        with pytest.raises(ConnectionFailed) as raised:
            await transport.request(GET, timeout=5)

    assert not raised.value.maybe_done
