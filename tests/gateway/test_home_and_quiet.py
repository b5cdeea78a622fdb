"""What people are told without having asked: where it goes, and when, through the whole gateway."""

import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from house import House, Visitor
from hypothesis import given
from hypothesis import strategies as st
from raw_client import RawClient
from waiting import wait_until

from gateway.platforms.platform_list import find_spec
from gateway.service.admin.home_chats import choose_account
from gateway.turns.whereabouts import (
    MOST_NOTE_CHARS,
    MOST_NOTES,
    choose_notes,
    choose_place,
    choose_reachable,
    end_sentence,
)
from hermes_base.errors import HermesError
from hermes_base.inbound import Address
from hermes_cli import config as cli_config
from hermes_cli.cmds import doctor, owner, people_cmd
from hermes_lab.server import LabServer
from hermes_state.people_store import HeardNote

PEOPLE = {"owner": "olga", "allow": ["ann", "ben"]}


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with House(home, lab.base_url, pretend=PEOPLE) as made:
        yield made


def find_id(house: House, sender: str) -> str:
    people = house.operate("people.list")["people"]
    return next(str(one["id"]) for one in people if any(who["sender"] == sender for who in one["identities"]))


def end_process(house: House, conversation: str, text: str) -> None:
    """As if a background process of the conversation had ended."""
    current = house.gateway.store.current(conversation)
    assert current is not None
    house.gateway.builder._post_notice(current.task, "p1", text)


def around_now(hours: int = 1) -> str:
    """Quiet hours that hold now, by the machine's clock."""
    now = datetime.now()
    return f"{now - timedelta(hours=hours):%H:%M}-{now + timedelta(hours=hours):%H:%M}"


def wait_held(house: House, count: int) -> None:
    wait_until(lambda: house.gateway.turns.outbox_held()[0] == count)
    wait_until(lambda: not house.service.updates and not house.gateway.lanes.at_work)


def work_at_terminal(house: House) -> str:
    """Somebody at a terminal asks something and closes it; their conversation."""
    client = RawClient(house.home, "one")
    client.say("[[say begun]] Which one first?", "1")
    conversation = str(client.welcome.conversation)
    wait_until(lambda: house.gateway.store.current(conversation) is not None)
    house.wait_quiet()
    client.close()
    wait_until(lambda: not house.gateway.delivery._readers["local:local"].adapter.hub.count())
    return conversation


# --- home


def test_where_a_notice_goes() -> None:
    """One function decides: the conversation, unless nobody is there and there is a home."""
    own, group, home = Address("a", "b", "own"), Address("a", "b", "room", "group"), Address("c", "d", "home")
    assert choose_place(own, True, home) == own
    assert choose_place(own, False, home) == home
    assert choose_place(own, False, None) == own
    assert choose_place(group, False, home) == group


def test_a_closed_terminal_is_answered_at_home(house: House, lab: LabServer) -> None:
    """Ended background work of a terminal that is closed comes to the owner's home channel, once, with the way back;
    the model there hears of it with the next message."""
    olga = house.person("olga")
    assert "home channel now" in olga.ask("/sethome")[-1]
    conversation = work_at_terminal(house)
    session = house.gateway.store.current(conversation)
    assert session is not None
    end_process(house, conversation, "[[say the backup is done]]")
    told = olga.wait_seen("the backup is done")
    assert f"Which one first? /resume {session.id}" in told.text
    wait_until(lambda: not house.gateway.lanes.at_work)
    assert olga.count("the backup is done") == 1
    olga.say("[[say which one]] what backup?")
    olga.wait_seen("which one")
    asked = str(lab.requests[-1].json()["messages"][-1]["content"])
    assert "Hermes told the person in this chat" in asked
    assert "the backup is done" in asked
    olga.say("[[say no more]]")
    olga.wait_seen("no more")
    assert "Hermes told the person" not in str(lab.requests[-1].json()["messages"][-1]["content"])
    waiting = [row.outgoing.text for row in house.gateway.turns.outbox_since(conversation, 0)]
    assert waiting[-1] == "the backup is done"  # for whoever opens the terminal again


