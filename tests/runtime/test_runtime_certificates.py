"""Certificates of the admission server (design 4, 9): kept in one Secret by all replicas, rotated, trusted before use."""

import asyncio
import base64
import ssl
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from tests.runtime.edges_plane import NAMESPACE, START, Api, Log, start_api

from regroup.kube.resources import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from regroup.runtime.admission import AdmissionServer, allowed
from regroup.runtime.bundle import RENEW_BEFORE, Bundle
from regroup.runtime.certificates import CHECK_PERIOD, Certificates, trust
from regroup.runtime.clock import Clock, SystemClock
from regroup.runtime.issuing import SERVING_LIFE, issue, refreshed
from regroup.sandbox.apifaults import Match
from regroup.wire.client import Client
from regroup.wire.errors import Forbidden

NAMES = ["webhook.regroup-system.svc", "127.0.0.1"]
SECRET = "certificate"
CONFIGURATIONS = {MUTATING_WEBHOOKS: ["ours"], VALIDATING_WEBHOOKS: ["ours"]}


class SetClock:
    """A clock that a test puts forward."""

    def __init__(self, now: datetime) -> None:
        self.time = now

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


def cas(pem: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem)


def serving(bundle: Bundle) -> x509.Certificate:
    return x509.load_pem_x509_certificate(bundle.certificate)


def certificates_on(clock: Clock, *, names: list[str] | None = None) -> Certificates:
    return Certificates(names=names or NAMES, clock=clock, log=Log())


async def load(certificates: Certificates, client: Client) -> bytes:
    await certificates.load(client=client, namespace=NAMESPACE, secret=SECRET)
    return certificates.ca


async def secret_of(api: Api) -> dict[str, Any]:
    return await api.client.get(SECRETS, SECRET, namespace=NAMESPACE)


# -- the pure part


def test_a_good_bundle_stays() -> None:
    """Nothing is renewed while there is no need: a look writes nothing."""
    bundle = issue(NAMES, now=START)
    assert refreshed(bundle, NAMES, now=START + timedelta(days=200)) is bundle


def test_the_serving_certificate_is_renewed_in_time_under_the_same_ca() -> None:
    """Before its end a new certificate takes its place; whoever trusts the CA need not be told."""
    bundle = issue(NAMES, now=START)
    later = START + SERVING_LIFE - RENEW_BEFORE + timedelta(days=1)
    new = refreshed(bundle, NAMES, now=later)
    assert (new.ca, new.ca_key) == (bundle.ca, bundle.ca_key)
    assert serving(new).not_valid_after_utc == later + SERVING_LIFE
    serving(new).verify_directly_issued_by(cas(new.ca)[0])


def test_an_old_ca_stays_trusted_beside_the_new_one() -> None:
    """Replicas that still serve under the old CA must not be locked out; the one before that is forgotten."""
    first = issue(NAMES, now=START)
    second = refreshed(first, NAMES, now=START + timedelta(days=3500))
    third = refreshed(second, NAMES, now=START + timedelta(days=7000))
    assert cas(second.ca)[1] == cas(first.ca)[0]
    assert cas(third.ca)[1] == cas(second.ca)[0]
    assert len(cas(third.ca)) == 2
    serving(third).verify_directly_issued_by(cas(third.ca)[0])


def test_a_ca_always_outlives_what_it_signed() -> None:
    """Looked at every so often for thirty years, the serving certificate and its CA are valid each time."""
    bundle = issue(NAMES, now=START)
    for day in range(0, 365 * 30, 30):
        now = START + timedelta(days=day)
        bundle = refreshed(bundle, NAMES, now=now)
        for certificate in (serving(bundle), cas(bundle.ca)[0]):
            assert certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc
        assert cas(bundle.ca)[0].not_valid_after_utc >= serving(bundle).not_valid_after_utc


def test_other_names_need_another_certificate_and_more_names_do_not() -> None:
    """A certificate must cover what we are called by; the way an address is written does not matter."""
    bundle = issue(["a.svc", "b.svc", "::1"], now=START)
    assert refreshed(bundle, ["a.svc", "0:0:0:0:0:0:0:1"], now=START) is bundle
    new = refreshed(bundle, ["a.svc", "c.svc"], now=START)
    assert new.ca == bundle.ca
    assert refreshed(new, ["c.svc"], now=START) is new


def test_a_certificate_from_the_future_is_replaced() -> None:
    """Made while a clock was ahead, it would be refused by every API server."""
    bundle = issue(NAMES, now=START + timedelta(days=2))
    new = refreshed(bundle, NAMES, now=START)
    assert cas(new.ca)[0].not_valid_before_utc <= START
    assert serving(new).not_valid_before_utc <= START


