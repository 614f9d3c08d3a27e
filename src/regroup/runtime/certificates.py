"""Certificates of the admission server: managed by ourselves, or mounted by somebody else.

Self-managed: a CA and a serving certificate live in one Secret, so that all replicas serve under the same CA. Whoever finds
them missing, damaged or near their end makes new ones, with the resourceVersion as precondition; the others take what won.
The CA outlives the serving certificate, and a new CA is trusted beside the old one until all serve under the new.
Outside a cluster the pair is only kept in memory.

API servers are told of a new CA before anything is served under it, and a replica that is behind never takes a newer CA away.
"""

import asyncio
import base64
import re
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from regroup.kube.resources import SECRETS
from regroup.runtime.bundle import Bundle, Question, Verdict, ask
from regroup.runtime.clock import Clock
from regroup.wire.client import Client
from regroup.wire.errors import AlreadyExists, BadRequest, Conflict, Invalid, NotFound, WireError
from regroup.wire.resource import Resource

TRUST_ATTEMPTS = 5
CHECK_PERIOD = 60.0
"""Seconds between looks at the certificate's age and at who trusts it."""
_PEM = re.compile("-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)


class Certificates:
    """What the admission server serves with, kept fresh."""

    def __init__(self, *, names: Sequence[str], clock: Clock, log: Any = None) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._names = tuple(names)
        self._clock = clock
        self._log = log or structlog.get_logger("certificates")
        self._bundle: Bundle | None = None
        self._verdict: Verdict | None = None
        """The last one, so that certificates are read only when they have changed or their time comes."""

    @property
    def ca(self) -> bytes:
        """The CA bundle in PEM. Raises ``RuntimeError`` before ``load``."""
        if self._bundle is None:
            raise RuntimeError("certificates are not loaded yet")
        return self._bundle.ca

    async def load(self, *, client: Client | None = None, namespace: str = "", secret: str = "") -> None:
        """Get or make the bundle: in the Secret when a client is given, else in memory. Raises ``WireError``."""
        self._use(await self._look(client, namespace=namespace, secret=secret))

    async def keep(
        self,
        *,
        client: Client | None = None,
        namespace: str = "",
        secret: str = "",
        on_trust: Callable[[bytes], Awaitable[None]],
    ) -> None:
        """Look every minute, for ever.

        Each look calls ``on_trust`` with the CA bundle, also with an unchanged one, so that whoever lost it or came late gets
        it; a new certificate is served only after that has succeeded.
        """
        while True:
            await asyncio.sleep(CHECK_PERIOD)
            try:
                bundle = await self._look(client, namespace=namespace, secret=secret)
                await on_trust(bundle.ca)
            except (WireError, OSError) as error:
                self._log.warning("certificates not looked at; trying again", error=str(error)[:300])
            else:
                self._use(bundle)

    async def _look(self, client: Client | None, *, namespace: str, secret: str) -> Bundle:
        if client is None:
            return await self._judged(self._bundle)
        return await self._from_secret(client, namespace=namespace, name=secret)

    def use_files(self, *, certificate: Path, key: Path) -> None:
        """Serve with mounted files, for instance from cert-manager. Raises ``OSError`` or ``ssl.SSLError``."""
        _load(self.context, certificate.read_bytes(), key.read_bytes())

    async def follow_files(self, *, certificate: Path, key: Path, period: float = 30.0) -> None:
        """Load the files again whenever they change, for ever."""
        seen = _stamp(certificate, key)
        while True:
            await asyncio.sleep(period)
            stamp = _stamp(certificate, key)
            if stamp == seen or stamp is None:
                continue
            try:
                self.use_files(certificate=certificate, key=key)
            except (OSError, ssl.SSLError) as error:
                # Half-written pair: the old one stays in use and the next look tries again.
                self._log.warning("mounted certificate not usable", error=str(error)[:300])
            else:
                seen = stamp
                self._log.info("mounted certificate loaded again")

    async def _from_secret(self, client: Client, *, namespace: str, name: str) -> Bundle:
        for _ in range(10):
            try:
                current = await client.get(SECRETS, name, namespace=namespace, type=dict)
            except NotFound:
                current = None
            stored = _from_data((current or {}).get("data") or {})
            wanted = await self._judged(stored)
            if wanted == stored:
                return wanted
            new = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {"name": name, "namespace": namespace}}
            body: dict[str, Any] = {**(current or new), "data": {**((current or {}).get("data") or {}), **_to_data(wanted)}}
            try:
                if current is None:
                    await client.create(SECRETS, body, namespace=namespace)
                else:
                    # What was read carries its resourceVersion: a write in between makes this a Conflict.
                    await client.replace(SECRETS, name, body, namespace=namespace)
            except (AlreadyExists, Conflict):
                # Another replica was faster: take what it wrote.
                continue
            self._log.info("new webhook certificate", secret=f"{namespace}/{name}", names=list(self._names))
            return wanted
        raise WireError(f"the Secret {namespace}/{name} keeps changing under us")

    async def _judged(self, bundle: Bundle | None) -> Bundle:
        """``bundle`` itself while it is good, else what shall take its place."""
        now, known = self._clock.now(), self._verdict
        if known is None or known.bundle != bundle or not known.since <= now <= known.until:
            # In a thread: the process may take its time, and the lease has to be renewed meanwhile.
            known = self._verdict = await asyncio.to_thread(ask, Question(bundle, self._names, now))
        return known.bundle

    def _use(self, bundle: Bundle) -> None:
        if self._bundle is None or (self._bundle.certificate, self._bundle.key) != (bundle.certificate, bundle.key):
            _load(self.context, bundle.certificate, bundle.key)
        self._bundle = bundle


