"""Bytes that are sent are bytes that are kept: each request starts with the bytes of the one before (A1, A3, A6)."""

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent.turn.conversation import Conversation
from hermes_base.turn.journal import Row, Transcript
from hermes_lab.server import LabServer
from hermes_state.memory_journal import MemoryJournal
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal
from tools.registry import registry

TURNS = 30


def sent_bytes(body: bytes) -> bytes:
    """Tools, system and messages of a request: everything before the list's end."""
    return body[: body.rindex(b'],"stream"')]


def assert_each_starts_with_the_last(lab: LabServer) -> None:
    bodies = [request.body for request in lab.requests]
    for place in range(1, len(bodies)):
        assert bodies[place].startswith(sent_bytes(bodies[place - 1])), f"request {place} moved a byte of its prefix"


def script(turn: int) -> str:
    if turn % 3 == 0:
        return f'turn {turn}: just an answer, with ümläuts and "quotes"'
    return f'turn {turn} [[tool look {{"at": {turn}}}]][[tool look {{"at": "ü"}}]][[then]][[say turn {turn} is done]]'


@pytest.fixture
def looking(tool: Any) -> None:
    tool("look", lambda args: json.dumps({"seen": args["at"], "by": "«look»"}, ensure_ascii=False))


def test_30_turns_with_tools_over_evictions_and_reopened_stores(
    make_agent: Any, lab: LabServer, looking: None, tmp_path: Path
) -> None:
    """A1, A6: also with an agent rebuilt after eviction and with the store opened anew."""
    stores = [Store(tmp_path / "store.db")]
    build = lambda: make_agent(journal=StoreJournal(lambda: stores[-1], NewSession("c")))  # noqa: E731
    agent = build()
    for turn in range(TURNS):
        if turn % 7 == 6:
            agent.release_clients()
            agent = build()
        if turn % 10 == 9:
            stores[-1].close()
            stores.append(Store(tmp_path / "store.db"))
            agent = build()
        result = agent.run_conversation(script(turn))
        assert (result["completed"], result["prefix_breaks"]) == (True, [])
    assert len(lab.requests) == TURNS + 2 * TURNS // 3
    assert_each_starts_with_the_last(lab)
    stores[-1].close()


CHILD = """
import json, sys
from hermes_base.turn.hooks import NoHooks
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal
from hermes_state.sql.store_sql import Store
from pathlib import Path
from run_agent import AIAgent
from tools.registry import registry
address, path, text = sys.argv[1:]
registry.register("look", "lab-tools", {"description": "look", "parameters": {"type": "object", "properties": {}}},
                  lambda args: json.dumps({"seen": args["at"]}))
store = Store(Path(path))
agent = AIAgent(base_url=address, model="lab-model", api_key="lab-key-12345678", hooks=NoHooks(),
                enabled_toolsets=["lab-tools"], skip_context_files=True,
                journal=StoreJournal(lambda: store, NewSession("c")))
print(agent.run_conversation(text)["final_response"])
store.close()
"""


@pytest.mark.slow
def test_the_prefix_survives_the_process(lab: LabServer, tmp_path: Path) -> None:
    """A1, A6: four processes, one conversation, one growing prefix."""
    for turn in range(4):
        run = [sys.executable, "-c", CHILD, lab.base_url, str(tmp_path / "store.db"), script(turn)]
        subprocess.run(run, check=True, timeout=200, capture_output=True, cwd=tmp_path)
    assert len(lab.requests) == 6
    assert_each_starts_with_the_last(lab)


def test_a_changed_registry_does_not_move_the_tools_of_a_running_conversation(
    make_agent: Any, lab: LabServer, looking: None, tool: Any, tmp_path: Path
) -> None:
    """A5, A6: a tool that came or went leaves the stored array alone; the call of a vanished one fails clearly."""
    store = Store(tmp_path / "store.db")
    make_agent(journal=StoreJournal(lambda: store, NewSession("c"))).run_conversation(script(1))
    registry.deregister("look")
    tool("another", lambda args: "new")
    result = make_agent(journal=StoreJournal(lambda: store, NewSession("c"))).run_conversation(
        '[[tool look {"at": 1}]]'
    )
    assert "There is no tool called 'look'" in result["messages"][-2]["content"]
    assert_each_starts_with_the_last(lab)
    store.close()


def test_a_changed_identity_or_memory_file_waits_for_the_next_conversation(
    make_agent: Any, lab: LabServer, home: Path, tmp_path: Path
) -> None:
    """A4, A6"""
    (home / "memories").mkdir(parents=True)
    (home / "SOUL.md").write_text("You are a test.")
    (home / "memories" / "MEMORY.md").write_text("The sky is blue.")
    store = Store(tmp_path / "store.db")
    make_agent(journal=StoreJournal(lambda: store, NewSession("c"))).run_conversation("one")
    (home / "SOUL.md").write_text("You are something else.")
    (home / "memories" / "MEMORY.md").write_text("The sky is green.")
    make_agent(journal=StoreJournal(lambda: store, NewSession("c"))).run_conversation("two")
    assert_each_starts_with_the_last(lab)
    make_agent(journal=StoreJournal(lambda: store, NewSession("d"))).run_conversation("three")
    system = lab.requests[-1].json()["messages"][0]["content"]
    assert "something else" in system
    assert "green" in system
    store.close()


