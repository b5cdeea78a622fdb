"""The tool `send_message` through the whole gateway: who may write to whom, who is asked, and what arrives."""

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from house import House, Visitor
from local_gateway import LocalHouse
from waiting import wait_until

from gateway.platforms.pretend.service import CLOSED_BEFORE
from gateway.service import chat_messenger
from hermes_cli import config
from hermes_lab.server import LabServer

PEOPLE = {"owner": "olga", "allow": ["ann", "ben"]}


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with House(home, lab.base_url, pretend=PEOPLE) as made:
        yield made


def call(to: str = "", message: str = "", **more: str) -> str:
    return f"[[tool send_message {json.dumps({'to': to, 'message': message, **more})}]]"


def find_id(house: House, sender: str) -> str:
    people = house.operate("people.list")["people"]
    return next(str(one["id"]) for one in people if any(who["sender"] == sender for who in one["identities"]))


def meet(house: House, *senders: str) -> list[Visitor]:
    """People who have spoken here before."""
    made = [house.person(sender) for sender in senders]
    for person in made:
        person.ask("[[say hello]]")
    return made


def offered(lab: LabServer) -> set[str]:
    return {tool["function"]["name"] for tool in lab.requests[-1].json().get("tools", [])}


# --- to oneself


def test_the_own_home_is_not_asked_for(house: House) -> None:
    """C9: stored, delivered, and said so."""
    ann, second = house.person("ann"), house.person("ann", "second")
    second.ask("/sethome")
    told = ann.ask(call("home", "the cake is done"))[-1]
    assert '"status": "delivered"' in told
    assert second.wait_seen("the cake is done").text == "the cake is done"


def test_a_home_that_is_a_group_is_others(house: House, lab: LabServer) -> None:
    """C9, G9: who has it sent agrees to it; the model of that chat hears of it once, with the next message there."""
    ann, room = house.person("ann"), house.person("ann", "room", "group")
    room.ask("/sethome")
    ann.say(call("home", "the cake is done"))
    question = ann.wait_question()
    assert "Send a message to the group, in pretend room" in question.text
    ann.press(question, "approve")
    ann.wait_seen('"status": "delivered"')
    house.wait_quiet()
    assert room.wait_seen("the cake is done").text.startswith("Message from Ann (p-")  # others read it
    room.ask("[[say hi]]")
    asked = str(lab.requests[-1].json()["messages"][-1]["content"])
    assert "had Hermes send this message to this chat" in asked
    assert "the cake is done" in asked
    room.ask("[[say hi again]]")
    assert "had Hermes send" not in str(lab.requests[-1].json()["messages"][-1]["content"])


def test_what_a_turn_with_foreign_text_sends_says_where_it_comes_from(house: House) -> None:
    """G9: in the own direct chat it does not look as if Hermes itself said it; what is wholly the person's own does."""
    olga, second = house.person("olga"), house.person("olga", "second")
    second.ask("/sethome")
    olga.ask(call("home", "the cake is done"))
    assert second.seen[-1] == "the cake is done"
    olga.ask(call("home", "Your password has expired"), forwarded=True)
    told = "From another conversation, in Pretend bot, which holds messages of other people:\nYour password has expired"
    assert second.seen[-1] == told


def test_the_note_for_the_model_outlives_the_process(house: House, lab: LabServer) -> None:
    ann, second = house.person("ann"), house.person("ann", "second")
    second.ask("/sethome")
    ann.ask(call("home", "the cake is done"))
    assert second.seen[-1] == "the cake is done"
    house.stop()
    house.start()
    second.ask("[[say hi]]")
    assert "the cake is done" in str(lab.requests[-1].json()["messages"][-1]["content"])


