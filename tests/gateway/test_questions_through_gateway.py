"""Questions that a turn asks people in a chat: who may answer, where, how often and until when."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from house import House, Visitor
from waiting import wait_until

from gateway.core.route import NOT_SEEN, NOT_YOUR_QUESTION, QUESTION_CLOSED, SAID_ALONE, SAID_SINCE
from gateway.platforms.pretend.service import CLOSED_BEFORE, PretendRules, Update
from gateway.service import announcer, gateway
from gateway.service.announcer import describe_end
from gateway.turns.questions import NOBODY
from hermes_base.chat import Answer, Question
from hermes_base.errors import HermesError
from hermes_base.inbound import ANSWER, QUESTION
from hermes_base.query_values import Caller
from hermes_base.turn.consent import name_briefly
from hermes_lab.server import LabServer
from hermes_state.approval_store import describe_waiting
from hermes_state.people_store import Person
from tools import approval

PEOPLE = {"owner": "olga", "allow": ["ann", "ben"]}
TOUCH = '[[tool terminal {"command": "touch made && echo done-%s"}]]'


def open_house(home: Path, lab: LabServer, rules: PretendRules | None = None, **settings: object) -> House:
    return House(home, lab.base_url, rules, **{"pretend": PEOPLE, "approvals": {"mode": "ask"}, **settings})


@pytest.fixture(autouse=True)
def _work_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner's commands run where the gateway was started."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with open_house(home, lab) as made:
        yield made


def was_run(person: Visitor, word: str) -> bool:
    """Whether the model was told of the command's output; what was asked holds the word too, but not so."""
    session = person.house.gateway.store.current(person.conversation)
    assert session is not None
    rows = person.house.gateway.store.load(session.id).rows
    return any(row.message.get("role") == "tool" and f"done-{word}" in str(row.message["content"]) for row in rows)


# --- yes and no


@pytest.mark.parametrize("typed", ["yes", "Approve", "1", "ok."])
def test_a_typed_word_approves(house: House, typed: str) -> None:
    """G4: the owner approves by typing."""
    olga = house.person("olga")
    olga.say(TOUCH % "typed")
    olga.wait_question("touch made")
    olga.say(typed)
    house.wait_quiet()
    assert was_run(olga, "typed")


def test_in_a_group_a_yes_with_our_name_before_it_is_a_yes(house: House) -> None:
    """G4, C3: it answers and interrupts nothing; a command with our name before it is one."""
    olga = house.person("olga", "room", "group")
    olga.say("@bot " + TOUCH % "named")
    olga.wait_question("touch made")
    olga.say("@bot yes")
    house.wait_quiet()
    assert was_run(olga, "named")
    assert olga.count("Interrupted") == 0
    assert "home channel" in olga.ask("@bot: /sethome")[-1]


def test_a_button_approves_once(house: House, lab: LabServer) -> None:
    """G4: a pressed button approves; pressing it again does nothing and says so."""
    olga = house.person("olga")
    olga.say(TOUCH % "pressed")
    question = olga.wait_question("touch made")
    assert question.choices[:2] == ("Yes, once", "No")
    olga.press(question, "approve")
    house.wait_quiet()
    assert was_run(olga, "pressed")
    calls = len(lab.requests)
    olga.press(question, "approve")
    olga.wait_seen(QUESTION_CLOSED)
    assert len(lab.requests) == calls


def test_a_turn_has_one_name_wherever_it_is_spoken_of(house: House) -> None:
    """In the ledger, in the question and in the answer; it is that of its message."""
    olga = house.person("olga")
    olga.say(TOUCH % "named")
    olga.press(olga.wait_question("touch made"), "approve")
    house.wait_quiet()
    store, name = house.gateway.store, f"{olga.conversation}#1"
    current = store.current(olga.conversation)
    assert current is not None
    assert [group.keys for group in store.usage_by("turn", task=current.task)] == [(name,)]
    said = [row.outgoing for row in store.turns.outbox_from(olga.conversation, 0.0, 100)]
    assert {outgoing.turn for outgoing in said if outgoing.kind in (QUESTION, ANSWER)} == {name}


