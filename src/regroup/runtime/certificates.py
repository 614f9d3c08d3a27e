"""Certificates of the admission server: managed by ourselves, or mounted by somebody else.

Self-managed: a CA and a serving certificate live in one Secret, so that all replicas serve under the same CA. Whoever finds
them missing, damaged or near their end makes new ones, with the resourceVersion as precondition; the others take what won.
The CA outlives the serving certificate, and a new CA is trusted beside the old one until all serve under the new.
Outside a cluster the pair is only kept in memory.

API servers are told of a new CA before anything is served under it, and a replica that is behind never takes a newer CA away.
"""

import asyncio
import base64
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import structlog
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from regroup.kube.resources import SECRETS
from regroup.runtime.clock import Clock
from regroup.wire.client import Client
from regroup.wire.errors import AlreadyExists, BadRequest, Conflict, Invalid, NotFound, WireError
from regroup.wire.resource import Resource

CA_LIFE = timedelta(days=3650)
TRUST_ATTEMPTS = 5
SERVING_LIFE = timedelta(days=365)
RENEW_BEFORE = timedelta(days=60)
"""A certificate with less than this to live is replaced."""
BACKDATE = timedelta(minutes=10)
"""Certificates start this much in the past, for API servers whose clock is behind."""
CHECK_PERIOD = 60.0
"""Seconds between looks at the certificate's age and at who trusts it."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """PEM texts. ``ca`` may hold several certificates: what API servers shall trust."""

    ca: bytes
    ca_key: bytes
    certificate: bytes
    key: bytes


def issue(names: Sequence[str], *, now: datetime, trusted: bytes = b"") -> Bundle:
    """A new CA and a serving certificate for ``names`` (DNS names or IP addresses).

    ``trusted`` is an earlier CA that stays trusted beside the new one.
    """
    ca_key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "regroup webhook CA")])
    ca = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(ca_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + CA_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(sign_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    key, certificate = _serving(names, ca=ca, ca_key=ca_key, now=now)
    return Bundle(_pem(ca) + _first_certificate(trusted), _key_pem(ca_key), certificate, key)


def renew(bundle: Bundle, names: Sequence[str], *, now: datetime) -> Bundle:
    """A new serving certificate under the CA of ``bundle``. Raises ``ValueError`` for a bundle that is damaged."""
    ca = x509.load_pem_x509_certificates(bundle.ca)[0]
    ca_key = serialization.load_pem_private_key(bundle.ca_key, password=None)
    if not isinstance(ca_key, ec.EllipticCurvePrivateKey):
        raise ValueError("the CA key is not an elliptic curve key")  # noqa: TRY004 - a damaged bundle, not a wrong call
    key, certificate = _serving(names, ca=ca, ca_key=ca_key, now=now)
    return Bundle(bundle.ca, bundle.ca_key, certificate, key)


def refreshed(bundle: Bundle | None, names: Sequence[str], *, now: datetime) -> Bundle:
    """``bundle`` itself while it is good, else what shall take its place. Pure but for the keys that it draws."""
    if bundle is None:
        return issue(names, now=now)
    try:
        ca = x509.load_pem_x509_certificates(bundle.ca)[0]
        _check_pair(ca, bundle.ca_key)
        if not _lives(ca, now=now, at_least=RENEW_BEFORE + SERVING_LIFE):
            return issue(names, now=now, trusted=bundle.ca)
        if _serves(bundle, ca, names, now=now):
            return bundle
        return renew(bundle, names, now=now)
    except (ValueError, TypeError, IndexError):
        return issue(names, now=now)


def _serves(bundle: Bundle, ca: x509.Certificate, names: Sequence[str], *, now: datetime) -> bool:
    """Whether the serving pair fits itself, the CA and the names, and lives for a while."""
    try:
        serving = x509.load_pem_x509_certificate(bundle.certificate)
        _check_pair(serving, bundle.key)
        serving.verify_directly_issued_by(ca)
        covered = _names(serving)
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    return _lives(serving, now=now, at_least=RENEW_BEFORE) and {_plain(name) for name in names} <= covered


def _lives(certificate: x509.Certificate, *, now: datetime, at_least: timedelta) -> bool:
    return certificate.not_valid_before_utc <= now and certificate.not_valid_after_utc - now >= at_least


def _check_pair(certificate: x509.Certificate, key: bytes) -> None:
    """Raises ``ValueError`` when the key is not the certificate's."""
    if serialization.load_pem_private_key(key, password=None).public_key() != certificate.public_key():
        raise ValueError("the key does not belong to the certificate")


class Certificates:
    """What the admission server serves with, kept fresh."""

    def __init__(self, *, names: Sequence[str], clock: Clock, log: Any = None) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._names = tuple(names)
        self._clock = clock
        self._log = log or structlog.get_logger("certificates")
        self._bundle: Bundle | None = None

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
            except WireError as error:
                self._log.warning("certificates not looked at; trying again", error=str(error)[:300])
            else:
                self._use(bundle)

    async def _look(self, client: Client | None, *, namespace: str, secret: str) -> Bundle:
        if client is None:
            return refreshed(self._bundle, self._names, now=self._clock.now())
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
            wanted = refreshed(stored, self._names, now=self._clock.now())
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
        trusted = x509.load_pem_x509_certificates(base64.b64decode(bundle or ""))
    except (ValueError, TypeError):
        return False
    return set(x509.load_pem_x509_certificates(ca)) <= set(trusted)


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


def _serving(
    names: Sequence[str], *, ca: x509.Certificate, ca_key: ec.EllipticCurvePrivateKey, now: datetime
) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])]))
        .issuer_name(ca.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + SERVING_LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return _key_pem(key), _pem(certificate)


def _key_usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names(certificate: x509.Certificate) -> set[str]:
    extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {*extension.get_values_for_type(x509.DNSName), *map(str, extension.get_values_for_type(x509.IPAddress))}


def _plain(name: str) -> str:
    """A name as a certificate gives it back."""
    try:
        return str(ip_address(name))
    except ValueError:
        return name


def _first_certificate(pem: bytes) -> bytes:
    return _pem(x509.load_pem_x509_certificates(pem)[0]) if pem else b""


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


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
