"""A federation's port on loopback for tests: its folder, the server, sites in threads, and strangers' sockets."""

import logging
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from unalike.federation.folders import Card
from unalike.federation.transport.https.certificates import create_authority, create_site, issue_server
from unalike.federation.transport.https.client import Caller
from unalike.federation.transport.https.door import Limits
from unalike.federation.transport.https.server import HttpsServer

MOST = 1 << 26
QUICK = Limits(handshake_seconds=0.4, header_seconds=0.4, body_seconds=0.6, idle_seconds=0.8)
"""Timers that a test can wait for."""


def until(true, seconds=20.0):
    """Wait until something is true; what it is then."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)
    return found


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Place:
    """A server's folder, with a folder for each site inside."""

    def __init__(self, folder, names=("a", "b", "c")):
        self.folder, self.names = folder, list(names)
        for name in ("certificates", "parties"):
            (folder / name).mkdir()
        create_authority(folder / "certificates")
        issue_server(folder / "certificates", ["127.0.0.1"])
        for name in names:
            self.admit(name, self.join(name))

    @property
    def authority(self):
        return self.folder / "certificates" / "ca.pem"

    def own(self, name):
        return self.folder / name / "node.pem", self.folder / name / "node.key"

    def join(self, name, days=3650):
        (self.folder / name).mkdir(exist_ok=True)
        certificate, key = self.own(name)
        return create_site(key, certificate, name, days)

    def card(self, name):
        return self.folder / "parties" / f"{name}.public.json"

    def admit(self, name, pem):
        Card(name, f"{sum(name.encode()):064x}", pem).write(self.card(name))

    def issue(self, name, subject, signer=None, issuer=None, days=10, began=1):
        """A certificate of anybody for anybody: ``signer`` is a file with a key, or the own new key signs."""
        (self.folder / name).mkdir(exist_ok=True)
        certificate, key_path = self.own(name)
        key = ec.generate_private_key(ec.SECP256R1())
        pem = serialization.Encoding.PEM
        key_path.write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        )
        signing = key if signer is None else serialization.load_pem_private_key(signer.read_bytes(), None)
        named = [
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in (subject, issuer or subject)
        ]
        now = datetime.now(UTC)
        builder = x509.CertificateBuilder(named[1], named[0], key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - timedelta(days=began)).not_valid_after(now + timedelta(days=days))
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        made = builder.add_extension(purpose, critical=False).sign(signing, hashes.SHA256())
        certificate.write_bytes(made.public_bytes(pem))
        return made.public_bytes(pem).decode()


class Port:
    """A running server with what a test needs around it."""

    def __init__(self, place, server, port, lines):
        self.place, self.server, self.port, self.lines = place, server, port, lines

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def caller(self, name, tell=lambda state: None, port=None, most=MOST):
        return Caller(f"127.0.0.1:{port or self.port}", self.place.authority, *self.place.own(name), most, tell)

    @contextmanager
    def site(self, name, answer=lambda question: question, **given):
        """A site that answers in a thread while this is entered."""
        with self.caller(name, **given) as caller:
            threading.Thread(target=caller.answer, args=(answer,), daemon=True).start()
            until(lambda: self.place.names.index(name) in self.server.nodes())
            yield caller

    def context(self, name=None):
        context = ssl.create_default_context(cafile=str(self.place.authority))
        if name is not None:
            context.load_cert_chain(*self.place.own(name))
        return context

    def plain(self, source=None):
        return socket.create_connection(("127.0.0.1", self.port), 20, source and (source, 0))

    def secure(self, name=None, context=None, **given):
        """A connection that has shaken hands, with a site's certificate if one is named."""
        context = context or self.context(name)
        return context.wrap_socket(self.plain(), server_hostname="127.0.0.1", **given)

    def exchange(self, seconds=20, data=b"question"):
        """Ask all sites that are here; their answers."""
        return dict(self.server.send(dict.fromkeys(self.server.nodes(), data), seconds))

    def refusals(self, *words):
        return [line for line in self.lines if "refused" in line and all(word in line for word in words)]


class _Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(self.format(record))


@contextmanager
def logged(*names):
    """The lines that these loggers write, whatever their level is."""
    handler = _Lines()
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield handler.lines
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)


@contextmanager
def served(place, limits=QUICK, port=None, most=MOST, host="127.0.0.1"):
    """The server, which must end without a complaint of asyncio or uvicorn, and leave no thread behind."""
    port = port or free_port()
    with logged("unalike.federation.door") as lines, logged("uvicorn.error", "asyncio") as complaints:
        with HttpsServer(place.folder, place.names, host, port, most, limits) as server:
            logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
            yield Port(place, server, port, lines)
        assert not complaints
        assert not server._thread.is_alive()
        assert not [line for line in lines if "Traceback" in line]


def read_reply(secure):
    """The status, the headers and the body of an answer; status 0 where there is none."""
    got = b""
    with suppress(OSError):
        while b"\r\n\r\n" not in got and (part := secure.recv(65536)):
            got += part
    head, _, body = got.partition(b"\r\n\r\n")
    lines = head.decode().splitlines()
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    with suppress(OSError):
        while len(body) < int(headers.get("content-length", 0)) and (part := secure.recv(65536)):
            body += part
    return (int(lines[0].split()[1]) if lines else 0), headers, body


def is_ended(connection):
    """Whether the other side ends the connection, after whatever it says."""
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True
