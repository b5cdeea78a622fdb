"""Questions of turns to people: real threads that wait, the store that keeps them, and who may answer."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fresh_store import fresh_store
from hypothesis import given
from hypothesis import strategies as st
from waiting import wait_until

from gateway.core.route import AnswerQuestion, ConversationView, OpenQuestion, Standing, route
from gateway.turns.questions import NOBODY, Questions, TurnAsker
from hermes_base.chat import Answer, Question
from hermes_base.errors import StoreFailure
from hermes_base.inbound import Address, Inbound
from hermes_state.people_store import ANSWERED, OPEN, VOID

OWNER, ADMIN, ANNA, BEN = (
    Standing("olga", "owner"),
    Standing("adam", "admin"),
    Standing("anna", "member"),
    Standing("ben", "member"),
)
STRANGER = Standing("", "")


def test_a_process_that_lost_a_turn_voids_nothing_of_the_one_that_goes_on_with_it() -> None:
    """G4, B8: both attempts have the turn's one name, and each voids its own questions."""
    store = fresh_store().people
    old, new = (Questions(store, lambda _: None, node=node) for node in ("old", "new"))
    answers: dict[str, Answer] = {}

    def ask(questions: Questions, id: str) -> None:
        answers[id] = questions.begin_turn("c", "c#5", "anna").ask(approval(id))

    threads = [threading.Thread(target=ask, args=one) for one in ((old, "q1"), (new, "q2"))]
    for thread in threads:
        thread.start()
    wait_until(lambda: old.open("c") is not None and new.open("c") is not None)
    old.void_all()
    threads[0].join()
    assert new.answer("q2", "approve", OWNER, conversation="c")
    threads[1].join()
    assert (answers["q1"], answers["q2"].text) == (NOBODY, "approve")


def approval(id: str = "q1", **more: Any) -> Question:
    return Question(**{"id": id, "kind": "approval", "text": "rm x", "choices": ("approve", "deny"), **more})


class House:
    """Questions on a store, what it announced, and threads that ask."""

    def __init__(self, members_approve: bool = False) -> None:
        self.clock_set = 0.0  # by how much
        self.store = fresh_store().people
        self.announced: list[str] = []
        self.askers: list[TurnAsker] = []
        self.questions = Questions(
            self.store, self._announce, members_approve=lambda: members_approve, node="node", clock=self.read_clock
        )
        self.threads: list[threading.Thread] = []

    def read_clock(self) -> float:
        return time.time() + self.clock_set

    def _announce(self, question: Question) -> None:
        self.announced.append(question.id)

    def ask(self, question: Question, conversation: str = "c", turn: str = "t", person: str = "anna") -> list[Answer]:
        """Asks on a thread of its own; the list gets the answer."""
        asker = self.questions.begin_turn(conversation, turn, person)
        self.askers.append(asker)
        box: list[Answer] = []
        thread = threading.Thread(target=lambda: box.append(asker.ask(question)), daemon=True)
        self.threads.append(thread)
        thread.start()
        return box

    def void_turn(self, conversation: str) -> None:
        for asker in self.askers:
            if asker.conversation == conversation:
                self.questions.void_turn(asker)

    def ask_openly(self, question: Question, conversation: str = "c", **more: Any) -> list[Answer]:
        box = self.ask(question, conversation, **more)
        wait_until(lambda: self.is_open(question.id, conversation))
        return box

    def is_open(self, id: str, conversation: str = "c") -> bool:
        question = self.questions.open(conversation)
        return question is not None and question.id == id

    def answer(self, id: str, text: str, by: Standing, conversation: str = "c") -> bool:
        return self.questions.answer(id, text, by, conversation=conversation)

    def state(self, id: str) -> str:
        row = self.store.question(id)
        return "" if row is None else row.state


@pytest.fixture
def house() -> Iterator[House]:
    one = House()
    yield one
    one.questions.void_all()
    for thread in one.threads:
        thread.join(20)
        assert not thread.is_alive()


def test_a_question_is_stored_announced_and_answered_once(house: House) -> None:
    """G4"""
    box = house.ask_openly(approval())
    wait_until(lambda: house.announced == ["q1"])
    row = house.store.question("q1")
    assert row is not None
    assert (row.conversation, row.turn, row.approver, row.node, row.state) == ("c", "t", "anna", "node", OPEN)
    assert house.questions.open("c") == OpenQuestion("q1", "approval", ("approve", "deny"), "anna")
    assert house.answer("q1", "YES", OWNER)
    assert not house.answer("q1", "deny", OWNER)
    wait_until(lambda: box == [Answer("approve", by="olga")])
    assert house.questions.open("c") is None
    kept = house.store.question("q1")
    assert kept is not None
    assert (kept.state, kept.answer, kept.answered_by) == (ANSWERED, "approve", "olga")


