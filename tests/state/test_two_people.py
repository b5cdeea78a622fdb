"""Two people on every call of the store: what is done for one shows and changes nothing of the other's (I7, G12)."""

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pytest

from hermes_base.errors import HermesError
from hermes_base.files.home_files import OwnName
from hermes_base.inbound import Address, Outgoing
from hermes_base.turn.consent import Deed
from hermes_base.turn.journal import Row, UsageRow
from hermes_state.approval_store import KeptAnswer
from hermes_state.key_store import RepeatRow
from hermes_state.people_store import MEMBER, QuestionRow
from hermes_state.sql.engines.engine import Transaction
from hermes_state.sql.files.files_sql import FolderEdit, KeptFile, ReadKept
from hermes_state.sql.store_sql import Store
from hermes_state.sql.turns_sql import check_claim
from hermes_state.store import NewSession, SessionInfo
from hermes_state.turns import Claim, Control, NodeInfo, Written

BOT = "chat:bot"
TOKEN = "0123456789abcdef"
CALL = UsageRow("p", "m", input_tokens=10, cost=0.5)
#: Rows of these are about processes and accounts, never about people.
SHARED_TABLES = frozenset({"meta", "node", "lease", "penalty", "search", "sign_in", "pace"})


@dataclass(frozen=True, slots=True)
class Tenant:
    """Somebody with one of everything; `word` stands in all that is theirs."""

    word: str
    person: str
    sender: str
    chat: str
    conversation: str
    session: str
    claim: Claim
    seq: int  # a message under way
    later: int  # and one that waits
    lease: int
    key: str
    deed: Deed

    @property
    def address(self) -> Address:
        return Address("chat", "bot", self.chat)

    def say(self, text: str = "more") -> Outgoing:
        return Outgoing(self.address, f"{self.word} {text}")

    def write(self, store: Store) -> Written:
        rows = [Row({"role": "user", "content": f"{self.word} again"})]
        return Written(self.session, "w", store.session(self.session).version, rows)  # type: ignore[union-attr]


def move_in(store: Store, node: str, lease: int, word: str) -> Tenant:
    sender, chat = f"sender-{word}", f"chat-{word}"
    person = store.people.add(word.title(), MEMBER, "chat", sender).id
    conversation = f"agent:main:chat:dm:{chat}"
    store.people.assign(conversation, person)
    heard = (Address("chat", "bot", chat), f"message-{word}")
    seq = store.turns.accept(conversation, BOT, f"{chat}/1/", f"{word} came in", node, heard)
    later = store.turns.accept(conversation, BOT, f"{chat}/2/", f"{word} came later", node)
    claim = store.turns.claim_one(node, conversation)
    assert seq is not None
    assert later is not None
    assert claim is not None
    assert store.turns.begin(claim, [seq], person=person) is not None
    session = store.open_session(NewSession(conversation, person=person, title=f"title {word}", model="m")).id
    store.freeze(session, -1, "d", f"prompt of {word}".encode())
    store.append(session, "w", 0, [Row({"role": "user", "content": f"hello {word}"})], [CALL])
    store.note_break(session, f"because of {word}", 0)
    store.turns.step(claim, seq, 1, "tool", {"args": word})
    store.turns.send_control(conversation, "steer", {"text": word})
    store.turns.post(conversation, f"first-{word}", Outgoing(Address("chat", "bot", chat), f"{word} went out"))
    row = store.turns.outbox_take(BOT, chat, lease)
    assert row is not None
    store.turns.outbox_sent(row.id, lease, f"id-{word}")
    store.turns.post(conversation, f"second-{word}", Outgoing(Address("chat", "bot", chat), f"{word} waits"))
    store.turns.choose(conversation, {"model": word})
    deed = Deed("command", f"/{word}", "host", "work", f"rm {word}", f"rm {word}", store.session(session).task)  # type: ignore[union-attr]
    for name in (f"q-{word}", f"kept-{word}"):
        choices = (word, "yes")
        store.people.ask(QuestionRow(name, conversation, "t", "approval", f"rm {word}", choices, person, expires=9e9))
    store.people.close_question(f"kept-{word}", "yes", person, KeptAnswer(deed, person))
    store.habits.set_home(person, Address("chat", "bot", chat), sender)
    store.habits.add_note(conversation, f"{word} was told")
    store.habits.make_code(person, Address("chat", "bot", chat))
    key = store.keys.add(f"key of {word}", person, word[:1] * 64)
    store.files.put(OwnName(person, "memories/MEMORY.md"), lambda: (f"- note of {word}".encode(),))
    store.files.put(OwnName(person, f"uploads/{TOKEN}/{word}.txt"), lambda: (f"file of {word}".encode(),))
    return Tenant(word, person, sender, chat, conversation, session, claim, seq, later, lease, key.id, deed)


