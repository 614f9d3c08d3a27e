"""Credentials that change: exec plugins (real little programs), token files, and what follows a 401."""

import asyncio
import base64
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
import trustme
from aiohttp import web
from tests.wire.wire_servers import GET, script, served, transport_to

from regroup.wire import auth
from regroup.wire.auth import TOKEN_PERIOD, Authenticator, CredentialsFailed
from regroup.wire.kubeconfig import EXEC_VERSIONS, ClusterAccess, ExecPlugin, Identity

NOW = datetime(2026, 8, 1, 12, 0, 0, tzinfo=UTC)
COUNTED = 'echo x >> "$CALLS"; n=$(wc -l < "$CALLS" | tr -d " ")'
"""Shell: how often this has run so far is ``$n``."""


def answer(status: str, *, version: str = EXEC_VERSIONS[0]) -> str:
    """Shell that prints an ExecCredential; ``status`` may use shell variables in ``${}``."""
    return f'cat <<END\n{{"apiVersion":"{version}","kind":"ExecCredential","status":{status}}}\nEND'


def exec_identity(folder: Path, body: str, **options: object) -> Identity:
    command = script(folder, body)
    return Identity(exec=ExecPlugin(command=command, env={"CALLS": str(folder / "calls")}, **options))  # type: ignore[arg-type]  # a test's options


def calls(folder: Path) -> int:
    return len((folder / "calls").read_text().splitlines())


def authenticator(identity: Identity, *, now: datetime = NOW) -> Authenticator:
    return Authenticator(ClusterAccess(server="https://api.example.test", identity=identity), now=lambda: now)


async def authorization(source: Authenticator) -> str:
    return dict((await source.credentials()).headers)["authorization"]


async def test_many_requests_wait_for_one_run_of_the_plugin(tmp_path: Path) -> None:
    """A plugin may ask a person or a slow server: it runs once, however many requests need its answer, and never again while
    its answer (here without an end) holds."""
    source = authenticator(exec_identity(tmp_path, f"{COUNTED}\n" + answer('{"token":"t${n}"}')))

    seen = await asyncio.gather(*(authorization(source) for _ in range(20)))

    assert set(seen) == {"Bearer t1"}
    assert calls(tmp_path) == 1


async def test_a_storm_of_401_makes_one_more_run(tmp_path: Path) -> None:
    """Twenty requests that were refused with the same token ask the plugin once, not twenty times; all of them go again."""
    identity = exec_identity(tmp_path, f"{COUNTED}\n" + answer('{"token":"t${n}"}'))

    async def only_the_second(request: web.Request) -> web.Response:
        return web.Response(status=200 if request.headers["Authorization"] == "Bearer t2" else 401)

    async with served(only_the_second) as address, transport_to(f"http://{address}", identity=identity) as transport:
        answers = await asyncio.gather(*(transport.request(GET, timeout=20) for _ in range(20)))
        async with transport.stream(GET, connect_timeout=5, read_timeout=5) as stream:
            assert stream.status == 200

    assert [entry.status for entry in answers] == [200] * 20
    assert calls(tmp_path) == 2


