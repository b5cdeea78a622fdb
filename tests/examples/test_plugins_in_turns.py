"""H11: the plugins among the examples at work in turns on the page, in the terminal, and in a chat app."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from script_loading import load_file
from waiting import wait_until
from warm_python import run_text
from web_house import WebHouse
from web_surfing import CHROMIUM, Site, browser_of_file, open_site

from gateway.platforms.plugin_bridge.bridge_adapter import BridgeAdapter
from hermes_cli import plugins
from hermes_cli.config import lent_env
from hermes_lab.server import LabServer
from tools.registry import registry

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"
HERMES = str(Path(sys.executable).with_name("hermes"))
#: All of them at once: each is used in every turn.
NAMES = sorted(path.name for path in EXAMPLES.iterdir() if (path / "plugin.yaml").exists())
SETTINGS: dict[str, Any] = {
    "model": {"provider": "echo", "default": "echo-1"},
    "plugins": {"enabled": [name for name in NAMES if name != "notebook"]},
    "context": {"engine": "tail"},
    "memory": {"provider": "notebook"},
    "web": {"backend": "bookshelf"},
    "browser": {"cloud_provider": "lent-browser", "timeout": 20},
    "network": {"private": ["127.0.0.1"]},
    "platforms": {"chatroom": {"owner": "olga"}},
    "titles": {"enabled": False},
}
#: What a turn has the model call, and what it reads then.
CALLS = (
    ("roll_dice", {"dice": 2, "sides": 2}),
    ("write_file", {"path": "keep.txt", "content": "gone"}),
    ("skills", {"action": "read", "name": "minutes:minutes"}),
    ("web_search", {"query": "quinces"}),
    ("web_extract", {"url": "https://bookshelf.example/fruit.txt"}),
    ("notebook_search", {"words": "orchard"}),
)
READ = ("keep.txt stays as it is", "who was there", "bookshelf.example/fruit.txt", "Quinces ripen late", '"found"')

Ask = Callable[[str], str]  # says something, and gives back what is answered


class Rooms:
    """One gateway with every example, and the ways to speak to it."""

    def __init__(self, home: Path, lab: LabServer) -> None:
        self.home, self.lab = home, lab
        for name in NAMES:
            shutil.copytree(EXAMPLES / name, home / "plugins" / name, ignore=shutil.ignore_patterns("__pycache__"))
        (home / "shelf").mkdir()
        (home / "shelf" / "fruit.txt").write_text("Quinces ripen late.")
        self.server = load_file(EXAMPLES / "chatroom" / "server.py").ChatServer()
        given = {
            "CHATROOM_ADDRESS": self.server.address,
            "ECHO_MODELS_BASE_URL": lab.base_url,
            "ECHO_MODELS_API_KEY": "any",
            "BOOKSHELF_FOLDER": str(home / "shelf"),
        }
        (home / ".env").write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        self.house = WebHouse(home, lab.base_url, **SETTINGS)

    def __enter__(self) -> "Rooms":
        self.house.start()
        bridge = next(one for one in self.house.gateway.adapters if isinstance(one, BridgeAdapter))
        wait_until(lambda: bridge.theirs is not None)
        return self

    def __exit__(self, *_: object) -> None:
        self.house.stop()
        self.server.close()
        lent_env.lend({})

    def enter(self, room: str) -> Ask:
        return {"page": self._enter_page, "terminal": self._enter_terminal, "chat app": self._enter_chat}[room]()

    def _enter_page(self) -> Ask:
        visitor = self.house.visit()
        conversation = visitor.open()
        stream = visitor.watch(conversation)

        def ask(text: str) -> str:
            before = stream.state.texts("assistant", "note")[-1:]
            visitor.say(conversation, text)
            stream.wait_until(lambda state: state.texts("assistant", "note")[-1:] != before)
            self.house.wait_quiet()
            return stream.state.texts("assistant", "note")[-1]

        return ask

    def _enter_terminal(self) -> Ask:
        begun: list[str] = []

        def ask(text: str) -> str:
            again = ["--continue"] if begun else []
            begun.append(text)
            return self.run("-q", text, *again)

        return ask

    def _enter_chat(self) -> Ask:
        def ask(text: str) -> str:
            before = len(self.server.messages)
            self.server.say(user="olga", chat="olga", text=text, name="Olga")
            wait_until(lambda: len(self.server.messages) > before)
            self.house.wait_quiet()
            return "\n".join(message["text"] for message in list(self.server.messages)[before:])

        return ask

    def run(self, *words: str) -> str:
        env = {**os.environ, "HERMES_HOME": str(self.home)}
        code, said, told = run_text([HERMES, *words], env, folder=str(self.home))
        assert code == 0, said + told
        return said

    def plan(self, *steps: dict[str, Any]) -> int:
        """What the model answers from now on; the number of requests so far."""
        self.lab.set_plan([*steps])
        return len(self.lab.requests)


@pytest.fixture
def rooms(home: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rooms]:
    monkeypatch.setattr(plugins, "_plugin_manager", None)
    monkeypatch.setattr(registry, "_checks", {})  # what a test before found usable
    home.mkdir(exist_ok=True)
    with Rooms(home, lab) as opened:
        yield opened
    plugins.get_plugin_manager().clear()
    for name in [name for name in sys.modules if name.startswith(("hermes_plugins", "_hermes_user_memory"))]:
        del sys.modules[name]


def calls(*wanted: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in wanted]}


@pytest.mark.parametrize("room", ["page", "terminal", "chat app"])
def test_each_plugin_is_used_in_a_turn(rooms: Rooms, room: str) -> None:
    ask = rooms.enter(room)
    before = rooms.plan(calls(*CALLS), {"text": "All done."})
    assert "All done." in ask("Look after the orchard")
    first, second = rooms.lab.requests[before : before + 2]

    body = first.json()  # the provider of models
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("echo-1", 0.2, 512)
    assert first.header("x-asked-by") == "hermes"
    assert {tool["function"]["name"] for tool in body["tools"]} >= {name for name, _ in CALLS}
    assert "`notebook_search` finds more" in str(body["messages"][0])  # the memory

    results = [message["content"] for message in second.json()["messages"] if message["role"] == "tool"]
    assert results[0] in ("1, 1", "1, 2", "2, 1", "2, 2")
    assert not (rooms.home / "keep.txt").exists()
    for word in READ:
        assert any(word in result for result in results), (word, results)
    took = [name for name, _ in sys.modules["hermes_plugins.stopwatch"].took]
    assert set(took) == {name for name, _ in CALLS} - {"write_file"}

    assert ask("/shout hello").strip().endswith("HELLO!")

    for number in range(6):
        rooms.plan({"text": f"Answer {number}."})
        assert f"Answer {number}." in ask(f"Question {number}")
    ask("/compress")
    before = rooms.plan({"text": "Still here."})
    assert "Still here." in ask("Go on")
    left = rooms.lab.requests[before].json()["messages"]
    assert "Look after the orchard" not in str(left)  # the engine kept the end
    assert "Question 5" in str(left)

    ask("/new")
    again = rooms.enter(room)
    before = rooms.plan({"text": "I know."})
    again("What about the orchard?")
    assert "Look after the orchard – All done." in str(rooms.lab.requests[before].json()["messages"][-1])


def test_a_command_of_the_terminal(rooms: Rooms) -> None:
    assert rooms.run("greet", "Ada") == "Hello Ada.\n"


@pytest.mark.peers
@pytest.mark.parametrize("room", ["page", "terminal", "chat app"])
def test_a_browser_is_lent_for_a_turn(rooms: Rooms, room: str) -> None:
    with browser_of_file(), open_site() as site:
        assert CHROMIUM.exists()
        shown = use_browser(rooms, room, site)
        assert "A page about tea" in shown


def use_browser(rooms: Rooms, room: str, site: Site) -> str:
    site.pages = {"/": "A page about tea"}
    before = rooms.plan(calls(("browser", {"action": "open", "url": site.url})), {"text": "Read."})
    rooms.enter(room)("Read it to me")
    messages = rooms.lab.requests[before + 1].json()["messages"]
    return str(next(message["content"] for message in messages if message["role"] == "tool"))
