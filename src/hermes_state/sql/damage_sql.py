"""Sets a damaged row of the store aside: its bytes go into a table of their own, something readable takes its
place, and the person of the conversation is told, all in one transaction. Also finds such rows for `hermes doctor`."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from hermes_base.inbound import ANSWER, NOTE, Address, Inbound, Outgoing, read_inbound, read_outgoing, write_inbound
from hermes_base.turn.journal import LOST
from hermes_state import records, turn_rules
from hermes_state.damage import (
    LOST_TEXT,
    TABLES,
    WORDS,
    Damaged,
    DamagedRow,
    Key,
    as_object,
    as_texts,
    decode,
    find_address,
    make_marker,
    name_key,
)
from hermes_state.people_store import MEMBER, ROLE_NAMES
from hermes_state.sql import turn_statements as sql
from hermes_state.sql.engines.engine import Sql, Transaction
from hermes_state.sql.outbox import add_answers

log = logging.getLogger(__name__)

NEIGHBOURS = 50  # rows of a transcript that are looked at to find what a lost one was
NOBODYS = -1  # the epoch under which a message is closed that nobody has dealt with

KEEP = (
    "insert into damaged (source, key, conversation, session, body, problem, found) "
    "values (:source, :key, :conversation, :session, :body, :problem, clock())"
)
LIST = "select source, key, conversation, problem, found from damaged order by found desc, id desc limit ?"
COUNT = "select count(*) from damaged"
LAST_ACCOUNT = "select account, ext_id from inbox where conversation = ? order by seq desc limit 1"
COUNT_LOST = "update conversation set pending = pending - 1 where id = ?"
CLOSE_LOST = (
    "update inbox set done_epoch = :epoch, done = clock() where conversation = :conversation and seq = :seq "
    "and done_epoch is null"
)
REPLACE_INBOX = "update inbox set body = :body where conversation = :conversation and seq = :seq"
FORGET_IDS = "update outbox set platform_ids = '[]' where id = ?"
REPLACE_OUTBOX = "update outbox set body = :body, parts_sent = 0, unsure = 0 where id = :id"
REPLACE_MESSAGE = "update message set kind = :kind, body = :body where id = :id"
BEFORE = (
    "select bytes_of(body) from message where session = :session and position < :position and kind <> 'head' "
    "order by position desc limit :limit"
)
AFTER = (
    "select bytes_of(body) from message where session = :session and position > :position and kind <> 'head' "
    "order by position limit :limit"
)
REPLACE_STEP = "update turn_step set kind = ?, body = '{}' where conversation = ? and seq = ? and n = ?"
REPLACE_CONTROL = "update control set body = '{}' where id = ?"
REPLACE_QUESTION = (
    "update question set choices = '[]', state = case state when 'open' then 'void' else state end where id = ?"
)
REPLACE_CHOICES = "update conversation set choices = '{}' where id = ?"
REPLACE_ROLE = "update person set role = ? where id = ?"
DROP_SENT = "delete from sent where hash = ?"
DROP_BLOB = "delete from blob where hash = ?"


@dataclass(frozen=True, slots=True)
class SetAside:
    """Whose a damaged row was, and where they are told. `told` names the word, which is said once; empty: none."""

    conversation: str = ""
    session: str = ""
    told: str = ""
    address: Address | None = None
    seq: int = 0  # the message that is dealt with by this


Repair = Callable[[Transaction, Key], SetAside]


@dataclass(frozen=True, slots=True)
class Table:
    """How the rows of a table are looked through, and what stands in the place of one that is damaged."""

    select: str  # the key's columns, then the text
    find: str  # the texts of one row, by its key; nobody else sets it aside meanwhile
    check: Callable[[Any], object]
    repair: Repair


def set_aside(db: Transaction, damaged: DamagedRow) -> SetAside | None:
    """Inside a writing transaction; None: the row is gone meanwhile, or somebody else has set it aside."""
    table = _TABLES[damaged.table]
    if damaged.raw not in (db.execute(table.find, damaged.key).first or ()):
        return None
    place = table.repair(db, damaged.key)
    row = {"source": damaged.table, "key": name_key(damaged.key), "body": damaged.raw, "problem": damaged.problem}
    db.execute(KEEP, {**row, "conversation": place.conversation, "session": place.session})
    log.error("a stored %s (%s) was set aside: %s", TABLES[damaged.table], row["key"], damaged.problem)
    if place.told and place.address is None:
        place = replace(place, address=_find_address(db, place.conversation))
    if place.told and place.address is not None:
        word = Outgoing(place.address, WORDS[damaged.table], NOTE, "error")
        db.run(*add_answers(place.conversation, 0, [word], name=f"damaged:{place.told}"))
    return place


def list_damaged(db: Transaction, limit: int) -> list[Damaged]:
    """The newest of what was set aside."""
    return [Damaged(*row) for row in db.execute(LIST, (limit,)).rows]


def find_damaged(db: Transaction) -> Iterator[DamagedRow]:
    """Rows that cannot be read and were not met yet; reads all there is."""
    for name, table in _TABLES.items():
        for *key, raw in db.each(table.select):
            try:
                table.check((name, tuple(key), raw))
            except DamagedRow as damaged:
                yield damaged


def _find_address(db: Transaction, conversation: str) -> Address | None:
    """Where the conversation was last answered, else where its last message came from."""
    found = db.execute(sql.GET_CHOICES, {"conversation": conversation})
    try:
        return Address(**json.loads(found.rows[0][0])["address"])
    except (ValueError, TypeError, LookupError):
        account, ext_id = db.execute(LAST_ACCOUNT, (conversation,)).first or ("", "")
        return find_address(conversation, account, _chat_of(ext_id))


def _name_address(account: str, chat: str) -> Address:
    platform, _, name = account.partition(":")
    return Address(platform, name, chat)


def _chat_of(ext_id: str) -> str:
    """The chat in the name of a message, which ends with the message's id and its revision."""
    return ext_id.rsplit("/", 2)[0] if ext_id.count("/") > 1 else ""


