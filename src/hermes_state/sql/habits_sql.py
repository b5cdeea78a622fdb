"""Where and when people want to be told things, the codes that join two identities, and notes for the model of a chat.

Habits of whoever is the owner are one, at the terminal and in every app: they stand under `OWNER_HABITS`. A home counts
only while whoever made it one still is that person; else it is as if none was set (G3).
"""

from collections.abc import Sequence
from typing import Any

from hermes_base.inbound import Address
from hermes_state import people_records as rules
from hermes_state.damage import as_object, decode
from hermes_state.people_store import (
    LINK_SECONDS,
    OWNER,
    Habits,
    HeardNote,
    LinkCode,
)
from hermes_state.sql.engines.engine import Sql, StorePart, Transaction
from hermes_state.texts import clean

OWNER_HABITS = "owner"
LAST_SIGN = chr(0x10FFFF)  # what begins with a text comes before the text and this

#: Whoever set the home is that person today, and is let in by the identity that they said it with.
_COUNTS = (
    "(set_by = '' or exists (select 1 from person p where p.id = set_by and (habit.person = p.id "
    f"or (habit.person = '{OWNER_HABITS}' and p.role = '{OWNER}')))) "
    "and (habit.sender = '' or exists (select 1 from identity i where i.platform = habit.platform "
    "and i.sender = habit.sender and i.person = set_by))"
)
_HABIT = f"{_COUNTS}, platform, account, chat, kind, thread, timezone, quiet, set_by, sender"
#: A person's own row, or that of the owner for whoever is the owner.
_KEY = f"case when exists (select 1 from person where id = ? and role = '{OWNER}') then '{OWNER_HABITS}' else ? end"
FIND_KEY = f"select {_KEY}"
GET_HABITS = f"select {_HABIT} from habit where person = {_KEY}"
GET_TIMEZONE = f"select timezone from habit where person = {_KEY}"
ALL_HABITS = f"select person, {_HABIT} from habit"
_HOME = ("platform", "account", "chat", "kind", "thread", "set_by", "sender")


def _write_set(*columns: str) -> str:
    """Sets these columns of somebody's habits alone: what is set at the same time beside them stays."""
    new = ", ".join(f"{column} = excluded.{column}" for column in columns)
    row = f"insert into habit (person, {', '.join(columns)}) values ({_KEY}{', ?' * len(columns)})"
    return f"{row} on conflict (person) do update set {new}"


SET_HOME, SET_TIMEZONE, SET_QUIET = _write_set(*_HOME), _write_set("timezone"), _write_set("quiet")
_NO_HOME = ", ".join(f"{column} = ''" for column in _HOME)
LEAVE_HOME = f"update habit set {_NO_HOME} where person = {_KEY} and platform = ?"

DROP_OLD_CODES = "delete from link_code where expires <= clock()"
DROP_CODE = "delete from link_code where code = ?"
DROP_CODES = "delete from link_code where person = ?"
ADD_CODE = (
    "insert into link_code (code, person, platform, account, chat, expires) values (?, ?, ?, ?, ?, ?) "
    "on conflict (code) do nothing"
)
GET_CODES = "select code, person, platform, account, chat, expires from link_code where expires > clock()"

ADD_NOTE = "insert into heard_note (conversation, text, origin, task, created) values (?, ?, ?, ?, clock())"
GET_NOTES = "select id, text, origin, task from heard_note where conversation = ? order by id"
DROP_NOTE = "delete from heard_note where id = ?"

#: The chats of one platform, by the beginning of their keys; the last one that was spoken in comes first.
FIND_CHATS = (
    "select id, bytes_of(choices) from conversation where id >= ? and id < ? and choices <> '{}' "
    "order by ready_at desc, id limit ?"
)
KNOWS_CHAT = "select 1 from conversation where id = ?"