def test_a_no_denies_and_the_turn_goes_on(house: House) -> None:
    """G4: a denied command is not run, and the model hears of it."""
    olga = house.person("olga")
    olga.say(TOUCH % "denied")
    olga.press(olga.wait_question("touch made"), "deny")
    house.wait_quiet()
    assert not was_run(olga, "denied")
    assert olga.count("terminal returned") == 1


def test_one_yes_is_for_one_command(house: House) -> None:
    """G4: an approval holds for the exact command it was asked for; the next one asks again."""
    olga = house.person("olga")
    olga.say((TOUCH % "first") + "[[then]]" + (TOUCH % "second"))
    first = olga.wait_question("done-first")
    olga.press(first, "approve")
    second = olga.wait_question("done-second")
    olga.press(first, "approve")
    olga.wait_seen(QUESTION_CLOSED)
    assert not was_run(olga, "second")
    olga.press(second, "deny")
    house.wait_quiet()
    assert was_run(olga, "first")
    assert not was_run(olga, "second")


def test_where_there_are_no_buttons_the_text_says_how_to_answer(home: Path, lab: LabServer) -> None:
    """G4: on a platform without buttons the choices stand in the text, and a word answers."""
    with open_house(home, lab, PretendRules(has_buttons=False)) as house:
        olga = house.person("olga")
        olga.say(TOUCH % "plain")
        asked = olga.wait_seen("touch made").text
        assert "Answer with one of: yes, no" in asked
        olga.say("yes")
        house.wait_quiet()
        assert was_run(olga, "plain")


def test_a_free_question_takes_any_text(house: House) -> None:
    """A clarification is answered by the next message, and no turn is interrupted for it."""
    ann = house.person("ann")
    ann.say('[[tool clarify {"question": "Which colour?"}]]')
    ann.wait_question("Which colour?")
    ann.say("heliotrope, please")
    house.wait_quiet()
    assert ann.count("heliotrope, please") == 1
    assert ann.count("Interrupted") == 0


# --- which


def test_a_second_yes_is_not_for_a_command_that_nobody_had_seen(house: House) -> None:
    """G4: two quick yes are one approval, also when the service hands the second one over late, or twice."""
    olga = house.person("olga")
    olga.say((TOUCH % "first") + "[[then]]" + (TOUCH % "second"))
    olga.wait_question("done-first")
    late = Update("late", olga.chat, "dm", "olga", "yes", name="Olga")
    olga.say("yes")
    olga.wait_question("done-second")
    for update in (late, late, replace(late, id="later")):
        house.call(lambda update=update: house.service.repeat(update))
    olga.wait_seen(NOT_SEEN, 2)
    assert was_run(olga, "first")
    assert not was_run(olga, "second")
    olga.say("yes")
    house.wait_quiet()
    assert was_run(olga, "second")


def test_a_yes_is_not_for_a_question_that_has_not_arrived(home: Path, lab: LabServer) -> None:
    """G4: while the service does not show the question, no text answers it; once it stands there, one does."""
    with open_house(home, lab, PretendRules(has_buttons=False)) as house:
        olga = house.person("olga")
        house.service.always = CLOSED_BEFORE
        olga.say(TOUCH % "unseen")
        wait_until(lambda: house.gateway.questions.open(olga.conversation) is not None)
        olga.say("yes")
        wait_until(lambda: house.gateway.turns.depth()[0] == 1)  # the yes is dealt with, and its turn still waits
        assert house.gateway.questions.open(olga.conversation) is not None
        house.service.always = ""
        olga.wait_question("touch made")
        olga.wait_seen(NOT_SEEN)
        assert not was_run(olga, "unseen")
        olga.say("yes")
        house.wait_quiet()
        assert was_run(olga, "unseen")


# --- who


def test_a_member_does_not_approve_their_own_command(house: House) -> None:
    """G4: with people.members_approve off, neither a word nor a button of a member counts; the owner's does."""
    ann, ben, olga = (house.person(name, "room", "group") for name in ("ann", "ben", "olga"))
    ann.say(TOUCH % "member")
    question = ann.wait_question("touch made")
    for member in (ann, ben):
        before = ann.count(NOT_YOUR_QUESTION)
        member.press(question, "approve")
        ann.wait_seen(NOT_YOUR_QUESTION, before + 1)
        member.say("yes")
        ann.wait_seen(NOT_YOUR_QUESTION, before + 2)
    assert not was_run(ann, "member")
    olga.say("yes")
    ann.wait_seen(SAID_ALONE[:40])
    assert not was_run(ann, "member")
    olga.say(f"yes {name_briefly(question.question)}")
    house.wait_quiet()
    assert was_run(ann, "member")