Call = Callable[[Store, Tenant], Any]

#: Every call that is made for somebody, in an order in which each finds what it is about.
CALLS: Mapping[str, Call] = MappingProxyType(
    {
        "session": lambda s, me: s.session(me.session),
        "sessions": lambda s, me: s.sessions(person=me.person),
        "begun_so": lambda s, me: s.begun_so("hello", conversations=me.conversation, limit=9),
        "current": lambda s, me: s.current(me.conversation),
        "last_of": lambda s, me: s.last_of(me.deed.task),
        "load": lambda s, me: s.load(me.session),
        "history": lambda s, me: list(s.history(me.session)),
        "page": lambda s, me: s.page(me.session),
        "said": lambda s, me: s.said(me.session),
        "search": lambda s, me: s.search("hello", person=me.person),
        "usage": lambda s, me: s.usage(person=me.person),
        "usage_by": lambda s, me: s.usage_by("model", person=me.person),
        "breaks": lambda s, me: s.breaks(session=me.session),
        "open_session": lambda s, me: s.open_session(NewSession(f"{me.conversation}-2", person=me.person)),
        "append": lambda s, me: s.append(me.session, "w", 1, [Row({"role": "user", "content": me.word})], [CALL]),
        "freeze": lambda s, me: s.freeze(me.session, -1, "d", b"the same prompt for all"),
        "charge": lambda s, me: s.charge(me.session, [CALL]),
        "note_break": lambda s, me: s.note_break(me.session, "because", 1),
        "set_title": lambda s, me: s.set_title(me.session, f"{me.word} anew"),
        "turns.accept": lambda s, me: s.turns.accept(me.conversation, BOT, f"{me.chat}/3/", me.word, me.claim.node),
        "turns.find_message": lambda s, me: s.turns.find_message(BOT, f"{me.chat}/1"),
        "turns.waiting": lambda s, me: s.turns.waiting(me.claim),
        "turns.note_draft": lambda s, me: s.turns.note_draft(f"{me.conversation}#{me.seq}", "draft"),
        "turns.times": lambda s, me: s.turns.times(me.conversation, 0, 1_000),
        "turns.count_rows": lambda s, me: s.turns.count_rows(me.conversation, 1),
        "turns.inbox_since": lambda s, me: s.turns.inbox_since(me.conversation, 0),
        "turns.open_seqs": lambda s, me: s.turns.open_seqs(me.conversation),
        "turns.latest": lambda s, me: s.turns.latest(me.conversation),
        "turns.begin": lambda s, me: s.turns.begin(me.claim, [me.later], me.say(), {"model": me.word}, me.person),
        "turns.append": lambda s, me: s.turns.append(me.claim, me.seq, me.write(s), [CALL]),
        "turns.step": lambda s, me: s.turns.step(me.claim, me.seq, 2, "tool", {"args": me.word}),
        "turns.steps": lambda s, me: s.turns.steps(me.conversation, me.seq),
        "turns.keep_shown": lambda s, me: s.turns.keep_shown(me.claim, me.seq, {"text": me.word}),
        "turns.find_shown": lambda s, me: s.turns.find_shown(me.conversation, me.seq),
        "turns.standings": lambda s, me: s.turns.standings([me.conversation]),
        "turns.owner": lambda s, me: s.turns.owner(me.conversation),
        "turns.outbox_age": lambda s, me: s.turns.outbox_age(me.conversation, f"first-{me.word}"),
        "turns.control_outcome": lambda s, me: s.turns.control_outcome(send_control(s, me)),
        "turns.withdraw_control": lambda s, me: s.turns.withdraw_control(send_control(s, me)),
        "turns.end_control": lambda s, me: s.turns.end_control(control(s, me), {}),
        "turns.fail": lambda s, me: s.turns.fail(me.claim, me.later, "not now", 0.0),
        "turns.complete": lambda s, me: s.turns.complete(me.claim, [me.seq], me.write(s), [me.say()], [CALL]),
        "turns.rotate": lambda s, me: s.turns.rotate(me.claim, me.later, me.write(s), "compaction"),
        "turns.choices": lambda s, me: s.turns.choices(me.conversation),
        "turns.choices_and_person": lambda s, me: s.turns.choices_and_person(me.conversation),
        "turns.choose": lambda s, me: s.turns.choose(me.conversation, {"model": "other"}),
        "turns.send_control": lambda s, me: s.turns.send_control(me.conversation, "stop", {}),
        "turns.post": lambda s, me: s.turns.post(me.conversation, f"third-{me.word}", me.say()),
        "turns.outbox_fate": lambda s, me: s.turns.outbox_fate(me.conversation, f"first-{me.word}"),
        "turns.find_posted": lambda s, me: s.turns.find_posted(me.conversation, f"first-{me.word}"),
        "turns.find_origins": lambda s, me: s.turns.find_origins(me.conversation, f"id-{me.word}"),
        "turns.find_asked": lambda s, me: s.turns.find_asked(me.conversation, f"id-{me.word}"),
        "turns.outbox_held": lambda s, me: s.turns.outbox_held(me.person),
        "turns.hold_anew": lambda s, me: s.turns.hold_anew(me.person, 0.0),
        "turns.outbox_pause": lambda s, me: s.turns.outbox_pause(BOT, me.chat),
        "turns.outbox_unsent": lambda s, me: s.turns.outbox_unsent(BOT, me.chat),
        "turns.outbox_since": lambda s, me: s.turns.outbox_since(me.conversation, 0),
        "turns.outbox_named": lambda s, me: s.turns.outbox_named(me.conversation, f"first-{me.word}"),
        "turns.outbox_of": lambda s, me: s.turns.outbox_of(me.conversation, me.seq),
        "turns.outbox_from": lambda s, me: s.turns.outbox_from(me.conversation, 0.0),
        "turns.outbox_return": lambda s, me: s.turns.outbox_return(me.conversation, f"id-{me.word}"),
        "turns.outbox_take": lambda s, me: s.turns.outbox_take(BOT, me.chat, me.lease),
        "turns.outbox_part": lambda s, me: s.turns.outbox_part(take(s, me), me.lease, "part"),
        "turns.outbox_back": lambda s, me: s.turns.outbox_back(take(s, me), me.lease, 0.0, certain=False),
        "turns.outbox_sent": lambda s, me: s.turns.outbox_sent(take(s, me), me.lease, "sent"),
        "turns.outbox_fail": lambda s, me: s.turns.outbox_fail(take(s, me), me.lease, "never"),
        "turns.outbox_arrived": lambda s, me: s.turns.outbox_arrived(BOT, [find_unsent(s, me)]),
        "turns.outbox_arrived_all": lambda s, me: s.turns.outbox_arrived_all(BOT, me.chat),
        "people.find": lambda s, me: s.people.find("chat", me.sender),
        "people.get": lambda s, me: s.people.get(me.person),
        "people.identities": lambda s, me: s.people.identities(me.person),
        "people.has_data": lambda s, me: s.people.has_data(me.person),
        "people.is_removed": lambda s, me: s.people.is_removed("chat", me.sender),
        "people.assign": lambda s, me: s.people.assign(f"{me.conversation}-3", me.person),
        "people.find_forgotten": lambda s, me: s.people.find_forgotten([me.person]),
        "people.person_of": lambda s, me: s.people.person_of(me.conversation),
        "people.conversations_of": lambda s, me: s.people.conversations_of(me.person),
        "people.spoken_last_by": lambda s, me: s.people.spoken_last_by(me.person),
        "people.open_questions": lambda s, me: s.people.open_questions(me.conversation),
        "people.question": lambda s, me: s.people.question(f"q-{me.word}"),
        "people.ask": lambda s, me: s.people.ask(
            QuestionRow(f"more-{me.word}", me.conversation, "t", "approval", "more", (), me.person, expires=9e9)
        ),
        "people.close_question": lambda s, me: s.people.close_question(f"q-{me.word}", "yes", me.person),
        "people.void_question": lambda s, me: s.people.void_question(f"more-{me.word}"),
        "approvals.use": lambda s, me: s.approvals.use(me.deed, me.person),
        "approvals.revoke": lambda s, me: s.approvals.revoke(find_rule(s, me)),
        "people.pair": lambda s, me: s.people.pair("chat", f"new-{me.word}", me.word, me.chat, me.conversation),
        "people.approve": lambda s, me: s.people.approve(find_code(s, me)),
        "people.link": lambda s, me: s.people.link(me.person, "other", me.sender),
        "people.part": lambda s, me: s.people.part(s.people.identities(me.person)[-1], me.word, MEMBER),
        "people.unlink": lambda s, me: s.people.unlink(me.person, "chat", me.sender),
        "people.set_role": lambda s, me: s.people.set_role(me.person, MEMBER),
        "people.join": lambda s, me: s.people.join(me.person, s.people.find("chat", f"new-{me.word}").id),  # type: ignore[union-attr]
        "habits.get": lambda s, me: s.habits.get(me.person),
        "habits.key_of": lambda s, me: s.habits.key_of(me.person),
        "habits.set_timezone": lambda s, me: s.habits.set_timezone(me.person, "Europe/Paris"),
        "habits.set_quiet": lambda s, me: s.habits.set_quiet(me.person, "22:00-07:00"),
        "habits.set_home": lambda s, me: s.habits.set_home(me.person, me.address, me.sender),
        "habits.leave_home": lambda s, me: s.habits.leave_home(me.person, "chat"),
        "habits.knows": lambda s, me: s.habits.knows(me.conversation),
        "habits.make_code": lambda s, me: s.habits.make_code(me.person, me.address),
        "habits.find_code": lambda s, me: s.habits.find_code(s.habits.make_code(me.person, me.address).code),
        "habits.use_code": lambda s, me: s.habits.use_code(s.habits.make_code(me.person, me.address).code),
        "habits.add_note": lambda s, me: s.habits.add_note(me.conversation, me.word),
        "habits.notes": lambda s, me: s.habits.notes(me.conversation),
        "habits.drop_notes": lambda s, me: s.habits.drop_notes(s.habits.notes(me.conversation)),
        "repeats.keep": lambda s, me: s.repeats.keep(me.word, RepeatRow("", me.conversation, me.word), 60.0),
        "repeats.find": lambda s, me: s.repeats.find(me.word),
        "keys.find": lambda s, me: s.keys.find(me.word[:1] * 64),
        "keys.add": lambda s, me: s.keys.add(me.word, me.person, "0" * 64),
        "keys.used": lambda s, me: s.keys.used(me.key),
        "keys.revoke": lambda s, me: s.keys.revoke(me.key),
        "files.put": lambda s, me: s.files.put(OwnName(me.person, f"shown/{TOKEN}/b.txt"), lambda: (b"for all",)),
        "files.get": lambda s, me: s.files.get(OwnName(me.person, f"uploads/{TOKEN}/{me.word}.txt")),
        "files.list_below": lambda s, me: s.files.list_below(me.person, "uploads"),
        "files.read": lambda s, me: list(s.files.read(s.files.list_below(me.person, "uploads")[0])),
        "files.drop": lambda s, me: s.files.drop(OwnName(me.person, f"shown/{TOKEN}/b.txt")),
        "files.read_folder": lambda s, me: s.files.read_folder(me.person, "memories"),
        "files.change_folder": lambda s, me: s.files.change_folder(me.person, "memories", change_notes),
        "turns.claim_one": lambda s, me: s.turns.claim_one(me.claim.node, me.conversation),
        "turns.give_up": lambda s, me: s.turns.give_up(me.claim),
        "turns.pass_on": lambda s, me: s.turns.pass_on(me.claim, ""),
        "turns.release": lambda s, me: s.turns.release(me.claim),
        "branch": lambda s, me: s.branch(me.session, conversation=f"{me.conversation}-2"),
        "resume": lambda s, me: s.resume(f"{me.conversation}-2", find_branch(s, me).id),
        "rotate": lambda s, me: s.rotate(find_branch(s, me).id, "w", find_branch(s, me).version, "compaction", []),
        "end": lambda s, me: s.end(me.session, "new"),
        "delete_stale": lambda s, me: s.delete_stale(me.session, 9e9),
        "delete": lambda s, me: s.delete(me.session),
        "people.remove": lambda s, me: s.people.remove(me.person),
        "people.forget": lambda s, me: s.people.forget(me.person),
    }
)  # fmt: skip