class HabitStore(StorePart):
    # --- where and when

    def get(self, person: str) -> Habits:
        """The habits of a person, or those of the owner for whoever is the owner."""
        found = self._db.find(GET_HABITS, (clean(person), clean(person)))
        return read_habits(found[0]) if found else Habits()

    def every(self) -> dict[str, Habits]:
        """By person; the owner's stand under `OWNER_HABITS`."""
        return {str(person): read_habits(columns) for person, *columns in self._db.find(ALL_HABITS)}

    def key_of(self, person: str) -> str:
        """The name under which the person's habits stand."""
        ((key,),) = self._db.find(FIND_KEY, (clean(person), clean(person)))
        return str(key)

    def set_home(self, person: str, home: Address | None, sender: str = "") -> None:
        """`sender`: as whom the person said so there; empty: it is set at the machine."""
        place = ("",) * len(_HOME)
        if home is not None:
            set_by = "" if person == OWNER_HABITS else person
            place = (home.platform, home.account, home.chat, home.kind, home.thread, set_by, sender)
        self._set(SET_HOME, person, *place)

    def leave_home(self, person: str, platform: str) -> None:
        """They have no home any more, if it is on this platform."""
        self._set(LEAVE_HOME, person, platform)

    def set_timezone(self, person: str, zone: str) -> None:
        self._set(SET_TIMEZONE, person, zone)

    def set_quiet(self, person: str, hours: str) -> None:
        self._set(SET_QUIET, person, hours)

    def _set(self, statement: str, person: str, *values: str) -> None:
        self._db.run(Sql(statement, tuple(map(clean, (person, person, *values)))))

    def chats(self, begins: str, limit: int) -> list[tuple[str, dict[str, Any]]]:
        """Conversations whose keys begin so and what was chosen for them (where they were spoken to last, and by whom),
        the last ones that were spoken in first."""
        first = clean(begins)
        return self._db.find_as(
            lambda row: (str(row[0]), decode("conversation", (row[0],), row[1], as_object)),
            FIND_CHATS,
            (first, first + LAST_SIGN, limit),
        )

    def knows(self, conversation: str) -> bool:
        """Whether anything was ever said there."""
        return bool(self._db.find(KNOWS_CHAT, (clean(conversation),)))

    # --- codes that join two identities

    def make_code(self, person: str, address: Address) -> LinkCode:
        """A new code for this person; the one before holds no more. `address`: where it was asked for."""

        def make(db: Transaction) -> LinkCode:
            db.run(Sql(DROP_OLD_CODES), Sql(DROP_CODES, (person,)))
            expires, chat = db.now() + LINK_SECONDS, clean(address.chat)
            while True:  # until there is a code that no other open one has
                new = LinkCode(rules.make_code(), person, address.platform, address.account, chat, expires)
                columns = (new.code, new.person, new.platform, new.account, new.chat, new.expires)
                if db.execute(ADD_CODE, columns).changed:
                    return new

        return self._db.write(make)

    def find_code(self, code: str) -> LinkCode | None:
        """The open code that is meant; None: it is wrong, used or too old."""
        return rules.pick_code(code, (LinkCode(*row) for row in self._db.find(GET_CODES)))

    def use_code(self, code: str) -> LinkCode | None:
        """The same, and it is used up: it joins once, whoever says it at the same moment."""

        def use(db: Transaction) -> LinkCode | None:
            found = rules.pick_code(code, (LinkCode(*row) for row in db.execute(GET_CODES).rows))
            if found is None or not db.execute(DROP_CODE, (found.code,)).changed:
                return None
            db.execute(DROP_CODES, (found.person,))
            return found

        return self._db.write(use)

    # --- what a chat was told by others, for its model

    def add_note(self, conversation: str, note: str, origin: str = "", task: str = "") -> None:
        self._db.run(Sql(ADD_NOTE, (clean(conversation), clean(note), clean(origin), task)))

    def notes(self, conversation: str) -> list[HeardNote]:
        """What the model of the conversation has not heard yet, in order."""
        return [HeardNote(*row) for row in self._db.find(GET_NOTES, (clean(conversation),))]

    def drop_notes(self, notes: Sequence[HeardNote]) -> None:
        if notes:
            self._db.run(*(Sql(DROP_NOTE, (note.id,)) for note in notes))


def read_habits(columns: Sequence[str]) -> Habits:
    counts, platform, account, chat, kind, thread, timezone, quiet, set_by, sender = columns
    if not platform or not counts:
        return Habits(None, timezone, quiet)
    return Habits(Address(platform, account, chat, kind, thread), timezone, quiet, set_by, sender)