OTHER = issue(NAMES, now=START)
GOOD = issue(NAMES, now=START)


@pytest.mark.parametrize(
    "damaged",
    [
        Bundle(b"", b"", b"", b""),
        Bundle(b"junk", GOOD.ca_key, GOOD.certificate, GOOD.key),
        Bundle(GOOD.ca, b"junk", GOOD.certificate, GOOD.key),
        Bundle(GOOD.ca, OTHER.ca_key, GOOD.certificate, GOOD.key),
        Bundle(GOOD.ca, GOOD.ca_key, b"junk", GOOD.key),
        Bundle(GOOD.ca, GOOD.ca_key, GOOD.certificate, b"junk"),
        Bundle(GOOD.ca, GOOD.ca_key, GOOD.certificate, OTHER.key),
        Bundle(GOOD.ca, GOOD.ca_key, OTHER.certificate, OTHER.key),
        Bundle(GOOD.ca, GOOD.ca_key, GOOD.ca, GOOD.ca_key),
    ],
)
def test_a_damaged_bundle_is_replaced_by_one_that_works(damaged: Bundle) -> None:
    """Whatever somebody did to the Secret: what comes out can be served and is trusted."""
    new = refreshed(damaged, NAMES, now=START)
    assert new != damaged
    assert refreshed(new, NAMES, now=START) is new
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "crt").write_bytes(new.certificate)
        Path(folder, "key").write_bytes(new.key)
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(Path(folder, "crt"), Path(folder, "key"))


# -- the Secret


@pytest.mark.looptime
async def test_replicas_that_start_together_serve_under_one_ca() -> None:
    """Several find no Secret: one creates it, the others take what it wrote."""
    api = await start_api()
    api.faults.slow(0.5)
    replicas = [certificates_on(api.clock) for _ in range(4)]
    bundles = await asyncio.gather(*(load(one, api.new_client(f"r{number}")) for number, one in enumerate(replicas)))
    assert len(set(bundles)) == 1
    assert base64.b64decode((await secret_of(api))["data"]["ca.crt"]) == bundles[0]


@pytest.mark.looptime
async def test_replicas_that_renew_together_agree() -> None:
    """The resourceVersion decides whose renewal counts."""
    api = await start_api()
    clock = SetClock(START)
    await load(certificates_on(clock), api.client)
    clock.time += timedelta(days=3500)
    api.faults.slow(0.5)
    replicas = [certificates_on(clock) for _ in range(3)]
    bundles = await asyncio.gather(*(load(one, api.new_client(f"r{number}")) for number, one in enumerate(replicas)))
    assert len(set(bundles)) == 1
    assert len([entry for entry in api.asked() if entry.code < 300 and entry.verb == "update"]) == 1


@pytest.mark.looptime
async def test_the_secret_keeps_what_others_put_there() -> None:
    """Labels, type and foreign keys survive a renewal; a settled Secret is only read."""
    api = await start_api()
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "example.dev/ours",
        "metadata": {"name": SECRET, "labels": {"team": "a"}},
        "data": {"note": base64.b64encode(b"hi").decode(), "ca.crt": base64.b64encode(b"junk").decode()},
    }
    await api.client.create(SECRETS, body, namespace=NAMESPACE)
    await load(certificates_on(api.clock), api.client)
    secret = await secret_of(api)
    assert (secret["type"], secret["metadata"]["labels"], "note" in secret["data"]) == ("example.dev/ours", {"team": "a"}, True)
    api.faults.record().clear()
    await load(certificates_on(api.clock), api.client)
    assert api.asked() == []


@pytest.mark.looptime
async def test_a_missing_right_is_an_error() -> None:
    """Forbidden is told to the caller, who names the right."""
    api = await start_api()
    api.faults.fail(403, match=Match(resource="secrets"))
    with pytest.raises(Forbidden):
        await load(certificates_on(api.clock), api.client)


@asynccontextmanager
async def kept(certificates: Certificates, api: Api, on_trust: Any) -> AsyncIterator[None]:
    keep = certificates.keep(client=api.client, namespace=NAMESPACE, secret=SECRET, on_trust=on_trust)
    task = asyncio.create_task(keep)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.mark.looptime