@pytest.mark.parametrize(("title", "said"), [("What first?", "What first?"), ("A disk", "A disk."), ("On…", "On…")])
def test_the_name_of_another_conversation_ends_with_one_sign(title: str, said: str) -> None:
    assert end_sentence(title) == said


@given(sizes=st.lists(st.integers(0, 2_500), max_size=60))
def test_a_model_is_told_the_newest_notes_within_bounds(sizes: list[int]) -> None:
    notes = [HeardNote(id, "x" * size, "") for id, size in enumerate(sizes)]
    told, left_out = choose_notes(notes)
    assert list(told) == notes[len(notes) - len(told) :]
    assert len(told) <= MOST_NOTES
    assert sum(len(note.text) for note in told) + len(left_out) <= MOST_NOTE_CHARS
    assert (f"{len(notes) - len(told)} earlier" in left_out) == (len(told) < len(notes))
    if len(notes) <= MOST_NOTES and sum(sizes) < MOST_NOTE_CHARS - 100:
        assert not left_out


def test_hundreds_of_notes_do_not_fill_a_request(house: House, lab: LabServer) -> None:
    """A chat that is told things for weeks without a word in it: the model hears the newest, and that there were
    more; all of them count as heard."""
    ann = house.person("ann")
    ann.ask("[[say hello]]")
    for number in range(300):
        house.gateway.store.habits.add_note(ann.conversation, f"[told {number}: {'x' * 1_000}]")
    ann.ask("[[say noted]]")
    asked = str(lab.requests[-1].json()["messages"][-1]["content"])
    assert len(asked) < 10_000
    assert "[told 299:" in asked
    assert "[told 200:" not in asked
    assert "earlier notes of this kind are left out" in asked
    assert house.gateway.store.habits.notes(ann.conversation) == []


def test_a_notice_stays_where_somebody_is(house: House) -> None:
    """Where the conversation is a chat, it is told there, whatever home its person has."""
    ann, room = house.person("ann"), house.person("ann", "room", "group")
    room.ask("/sethome")
    ann.ask("[[say hello]]")
    end_process(house, ann.conversation, "[[say it ended]]")
    ann.wait_seen("it ended")
    house.wait_quiet()
    assert room.count("it ended") == 0


def test_without_a_home_it_waits_in_its_conversation(house: House) -> None:
    conversation = work_at_terminal(house)
    olga = house.person("olga")
    olga.ask("/sethome")
    assert "no home channel any more" in olga.ask("/sethome off")[-1]
    end_process(house, conversation, "[[say it ended]]")
    wait_until(
        lambda: any(row.outgoing.text == "it ended" for row in house.gateway.turns.outbox_since(conversation, 0))
    )
    assert olga.count("it ended") == 0


def test_an_earlier_conversation_of_a_closed_terminal_is_told_at_home(house: House) -> None:
    """The note with the way back, when the conversation goes on in another session."""
    olga = house.person("olga")
    olga.ask("/sethome")
    conversation = work_at_terminal(house)
    first = house.gateway.store.current(conversation)
    assert first is not None
    house.gateway.store.end(first.id, "new")
    house.gateway.builder._post_notice(first.task, "p1", "Background process p1 ended.")
    assert f"/resume {first.id}" in olga.wait_seen("Background process p1").text


def test_a_terminal_is_nobodys_home(house: House) -> None:
    client = RawClient(house.home, "one")
    client.say("/sethome", "1")
    wait_until(lambda: any("nobody's home" in str(line) for line in client.lines))
    client.close()
    assert house.gateway.store.habits.get("owner").home is None
    with pytest.raises(Exception, match="nobody's home"):
        house.operate("people.home", id="owner", platform="web", chat="x")


def test_an_operator_sets_the_home(house: House) -> None:
    """The chat is known by its platform's id; account and kind are those it was last spoken to with."""
    ann, room = house.person("ann"), house.person("ann", "room", "group")
    ann.ask("[[say hello]]")
    room.ask("[[say hello]]")
    id = find_id(house, "ann")
    told = house.operate("people.home", id=id, platform="pretend", chat="room")
    assert told["habits"]["home"] == {
        "platform": "pretend",
        "account": "bot",
        "chat": "room",
        "kind": "group",
        "thread": "",
    }
    assert house.operate("people.home", id=id)["habits"] == told["habits"]
    listed = next(one for one in house.operate("people.list")["people"] if one["id"] == id)
    assert listed["habits"] == told["habits"]
    assert house.operate("people.home", id=id, platform="off")["habits"]["home"] is None
    with pytest.raises(Exception, match="no platform"):
        house.operate("people.home", id=id, platform="nowhere", chat="1")
    with pytest.raises(Exception, match="nobody with the id"):
        house.operate("people.home", id="p-nobody", platform="pretend", chat="1")