#: Asked by the gateway itself, by an operator of the machine, or by whoever holds a bot account: about everybody.
OF_ALL = frozenset(
    [
        "broken",
        "close",
        "count_damaged",
        "damaged",
        "drop_search",
        "find_loss",
        "open_readonly",
        "rebuild_search",
        "set_damage_aside",
        "stale_sessions",
        "files.clear",
        "files.count",
        "files.list_all",
        "files.list_old",
        "files.name_store",
        "turns.claim",
        "turns.count_unsent",
        "news.numbers",
        "settings.read",
        "settings.write",
        "unwell.every",
        "unwell.note",
        "turns.depth",
        "turns.describe_node",
        "turns.drain",
        "turns.drop",
        "turns.fair",
        "turns.find_last",
        "turns.heartbeat",
        "turns.hold",
        "turns.holdings",
        "turns.is_shared",
        "turns.join",
        "turns.leases",
        "turns.leave",
        "turns.list_refused",
        "turns.list_unsent",
        "turns.mentioned",
        "turns.nodes",
        "turns.note_penalty",
        "turns.now",
        "turns.open_hints",
        "turns.outbox_chats",
        "turns.penalties",
        "turns.ready",
        "turns.sweep",
        "turns.versions",
        "turns.take_controls",
        "turns.versions",
        "people.add",
        "people.pairings",
        "people.people",
        "people.void_orphans",
        "approvals.revoke_all",
        "approvals.rules",
        "habits.chats",
        "habits.every",
        "keys.keys",
        "sign_ins.add",
        "sign_ins.end",
        "sign_ins.find",
        "sign_ins.give_turn_back",
        "sign_ins.name_store",
        "sign_ins.take_turn",
        "sign_ins.void",
    ]
)

