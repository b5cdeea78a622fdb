"""Kept approvals in chats: who makes a rule, what it allows, where it ends, and what is said of it (G4)."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House, Visitor
from waiting import wait_until

from gateway.core.route import NOT_YOURS_TO_KEEP
from hermes_base.turn.consent import label_choices
from hermes_lab.server import LabServer
from tools import approval

PEOPLE = {"owner": "olga", "allow": ["ann"]}
ALL = label_choices("approval", ("approve", "deny", "conversation", "always"))
ONCE = ALL[:2]
TOUCH = '[[tool terminal {"command": "touch made-%s && echo done-%s"}]]'


def open_house(home: Path, lab: LabServer, **settings: object) -> House:
    terminal = {"network": False}  # what a command with network writes is foreign text
    return House(home, lab.base_url, None, pretend=PEOPLE, approvals={"mode": "ask"}, terminal=terminal, **settings)


@pytest.fixture(autouse=True)
def _work_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner's commands run where the gateway was started."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with open_house(home, lab) as made:
        yield made


def touch(word: str) -> str:
    return TOUCH % (word, word)


def results(person: Visitor) -> list[str]:
    """What tools told the model in the conversation as it goes on."""
    session = person.house.gateway.store.current(person.conversation)
    assert session is not None
    rows = person.house.gateway.store.load(session.id).rows
    return [str(row.message["content"]) for row in rows if row.message.get("role") == "tool"]


def find_id(house: House, sender: str) -> str:
    people = house.operate("people.list")["people"]
    return next(str(one["id"]) for one in people if any(who["sender"] == sender for who in one["identities"]))


def questions(person: Visitor) -> int:
    return sum(bool(message.question) for message in person.messages)


def answer(person: Visitor, text: str, choice: str) -> None:
    """Say something that asks for an approval, and press a button below it."""
    press_next(person, person, text, choice)


def press_next(person: Visitor, by: Visitor, text: str, choice: str) -> None:
    asked = questions(person)
    person.say(text)
    wait_until(lambda: questions(person) == asked + 1)
    by.press(person.wait_question(), choice)
    person.house.wait_quiet()


# --- whose words ask


def test_words_of_somebody_else_that_are_asked_again_are_foreign(house: House) -> None:
    """G9, G4: who retries another person's question in a group is asked for once only, and told why; their own is
    theirs."""
    ann, olga = house.person("ann", "room", "group"), house.person("olga", "room", "group")
    press_next(ann, olga, touch("a"), "deny")
    asked = questions(olga)
    olga.say("/retry")
    wait_until(lambda: questions(olga) == asked + 1)
    question = olga.wait_question()
    assert question.choices == ONCE
    assert "messages of other people" in question.text
    olga.press(question, "deny")
    house.wait_quiet()
    mine = house.person("olga")
    answer(mine, touch("b"), "deny")
    mine.say("/retry")
    wait_until(lambda: questions(mine) == 2)
    assert mine.wait_question().choices == ALL
    mine.press(mine.wait_question(), "deny")
    house.wait_quiet()


def ask_with(person: Visitor, text: str, **more: str) -> tuple[str, ...]:
    """What a question offers after this was said; it is refused."""
    asked = questions(person)
    person.say(text, **more)
    wait_until(lambda: questions(person) == asked + 1)
    question = person.wait_question()
    person.press(question, "deny")
    person.house.wait_quiet()
    return tuple(question.choices)


def test_a_quote_of_ours_brings_back_what_was_in_sight(house: House) -> None:
    """G9, G4: a message of Hermes that was written with foreign text in sight, or that somebody else had sent, is
    foreign where it is quoted, also in another conversation later and after a restart; an answer without any is not."""
    ann, olga = house.person("ann"), house.person("olga")
    ann.ask("[[say hello]]")
    olga.ask("[[say this is clean]]")
    clean = olga.wait_seen("this is clean")
    olga.ask("[[say somebody else's idea]]", forwarded=True)
    tainted = olga.wait_seen("somebody else's idea")
    house.operate("people.role", id=find_id(house, "ann"), role="admin")
    ann.say(f"[[tool send_message {json.dumps({'to': find_id(house, 'olga'), 'message': 'run it, Olga'})}]]")
    ann.press(ann.wait_question(), "approve")
    sent = olga.wait_seen("run it, Olga")
    house.wait_quiet()
    olga.ask("[[say so that the model has heard of it]]")
    house.stop()
    house.start()
    for quoted, offered in ((clean, ALL), (tainted, ONCE), (sent, ONCE)):
        olga.ask("/new")
        assert ask_with(olga, touch("a"), quote=quoted.text, reply_to=quoted.id) == offered


def test_a_quote_of_oneself_is_ones_own(house: House) -> None:
    """G9: what a person wrote in their own direct chat is theirs, unless they had forwarded it; what nobody knows is
    not."""
    olga = house.person("olga")
    mine, passed_on = olga.say("[[say hm]] mine"), olga.say("[[say hm]] theirs", forwarded=True)
    house.wait_quiet()
    for quoted, offered in ((mine.id, ALL), (passed_on.id, ONCE), ("m999", ONCE)):
        olga.ask("/new")
        assert ask_with(olga, touch("a"), quote="words", reply_to=quoted) == offered


def test_in_a_group_an_answer_after_words_of_others_is_not_clean(house: House) -> None:
    """G9: that we said it does not make it ours."""
    ann, olga = house.person("ann", "room", "group"), house.person("olga", "room", "group")
    ann.ask("[[say as ann wanted]]")
    olga.ask("[[say as both wanted]]")
    said = olga.wait_seen("as both wanted")
    olga.ask("/new")
    assert ask_with(olga, touch("a"), quote=said.text, reply_to=said.id) == ONCE


# --- what a rule allows


def test_always_is_asked_once_and_holds_in_other_chats_and_after_a_restart(house: House) -> None:
    """G4: the same command is not asked for again; the transcript and the log say by which rule it was allowed."""
    olga, room = house.person("olga"), house.person("olga", "another")
    answer(olga, touch("a"), "always")
    (rule,) = house.gateway.store.approvals.rules()
    assert (rule.person, rule.conversation, rule.times_used, rule.shown) == ("", "", 0, "touch made-a && echo done-a")
    before = questions(olga)
    olga.ask(touch("a"))
    room.ask(touch("a"))
    assert (questions(olga), questions(room)) == (before, 0)
    for told in (results(olga)[-1], results(room)[-1]):
        assert "done-a" in told
        assert f"allowed by a rule of {time.strftime('%Y-%m-%d', time.localtime(rule.created))} ({rule.id})" in told
    house.stop()
    house.start()
    olga.ask(touch("a"))
    assert questions(olga) == before
    (used,) = house.gateway.store.approvals.rules()
    assert (used.id, used.times_used) == (rule.id, 3)


def test_other_arguments_ask_again(house: House) -> None:
    """G4: a rule never widens."""
    olga = house.person("olga")
    answer(olga, touch("a"), "always")
    for other in (touch("b"), '[[tool terminal {"command": "touch made-a && echo done-a && echo more"}]]'):
        answer(olga, other, "deny")
    moved = '[[tool terminal {"command": "touch made-a && echo done-a", "level": "outside"}]]'
    answer(olga, moved, "deny")
    assert [rule.times_used for rule in house.gateway.store.approvals.rules()] == [0]


def test_a_rule_of_a_conversation_ends_with_it(house: House) -> None:
    """G4: it holds there until /new, and nowhere else."""
    olga, room = house.person("olga"), house.person("olga", "room", "group")
    answer(olga, touch("a"), "conversation")
    before = questions(olga)
    olga.ask(touch("a"))
    assert questions(olga) == before
    assert "allowed by a rule" in results(olga)[-1]
    answer(room, touch("a"), "deny")
    old = house.gateway.store.current(olga.conversation)
    assert old is not None
    olga.ask("/new")
    assert house.gateway.store.approvals.rules() == []
    answer(olga, touch("a"), "deny")
    assert "done-a" not in results(olga)[-1]
    olga.ask(f"/resume {old.id}")
    answer(olga, touch("a"), "deny")
    assert "allowed by a rule" not in results(olga)[-1]


@pytest.mark.parametrize(
    "command", ["touch $HOME/x", "touch *.md", "FOO=1 touch x", "touch $(date)", "(touch x)", "touch ~/x"]
)
def test_what_cannot_be_pinned_down_is_allowed_once_only(house: House, command: str) -> None:
    """G4: no rule is offered for a command that is known only when it runs."""
    olga = house.person("olga")
    olga.say(f"[[tool terminal {json.dumps({'command': command})}]]")
    assert olga.wait_question().choices == ONCE
    olga.say("always")
    olga.wait_seen("Interrupted")  # it is no answer, so it is a new message
    house.wait_quiet()
    assert house.gateway.store.approvals.rules() == []


# --- who


def test_a_member_keeps_nothing(home: Path, lab: LabServer) -> None:
    """G4: a member who may approve may do so once; the question stays open when they want more. A rule that an admin
    or the owner makes for a member's turn is the member's."""
    with open_house(home, lab, people={"members_approve": True}) as house:
        ann, olga = house.person("ann", "room", "group"), house.person("olga", "room", "group")
        ann.say(touch("a"))
        question = ann.wait_question()
        assert question.choices == ALL
        for choice in ("always", "conversation"):
            before = ann.count(NOT_YOURS_TO_KEEP)
            ann.press(question, choice)
            ann.wait_seen(NOT_YOURS_TO_KEEP, before + 1)
        assert house.gateway.questions.open(ann.conversation) is not None
        ann.press(question, "approve")
        house.wait_quiet()
        assert house.gateway.store.approvals.rules() == []
        press_next(ann, olga, touch("a"), "always")
        (rule,) = house.gateway.store.approvals.rules()
        people = {person.name: person.id for person in house.gateway.people.people()}
        assert (rule.person, rule.made_by) == (people["Ann"], people["Olga"])
        before = questions(ann)
        ann.ask(touch("a"))
        assert questions(ann) == before
        answer(olga, touch("a"), "deny")


def test_a_removed_person_leaves_no_rules(house: House) -> None:
    """G3, G4"""
    ann, olga = house.person("ann", "room", "group"), house.person("olga", "room", "group")
    ann.say(touch("a"))
    olga.press(ann.wait_question(), "always")
    house.wait_quiet()
    (rule,) = house.gateway.store.approvals.rules()
    house.operate("people.remove", id=rule.person)
    assert house.gateway.store.approvals.rules() == []


def test_a_revoked_rule_asks_again(house: House) -> None:
    """G4: from the chat, by the owner; a member neither sees nor ends a rule."""
    olga, ann = house.person("olga"), house.person("ann")
    answer(olga, touch("a"), "always")
    (rule,) = house.gateway.store.approvals.rules()
    ann.ask("/approvals")
    assert ann.count(rule.id) == 0
    ann.ask(f"/approvals revoke {rule.id}")
    assert len(house.gateway.store.approvals.rules()) == 1
    listed = "\n".join(olga.ask("/approvals"))
    assert rule.id in listed
    assert "touch made-a" in listed
    missing = olga.ask("/approvals revoke r-none")[-1]
    assert "no such rule" in missing.lower()
    assert "/approvals shows the ids" in missing
    assert "hermes approvals" not in missing  # this is a chat
    olga.ask(f"/approvals revoke {rule.id}")
    answer(olga, touch("a"), "deny")
    assert "No approval is kept" in olga.ask("/approvals")[-1]


# --- what is said


def test_a_no_takes_a_word_to_the_model(house: House) -> None:
    """G4: it stands in the tool's result."""
    olga = house.person("olga")
    olga.say(touch("a"))
    olga.wait_question()
    olga.say("no: use the test database instead")
    house.wait_quiet()
    assert "not approved: use the test database instead" in results(olga)[-1]
    assert "done-a" not in results(olga)[-1]


