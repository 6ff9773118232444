"""The certificates of a federation: its own authority, the server's certificate, and one of each site's own.

A site makes its certificate itself, together with its keys; its card carries it to the server, whose handshake
accepts the certificates of admitted cards and no others. So nothing has to travel back to the site, a card that
is removed ends the site's access, and whoever has the authority's key can still not be a site.
"""

from __future__ import annotations

import ipaddress
import re
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
"""Always in the server's certificate: for sites on the same machine."""
_CLOCK_SKEW = timedelta(days=1)
"""A certificate is valid from so long before it was made: a clock in another time zone must keep nobody out."""
_CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH


def create_authority(folder: Path, name: str = "unalike federation", days: int = AUTHORITY_DAYS) -> None:
    """Make ``ca.pem``, which every site needs, and ``ca.key``, which never leaves the server's owner."""
    if (folder / "ca.key").exists():
        raise UserError(
            f"{folder / 'ca.key'} exists: renew the server's certificate instead, or choose another folder."
        )
    key = ec.generate_private_key(ec.SECP256R1())
    subject = named(name)
    usage = _usage(key_cert_sign=True, crl_sign=True)
    builder = _builder(subject, subject, key.public_key(), days).add_extension(usage, critical=True)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    atomic_write(folder / "ca.key", _private_pem(key), private=True)
    atomic_write(folder / "ca.pem", _pem(builder.sign(key, hashes.SHA256())))


def issue_server(folder: Path, hosts: Iterable[str], days: int = SERVER_DAYS) -> None:
    """Make ``server.pem`` and ``server.key`` for these host names and IP addresses, signed by the authority."""
    authority, signer = _load_authority(folder)
    names = [_general_name(host) for host in dict.fromkeys([*hosts, *LOOPBACK])]
    key = ec.generate_private_key(ec.SECP256R1())
    first = next(iter(names)).value
    builder = _end_entity(
        named(str(first)[:64]),
        authority.subject,
        key.public_key(),
        signer.public_key(),
        days,
        ExtendedKeyUsageOID.SERVER_AUTH,
    ).add_extension(x509.SubjectAlternativeName(names), critical=False)
    atomic_write(folder / "server.key", _private_pem(key), private=True)
    atomic_write(folder / "server.pem", _pem(builder.sign(signer, hashes.SHA256())))


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


def create_site(key_path: Path, path: Path, name: str, days: int = AUTHORITY_DAYS) -> str:
    """Make a site's certificate, and its key where there is none yet; the certificate in PEM, which is public."""
    if key_path.exists():
        key = _load_key(key_path)
    else:
        key = ec.generate_private_key(ec.SECP256R1())
        atomic_write(key_path, _private_pem(key), private=True)
    subject = named(name)
    builder = _end_entity(subject, subject, key.public_key(), key.public_key(), days, _CLIENT)
    atomic_write(path, _pem(builder.sign(key, hashes.SHA256())))
    return path.read_text(encoding="ascii")


def named(name: str) -> x509.Name:
    """The subject of a certificate. No two sites may have the same, or TLS could take one for the other."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def check_site(pem: str, name: str, now: datetime | None = None) -> x509.Certificate:
    """A site's certificate, if it is one that the site made itself and can connect with; else one line."""
    try:
        found = x509.load_pem_x509_certificate(pem.encode())
        found.verify_directly_issued_by(found)
        usage = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        authority = found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except Exception as error:
        raise UserError(f"This is no certificate of a site ({error}): ask the site for its file again.") from error
    if authority or _CLIENT not in usage or found.subject != named(name):
        raise UserError(f"This certificate is not one of {name}: ask the site for its file again.")
    if (now or datetime.now(UTC)) > found.not_valid_after_utc:
        ended = f"{found.not_valid_after_utc:%Y-%m-%d}"
        raise UserError(f"The site's certificate expired on {ended}: let it join again, and admit its new file.")
    return found


def check_begun(certificate: x509.Certificate, name: str, now: datetime | None = None) -> None:
    """Refuse a site's certificate that the handshake would not accept yet."""
    if (now or datetime.now(UTC)) < certificate.not_valid_before_utc:
        begins = f"{certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        raise UserError(
            f"{name}'s certificate is valid only from {begins}: set the clock that is wrong, here or there."
        )


def key_of(pem: str) -> object:
    """The public key in a certificate; None where it is not one."""
    try:
        return x509.load_pem_x509_certificate(pem.encode()).public_key()
    except ValueError:
        return None


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[v6]:port``."""
    host, _, port = address.rpartition(":")
    digits = port.isascii() and port.isdigit() and len(port) < 6
    if not host or re.search(r"[\s/@]", host) or not digits or not 0 < int(port) < 65536:
        raise UserError(f"{address!r} is no address: write host:port, for example hospital.example:9443.")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - _CLOCK_SKEW).not_valid_after(now + timedelta(days=days))


def _end_entity(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuer_key: ec.EllipticCurvePublicKey,
    days: int,
    purpose: x509.ObjectIdentifier,
) -> x509.CertificateBuilder:
    """A certificate that can sign for itself, for one purpose, and vouch for nobody else."""
    builder = _builder(subject, issuer, key, days)
    for extension, critical in (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(digital_signature=True), True),
        (x509.ExtendedKeyUsage([purpose]), False),
        (x509.SubjectKeyIdentifier.from_public_key(key), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), False),
    ):
        builder = builder.add_extension(extension, critical=critical)
    return builder


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
        return _load_key(path).public_key()
    except UserError:
        return None


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"{path} is no private key ({error}): make the federation's certificates first."
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UserError(f"{path} is not an elliptic-curve key: make the federation's certificates anew.")
    return key


def _load_authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    return _load(folder / "ca.pem"), _load_key(folder / "ca.key")


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    coding = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(*coding)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