async def trust(client: Client, configurations: Mapping[Resource, Sequence[str]], ca: bytes) -> list[str]:
    """Make every webhook of the named configurations trust ``ca``; those that do already are left alone. Raises ``WireError``.

    Returns the configurations that are not there: whoever installs them later is served at the next look.
    """
    missing = []
    for resource, names in configurations.items():
        for name in names:
            for attempt in range(TRUST_ATTEMPTS):
                try:
                    if not await _trust_one(client, resource, name, ca):
                        missing.append(f"{resource}/{name}")
                    break
                except (Conflict, Invalid, BadRequest):
                    # Somebody changed the list of webhooks after we read it.
                    if attempt + 1 == TRUST_ATTEMPTS:
                        raise
    return missing


async def _trust_one(client: Client, resource: Resource, name: str, ca: bytes) -> bool:
    try:
        current = await client.get(resource, name, type=dict)
    except NotFound:
        return False
    text = base64.b64encode(ca).decode()
    operations: list[dict[str, Any]] = []
    for position, webhook in enumerate(current.get("webhooks") or []):
        if not _covers((webhook.get("clientConfig") or {}).get("caBundle"), ca):
            path = f"/webhooks/{position}"
            operations += [
                {"op": "test", "path": f"{path}/name", "value": webhook.get("name")},
                {"op": "add", "path": f"{path}/clientConfig/caBundle", "value": text},
            ]
    if operations:
        await client.json_patch(resource, name, operations)
    return True


def _covers(bundle: str | None, ca: bytes) -> bool:
    """Whether a ``caBundle`` has all certificates of ``ca``: one with more is that of a replica that is ahead of us."""
    try:
        return _certificates(ca.decode()) <= _certificates(base64.b64decode(bundle or "").decode())
    except ValueError:
        return False


def _certificates(pem: str) -> set[bytes]:
    """The certificates of a bundle, without their texts. Raises ``ValueError`` for what is no PEM."""
    return {base64.b64decode("".join(part.split()), validate=True) for part in _PEM.findall(pem)}


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Serve with this pair from the next handshake on. A bad one raises ``ssl.SSLError`` and changes nothing."""
    # ssl reads certificates only from files; these are readable by us alone and gone at once.
    with tempfile.TemporaryDirectory(prefix="regroup-cert-") as folder:
        certificate_file, key_file = Path(folder, "tls.crt"), Path(folder, "tls.key")
        certificate_file.write_bytes(certificate)
        key_file.touch(mode=0o600)
        key_file.write_bytes(key)
        # A pair that does not fit would leave a context without any certificate, so another one tries it first.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate_file, key_file)
        context.load_cert_chain(certificate_file, key_file)


def _to_data(bundle: Bundle) -> dict[str, str]:
    parts = {"ca.crt": bundle.ca, "ca.key": bundle.ca_key, "tls.crt": bundle.certificate, "tls.key": bundle.key}
    return {name: base64.b64encode(value).decode() for name, value in parts.items()}


def _from_data(data: Mapping[str, str]) -> Bundle | None:
    try:
        ca, ca_key, certificate, key = (base64.b64decode(data[name]) for name in ("ca.crt", "ca.key", "tls.crt", "tls.key"))
    except (KeyError, ValueError, TypeError):
        return None
    return Bundle(ca, ca_key, certificate, key)


def _stamp(*paths: Path) -> tuple[tuple[int, int], ...] | None:
    try:
        return tuple((found.st_mtime_ns, found.st_ino) for found in (path.stat() for path in paths))
    except OSError:
        return None
