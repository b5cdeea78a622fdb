"""Who may give which answer to an approval, as a table over roles, choices and whose turn it is (G4)."""

import itertools

import pytest

from gateway.core.people import may_answer, may_keep
from gateway.core.route import (
    NOT_YOUR_QUESTION,
    NOT_YOURS_TO_KEEP,
    SAID_ALONE,
    AnswerQuestion,
    ConversationView,
    OpenQuestion,
    ReplyAtOnce,
    Standing,
    route,
)
from hermes_base.inbound import Address, Inbound
from hermes_base.turn.consent import ALWAYS, APPROVE, CONVERSATION, DENY, KEPT, ONCE, label_choices

ROLES = ("owner", "admin", "member")
ALL = (*ONCE, *KEPT)
PLACE = Address("x", "a", "room", "group")


def give(role: str, text: str, *, own: bool, members_approve: bool, pressed: bool, offered: tuple[str, ...]) -> object:
    question = OpenQuestion("q", "approval", offered, "p" if own else "other", 1.0, 9.0)
    view = ConversationView(
        Standing("p", role), busy=True, starter=question.asked, question=question, members_approve=members_approve
    )
    said = Inbound(PLACE, "1", "s", text, mentioned=True, question="q" if pressed else "", received=2.0)
    return route(said, view)


@pytest.mark.parametrize("role", ROLES)
def test_the_whole_matrix(role: str) -> None:
    """G4: what is kept is allowed by owner and admin alone; what holds once also by a member of whom the owner says
    so, for their own turn. Words and buttons are the same, but that a word alone never answers a turn of others."""
    for choice, own, members_approve, pressed in itertools.product(ALL, *[(True, False)] * 3):
        facts = {"own": own, "members_approve": members_approve, "pressed": pressed, "offered": ALL}
        text = label_choices("approval", (*ONCE, choice))[-1] if pressed else choice
        decided = give(role, text, **facts)
        approves = role != "member"
        if not (approves or (own and members_approve)):
            assert decided == ReplyAtOnce(NOT_YOUR_QUESTION), (choice, facts)
        elif choice in KEPT and not approves:
            assert decided == ReplyAtOnce(NOT_YOURS_TO_KEEP, "warning"), (choice, facts)
        elif pressed or own:
            assert decided == AnswerQuestion("q", choice), (choice, facts)
        else:
            assert isinstance(decided, ReplyAtOnce), (choice, facts)
            assert decided.text.startswith(SAID_ALONE[:40]), (choice, facts)


@pytest.mark.parametrize(("role", "choice"), list(itertools.product(ROLES, KEPT)))
def test_what_is_not_offered_cannot_be_chosen(role: str, choice: str) -> None:
    """G4: where no rule may be made (a turn with foreign text, a command that cannot be pinned down) a press of an old
    button or a typed word makes none."""
    decided = give(role, choice, own=True, members_approve=True, pressed=True, offered=ONCE)
    assert isinstance(decided, ReplyAtOnce)
    assert "still open" in decided.text


def test_a_refusal_goes_with_a_word() -> None:
    """G4"""
    facts = {"own": True, "members_approve": False, "pressed": False, "offered": ONCE}
    assert give("owner", "no: the test database", **facts) == AnswerQuestion("q", "deny: the test database")


def test_the_roles() -> None:
    """G4"""
    assert [may_keep(role) for role in (*ROLES, "")] == [True, True, False, False]
    assert may_answer("approval", "member", "p", "p", True)
    assert {APPROVE, DENY, CONVERSATION, ALWAYS} == set(ALL)