HOOKS = {
    "webhook": {
        "enabled": True,
        "accounts": {
            "mute": {"secret": "a secret of the hook, long enough"},
            "loud": {"secret": "a secret of the hook, long enough", "reply_url": "https://bot.example.org/hermes"},
        },
    }
}


def set_home(**args: str) -> dict[str, Any]:
    """As the command does it while no gateway runs."""
    return owner.perform("people.home", {"id": "owner", **args})


def write_settings(home: Path, **platforms: Any) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.yaml").write_text(json.dumps({"platforms": platforms}))


def test_a_hook_that_nobody_reads_is_nobodys_home(home: Path) -> None:
    write_settings(home, **HOOKS)
    with pytest.raises(HermesError, match=r"mute can be nobody's home.*Nothing was changed.*reply_url"):
        set_home(platform="webhook", chat="main", account="mute")
    assert set_home()["habits"]["home"] is None
    told = set_home(platform="webhook", chat="main", account="loud")
    assert (told["habits"]["home"]["account"], told.get("warning")) == ("loud", None)


def test_an_account_is_never_guessed(home: Path) -> None:
    """Of several it is named, or it is the one that has the chat."""
    bots = {"enabled": True, "accounts": {"one": {}, "two": {}}}
    write_settings(home, telegram=bots)
    with pytest.raises(HermesError, match=r"none of them knows this chat.*Nothing was changed.*--account.*one, two"):
        set_home(platform="telegram", chat="77")
    assert set_home(platform="telegram", chat="77", account="two")["habits"]["home"]["account"] == "two"
    assert choose_account(find_spec("telegram"), [Address("telegram", "two", "77")], ["one", "two"]) == "two"
    both = [Address("telegram", name, "77") for name in ("two", "one")]
    with pytest.raises(HermesError, match=r"in several accounts.*--account"):
        choose_account(find_spec("telegram"), both, ["one", "two"])
    assert choose_account(find_spec("telegram"), both, ["one"]) == "one"  # the other is gone


def test_a_home_where_nothing_is_told_now_is_warned_of(home: Path) -> None:
    write_settings(home, telegram={"enabled": False})
    assert "Telegram is not switched on" in set_home(platform="telegram", chat="77")["warning"]
    write_settings(home, telegram={"enabled": True})
    assert "warning" not in set_home(platform="telegram", chat="77")
    told = set_home(platform="telegram", chat="77", account="gone")
    assert "no account gone that is on" in told["warning"]
    assert told["habits"]["home"]["account"] == "gone"


def test_the_kind_of_a_known_chat_is_that_of_the_store(house: House) -> None:
    """Also where there was no turn yet, and where another account knows it."""
    room = house.person("olga", "room", "group")
    room.ask("/help")
    told = house.operate("people.home", id="owner", platform="pretend", chat="room")
    assert (told["habits"]["home"]["kind"], told["habits"]["home"]["account"]) == ("group", "bot")
    room.ask("[[say hello]]")
    told = house.operate("people.home", id="owner", platform="pretend", chat="room", account="other")
    assert (told["habits"]["home"]["kind"], told["habits"]["home"]["account"]) == ("group", "other")


# --- quiet hours


def be_quiet(person: Visitor) -> None:
    told = person.ask(f"/quiet {around_now()}")[-1]
    assert "Your quiet hours are" in told