# --- what takes the place of a row, by table


def _repair_inbox(db: Transaction, key: Key) -> SetAside:
    named = {"conversation": key[0], "seq": key[1], "epoch": NOBODYS}
    query = "select account, ext_id from inbox where conversation = :conversation and seq = :seq"
    conversation, (account, ext_id) = str(key[0]), db.execute(query, named).rows[0]
    chat = _chat_of(ext_id)
    address = find_address(conversation, account, chat)
    shown = address or _name_address(account, chat)
    marker = Inbound(shown, ext_id, "", LOST_TEXT, conversation=conversation)
    db.execute(REPLACE_INBOX, {**named, "body": write_inbound(marker)})
    if not db.execute(CLOSE_LOST, named).changed:
        return SetAside(conversation)  # it was dealt with long ago
    db.run(Sql(sql.DELETE_STEPS, named), Sql(COUNT_LOST, (conversation,)))
    return SetAside(conversation, told=f"inbox:{key[1]!s}", address=address, seq=int(key[1]))


def _repair_outbox(db: Transaction, key: Key) -> SetAside:
    """The row itself becomes the word to the person; where it was sent already it is only shown to who looks back."""
    query = "select conversation, account, chat, bytes_of(body) from outbox where id = ?"
    conversation, account, chat, body = db.execute(query, key).rows[0]
    db.execute(FORGET_IDS, key)
    if _is_readable("outbox", key, body, read_outgoing):
        return SetAside(conversation)
    address = find_address(conversation, account, chat) or _name_address(account, chat)
    word = Outgoing(address, WORDS["outbox"], ANSWER, "error", completed=False)
    db.execute(REPLACE_OUTBOX, {"id": key[0], "body": turn_rules.write_answer(word)["body"]})
    return SetAside(conversation, address=address)


def _repair_message(db: Transaction, key: Key) -> SetAside:
    """The bytes that the model was sent stay, so it goes on knowing what people cannot read any more."""
    query = "select conversation, session, position, kind from message where id = ?"
    conversation, session, position, kind = db.execute(query, key).rows[0]
    if kind == records.HEAD:  # what was taken back is not known any more, so nothing is
        body: Mapping[str, Any] = {"keep": position}
    else:
        around = {"session": session, "position": position, "limit": NEIGHBOURS}
        before = list(_read_neighbours(db, BEFORE, around))[::-1]
        body, kind = make_marker(before, list(_read_neighbours(db, AFTER, around))), LOST
    db.execute(REPLACE_MESSAGE, {"id": key[0], "kind": kind, "body": records.write_json(body)})
    return SetAside(conversation, session, told=f"session:{session}")


