"""Hints from process to process: after a commit, in order where they arrive, and never more than that."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from postgres_server import PostgresServer, get_server
from waiting import wait_until

from hermes_state.sql.engines import postgres_hints
from hermes_state.sql.engines.hints import LONGEST_HINT
from hermes_state.sql.engines.postgres_hints import DEAF
from hermes_state.sql.store_sql import Store


@pytest.fixture
def server() -> PostgresServer:
    return get_server()


@pytest.fixture
def stores(server: PostgresServer) -> Iterator[tuple[Store, Store]]:
    address = server.make_database()
    with closing(Store(address)) as one, closing(Store(address)) as other:
        yield one, other


def test_who_listens_to_a_topic_hears_what_others_tell(stores: tuple[Store, Store]) -> None:
    """I2: neither what they told themselves, nor another topic, nor what is too long; the topics may change."""
    heard: list[tuple[str, str]] = []
    echoed: list[tuple[str, str]] = []
    one = stores[0].turns.open_hints(lambda *hint: heard.append(hint))
    other = stores[1].turns.open_hints(lambda *hint: echoed.append(hint))
    long_topic = "turn " + "agent:main:local:dm:é" * 40
    one.listen(["a", long_topic])
    other.listen(["a"])
    with closing(one), closing(other):
        wait_until(lambda: bool(other.tell("a", "hello")) or ("a", "hello") in heard)
        other.tell("b", "nobody listens")
        other.tell(long_topic, "x" * (LONGEST_HINT + 1))
        other.tell(long_topic, "é" * (LONGEST_HINT // 2))
        wait_until(lambda: len(heard[-1][1]) > 1000)
        assert {topic for topic, _ in heard} == {"a", long_topic}
        assert heard[-1] == (long_topic, "é" * (LONGEST_HINT // 2))
        one.listen(["b"])
        wait_until(lambda: bool(other.tell("b", "now")) or ("b", "now") in heard)
        other.tell("a", "no more")
        other.tell("b", "last")
        wait_until(lambda: ("b", "last") in heard)
        assert ("a", "no more") not in heard
        assert echoed == []
        assert (one.problem, other.problem) == ("", "")


def test_a_line_that_breaks_is_opened_again(stores: tuple[Store, Store], server: PostgresServer) -> None:
    """What was told meanwhile may be lost; what is told later is heard."""
    heard: list[str] = []
    one = stores[0].turns.open_hints(lambda _, text: heard.append(text))
    other = stores[1].turns.open_hints(lambda _, text: None)
    one.listen(["a"])
    with closing(one), closing(other):
        wait_until(lambda: bool(other.tell("a", "first")) or "first" in heard)
        with server.connect() as admin:
            admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where query ilike 'listen %'")
        wait_until(lambda: bool(other.tell("a", "later")) or "later" in heard)


def test_a_store_of_one_process_has_nobody_to_tell(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "s.db")) as store, closing(store.turns.open_hints(print)) as hints:
        hints.listen(["a"])
        hints.tell("a", "b")
        assert hints.problem == ""


class Pooler:
    """Stands between a client and the server like a pooler in transaction mode: notifications never come through."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.eaten = 0
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                self._ends += [client, server]
                threading.Thread(target=self._ask, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answer, args=(server, client), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                server.sendall(data)
            server.shutdown(socket.SHUT_RDWR)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError), server.makefile("rb") as stream:
            first = stream.read(1)  # of the answer to the request for encryption
            while first:
                if first == b"N":
                    client.sendall(first)
                else:
                    length = stream.read(4)
                    body = stream.read(struct.unpack(">I", length)[0] - 4)
                    if first == b"A":
                        self.eaten += 1
                    else:
                        client.sendall(first + length + body)
                first = stream.read(1)
            client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        for each in (self._listener, *self._ends):
            each.close()


def test_a_pooler_that_eats_hints_is_told_once(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(postgres_hints, "ECHO_SECONDS", 0.2)
    monkeypatch.setattr(postgres_hints, "CHECK_SECONDS", 0.3)
    parts = urlsplit(server.make_database())
    with closing(Pooler(server.port)) as pooler:
        through = urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{server.port}", f":{pooler.port}")))
        with closing(Store(f"{through}?sslmode=disable")) as store, closing(store.turns.open_hints(print)) as hints:
            wait_until(lambda: hints.problem == DEAF)
            echoes = pooler.eaten
            wait_until(lambda: pooler.eaten > echoes + 1)  # it is tried again, in case the pooler is gone
            assert hints.problem == DEAF
    assert [record.message for record in caplog.records].count(DEAF) == 1