@pytest.mark.parametrize("by", [ANNA, BEN, STRANGER, Standing("olga", "")])
def test_whoever_may_not_approve_changes_nothing(house: House, by: Standing) -> None:
    """G4"""
    house.ask_openly(approval())
    assert not house.answer("q1", "approve", by)
    assert house.is_open("q1")


def test_a_member_approves_their_own_turn_where_the_owner_lets_them() -> None:
    """G4"""
    house = House(members_approve=True)
    box = house.ask_openly(approval())
    assert not house.answer("q1", "approve", BEN)
    assert house.answer("q1", "approve", ANNA)
    wait_until(lambda: box == [Answer("approve", by="anna")])


def test_an_answer_holds_for_its_own_conversation_and_question(house: House) -> None:
    """G4"""
    first = house.ask_openly(approval("q1"), "c")
    second = house.ask_openly(approval("q2"), "d")
    assert not house.answer("q1", "approve", OWNER, conversation="d")
    assert not house.answer("q2", "approve", OWNER, conversation="c")
    assert not house.answer("q9", "approve", OWNER)
    assert house.answer("q2", "deny", OWNER, conversation="d")
    wait_until(lambda: second == [Answer("deny", by="olga")])
    assert first == []


def test_what_is_no_answer_leaves_the_question_open_and_an_empty_one_declines(house: House) -> None:
    box = house.ask_openly(approval())
    assert not house.answer("q1", "perhaps", OWNER)
    assert house.is_open("q1")
    assert house.answer("q1", "", OWNER)
    wait_until(lambda: bool(box))
    assert not box[0].given


def test_free_text_reaches_the_turn_as_it_was_said(house: House) -> None:
    box = house.ask_openly(Question("clarification", "which?", id="q1"))
    assert house.answer("q1", "the red one", ANNA)
    wait_until(lambda: box == [Answer("the red one", by="anna")])


def test_a_question_that_expires_is_a_no(house: House) -> None:
    """G4: no answer = deny."""
    box = house.ask(approval(expires_in=0.05))
    wait_until(lambda: box == [NOBODY])
    assert not house.answer("q1", "approve", OWNER)
    assert not house.questions.is_waiting("c")


def test_the_end_of_the_turn_ends_its_questions_and_no_others(house: House) -> None:
    """C4, G4: a stopped turn waits for nobody; what it asks afterwards is not asked at all."""
    box = house.ask_openly(approval("q1"))
    other = house.ask_openly(approval("q2"), "d")
    house.void_turn("c")
    assert not house.answer("q1", "approve", OWNER)
    wait_until(lambda: box == [NOBODY])
    wait_until(lambda: house.state("q1") == VOID)
    late = Question("approval", "rm y", ("approve", "deny"), id="q3")
    assert house.askers[0].ask(late) == NOBODY
    assert house.state("q3") == ""
    assert other == []
    assert house.is_open("q2", "d")


def test_a_removed_person_is_asked_nothing_any_more(house: House) -> None:
    """G3: approvals void."""
    box = house.ask_openly(approval("q1"), person="anna")
    other = house.ask_openly(approval("q2"), "d", person="ben")
    house.questions.void_person("anna")
    wait_until(lambda: box == [NOBODY])
    assert other == []


def test_an_answer_to_what_the_store_calls_void_does_not_hold(house: House) -> None:
    """G3: the person was removed in the store a moment before the answer came."""
    box = house.ask_openly(approval())
    house.store.void_question("q1")
    house.answer("q1", "approve", OWNER)
    wait_until(lambda: bool(box))
    assert not box[0].given


def test_a_conversation_is_asked_one_thing_at_a_time(house: House) -> None:
    """G4: a yes can only mean the one question that stands there."""
    boxes = {"q1": house.ask_openly(approval("q1"))}
    boxes["q2"] = house.ask(approval("q2"))
    boxes["q3"] = house.ask(approval("q3"))
    assert house.is_open("q1")
    assert (house.state("q2"), house.state("q3")) == ("", "")
    assert not house.answer("q2", "approve", OWNER)
    for _ in range(3):
        wait_until(lambda: house.questions.open("c") is not None)
        question = house.questions.open("c")
        assert question is not None
        assert house.answer(question.id, "approve", OWNER)
        wait_until(lambda answered=boxes[question.id]: bool(answered))
    assert {id: [answer.text for answer in box] for id, box in boxes.items()} == {id: ["approve"] for id in boxes}


