"""The front door as a table: who sends what to a conversation in which state, and what becomes of it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.core import route as intake
from gateway.core.route import (
    MAX_DEPTH,
    MAX_WAITING,
    AnswerQuestion,
    ConversationView,
    Drop,
    Interrupt,
    OpenQuestion,
    Queue,
    ReplyAtOnce,
    RunCommand,
    Standing,
    StartTurn,
    Steer,
    read_answer,
    route,
)
from hermes_base.inbound import NOTICE, Address, FileRef, Inbound, read_inbound, read_way, write_inbound

OWNER, ADMIN, ANNA, BEN = (
    Standing(name, role) for name, role in (("olga", "owner"), ("adam", "admin"), ("anna", "member"), ("ben", "member"))
)
STRANGER = Standing("", "")
DM = Address("pretend", "bot", "1")
GROUP = Address("pretend", "bot", "2", "group")
FILE = FileRef("/tmp/a.png", "a.png", "image")
SHOWN = 100.0  # when the question arrived
APPROVAL = OpenQuestion("q1", "approval", ("approve", "deny"), "anna", SHOWN)
CONFIRMATION = OpenQuestion("q2", "confirmation", ("undo", "keep"), "anna", SHOWN)
CHOICE = OpenQuestion("q3", "clarification", ("Red", "Blue"), "anna", SHOWN)
FREE = OpenQuestion("q4", "clarification", (), "anna", SHOWN)
OWNERS = replace(APPROVAL, asked="olga", asked_role="owner")
AT_HOME = replace(APPROVAL, elsewhere=True)


def say(text: str, **more: Any) -> Inbound:
    """What comes in, as it is once it is in."""
    said = {"address": DM, "message": "7", "sender": "s", "text": text, "received": SHOWN + 1, **more}
    return read_way(Inbound(**said))


def in_group(text: str, **more: Any) -> Inbound:
    return say(text, **{"address": GROUP, "mentioned": True, **more})


def idle(sender: Standing = ANNA, **more: Any) -> ConversationView:
    return ConversationView(sender, **more)


def busy(sender: Standing = ANNA, **more: Any) -> ConversationView:
    return ConversationView(sender, **{"busy": True, "starter": "anna", **more})


def asked(question: OpenQuestion, sender: Standing = ANNA, **more: Any) -> ConversationView:
    return busy(sender, question=question, **more)


#: message, state of its conversation, decision (a type where the words are not fixed)
CASES: dict[str, tuple[Inbound, ConversationView, Any]] = {
    # --- strangers (G1)
    "a stranger": (say("hi"), idle(STRANGER), Drop),
    "a stranger in a group gets nothing": (in_group("hi"), idle(STRANGER), Drop),
    "a stranger's command": (say("/status"), idle(STRANGER), Drop),
    "a stranger's stop": (say("/stop"), busy(STRANGER), Drop),
    "a stranger's answer": (say("approve"), asked(APPROVAL, STRANGER), Drop),
    "a stranger's button": (say("approve", question="q1"), asked(APPROVAL, STRANGER), Drop),
    "a role nobody knows is a stranger's": (say("hi"), idle(Standing("x", "king")), Drop),
    "a person without a role is a stranger": (say("hi"), idle(Standing("x", "")), Drop),
    # --- notices
    "a notice starts a turn": (say("ended", origin=NOTICE), idle(), StartTurn()),
    "a notice waits for the turn": (say("ended", origin=NOTICE), busy(), Queue()),
    "a notice waits for the next start": (say("ended", origin=NOTICE), idle(closing=True), Queue()),
    "a notice for somebody who was removed": (say("ended", origin=NOTICE), idle(STRANGER), Drop),
    "a notice in a group needs no mention": (in_group("ended", origin=NOTICE, mentioned=False), idle(), StartTurn()),
    "a notice is no command": (say("/new", origin=NOTICE), idle(), StartTurn()),
    # --- groups
    "talk among people": (in_group("hi", mentioned=False), idle(), Drop),
    "a command among people": (in_group("/new", mentioned=False), idle(), Drop),
    "a stop among people": (in_group("/stop", mentioned=False), busy(), Drop),
    "an answer among people": (in_group("approve", mentioned=False), asked(APPROVAL, ADMIN), Drop),
    "spoken to": (in_group("hi"), idle(), StartTurn()),
    "an open group": (in_group("hi", mentioned=False), idle(group_open=True), StartTurn()),
    "a command in an open group": (
        in_group("/usage", mentioned=False),
        idle(group_open=True),
        RunCommand("usage", ""),
    ),
    "a platform without mentions": (in_group("hi", mentioned=False), idle(needs_mention=False), StartTurn()),
    "a group that is left out": (in_group("hi"), idle(group_allowed=False), Drop),
    "a channel is a group": (say("hi", address=replace(GROUP, kind="channel")), idle(), Drop),
    "a button in a group": (
        in_group("approve", mentioned=False, question="q1"),
        asked(APPROVAL, ADMIN),
        AnswerQuestion("q1", "approve"),
    ),
    # --- direct chats that changed hands (G12)
    "somebody else's direct chat": (say("hi"), idle(anothers=True), ReplyAtOnce(intake.SOMEBODY_ELSES, "warning")),
    "a command there": (say("/resume"), idle(anothers=True), ReplyAtOnce(intake.SOMEBODY_ELSES, "warning")),
    "a button there": (say("yes", question="q1"), asked(APPROVAL, OWNER, anothers=True), ReplyAtOnce),
    "a stranger there": (say("hi"), idle(STRANGER, anothers=True), Drop),
    "a notice there": (say("ended", origin=NOTICE), idle(anothers=True), StartTurn()),
    # --- edits
    "an edit of an answered message": (say("hi!", revision="2"), idle(earlier="answered"), ReplyAtOnce),
    "an edited command": (say("/new", revision="2"), idle(earlier="answered"), ReplyAtOnce),
    "an edit older than another": (say("hi!", revision="2"), idle(earlier="nothing new"), Drop),
    "an edit of a waiting message": (say("hi!", revision="2"), idle(earlier="open"), StartTurn()),
    "an edit while its turn runs": (say("hi!", revision="2"), busy(earlier="open"), Interrupt()),
    "an edit of what was never seen": (say("hi!", revision="2"), idle(), StartTurn()),
    # --- questions (G4)
    "the button": (say("approve", question="q1"), asked(APPROVAL, OWNER), AnswerQuestion("q1", "approve")),
    "the button of an earlier question": (say("approve", question="q0"), asked(APPROVAL, OWNER), ReplyAtOnce),
    "the button of no question": (say("approve", question="q1"), idle(OWNER), ReplyAtOnce),
    "a button with another text": (say("hm", question="q1"), asked(APPROVAL, OWNER), ReplyAtOnce),
    "the button by a member": (say("approve", question="q1"), asked(APPROVAL), ReplyAtOnce(intake.NOT_YOUR_QUESTION)),
    "a yes": (say("Yes"), asked(OWNERS, OWNER), AnswerQuestion("q1", "approve")),
    "a no": (say(" no. "), asked(OWNERS, OWNER), AnswerQuestion("q1", "deny")),
    "in any case": (say("APPROVE"), asked(OWNERS, OWNER), AnswerQuestion("q1", "approve")),
    "by number": (say("2"), asked(OWNERS, OWNER), AnswerQuestion("q1", "deny")),
    # A bare word is for one's own turn, and for what was said last.
    "a yes to the turn of a member": (in_group("ok"), asked(APPROVAL, OWNER), ReplyAtOnce),
    "a no with a word to the turn of a member": (in_group("no, not now"), asked(APPROVAL, OWNER), ReplyAtOnce),
    "a yes at home": (say("yes"), idle(OWNER, question=AT_HOME), ReplyAtOnce),
    "a yes at home to a turn of one's own": (
        say("yes"),
        idle(OWNER, question=replace(OWNERS, elsewhere=True)),
        ReplyAtOnce,
    ),
    "a yes at home to what the model said since": (
        say("yes"),
        idle(OWNER, question=replace(AT_HOME, covered=True)),
        StartTurn(),
    ),
    "a no at home to what the model said since": (
        say("No, the door code is 17"),
        idle(OWNER, question=replace(AT_HOME, covered=True)),
        StartTurn(),
    ),
    "a yes at home from before it was shown": (say("yes", received=SHOWN), idle(OWNER, question=AT_HOME), StartTurn()),
    "a yes at home in reply to something else": (say("yes", reply_to="9"), idle(OWNER, question=AT_HOME), StartTurn()),
    "a yes in a group to what was said since": (
        in_group("yes"),
        asked(replace(APPROVAL, covered=True), OWNER),
        Queue(intake.QUEUED_OTHERS),
    ),
    "a yes in reply to it": (
        say("yes", reply_to="9"),
        idle(OWNER, question=AT_HOME, replied="q1"),
        AnswerQuestion("q1", "approve"),
    ),
    "a no with a word in reply to it": (
        in_group("no: not now", reply_to="9"),
        asked(replace(APPROVAL, covered=True), OWNER, replied="q1"),
        AnswerQuestion("q1", "deny: not now"),
    ),
    "a yes in reply to it, of a member": (
        in_group("yes", reply_to="9"),
        asked(APPROVAL, BEN, replied="q1"),
        ReplyAtOnce(intake.NOT_YOUR_QUESTION),
    ),
    "other words in reply to it": (say("why?", reply_to="9"), idle(OWNER, question=AT_HOME, replied="q1"), StartTurn()),
    "a yes that names it": (say("Yes q1"), idle(OWNER, question=AT_HOME), AnswerQuestion("q1", "approve")),
    "a no that names it, with a word": (
        say("no Q1: not now"),
        idle(OWNER, question=replace(AT_HOME, covered=True)),
        AnswerQuestion("q1", "deny: not now"),
    ),
    "its name, then a yes": (in_group("Q1 ok"), asked(APPROVAL, ADMIN), AnswerQuestion("q1", "approve")),
    "its name and no choice": (say("yes Q1 and hurry"), idle(OWNER, question=AT_HOME), ReplyAtOnce),
    "its name in a sentence": (say("in Q1 we earned more"), idle(OWNER, question=AT_HOME), StartTurn()),
    "its name in the words of a no": (
        say("no, not before Q1"),
        idle(OWNER, question=replace(AT_HOME, covered=True)),
        StartTurn(),
    ),
    "its name, by a member": (in_group("yes Q1"), asked(APPROVAL, BEN), ReplyAtOnce(intake.NOT_YOUR_QUESTION)),
    "a yes to one's own after something else": (say("yes"), asked(replace(OWNERS, covered=True), OWNER), ReplyAtOnce),
    "a yes to one's own in reply to something else": (say("yes", reply_to="9"), asked(OWNERS, OWNER), ReplyAtOnce),
    "an answer to one's own clarification after something else": (
        say("the red one"),
        asked(replace(FREE, covered=True)),
        AnswerQuestion("q4", "the red one"),
    ),
    "another number is a message": (say("3"), asked(APPROVAL, ANNA, members_approve=True), Interrupt()),
    "more than a yes is a message": (say("yes, but hurry"), asked(APPROVAL), Interrupt()),
    "a yes from before it was shown": (
        say("yes", received=SHOWN),
        asked(OWNERS, OWNER),
        ReplyAtOnce(intake.NOT_SEEN, "warning"),
    ),
    "a yes while it is on its way": (
        say("yes"),
        asked(replace(OWNERS, shown=None), OWNER),
        ReplyAtOnce(intake.NOT_SEEN, "warning"),
    ),
    "a free text from before it was shown": (say("a new idea", received=SHOWN), asked(FREE), Interrupt()),
    "a button from before it was noted": (
        say("approve", question="q1", received=SHOWN - 1),
        asked(replace(APPROVAL, shown=None), OWNER),
        AnswerQuestion("q1", "approve"),
    ),
    "a yes to what the writer saw": (
        say("yes", seen="q1"),
        asked(OWNERS, OWNER, names_seen=True),
        AnswerQuestion("q1", "approve"),
    ),
    "a yes to an earlier one": (
        say("yes", seen="q0"),
        asked(OWNERS, OWNER, names_seen=True),
        ReplyAtOnce(intake.NOT_SEEN, "warning"),
    ),
    "a yes of somebody who saw none": (
        say("yes"),
        asked(OWNERS, OWNER, names_seen=True),
        ReplyAtOnce(intake.NOT_SEEN, "warning"),
    ),
    "a yes by a member": (say("yes"), asked(APPROVAL), ReplyAtOnce(intake.NOT_YOUR_QUESTION)),
    "a yes by a trusted member": (say("y"), asked(APPROVAL, members_approve=True), AnswerQuestion("q1", "approve")),
    "a yes to a turn of others": (
        in_group("y"),
        asked(APPROVAL, BEN, members_approve=True),
        ReplyAtOnce(intake.NOT_YOUR_QUESTION),
    ),
    "a button of no question": (say("approve", choice="0"), asked(APPROVAL, OWNER), Drop),
    "a button of no question, while none is open": (say("approve", choice="0"), idle(OWNER), Drop),
    "a yes with a file is a message": (say("yes", files=(FILE,)), asked(APPROVAL, members_approve=True), Interrupt()),
    "a yes without a question": (say("yes"), idle(), StartTurn()),
    "a confirmation by its word": (say("keep"), asked(CONFIRMATION), AnswerQuestion("q2", "keep")),
    "a confirmation by yes": (say("yes"), asked(CONFIRMATION), AnswerQuestion("q2", "undo")),
    "a choice": (say("blue"), asked(CHOICE), AnswerQuestion("q3", "Blue")),
    "a choice by number": (say("1"), asked(CHOICE), AnswerQuestion("q3", "Red")),
    "none of the choices": (say(" rather green "), asked(CHOICE), AnswerQuestion("q3", "rather green")),
    "free text": (say("the red one"), asked(FREE), AnswerQuestion("q4", "the red one")),
    "an empty text answers nothing": (say("  "), asked(FREE), Drop),
    "free text of somebody else": (in_group("hello"), asked(FREE, BEN), Queue(intake.QUEUED_OTHERS)),
    "a choice by somebody else": (in_group("blue"), asked(CHOICE, BEN), ReplyAtOnce(intake.NOT_YOUR_QUESTION)),
    "a command is no answer": (say("/stop"), asked(FREE), RunCommand("stop", "")),
    "a path is an answer": (say("/etc/hosts"), asked(FREE), AnswerQuestion("q4", "/etc/hosts")),
    # --- commands
    "a command": (say("/usage"), idle(), RunCommand("usage", "")),
    "a command with arguments": (say("/model  gpt 5 "), idle(), RunCommand("model", "gpt 5")),
    "an alias": (say("/RESET"), idle(), RunCommand("new", "")),
    "a command beside the turn": (say("/usage"), busy(), RunCommand("usage", "")),
    "a command after the turn": (say("/model x"), busy(), Queue),
    "a new conversation takes its place in the order": (say("/new"), busy(), Queue),
    "what follows a command that waits": (say("hi"), busy(behind_command=True), Queue),
    "what follows a command that waits, in a group": (in_group("hi"), busy(behind_command=True), Queue),
    "a misspelt command": (
        say("/hlep"),
        idle(),
        ReplyAtOnce("There is no command /hlep. Did you mean /help?", "warning"),
    ),
    "a path": (say("/etc/hosts is wrong"), idle(), StartTurn()),
    "a plugin's command": (say("/Dance now"), idle(plugin_commands=frozenset({"dance"})), RunCommand),
    "a plugin's command while busy": (say("/dance"), busy(plugin_commands=frozenset({"dance"})), Queue),
    "a member changes the model for all": (say("/model x --global"), idle(), ReplyAtOnce),
    "the owner does": (say("/model x --global"), idle(OWNER), RunCommand("model", "x --global")),
    # --- stopping (C5, C16)
    "stop on an idle conversation": (say("/stop"), idle(), ReplyAtOnce(intake.NOTHING_RUNS)),
    "stop by its starter": (in_group("/stop"), busy(), RunCommand("stop", "")),
    "stop by somebody else": (in_group("/stop"), busy(BEN), ReplyAtOnce(intake.NOT_YOUR_TURN, "warning")),
    "stop by an admin": (in_group("/stop"), busy(ADMIN), RunCommand("stop", "")),
    "stop of a turn that a notice started": (say("/stop"), busy(starter=""), RunCommand("stop", "")),
    "the same in a group": (in_group("/stop"), busy(starter=""), ReplyAtOnce(intake.NOT_YOUR_TURN, "warning")),
    "a command in a crowd": (say("/undo"), busy(waiting=MAX_WAITING), ReplyAtOnce(intake.TOO_MANY, "warning")),
    "a command before a crowd": (say("/undo"), idle(waiting=MAX_WAITING), ReplyAtOnce(intake.TOO_MANY, "warning")),
    "a command beside a crowd": (say("/usage"), busy(waiting=MAX_WAITING), RunCommand("usage", "")),
    "a plugin's command in a crowd": (
        say("/dice"),
        busy(waiting=MAX_WAITING, plugin_commands=frozenset({"dice"})),
        ReplyAtOnce(intake.TOO_MANY, "warning"),
    ),
    "stop in a crowd": (say("/stop"), busy(waiting=MAX_WAITING), RunCommand("stop", "")),
    # --- one message, its own way
    "queue": (say("/queue then this"), busy(), Queue(intake.QUEUED)),
    "queue when idle": (say("/queue then this"), idle(), StartTurn()),
    "queue nothing": (say("/queue"), busy(), ReplyAtOnce),
    "queue in a crowd": (say("/queue x"), busy(waiting=MAX_WAITING), ReplyAtOnce(intake.TOO_MANY, "warning")),
    "steer": (say("/steer left"), busy(), Steer()),
    "steer when idle": (say("/steer left"), idle(), StartTurn()),
    "steer what cannot be steered": (say("/steer left"), busy(steerable=False), Queue(intake.QUEUED_UNSTEERABLE)),
    "steer the turn of somebody else": (in_group("/steer left"), busy(BEN), Queue(intake.QUEUED_OTHERS)),
    "steer past a command that waits": (say("/steer left"), busy(behind_command=True), Steer()),
    "what says its way answers no question": (say("/queue approve"), asked(APPROVAL), Queue(intake.QUEUED)),
    # --- too much, too little, too late
    "nothing": (say(" \n"), idle(), Drop),
    "nothing while busy": (say(""), busy(), Drop),
    "a file alone": (say("", files=(FILE,)), idle(), StartTurn()),
    "a crowd": (say("hi"), busy(waiting=MAX_WAITING), ReplyAtOnce(intake.TOO_MANY, "warning")),
    "a crowd that was told": (say("hi"), busy(waiting=MAX_WAITING, refusals=1), Drop),
    "a crowd of requests": (
        say("/queue x"),
        busy(waiting=MAX_WAITING, refusals=1, awaits_each=True),
        ReplyAtOnce(intake.TOO_MANY, "warning"),
    ),
    "the last that fits": (say("hi"), busy(waiting=MAX_WAITING - 1, refusals=1), Interrupt()),
    "while shutting down": (say("hi"), idle(closing=True), Queue(intake.QUEUED_CLOSING)),
    "while shutting down in a turn": (say("hi"), busy(closing=True), Queue(intake.QUEUED_CLOSING)),
    # --- a second message
    "it starts a turn": (say("hi"), idle(), StartTurn()),
    "it interrupts": (say("hi"), busy(), Interrupt()),
    "it steers": (say("hi"), busy(busy_mode="steer"), Steer()),
    "it cannot steer": (say("hi"), busy(busy_mode="steer", steerable=False), Queue(intake.QUEUED_UNSTEERABLE)),
    "it waits": (say("hi"), busy(busy_mode="queue"), Queue(intake.QUEUED)),
    "the fifth interrupts": (say("hi"), busy(depth=MAX_DEPTH - 1), Interrupt()),
    "the sixth waits": (say("hi"), busy(depth=MAX_DEPTH), Queue(intake.QUEUED_DEEP)),
    "in a group its starter interrupts": (in_group("hi"), busy(), Interrupt()),
    "in a group others wait": (in_group("hi"), busy(BEN), Queue(intake.QUEUED_OTHERS)),
    "even an admin waits": (in_group("hi"), busy(ADMIN), Queue(intake.QUEUED_OTHERS)),
    "others never steer": (in_group("hi"), busy(BEN, busy_mode="steer"), Queue(intake.QUEUED_OTHERS)),
    "the owner in a joined terminal waits": (say("hi"), busy(OWNER), Queue(intake.QUEUED_OTHERS)),
    "a notice's turn is interrupted": (say("hi"), busy(starter=""), Interrupt()),
}


@pytest.mark.parametrize("name", CASES)
def test_each_message_gets_the_decision_of_the_table(name: str) -> None:
    """G1, G4, C3, C5, C16; B8: a stop or an answer that reaches no turn is told so."""
    inbound, view, wanted = CASES[name]
    decision = route(inbound, view)
    assert isinstance(decision, wanted) if isinstance(wanted, type) else decision == wanted


def test_the_table_is_large_enough() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize(
    ("question", "text", "answer"),
    [
        (OpenQuestion("q", "clarification", ("2", "1"), ""), "1", "1"),  # its name wins over its number
        (OpenQuestion("q", "clarification", ("Yes", "yes"), ""), "yes", "yes"),  # so do the exact letters
        (OpenQuestion("q", "approval", ("once", "always"), ""), "yes", ""),  # which of them is the yes?
        (OpenQuestion("q", "approval", ("deny", "approve", "always"), ""), "yes", "approve"),
        (OpenQuestion("q", "approval", ("approve", "deny"), ""), "", ""),
        (OpenQuestion("q", "approval", ("approve", "deny"), ""), "0", ""),
        (OpenQuestion("q", "confirmation", ("a", "b", "c"), ""), "yes", ""),
        (OpenQuestion("q", "approval", ("approve", "deny"), ""), "always", ""),  # only what is offered
        (OpenQuestion("q", "approval", ("approve", "deny"), ""), "no: use the other", "deny: use the other"),
        (OpenQuestion("q", "clarification", ("approve", "deny"), ""), "no: neither", "no: neither"),
    ],
)
def test_an_answer_is_read_only_where_it_is_sure(question: OpenQuestion, text: str, answer: str) -> None:
    """G4"""
    assert read_answer(question, text) == answer


@pytest.mark.parametrize(
    ("text", "way", "read"),
    [
        ("/queue a b", "queue", "a b"),
        ("/STEER\na\nb", "steer", "a\nb"),
        ("/new", "", "/new"),
        ("a", "", "a"),
        ("plain /queue text", "", "plain /queue text"),
        ("/queue /new", "queue", "/new"),
        ("/queue", "", "/queue"),
    ],
)
def test_the_word_for_the_way_of_a_message_is_read_off_it(text: str, way: str, read: str) -> None:
    """Once: what is left is said, whatever it begins with."""
    typed = say(text)
    assert (typed.way, typed.text) == (way, read)
    if way:
        assert read_way(replace(typed, text="/queue more")).text == "/queue more"


def test_a_stored_message_has_its_way_as_it_is_typed() -> None:
    """H4: the version before reads it, and wrote it so."""
    for way, text in (("", "/new"), ("queue", "/new"), ("steer", "/queue more"), ("queue", "a\nb")):
        inbound = Inbound(DM, "1", "anna", text, way=way)
        stored = json.loads(write_inbound(inbound))
        assert "way" not in stored
        assert stored["text"] == (f"/{way} {text}" if way else text)
        assert read_inbound(json.dumps(stored)) == inbound
    for text in ("", "with a space at its end "):  # nobody can type these so
        assert read_inbound(write_inbound(Inbound(DM, "1", "anna", text, way="queue"))).text == text


def test_what_waits_is_a_command_only_when_the_house_carries_it_out() -> None:
    assert [intake.is_command(say(text)) for text in ("/new", "/dance", "/queue /new", "/etc/hosts", "hi")] == [
        True,
        True,
        False,
        False,
        False,
    ]