def test_an_own_chat_and_the_list(house: House) -> None:
    """A member is shown, and reaches, what is theirs and nothing else."""
    ann, ben = meet(house, "ann", "ben")
    second = house.person("ann", "second")
    second.ask("[[say hello]]")
    listed = ann.ask('[[tool send_message {"action": "list"}]]')[-1]
    assert "pretend:second" in listed
    assert "this_chat" in listed
    assert "ben" not in listed.lower()
    ann.ask(call("pretend:second", "over there"))
    assert second.seen[-1] == "over there"
    for to in ("pretend:chat-ben", find_id(house, "ben"), "Ben"):
        assert "Only the owner and admins" in ann.ask(call(to, "psst"))[-1]
    assert ben.count("psst") == 0
    assert "no home channel" in ann.ask(call("home", "x"))[-1]


def test_a_group_that_the_settings_leave_out_is_no_place(house: House) -> None:
    """Neither as a home nor by its name, for whoever it is; it is one again with the settings."""
    ann, room = house.person("ann"), house.person("ann", "room", "group")
    olga = house.person("olga")
    room.ask("[[say hello]]")
    room.ask("/sethome")
    seen = len(room.seen)
    house.write_settings(pretend={**PEOPLE, "groups": ["another"]})
    assert "no home channel" in ann.ask(call("home", "psst"))[-1]
    assert "pretend:room" not in olga.ask('[[tool send_message {"action": "list"}]]')[-1]
    assert "There is no" in olga.ask(call("pretend:room", "psst"))[-1]
    assert len(room.seen) == seen
    house.write_settings(pretend={**PEOPLE, "groups": ["room"]})
    ann.say(call("home", "psst"))
    ann.press(ann.wait_question(), "approve")
    room.wait_seen("psst")
    house.wait_quiet()


# --- to others


def test_nobody_else_agrees_in_a_persons_name(house: House) -> None:
    """G4, G9: what is sent in the owner's name is agreed to by the owner, not by an admin in the same group; so is what
    the owner is asked to say."""
    (ann,) = meet(house, "ann")
    house.operate("people.role", id=find_id(house, "ann"), role="admin")
    olga, other = house.person("olga", "room", "group"), house.person("ann", "room", "group")
    other.ask("[[say hello]]")
    olga.say(call(find_id(house, "ann"), "you are fired"))
    question = olga.wait_question()
    other.press(question, "approve")
    other.wait_seen("for somebody else to answer")
    other.say("yes")
    other.wait_seen("for somebody else to answer", 2)
    assert house.gateway.questions.open(olga.conversation) is not None
    olga.press(question, "deny")
    house.wait_quiet()
    assert ann.count("you are fired") == 0


def test_others_get_it_with_consent_for_exactly_this(house: House, lab: LabServer) -> None:
    """G9: the owner is shown to whom, where and the whole text; what was shown is what arrives, with who sends it."""
    olga, ben = meet(house, "olga", "ben")
    id = find_id(house, "ben")
    olga.say(call("Ben", "lunch at noon?"))
    question = olga.wait_question("lunch at noon?")
    assert f"Send a message to {id} (Ben), in pretend chat-ben:" in question.text
    assert ben.count("lunch") == 0
    olga.press(question, "approve")
    arrived = ben.wait_seen("lunch at noon?").text
    assert arrived == f"Message from Olga ({find_id(house, 'olga')}):\nlunch at noon?"
    assert arrived in question.text
    house.wait_quiet()
    ben.ask("[[say yes]]")
    asked = str(lab.requests[-1].json()["messages"][-1]["content"])
    assert "Olga" in asked
    assert "lunch at noon?" in asked


def test_no_consent_no_message(house: House) -> None:
    olga, ben = meet(house, "olga", "ben")
    olga.say(call("Ben", "lunch?"))
    olga.press(olga.wait_question("lunch?"), "deny")
    olga.wait_seen("did not agree")
    house.wait_quiet()
    assert ben.count("lunch") == 0


def test_what_others_sent_is_foreign_there(house: House) -> None:
    """G9: a note to memory in the turn that reads somebody else's message is asked for."""
    olga, ben = meet(house, "olga", "ben")
    olga.say(call("Ben", "remember that the safe is open"))
    olga.press(olga.wait_question("safe"), "approve")
    house.wait_quiet()
    ben.say('[[tool memory {"action": "add", "content": "the safe is open"}]]')
    assert "messages of other people" in ben.wait_question("the safe is open").text
    ben.say("/stop")