async def test_a_new_ca_is_trusted_before_it_is_served() -> None:
    """While API servers cannot be told, the old certificate stays in use; it is tried again until they are."""
    api = await start_api()
    clock = SetClock(START)
    certificates = certificates_on(clock)
    old = await load(certificates, api.client)
    told: list[tuple[bytes, bytes]] = []
    refuse = [True]

    async def on_trust(ca: bytes) -> None:
        told.append((ca, certificates.ca))
        if refuse[0]:
            raise Forbidden(403)

    async with kept(certificates, api, on_trust):
        clock.time += timedelta(days=3500)
        await asyncio.sleep(CHECK_PERIOD * 2 + 1)
        assert certificates.ca == old
        refuse[0] = False
        await asyncio.sleep(CHECK_PERIOD)
    assert certificates.ca != old
    assert [(ca == certificates.ca, serving == old) for ca, serving in told] == [(True, True)] * 3


@pytest.mark.looptime
async def test_an_api_outage_does_not_end_the_keeping() -> None:
    """A look that fails is made again."""
    api = await start_api()
    clock = SetClock(START)
    certificates = certificates_on(clock)
    old = await load(certificates, api.client)
    told: list[bytes] = []

    async def on_trust(ca: bytes) -> None:
        told.append(ca)

    async with kept(certificates, api, on_trust):
        clock.time += timedelta(days=320)
        down = api.faults.refuse()
        await asyncio.sleep(CHECK_PERIOD * 3)
        down.end()
        assert told == []
        await asyncio.sleep(CHECK_PERIOD * 2)
    assert told
    assert set(told) == {old}


# -- trust


def configuration(kind: str, bundles: list[bytes | None]) -> dict[str, Any]:
    webhooks = []
    for number, bundle in enumerate(bundles):
        client: dict[str, Any] = {"url": f"https://127.0.0.1:1/{number}"}
        if bundle is not None:
            client["caBundle"] = base64.b64encode(bundle).decode()
        common = {"sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": []}
        webhooks.append({"name": f"w{number}.example.dev", "clientConfig": client, **common})
    meta = {"name": "ours"}
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": meta, "webhooks": webhooks}


async def bundles_of(api: Api) -> list[bytes]:
    found: dict[str, Any] = await api.client.get(MUTATING_WEBHOOKS, "ours")
    return [base64.b64decode(webhook["clientConfig"].get("caBundle") or "") for webhook in found["webhooks"]]


@pytest.mark.looptime
async def test_trust_changes_only_what_lacks_the_bundle() -> None:
    """Webhooks that trust us are left alone, and a second call asks for no write at all."""
    api = await start_api()
    await api.client.create(MUTATING_WEBHOOKS, configuration(MUTATING_WEBHOOKS.kind, [None, GOOD.ca, OTHER.ca]))
    assert await trust(api.client, CONFIGURATIONS, GOOD.ca) == [f"{VALIDATING_WEBHOOKS}/ours"]
    assert await bundles_of(api) == [GOOD.ca] * 3
    patches = [entry.object for entry in api.asked() if entry.verb == "patch"]
    assert [operation["path"] for operation in patches[0] if operation["op"] == "add"] == [
        "/webhooks/0/clientConfig/caBundle",
        "/webhooks/2/clientConfig/caBundle",
    ]
    api.faults.record().clear()
    await trust(api.client, CONFIGURATIONS, GOOD.ca)
    assert api.asked() == []


@pytest.mark.looptime
async def test_a_replica_that_is_behind_does_not_take_a_newer_ca_away() -> None:
    """During a rotation the bundle holds both; the old one alone does not replace it."""
    api = await start_api()
    new = issue(NAMES, now=START, trusted=GOOD.ca)
    await api.client.create(MUTATING_WEBHOOKS, configuration(MUTATING_WEBHOOKS.kind, [new.ca]))
    await trust(api.client, CONFIGURATIONS, GOOD.ca)
    assert await bundles_of(api) == [new.ca]


@pytest.mark.looptime
async def test_replicas_that_tell_at_the_same_time_both_succeed() -> None:
    """Two patch the same webhooks; neither fails."""
    api = await start_api()
    await api.client.create(MUTATING_WEBHOOKS, configuration(MUTATING_WEBHOOKS.kind, [None, None]))
    api.faults.slow(0.5)
    await asyncio.gather(*(trust(api.new_client(f"r{number}"), CONFIGURATIONS, GOOD.ca) for number in range(3)))
    assert await bundles_of(api) == [GOOD.ca] * 2


