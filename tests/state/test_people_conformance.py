"""What the store of people does."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import pytest
from hypothesis import strategies as st
from store_places import ENGINES, new_place, try_many

from hermes_base.errors import StoreFailure
from hermes_state.people_records import CODE_LENGTH, CODE_SIGNS
from hermes_state.people_store import (
    ADMIN,
    ANSWERED,
    EXPIRED,
    MAX_PAIRINGS,
    MEMBER,
    OWNER,
    PAIRING_SECONDS,
    VOID,
    Identity,
    QuestionRow,
)
from hermes_state.sql.people_sql import PeopleStore
from hermes_state.sql.store_sql import Store
from hermes_state.sql.turns_sql import TurnStore
from hermes_state.turns import NodeInfo


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def people(where: str, clock: Clock) -> Iterator[PeopleStore]:
    store = Store(where, clock=clock)
    yield store.people
    store.close()


def get_code(people: PeopleStore, sender: str, platform: str = "chat", name: str = "Ann") -> str:
    pairing = people.pair(platform, sender, name, "c1")
    assert pairing is not None
    return pairing.code


# --- people and identities


def test_a_person_is_found_by_platform_and_sender_alone(people: PeopleStore) -> None:
    """G2: identity is platform and sender id; the same name, or the id elsewhere, is somebody else."""
    ann = people.add("Ann", MEMBER, "chat", "42")
    assert people.find("chat", "42") == ann == people.get(ann.id)
    for platform, sender in [("chat", "Ann"), ("chat", ann.id), ("other", "42"), ("chat", "042"), ("chat", "42 ")]:
        assert people.find(platform, sender) is None
    twin = people.add("Ann", MEMBER, "chat", "43")
    assert twin.id != ann.id
    assert people.people() == sorted([ann, twin], key=lambda person: (person.created, person.id))


def test_whom_only_the_settings_let_in_may_ask_for_a_code(people: PeopleStore) -> None:
    """G1: whoever asks has seen that they are let in no more. Approved, they are the same person for good."""
    ann = people.add("Ann", ADMIN, "chat", "1", listed=True)
    back = people.approve(get_code(people, "1"), MEMBER, "Anna")
    assert (back.id, back.name, back.role, back.by_settings) == (ann.id, "Anna", MEMBER, False)
    assert people.identities(ann.id) == [Identity("chat", "1", ann.id)]
    assert people.pairings() == []
    assert people.pair("chat", "1", "Ann", "c") is None


def test_one_of_several_identities_is_approved_as_a_person_of_its_own(people: PeopleStore) -> None:
    """G3: what a person has elsewhere is not given to whoever comes by an identity that was taken from them."""
    ann = people.add("Ann", MEMBER, "chat", "1")
    people.link(ann.id, "chat", "2", listed=True)
    people.link(ann.id, "chat", "3", by_code=True)
    for sender in ("2", "3"):
        other = people.approve(get_code(people, sender))
        assert other.id != ann.id
        assert people.find("chat", sender) == other
    assert [one.sender for one in people.identities(ann.id)] == ["1"]


@pytest.mark.parametrize("sender", ["", "  ", "a\0", "\ud800"])
def test_an_identity_that_cannot_be_stored_is_nobodys(people: PeopleStore, sender: str) -> None:
    """G2: what the store would have to change could become somebody else's id."""
    with pytest.raises(StoreFailure, match="identity needs"):
        people.add("Ann", MEMBER, "chat", sender)
    assert people.find("chat", sender) is None
    assert people.pair("chat", sender, "Ann", "c1") is None


def test_an_identity_belongs_to_one_person(people: PeopleStore) -> None:
    ann, bob = people.add("Ann", MEMBER, "chat", "1"), people.add("Bob", MEMBER, "chat", "2")
    assert people.link(ann.id, "mail", "ann@example.org") == ann
    assert people.find("mail", "ann@example.org") == ann
    with pytest.raises(StoreFailure, match=f"is {bob.id} already"):
        people.link(ann.id, "chat", "2")
    with pytest.raises(StoreFailure, match="already"):
        people.add("Eve", MEMBER, "chat", "1")
    with pytest.raises(StoreFailure, match="nobody"):
        people.link("p-none", "chat", "3")
    own = [(one.platform, one.sender) for one in people.identities(ann.id)]
    assert own == [("chat", "1"), ("mail", "ann@example.org")]
    assert len(people.identities()) == 3


def test_there_is_one_owner(people: PeopleStore) -> None:
    owner, ann = people.add("Me", OWNER, "chat", "1"), people.add("Ann", MEMBER, "chat", "2")
    attempts: list[Callable[[], object]] = [
        lambda: people.add("Eve", OWNER, "chat", "3"),
        lambda: people.set_role(ann.id, OWNER),
        lambda: people.approve(get_code(people, "4"), OWNER),
    ]
    for attempt in attempts:
        with pytest.raises(StoreFailure, match=owner.id):
            attempt()
    assert people.set_role(owner.id, OWNER).role == OWNER
    assert people.set_role(ann.id, ADMIN).role == ADMIN == people.find("chat", "2").role  # type: ignore[union-attr]
    people.set_role(owner.id, MEMBER)
    assert people.set_role(ann.id, OWNER).role == OWNER