def test_after_foreign_text_a_home_that_others_read_is_asked_for(house: House) -> None:
    """G9: the own home is a group; words of somebody else stand in the conversation."""
    ann, ben, den = house.person("ann", "room", "group"), house.person("ben", "room", "group"), house.person("ann")
    ben.ask("[[say hello]]")
    other = house.person("ann", "other-room", "group")
    other.ask("/sethome")
    ann.say(call("home", "what Ben said"))
    question = ann.wait_question("what Ben said")
    assert "messages of other people" in question.text
    ann.press(question, "deny")
    house.wait_quiet()
    assert other.count("what Ben said") == 0
    den.ask("/sethome")
    ann.ask(call("home", "to myself alone"))
    assert den.count("to myself alone") == 1


def test_a_group_is_asked_for_and_two_of_a_name_are_told_apart(house: House) -> None:
    """G2: a name finds nobody where two have it."""
    (olga,) = meet(house, "olga")
    for sender in ("ann", "ben"):
        house.person(sender, name="Sam").ask("[[say hello]]")
    room = house.person("ben", "room", "group")
    room.ask("[[say hello]]")
    olga.say(call("pretend:room", "dear all"))
    olga.press(olga.wait_question("the group, in pretend room"), "approve")
    room.wait_seen("dear all")
    house.wait_quiet()
    told = olga.ask(call("sam", "which of you?"))[-1]
    assert find_id(house, "ann") in told
    assert find_id(house, "ben") in told
    assert "There is no" in olga.ask(call("Nobody", "x"))[-1]


def test_home_is_nobodys_name(house: House) -> None:
    """G2: somebody who calls themselves so gets nothing that is meant for the own home."""
    (olga,) = meet(house, "olga")
    ben = house.person("ben", name="Home")
    ben.ask("[[say hello]]")
    assert "no home channel" in olga.ask(call("home", "for myself"))[-1]
    assert ben.count("for myself") == 0


def test_who_was_removed_gets_nothing(house: House) -> None:
    """G3."""
    olga, ben = meet(house, "olga", "ben")
    id = find_id(house, "ben")
    house.operate("people.remove", id=id)
    seen = len(ben.seen)
    for to in (id, "Ben", "pretend:chat-ben"):
        assert "There is no" in olga.ask(call(to, "hi"))[-1]
    assert len(ben.seen) == seen


# --- files


def test_a_file_goes_along_and_only_from_the_roots(house: House, home: Path) -> None:
    """G7."""
    ann, second = house.person("ann"), house.person("ann", "second")
    second.ask("/sethome")
    ann.ask('[[tool write_file {"path": "plan.txt", "content": "dig"}]]')
    assert '"status": "delivered"' in ann.ask(call("home", "the plan", file="plan.txt"))[-1]
    assert (second.messages[-1].file, second.messages[-1].text) == ("plan.txt", "the plan")
    assert '"status": "delivered"' in ann.ask(call("home", "", file="plan.txt"))[-1]
    assert not list(home.rglob("outbox/*/plan.txt"))  # the copies are gone
    sent = len(second.messages)
    assert "error" in ann.ask(call("home", "x", file=str(home / "config.yaml")))[-1]
    assert "no file" in ann.ask(call("home", "x", file="nothing.txt"))[-1]
    assert len(second.messages) == sent


# --- what became of it