#: With what is mine in one hand and what is the other's in the other: refused, or nothing is found.
REACHES: Mapping[str, Callable[[Store, Tenant, Tenant], Any]] = MappingProxyType(
    {
        "sessions": lambda s, me, other: s.sessions(person=me.person, conversation=other.conversation),
        "usage": lambda s, me, other: s.usage(person=me.person, session=other.session).calls,
        "usage of a task": lambda s, me, other: s.usage(person=me.person, task=other.deed.task).calls,
        "search": lambda s, me, other: s.search(other.word, person=me.person),
        "resume": lambda s, me, other: s.resume(me.conversation, other.session),
        "branch": lambda s, me, other: s.branch(other.session, conversation=me.conversation, current=False),
        "turns.append": lambda s, me, other: s.turns.append(me.claim, me.seq, other.write(s)),
        "turns.rotate": lambda s, me, other: s.turns.rotate(me.claim, me.seq, other.write(s), "compaction"),
        "turns.complete": lambda s, me, other: s.turns.complete(me.claim, [me.seq], other.write(s)),
        "turns.complete, going on": lambda s, me, other: s.turns.complete(me.claim, [me.seq], go_on_in=other.session),
        "turns.outbox_return": lambda s, me, other: s.turns.outbox_return(me.conversation, f"id-{other.word}"),
        "turns.find_origins": lambda s, me, other: s.turns.find_origins(me.conversation, f"id-{other.word}"),
        "turns.outbox_named": lambda s, me, other: s.turns.outbox_named(me.conversation, f"first-{other.word}"),
        "turns.outbox_arrived": lambda s, me, other: s.turns.outbox_arrived("web:main", [find_unsent(s, other)]),
        "approvals.use": lambda s, me, other: s.approvals.use(other.deed, me.person),
        "people.assign": lambda s, me, other: s.people.assign(other.conversation, me.person) == me.person,
        "people.unlink": lambda s, me, other: s.people.unlink(me.person, "chat", other.sender),
        "people.link": lambda s, me, other: s.people.link(me.person, "chat", other.sender),
        "files.change_folder": lambda s, me, other: s.files.change_folder(
            me.person, "memories", change_notes, check_claim(replace(other.claim, node=me.claim.node, epoch=99))
        ),
        "files.get": lambda s, me, other: s.files.get(OwnName(me.person, f"uploads/{TOKEN}/{other.word}.txt")),
        "files.drop": lambda s, me, other: s.files.drop(OwnName(me.person, f"uploads/{TOKEN}/{other.word}.txt")),
    }
)