def test_an_unknown_role_or_person_is_refused(people: PeopleStore) -> None:
    ann = people.add("Ann", MEMBER, "chat", "1")
    for role in ("", "king", "Owner"):
        with pytest.raises(StoreFailure, match="no role"):
            people.set_role(ann.id, role)
        with pytest.raises(StoreFailure, match="no role"):
            people.add("Bob", role, "chat", "2")
    attempts: list[Callable[[], object]] = [
        lambda: people.set_role("p-none", MEMBER),
        lambda: people.remove("p-none"),
    ]
    for attempt in attempts:
        with pytest.raises(StoreFailure, match="nobody"):
            attempt()
    assert people.people() == [ann]


def test_who_was_removed_is_a_stranger_at_once(people: PeopleStore) -> None:
    """G3: person, identities and open questions go in one step; an approval brings the identity back."""
    ann = people.add("Ann", MEMBER, "chat", "1", listed=True)
    people.link(ann.id, "mail", "a")
    people.ask(QuestionRow("q", "conv", "t", "approval", "rm", approver=ann.id, expires=9e9))
    assert people.remove(ann.id) == ann
    assert people.find("chat", "1") is None
    assert people.find("mail", "a") is None
    assert people.identities() == []
    assert people.get(ann.id) is None
    assert people.open_questions("conv") == []
    assert people.is_removed("chat", "1")
    assert people.is_removed("mail", "a")
    assert not people.is_removed("chat", "2")
    again = people.approve(get_code(people, "1"))
    assert again.id != ann.id
    assert not people.is_removed("chat", "1")


def test_an_approved_identity_is_not_undone_by_the_settings(people: PeopleStore) -> None:
    ann = people.add("Ann", MEMBER, "chat", "1", listed=True)
    assert people.identities(ann.id)[0].listed
    people.link(ann.id, "chat", "1")
    assert not people.identities(ann.id)[0].listed
    people.link(ann.id, "chat", "1", listed=True)
    assert not people.identities(ann.id)[0].listed


# --- requests of strangers


def test_a_stranger_gets_one_code_for_an_hour(people: PeopleStore, clock: Clock) -> None:
    """G1: the code is made once, told once, and used once."""
    first = people.pair("chat", "1", "  Ann\n Smith ", "c9")
    assert first is not None
    assert first.fresh
    assert len(first.code) == CODE_LENGTH
    assert set(first.code) <= set(CODE_SIGNS)
    assert (first.name, first.chat, first.expires - first.created) == ("Ann Smith", "c9", PAIRING_SECONDS)
    clock.now += PAIRING_SECONDS - 1
    again = people.pair("chat", "1", "other", "c9")
    assert again == replace(first, fresh=False)
    assert people.pairings() == [again]
    clock.now += 2
    assert people.pairings() == []
    with pytest.raises(StoreFailure, match="wrong, used or more than an hour old"):
        people.approve(first.code)
    later = people.pair("chat", "1", "Ann", "c9")
    assert later is not None
    assert later.fresh
    assert later.code != first.code


def test_an_approved_stranger_is_a_person(people: PeopleStore) -> None:
    code = get_code(people, "1")
    ann = people.approve(f" {code[:4].lower()}-{code[4:]} ")
    assert (ann.name, ann.role) == ("Ann", MEMBER)
    assert people.find("chat", "1") == ann
    assert people.pairings() == []
    assert people.pair("chat", "1", "Ann", "c") is None
    with pytest.raises(StoreFailure, match="no open request"):
        people.approve(code)
    assert people.approve(get_code(people, "2"), ADMIN, "Robert").name == "Robert"


@pytest.mark.parametrize("code", ["", "AAAAAAAA", "1", "ÄÖÜ", "%", "\ud800" * 8])
def test_a_wrong_code_lets_nobody_in(people: PeopleStore, code: str) -> None:
    """G1."""
    get_code(people, "1")
    with pytest.raises(StoreFailure, match="Nobody was let in"):
        people.approve(code)
    assert people.people() == []
    assert len(people.pairings()) == 1


def test_open_requests_are_bounded_for_each_platform(people: PeopleStore, clock: Clock) -> None:
    """G1: a crowd of strangers gets no more codes than an operator can look at."""
    codes = {get_code(people, str(number)) for number in range(MAX_PAIRINGS)}
    assert len(codes) == MAX_PAIRINGS
    assert people.pair("chat", "one more", "Eve", "c") is None
    assert people.pair("other", "one more", "Eve", "c") is not None
    people.approve(codes.pop())
    assert people.pair("chat", "one more", "Eve", "c") is not None
    clock.now += PAIRING_SECONDS
    assert people.pair("chat", "later", "Eve", "c") is not None
    assert len(people.pairings()) == 1


def test_whoever_becomes_known_another_way_needs_no_code_any_more(people: PeopleStore) -> None:
    code = get_code(people, "1")
    people.add("Ann", MEMBER, "chat", "1")
    assert people.pairings() == []
    with pytest.raises(StoreFailure, match="no open request"):
        people.approve(code)


