"""A model server that sends exactly the bytes it is given: for answers that no lawful server would send."""

import re
import socket
import threading
from collections.abc import Iterable
from contextlib import suppress


class RawModelServer:
    """Each request is answered with `answer`, and then the connection is closed."""

    def __init__(self, answer: Iterable[bytes] = ()) -> None:
        self.answer = answer
        self.requests = 0
        self.heads: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.base_url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> "RawModelServer":
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def set_body(self, *body: bytes, status: int = 200, kind: str = "text/event-stream", more: str = "") -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{more}\r\n"
        self.answer = (head.encode(), *body)

    def _serve(self) -> None:
        while True:
            try:
                wire, _ = self._listener.accept()
            except OSError:
                return
            with wire, suppress(OSError):  # the client may hang up in the middle
                self.heads.append(self._take_request(wire))
                self.requests += 1
                for piece in self.answer:
                    wire.sendall(piece)

    @staticmethod
    def _take_request(wire: socket.socket) -> bytes:
        """Read it to its end: a socket that is closed with something unread is reset."""
        got = b""
        while b"\r\n\r\n" not in got:
            got += wire.recv(65_536)
        head, _, body = got.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        left = (int(length[1]) if length else 0) - len(body)
        while left > 0:
            left -= len(wire.recv(65_536))
        return head