def test_members_may_approve_where_the_owner_lets_them(home: Path, lab: LabServer) -> None:
    """G4: with people.members_approve on, a member approves their own turn, and nobody else's."""
    with open_house(home, lab, people={"members_approve": True}) as house:
        ann, ben = (house.person(name, "room", "group") for name in ("ann", "ben"))
        ann.say(TOUCH % "own")
        question = ann.wait_question("touch made")
        ben.press(question, "approve")
        ann.wait_seen(NOT_YOUR_QUESTION)
        assert not was_run(ann, "own")
        ann.press(question, "approve")
        house.wait_quiet()
        assert was_run(ann, "own")


def test_an_answer_counts_in_its_own_chat_only(house: House) -> None:
    """G4: the owner's yes in another chat, by word or by the button's id, answers nothing."""
    room, own = house.person("olga", "room", "group"), house.person("olga")
    room.say(TOUCH % "elsewhere")
    question = room.wait_question("touch made")
    own.press(question, "approve")
    own.wait_seen(QUESTION_CLOSED)
    own.say("yes")
    own.wait_seen("You said: yes")
    assert not was_run(room, "elsewhere")
    room.press(question, "deny")
    house.wait_quiet()
    assert not was_run(room, "elsewhere")


def test_a_stranger_answers_nothing(house: House) -> None:
    """G4, G1: a stranger's button press in the chat does nothing at all."""
    olga, sam = house.person("olga", "room", "group"), house.person("sam", "room", "group")
    olga.say(TOUCH % "stranger")
    question = olga.wait_question("touch made")
    sam.press(question, "approve")
    sam.say("yes")
    wait_until(lambda: not house.service.updates and house.gateway.turns.depth()[0] == 1)
    assert not was_run(olga, "stranger")
    olga.press(question, "deny")
    house.wait_quiet()
    assert not was_run(olga, "stranger")


# --- asked of somebody who may answer


def test_what_a_member_may_not_answer_is_asked_of_the_owner_at_home(house: House) -> None:
    """G4: a member is shown no buttons, but who was asked; the owner's yes counts, and both chats see it."""
    ann, olga = house.person("ann"), house.person("olga")
    olga.ask("/sethome")
    ann.say(TOUCH % "asked")
    told = ann.wait_seen("who has been asked")
    assert (told.choices, told.question) == ((), "")
    assert "touch made" in told.text
    question = olga.wait_question("touch made")
    assert "Ann" in question.text
    ann.say("yes")
    ann.wait_seen(NOT_YOUR_QUESTION)
    assert not was_run(ann, "asked")
    olga.press(question, "approve")
    ann.wait_seen("→ Yes, once (Olga)")
    house.wait_quiet()
    assert was_run(ann, "asked")
    assert "→ Yes, once (Olga)" in olga.wait_seen("touch made").text
    olga.press(question, "approve")
    olga.wait_seen(QUESTION_CLOSED)


def test_a_word_at_home_is_the_answer_too(home: Path, lab: LabServer) -> None:
    """G4: where there are no buttons; an ordinary message is none, and is answered as ever."""
    with open_house(home, lab, PretendRules(has_buttons=False)) as house:
        ann, olga = house.person("ann"), house.person("olga")
        olga.ask("/sethome")
        ann.say(TOUCH % "typed")
        olga.wait_seen("touch made")
        wait_until(lambda: (asked := house.gateway.questions.open(olga.conversation)) is not None and asked.shown)
        olga.say("What is that about?")
        olga.wait_seen("You said: What is that about?")
        assert not was_run(ann, "typed")
        asked = house.gateway.questions.open(olga.conversation)
        assert asked is not None
        assert f"`yes {name_briefly(asked.id)}`" in olga.wait_seen("touch made").text
        olga.say(f"no {name_briefly(asked.id)}: ask me tomorrow")
        ann.wait_seen("→ No: ask me tomorrow (Olga)")
        olga.wait_seen("→ No: ask me tomorrow (Olga)")
        house.wait_quiet()
        assert not was_run(ann, "typed")