def test_notices_wait_and_answers_do_not(house: House) -> None:
    """C8, C9: during quiet hours nothing is sent unasked, neither a draft nor a typing sign; what is asked is answered
    at once; what waited comes in order, once."""
    ann, olga = house.person("ann"), house.person("olga")
    ann.ask("[[say hello]]")
    be_quiet(ann)
    before, calls = ann.seen, len(house.service.calls)
    end_process(house, ann.conversation, "[[say first is done]]")
    wait_held(house, 1)
    end_process(house, ann.conversation, "[[say second is done]]")
    wait_held(house, 2)
    assert ann.seen == before
    assert len(house.service.calls) == calls
    ann.say("[[say answered at once]]")
    ann.wait_seen("answered at once")
    ann.say("/quiet")
    assert "2 messages wait for you until" in ann.wait_seen("2 messages").text
    olga.say("/status")
    status = olga.wait_seen("Turns under way").text.splitlines()
    (place,) = [place for place, line in enumerate(status) if "the end of somebody's quiet hours: 2;" in line]
    assert "not delivered yet" in status[place - 1]  # it says more about these, not about what is kept warm
    assert "the machine's time" in status[place]
    ann.say("/quiet off")
    ann.wait_seen("second is done")
    house.wait_quiet()
    said = [text for text in ann.seen if text.endswith("is done")]
    assert said == ["first is done", "second is done"]


def test_what_waits_outlives_the_process(house: House) -> None:
    """C9: stored, then delivered: a gateway that ends meanwhile delivers it after its next start, at its time."""
    ann = house.person("ann")
    ann.ask("[[say hello]]")
    be_quiet(ann)
    end_process(house, ann.conversation, "[[say it is done]]")
    wait_held(house, 1)
    house.stop()
    house.start()
    id = find_id(house, "ann")
    ann.say("[[say up again]]")
    ann.wait_seen("up again")
    assert ann.count("it is done") == 0
    house.gateway.turns.hold_anew(id, time.time() + 0.2)  # the hours are over
    ann.wait_seen("it is done")
    house.wait_quiet()
    assert ann.count("it is done") == 1


def test_a_question_of_a_turn_that_nobody_asked_for_wakes_nobody(home: Path, lab: LabServer) -> None:
    """G4: no answer is no; the model hears that nobody agreed, and what it says waits."""
    with House(home, lab.base_url, pretend=PEOPLE, approvals={"mode": "ask"}) as house:
        olga = house.person("olga")
        olga.ask("[[say hello]]")
        be_quiet(olga)
        before = olga.seen
        end_process(house, olga.conversation, '[[tool terminal {"command": "touch made"}]]')
        wait_held(house, 1)
        assert olga.seen == before
        assert house.gateway.questions.open(olga.conversation) is None


def test_quiet_hours_are_of_one_person(house: House) -> None:
    ann, ben, room = house.person("ann"), house.person("ben"), house.person("ann", "room", "group")
    for each in (ann, ben, room):
        each.ask("[[say hello]]")
    be_quiet(ann)
    end_process(house, ben.conversation, "[[say for ben]]")
    end_process(house, room.conversation, "[[say for all]]")
    ben.wait_seen("for ben")
    room.wait_seen("for all")


def test_bad_input_is_told_and_changes_nothing(house: House) -> None:
    ann = house.person("ann")
    ann.ask("[[say hello]]")
    id = find_id(house, "ann")
    ann.ask("/quiet 22:00-07:00")
    assert "are no quiet hours" in ann.ask("/quiet nights")[-1]
    assert "no time zone" in ann.ask("/timezone Nowhere/Land")[-1]
    assert "no way to use it" in ann.ask("/sethome here")[-1]
    assert house.operate("people.quiet", id=id)["habits"]["quiet"] == "22:00-07:00"
    assert "no quiet hours" in ann.ask("/quiet off")[-1]


def test_the_command_does_the_same(home: Path) -> None:
    """Without a gateway, with the home's lock."""
    assert owner.perform("people.quiet", {"id": "owner", "hours": "22:00-07:00"})["habits"]["quiet"] == "22:00-07:00"
    assert owner.perform("people.timezone", {"id": "owner", "zone": "europe/berlin"})["habits"] == {
        "home": None,
        "timezone": "Europe/Berlin",
        "quiet": "22:00-07:00",
    }
    assert owner.perform("people.timezone", {"id": "owner", "zone": "off"})["habits"]["timezone"] == ""


# --- the time zone


