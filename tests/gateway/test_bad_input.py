"""What people, services and machines do wrong: floods, broken texts, edits, repetitions, full disks, a held store."""

import os
import re
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from house import ACCOUNT, House, Visitor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from waiting import wait_until

from agent.turn.driver import Turn
from agent.turn.rules import Done
from gateway.core import bursts
from gateway.core.bursts import Item
from gateway.core.route import EDITED_LATE, MAX_WAITING, TOO_MANY
from gateway.platforms.face import Refused
from gateway.platforms.pretend.service import Update
from gateway.service import gateway as service
from gateway.turns import transcribing
from gateway.turns.sender import CLOSING, DISK_FULL, LOOKED_AT, Senders
from hermes_base import local_wire as wire
from hermes_base.errors import StoreFailure
from hermes_base.inbound import NOTICE, Address, FileRef, Inbound, write_inbound
from hermes_constants import STORE_FILE
from hermes_lab.server import LabServer
from hermes_state.turns import Claim

PEOPLE = {"owner": "olga", "allow": ["ann", "ben"]}


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "GRACE_SECONDS", 0.2)


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with House(home, lab.base_url, pretend=PEOPLE, gateway={"busy": "queue"}) as made:
        yield made


def last_texts(lab: LabServer) -> list[str]:
    """The newest message of each request to the model."""
    return [str(request.json()["messages"][-1]["content"]) for request in lab.requests]


def hold_turn(person: Visitor, lab: LabServer) -> None:
    """A turn that goes on until it is stopped."""
    person.say("[[stall 900]]held")
    wait_until(lambda: lab.in_flight == 1)


# --- floods


def flood(house: House, lab: LabServer, number: int) -> None:
    ann, ben = house.person("ann"), house.person("ben")
    hold_turn(ann, lab)
    house.call(lambda: [house.service.say(ann.chat, f"message-{n};", "ann") for n in range(number)])
    lane = house.gateway.lanes.at_work[ann.conversation]
    most = 0
    while house.service.updates or house.gateway.turns.depth()[0] > MAX_WAITING + 1:
        most = max(most, len(lane._queue))
        house.call(lambda: None)  # the loop answers all the while
    assert most <= MAX_WAITING
    ann.wait_seen(TOO_MANY)
    ben.say("meanwhile")
    ben.wait_seen("You said: meanwhile")
    ann.say("/stop")
    house.wait_quiet(60)
    asked = "".join(last_texts(lab))
    answered = [n for n in range(number) if f"message-{n};" in asked]
    assert answered == list(range(len(answered)))  # in order, none twice, none left out among those taken
    assert MAX_WAITING - 1 <= len(answered) <= MAX_WAITING
    assert all(asked.count(f"message-{n};") == 1 for n in answered)
    assert ann.count(TOO_MANY) == 1
    assert lane._known == set()
    assert "You said: and now" in ann.ask("and now")[-1]


def test_a_flood_is_bounded_and_told_once(house: House, lab: LabServer) -> None:
    """C2, C3: 500 messages at once: as many wait as may, the rest is refused in one sentence, others are served."""
    flood(house, lab, 500)


@pytest.mark.soak
def test_a_large_flood_is_bounded_and_told_once(house: House, lab: LabServer) -> None:
    """C2, C3: the same with 10,000."""
    flood(house, lab, 10_000)


def test_a_flood_of_strangers_reaches_no_model(house: House, lab: LabServer) -> None:
    """G1: 300 strangers get at most 20 codes together, and nothing else."""
    people = [house.person(f"stranger{n}") for n in range(300)]
    house.call(lambda: [house.service.say(each.chat, "hello", each.sender) for each in people])
    house.wait_quiet(60)
    assert not lab.requests
    assert len(house.service.messages) == 20


@pytest.mark.parametrize("busy", ["interrupt", "steer", "queue"])
def test_a_stop_is_for_what_was_said_before_it(home: Path, lab: LabServer, busy: str) -> None:
    """C2, C4: all three come at once, as after an absence; what was said after the stop is answered."""
    with House(home, lab.base_url, pretend=PEOPLE, gateway={"busy": busy}) as house:
        ann = house.person("ann")
        texts = ("[[stall 900]]", "/stop", "[[say Good morning, Ann.]]")
        house.call(lambda: [house.service.say(ann.chat, text, "ann") for text in texts])
        ann.wait_seen("Good morning, Ann.")
        house.wait_quiet(60)


