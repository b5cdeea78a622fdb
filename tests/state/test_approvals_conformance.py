"""What the store does with kept approvals (G4)."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, fields, replace

import pytest
from hypothesis import strategies as st
from store_places import ENGINES, new_place, try_many

from hermes_base.turn.consent import Deed
from hermes_state.approval_store import RULE_SECONDS, ApprovalRule, KeptAnswer
from hermes_state.people_store import ADMIN, MEMBER, QuestionRow
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.turns import NodeInfo

DEED = Deed("command", "/work", "bubblewrap", "work", '["make"]', "make", task="t1")
HERE = "main:local:dm:1"


@dataclass
class Clock:
    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(where: str, clock: Clock) -> Iterator[Store]:
    made = Store(where, clock=clock)
    yield made
    made.close()


def keep(store: Store, deed: Deed = DEED, person: str = "", conversation: str = "", by: str = "owner") -> ApprovalRule:
    """Answer a question so that it is kept; the rule that came of it."""
    before = {rule.id for rule in store.approvals.rules()}
    question = QuestionRow(f"q{len(before)}{by}{deed.words}{person}{conversation}", HERE, "t", "approval", "?")
    store.people.ask(replace(question, expires=store.turns.now() + 60))
    assert store.people.close_question(question.id, "always", by, KeptAnswer(deed, person, conversation))
    return next(rule for rule in store.approvals.rules() if rule.id not in before)


def test_a_rule_holds_for_the_same_deed_of_the_same_person(store: Store, clock: Clock) -> None:
    """G4: every use is counted and dated."""
    made = keep(store, person="p-1", by="p-admin")
    assert (made.person, made.made_by, made.created, made.times_used) == ("p-1", "p-admin", clock.now, 0)
    assert made.expires == clock.now + RULE_SECONDS
    clock.now += 10
    used = store.approvals.use(DEED, "p-1")
    assert used == replace(made, last_used=clock.now, times_used=1)
    assert store.approvals.rules() == [used]
    for person in ("", "p-2", "p-admin"):
        assert store.approvals.use(DEED, person) is None


@pytest.mark.parametrize("name", ["kind", "folder", "backend", "level", "words"])
def test_a_rule_never_widens(store: Store, name: str) -> None:
    """G4: another command, folder or level, or other walls, ask again; beginnings are no match."""
    keep(store)
    for other in ("", "x", getattr(DEED, name) + "x", getattr(DEED, name)[:-1], "%", getattr(DEED, name).upper()):
        assert store.approvals.use(replace(DEED, **{name: other}), "") is None
    assert store.approvals.use(replace(DEED, shown="other words", task="t2"), "") is not None


@pytest.mark.parametrize("engine", ENGINES)
def test_only_the_same_deed_is_found(engine: str) -> None:
    """G4: whatever is kept, a deed is found exactly if all of it was kept for this person."""
    words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)
    deeds = st.builds(Deed, words, words, words, words, words, words, task=st.sampled_from(["t1", "t2"]))
    pairs = st.tuples(deeds, st.sampled_from(["", "p-1"]))

    def check(example: tuple[list[tuple[Deed, str]], tuple[Deed, str]]) -> None:
        kept, (asked, by) = example
        with new_place(engine) as where, closing(Store(where)) as store:
            for number, (deed, person) in enumerate(kept):
                store.people.ask(QuestionRow(f"q{number}", HERE, "t", "approval", "?", expires=store.turns.now() + 60))
                assert store.people.close_question(f"q{number}", "always", "owner", KeptAnswer(deed, person))
            same = {(bare(deed), person) for deed, person in kept}
            assert (store.approvals.use(asked, by) is not None) == ((bare(asked), by) in same)

    try_many(engine, 100, check, st.tuples(st.lists(pairs, min_size=3, max_size=3), pairs))


def bare(deed: Deed) -> Deed:
    return replace(deed, shown="", task="")


def test_a_rule_of_a_conversation_holds_there_until_it_begins_anew(store: Store) -> None:
    """G4: another task is another conversation, or the same after /new; without a task nothing is the same."""
    made = keep(store, conversation=HERE)
    assert (made.conversation, made.task) == (HERE, "t1")
    assert store.approvals.use(DEED, "") is not None
    assert store.approvals.use(replace(DEED, task="t2"), "") is None
    keep(store, replace(DEED, words="other", task=""), conversation=HERE)
    assert store.approvals.use(replace(DEED, words="other", task=""), "") is None


def test_a_rule_expires_and_is_swept(store: Store, clock: Clock) -> None:
    """G4: after 90 days it is asked for again, and the row goes; a clock that is set back does not lengthen it."""
    node = store.turns.join(NodeInfo("1"))
    keep(store)
    store.turns.heartbeat(node)
    clock.now -= 1000
    store.turns.heartbeat(node)
    clock.now += RULE_SECONDS - 1
    assert store.approvals.use(DEED, "") is not None
    clock.now += 2
    assert store.approvals.use(DEED, "") is None
    assert store.approvals.rules() == []
    assert store.turns.sweep(0.0, 10) >= 1


def test_the_same_rule_is_there_once(store: Store, clock: Clock) -> None:
    """G4: made again, it begins anew."""
    first = keep(store)
    clock.now += 5
    second = keep(store, by="p-admin")
    assert [rule.id for rule in store.approvals.rules()] == [second.id]
    assert first.id != second.id


def test_a_rule_is_revoked(store: Store) -> None:
    """G4"""
    one, two = keep(store), keep(store, replace(DEED, words="two"))
    assert store.approvals.revoke(one.id)
    assert not store.approvals.revoke(one.id)
    assert store.approvals.use(DEED, "") is None
    assert store.approvals.rules() == [two]
    assert (store.approvals.revoke_all(), store.approvals.revoke_all()) == (1, 0)


def test_no_rule_comes_of_an_answer_that_does_not_count(store: Store, clock: Clock) -> None:
    """G4: a question that is answered, void or expired makes no rule."""
    for state in ("answered", "void", "expired"):
        store.people.ask(QuestionRow(state, HERE, "t", "approval", "?", expires=clock.now + 5))
    assert store.people.close_question("answered", "approve", "owner")
    assert store.people.void_question("void")
    clock.now += 10
    for state in ("answered", "void", "expired"):
        assert not store.people.close_question(state, "always", "owner", KeptAnswer(DEED, ""))
    assert store.approvals.rules() == []


def test_rules_end_with_the_person(store: Store) -> None:
    """G3, G4: who is removed has no rules any more, neither for their turns nor made by them; who is forgotten leaves
    none; the owner's stay."""
    ann = store.people.add("Ann", MEMBER, "x", "ann")
    adam = store.people.add("Adam", ADMIN, "x", "adam")
    keep(store, person=ann.id, by=adam.id)
    keep(store, replace(DEED, words="by adam"), by=adam.id)
    owners = keep(store, replace(DEED, words="own"))
    store.people.set_role(adam.id, ADMIN)
    assert len(store.approvals.rules()) == 3
    store.people.remove(ann.id)
    assert len(store.approvals.rules()) == 2
    store.people.set_role(adam.id, MEMBER)
    assert store.approvals.rules() == [owners]
    keep(store, person=adam.id)
    assert store.people.forget(adam.id).rules == 1
    assert store.approvals.rules() == [owners]


def test_rules_of_a_conversation_end_with_its_last_session(store: Store) -> None:
    """G4: a deleted conversation leaves no rule; one of its sessions that goes earlier does not matter."""
    first = store.open_session(NewSession(HERE))
    keep(store, replace(DEED, task=first.task), conversation=HERE)
    keep(store)
    store.delete(first.id)
    assert [rule.conversation for rule in store.approvals.rules()] == [""]


def test_every_field_of_a_rule_is_stored(store: Store) -> None:
    made = keep(store, person="p-1", conversation=HERE, by="p-2")
    assert {field.name for field in fields(made)} >= {"person", "folder", "backend", "level", "words", "expires"}
    assert store.approvals.rules() == [made]