def test_the_model_is_told_the_persons_date(house: House, lab: LabServer) -> None:
    """A3: in the newest user message, never in the prompt; told again only when it changed."""
    ann = house.person("ann")
    assert "no time zone" in ann.ask("/timezone")[-1]
    ann.ask("/timezone Pacific/Kiritimati")
    ann.ask("[[say hello]]")
    system, *_, user = lab.requests[-1].json()["messages"]
    assert "in Pacific/Kiritimati; working folder" in str(user["content"])
    assert "Kiritimati" not in str(system)
    ann.ask("[[say again]]")
    assert "Kiritimati" not in str(lab.requests[-1].json()["messages"][-1]["content"])


# --- a home ends with its person's access


def lose_access(house: House, how: str, id: str) -> None:
    if how == "remove":
        house.operate("people.remove", id=id)
    elif how == "demote":
        house.operate("people.role", id=id, role="member")
    elif how == "unlink":
        house.operate("people.unlink", id=id, platform="pretend", sender="olga")
    else:  # the settings let her in, and do so no more
        house.write_settings(pretend={"allow": ["ann", "ben"]})
        wait_until(lambda: "olga" not in str(cli_config.load_last_good().platforms["pretend"]))


@pytest.mark.parametrize("how", ["remove", "demote", "unlink", "unlist"])
def test_a_home_is_none_once_whoever_set_it_is_not_that_person(house: House, how: str) -> None:
    """G3: what is the owner's is told to nobody who was the owner once."""
    olga = house.person("olga")
    olga.ask("/sethome")
    conversation = work_at_terminal(house)
    lose_access(house, how, find_id(house, "olga"))
    assert house.gateway.parts.whereabouts.find_home("owner") is None
    end_process(house, conversation, "[[say the secret is out]]")
    said = house.gateway.turns.outbox_since
    wait_until(lambda: any(row.outgoing.text == "the secret is out" for row in said(conversation, 0)))
    wait_until(lambda: not house.gateway.lanes.at_work)
    assert olga.count("the secret is out") == 0


@pytest.mark.parametrize("how", ["remove", "demote", "unlink"])
@pytest.mark.parametrize("waits_for", ["quiet hours", "the app"])
def test_what_waits_for_a_home_goes_with_it(house: House, how: str, waits_for: str) -> None:
    """G3: neither the end of quiet hours nor an app that is back brings it to somebody who was the owner once."""
    olga = house.person("olga")
    olga.ask("/sethome")
    conversation = work_at_terminal(house)
    id = find_id(house, "olga")
    if waits_for == "the app":
        house.call(lambda: house.service.punish(600))
    else:
        be_quiet(olga)
    end_process(house, conversation, "[[say the secret is out]]")
    home = Address("pretend", "bot", olga.chat)
    unsent = house.gateway.turns.outbox_unsent
    wait_until(lambda: any("the secret" in row.outgoing.text for row in unsent(home.account_key, home.chat_key)))
    lose_access(house, how, id)
    wait_until(lambda: unsent(home.account_key, home.chat_key) == [])
    assert olga.count("the secret is out") == 0


def test_a_home_that_was_set_at_the_machine_is_of_whom_it_was_set_for(house: House) -> None:
    """G3: for the owner of the machine it stays, whoever comes and goes; for a person it ends with them."""
    olga = house.person("olga")
    olga.ask("[[say hello]]")
    house.operate("people.home", id="owner", platform="pretend", chat="room")
    id = find_id(house, "olga")
    house.operate("people.role", id=id, role="member")
    assert house.gateway.parts.whereabouts.find_home("owner") == Address("pretend", "bot", "room")
    house.operate("people.role", id=id, role="owner")
    house.operate("people.home", id=id, platform="pretend", chat=olga.chat)
    assert house.gateway.parts.whereabouts.find_home("owner") is not None
    house.operate("people.remove", id=id)
    assert house.gateway.parts.whereabouts.find_home("owner") is None