def test_what_a_turn_did_not_read_any_more_comes_before_what_was_said_after_it(
    home: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C3: the turn ends with a message in it that nobody read, while the lane looks at the next one."""
    ending, may_end = threading.Event(), threading.Event()
    end, look = Turn._end, Senders.look

    def end_later(self: Turn, done: Done) -> None:
        ending.set()
        assert may_end.wait(30)
        end(self, done)

    def look_slowly(self: Senders, claim: Claim, known: frozenset[int], *, closing: bool) -> list[Item]:
        items = look(self, claim, known, closing=closing)
        for item in items:
            if item.inbound.text == "second":
                may_end.set()
                wait_until(lambda: lane.slot is None)
                wait_until(lambda item=item: time.time() > item.row.accepted + bursts.find_windows(item).burst)
        return items

    monkeypatch.setattr(Turn, "_end", end_later)
    monkeypatch.setattr(Senders, "look", look_slowly)
    with House(home, lab.base_url, pretend=PEOPLE, gateway={"busy": "steer"}) as house:
        ann = house.person("ann")
        ann.say("begin")
        assert ending.wait(30)
        lane = house.gateway.lanes.at_work[ann.conversation]
        ann.say("first")
        wait_until(lambda: bool(lane._steered))
        ann.say("second")
        house.wait_quiet(60)
        told = last_texts(lab)[1:]
        assert "\n".join(told).find("first") < "\n".join(told).find("second")


@pytest.mark.parametrize("busy", ["interrupt", "steer", "queue"])
def test_a_flood_at_a_free_conversation_is_settled(home: Path, lab: LabServer, busy: str) -> None:
    """C2, C3: with nothing under way, in each mode: every message reaches the model once, in order, or is refused."""
    with House(home, lab.base_url, pretend=PEOPLE, gateway={"busy": busy}) as house:
        ann = house.person("ann")
        house.call(lambda: [house.service.say(ann.chat, f"message-{n};", "ann") for n in range(400)])
        house.wait_quiet(60)
        session = house.gateway.store.current(ann.conversation)
        assert session is not None
        rows = house.gateway.store.load(session.id).rows
        stored = "".join(str(row.message["content"]) for row in rows if row.message["role"] == "user")
        heard = [int(number) for number in re.findall(r"message-(\d+);", stored)]
        assert heard == sorted(set(heard))
        assert len(heard) == 400 or ann.count(TOO_MANY) > 0
        assert "You said: next" in ann.ask("next")[-1]


def test_a_flood_into_a_turn_leaves_room_for_stop(home: Path, lab: LabServer) -> None:
    """C4: in the steering mode hundreds of messages go into a turn that does not read them; /stop is heard."""
    with House(home, lab.base_url, pretend=PEOPLE, gateway={"busy": "steer"}) as house:
        ann = house.person("ann")
        hold_turn(ann, lab)
        house.call(lambda: [house.service.say(ann.chat, f"message-{n};", "ann") for n in range(300)])
        ann.wait_seen(TOO_MANY)
        ann.say("/stop")
        ann.wait_seen("stopped by Ann")
        house.wait_quiet(40)
        asked = "".join(last_texts(lab))
        assert all(asked.count(f"message-{n};") == 1 for n in range(MAX_WAITING - 1))
        assert ann.count(TOO_MANY) == 1


def test_a_flood_of_commands_leaves_room_for_stop(house: House, lab: LabServer) -> None:
    """C4: commands that wait for the turn are bounded like messages."""
    ann = house.person("ann")
    hold_turn(ann, lab)
    house.call(lambda: [house.service.say(ann.chat, "/undo", "ann") for _ in range(LOOKED_AT + 50)])
    ann.wait_seen(TOO_MANY)
    ann.say("/stop")
    ann.wait_seen("stopped by Ann")
    house.wait_quiet(60)
    assert ann.count(TOO_MANY) == 1


def test_whatever_waits_in_a_conversation_it_is_looked_through_once_and_stop_is_heard(
    house: House, lab: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C4, F4: more words of our own wait than one look sees. Nobody refuses those; the lane rests, and hears."""
    ann, gateway = house.person("ann"), house.gateway
    hold_turn(ann, lab)
    looks: list[int] = []
    look = gateway.senders.look
    monkeypatch.setattr(gateway.senders, "look", lambda *args, **more: looks.append(1) or look(*args, **more))
    address = Address("pretend", ACCOUNT, ann.chat)
    for number in range(LOOKED_AT + 5):
        said = write_inbound(Inbound(address, str(number), "hermes", "It ended.", origin=NOTICE))
        gateway.turns.accept(ann.conversation, "house", f"proc:{number}", said)
    house.call(lambda: gateway.lanes.wake(ann.conversation))
    wait_until(lambda: len(gateway.lanes.at_work[ann.conversation]._queue) == LOOKED_AT + 5)
    ann.say("/stop")
    ann.wait_seen("stopped by Ann")
    assert len(looks) < 20


# --- texts


@pytest.mark.parametrize(
    "text",
    [
        "nul \x00 byte",
        "bell \x07 escape \x1b[31m",
        "half \ud83d pair",
        "\udc80\udcff",
        "right \u202e left",
        "\ufeff\u200b",
    ],
)
def test_odd_characters_are_answered(house: House, text: str) -> None:
    """Bad input: control characters and halves of surrogate pairs neither stop the intake nor are they lost."""
    ann = house.person("ann")
    assert len(ann.ask(f"[[say heard]] {text}")) == 1
    assert "You said: next" in ann.ask("next")[-1]


@given(text=st.text(st.characters(), max_size=40), sender=st.sampled_from(["ann", "olga"]))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_text_is_settled(house: House, text: str, sender: str) -> None:
    """C2: whatever is written, the message is settled and the next one is answered."""
    person = house.person(sender)
    person.say(text)
    house.wait_quiet()
    assert "You said: next" in person.ask("next")[-1]


def test_a_megabyte_is_answered(house: House) -> None:
    """Bad input: a message of 1 MB is taken, stored and answered."""
    ann = house.person("ann")
    said = ann.ask("[[say heard]]" + "word " * 200_000, 40)
    assert said == ["heard"]
    assert "You said: next" in ann.ask("next")[-1]


@pytest.mark.parametrize("text", ["", "   ", "\n\t\n"])
def test_an_empty_message_starts_nothing(house: House, lab: LabServer, text: str) -> None:
    """Bad input: nothing said, nothing done."""
    assert house.person("ann").ask(text) == []
    assert not lab.requests


def test_an_unknown_command_is_named(house: House, lab: LabServer) -> None:
    """Bad input: an unknown command costs no model call and says what was meant; a path is no command."""
    ann = house.person("ann")
    assert "Did you mean /usage" in ann.ask("/usgae")[-1]
    assert "/help lists the commands" in ann.ask("/xyzzy 1 2 3")[-1]
    assert not lab.requests
    assert "You said: /etc/hosts" in ann.ask("/etc/hosts")[-1]


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "opera"},
        {"kind": ""},
        {"thread": "a/b:c%\n"},
        {"revision": "../.."},
        {"question": "no such question"},
        {"chat": "a:b/c d\u0000e"},
        {"chat": ""},
        {"sender": ""},
        {"id": ""},
    ],
    ids=str,
)
def test_malformed_updates_do_not_stop_the_account(house: House, change: dict[str, str]) -> None:
    """Bad input: an update that makes no sense is settled somehow; the next person is served."""
    update = replace(Update("x1", "somewhere", "dm", "ann", "odd"), **change)
    house.call(lambda: house.service.repeat(update))
    assert "You said: next" in house.person("ben").ask("next")[-1]


