"""A client of the local socket that does nothing by itself: what a test says goes out, what comes in is kept."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from waiting import wait_until

from hermes_base import local_wire as wire


class RawClient:
    def __init__(self, home: Path, name: str = "", *, confirm: bool = True, **hello: Any) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(str(wire.socket_path(home)))
        self.lines: list[Any] = []
        self.closed = False
        self._confirm = confirm
        self._sending = threading.Lock()  # a long line goes out in pieces, and a confirmation must not stand in it
        threading.Thread(target=self._read, daemon=True).start()
        if name:
            self.send(wire.Hello(name, **hello))
            self.welcome = self.wait(wire.Welcome)

    def send(self, message: Any) -> None:
        with self._sending:
            self.sock.sendall(message if isinstance(message, bytes) else wire.encode(message))

    def say(self, text: str, id: str = "1") -> None:
        self.send(wire.Say(id, text))

    def find(self, kind: type, where: Callable[[Any], bool] = lambda line: True) -> list[Any]:
        return [line for line in list(self.lines) if isinstance(line, kind) and where(line)]

    def wait(self, kind: type, where: Callable[[Any], bool] = lambda line: True) -> Any:
        wait_until(lambda: bool(self.find(kind, where)))
        return self.find(kind, where)[0]

    def answers(self) -> list[str]:
        return [line.outgoing.text for line in self.find(wire.Deliver)]

    def close(self) -> None:
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

    def _read(self) -> None:
        with suppress(OSError), self.sock, self.sock.makefile("rb") as reader:
            for line in reader:
                message = wire.decode_from_gateway(line)
                self.lines.append(message)
                if self._confirm and isinstance(message, wire.Deliver):
                    self.send(wire.Got(message.row))
        self.closed = True