def test_those_in_line_end_with_their_turn_too(house: House) -> None:
    boxes = [house.ask(approval(f"q{n}")) for n in range(5)]
    wait_until(lambda: house.questions.open("c") is not None)
    house.void_turn("c")
    wait_until(lambda: boxes == [[NOBODY]] * 5)
    assert not house.questions.is_waiting("c")


def test_waiting_for_a_person_is_activity(house: House) -> None:
    """C12"""
    assert not house.questions.is_waiting("c")
    house.ask_openly(approval())
    assert house.questions.is_waiting("c")
    assert not house.questions.is_waiting("d")
    house.answer("q1", "deny", OWNER)
    wait_until(lambda: not house.questions.is_waiting("c"))


def test_a_question_that_cannot_be_stored_or_announced_is_not_open() -> None:
    house = House()

    def fail(question: Question) -> None:
        raise StoreFailure("The disk is full.")

    questions = Questions(house.store, fail)
    asker = questions.begin_turn("c", "t", "anna")
    with pytest.raises(StoreFailure):
        asker.ask(approval("q1"))
    with pytest.raises(StoreFailure):
        asker.ask(approval("q1"))  # the store has this one already
    assert questions.open("c") is None
    assert not questions.is_waiting("c")


def test_many_answers_at_once_are_one_answer(house: House) -> None:
    """G4: valid once."""
    box = house.ask_openly(approval())
    gate = threading.Barrier(8)
    taken: list[str] = []

    def give(text: str) -> None:
        gate.wait()
        if house.answer("q1", text, OWNER):
            taken.append(text)

    givers = [threading.Thread(target=give, args=("approve" if n % 2 else "deny",)) for n in range(8)]
    for giver in givers:
        giver.start()
    for giver in givers:
        giver.join(20)
    wait_until(lambda: bool(box))
    assert taken == [box[0].text]


def test_a_clock_that_is_set_back_takes_no_answer_and_gives_none(house: House) -> None:
    """G4: what is written after the question was shown is its answer, what was written before is not, whatever the
    clock says."""
    anna = Standing("anna", "owner")
    house.ask_openly(approval())
    early = house.read_clock()
    wait_until(lambda: house.read_clock() > early)
    house.questions.note_shown("q1")
    house.clock_set = -3600.0
    shown = house.questions.open("c")
    wait_until(lambda: shown is not None and shown.shown is not None and house.read_clock() > shown.shown)
    for received, is_answer in ((early, False), (house.read_clock(), True)):
        said = Inbound(Address("pretend", "bot", "1"), "1", "ann", "approve", received=received)
        decision = route(said, ConversationView(anna, busy=True, question=house.questions.open("c")))
        assert isinstance(decision, AnswerQuestion) is is_answer


ACTS = st.lists(
    st.tuples(st.sampled_from(["answer", "answer", "void", "remove"]), st.sampled_from("cd"), st.integers(0, 3)),
    max_size=12,
)
PEOPLE = (OWNER, ADMIN, ANNA, BEN)


@pytest.mark.file_store  # one for each of many examples
@given(ACTS)
def test_whatever_happens_every_question_ends_and_only_a_yes_of_somebody_who_may_is_a_yes(acts: list[Any]) -> None:
    """G4"""
    house = House()
    boxes = {conversation: house.ask_openly(approval(f"q-{conversation}"), conversation) for conversation in "cd"}
    agreed: dict[str, Standing] = {}
    for act, conversation, number in acts:
        if act == "answer" and house.answer(f"q-{conversation}", "approve", PEOPLE[number], conversation):
            assert conversation not in agreed
            agreed[conversation] = PEOPLE[number]
        elif act == "void":
            house.void_turn(conversation)
        elif act == "remove":
            house.questions.void_person("ben")
    house.questions.void_all()
    for thread in house.threads:
        thread.join(20)
    for conversation, box in boxes.items():
        assert len(box) == 1
        assert box[0].given == (conversation in agreed)
        assert not box[0].given or agreed[conversation].role in ("owner", "admin")