@pytest.mark.parametrize(
    "junk",
    [
        b"\xff\xfe\n",
        b"{}\n",
        b"null\n",
        b'{"type": "hello"\n',
        b"[" * 100_000 + b"\n",
        b"",
        b"GET /web/live HTTP/1.1\r\n",
    ],
)
def test_malformed_requests_at_the_socket(house: House, home: Path, junk: bytes) -> None:
    """Bad input: whatever comes at the socket, it ends that connection at most."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(10)
        sock.connect(str(wire.socket_path(home)))
        sock.sendall(junk)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65536):
            pass
    assert "You said: next" in house.person("ann").ask("next")[-1]


# --- repetitions and edits


def test_a_repeated_update_is_answered_once(house: House, lab: LabServer) -> None:
    """C1: the service delivers the same message again and again, over a restart too."""
    ann = house.person("ann")
    update = ann.say("[[say once]]")
    for _ in range(3):
        house.call(lambda: house.service.repeat(update))
    house.wait_quiet()
    house.stop()
    house.start()
    house.call(lambda: house.service.repeat(update))
    house.wait_quiet()
    assert ann.seen == ["once"]
    assert len(lab.requests) == 1


def test_an_edit_of_an_answered_message_is_not_answered_again(house: House, lab: LabServer) -> None:
    """C1: what was answered stays answered, and whoever changes it is told."""
    ann = house.person("ann")
    update = ann.say("[[say first]]")
    house.wait_quiet()
    ann.edit(update, "[[say second]]")
    house.wait_quiet()
    assert ann.seen == ["first", EDITED_LATE]
    assert len(lab.requests) == 1


def test_an_edit_of_a_waiting_message_wins(house: House, lab: LabServer) -> None:
    """C1, C3: of a message that waits the newest text counts, once."""
    ann = house.person("ann")
    hold_turn(ann, lab)
    update = ann.say("[[say older]]")
    ann.wait_seen("Queued")
    ann.edit(update, "[[say newer]]")
    ann.edit(update, "[[say newest]]", "2")
    wait_until(lambda: not house.service.updates)
    ann.say("/stop")
    house.wait_quiet()
    assert [ann.count("older"), ann.count("newer"), ann.count("newest")] == [0, 0, 1]
    assert len(lab.requests) == 2


def test_an_edit_at_once_is_one_message(house: House, lab: LabServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """C1: somebody mends a typing error before the turn began."""
    ann = house.person("ann")
    find = bursts.find_windows

    def wait_for_both(item: bursts.Item) -> bursts.Windows:
        """The turn does not begin before the service has brought all it has."""
        return replace(find(item), burst=600.0) if house.service.updates else find(item)

    monkeypatch.setattr(bursts, "find_windows", wait_for_both)

    def say_and_mend() -> None:
        update = house.service.say(ann.chat, "[[say wrogn]]", "ann")
        house.service.repeat(replace(update, text="[[say right]]", revision="1"))

    house.call(say_and_mend)
    house.wait_quiet()
    assert ann.seen == ["right"]
    assert len(lab.requests) == 1


# --- the machine


def test_a_message_while_it_shuts_down_is_answered_by_the_next_start(
    house: House, lab: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C2, C14: it is left with the service, which brings it again; a client that waits is told."""
    monkeypatch.setattr(service, "GRACE_SECONDS", 1.0)
    ann = house.person("ann")
    hold_turn(ann, lab)
    gateway = house.gateway
    house.begin_stop()
    wait_until(lambda: gateway.host.closing)
    late = Inbound(Address("pretend", ACCOUNT, ann.chat), "late", "ann", "too late")
    refused = house.wait_for(gateway.take(late))
    assert refused == Refused(CLOSING, closing=True)
    ann.say("[[say answered later]]")
    house.stop()
    assert ann.count("answered later") == 0
    house.start()
    wait_until(lambda: not house.service.updates and lab.in_flight == 1)  # it waits for the turn that goes on
    ann.say("/stop")
    ann.wait_seen("answered later")


