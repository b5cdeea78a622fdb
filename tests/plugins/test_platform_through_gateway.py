"""A chat platform of a plugin, as somebody would use it: the example, copied, enabled and driven through a gateway."""

import base64
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_process import GatewayProcess
from house import House
from script_loading import load_file
from waiting import wait_until

from gateway.config import Platform
from gateway.platforms import base, platform_list
from gateway.platforms.account_settings import is_on
from gateway.platforms.base import MessageEvent
from gateway.platforms.plugin_bridge import bridge_adapter, send_results
from gateway.platforms.plugin_bridge.bridge_adapter import BridgeAdapter
from gateway.run import _gateway_runner_ref
from gateway.service import connections
from gateway.service.retention import find_old_copies
from gateway.session import build_session_key
from hermes_base.inbound import NOTE, Address, Outgoing
from hermes_cli import config as cli_config
from hermes_cli import plugins, plugins_cmd
from hermes_cli.cmds import doctor, platform_setup_cmd
from hermes_cli.config import lent_env
from hermes_cli.plugins.plugin_platforms import has_own_access
from hermes_lab.server import LabServer

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins" / "chatroom"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


@pytest.fixture(autouse=True)
def _fresh_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(connections, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(bridge_adapter, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(bridge_adapter, "PULSE_SECONDS", 0.2)
    monkeypatch.setattr(send_results, "PATIENCE", 0.1)
    yield
    lent_env.lend({})


@pytest.fixture
def server() -> Iterator[Any]:
    made = load_file(EXAMPLE / "server.py").ChatServer()
    yield made
    made.close()


def install(home: Path, **variables: str) -> None:
    shutil.copytree(EXAMPLE, home / "plugins" / "chatroom", ignore=shutil.ignore_patterns("__pycache__"))
    (home / ".env").write_text("".join(f"{name}={value}\n" for name, value in variables.items()))


def open_house(home: Path, lab: LabServer, names: tuple[str, ...] = ("chatroom",), **more: Any) -> House:
    terminal = {"network": False}
    return House(
        home, lab.base_url, plugins={"enabled": list(names), **more.pop("plugins", {})}, terminal=terminal, **more
    )


@pytest.fixture
def house(home: Path, lab: LabServer, server: Any) -> Iterator[House]:
    install(home, CHATROOM_ADDRESS=server.address)
    owner = {"platforms": {"chatroom": {"owner": "olga", "channel_prompts": {"den": "Speak in rhymes."}}}}
    with open_house(home, lab, approvals={"mode": "ask"}, **owner) as made:
        wait_connected(made)
        yield made


def find_bridge(house: House) -> BridgeAdapter:
    return next(one for one in house.gateway.adapters if isinstance(one, BridgeAdapter))


def wait_connected(house: House) -> None:
    wait_until(lambda: find_bridge(house).theirs is not None)


def texts(server: Any, chat: str) -> list[str]:
    return [message["text"] for message in list(server.messages) if message["chat"] == chat]


def wait_seen(server: Any, chat: str, text: str) -> dict[str, Any]:
    def find() -> list[dict[str, Any]]:
        return [one for one in list(server.messages) if one["chat"] == chat and text in one["text"]]

    end = time.monotonic() + 30
    while not find():
        assert time.monotonic() < end, f"{text!r} was never seen in {chat}: {texts(server, chat)}"
        time.sleep(0.01)
    return find()[-1]


def tool_results(house: House, chat: str, kind: str = "dm") -> list[str]:
    store = house.gateway.store
    session = store.current(f"agent:main:chatroom:{kind}:{chat}")
    assert session is not None
    return [str(row.message["content"]) for row in store.load(session.id).rows if row.message.get("role") == "tool"]


# --- messages


def test_a_message_is_answered_once_however_often_it_comes(house: House, server: Any, lab: LabServer) -> None:
    """C1, C7: the answer stands there once; the server hears that a message was taken when it is stored."""
    server.say("olga", "hello there", id="first")
    wait_seen(server, "olga", "hello there")
    server.say("olga", "hello there", id="first")
    wait_until(lambda: server.confirmed.count("first") == 2)
    house.wait_quiet()
    assert len(texts(server, "olga")) == 1
    assert len(lab.requests) == 1
    assert ("first", "taken") in server.marks
    wait_until(lambda: ("first", "success") in server.marks)


def test_an_adapter_hears_of_the_beginning_and_the_end_of_each_turn(house: House, server: Any) -> None:
    """Also when its chat has no room left for what may be left out (C7)."""
    names = [f"quick-{number}" for number in range(8)]
    for name in names:
        server.say("olga", name, id=name)
        wait_seen(server, "olga", name)
        house.wait_quiet()
    wait_until(lambda: (names[-1], "success") in server.marks)
    assert [name for name in names if {(name, "taken"), (name, "success")} - set(server.marks)] == []


def test_a_draft_grows_and_becomes_the_answer(house: House, server: Any, lab: LabServer) -> None:
    """C7, C8."""
    lab.set_plan([{"text": "One word after the other, until all is said.", "chunks": 9, "stall_between": 0.25}])
    server.say("olga", "tell me")
    message = wait_seen(server, "olga", "all is said.")
    house.wait_quiet()
    assert message["edits"][0].startswith("One")
    assert message["edits"][0].endswith("…")
    assert (message["text"], message["final"]) == ("One word after the other, until all is said.", True)
    assert len(texts(server, "olga")) == 1


def test_the_model_is_told_of_the_platform_and_the_chat_and_the_prefix_stays(
    house: House, server: Any, lab: LabServer
) -> None:
    """A1, A3: in messages, never in the system prompt; the platform once for a conversation."""
    lab.set_plan([{"text": "Yes."}, {"text": "No."}])
    for number, word in enumerate(("one", "two"), 1):
        server.say("olga", word, chat="den", kind="group")
        wait_until(lambda number=number: len(texts(server, "den")) >= number)
        house.wait_quiet()
    bodies = [request.body.decode() for request in lab.requests]
    assert [body.count("plain chat window") for body in bodies] == [1, 1]
    assert [body.count("Speak in rhymes.") for body in bodies] == [1, 2]
    assert not house.gateway.store.breaks()


def test_files_go_both_ways(house: House, server: Any, lab: LabServer, home: Path) -> None:
    """G7: what came is copied to the uploads; what goes is the file itself, not its path."""
    picture = {"name": "a.png", "type": "image/png", "data": base64.b64encode(PNG).decode()}
    paper = {"name": "paper.txt", "type": "text/plain", "data": base64.b64encode(b"words").decode()}
    server.say("olga", "look at these", files=[picture, paper])
    wait_seen(server, "olga", "look at these")
    house.wait_quiet()
    kept = [path.read_bytes() for path in (home / "uploads").rglob("*") if path.is_file()]
    assert sorted(kept) == sorted([PNG, b"words"])
    assert b"image_url" in lab.requests[-1].body
    (home / "workspace").mkdir(exist_ok=True)
    (home / "workspace" / "out.txt").write_text("for you")
    server.say("olga", '[[tool send_file {"path": "out.txt", "caption": "Here it is."}]] send it')
    wait_until(lambda: any(one["op"] == "file" for one in server.messages))
    sent = next(one for one in server.messages if one["op"] == "file")
    assert (sent["name"], base64.b64decode(sent["data"]), sent["text"]) == ("out.txt", b"for you", "Here it is.")


# --- people


def test_a_stranger_gets_a_code_and_nothing_else(house: House, server: Any, lab: LabServer) -> None:
    """G1: in a group not even that."""
    server.say("mallory", "let me in", chat="mallory")
    said = wait_seen(server, "mallory", "hermes people approve")["text"]
    server.say("mallory", "hello all", chat="den", kind="group", id="in-group")
    wait_until(lambda: "in-group" in server.confirmed)
    code = said.rpartition("approve ")[2].split()[0]
    house.operate("people.approve", code=code, role="member")
    server.say("mallory", "and now?", chat="mallory")
    wait_seen(server, "mallory", "and now?")
    house.wait_quiet()
    assert texts(server, "den") == []
    assert len(lab.requests) == 1


def test_what_an_adapter_says_of_who_may_write_counts_for_nothing(house: House, server: Any, lab: LabServer) -> None:
    """G1, G2: neither `internal`, nor a role, nor a message of nobody."""
    theirs = find_bridge(house).theirs
    assert theirs is not None

    async def hand_over() -> None:
        known = theirs.build_source("x", user_id="mallory", role_authorized=True)
        await theirs.handle_message(MessageEvent("internal", source=known, message_id="i", internal=True))
        await theirs.handle_message(MessageEvent("nobody", source=theirs.build_source("x"), message_id="n"))

    house.wait_for(find_bridge(house).run(hand_over, 10))
    wait_seen(server, "x", "hermes people approve")
    house.wait_quiet()
    assert lab.requests == ()


@pytest.mark.parametrize(("consent", "let_in"), [(None, False), (False, False), (True, True)])
def test_rules_of_a_plugin_need_the_owner_s_consent(
    home: Path, lab: LabServer, server: Any, consent: bool | None, let_in: bool
) -> None:
    """G1: a variable that lets everybody in does so only if the owner agreed; one that names people always does."""
    install(home, CHATROOM_ADDRESS=server.address, CHATROOM_ALLOW_ALL_USERS="true", CHATROOM_ALLOWED_USERS="bea, carl")
    entries = {"chatroom": {"allow_own_access": consent}} if consent is not None else {}
    with open_house(home, lab, plugins={"entries": entries}) as house:
        wait_connected(house)
        server.say("bea", "I am listed")
        wait_seen(server, "bea", "I am listed")
        server.say("eve", "I am not")
        wait_seen(server, "eve", "I am not" if let_in else "hermes people approve")


def test_enabling_asks_for_that_consent(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    install(home)
    assert plugins_cmd.main(["enable", "chatroom"]) == 0
    assert not has_own_access("chatroom")
    assert plugins_cmd.main(["enable", "chatroom", "--allow-own-access"]) == 0
    assert has_own_access("chatroom")
    assert plugins_cmd.main(["enable", "chatroom", "--no-allow-own-access"]) == 0
    assert not has_own_access("chatroom")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: "yes")
    assert plugins_cmd.main(["enable", "chatroom"]) == 0
    assert has_own_access("chatroom")
    assert "gets a code" in capsys.readouterr().out


# --- questions

TOUCH = '[[tool terminal {"command": "touch made && echo done"}]]'


def test_an_approval_by_button(house: House, server: Any, tmp_path: Path) -> None:
    """G4: the adapter's own buttons, without the two keywords that it does not take; pressed once."""
    server.say("olga", f"{TOUCH} please")
    asked = wait_seen(server, "olga", "May I?")
    assert "touch made" in asked["text"]
    assert asked["buttons"] == ["once", "session", "deny"]
    server.press(asked["id"], "once")
    server.press(asked["id"], "once")
    house.wait_quiet()
    assert any("done" in result for result in tool_results(house, "olga"))


def test_a_refusal_by_button_and_by_text(house: House, server: Any) -> None:
    for number, refuse in enumerate(("press", "/deny use the other one", "no"), 1):
        server.say("olga", f"{TOUCH} please {number}")
        wait_until(lambda number=number: sum("May I?" in text for text in texts(server, "olga")) == number)
        asked = wait_seen(server, "olga", "May I?")
        wait_shown(house, "agent:main:chatroom:dm:olga")
        if refuse == "press":
            server.press(asked["id"], "deny")
        else:
            server.say("olga", refuse)
        house.wait_quiet()
    results = tool_results(house, "olga")
    assert len(results) == 3
    assert not any("done" in result for result in results)
    assert "use the other one" in results[1]


def test_in_a_group_it_is_asked_by_text(house: House, server: Any) -> None:
    """G4: nobody could tell who pressed a button there."""
    server.say("olga", f"{TOUCH} please", chat="den", kind="group")
    asked = wait_seen(server, "den", "touch made")
    assert not asked.get("buttons")
    wait_shown(house, "agent:main:chatroom:group:den")
    server.say("olga", "/approve", chat="den", kind="group")
    house.wait_quiet()
    assert any("done" in result for result in tool_results(house, "den", "group"))


def test_a_question_of_the_model_by_button_and_by_text(house: House, server: Any) -> None:
    for number, how in enumerate(("press", "blue"), 1):
        server.say("olga", '[[tool clarify {"question": "Which one?", "choices": ["red", "blue"]}]]')
        wait_until(lambda number=number: texts(server, "olga").count("Which one?") == number)
        asked = wait_seen(server, "olga", "Which one?")
        assert asked["buttons"] == ["red", "blue"]
        wait_shown(house, "agent:main:chatroom:dm:olga")
        if how == "press":
            server.press(asked["id"], "red")
        else:
            server.say("olga", how)
        house.wait_quiet()
    assert ["red" in result for result in tool_results(house, "olga")] == [True, False]


def wait_shown(house: House, key: str) -> None:
    wait_until(lambda: (asked := house.gateway.questions.open(key)) is not None and bool(asked.shown))


# --- messages that nobody waits for


def test_a_message_to_the_home_channel_goes_out_also_without_a_connection(
    house: House, server: Any, home: Path
) -> None:
    """C9: by the plugin's own way for that."""
    with (home / ".env").open("a") as file:
        file.write("CHATROOM_HOME_CHANNEL=square\n")
    tell(house, server, "good morning")
    wait_seen(server, "square", "good morning")
    house.wait_quiet()
    bridge = find_bridge(house)
    theirs, bridge._theirs = bridge._theirs, None
    try:
        address = Address("chatroom", "chatroom", "square")
        key = address.conversation("default")
        house.gateway.store.turns.post(key, "night", Outgoing(address, "good night", NOTE))
        house.call(lambda: house.gateway.delivery.wake(address))
        wait_seen(server, "square", "good night")
    finally:
        bridge._theirs = theirs


def tell(house: House, server: Any, text: str) -> None:
    """The model sends a message to the platform's home, and the person agrees by a button."""
    order = {"action": "send", "to": "chatroom", "message": text}
    server.say("olga", f"[[tool send_message {json.dumps(order)}]] tell them")
    asked = wait_seen(server, "olga", "Send a message to")
    wait_shown(house, "agent:main:chatroom:dm:olga")
    server.press(asked["id"], "once")


# --- trouble


def test_a_server_that_hangs_up_is_connected_again_by_another_adapter(house: House, server: Any) -> None:
    bridge = find_bridge(house)
    before = bridge.theirs
    server.hang_up()
    wait_until(lambda: bridge.theirs not in (None, before))
    server.say("olga", "still there?")
    wait_seen(server, "olga", "still there?")
    runner = _gateway_runner_ref()
    assert runner.adapters[Platform("chatroom")] is bridge.theirs
    assert bridge.problem == ""


def test_a_send_that_is_refused_for_now_is_made_again(house: House, server: Any) -> None:
    """C9."""
    refusals = iter(["busy"])
    server.refuse = lambda order: next(refusals, None) if order["op"] == "send" else None
    server.say("olga", "patience")
    wait_seen(server, "olga", "patience")
    house.wait_quiet()
    assert len(texts(server, "olga")) == 1


def test_what_is_never_taken_is_kept_with_the_reason(house: House, server: Any) -> None:
    server.refuse = lambda order: "no such room" if order["op"] in ("send", "edit") else None
    server.say("olga", "anybody?")
    wait_until(lambda: house.gateway.delivery.counts["failed"] >= 1)
    rows = house.gateway.store.turns.outbox_since("agent:main:chatroom:dm:olga", 0)
    assert "anybody?" in rows[0].outgoing.text
    server.refuse = None
    wait_seen(server, "olga", "no such room")


FAULTY = """
import asyncio, os, sys, time
from gateway.config import Platform
from gateway.platforms.base import BasePlatformAdapter, MessageEvent, SendResult

made = []

class Faulty(BasePlatformAdapter):
    def __init__(self, config):
        super().__init__(config, Platform("faulty"))
        made.append(self)
        self.mood = config.extra["mood"]
        self.sent = []

    async def connect(self):  # without the keyword that newer hosts give
        if self.mood == "connect raises" and len(made) < 3:
            raise RuntimeError("no way in")
        if self.mood == "connect exits" and len(made) < 3:
            sys.exit(3)
        if self.mood == "fatal":
            self._set_fatal_error("auth", "The token is wrong.", retryable=False)
            return False
        self._mark_connected()
        return True

    async def disconnect(self):
        if self.mood == "disconnect raises":
            raise RuntimeError("I stay")
        if self.mood == "disconnect hangs":
            await asyncio.sleep(3600)
        if self.mood == "disconnect blocks":
            time.sleep(20)

    async def send(self, chat_id, content, reply_to=None, metadata=None):
        if self.mood == "send raises" and not self.sent:
            self.sent.append("")
            raise RuntimeError("not like this")
        if self.mood == "send hangs" and len(made) == 1:
            self.sent.append(content)
            await asyncio.sleep(3600)
        self.sent.append(content)
        return SendResult(True)

    async def get_chat_info(self, chat_id):
        return {}

    async def fail(self, retryable):
        self._set_fatal_error("gone", "The service let us go.", retryable=retryable)
        await self._notify_fatal_error()

    async def hear(self, text):
        source = self.build_source("c", user_id="olga")
        await self.handle_message(MessageEvent(text, source=source, message_id=text))

def register(ctx):
    ctx.register_platform("faulty", "Faulty", Faulty, lambda: True)
"""


def open_faulty(home: Path, lab: LabServer, write_plugin: Callable[..., Path], mood: str) -> House:
    write_plugin("faulty", FAULTY)
    section = {"enabled": True, "owner": "olga", "mood": mood}
    return open_house(home, lab, ("faulty",), platforms={"faulty": section}, pretend={"owner": "ann"})


def hear(house: House, text: str) -> None:
    bridge = find_bridge(house)
    theirs: Any = bridge.theirs
    house.wait_for(bridge.run(lambda: theirs.hear(text), 20))


@pytest.mark.parametrize("mood", ["connect raises", "connect exits", "send raises"])
def test_one_that_fails_is_tried_again(
    home: Path, lab: LabServer, write_plugin: Callable[..., Path], mood: str
) -> None:
    """C9, C13: by another object each time; a send of which nobody knows is marked (C7)."""
    with open_faulty(home, lab, write_plugin, mood) as house:
        wait_connected(house)
        hear(house, "hello")
        theirs: Any = find_bridge(house).theirs
        wait_until(lambda: any("hello" in text for text in theirs.sent))
        made = vars(plugins.get_plugin_manager()._plugins["faulty"].module)["made"]
        assert len(made) == (1 if mood == "send raises" else 3)
        if mood == "send raises":
            assert "sent again" in theirs.sent[-1]
        assert house.person("ann").ask("and you?")


def test_a_fatal_error_is_told_and_not_tried_again(
    home: Path, lab: LabServer, write_plugin: Callable[..., Path]
) -> None:
    with open_faulty(home, lab, write_plugin, "fatal") as house:
        wait_until(lambda: "The token is wrong." in find_bridge(house).problem)
        time.sleep(0.2)
        assert len(vars(plugins.get_plugin_manager()._plugins["faulty"].module)["made"]) == 1
        status = house.operate("status")
        told = next(one for one in status["platforms"] if one["name"] == "faulty")
        assert (told["label"], told["connected"]) == ("Faulty", False)
        assert "The token is wrong." in told["problem"]


def test_a_running_one_that_reports_a_lasting_error_stays_off(
    home: Path, lab: LabServer, write_plugin: Callable[..., Path]
) -> None:
    with open_faulty(home, lab, write_plugin, "calm") as house:
        wait_connected(house)
        bridge = find_bridge(house)
        theirs: Any = bridge.theirs
        house.wait_for(bridge.run(lambda: theirs.fail(False), 10))
        wait_until(lambda: "The service let us go." in bridge.problem)
        assert bridge.theirs is None
        assert house.person("ann").ask("and you?")
        assert len(vars(plugins.get_plugin_manager()._plugins["faulty"].module)["made"]) == 1


def test_a_call_that_hangs_ends_with_its_connection(
    home: Path, lab: LabServer, write_plugin: Callable[..., Path]
) -> None:
    """C7, C9: nobody knows whether it arrived, so it is sent again with a mark, by the next adapter."""
    with open_faulty(home, lab, write_plugin, "send hangs") as house:
        wait_connected(house)
        bridge = find_bridge(house)
        first: Any = bridge.theirs
        hear(house, "hello")
        wait_until(lambda: bool(first.sent))
        house.wait_for(bridge.run(lambda: first.fail(True), 10))
        wait_until(lambda: bridge.theirs not in (None, first))
        second: Any = bridge.theirs
        wait_until(lambda: bool(second.sent))
        assert "sent again" in second.sent[0]


@pytest.mark.parametrize("mood", ["disconnect raises", "disconnect hangs", "disconnect blocks"])
def test_one_that_does_not_part_holds_nobody_up(
    home: Path, lab: LabServer, write_plugin: Callable[..., Path], mood: str
) -> None:
    """C14."""
    with open_faulty(home, lab, write_plugin, mood) as house:
        wait_connected(house)
        began = time.monotonic()
        house.stop()
        assert time.monotonic() - began < 9.0


def test_one_that_blocks_its_loop_blocks_nobody_else(
    home: Path, lab: LabServer, write_plugin: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F5, C13: the others are answered, its state is told, and it is well again when it moves."""
    monkeypatch.setattr(bridge_adapter, "ANSWER_SECONDS", 0.1)
    with open_faulty(home, lab, write_plugin, "calm") as house:
        wait_connected(house)
        bridge = find_bridge(house)
        assert bridge._loop is not None
        block = time.time() + 2.0
        bridge._loop._loop.call_soon_threadsafe(lambda: time.sleep(max(0.0, block - time.time())))
        assert house.person("ann").ask("hello")
        wait_until(lambda: "stands still" in bridge.problem)
        wait_until(lambda: bridge.problem == "")
        hear(house, "hello")


def test_a_killed_gateway_loses_nothing(home: Path, lab: LabServer, server: Any) -> None:
    """C1, C2: what was confirmed is answered, also by the next process; what was not comes again. Once."""
    install(home, CHATROOM_ADDRESS=server.address)
    settings = {
        "plugins": {"enabled": ["chatroom"]},
        "platforms": {"chatroom": {"owner": "olga"}},
        "web": {"enabled": False},
        "titles": {"enabled": False},
        "gateway": {"busy": "queue"},
    }
    with GatewayProcess(home, lab.base_url, **settings) as gateway:
        gateway.start()
        lab.set_plan([{"text": "too late", "stall_first": 60.0}])
        server.say("olga", "slow one", id="slow")
        wait_until(lambda: "slow" in server.confirmed and len(lab.requests) == 1)
        gateway.kill()
        server.say("olga", "said meanwhile", id="meanwhile")
        lab.set_plan([{"text": "the first"}, {"text": "the second"}])
        gateway.start()
        wait_until(lambda: "the second" in texts(server, "olga"))  # whole: what grows before has a mark at its end
        wait_until(lambda: "meanwhile" in server.confirmed)
        assert [text for text in texts(server, "olga") if text in ("the first", "the second")] == [
            "the first",
            "the second",
        ]
        assert gateway.terminate() == 0


# --- what plugins see of the house

LOOKING = """
from gateway.session import build_session_key
seen = []

def look(event, gateway, session_store, **_):
    seen.append((event, gateway, build_session_key(event.source)))
    if event.text == "drop me":
        return {"action": "skip", "reason": "a test"}
    if event.text == "change me":
        return {"action": "rewrite", "text": "changed"}
    if event.text == "touch me":
        event.text, event.channel_prompt = "touched", "Be brief."
        return {"action": "allow"}

def register(ctx):
    ctx.register_hook("pre_gateway_dispatch", look)
"""


def test_hooks_see_every_message_in_their_form(
    home: Path, lab: LabServer, server: Any, write_plugin: Callable[..., Path]
) -> None:
    """Of their platforms and of ours; they drop it, rewrite it, or change the event."""
    install(home, CHATROOM_ADDRESS=server.address)
    write_plugin("looking", LOOKING)
    owners = {"platforms": {"chatroom": {"owner": "olga"}}, "pretend": {"owner": "ann"}}
    with open_house(home, lab, ("chatroom", "looking"), **owners) as house:
        wait_connected(house)
        ann = house.person("ann")
        assert ann.ask("drop me") == []
        (changed,) = ann.ask("change me")
        assert changed.startswith("You said: changed")
        server.say("olga", "touch me", id="t")
        wait_seen(server, "olga", "touched")
        house.wait_quiet()
        assert b"Be brief." in lab.requests[-1].body
        seen = vars(plugins.get_plugin_manager()._plugins["looking"].module)["seen"]
        event, gateway, key = seen[-1]
        assert (event.message_id, event.source.user_id, event.source.platform) == ("t", "olga", Platform("chatroom"))
        assert key == "agent:main:chatroom:dm:olga" == gateway._session_key_for_source(event.source)
        assert seen[0][0].source.platform.value == "pretend"
        assert gateway is _gateway_runner_ref()
        look_at_runner(gateway, event)


def look_at_runner(runner: Any, event: Any) -> None:
    key = build_session_key(event.source)
    assert runner._is_user_authorized(event.source)
    assert runner.config.platforms[Platform("chatroom")].enabled
    entry = runner.session_store.get_or_create_session(event.source)
    assert (entry.session_key, entry.session_id) == (key, runner.session_store.peek_session_id(key))
    assert runner.session_store._entries[key].session_id == entry.session_id
    assert runner.session_store.lookup_by_session_id(entry.session_id).session_key == key
    transcript = runner.session_store.load_transcript(entry.session_id)
    assert [row["role"] for row in transcript][:2] == ["user", "assistant"]
    runner.session_store.append_to_transcript(entry.session_id, {"role": "user", "content": "unanswered"})
    runner._session_model_overrides[key] = {"model": "other", "provider": ""}
    assert runner._session_model_overrides[key]["model"] == "other"
    del runner._session_model_overrides[key]
    assert key not in runner._session_model_overrides


# --- registering


def test_a_plugin_takes_no_platform_of_ours(home: Path, write_plugin: Callable[..., Path], configure: Any) -> None:
    write_plugin(
        "greedy",
        """
        def register(ctx):
            ctx.register_platform("telegram", "Mine", print, lambda: True)
            ctx.register_platform("Bad Name", "Mine", print, lambda: True)
            ctx.register_platform("fine", "Fine", print, lambda: True, emoji="x", pii_safe=True)
        """,
    )
    configure(plugins={"enabled": ["greedy"]})
    plugins.discover_plugins()
    assert platform_list.find_spec("telegram").label == "Telegram"
    assert platform_list.find_spec("fine").label == "Fine"
    assert [entry.name for entry in plugins.find_offers("platform")] == ["fine"]
    plugins.get_plugin_manager().clear()
    assert "fine" not in [spec.name for spec in platform_list.all_specs()]


def test_an_unknown_field_is_an_error(home: Path, write_plugin: Callable[..., Path], configure: Any) -> None:
    write_plugin("odd", "def register(ctx): ctx.register_platform('x', 'X', print, print, nonsense=1)")
    configure(plugins={"enabled": ["odd"]})
    plugins.discover_plugins()
    assert "nonsense" in str(plugins.get_plugin_manager()._plugins["odd"].error)


def test_variables_of_a_plugin_that_is_not_enabled_switch_nothing_on(home: Path, lab: LabServer, server: Any) -> None:
    """G10."""
    install(home, CHATROOM_ADDRESS=server.address)
    with open_house(home, lab, ()) as house:
        assert not [one for one in house.gateway.adapters if isinstance(one, BridgeAdapter)]
    assert "CHATROOM_ADDRESS" not in os.environ


def test_an_exported_variable_wins_over_the_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOY_ONE", "from outside")
    lent_env.lend({"TOY_ONE": "from the file", "TOY_TWO": "from the file"})
    assert (os.environ["TOY_ONE"], os.environ["TOY_TWO"]) == ("from outside", "from the file")
    lent_env.lend({"TOY_TWO": "changed"})
    assert os.environ["TOY_TWO"] == "changed"
    lent_env.lend({})
    assert "TOY_TWO" not in os.environ
    assert os.environ["TOY_ONE"] == "from outside"


def test_a_variable_that_changes_makes_the_platform_anew(home: Path, lab: LabServer, server: Any) -> None:
    """H6: also one that was set when the gateway ran already."""
    install(home)
    with open_house(home, lab, platforms={"chatroom": {"owner": "olga"}}) as house:
        assert not [one for one in house.gateway.adapters if isinstance(one, BridgeAdapter)]
        (home / ".env").write_text(f"CHATROOM_ADDRESS={server.address}\n")
        wait_until(lambda: any(isinstance(one, BridgeAdapter) for one in house.gateway.adapters))
        wait_connected(house)
        server.say("olga", "hello")
        wait_seen(server, "olga", "hello")


def test_it_is_listed_and_set_up_like_any_other(
    home: Path, server: Any, configure: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(home)
    configure(plugins={"enabled": ["chatroom"]})
    monkeypatch.setattr("builtins.input", lambda _: server.address)
    assert platform_setup_cmd.main("chatroom") == 0
    assert f"CHATROOM_ADDRESS={server.address}" in (home / ".env").read_text()
    assert platform_setup_cmd.print_without_terminal("Chatroom") == 1
    assert "platforms.chatroom.enabled" in capsys.readouterr().out
    assert is_on(platform_list.find_spec("chatroom"), {})
    told = [finding.what for finding in doctor._check_accounts(cli_config.load_settings())]
    assert "Chatroom: Chatroom is set up." in told


def test_received_files_are_let_go_in_time(home: Path) -> None:
    """F7."""
    kept = Path(base.cache_document_from_bytes(b"old", "a.txt"))
    assert find_old_copies(home, time.time() + 60) == [kept]
    assert find_old_copies(home, time.time() - 60) == []


def test_only_what_was_received_is_copied(home: Path, tmp_path: Path) -> None:
    """G7: a path that an adapter gives leads to no secret, whatever links it has."""
    (home / ".env").write_text("A=1")
    (home / "cache").mkdir()
    (home / "cache" / "link").symlink_to(home / ".env")
    for path in (home / ".env", home / "cache" / "link", Path("/etc/passwd"), home / "cache"):
        with pytest.raises(OSError):
            bridge_adapter._copy(str(path), tmp_path / "copy")
    bridge_adapter._copy(base.cache_document_from_bytes(b"fine", "a.txt"), tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"fine"
