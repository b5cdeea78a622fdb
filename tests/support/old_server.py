"""Speaks PostgreSQL's protocol just far enough to be taken for a server of an old version."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SSL_REQUEST, _GSS_REQUEST = 80877103, 80877104


@contextmanager
def serve_version(version: str) -> Iterator[str]:
    """The address of a database of a server that says it has this version."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_accept, args=(server, version), daemon=True).start()
        yield f"postgresql://me@127.0.0.1:{server.getsockname()[1]}/name"


def _accept(server: socket.socket, version: str) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_talk, args=(client, version), daemon=True).start()


def _talk(client: socket.socket, version: str) -> None:
    with client, client.makefile("rb") as heard:
        while True:
            (size, code) = struct.unpack("!ii", heard.read(8))
            heard.read(size - 8)
            if code not in (_SSL_REQUEST, _GSS_REQUEST):
                break
            client.sendall(b"N")
        facts = {"server_version": version, "server_encoding": "UTF8", "client_encoding": "UTF8"}
        told = b"".join(_write(b"S", f"{name}\0{value}\0".encode()) for name, value in facts.items())
        ready = _write(b"Z", b"I")
        client.sendall(_write(b"R", struct.pack("!i", 0)) + told + _write(b"K", struct.pack("!ii", 7, 7)) + ready)
        while kind := heard.read(1):
            (size,) = struct.unpack("!i", heard.read(4))
            heard.read(size - 4)
            if kind == b"Q":  # whatever is asked, the answer is the process that answers
                column = _write(b"T", struct.pack("!h", 1) + b"pid\0" + struct.pack("!ihihih", 0, 0, 23, 4, -1, 0))
                row = _write(b"D", struct.pack("!hi", 1, 1) + b"7")
                client.sendall(column + row + _write(b"C", b"SELECT 1\0") + ready)


def _write(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body