def test_a_full_disk_is_told_and_nothing_is_taken(
    house: House, lab: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F7: with too little room the sender is told once what happened and what to do; with room again all is well."""
    ann = house.person("ann")
    with monkeypatch.context() as patch:
        patch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=10, f_frsize=4096))
        ann.say("[[say one]]")
        ann.wait_seen(DISK_FULL)
        ann.say("[[say two]]")
        wait_until(lambda: not house.service.updates)
    assert ann.ask("[[say three]]") == ["three"]
    assert ann.seen == [DISK_FULL, "three"]
    assert len(lab.requests) == 1


def test_a_full_disk_is_no_news_for_strangers_and_bystanders(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """G1, C8: who was never let in hears nothing, and a group hears it only if somebody speaks to us there."""
    eve, ann = house.person("eve"), house.person("ann", chat="room", kind="group")
    eve_there = house.person("eve", chat="room", kind="group")
    with monkeypatch.context() as patch:
        patch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=10, f_frsize=4096))
        eve.say("hello")
        eve_there.say("hello, Hermes")
        eve_there.say("chatter", mentioned=False)
        ann.say("chatter", mentioned=False)
        wait_until(lambda: not house.service.updates)
        assert (eve.seen, ann.seen) == ([], [])
        ann.say("[[say one]]")
        ann.wait_seen(DISK_FULL)
    assert (eve.seen, ann.seen) == ([], [DISK_FULL])


@pytest.mark.parametrize("whole", [False, True], ids=["one write", "the whole store"])
def test_a_store_that_cannot_be_asked_is_told_in_direct_chats_and_loses_nothing_in_groups(
    house: House, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    """C2, G1: who somebody in a group is, nobody knows then: nothing is said there, and what was said to us there stays
    with the service until it can be stored."""

    def fail(*_: object) -> bool:
        raise StoreFailure("The store does not answer.")

    eve, ann = house.person("eve", chat="room", kind="group"), house.person("ann")
    ann_there = house.person("ann", chat="room", kind="group")
    monkeypatch.setattr(service, "UNASKED_SECONDS", 0.05)
    monkeypatch.setattr(service, "AWAY_SECONDS", 0.05)
    with monkeypatch.context() as patch:
        if whole:
            patch.setattr(house.gateway.store.engine, "broken", "The store does not answer.")
            wait_until(lambda: bool(house.gateway.chores.trouble))  # it has been looked at
        else:
            patch.setattr(house.gateway.senders, "is_stranger", fail)
        ann.say("hello")
        ann.wait_seen("Your message was not taken: The store does not answer.")
        wait_until(lambda: not house.service.updates)
        eve.say("hello, Hermes")
        ann_there.say("[[say heard all the same]]")
        assert len(house.service.updates) == 2
        assert eve.seen == []
    ann_there.wait_seen("heard all the same")
    assert ann_there.seen == ["heard all the same"]
    assert not house.service.updates


def test_a_full_disk_is_told_even_where_the_service_is_in_trouble(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F7, C2: as long as the sender could not be told, the message stays with the service."""
    ann = house.person("ann")
    with monkeypatch.context() as patch:
        patch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=10, f_frsize=4096))
        house.call(lambda: house.service.punish(3600))
        ann.say("[[say kept]]")
        wait_until(lambda: len(house.service.calls) > 2)
    house.call(lambda: house.service.punish(0))
    ann.wait_seen("kept")


