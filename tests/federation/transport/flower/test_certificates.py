import socket
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from unalike.errors import UserError
from unalike.federation.transport.flower.certificates import (
    SERVER_DAYS,
    check_server,
    create_authority,
    create_node_key,
    issue_server,
    normalised_public_key,
    public_key,
    renew_if_due,
    server_hosts,
    split_address,
    why_unreachable,
)


@pytest.fixture
def folder(tmp_path):
    create_authority(tmp_path)
    issue_server(tmp_path, ["hospital.example", "127.0.0.1"])
    return tmp_path


@pytest.fixture
def listening(folder):
    """A TLS server with the folder's certificate, independent of the code under test; its address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_shake_hands, args=(listener, context), daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def _shake_hands(listener, context):
    while True:
        try:
            visitor, _ = listener.accept()
        except OSError:
            return
        try:
            context.wrap_socket(visitor, server_side=True).close()
        except OSError:
            visitor.close()


def test_secrets_are_for_their_owner_only(folder):
    create_node_key(folder / "node.key")
    for name in ("ca.key", "server.key", "node.key"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    assert not list(folder.glob(".*tmp"))


def test_openssl_accepts_the_chain_and_the_host(folder, listening):
    assert why_unreachable(listening, folder / "ca.pem") is None


def test_another_authority_is_not_accepted(tmp_path, listening):
    (tmp_path / "other").mkdir()
    create_authority(tmp_path / "other")
    assert "certificate is not accepted" in why_unreachable(listening, tmp_path / "other" / "ca.pem")


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


def test_a_certificate_for_another_host_or_from_another_authority_says_so(folder, tmp_path):
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


def test_an_authority_and_a_node_key_are_never_overwritten(folder):
    with pytest.raises(UserError, match="exists"):
        create_authority(folder)
    create_node_key(folder / "node.key")
    with pytest.raises(UserError, match="identity"):
        create_node_key(folder / "node.key")


def test_a_nodes_key_is_what_flower_wants(tmp_path):
    pem = create_node_key(tmp_path / "node.key")
    key = serialization.load_ssh_private_key((tmp_path / "node.key").read_bytes(), None)
    assert isinstance(key.curve, ec.SECP384R1)
    assert pem == public_key(tmp_path / "node.key") == normalised_public_key(pem.replace(b"\n", b"\r\n"))
    other = ec.generate_private_key(ec.SECP256R1()).public_key()
    coding = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    for wrong in (b"", b"nonsense", other.public_bytes(*coding)):
        with pytest.raises(UserError):
            normalised_public_key(wrong)
    (tmp_path / "bad.key").write_bytes(b"nonsense")
    with pytest.raises(UserError, match="no private key"):
        public_key(tmp_path / "bad.key")


def test_plain_and_absent_servers_are_told_apart(folder):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        threading.Thread(target=lambda: listener.accept()[0].sendall(b"220 hello\r\n" * 9), daemon=True).start()
        assert "does not speak TLS" in why_unreachable(address, folder / "ca.pem")
    assert "cannot be reached" in why_unreachable(address, folder / "ca.pem")


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "host:0", "host:65536", "host:x", "host:²"])
def test_a_wrong_address_is_refused(address):
    with pytest.raises(UserError, match="no address"):
        split_address(address)


def test_addresses():
    assert split_address("a.example:1") == ("a.example", 1)
    assert split_address("[::1]:65535") == ("::1", 65535)