# --- questions


def make_question(id: str = "q1", **fields: object) -> QuestionRow:
    made = QuestionRow(id, "conv", "t1", "approval", "rm -r x", ("approve", "deny"), "p-1", "n1", expires=2000.0)
    return replace(made, **fields)  # type: ignore[arg-type]


def test_a_question_is_answered_once(people: PeopleStore, clock: Clock) -> None:
    """G4: valid once, and what was asked comes back to the letter."""
    people.ask(make_question())
    assert people.open_questions("conv") == [make_question(created=clock.now)]
    assert people.open_questions("other") == []
    assert people.close_question("q1", "approve", "p-1")
    assert not people.close_question("q1", "deny", "p-2")
    closed = people.question("q1")
    assert closed is not None
    assert (closed.state, closed.answer, closed.answered_by) == (ANSWERED, "approve", "p-1")
    assert people.open_questions("conv") == []
    assert not people.close_question("nobody asked", "approve", "p-1")
    with pytest.raises(StoreFailure, match="q1 already"):
        people.ask(make_question())


def test_an_expired_question_takes_no_answer(people: PeopleStore, clock: Clock) -> None:
    """G4: with expiry."""
    people.ask(make_question())
    clock.now = 2000.0
    assert people.open_questions("conv") == []
    assert not people.close_question("q1", "approve", "p-1")
    closed = people.question("q1")
    assert closed is not None
    assert (closed.state, closed.answer) == (EXPIRED, "")


def test_questions_are_void_when_nobody_waits_for_them(people: PeopleStore) -> None:
    """G4: an answer binds the turn; with the turn or its process the question ends, and not before (B8)."""
    people_turns = TurnStore(people._db)
    living = people_turns.join(NodeInfo("1"))
    for id, turn, node in [("a", "t1", "n1"), ("b", "t2", "n1"), ("c", "t3", living), ("d", "t4", living)]:
        people.ask(make_question(id, turn=turn, node=node))
    assert not people.void_question("e")
    assert people.void_question("a")
    assert not people.void_question("a")
    assert people.void_orphans() == [("conv", "b")]
    assert people.void_orphans() == []
    assert [question.id for question in people.open_questions("conv")] == ["c", "d"]
    later = people_turns.join(NodeInfo("1"), living)  # it was taken for dead, and goes on asking as another node
    people_turns.leave(living)
    assert people.void_orphans() == []
    people_turns.leave(later)
    assert sorted(people.void_orphans()) == [("conv", "c"), ("conv", "d")]
    for id in "abcd":
        assert people.question(id).state == VOID  # type: ignore[union-attr]
        assert not people.close_question(id, "approve", "p-1")


# --- conversations


def test_a_conversation_keeps_its_person(people: PeopleStore) -> None:
    """G12: whoever looks in later, the owner at a terminal among them, does not take it over."""
    assert people.person_of("c") == ""
    assert people.assign("c", "") == ""
    assert people.assign("c", "p-1") == "p-1"
    assert people.assign("c", "p-2") == people.assign("c", "") == people.person_of("c") == "p-1"
    assert people.conversations_of("p-1") == ["c"]
    assert people.conversations_of("p-2") == []


# --- no way in but an approval


NAMES = st.sampled_from(["1", "2", "3", "Ann"])
ACTS = st.one_of(
    st.tuples(st.sampled_from(["pair", "approve", "guess", "wait"]), NAMES),
    st.tuples(st.sampled_from(["remove", "forget"]), NAMES),
)


@pytest.mark.parametrize("engine", ENGINES)
def test_no_sequence_lets_a_stranger_in(engine: str) -> None:
    """G1, G2, G3: known are exactly those who were approved by their own code and not removed since."""

    def check(acts: list[tuple[str, str]]) -> None:
        clock = Clock()
        with new_place(engine) as where, closing(Store(where, clock=clock)) as store:
            live_through(store.people, clock, acts)

    try_many(engine, 60, check, st.lists(ACTS, max_size=30))


def live_through(people: PeopleStore, clock: Clock, acts: list[tuple[str, str]]) -> None:
    codes: dict[str, tuple[str, float]] = {}
    known: dict[str, str] = {}
    for act, sender in acts:
        if act == "pair":
            made = people.pair("chat", sender, "Ann", "c")
            assert (made is None) == (sender in known)
            if made is not None and made.fresh:
                codes[sender] = (made.code, clock.now)
        elif act == "approve" and sender in codes:
            code, made_at = codes[sender]
            usable = sender not in known and clock.now < made_at + PAIRING_SECONDS
            try:
                known[sender] = people.approve(code).id
            except StoreFailure:
                assert not usable
            else:
                assert usable
                del codes[sender]
        elif act == "guess":
            with pytest.raises(StoreFailure):
                people.approve(sender)
        elif act == "wait":
            clock.now += PAIRING_SECONDS / 2
        elif sender in known:
            (people.remove if act == "remove" else people.forget)(known.pop(sender))
        found = {name: people.find("chat", name) for name in ("1", "2", "3", "Ann")}
        assert {name: person.id for name, person in found.items() if person is not None} == known