@pytest.mark.file_store
def test_a_held_store_delays_and_says_so(house: House, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F6: another process holds the store: the sender is told that the message waits, and is answered afterwards."""
    monkeypatch.setattr(service, "SLOW_STORE_SECONDS", 0.3)
    ann, ben = house.person("ann"), house.person("ben")
    ann.ask("hello")
    with closing(sqlite3.connect(home / STORE_FILE, isolation_level=None)) as other:
        other.execute("begin immediate")
        ann.say("[[say after all]]")
        ann.wait_seen("your message waits for it")
        assert ann.count("after all") == 0
        other.execute("rollback")
    ann.wait_seen("after all")
    assert ben.ask("[[say me too]]") == ["me too"]
    assert ann.count("your message waits for it") == 1


@pytest.mark.file_store
def test_a_store_held_in_mid_turn_loses_nothing(house: House, home: Path, lab: LabServer) -> None:
    """F6: the store is held while a turn wants to write: it waits, and its answer comes once."""
    ann = house.person("ann")
    ann.say("[[stall 0.5]][[say patient]]")
    wait_until(lambda: lab.in_flight == 1)
    with closing(sqlite3.connect(home / STORE_FILE, isolation_level=None)) as other:
        other.execute("begin immediate")
        wait_until(lambda: lab.in_flight == 0)
        ann.say("[[say second]]")
        other.execute("rollback")
    house.wait_quiet()
    assert ann.seen.count("patient") == 1
    assert ann.count("second") == 1


@pytest.mark.parametrize("text", ["model: [", "gateway: 5", "people: []\nplatforms: 7", "\x00", "- a\n- b"])
def test_a_broken_settings_file_stops_nobody(house: House, home: Path, text: str) -> None:
    """H8: while the file cannot be used the settings before it hold; everybody is answered, before and after."""
    ann = house.person("ann")
    file = home / "config.yaml"
    good = file.read_text()
    ann.ask("hello")
    file.write_text(text)
    assert "You said: meanwhile" in ann.ask("meanwhile")[-1]
    file.write_text(good)
    assert "You said: afterwards" in ann.ask("afterwards")[-1]


@pytest.mark.parametrize("place", ["/dev/zero", "a\0b", ".", "pipe", "large"])
def test_only_an_ordinary_file_of_modest_size_is_an_image(
    tmp_path: Path, place: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G7: whatever else a client names is left out and logged; the message itself goes on."""
    monkeypatch.setattr(transcribing, "IMAGE_BYTES", 1_000)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * 1_001)
    (tmp_path / "whole").write_bytes(b"x" * 1_000)
    files = [FileRef(str(tmp_path / name), "a.png", "image") for name in (place, "whole")]
    assert len(transcribing.read_images(files)) == 1
    assert "cannot be read" in caplog.text