def test_a_model_hears_of_what_waits_when_its_person_has_it(house: House, lab: LabServer) -> None:
    """G9: neither a notice nor a message of somebody else is known to the model of a chat, nor does it taint the
    conversation, before it has arrived there."""
    olga, ann = house.person("olga"), house.person("ann")
    ann.ask("[[say hello]]")
    olga.ask("/sethome")
    be_quiet(olga)
    be_quiet(ann)
    end_process(house, work_at_terminal(house), "[[say the backup is done]]")
    wait_waiting(house, olga, "the backup is done")
    olga.say(f"[[tool send_message {json.dumps({'to': 'Ann', 'message': 'Dinner at eight.'})}]]")
    olga.press(olga.wait_question("Dinner"), "approve")
    wait_waiting(house, ann, "Dinner at eight.")
    wait_until(lambda: not house.gateway.lanes.at_work)
    for person in (olga, ann):
        person.say("[[say not yet]]")
        person.wait_seen("not yet")
        asked = lab.requests[-1].json()["messages"][-1]["content"]
        assert "the backup is done" not in str(asked)
        assert "Dinner" not in str(asked)
    for person, said in ((olga, "the backup is done"), (ann, "Dinner at eight.")):
        assert house.gateway.store.habits.notes(person.conversation) == []
        person.say("/quiet off")
        person.wait_seen(said)
        wait_until(lambda person=person: bool(house.gateway.store.habits.notes(person.conversation)))
        person.say("[[say I know]]")
        person.wait_seen("I know")
        assert said in str(lab.requests[-1].json()["messages"][-1]["content"])


def wait_waiting(house: House, person: Visitor, text: str) -> None:
    """Until a message for the person's chat is stored and was not sent."""
    place = Address("pretend", "bot", person.chat)
    unsent = house.gateway.turns.outbox_unsent
    wait_until(lambda: any(text in row.outgoing.text for row in unsent(place.account_key, place.chat_key)))


# --- a home and the accounts that there are


def test_a_home_is_reached_by_the_account_that_can() -> None:
    """Never guessed: its own, the only one, or the only one that has the chat."""
    old = Address("telegram", "telegram", "7001")
    one, two = (Address("telegram", name, "7001") for name in ("one", "two"))
    cases: list[tuple[list[str], list[Address], Address | None]] = [
        (["telegram", "one"], [], old),
        (["one"], [], one),
        (["one", "two"], [two], two),
        (["one", "two"], [one, two], None),
        (["one", "two"], [], None),
        ([], [], None),
    ]
    for accounts, known, expected in cases:
        assert choose_reachable(old, accounts, known.__contains__) == expected


def test_a_home_moves_along_with_the_accounts(home: Path, lab: LabServer) -> None:
    """From one bot without a name to several: it is found where that is certain, and else people are told."""
    with House(home, lab.base_url, pretend={**PEOPLE, "account": None}) as house:
        house.person("olga").ask("/sethome")
        assert house.gateway.store.habits.get("owner").home == Address("pretend", "pretend", "chat-olga")
        house.stop()
        house.write_settings(pretend={**PEOPLE, "account": None, "accounts": {"bot": {}}})
        house.start()
        assert house.gateway.parts.whereabouts.find_home("owner") == Address("pretend", "bot", "chat-olga")
        assert "cannot be reached" not in "\n".join(people_cmd._tell_list(house.operate("people.list")))
        house.stop()
        house.write_settings(pretend={**PEOPLE, "account": None, "accounts": {"one": {}, "two": {}}})
        house.start()
        assert house.gateway.parts.whereabouts.find_home("owner") is None
        told = "\n".join(people_cmd._tell_list(house.operate("people.list")))
        assert "home pretend chat-olga, which cannot be reached: Pretend has no account pretend any more" in told
        (found,) = doctor._check_people(cli_config.load_settings())
        assert (found.level, "cannot be reached" in found.what) == ("warn", True)


def test_a_notice_finds_its_home_while_the_account_gets_other_settings(house: House) -> None:
    """C9: it waits for whoever comes, and is not lost in a terminal that nobody looks at."""
    olga = house.person("olga")
    olga.ask("/sethome")
    conversation = work_at_terminal(house)
    delivery = house.gateway.delivery
    adapters = [one for one in house.gateway.adapters if one.spec.name == "pretend"]
    house.wait_for(delivery.swap(adapters, ()))
    end_process(house, conversation, "[[say the backup is done]]")
    wait_waiting(house, olga, "the backup is done")
    house.wait_for(delivery.swap((), adapters))
    house.call(lambda: [delivery.begin(adapter) for adapter in adapters])
    olga.wait_seen("the backup is done")
    assert delivery.away("pretend") == []
