"""Certificates, and a TLS server in front of PostgreSQL or Valkey, whose wheels are built without TLS."""

from __future__ import annotations

import contextlib
import datetime
import select
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

SSL_REQUEST = struct.pack("!ii", 8, 80877103)
LIMIT_S = 20


@dataclass(frozen=True)
class Authority:
    """A certificate authority and the servers that it has signed, as files of one folder."""

    folder: Path
    name: str
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    @property
    def roots(self) -> Path:
        file = self.folder / f"{self.name}.pem"
        if not file.exists():
            file.write_bytes(self._signed(self.name, self.key.public_key(), is_authority=True))
        return file

    def server(self, host: str) -> Path:
        """The certificate and the key of a server."""
        key = ec.generate_private_key(ec.SECP256R1())
        file = self.folder / f"{self.name}-{host}.pem"
        file.write_bytes(
            self._signed(host, key.public_key(), is_authority=False)
            + key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return file

    def _signed(self, subject: str, key: ec.EllipticCurvePublicKey, *, is_authority: bool) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        built = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)]))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if not is_authority:
            built = built.add_extension(x509.SubjectAlternativeName([x509.DNSName(subject)]), critical=False)
        return built.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@dataclass
class Front:
    """A TLS server that passes connections on. `received` holds the decrypted first bytes of every connection."""

    port: int
    received: list[bytes] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    def has_received(self) -> bool:
        return any(self.received)

    def wait(self) -> None:
        """Until all connections have ended."""
        for thread in self.threads:
            thread.join(LIMIT_S)


@contextlib.contextmanager
def tls_front(
    backend_port: int,
    certificate: Path,
    *,
    is_postgres: bool,
    source: str = "127.0.0.1",
    serve: Callable[[bytes, socket.socket, socket.socket], None] | None = None,
) -> Iterator[Front]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        front = Front(listener.getsockname()[1])

        def session(raw: socket.socket) -> None:
            with raw:
                raw.settimeout(LIMIT_S)
                try:
                    if is_postgres:
                        if raw.recv(8) != SSL_REQUEST:
                            raise ConnectionError("the client did not ask for TLS")
                        raw.sendall(b"S")
                    client = context.wrap_socket(raw, server_side=True)
                except (OSError, ssl.SSLError) as error:
                    front.faults.append(str(error))
                    return
                with client, contextlib.suppress(OSError):
                    first = client.recv(65_536)
                    front.received.append(first)
                    if not first:
                        return
                    backend = socket.create_connection(("127.0.0.1", backend_port), LIMIT_S, source_address=(source, 0))
                    with backend:
                        backend.sendall(first)
                        (serve or _pass_on)(first, client, backend)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    thread = threading.Thread(target=session, args=(listener.accept()[0],), daemon=True)
                    front.threads.append(thread)
                    thread.start()

        threading.Thread(target=accept, daemon=True).start()
        yield front
        listener.shutdown(socket.SHUT_RDWR)


def _pass_on(_first: bytes, client: socket.socket, backend: socket.socket) -> None:
    relay(client, backend)


def relay(client: socket.socket, backend: socket.socket) -> None:
    """Pass bytes on in both directions until one side closes."""
    while True:
        pending = isinstance(client, ssl.SSLSocket) and client.pending()
        ready = [client] if pending else select.select([client, backend], [], [], LIMIT_S)[0]
        for source in ready:
            data = source.recv(65_536)
            if not data:
                return
            (backend if source is client else client).sendall(data)
        if not ready:
            return