@pytest.mark.parametrize("said", ["Yes", "No, the door code is 99-17"])
def test_what_the_owner_says_to_their_own_model_is_no_answer_to_a_member(house: House, said: str) -> None:
    """G4, G12: neither does a yes run a member's command, nor does a no hand the owner's words over."""
    ann, olga = house.person("ann"), house.person("olga")
    olga.ask("/sethome")
    ann.say(TOUCH % "hijacked")
    question = olga.wait_question("touch made")
    olga.say("[[say Shall I also water the plants?]]")
    olga.wait_seen("water the plants?")
    olga.say(said)
    olga.wait_seen(f"You said: {said}")
    assert house.gateway.questions.open(ann.conversation) is not None
    olga.press(question, "deny")
    ann.wait_seen("→ No (Olga)")
    house.wait_quiet()
    assert not was_run(ann, "hijacked")
    assert ann.count("99-17") == 0


def test_a_bare_yes_at_home_is_told_how_to_say_which(house: House) -> None:
    """G4: where nothing was said since; it reaches neither the turn that asks nor the model."""
    ann, olga = house.person("ann"), house.person("olga")
    olga.ask("/sethome")
    ann.say(TOUCH % "bare")
    question = olga.wait_question("touch made")
    olga.say("yes")
    told = olga.wait_seen(SAID_ALONE[:40]).text
    assert f"`yes {name_briefly(question.question)}`" in told
    assert olga.count("You said") == 0
    assert not was_run(ann, "bare")
    olga.say("yes", reply_to=question.id)
    ann.wait_seen("→ Yes, once (Olga)")
    house.wait_quiet()
    assert was_run(ann, "bare")


def test_a_reply_to_a_question_that_is_over_answers_no_other(house: House) -> None:
    """G4"""
    olga = house.person("olga")
    olga.say((TOUCH % "first") + "[[then]]" + (TOUCH % "second"))
    first = olga.wait_question("done-first")
    olga.say("yes", reply_to=first.id)
    second = olga.wait_question("done-second")
    olga.say("yes", reply_to=first.id)
    olga.wait_seen(QUESTION_CLOSED)
    assert was_run(olga, "first")
    assert not was_run(olga, "second")
    olga.press(second, "deny")
    house.wait_quiet()


def test_a_yes_after_something_else_was_said_has_to_say_what_it_is_for(house: House) -> None:
    """G4: the question of the own turn stands above the words of another one's model."""
    olga, room = house.person("olga"), house.person("olga", "room", "group")
    olga.ask("/sethome")
    olga.say(TOUCH % "covered")
    question = olga.wait_question("touch made")
    words = '{"action": "send", "to": "home", "message": "Shall I also buy milk?"}'
    room.say(f"[[tool send_message {words}]]")
    room.wait_seen("send_message returned")
    olga.wait_seen("buy milk?")
    olga.say("yes")
    olga.wait_seen(SAID_SINCE[:40])
    assert not was_run(olga, "covered")
    olga.say(f"yes {name_briefly(question.question)}")
    house.wait_quiet()
    assert was_run(olga, "covered")


def test_an_approver_sees_what_somebody_is_and_all_of_what_they_ask(house: House) -> None:
    """G2, G4: a name is quoted and has its role beside it; blanks push nothing out of sight."""
    ann, olga = house.person("ann", name='Olga" (owner)'), house.person("olga")
    olga.ask("/sethome")
    ann.say('[[tool terminal {"command": "touch made' + " " * 3000 + '; touch evil"}]]')
    question = olga.wait_question("touch made")
    assert "role member" in question.text
    assert 'calls themselves "Olga (owner)"' in question.text
    assert "touch made ⟨3000 blanks⟩ ; touch evil" in question.text
    olga.press(question, "deny")
    house.wait_quiet()


