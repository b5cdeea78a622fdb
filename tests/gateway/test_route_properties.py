"""What holds for every message in every state."""

from dataclasses import replace
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.route import (
    MAX_DEPTH,
    AnswerQuestion,
    ConversationView,
    Decision,
    Drop,
    Interrupt,
    OpenQuestion,
    Queue,
    Standing,
    StartTurn,
    Steer,
    route,
)
from hermes_base.command_table import COMMANDS
from hermes_base.inbound import NOTICE, PERSON, Address, FileRef, Inbound

TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["yes", "no", "1", "approve", "deny", "/dance", "/nonsense", "/etc/hosts", "hello", "  "]),
    st.builds(lambda command, args: f"/{command.name} {args}", st.sampled_from(COMMANDS), st.text(max_size=6)),
)
PEOPLE = st.sampled_from(["anna", "ben"])
QUESTIONS = st.builds(
    OpenQuestion,
    id=st.sampled_from(["q1", "q2"]),
    kind=st.sampled_from(["approval", "clarification", "confirmation"]),
    choices=st.sampled_from([("approve", "deny"), (), ("a", "b")]),
    asked=PEOPLE,
    shown=st.sampled_from([None, 1.0, 2.0]),
    elsewhere=st.booleans(),
    covered=st.booleans(),
)
INBOUNDS = st.builds(
    Inbound,
    address=st.builds(
        Address, st.just("p"), st.just("bot"), st.sampled_from("12"), st.sampled_from(["dm", "group", "channel"])
    ),
    message=st.just("7"),
    sender=st.just("s"),
    text=TEXTS,
    revision=st.sampled_from(["", "2"]),
    mentioned=st.booleans(),
    question=st.sampled_from(["", "", "q1", "q9"]),
    seen=st.sampled_from(["", "q1", "q2"]),
    received=st.sampled_from([0.5, 1.0, 1.5, 2.0, 2.5]),
    files=st.sampled_from([(), (FileRef("/f", "f"),)]),
    origin=st.sampled_from([PERSON, PERSON, PERSON, NOTICE]),
)
STANDINGS = st.one_of(
    st.builds(Standing, PEOPLE, st.sampled_from(["owner", "admin", "member"])), st.just(Standing("", ""))
)
VIEWS = st.builds(
    ConversationView,
    sender=STANDINGS,
    busy=st.booleans(),
    starter=st.sampled_from(["", "anna", "ben"]),
    steerable=st.booleans(),
    depth=st.integers(0, 7),
    busy_mode=st.sampled_from(["interrupt", "steer", "queue"]),
    question=st.one_of(st.none(), QUESTIONS),
    awaits_each=st.booleans(),
    names_seen=st.booleans(),
    replied=st.sampled_from(["", "", "q1", "q2"]),
    waiting=st.sampled_from([0, 3, 99, 100, 5000]),
    refusals=st.integers(0, 2),
    closing=st.booleans(),
    earlier=st.sampled_from(["", "open", "answered", "nothing new"]),
    group_allowed=st.booleans(),
    group_open=st.booleans(),
    needs_mention=st.booleans(),
    members_approve=st.booleans(),
    plugin_commands=st.sampled_from([frozenset(), frozenset({"dance"})]),
)


@given(INBOUNDS, VIEWS)
def test_every_message_gets_one_decision_and_always_the_same(inbound: Inbound, view: ConversationView) -> None:
    """C2"""
    decision = route(inbound, view)
    assert type(decision) in get_args(Decision)
    assert route(inbound, view) == decision


@given(INBOUNDS, VIEWS, st.sampled_from(["", "king", "Owner"]))
def test_a_stranger_does_nothing(inbound: Inbound, view: ConversationView, role: str) -> None:
    """G1: no message of a stranger starts, stops, answers or changes anything."""
    view = replace(view, sender=Standing("anna", role))
    decision = route(replace(inbound, origin=PERSON), view)
    assert isinstance(decision, Drop)


@given(INBOUNDS, VIEWS, st.text(), st.text())
def test_names_never_decide(inbound: Inbound, view: ConversationView, name: str, sender: str) -> None:
    """G2: neither does the sender's id, once it is known whose it is."""
    assert route(replace(inbound, sender_name=name, sender=sender), view) == route(inbound, view)


@given(INBOUNDS, VIEWS)
def test_an_idle_conversation_makes_nobody_wait(inbound: Inbound, view: ConversationView) -> None:
    decision = route(inbound, replace(view, busy=False, closing=False))
    assert not isinstance(decision, Queue | Steer | Interrupt)