def test_a_chat_app_that_is_down_is_told_honestly(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """C9: stored, and delivered later, once."""
    monkeypatch.setattr(chat_messenger, "PATIENCE", 0.2)
    ann, second = house.person("ann"), house.person("ann", "second")
    second.ask("/sethome")
    house.call(lambda: setattr(house.service, "always", CLOSED_BEFORE))
    ann.say(call("home", "the cake is done"))
    store = house.gateway.store

    def results() -> list[str]:
        current = store.current(ann.conversation)
        rows = store.load(current.id).rows if current else []
        return [str(row.message.get("content")) for row in rows if row.message.get("role") == "tool"]

    wait_until(lambda: bool(results()))
    assert "stored, not delivered yet" in results()[-1]
    house.call(lambda: setattr(house.service, "always", ""))
    second.wait_seen("the cake is done")
    house.wait_quiet()
    assert second.count("the cake is done") == 1


def test_quiet_hours_hold_a_message(house: House) -> None:
    """It waits for the one who gets it; whoever sends it hears until when."""
    olga, ben = meet(house, "olga", "ben")
    now = datetime.now()
    ben.ask(f"/quiet {now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=1):%H:%M}")
    olga.say(call("Ben", "lunch at noon?"))
    olga.press(olga.wait_question("lunch"), "approve")
    assert "not delivered yet" in olga.wait_seen("quiet hours there").text  # a draft may show the first half alone
    assert ben.count("lunch") == 0
    ben.say("/quiet off")
    ben.wait_seen("lunch at noon?")


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from gateway.service.chat_messenger import make_messenger
    from gateway.turns.whereabouts import Whereabouts
    from hermes_base.store_place import find_place
    from hermes_base.turn.cancel import CancelToken
    from hermes_state.files.folder_files import FolderFiles
    from hermes_state.sql.store_sql import Store

    class Dying:
        platforms = staticmethod(lambda: ["pretend"])
        accounts = staticmethod(lambda platform: ["bot"])
        away = staticmethod(lambda platform: [])
        has = staticmethod(lambda address: True)
        wake = staticmethod(lambda address: os.kill(os.getpid(), signal.SIGKILL))

    home, conversation = Path(sys.argv[1]), sys.argv[2]
    store = Store(find_place(home))
    files, whereabouts = FolderFiles(home), Whereabouts(store, Dying(), "default")
    messenger = make_messenger(files, store, Dying(), whereabouts, "default", conversation)
    target = messenger.find("home")
    messenger.send(target, "the cake is done", None, (), CancelToken())
"""


def test_killed_between_storing_and_sending(house: House, home: Path) -> None:
    """C9: SIGKILL after it was stored and before anybody sent it: it arrives after the next start, once."""
    ann, second = house.person("ann"), house.person("ann", "second")
    ann.ask("[[say hello]]")
    second.ask("/sethome")
    conversation = ann.conversation
    house.stop()
    script = textwrap.dedent(KILLED)
    ended = subprocess.run([sys.executable, "-c", script, str(home), conversation], capture_output=True, check=False)
    assert ended.returncode == -9, ended.stderr.decode()
    assert second.count("the cake is done") == 0
    house.start()
    second.wait_seen("the cake is done")
    house.wait_quiet()
    assert second.count("the cake is done") == 1


# --- where it is offered


def test_it_is_offered_where_there_is_a_chat_app(house: House, lab: LabServer) -> None:
    meet(house, "ann")
    assert "send_message" in offered(lab)


def test_it_is_not_offered_without_one(home: Path, lab: LabServer) -> None:
    """A terminal alone has nobody to send to, and a library has no gateway."""
    config.set_value("model.base_url", lab.base_url)
    config.set_value("model.default", "lab")
    alone = LocalHouse(home)
    try:
        alone.client().say("hello", "1")
        wait_until(lambda: bool(lab.requests))
    finally:
        alone.stop()
    assert "send_file" in offered(lab)
    assert "send_message" not in offered(lab)


@pytest.mark.parametrize(
    "args", [{}, {"to": "home"}, {"message": "x"}, {"to": 5, "message": "x"}, {"to": "home", "message": "y" * 20_001}]
)
def test_bad_arguments_are_told(house: House, args: dict[str, Any]) -> None:
    ann = house.person("ann")
    assert "error" in ann.ask(f"[[tool send_message {json.dumps(args)}]]")[-1]
