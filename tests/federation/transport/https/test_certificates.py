import socket
import ssl
import stat
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from unalike.errors import UserError
from unalike.federation.transport.https.certificates import (
    AUTHORITY_DAYS,
    SERVER_DAYS,
    check_begun,
    check_server,
    check_site,
    create_authority,
    create_site,
    issue_server,
    key_of,
    renew_if_due,
    server_hosts,
    split_address,
)

STRICT = getattr(ssl, "VERIFY_X509_STRICT", 0x20)
"""From Python 3.13 on this is set for every client."""


@pytest.fixture
def folder(tmp_path):
    create_authority(tmp_path)
    issue_server(tmp_path, ["hospital.example", "127.0.0.1"])
    return tmp_path


def shake_hands(server, client, host="127.0.0.1"):
    """Hands are shaken in memory by OpenSSL alone; an error where one side does not accept the other."""
    here, there = socket.socketpair()

    def serve():
        with suppress(OSError), server.wrap_socket(there, server_side=True) as secure:
            secure.recv(1)
            secure.sendall(b"x")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        with client.wrap_socket(here, server_hostname=host) as secure:
            secure.sendall(b"x")
            assert secure.recv(1) == b"x"
    finally:
        here.close()
        thread.join(5)
        there.close()


def server_context(folder):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    return context


@pytest.mark.parametrize("flags", [0, STRICT], ids=["as 3.11", "as 3.13"])
@pytest.mark.parametrize("host", ["127.0.0.1", "hospital.example", "localhost", "::1"])
def test_openssl_accepts_the_chain_and_the_host(folder, host, flags):
    client = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    client.verify_flags |= flags
    shake_hands(server_context(folder), client, host)


def test_openssl_refuses_another_host_and_another_authority(folder, tmp_path):
    client = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for 'elsewhere"):
        shake_hands(server_context(folder), client, "elsewhere.example")
    (tmp_path / "other").mkdir()
    create_authority(tmp_path / "other")
    client = ssl.create_default_context(cafile=str(tmp_path / "other" / "ca.pem"))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server_context(folder), client)


@pytest.mark.parametrize("flags", [0, STRICT], ids=["loose", "strict"])
def test_openssl_accepts_a_sites_own_certificate_and_nobody_whom_it_signs(folder, flags):
    server = server_context(folder)
    server.verify_mode, server.verify_flags = ssl.CERT_REQUIRED, server.verify_flags | flags
    server.load_verify_locations(cadata=create_site(folder / "a.key", folder / "a.pem", "a"))
    client = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    client.load_cert_chain(folder / "a.pem", folder / "a.key")
    shake_hands(server, client)
    create_site(folder / "b.key", folder / "b.pem", "a")
    client = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    client.load_cert_chain(folder / "b.pem", folder / "b.key")
    with pytest.raises(OSError):
        shake_hands(server, client)


