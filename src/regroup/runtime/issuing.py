"""Makes and judges the certificates of the admission server. Pure but for the keys that it draws.

What reads and signs certificates takes a tenth of a small operator's memory, and is needed for a moment in months. Whoever lives
long does not import this: ``python -m`` of it answers one question and ends (``bundle.ask``).
"""

import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from regroup.runtime.bundle import RENEW_BEFORE, Bundle, Question, Verdict

CA_LIFE = timedelta(days=3650)
SERVING_LIFE = timedelta(days=365)
BACKDATE = timedelta(minutes=10)
"""Certificates start this much in the past, for API servers whose clock is behind."""


def judge(question: Question) -> Verdict:
    """The bundle to serve with from now on, and for how long it need not be looked at again."""
    bundle = refreshed(question.bundle, question.names, now=question.now)
    ca, serving = x509.load_pem_x509_certificates(bundle.ca)[0], x509.load_pem_x509_certificate(bundle.certificate)
    return Verdict(
        bundle=bundle,
        since=max(ca.not_valid_before_utc, serving.not_valid_before_utc),
        until=min(ca.not_valid_after_utc - SERVING_LIFE, serving.not_valid_after_utc) - RENEW_BEFORE,
    )


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


def main() -> None:
    """Answer one question: JSON on standard input and output."""
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    sys.stdout.buffer.write(msgspec.json.encode(judge(question)))


if __name__ == "__main__":
    main()