def test_an_admin_is_asked_where_the_owner_has_no_home(house: House) -> None:
    """G4: and nobody in their quiet hours."""
    ann, ben, olga = house.person("ann"), house.person("ben"), house.person("olga")
    for person in (ben, olga):
        person.ask("[[say hello]]")
    ids = {one["name"]: one["id"] for one in house.operate("people.list")["people"]}
    house.operate("people.role", id=ids["Ben"], role="admin")
    ben.ask("/sethome")
    olga.ask("/sethome")
    olga.ask("/quiet 00:00-23:59")
    ann.say(TOUCH % "admin")
    ben.press(ben.wait_question("touch made"), "approve")
    ann.wait_seen("→ Yes, once (Ben)")
    house.wait_quiet()
    assert was_run(ann, "admin")
    assert olga.count("touch made") == 0


def test_where_nobody_can_be_reached_it_is_said_how(house: House) -> None:
    """G4: the page and the machine; no answer is a no, and the chat says so."""
    ann = house.person("ann")
    ann.say(TOUCH % "alone")
    told = ann.wait_seen("none of them can be reached")
    assert "settings of the page, or with `hermes approvals waiting` on the machine" in told.text
    assert told.choices == ()
    asked = house.gateway.questions.showing(ann.conversation)
    assert asked is not None
    assert house.wait_for(house.gateway.queries.turns.answer(Caller(), asked.id, "approve"))
    ann.wait_seen("→ Yes, once (owner)")
    house.wait_quiet()
    assert was_run(ann, "alone")
    assert house.operate("approvals.waiting") == {"waiting": []}


def test_the_operator_answers_at_the_machine(house: House) -> None:
    """G4: `hermes approvals waiting` and `answer`; what is no choice leaves it open, and it counts once."""
    ann = house.person("ann")
    ann.say(TOUCH % "machine")
    ann.wait_seen("none of them can be reached")
    (asked,) = house.operate("approvals.waiting")["waiting"]
    assert (asked["name"], asked["labels"][:2]) == ("Ann", ("Yes, once", "No"))
    assert "touch made" in "".join(describe_waiting({"waiting": [asked]}))
    with pytest.raises(HermesError, match=r"not one of the choices.*still open"):
        house.operate("approvals.answer", id=asked["id"], answer="perhaps")
    assert house.operate("approvals.answer", id=asked["id"], answer="yes") == {"answered": asked["id"]}
    house.wait_quiet()
    assert was_run(ann, "machine")
    with pytest.raises(HermesError, match="No question"):
        house.operate("approvals.answer", id=asked["id"], answer="yes")


def test_what_was_asked_at_home_ends_with_the_process(house: House) -> None:
    """G4: both chats say so after a restart, and the buttons are gone."""
    ann, olga = house.person("ann"), house.person("olga")
    olga.ask("/sethome")
    ann.say(TOUCH % "cut")
    olga.wait_question("touch made")
    house.stop()
    house.start()
    olga.wait_seen("not asked any more")
    ann.wait_seen("not asked any more")
    assert olga.wait_seen("touch made").choices == () or olga.count("touch made") > 1


# --- until when