def test_secrets_are_for_their_owner_only(folder):
    create_site(folder / "node.key", folder / "node.pem", "a")
    for name in ("ca.key", "server.key", "node.key"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    assert not list(folder.glob(".*tmp"))


@pytest.mark.parametrize(("hosts", "days", "word"), [(["other.example"], 1, None), (["127.0.0.1"], 0, "expired")])
def test_a_certificate_that_has_expired_says_so(tmp_path, hosts, days, word):
    create_authority(tmp_path)
    issue_server(tmp_path, hosts, days)
    later = datetime.now(UTC) + timedelta(hours=1)
    if word:
        with pytest.raises(UserError, match=word):
            check_server(tmp_path, hosts[0], later)
    else:
        assert timedelta(hours=22) < check_server(tmp_path, hosts[0], later) < timedelta(hours=24)


def test_a_certificate_for_another_host_or_from_another_authority_says_so(folder):
    with pytest.raises(UserError, match=r"hospital\.example, .* not for 'elsewhere'"):
        check_server(folder, "elsewhere")
    with pytest.raises(UserError, match="clock"):
        check_server(folder, "127.0.0.1", datetime.now(UTC) - timedelta(days=2))
    (folder / "ca.key").unlink()
    create_authority(folder)
    with pytest.raises(UserError, match="not signed by"):
        check_server(folder, "127.0.0.1")


def test_renewal_keeps_hosts_and_changes_key(folder):
    key, hosts = (folder / "server.key").read_bytes(), server_hosts(folder)
    issue_server(folder, server_hosts(folder), days=30)
    assert server_hosts(folder) == hosts == ["hospital.example", "127.0.0.1", "localhost", "::1"]
    assert (folder / "server.key").read_bytes() != key
    assert check_server(folder, "hospital.example").days in (29, 30)


def test_serve_renews_what_ends_soon_is_for_another_host_or_was_cut_off(folder):
    host = "hospital.example"
    assert not renew_if_due(folder, host)
    soon = datetime.now(UTC) + timedelta(days=SERVER_DAYS - 20)
    assert renew_if_due(folder, host, soon)
    assert not renew_if_due(folder, host)
    assert renew_if_due(folder, "moved.example")
    assert check_server(folder, "moved.example").days > 390
    assert host in server_hosts(folder)
    key = (folder / "server.key").read_bytes()
    issue_server(folder, server_hosts(folder))
    (folder / "server.key").write_bytes(key)  # as when the process was killed between the two files
    assert renew_if_due(folder, host)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(folder / "server.pem", folder / "server.key")
    (folder / "ca.key").unlink()  # kept off the machine: what to do is told
    assert not renew_if_due(folder, "elsewhere")
    with pytest.raises(UserError, match=r"put ca\.key beside it"):
        check_server(folder, "elsewhere")


def test_an_authority_is_never_overwritten(folder):
    with pytest.raises(UserError, match="exists"):
        create_authority(folder)


def test_a_host_that_is_no_name_is_refused(folder):
    with pytest.raises(UserError, match="punycode"):
        issue_server(folder, ["krankenhaus-süd.example"])


def test_a_sites_certificate_is_its_own_and_its_key_stays(tmp_path):
    key, path = tmp_path / "node.key", tmp_path / "node.pem"
    first = create_site(key, path, "a")
    secret = key.read_bytes()
    second = create_site(key, path, "a", days=5)
    assert key.read_bytes() == secret
    assert first != second == path.read_text()
    assert key_of(first) == key_of(second) is not None
    found = check_site(second, "a")
    assert found.issuer == found.subject
    assert "PRIVATE" not in first
    assert check_site(first, "a").not_valid_after_utc > datetime.now(UTC) + timedelta(days=AUTHORITY_DAYS - 1)


def test_what_is_no_sites_certificate_is_refused_in_one_line(folder):
    pem = create_site(folder / "node.key", folder / "node.pem", "a", days=5)
    ca, server = (folder / "ca.pem").read_text(), (folder / "server.pem").read_text()
    key = (folder / "node.key").read_text()
    for wrong in ("", "nonsense", "é", key, ca, server, pem.replace("M", "N", 1), pem[:300]):
        with pytest.raises(UserError, match="ask the site for its file again") as error:
            check_site(wrong, "a")
        assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="not one of b"):
        check_site(pem, "b")
    with pytest.raises(UserError, match="expired on"):
        check_site(pem, "a", datetime.now(UTC) + timedelta(days=6))


def test_clocks_may_differ_by_a_time_zone_and_not_by_years(folder):
    pem = create_site(folder / "node.key", folder / "node.pem", "a")
    behind = datetime.now(UTC) - timedelta(hours=14)
    found = check_site(pem, "a", behind)
    check_begun(found, "a", behind)
    assert check_server(folder, "localhost", behind)
    with pytest.raises(UserError, match=r"a's certificate is valid only from .* clock"):
        check_begun(found, "a", datetime.now(UTC) - timedelta(days=400))


def test_the_key_of_what_is_no_certificate_is_none():
    assert key_of("") is None
    assert key_of("nonsense") is None


def test_a_key_of_another_kind_is_refused(folder):
    other = rsa.generate_private_key(65537, 2048)
    coding = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "node.key").write_bytes(other.private_bytes(*coding))
    with pytest.raises(UserError, match="elliptic"):
        create_site(folder / "node.key", folder / "node.pem", "a")
    (folder / "node.key").write_text("nonsense")
    with pytest.raises(UserError, match="no private key"):
        create_site(folder / "node.key", folder / "node.pem", "a")


def test_certificates_say_what_they_are_for(folder):
    pem = create_site(folder / "node.key", folder / "node.pem", "a")
    for text, authority in ((pem, False), ((folder / "ca.pem").read_text(), True)):
        found = x509.load_pem_x509_certificate(text.encode())
        assert isinstance(found.public_key(), ec.EllipticCurvePublicKey)
        assert found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is authority
        assert found.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign is authority


@pytest.mark.parametrize(
    "address",
    [
        "",
        "host",
        "host:",
        ":1",
        "host:0",
        "host:65536",
        "host:x",
        "host:²",
        "https://host:1",
        "me@host:1",
        "a b:1",
    ],
)
def test_a_wrong_address_is_refused(address):
    with pytest.raises(UserError, match="no address"):
        split_address(address)


def test_addresses():
    assert split_address("a.example:1") == ("a.example", 1)
    assert split_address("[::1]:65535") == ("::1", 65535)