def test_no_answer_is_a_no_and_the_model_hears_so(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """G4"""
    monkeypatch.setattr(approval, "EXPIRES_SECONDS", 0.3)
    olga = house.person("olga")
    olga.ask(touch("a"))
    assert "there was no answer, and that means no" in results(olga)[-1]


def test_foreign_text_in_sight_offers_no_rule_and_ends_none(home: Path, lab: LabServer) -> None:
    """G4, G9: after the output of a command with network nothing is kept any more, and the question says why; what was
    kept knowingly before still holds."""
    with open_house(home, lab) as house:
        olga = house.person("olga")
        answer(olga, touch("a"), "always")
        outside = '[[tool terminal {"command": "touch made-b && echo done-b", "level": "outside"}]]'
        answer(olga, outside, "approve")
        before = questions(olga)
        olga.ask(touch("a"))
        assert questions(olga) == before
        olga.say(touch("c"))
        question = olga.wait_question("made-c")
        assert question.choices == ONCE
        assert "for this once only, since this conversation holds the output of a command with network" in question.text
        olga.press(question, "deny")
        house.wait_quiet()


# --- files


def test_a_change_outside_of_the_folders_is_shown_as_a_diff_and_can_be_kept(house: House, tmp_path: Path) -> None:
    """G4: the person sees the diff; a rule lets exactly this file be written, and nothing else."""
    outside = Path("/var/tmp") / f"hermes-approvals-{tmp_path.parent.name}-{id(house)}"
    outside.mkdir()
    try:
        olga, target = house.person("olga"), outside / "notes.txt"

        def write(text: str, name: str = "notes.txt") -> str:
            args = {"path": str(outside / name), "content": text, "overwrite": True}
            return f"[[tool write_file {json.dumps(args)}]]"

        olga.say(write("one"))
        question = olga.wait_question()
        assert f"```diff\ncreate {target}\n@@ -0,0 +1 @@\n+one\n```" in question.text
        olga.press(question, "always")
        house.wait_quiet()
        before = questions(olga)
        olga.ask(write("two"))
        assert questions(olga) == before
        assert target.read_text().strip() == "two"
        assert "allowed by a rule" in results(olga)[-1]
        answer(olga, write("three", "other.txt"), "deny")
        assert not (outside / "other.txt").exists()
    finally:
        for path in outside.iterdir():
            path.unlink()
        outside.rmdir()


def test_what_programs_obey_and_secrets_are_asked_for_each_time(house: House) -> None:
    """G4, G7: no rule is offered for them."""
    olga = house.person("olga")
    for name in (".bashrc", ".env"):
        args = json.dumps({"path": name, "content": "x"})
        olga.say(f"[[tool write_file {args}]]")
        question = olga.wait_question(name)
        assert question.choices == ONCE
        olga.press(question, "deny")
        house.wait_quiet()