@pytest.mark.looptime
async def test_a_webhook_that_moved_in_the_list_is_not_confused_with_another() -> None:
    """The list changes between our read and our write: nothing of the wrong webhook is touched, and we look again."""
    api = await start_api()
    body = configuration(MUTATING_WEBHOOKS.kind, [None, OTHER.ca])
    await api.client.create(MUTATING_WEBHOOKS, body)
    api.faults.slow(1.0, match=Match(verb="patch"))
    task = asyncio.create_task(trust(api.client, {MUTATING_WEBHOOKS: ["ours"]}, OTHER.ca))
    await asyncio.sleep(0.5)
    current: dict[str, Any] = await api.client.get(MUTATING_WEBHOOKS, "ours")
    current["webhooks"].reverse()
    current["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(GOOD.ca + OTHER.ca).decode()
    await api.client.replace(MUTATING_WEBHOOKS, "ours", current)
    await task
    assert await bundles_of(api) == [GOOD.ca + OTHER.ca, OTHER.ca]


# -- real handshakes


@asynccontextmanager
async def serving_on(context: ssl.SSLContext) -> AsyncIterator[int]:
    server = AdmissionServer(log=Log())
    server.register("/check", lambda _: allowed())
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(server.serve(host="127.0.0.1", port=0, context=context, ready=port.set_result))
    try:
        yield await port
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def handshake(port: int, ca: bytes, *, name: str = "127.0.0.1") -> x509.Certificate:
    """The certificate that is served to a client that trusts only ``ca``. Raises ``ssl.SSLError``."""
    context = ssl.create_default_context(cadata=ca.decode())
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    try:
        der: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(der)
    finally:
        writer.close()
        with suppress(ssl.SSLError, OSError):
            await writer.wait_closed()


@pytest.mark.http
async def test_a_review_over_a_real_handshake() -> None:
    """Who trusts the CA and calls us by one of the names gets an answer; who trusts another CA gets none."""
    certificates = certificates_on(SystemClock())
    await certificates.load()
    async with serving_on(certificates.context) as port:
        context = ssl.create_default_context(cadata=certificates.ca.decode())
        async with aiohttp.ClientSession() as session:
            review = {"request": {"uid": "u", "operation": "CREATE"}}
            url = f"https://127.0.0.1:{port}"
            async with session.post(f"{url}/check", json=review, ssl=context) as answer:
                assert (await answer.json())["response"] == {"uid": "u", "allowed": True}
            async with session.post(f"{url}/other", json=review, ssl=context) as answer:
                assert answer.status == 404
            async with session.post(f"{url}/check", data=b"junk", ssl=context) as answer:
                assert answer.status == 400
        await handshake(port, certificates.ca, name=NAMES[0])
        with pytest.raises(ssl.SSLCertVerificationError):
            await handshake(port, OTHER.ca)
        with pytest.raises(ssl.SSLCertVerificationError):
            await handshake(port, certificates.ca, name="another.svc")


@pytest.mark.http
async def test_a_rotated_certificate_is_served_without_a_restart() -> None:
    """The next handshake after a renewal gets the new certificate, under the old trust."""
    now = SystemClock().now()
    clock = SetClock(now - timedelta(days=320))
    certificates = certificates_on(clock)
    await certificates.load()
    async with serving_on(certificates.context) as port:
        before = await handshake(port, certificates.ca)
        clock.time = now
        await certificates.load()
        after = await handshake(port, certificates.ca)
    assert after.serial_number != before.serial_number
    assert after.issuer == before.issuer


@pytest.mark.http
async def test_mounted_files_are_loaded_again_and_a_half_written_pair_is_not(tmp_path: Path) -> None:
    """cert-manager rotates the files: a pair that does not fit leaves the old one in use, the whole pair takes its place."""
    now = SystemClock().now()
    one, two = issue(NAMES, now=now), issue(NAMES, now=now)
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_bytes(one.certificate)
    key.write_bytes(one.key)
    certificates = certificates_on(SystemClock())
    certificates.use_files(certificate=certificate, key=key)
    follow = asyncio.create_task(certificates.follow_files(certificate=certificate, key=key, period=0.01))
    async with serving_on(certificates.context) as port:
        assert await handshake(port, one.ca) == serving(one)
        certificate.write_bytes(two.certificate)
        await asyncio.sleep(0.1)
        assert await handshake(port, one.ca) == serving(one)
        key.write_bytes(two.key)
        async with asyncio.timeout(5):
            while True:
                with suppress(ssl.SSLError):
                    assert await handshake(port, two.ca) == serving(two)
                    break
                await asyncio.sleep(0.01)
    follow.cancel()
    with suppress(asyncio.CancelledError):
        await follow
