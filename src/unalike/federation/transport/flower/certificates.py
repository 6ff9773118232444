"""The federation's own certificate authority, the server's certificate, and the keys of nodes."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from unalike.errors import UserError
from unalike.runs.files import atomic_write

AUTHORITY_DAYS = 3650
SERVER_DAYS = 397
"""The longest life that common clients accept of a server's certificate."""
RENEW_BEFORE = timedelta(days=30)
LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""Always in the server's certificate: the proxy and the server's own processes reach the link there."""
_CLOCK_SKEW = timedelta(minutes=5)


def create_authority(folder: Path, name: str = "unalike federation", days: int = AUTHORITY_DAYS) -> None:
    """Make ``ca.pem``, which every site needs, and ``ca.key``, which never leaves the server's owner."""
    if (folder / "ca.key").exists():
        raise UserError(
            f"{folder / 'ca.key'} exists: renew the server's certificate instead, or choose another folder."
        )
    key = ec.generate_private_key(ec.SECP384R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    usage = _usage(key_cert_sign=True, crl_sign=True)
    builder = _builder(subject, subject, key.public_key(), days).add_extension(usage, critical=True)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    atomic_write(folder / "ca.key", _private_pem(key), private=True)
    atomic_write(folder / "ca.pem", _pem(builder.sign(key, hashes.SHA384())))


def issue_server(folder: Path, hosts: Iterable[str], days: int = SERVER_DAYS) -> None:
    """Make ``server.pem`` and ``server.key`` for these host names and IP addresses, signed by the authority."""
    authority, signer = _load_authority(folder)
    names = [_general_name(host) for host in dict.fromkeys([*hosts, *LOOPBACK])]
    key = ec.generate_private_key(ec.SECP384R1())
    first = next(iter(names)).value
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, str(first)[:64])])
    builder = _builder(subject, authority.subject, key.public_key(), days)
    for extension, critical in (
        (x509.SubjectAlternativeName(names), False),
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(digital_signature=True), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False),
    ):
        builder = builder.add_extension(extension, critical=critical)
    atomic_write(folder / "server.key", _private_pem(key), private=True)
    atomic_write(folder / "server.pem", _pem(builder.sign(signer, hashes.SHA384())))


def renew_if_due(folder: Path, host: str, now: datetime | None = None) -> bool:
    """Renew the server's certificate, where it must be and ``ca.key`` is there; whether that was done.

    It must be if it ends within a month, is not for ``host``, or does not fit its key: a renewal was cut off.
    """
    if not (folder / "ca.key").exists():
        return False
    certificate = _load(folder / "server.pem")
    hosts = server_hosts(folder)
    good = certificate.not_valid_after_utc - (now or datetime.now(UTC)) > RENEW_BEFORE and host in hosts
    if good and _public_of(folder / "server.key") == certificate.public_key():
        return False
    issue_server(folder, [host, *hosts])
    return True


def server_hosts(folder: Path) -> list[str]:
    """The host names and addresses that the server's certificate is for."""
    names = _load(folder / "server.pem").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def check_server(folder: Path, host: str, now: datetime | None = None) -> timedelta:
    """How long the server's certificate is still valid for ``host``, or one line that says why it is not."""
    now = now or datetime.now(UTC)
    path = folder / "server.pem"
    certificate, authority = _load(path), _load(folder / "ca.pem")
    for each, file in ((certificate, path), (authority, folder / "ca.pem")):
        if now > each.not_valid_after_utc:
            ended = f"{each.not_valid_after_utc:%Y-%m-%d}"
            raise UserError(f"{file} expired on {ended}: put ca.key beside it, and serve renews it.")
        if now < each.not_valid_before_utc:
            begins = f"{each.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
            raise UserError(f"{file} is valid only from {begins}: set this machine's clock.")
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception as error:
        raise UserError(
            f"{path} was not signed by {folder / 'ca.pem'}: restore the two that belong together."
        ) from error
    if host not in server_hosts(folder):
        hosts = ", ".join(server_hosts(folder))
        raise UserError(f"{path} is for {hosts}, not for {host!r}: put ca.key beside it, and serve issues one.")
    return certificate.not_valid_after_utc - now


def create_node_key(path: Path) -> bytes:
    """Write a node's private key (P-384, OpenSSH format, as Flower reads it) and return its public key in PEM."""
    if path.exists():
        raise UserError(f"{path} exists: a node's key is its identity. Move it away if a new identity is wanted.")
    key = ec.generate_private_key(ec.SECP384R1())
    coding = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    atomic_write(path, key.private_bytes(*coding), private=True)
    return public_key(path)


def public_key(path: Path) -> bytes:
    """The public key in PEM of a node's private key file."""
    try:
        key = serialization.load_ssh_private_key(path.read_bytes(), None)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is no private key of a node ({error}): make one by joining anew.") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP384R1):
        raise UserError(f"{path} is not a P-384 key: make one by joining anew.")
    return _public_pem(key.public_key())


def normalised_public_key(pem: bytes) -> bytes:
    """The same public key in the one spelling that Flower stores, or an error for anything but a P-384 key."""
    try:
        key = serialization.load_pem_public_key(pem)
    except ValueError as error:
        raise UserError(f"This is no public key in PEM ({error}): ask the site for its file again.") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise UserError("A node's public key must be P-384: ask the site for its file again.")
    return _public_pem(key)


def why_unreachable(address: str, root_certificate: Path, seconds: float = 5.0) -> str | None:
    """None where a TLS connection to ``address`` (host:port) stands, else one line that says why not."""
    host, port = split_address(address)
    try:
        context = ssl.create_default_context(cafile=str(root_certificate))
        with socket.create_connection((host, port), timeout=seconds) as plain:
            context.wrap_socket(plain, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        return f"the server's certificate is not accepted ({error.verify_message})"
    except ssl.SSLError as error:
        return f"{address} does not speak TLS ({error.reason or error})"
    except OSError as error:
        return f"{address} cannot be reached ({error.strerror or error})"
    return None


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[v6]:port``."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise UserError(f"{address!r} is no address: write host:port, for example hospital.example:9443.")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - _CLOCK_SKEW).not_valid_after(now + timedelta(days=days))


def _usage(**used: bool) -> x509.KeyUsage:
    kinds = "digital_signature content_commitment key_encipherment data_encipherment key_agreement"
    flags = {kind: used.get(kind, False) for kind in [*kinds.split(), "key_cert_sign", "crl_sign"]}
    return x509.KeyUsage(**flags, encipher_only=False, decipher_only=False)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError as error:
        raise UserError(f"{host!r} is no host name: write it in ASCII (punycode).") from error


def _load(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} is no certificate ({error}): make the federation's certificates first."
        ) from error


def _public_of(path: Path) -> object:
    """The public half of a private key in PEM; None where there is none."""
    try:
        return serialization.load_pem_private_key(path.read_bytes(), None).public_key()
    except (OSError, ValueError, TypeError):
        return None


def _load_authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    path = folder / "ca.key"
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"{path} is no private key ({error}): make the federation's certificates first."
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UserError(f"{path} is not an elliptic-curve key: make the federation's certificates anew.")
    return _load(folder / "ca.pem"), key


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    coding = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(*coding)


def _public_pem(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