def change_notes(files: Mapping[str, KeptFile], read: ReadKept) -> list[FolderEdit]:
    """What stands there already, and one more."""
    before = b"".join(read(file) for file in files.values())
    return [FolderEdit("memories/MEMORY.md", before + b"- the same for all\n")]


def find_unsent(store: Store, me: Tenant) -> int:
    return store.turns.outbox_unsent(BOT, me.chat)[0].id


def take(store: Store, me: Tenant) -> int:
    row = store.turns.outbox_take(BOT, me.chat, me.lease)
    assert row is not None
    return row.id


def control(store: Store, me: Tenant) -> Control:
    return Control(send_control(store, me), me.conversation, "steer")


def send_control(store: Store, me: Tenant) -> int:
    return store.turns.send_control(me.conversation, "steer", {"text": me.word}).id


def find_branch(store: Store, me: Tenant) -> SessionInfo:
    return store.sessions(conversation=f"{me.conversation}-2")[0]


def find_rule(store: Store, me: Tenant) -> str:
    return next(rule.id for rule in store.approvals.rules() if rule.person == me.person)


def find_code(store: Store, me: Tenant) -> str:
    return next(each.code for each in store.people.pairings() if each.sender == f"new-{me.word}")


@pytest.fixture
def tenants(store: Store) -> tuple[Tenant, Tenant]:
    node = store.turns.join(NodeInfo("1"))
    lease = store.turns.hold(BOT, node, 3600.0)
    assert lease is not None
    return move_in(store, node, lease, "amsel"), move_in(store, node, lease, "biber")


