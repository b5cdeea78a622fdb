"""A model server that keeps its caller waiting at a place of one's choice, and counts what would have to be paid."""

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
SUMMARY = b"Summarise the conversation below"


def say(text: str, **more: Any) -> bytes:
    choice = {"index": 0, "delta": {"role": "assistant", "content": text, **more}}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def end(reason: str = "stop") -> bytes:
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    return b"data: " + json.dumps(last).encode() + b"\n\ndata: [DONE]\n\n"


def call(*tools: tuple[str, dict[str, Any]]) -> bytes:
    """An answer that calls these tools."""
    made = [
        {
            "index": place,
            "id": f"call_{place}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(args)},
        }
        for place, (name, args) in enumerate(tools)
    ]
    return HEAD + say("", tool_calls=made) + end("tool_calls")


class MoodyModel:
    """Answers each request by its mood: bytes, or a function of the request that yields them; None is for ever."""

    def __init__(self) -> None:
        self.mood: Callable[[bytes], Iterator[bytes | None]] = answer("hello")
        self.requests: list[bytes] = []
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.base_url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "MoodyModel":
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._listener.close()

    @property
    def deaf_url(self) -> str:
        """An address at which a connection never comes about: the server does not answer the first word of TLS."""
        return self.base_url.replace("http:", "https:")

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                wire, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(wire,), daemon=True).start()

    def _serve(self, wire: socket.socket) -> None:
        with wire, suppress(OSError):
            request = self._read(wire)
            if not request:
                return
            self.requests.append(request)
            for piece in self.mood(request):
                if piece is None:
                    self._wait_for_end(wire)
                    return
                wire.sendall(piece)

    def _wait_for_end(self, wire: socket.socket) -> None:
        wire.settimeout(0.1)
        while not self._over.is_set():
            with suppress(TimeoutError):
                if not wire.recv(4096):
                    return

    @staticmethod
    def _read(wire: socket.socket) -> bytes:
        got = b""
        while b"\r\n\r\n" not in got:
            piece = wire.recv(65_536)
            if not piece:
                return b""
            got += piece
        head, _, body = got.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        while length and len(body) < int(length[1]):
            piece = wire.recv(65_536)
            if not piece:
                return b""
            body += piece
        return body


Mood = Callable[[bytes], Iterator[bytes | None]]


def refuse(words: bytes, status: int, message: str, otherwise: Mood) -> Mood:
    """Refuses each request in which the words stand anywhere, as a real one would, also in what was said long ago."""
    body = json.dumps({"error": {"message": message}}).encode()
    head = b"HTTP/1.1 %d No\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"

    def mood(request: bytes) -> Iterator[bytes | None]:
        refusal: Iterator[bytes | None] = iter([head % (status, len(body)) + body])
        yield from refusal if words in request else otherwise(request)

    return mood


def answer(text: str) -> Mood:
    return lambda request: iter([HEAD + say(text) + end()])


def silent(*before: bytes) -> Mood:
    """These bytes, and then nothing more, for as long as the caller stays."""
    return lambda request: iter([*before, None])


def drip(request: bytes) -> Iterator[bytes | None]:
    """The head of an answer, a letter at a time and without end."""
    del request
    pause = threading.Event()
    yield b"HTTP/1.1 200 OK\r\n"
    while True:
        pause.wait(0.02)
        yield b"X"


def keep_open(*before: bytes, with_words: bytes = b": PROCESSING\n\n") -> Mood:
    """These bytes, and then only words that keep the connection open, for as long as the caller stays."""

    def speak(request: bytes) -> Iterator[bytes | None]:
        del request
        pause = threading.Event()
        yield from before
        while True:
            pause.wait(0.02)
            yield with_words

    return speak


def fail(status: int) -> Mood:
    body = b'{"error": {"message": "try later"}}'
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    return lambda request: iter([head + body])


def hang_up(request: bytes) -> Iterator[bytes | None]:
    """The connection ends without an answer."""
    del request
    return iter(())


def call_once(*tools: tuple[str, dict[str, Any]], then: Mood) -> Mood:
    """Tools at first; once their results are there, something else."""
    return lambda request: then(request) if b'"role":"tool"' in request else iter([call(*tools)])