def test_nothing_of_the_moment_stands_in_the_system_prompt(make_agent: Any, lab: LabServer, tmp_path: Path) -> None:
    """A3: no clock, id, model or sender; the date and the folder travel in the newest user message."""
    (tmp_path / "AGENTS.md").write_text("Write tests first.")
    agent = make_agent(skip_context_files=False, folder=str(tmp_path), sender_id="sender-4711", model="model-0815")
    agent.run_conversation("hello")
    request = lab.requests[0].json()
    system, user = request["messages"][0]["content"], request["messages"][1]["content"]
    assert "Write tests first." in system
    for moment in ("sender-4711", "model-0815", agent.session_id, str(tmp_path), "2026", "20"):
        assert moment not in system
    assert not re.search(r"\d\d:\d\d", system)
    assert str(tmp_path) in user
    assert agent.messages[0]["content"] == user


def test_date_and_folder_are_told_again_only_when_they_change(make_agent: Any, tmp_path: Path) -> None:
    agent = make_agent(folder="/first")
    agent.run_conversation("one")
    agent.run_conversation("two")
    agent._options["folder"] = "/second"
    result = agent.run_conversation("three")
    told = [m["content"].count("working folder") for m in result["messages"] if m["role"] == "user"]
    assert told == [1, 0, 1]


def test_a_pasted_line_is_not_taken_for_what_was_told(make_agent: Any, tmp_path: Path) -> None:
    """A3: what was told is known from a mark on the message, also after a restart, and not from its text."""
    store = Store(tmp_path / "store.db")
    build = lambda: make_agent(folder="/here", journal=StoreJournal(lambda: store, NewSession("c")))  # noqa: E731
    build().run_conversation("one")
    build().run_conversation("see the log:\n[Monday, 02 March 2020; working folder /elsewhere]")
    result = build().run_conversation("three")
    told = [m["content"].count("working folder /here") for m in result["messages"] if m["role"] == "user"]
    assert told == [1, 0, 0]
    store.close()


def test_a_message_is_stored_as_sent_and_as_shown(make_agent: Any, tmp_path: Path) -> None:
    """A3"""
    store = Store(tmp_path / "store.db")
    agent = make_agent(journal=StoreJournal(lambda: store, NewSession("c")))
    agent.run_conversation("what people see")
    row = store.load(agent.session_id).rows[0]
    assert row.shown == "what people see"
    assert re.search(r"\[[A-Z][a-z]+, \d\d [A-Z][a-z]+ \d{4}; working folder /", row.message["content"])
    assert json.loads(row.sent["chat_completions"])["content"] == row.message["content"]
    store.close()


def damage(path: Path, where: str) -> None:
    """Turn over bytes in the store, as a bad disk would."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"update blob set body = x'64616d61676564' where hash in (select hash from sent where {where})")
    db.close()


def test_a_damaged_fragment_is_encoded_anew_with_the_same_bytes(
    make_agent: Any, lab: LabServer, tmp_path: Path
) -> None:
    """A7: the stored hash tells; the neutral form repairs it, and the prefix does not move."""
    path = tmp_path / "store.db"
    for where in ("place = -1 and dialect = 'chat_completions'", "place = 0", "place = -2 and dialect <> 'neutral'"):
        store = Store(path)
        result = make_agent(journal=StoreJournal(lambda opened=store: opened, NewSession("c"))).run_conversation(
            "hello"
        )
        assert result["prefix_breaks"] == []
        store.close()
        damage(path, where)
    store = Store(path)
    make_agent(journal=StoreJournal(lambda: store, NewSession("c"))).run_conversation("hello")
    assert_each_starts_with_the_last(lab)
    store.close()


def test_a_prompt_that_is_lost_is_rendered_anew_once_and_the_break_is_named(
    make_agent: Any, lab: LabServer, tmp_path: Path, home: Path
) -> None:
    """A2, A7"""
    path = tmp_path / "store.db"
    store = Store(path)
    make_agent(journal=StoreJournal(lambda: store, NewSession("c"))).run_conversation("one")
    store.close()
    damage(path, "place = -1")
    home.mkdir()
    (home / "SOUL.md").write_text("Another soul by now.")
    repaired = Store(path)
    breaks = [
        make_agent(journal=StoreJournal(lambda: repaired, NewSession("c"))).run_conversation("two")["prefix_breaks"]
        for _ in range(2)
    ]
    assert breaks == [[("prompt_repaired", -1)], []]
    assert [row.reason for row in repaired.breaks()] == ["prompt_repaired"]
    repaired.close()


def test_messages_that_share_a_part_do_not_share_it_here() -> None:
    """A1: whoever edits one message edits no other, and its size is seen."""
    part = {"type": "text", "text": "one"}
    rows = [Row({"role": "user", "content": [part]}), Row({"role": "assistant", "content": [part]})]
    conversation = Conversation(Transcript("s", "c", "t", 0, "", {}, ()))
    conversation.note(rows, 2)
    conversation.fragments("d", lambda message: json.dumps(message).encode(), MemoryJournal())
    before = conversation.estimate_bytes()
    conversation.messages[0]["content"][0]["text"] = "x" * 1_000_000
    conversation.refresh("d", lambda message: json.dumps(message).encode())
    assert conversation.messages[1]["content"][0]["text"] == "one"
    assert conversation.estimate_bytes() > before + 900_000