def read_theirs(store: Store, tenant: Tenant) -> list[str]:
    """Every row of the store that is about this person."""
    marks = (tenant.word, tenant.person, tenant.session)
    return [row for row in store._db.read(_read_all) if any(mark in row for mark in marks)]


def _read_all(db: Transaction) -> list[str]:
    names = [str(name) for (name,) in db.execute("select name from stored_tables order by name").rows]
    plain = [name for name in names if name not in SHARED_TABLES and not name.startswith(("search_", "sqlite_"))]
    return sorted(f"{name} {row!r}" for name in plain for row in db.execute(f"select * from {name}").rows)


def list_calls(store: Store) -> set[str]:
    parts = {"turns.": store.turns, "people.": store.people, "habits.": store.habits, "keys.": store.keys}
    shared = {"files.": store.files, "repeats.": store.repeats, "news.": store.news, "sign_ins.": store.sign_ins}
    shared |= {"settings.": store.settings, "unwell.": store.unwell}
    all_parts = {"": store, **parts, "approvals.": store.approvals, **shared}
    found = ((prefix, name, one) for prefix, part in all_parts.items() for name, one in inspect.getmembers(type(part)))
    return {f"{prefix}{name}" for prefix, name, one in found if not name.startswith("_") and one is not None}


def test_every_call_is_one_persons_or_known_to_be_about_all(store: Store) -> None:
    """I7: a call that comes to the store has to say here whose it is."""
    assert set(CALLS).isdisjoint(OF_ALL)
    assert list_calls(store) == {*CALLS, *OF_ALL}


def test_no_call_for_one_person_shows_or_changes_what_is_the_others(
    store: Store, tenants: tuple[Tenant, Tenant]
) -> None:
    """I7, G12: every call, one after the other, from reading to forgetting."""
    me, other = tenants
    before = read_theirs(store, other)
    assert len(before) > 15
    for name, call in CALLS.items():
        shown = repr(call(store, me))
        for mark in (other.word, other.person, other.session, other.chat):
            assert mark not in shown, name
        assert read_theirs(store, other) == before, name


@pytest.mark.parametrize("name", sorted(REACHES))
def test_nobody_reaches_for_what_is_the_others(store: Store, tenants: tuple[Tenant, Tenant], name: str) -> None:
    """I7: with what is one's own in the one hand, what is another's is refused or not found, and stays as it was."""
    me, other = tenants
    before = read_theirs(store, other)
    with suppress(HermesError):
        assert not REACHES[name](store, me, other)
    assert read_theirs(store, other) == before