@given(INBOUNDS, VIEWS)
def test_a_busy_conversation_never_starts_a_second_turn(inbound: Inbound, view: ConversationView) -> None:
    """B6"""
    assert not isinstance(route(inbound, replace(view, busy=True)), StartTurn)


@given(INBOUNDS, VIEWS)
def test_only_its_own_person_touches_a_turn_and_only_five_times(inbound: Inbound, view: ConversationView) -> None:
    """C16"""
    decision = route(inbound, view)
    if isinstance(decision, Interrupt | Steer):
        own = view.starter or (view.sender.person if inbound.address.kind == "dm" else None)
        assert view.sender.person == own
        assert isinstance(decision, Steer) or view.depth < MAX_DEPTH
        assert isinstance(decision, Interrupt) or view.steerable


@given(INBOUNDS, VIEWS)
def test_an_answer_is_one_that_its_giver_may_give(inbound: Inbound, view: ConversationView) -> None:
    """G4"""
    decision = route(inbound, view)
    if isinstance(decision, AnswerQuestion):
        question = view.question
        assert question is not None
        assert decision.question == question.id
        assert question.kind == "clarification" or decision.text in question.choices
        own = view.sender.person == question.asked and (question.kind != "approval" or view.members_approve)
        assert own or view.sender.role in ("owner", "admin")


#: What an owner types as an answer, in a private chat.
TYPED = st.builds(
    replace,
    INBOUNDS,
    address=st.just(Address("p", "bot", "1")),
    text=st.sampled_from(["yes", "approve", "2", "no", "a", "no: b"]),
    question=st.just(""),
    files=st.just(()),
    origin=st.just(PERSON),
)
OWNERS_VIEWS = st.builds(replace, VIEWS, sender=st.just(Standing("anna", "owner")), earlier=st.just(""))


@given(TYPED, OWNERS_VIEWS, QUESTIONS)
def test_a_text_answers_only_what_its_writer_had_before_them(
    inbound: Inbound, view: ConversationView, question: OpenQuestion
) -> None:
    """G4"""
    decision = route(inbound, replace(view, question=question))
    by_time = question.shown is not None and question.shown < inbound.received
    seen = inbound.seen == question.id if view.names_seen else by_time
    assert seen or view.replied == question.id or not isinstance(decision, AnswerQuestion)


@given(TYPED, OWNERS_VIEWS, QUESTIONS)
def test_a_bare_text_answers_only_what_the_own_turn_asks_there(
    inbound: Inbound, view: ConversationView, question: OpenQuestion
) -> None:
    """G4: an approver's yes or no goes to somebody else's turn only if it says that it does; and it gives no consent
    when something else was said since."""
    decision = route(inbound, replace(view, question=question, replied=""))
    if isinstance(decision, AnswerQuestion):
        assert question.asked == view.sender.person
        assert not question.elsewhere
        assert question.kind == "clarification" or view.names_seen or not question.covered


@given(TYPED, OWNERS_VIEWS, st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=5))
def test_one_message_answers_one_question_at_most(
    inbound: Inbound, view: ConversationView, pauses: list[float]
) -> None:
    """G4: each question is shown after the answer to the one before it, however often the message is looked at."""
    answered, now = 0, inbound.received - pauses[0]
    for number, pause in enumerate(pauses):
        question = OpenQuestion(f"q{number}", "approval", ("approve", "deny"), "anna", now)
        answered += isinstance(route(inbound, replace(view, question=question)), AnswerQuestion)
        now = max(now, inbound.received) + pause
    assert answered <= 1


@given(INBOUNDS, VIEWS)
def test_nothing_but_a_flood_an_edit_or_the_talk_of_others_is_dropped_in_silence(
    inbound: Inbound, view: ConversationView
) -> None:
    """C2"""
    decision = route(inbound, view)
    if isinstance(decision, Drop) and view.sender.role:
        for_us = inbound.address.kind == "dm" or (view.group_allowed and inbound.mentioned)
        empty = not inbound.text.strip() and not inbound.files
        assert not for_us or empty or view.earlier == "nothing new" or (view.refusals and not view.awaits_each)


@given(INBOUNDS, VIEWS)
def test_a_notice_is_refused_for_nobody_but_who_was_removed(inbound: Inbound, view: ConversationView) -> None:
    """G3"""
    decision = route(replace(inbound, origin=NOTICE), view)
    taken = Queue if view.busy or view.closing else StartTurn
    assert isinstance(decision, taken if view.sender.role else Drop)