def _read_neighbours(db: Transaction, query: str, around: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for (raw,) in db.execute(query, around).rows:
        if _is_readable("message", (), raw, as_object):  # else it is set aside when it is read itself
            yield as_object(json.loads(raw))


def _repair_step(db: Transaction, key: Key) -> SetAside:
    db.execute(REPLACE_STEP, (LOST, *key))
    return SetAside(str(key[0]), told=f"step:{key[1]!s}")


def _repair_control(db: Transaction, key: Key) -> SetAside:
    """Its kind is known: a stop stops all the same."""
    db.execute(REPLACE_CONTROL, key)
    return SetAside(*db.execute("select conversation from control where id = ?", key).rows[0])


def _repair_question(db: Transaction, key: Key) -> SetAside:
    conversation, state = db.execute("select conversation, state from question where id = ?", key).rows[0]
    db.execute(REPLACE_QUESTION, key)
    return SetAside(conversation, told=f"question:{key[0]!s}" if state == "open" else "")


def _repair_choices(db: Transaction, key: Key) -> SetAside:
    db.execute(REPLACE_CHOICES, key)
    return SetAside(str(key[0]), told=f"choices:{db.now():.0f}")


def _repair_person(db: Transaction, key: Key) -> SetAside:
    """The least of the roles: nobody becomes more than they were."""
    db.execute(REPLACE_ROLE, (MEMBER, *key))
    return SetAside()


def _repair_blob(db: Transaction, key: Key) -> SetAside:
    """Whoever needs it makes it anew."""
    db.execute(DROP_SENT, key)
    db.execute(DROP_BLOB, key)
    return SetAside()


# --- what a row has to be


def _is_readable(table: str, key: Key, raw: bytes, make: Callable[[Any], object]) -> bool:
    try:
        decode(table, key, raw, make)
    except DamagedRow:
        return False
    return True


def _checks(make: Callable[[Any], object]) -> Callable[[tuple[str, Key, bytes]], object]:
    return lambda found: decode(*found, make)


def check_role(person: str, role: bytes) -> str:
    """The role; DamagedRow when there is none of this name."""
    said = role.decode(errors="replace")
    if said not in ROLE_NAMES:
        raise DamagedRow("person", (person,), role, f"there is no role {said!r}")
    return said


def check_blob(digest: bytes, body: bytes) -> bytes:
    """The bytes, as stored; DamagedRow when they are not those that were kept under this hash."""
    if records.digest(body) != digest:
        raise DamagedRow("blob", (digest,), body, "its bytes are not those that were kept")
    return body


def _watch(name: str, key: str, columns: str, check: Callable[[Any], object], repair: Repair) -> Table:
    """A table by the columns of its key and its texts."""
    texts = ", ".join(column if name == "blob" else f"bytes_of({column})" for column in columns.split())
    named = " and ".join(f"{column} = ?" for column in key.split())
    first = texts.partition(", ")[0]
    select = f"select {', '.join(key.split())}, {first} from {name}"
    return Table(select, f"select {texts} from {name} where {named} for update", check, repair)


_TABLES: Mapping[str, Table] = MappingProxyType(
    {
        "inbox": _watch("inbox", "conversation seq", "body", _checks(read_inbound), _repair_inbox),
        "outbox": _watch("outbox", "id", "body platform_ids", _checks(read_outgoing), _repair_outbox),
        "message": _watch("message", "id", "body", _checks(as_object), _repair_message),
        "turn_step": _watch("turn_step", "conversation seq n", "body", _checks(as_object), _repair_step),
        "control": _watch("control", "id", "body", _checks(as_object), _repair_control),
        "question": _watch("question", "id", "choices", _checks(as_texts), _repair_question),
        "conversation": _watch("conversation", "id", "choices", _checks(as_object), _repair_choices),
        "person": _watch("person", "id", "role", lambda found: check_role(found[1][0], found[2]), _repair_person),
        "blob": _watch("blob", "hash", "body", lambda found: check_blob(found[1][0], found[2]), _repair_blob),
    }
)
