"""Where and when people want to be told things, as the store keeps it; what waits for the end of quiet hours."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from hermes_base.errors import StoreFailure
from hermes_base.inbound import NOTE, Address, Outgoing, read_outgoing, write_outgoing
from hermes_base.turn.journal import Row
from hermes_state.people_store import ADMIN, LINK_SECONDS, MEMBER, OWNER, Habits
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.turns import NodeInfo

CHAT = Address("pretend", "bot", "c1")
ACCOUNT = CHAT.account_key
KEY = "agent:main:pretend:dm:c1"


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

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


def note(text: str, until: float = 0.0, person: str = "") -> Outgoing:
    return Outgoing(CHAT, text, NOTE, hold_until=until, held_for=person, reader=person)


def take_all(store: Store) -> list[str]:
    """What whoever sends for the account finds now, in order."""
    node = store.turns.join(NodeInfo("1", alone=True))
    lease = store.turns.hold(ACCOUNT, node, 60)
    assert lease is not None
    said = []
    while (row := store.turns.outbox_take(ACCOUNT, "c1", lease)) is not None:
        said.append(row.outgoing.text)
        store.turns.outbox_sent(row.id, lease, "m")
    return said


def set_all(store: Store, person: str, habits: Habits) -> None:
    store.habits.set_home(person, habits.home)
    store.habits.set_timezone(person, habits.timezone)
    store.habits.set_quiet(person, habits.quiet)


def test_changes_at_once_lose_nothing(store: Store) -> None:
    """Each writes what it changes and nothing else, however they fall together."""
    ann = store.people.add("Ann", MEMBER, "pretend", "ann")
    changes: list[Callable[[int], None]] = [
        lambda n: store.habits.set_home(ann.id, replace(CHAT, chat=f"c{n}")),
        lambda n: store.habits.set_timezone(ann.id, f"Zone/{n}"),
        lambda n: store.habits.set_quiet(ann.id, f"22:{n:02}-07:00"),
    ]
    start = threading.Barrier(len(changes))

    def repeat(change: Callable[[int], None]) -> None:
        start.wait()
        for n in range(30):
            change(n)

    with ThreadPoolExecutor() as pool:
        list(pool.map(repeat, changes))
    assert store.habits.get(ann.id) == Habits(replace(CHAT, chat="c29"), "Zone/29", "22:29-07:00", ann.id)


def test_a_home_is_left_with_its_platform_only(store: Store) -> None:
    ann = store.people.add("Ann", MEMBER, "pretend", "ann")
    theirs = Habits(CHAT, "Europe/Berlin", "22:00-07:00", ann.id)
    set_all(store, ann.id, theirs)
    store.habits.leave_home(ann.id, "another")
    assert store.habits.get(ann.id) == theirs
    store.habits.leave_home(ann.id, CHAT.platform)
    assert store.habits.get(ann.id) == replace(theirs, home=None, set_by="")


def test_habits_are_kept_and_the_owners_are_one(store: Store) -> None:
    """The owner is somebody in each app and at the terminal: their habits are the same everywhere."""
    ann = store.people.add("Ann", MEMBER, "pretend", "ann")
    olga = store.people.add("Olga", OWNER, "pretend", "olga")
    assert store.habits.get(ann.id) == Habits()
    theirs = Habits(replace(CHAT, kind="group", thread="5"), "Europe/Berlin", "22:00-07:00", ann.id)
    set_all(store, ann.id, theirs)
    store.habits.set_home("owner", CHAT)
    assert store.habits.get(ann.id) == theirs
    assert store.habits.get(olga.id) == store.habits.get("owner") == Habits(CHAT)
    assert store.habits.key_of(olga.id) == "owner"
    assert store.habits.every() == {ann.id: theirs, "owner": Habits(CHAT)}
    store.people.remove(ann.id)
    assert store.habits.every() == {"owner": Habits(CHAT)}


def test_what_waits_for_quiet_hours_holds_up_nobody(store: Store, clock: Clock) -> None:
    """C9: a notice waits, the answer after it does not; then it comes, in order, once."""
    until = clock.now + 3600
    store.turns.post(KEY, "one", note("one", until, "p-1"))
    store.turns.post(KEY, "two", note("two", until, "p-1"))
    assert store.turns.outbox_chats(ACCOUNT) == []
    store.turns.post(KEY, "answer", note("answer"))
    assert take_all(store) == ["answer"]
    assert store.turns.outbox_held() == store.turns.outbox_held("p-1") == (2, until)
    assert store.turns.outbox_held("p-2") == (0, 0.0)
    assert store.turns.depth() == (0, 2)
    assert store.turns.outbox_fate(KEY, "one") == ("waiting", "")
    clock.now = until
    assert store.turns.outbox_chats(ACCOUNT) == ["c1"]
    assert take_all(store) == ["one", "two"]
    assert store.turns.outbox_held() == (0, 0.0)
    assert store.turns.outbox_fate(KEY, "one") == ("sent", "")


def test_other_quiet_hours_move_what_waits(store: Store, clock: Clock) -> None:
    store.turns.post(KEY, "one", note("one", clock.now + 3600, "p-1"))
    store.turns.post(KEY, "two", note("two", clock.now + 3600, "p-2"))
    assert store.turns.hold_anew("p-1", 0.0) == 1
    assert take_all(store) == ["one"]
    assert store.turns.hold_anew("p-2", clock.now + 10) == 1
    assert take_all(store) == []
    clock.now += 11
    assert take_all(store) == ["two"]


def test_until_when_it_waits_is_no_part_of_a_message() -> None:
    """H4: the version before reads a message that waits."""
    written = write_outgoing(replace(note("x", 5.0, "p-1"), conversation="c"))
    assert not {"hold_until", "held_for", "reader", "conversation", "note", "note_origin"} & json.loads(written).keys()
    assert read_outgoing(written) == note("x")


def test_a_code_joins_once_and_not_for_long(store: Store, clock: Clock) -> None:
    """G2: it is known by its signs alone; another one of the same person ends it."""
    ann = store.people.add("Ann", MEMBER, "pretend", "ann")
    first, second = store.habits.make_code(ann.id, CHAT), store.habits.make_code(ann.id, CHAT)
    assert store.habits.find_code(first.code) is None
    assert store.habits.find_code(f" {second.code[:4].lower()}-{second.code[4:]} ") == second
    assert (second.person, second.platform, second.chat) == (ann.id, "pretend", "c1")
    clock.now += LINK_SECONDS
    assert store.habits.find_code(second.code) is None
    third = store.habits.make_code(ann.id, CHAT)
    assert store.habits.use_code(third.code) == third
    assert store.habits.use_code(third.code) is None


def test_somebody_who_has_nothing_can_be_joined(store: Store) -> None:
    """G12: identities and empty conversations move; the person who is joined is gone."""
    ann = store.people.add("Ann", ADMIN, "pretend", "ann")
    ben = store.people.add("Ben", MEMBER, "other", "77", listed=True)
    store.people.assign(KEY, ben.id)
    assert not store.people.has_data(ben.id)
    assert store.people.join(ann.id, ben.id) == ann
    assert store.people.find("other", "77") == ann
    assert store.people.get(ben.id) is None
    assert store.people.person_of(KEY) == ann.id
    assert [(one.platform, one.listed) for one in store.people.identities(ann.id)] == [
        ("other", True),
        ("pretend", False),
    ]
    assert not store.people.is_removed("other", "77")


def test_who_has_conversations_or_keys_has_data(store: Store) -> None:
    ann = store.people.add("Ann", MEMBER, "pretend", "ann")
    ben = store.people.add("Ben", MEMBER, "pretend", "ben")
    session = store.open_session(NewSession(KEY, person=ann.id)).id
    assert not store.people.has_data(ann.id)
    store.append(session, "me", 0, [Row({"role": "user", "content": "hi"})])
    assert store.people.has_data(ann.id)
    store.keys.add("k", ben.id, "0" * 64)
    assert store.people.has_data(ben.id)


def test_one_identity_can_be_taken_back(store: Store) -> None:
    ann = store.people.add("Ann", MEMBER, "pretend", "ann")
    store.people.link(ann.id, "other", "77")
    store.people.unlink(ann.id, "other", "77")
    assert store.people.find("other", "77") is None
    assert store.people.is_removed("other", "77")
    with pytest.raises(StoreFailure, match="is not"):
        store.people.unlink(ann.id, "other", "77")


def about(word: Outgoing, text: str) -> Outgoing:
    return replace(word, note=text, note_origin="messages of other people")


def test_a_model_hears_of_a_word_when_it_has_arrived(store: Store, clock: Clock) -> None:
    """C9, G9: with the sending, once; what waits is not heard of, and what is never said is never heard of."""
    ann = store.people.add("Ann", MEMBER, "pretend", "ann")
    store.turns.post(KEY, "m1", about(note("hello"), "You said hello."))
    store.turns.post(KEY, "m2", about(note("later", clock.now + 60, "p-1"), "You said later."))
    store.turns.post(KEY, "m3", about(note("never", clock.now + 60, ann.id), "You said never."))
    assert store.habits.notes(KEY) == []
    assert take_all(store) == ["hello"]
    assert [(one.text, one.origin) for one in store.habits.notes(KEY)] == [
        ("You said hello.", "messages of other people")
    ]
    store.people.remove(ann.id)
    clock.now += 61
    assert take_all(store) == ["later"]
    store.habits.add_note(KEY, "And more.")
    notes = store.habits.notes(KEY)
    assert [one.text for one in notes] == ["You said hello.", "You said later.", "And more."]
    store.habits.drop_notes(notes[:2])
    assert [one.text for one in store.habits.notes(KEY)] == ["And more."]


def test_what_waits_for_somebody_who_is_removed_is_not_said(store: Store, clock: Clock) -> None:
    """G3: it is kept with the reason."""
    ann = store.people.add("Ann", MEMBER, "pretend", "ann")
    store.turns.post(KEY, "one", note("one", clock.now + 60, ann.id))
    store.people.remove(ann.id)
    clock.now += 61
    assert take_all(store) == []
    assert store.turns.outbox_fate(KEY, "one") == ("failed", "the person has no access any more")


def test_old_notes_go(store: Store, clock: Clock) -> None:
    """F7."""
    store.habits.add_note(KEY, "old")
    clock.now += 100
    store.habits.add_note(KEY, "new")
    assert store.turns.sweep(clock.now - 50, 10) == 1
    assert [one.text for one in store.habits.notes(KEY)] == ["new"]


def test_nothing_of_it_is_left_of_somebody_who_is_forgotten(store: Store) -> None:
    """G12."""
    ann = store.people.add("Ann", MEMBER, "pretend", "ann")
    store.people.assign(KEY, ann.id)
    set_all(store, ann.id, Habits(CHAT, "Europe/Berlin", "22:00-07:00"))
    store.habits.make_code(ann.id, CHAT)
    store.habits.add_note(KEY, "heliotrope")
    store.turns.post(KEY, "n", note("heliotrope", 9e9, ann.id))
    store.people.forget(ann.id)
    assert store.habits.every() == {}
    assert store.habits.notes(KEY) == []
    assert store.turns.outbox_held() == (0, 0.0)


@pytest.mark.parametrize("cut", [False, True])
def test_what_is_being_sent_to_somebody_who_is_removed_is_not_sent_again(store: Store, cut: bool) -> None:
    """G3: it may have arrived; whether the sending fails or its process dies, nobody tries it once more."""
    ann = store.people.add("Ann", MEMBER, "pretend", "ann")
    store.turns.post(KEY, "one", note("one", 0.0, ann.id))
    lease = store.turns.hold(ACCOUNT, store.turns.join(NodeInfo("1", alone=True)), 60)
    assert lease is not None
    row = store.turns.outbox_take(ACCOUNT, "c1", lease)
    assert row is not None
    store.people.remove(ann.id)
    assert store.turns.outbox_fate(KEY, "one") == ("sending", "the person has no access any more")
    if not cut:
        store.turns.outbox_back(row.id, lease, 0.0, certain=True)
    assert take_all(store) == []
    assert store.turns.outbox_fate(KEY, "one") == ("failed", "the person has no access any more")
    assert store.turns.depth() == (0, 0)