def test_no_answer_means_no(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """G4: a question expires; the command is denied, and a late yes does nothing."""
    monkeypatch.setattr(approval, "EXPIRES_SECONDS", 0.3)
    olga = house.person("olga")
    olga.say(TOUCH % "late")
    question = olga.wait_question("touch made")
    house.wait_quiet()
    assert not was_run(olga, "late")
    olga.press(question, "approve")
    olga.wait_seen(QUESTION_CLOSED)
    assert not was_run(olga, "late")


def test_stop_voids_the_question(house: House) -> None:
    """G4, C4: /stop ends the turn that waits for an answer; the answer that comes then does nothing."""
    olga = house.person("olga")
    olga.say(TOUCH % "stopped")
    question = olga.wait_question("touch made")
    olga.say("/stop")
    olga.wait_seen("Interrupted: stopped by Olga.")
    olga.press(question, "approve")
    olga.wait_seen(QUESTION_CLOSED)
    house.wait_quiet()
    assert not was_run(olga, "stopped")
    assert "You said: next" in olga.ask("next")[-1]


def test_a_new_message_voids_the_question(house: House) -> None:
    """G4: a message that is no answer interrupts the turn, and its question with it."""
    olga = house.person("olga")
    olga.say(TOUCH % "moved-on")
    question = olga.wait_question("touch made")
    olga.say("[[say something else]]")
    olga.wait_seen("something else")
    olga.press(question, "approve")
    olga.wait_seen(QUESTION_CLOSED)
    house.wait_quiet()
    assert not was_run(olga, "moved-on")


def test_a_question_does_not_outlive_the_gateway(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """G4, C10: after a restart the turn goes on without the command, and the old button answers nothing."""
    olga = house.person("olga")
    olga.say(TOUCH % "again")
    question = olga.wait_question("touch made")
    monkeypatch.setattr(gateway, "GRACE_SECONDS", 0.2)
    house.stop()
    house.start()
    olga.wait_seen("nobody had approved it")
    olga.press(question, "approve")
    olga.wait_seen(QUESTION_CLOSED)
    house.wait_quiet()
    assert not was_run(olga, "again")


def test_an_operator_learns_that_nothing_runs(house: House) -> None:
    """B8: a stop that reaches nothing says so; an unknown operation is an error with what there is."""
    assert house.operate("turns.stop", conversation=house.person("olga").conversation) == {"stopped": False}
    with pytest.raises(HermesError, match="There is no operation"):
        house.operate("turns.begin")


# --- what stands in the chat when a question is over


def wait_end(person: Visitor, question: str, end: str) -> None:
    """Until the message that asked says how it ended, without buttons."""

    def is_over() -> bool:
        asked = [m for m in person.house.service.messages if m.question == question]
        return [(m.choices, m.text.endswith(end)) for m in asked] == [((), True)]

    wait_until(is_over)


@pytest.mark.parametrize(
    ("kind", "choices", "text", "end"),
    [
        ("approval", ("approve", "deny", "conversation"), "deny", "→ No (Ann)"),
        ("approval", ("approve", "deny"), "deny: use the test database", "→ No: use the test database (Ann)"),
        ("approval", ("approve", "deny", "conversation"), "conversation", "→ Yes, in this conversation (Ann)"),
        ("confirmation", ("undo", "keep"), "undo", "→ undo (Ann)"),
        ("clarification", (), "Blue: like the sky", "→ Blue: like the sky (Ann)"),
    ],
)
def test_an_end_is_told_in_the_words_of_the_buttons(kind: str, choices: tuple[str, ...], text: str, end: str) -> None:
    person = Person("p-1", "\u202eAnn", "member", 0.0)
    assert describe_end(Question(kind, "?", choices), Answer(text, by="p-1"), person, expired=False) == end


def test_an_answered_question_says_so_and_loses_its_buttons(house: House) -> None:
    """G4: everybody in the chat sees what was decided and by whom, once, in the message that asked."""
    olga = house.person("olga")
    olga.say(TOUCH % "shown")
    asked = olga.wait_question("touch made")
    olga.press(asked, "approve")
    house.wait_quiet()
    wait_end(olga, asked.question, "→ Yes, once (Olga)")
    (message,) = [m for m in house.service.messages if m.question == asked.question]
    assert message.text.startswith(asked.text)
    assert message.edits == 1
    assert was_run(olga, "shown")


def test_an_expired_question_says_so(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approval, "EXPIRES_SECONDS", 0.3)
    olga = house.person("olga")
    olga.say(TOUCH % "late")
    asked = olga.wait_question("touch made")
    wait_end(olga, asked.question, announcer.NO_ANSWER)
    house.wait_quiet()


def test_a_void_question_says_so(house: House) -> None:
    olga = house.person("olga")
    olga.say(TOUCH % "stopped")
    asked = olga.wait_question("touch made")
    olga.say("/stop")
    wait_end(olga, asked.question, announcer.NOT_NEEDED)
    house.wait_quiet()


def test_a_question_of_a_process_that_died_says_so(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """C10: nobody was there to tell its end; the next process does."""
    olga = house.person("olga")
    olga.say(TOUCH % "died")
    asked = olga.wait_question("touch made")
    monkeypatch.setattr(gateway, "GRACE_SECONDS", 0.2)
    with monkeypatch.context() as dying:
        dying.setattr(house.gateway.questions, "_note_end", lambda _: NOBODY)  # as a kill leaves it
        dying.setattr(house.gateway.questions, "_settled", lambda *_: None)
        house.stop()
    house.start()
    wait_end(olga, asked.question, announcer.RESTARTED)
    house.wait_quiet()