@pytest.mark.parametrize("kind", ["plugin", "static", "basic"])
async def test_401_is_tried_again_once_and_only_where_it_may_help(tmp_path: Path, kind: str) -> None:
    """A plugin that only has refused tokens ends with the server's 401; fixed credentials are not sent again."""
    identity = {
        "plugin": exec_identity(tmp_path, f"{COUNTED}\n" + answer('{"token":"t${n}"}')),
        "static": Identity(token="fixed"),
        "basic": Identity(username="me", password="secret"),
    }[kind]
    seen: list[str] = []

    async def never(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        return web.Response(status=401)

    async with served(never) as address, transport_to(f"http://{address}", identity=identity) as transport:
        assert (await transport.request(GET, timeout=5)).status == 401

    basic = "Basic " + base64.b64encode(b"me:secret").decode()
    assert seen == {"plugin": ["Bearer t1", "Bearer t2"], "static": ["Bearer fixed"], "basic": [basic]}[kind]


@pytest.mark.parametrize(
    ("life", "after", "runs"),
    [(3600, 3569, 1), (3600, 3570, 2), (40, 29, 1), (40, 30, 2), (-5, 0, 2)],
)
async def test_a_plugin_is_asked_again_before_its_answer_expires(tmp_path: Path, life: int, after: int, runs: int) -> None:
    """Half a minute before, or after three quarters of a short life, so that a short one does not mean a run for each request."""
    expiry = (NOW + timedelta(seconds=life)).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = f"{COUNTED}\n" + answer(f'{{"token":"t${{n}}","expirationTimestamp":"{expiry}"}}')
    now = NOW
    source = Authenticator(
        ClusterAccess(server="https://api.example.test", identity=exec_identity(tmp_path, body)), now=lambda: now
    )

    await source.credentials()
    now += timedelta(seconds=after)
    await source.credentials()

    assert calls(tmp_path) == runs


@pytest.mark.parametrize("version", EXEC_VERSIONS)
async def test_a_plugin_is_told_what_it_may_know(tmp_path: Path, version: str) -> None:
    """KUBERNETES_EXEC_INFO in the version that was asked for; the cluster only when the kubeconfig wants that, and then with its
    CA, its proxy and its own configuration for plugins."""
    body = 'printf %s "$KUBERNETES_EXEC_INFO" > "$CALLS"; printf %s "$1" >> "$CALLS.args"\n' + answer(
        '{"token":"t"}', version=version
    )
    command = script(tmp_path, body)
    plugin = ExecPlugin(
        command=command, args=("an arg",), env={"CALLS": str(tmp_path / "info")}, api_version=version, provide_cluster_info=True
    )
    access = ClusterAccess(
        server="https://api.example.test",
        identity=Identity(exec=plugin),
        ca=b"pem",
        tls_server_name="name",
        proxy_url="http://proxy",
        exec_config={"audience": "me"},
    )

    await Authenticator(access).credentials()

    assert (tmp_path / "info.args").read_text() == "an arg"
    assert msgspec.json.decode((tmp_path / "info").read_bytes()) == {
        "apiVersion": version,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {
                "server": "https://api.example.test",
                "certificate-authority-data": base64.b64encode(b"pem").decode(),
                "tls-server-name": "name",
                "proxy-url": "http://proxy",
                "config": {"audience": "me"},
            },
        },
    }


@pytest.mark.parametrize(
    ("mode", "terminal", "interactive"),
    [("IfAvailable", True, True), ("IfAvailable", False, False), ("Always", True, True), ("Never", True, False)],
)
async def test_a_plugin_may_use_the_terminal_only_if_it_may_and_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, terminal: bool, interactive: bool
) -> None:
    """interactiveMode: the plugin is told whether it may ask a person."""
    monkeypatch.setattr(auth, "_at_terminal", lambda: terminal)
    body = 'printf %s "$KUBERNETES_EXEC_INFO" > "$CALLS"\n' + answer('{"token":"t"}')
    source = authenticator(exec_identity(tmp_path, body, interactive_mode=mode))

    await source.credentials()

    info = msgspec.json.decode((tmp_path / "calls").read_bytes())
    assert info["spec"] == {"interactive": interactive}


async def test_a_plugin_that_must_ask_needs_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """interactiveMode Always without a terminal: said, and not run."""
    monkeypatch.setattr(auth, "_at_terminal", lambda: False)
    source = authenticator(exec_identity(tmp_path, COUNTED, interactive_mode="Always"))

    with pytest.raises(CredentialsFailed, match="needs a terminal"):
        await source.credentials()

    assert not (tmp_path / "calls").exists()


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ('{"token":"t","expirationTimestamp":"2026-08-01T12:00:00"}', "did not answer with an ExecCredential"),
        ('{"token":5}', "did not answer with an ExecCredential"),
        ('{"clientCertificateData":"pem"}', "neither a token nor a certificate with its key"),
        ('{"token":"two\\\\nlines"}', "characters that no header can carry"),
    ],
)
async def test_answers_that_cannot_be_used(tmp_path: Path, status: str, message: str) -> None:
    """A time without a zone, a wrong type, half a pair, a token that would break the request apart."""
    with pytest.raises(CredentialsFailed, match=message) as raised:
        await authenticator(exec_identity(tmp_path, answer(status))).credentials()

    assert "\n" not in str(raised.value)


async def test_a_plugin_that_is_not_there_is_named_with_its_hint(tmp_path: Path) -> None:
    """installHint: its first line is what to do."""
    plugin = ExecPlugin(command=str(tmp_path / "gone"), install_hint="\nget it from the portal\nmore words")

    with pytest.raises(CredentialsFailed, match=r"gone: No such file or directory \(get it from the portal\)$"):
        await authenticator(Identity(exec=plugin)).credentials()


