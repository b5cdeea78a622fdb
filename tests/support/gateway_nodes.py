"""Several gateways as processes, each with a home of its own, on one PostgreSQL; people speak to their bot in Telegram,
and to each gateway through its socket."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

import psycopg
from gateway_process import HERMES, PATIENCE, GatewayProcess
from waiting import wait_until
from warm_python import run_text
from web_house import Visitor, find_free_port

from hermes_cli.chat.local_client import Gone, call_owner, connect
from hermes_constants import WEB_TOKEN_FILE
from hermes_lab.chats.telegram.service import TelegramRates
from hermes_lab.chats.telegram.telegram_lab import TelegramLab
from hermes_lab.server import LabServer

ACCOUNT = "telegram:bot"
T = TypeVar("T")


class Node(GatewayProcess):
    """One gateway; `name` is that of its home."""

    def __init__(self, home: Path, lab: LabServer, address: str, app: TelegramLab, **settings: Any) -> None:
        parts = urlsplit(address)
        plain = urlunsplit(parts._replace(netloc=f"{parts.username}@{parts.hostname}:{parts.port}"))
        bot = {"enabled": True, "account": "bot", "base_url": app.base_url}
        keys = settings.pop("keys", {})
        super().__init__(
            home,
            lab.base_url,
            store={"url": plain},
            web=settings.pop("web", {"enabled": False}),
            platforms={"telegram": {**bot, **settings.pop("telegram", {})}},
            **settings,
        )
        self.name = home.name
        self.port = 0  # of its page, if it serves one
        secrets = {**keys, "TELEGRAM_BOT_TOKEN": app.token, "HERMES_STORE_PASSWORD": unquote(parts.password or "")}
        (home / ".env").write_text("".join(f"{name}={value}\n" for name, value in secrets.items()))

    def operate(self, operation: str, **args: Any) -> dict[str, Any]:
        """Ask it as its operator does."""
        told = call_owner(self.home, operation, args, PATIENCE)
        assert told is not None, f"{self.name} does not listen"
        return told

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        """As a terminal asks it."""
        connection = connect(self.home)
        assert connection is not None, f"{self.name} does not listen"
        with closing(connection):
            return connection.post(path, body, PATIENCE)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """It is stopped meanwhile, as on a machine that sleeps."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    @property
    def node(self) -> str:
        return str(self.operate("status")["node"])

    def visit(self) -> Visitor:
        """Somebody who came to its page by the printed address."""
        visitor = Visitor(f"http://127.0.0.1:{self.port}", {})
        token = (self.home / WEB_TOKEN_FILE).read_text().strip()
        assert visitor.http.get(f"/?token={token}").status_code == 303
        return visitor

    def has_account(self) -> bool:
        """Whether it hears and sends for the bot."""
        try:
            platforms = self.operate("status")["platforms"]
        except (AssertionError, Gone, OSError):
            return False
        return any(one["name"] == "telegram" and one["connected"] for one in platforms)


class Nodes:
    """Gateways on one database, by name."""

    def __init__(self, folder: Path, lab: LabServer, address: str, people: int = 8, **settings: Any) -> None:
        self.address = address
        self.through: dict[str, int] = {}  # by name: the port by which a gateway reaches the database
        self.telegram = TelegramLab(rates=TelegramRates(None, None, None))
        self.nodes: dict[str, Node] = {}
        self._folder = folder
        self._lab = lab
        self._settings = settings
        self._count = people

    def __enter__(self) -> "Nodes":
        self.telegram.__enter__()
        self.people = [self.telegram.add_person(f"Ann {number}") for number in range(self._count)]
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes.values():
            node.kill()
        self.telegram.__exit__(None, None, None)

    def start(self, *names: str, **settings: Any) -> list[Node]:
        """Begin a life of each, side by side."""
        told = {"telegram": {"owner": str(self.people[0]), "allow": [str(one) for one in self.people[1:]]}}
        for name in names:
            if name not in self.nodes:
                given = {**told, **self._settings, **settings}
                address = self.address
                if port := self.through.get(name):
                    address = address.replace(f":{urlsplit(address).port}/", f":{port}/")
                self.nodes[name] = Node(self._folder / name, self._lab, address, self.telegram, **given)
            self.nodes[name].start(wait=False)
        for name in names:
            self.nodes[name].wait_ready()
        return [self.nodes[name] for name in names]

    def serve_pages(self, *names: str) -> list[Node]:
        """The same, each with its page on a port of its own."""
        for name in names:
            port = find_free_port()
            self.start(name, web={"port": port})[0].port = port
        return [self.nodes[name] for name in names]

    def find_holder(self) -> Node | None:
        """Who hears and sends for the bot."""
        return next((node for node in self.nodes.values() if not node.is_dead and node.has_account()), None)

    def wait_holder(self) -> Node:
        found: list[Node] = []

        def look() -> bool:
            found[:] = [holder for holder in [self.find_holder()] if holder is not None]
            return bool(found)

        wait_until(look)
        return found[0]

    def read(self, query: str) -> list[tuple[Any, ...]]:
        """What stands in the store."""
        with psycopg.connect(self.address) as connection:
            return connection.execute(query).fetchall()

    def try_on(self, damage: str, look: Callable[[Callable[[str], list[tuple[Any, ...]]]], T]) -> T:
        """What is seen of the store after this, which is undone."""
        with psycopg.connect(self.address) as connection:
            connection.execute(damage)
            try:
                return look(lambda query: connection.execute(query).fetchall())
            finally:
                connection.rollback()

    def seen(self, person: int) -> list[str]:
        return self.telegram.seen(person)

    def ask(self, person: int, text: str, answer: str) -> None:
        """Say it, and wait until this is answered."""
        self.telegram.say(person, text)
        wait_until(lambda: answer in self.seen(person))


@contextmanager
def running_nodes(folder: Path, lab: LabServer, address: str, *names: str, **settings: Any) -> Iterator[Nodes]:
    with Nodes(folder, lab, address, **settings) as nodes:
        nodes.start(*names)
        yield nodes


def run_hermes(node: Node, *words: str) -> str:
    """What `hermes` of this source says in the home of a gateway, of whatever version that is."""
    _, said, told = run_text([HERMES, *words], node.environment)
    return said + told
