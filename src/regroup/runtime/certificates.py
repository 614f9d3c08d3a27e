"""Certificates of the admission server: managed by ourselves, or mounted by somebody else.

Self-managed: a CA and a serving certificate live in one Secret, so that all replicas serve under the same CA. Whoever finds
them missing, damaged or near their end makes new ones, with the resourceVersion as precondition; the others take what won.
The CA outlives the serving certificate, and a new CA is trusted beside the old one until all serve under the new.
Outside a cluster the pair is only kept in memory.
"""

import asyncio
import base64
import ssl
import tempfile
from collections.abc import Callable, Mapping, Sequence
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
from regroup.wire.errors import AlreadyExists, Conflict, NotFound, WireError
from regroup.wire.resource import Resource

CA_LIFE = timedelta(days=3650)
SERVING_LIFE = timedelta(days=365)
RENEW_BEFORE = timedelta(days=60)
"""A certificate with less than this to live is replaced."""
BACKDATE = timedelta(minutes=10)
"""Certificates start this much in the past, for API servers whose clock is behind."""
CHECK_PERIOD = 3600.0
"""Seconds between looks at the certificate's age, and at mounted files."""


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
        if ca.not_valid_after_utc - now < RENEW_BEFORE + SERVING_LIFE:
            return issue(names, now=now, trusted=bundle.ca)
        serving = x509.load_pem_x509_certificate(bundle.certificate)
        serialization.load_pem_private_key(bundle.key, password=None)
        if serving.issuer == ca.subject and serving.not_valid_after_utc - now >= RENEW_BEFORE and set(names) <= _names(serving):
            serving.verify_directly_issued_by(ca)
            return bundle
        return renew(bundle, names, now=now)
    except (ValueError, TypeError, IndexError, InvalidSignature):
        return issue(names, now=now)


class Certificates:
    """What the admission server serves with, kept fresh.

    ``on_trust`` is called with the CA bundle whenever it changes, before the certificate that needs it is served.
    """

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
        if client is None:
            bundle = refreshed(self._bundle, self._names, now=self._clock.now())
        else:
            bundle = await self._from_secret(client, namespace=namespace, name=secret)
        if bundle != self._bundle:
            self._use(bundle)

    async def keep(
        self, *, client: Client | None = None, namespace: str = "", secret: str = "", on_trust: Callable[[bytes], Any]
    ) -> None:
        """Look every hour, for ever; ``on_trust`` may be a coroutine function."""
        while True:
            await asyncio.sleep(CHECK_PERIOD)
            before = self.ca
            try:
                await self.load(client=client, namespace=namespace, secret=secret)
                if self.ca != before:
                    answer = on_trust(self.ca)
                    if asyncio.iscoroutine(answer):
                        await answer
            except WireError as error:
                self._log.warning("certificates not looked at; trying again in an hour", error=str(error)[:300])

    def use_files(self, *, certificate: Path, key: Path) -> None:
        """Serve with mounted files, for instance from cert-manager. Raises ``OSError`` or ``ssl.SSLError``."""
        self.context.load_cert_chain(certificate, key)

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
            body: dict[str, Any] = {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": "Opaque",
                "metadata": {"name": name, "namespace": namespace},
                "data": _to_data(wanted),
            }
            try:
                if current is None:
                    await client.create(SECRETS, body, namespace=namespace)
                else:
                    body["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
                    await client.replace(SECRETS, name, body, namespace=namespace)
            except (AlreadyExists, Conflict):
                # Another replica was faster: take what it wrote.
                continue
            self._log.info("new webhook certificate", secret=f"{namespace}/{name}", names=list(self._names))
            return wanted
        raise WireError(f"the Secret {namespace}/{name} keeps changing under us")

    def _use(self, bundle: Bundle) -> None:
        # ssl reads certificates only from files; these are readable by us alone and gone at once.
        with tempfile.TemporaryDirectory(prefix="regroup-cert-") as folder:
            certificate, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            certificate.write_bytes(bundle.certificate)
            key.touch(mode=0o600)
            key.write_bytes(bundle.key)
            self.context.load_cert_chain(certificate, key)
        self._bundle = bundle


async def trust(client: Client, configurations: Mapping[Resource, Sequence[str]], ca: bytes) -> None:
    """Put ``ca`` into every webhook of the named configurations that does not have it yet. Raises ``WireError``.

    A configuration that is not there is left alone: whoever installs it later is served at the next look.
    """
    text = base64.b64encode(ca).decode()
    for resource, names in configurations.items():
        for name in names:
            try:
                current = await client.get(resource, name, type=dict)
            except NotFound:
                continue
            operations: list[dict[str, Any]] = [
                {"op": "add", "path": f"/webhooks/{position}/clientConfig/caBundle", "value": text}
                for position, webhook in enumerate(current.get("webhooks") or [])
                if (webhook.get("clientConfig") or {}).get("caBundle") != text
            ]
            if operations:
                version = current["metadata"]["resourceVersion"]
                test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
                await client.json_patch(resource, name, [test, *operations])


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
    except (KeyError, ValueError):
        return None
    return Bundle(ca, ca_key, certificate, key)


def _stamp(*paths: Path) -> tuple[float, ...] | None:
    try:
        return tuple(path.stat().st_mtime for path in paths)
    except OSError:
        return None