@pytest.mark.parametrize("ends", ["limit", "cancel"])
async def test_a_plugin_that_hangs_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str) -> None:
    """Its time is limited; when nobody waits any more it does not stay behind either."""
    monkeypatch.setattr(auth, "EXEC_LIMIT", 0.5 if ends == "limit" else 60.0)
    os.mkfifo(tmp_path / "calls")
    # Plugin and child hold the pipe's writing end: its reader comes to the end when both are gone.
    source = authenticator(exec_identity(tmp_path, 'exec 9> "$CALLS"\nsleep 1000 &\necho started >&9\nwait'))
    asking = asyncio.create_task(source.credentials())
    with await asyncio.to_thread((tmp_path / "calls").open) as pipe:
        assert await asyncio.to_thread(pipe.readline) == "started\n"
        if ends == "cancel":
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        else:
            with pytest.raises(CredentialsFailed, match=r"gave no answer within 0\.5 s"):
                await asking
        async with asyncio.timeout(10):
            assert await asyncio.to_thread(pipe.read) == ""


async def test_certificates_of_a_plugin_are_presented(tmp_path: Path) -> None:
    """clientCertificateData and clientKeyData: the server sees them; new ones after they expire mean new connections."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    for number in (1, 2):
        issued = authority.issue_cert(f"n{number}@example.test")
        status = {
            "clientCertificateData": issued.cert_chain_pems[0].bytes().decode(),
            "clientKeyData": issued.private_key_pem.bytes().decode(),
            "expirationTimestamp": "2020-01-01T00:00:00Z",
        }
        credential = {"apiVersion": EXEC_VERSIONS[0], "kind": "ExecCredential", "status": status}
        (tmp_path / f"answer{number}").write_bytes(msgspec.json.encode(credential))
    came: list[str] = []

    async def who(request: web.Request) -> web.Response:
        assert request.transport is not None
        came.append(request.transport.get_extra_info("peercert")["subjectAltName"][0][1])
        return web.Response()

    identity = exec_identity(tmp_path, f'{COUNTED}\ncat "$(dirname "$0")/answer$n"')
    async with (
        served(who, context=context) as address,
        transport_to(f"https://{address}", identity=identity, ca=authority.cert_pem.bytes()) as transport,
    ):
        for _ in range(2):
            await transport.request(GET, timeout=5)

    assert came == ["n1@example.test", "n2@example.test"]


@pytest.mark.looptime
async def test_a_token_file_is_read_again_every_minute(tmp_path: Path) -> None:
    """A projected token rotates without anybody telling us; a file missing or empty for a moment does no harm."""
    file = tmp_path / "token"
    file.write_text("one\n")
    source = authenticator(Identity(token_file=file))

    assert await authorization(source) == "Bearer one"
    file.write_text("two")
    assert await authorization(source) == "Bearer one"
    await asyncio.sleep(TOKEN_PERIOD)
    assert await authorization(source) == "Bearer two"
    for broken in (lambda: file.write_text(""), file.unlink):
        broken()
        await asyncio.sleep(TOKEN_PERIOD)
        assert await authorization(source) == "Bearer two"
    file.write_text("three")
    await asyncio.sleep(TOKEN_PERIOD)
    assert await authorization(source) == "Bearer three"


@pytest.mark.parametrize(
    ("content", "message"), [(None, "No such file"), (b" \n", "empty"), (b"\xff", "decode"), (b"a\nb", "header")]
)
async def test_token_files_that_cannot_be_used(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(CredentialsFailed, match=message):
        await authenticator(Identity(token_file=file)).credentials()


async def test_a_token_file_wins_over_a_token_and_secrets_are_not_shown(tmp_path: Path) -> None:
    """kubectl's order; and no secret in any repr that a log could catch."""
    (tmp_path / "token").write_text("from-file")
    identity = Identity(token="hidden-token", token_file=tmp_path / "token", password="hidden-word", key=b"hidden-key")
    source = authenticator(identity)

    assert await authorization(source) == "Bearer from-file"
    assert "hidden" not in repr(identity)
    assert "from-file" not in repr(await source.credentials())


async def test_impersonation_headers_escape_what_headers_cannot_carry() -> None:
    """Keys of extras become lower case and percent-encoded, as the API server undoes it; groups come once each."""
    identity = Identity(
        impersonate="jane",
        impersonate_uid="u1",
        impersonate_groups=("a", "b"),
        impersonate_extra={"Example.org/Scope%": ("x", "y")},
    )

    assert (await authenticator(identity).credentials()).headers == (
        ("impersonate-user", "jane"),
        ("impersonate-uid", "u1"),
        ("impersonate-group", "a"),
        ("impersonate-group", "b"),
        ("impersonate-extra-example.org%2Fscope%25", "x"),
        ("impersonate-extra-example.org%2Fscope%25", "y"),
    )
