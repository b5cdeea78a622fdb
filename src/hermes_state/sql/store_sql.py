"""The store: every call is one transaction, written through before it returns.

All calls are synchronous, may be made from any thread, and raise `StoreFailure` (locked, full, damaged, newer) or
`Fenced` (someone else wrote meanwhile); a call that raises has written nothing.
"""

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Self

from hermes_base.turn.journal import Row, Transcript, UsageRow
from hermes_state import records
from hermes_state.damage import Damaged, DamagedRow
from hermes_state.sql import damage_sql, retention_sql, search_index, statements
from hermes_state.sql import session_steps as steps
from hermes_state.sql.approvals_sql import ApprovalStore
from hermes_state.sql.damage_sql import SetAside
from hermes_state.sql.engines.engine import Database, Engine, Sql, Transaction
from hermes_state.sql.engines.opening import open_engine
from hermes_state.sql.files.files_sql import FileStore
from hermes_state.sql.habits_sql import HabitStore
from hermes_state.sql.keys_sql import KeyStore
from hermes_state.sql.people_sql import PeopleStore, delete_session
from hermes_state.sql.shared.news_sql import News
from hermes_state.sql.shared.repeats_sql import ApiRepeats
from hermes_state.sql.shared.settings_sql import SettingStore
from hermes_state.sql.shared.sign_ins_sql import SignIns
from hermes_state.sql.shared.unwell_sql import UnwellAccounts
from hermes_state.sql.turns_sql import TurnStore
from hermes_state.store import BreakRow, NewSession, PagedRow, SearchHit, SessionInfo, UsageGroup, UsageSum
from hermes_state.texts import clean
from hermes_state.turns import Written

BUSY_TIMEOUT = 5.0
PAGE = 200
REBUILD_PAUSE = 0.001
LAST_SIGN = chr(0x10FFFF)  # what begins with a text comes before the text and this


class Store:
    """What survives a restart; opening creates the file, with its folder, or the tables in a database by its address,
    or brings older ones up to date. `clock` is for tests: the time is the engine's."""

    def __init__(
        self,
        path: Path | str,
        *,
        busy_timeout: float = BUSY_TIMEOUT,
        readonly: bool = False,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.place = path
        self.engine: Engine = open_engine(path, busy_timeout, readonly=readonly, clock=clock)
        self._db = Database(self.engine, self._mend)
        self.when_damaged: Callable[[SetAside], None] = lambda _: None  # told after a damaged row was set aside
        self.turns: TurnStore = TurnStore(self._db)
        self._rebuild_lock = threading.Lock()
        self.people: PeopleStore = PeopleStore(self._db)
        self.habits: HabitStore = HabitStore(self._db)
        self.keys: KeyStore = KeyStore(self._db)
        self.approvals: ApprovalStore = ApprovalStore(self._db)
        self.files: FileStore = FileStore(self._db)
        self.news: News = News(self._db)
        self.repeats: ApiRepeats = ApiRepeats(self._db)
        self.sign_ins: SignIns = SignIns(self._db)
        self.settings: SettingStore = SettingStore(self._db)
        self.unwell: UnwellAccounts = UnwellAccounts(self._db)

    @classmethod
    def open_readonly(cls, path: Path | str, *, busy_timeout: float = BUSY_TIMEOUT) -> Self:
        """The store for reading beside its owner; creates no file, and a call that writes raises StoreFailure."""
        return cls(path, busy_timeout=busy_timeout, readonly=True)

    # --- sessions

    def open_session(self, new: NewSession) -> SessionInfo:
        """Create a session and make it its conversation's current one (the former one keeps its state)."""

        def open_one(db: Transaction) -> SessionInfo:
            task = steps.get_head(db, new.parent).task if new.parent else ""
            session, conversation = steps.add_session(db, new, task), clean(new.conversation)
            *_, info = db.run(
                Sql(statements.SET_CURRENT, (session, conversation)),
                Sql(statements.ASSIGN, (clean(new.person), conversation)),
                Sql(statements.GET_SESSION, (session,)),
            )
            return SessionInfo(*info.rows[0])

        return self._db.write(open_one)

    def current(self, conversation: str) -> SessionInfo | None:
        """The session that the conversation goes on in; None before the first and after one was ended or deleted."""
        return self._find_info(statements.GET_CURRENT, clean(conversation))

    def session(self, session: str) -> SessionInfo | None:
        return self._find_info(statements.GET_SESSION, session)

    def last_of(self, task: str) -> SessionInfo | None:
        """The session of a chain that was touched last; None when all of them are deleted."""
        return self._find_info(statements.LAST_OF_TASK, task)

    def _find_info(self, query: str, key: str) -> SessionInfo | None:
        found = self._db.find(query, (key,))
        return SessionInfo(*found[0]) if found else None

    def sessions(
        self,
        *,
        limit: int = 50,
        conversation: str | None = None,
        person: str | None = None,
        before: float | None = None,
    ) -> list[SessionInfo]:
        """Newest activity first; sessions without a message are left out. With `person`, only what is theirs; with
        `before`, only those whose last activity is older."""
        asked = conversation is not None, person is not None
        query = (
            statements.RECENT_OF_OWNER if (conversation, person) == (None, "") else statements.RECENT_SESSIONS[asked]
        )
        named = (clean(value) for value in (conversation, person) if value is not None)
        wanted = (*named, math.inf if before is None else before, limit)
        return [SessionInfo(*found) for found in self._db.find(query, wanted)]

    def begun_so(self, text: str, *, conversations: str, limit: int) -> list[SessionInfo]:
        """The current sessions whose first text begins with `text`, on one line, of the conversations whose names begin
        with `conversations`; newest activity first."""
        between = ((begun, begun + LAST_SIGN) for begun in (clean(text), clean(conversations)))
        found = self._db.find(statements.SESSIONS_BEGUN_SO, (*chain.from_iterable(between), limit))
        return [SessionInfo(*columns) for columns in found]

    def resume(self, conversation: str, session: str) -> SessionInfo:
        """Make an existing session its conversation's current one again and open it (clears its end). AtWork, and
        nothing is changed, while messages of the conversation are open: the turn that answers them belongs to the
        session that is current. StoreFailure when it belongs to another conversation."""
        *_, info = self._db.run(
            *steps.go_on_in(session, clean(conversation), statements.SET_CURRENT_OF_IDLE),
            Sql(statements.GET_SESSION, (session,)),
        )
        return SessionInfo(*info.rows[0])

    def branch(
        self, session: str, *, before: int | None = None, conversation: str = "", current: bool = True
    ) -> SessionInfo:
        """A copy of a session, up to a position if one is given, with the bytes that were sent, in its conversation or
        in another; a task of its own. It ends where a round of tools does: calls without results are left out. With
        `current` the conversation goes on in it, and AtWork is raised as by `resume`. StoreFailure when it is
        another person's (I7). One transaction: there is the whole copy, or none."""

        def copy(db: Transaction) -> SessionInfo:
            old = steps.get_info(db, session)
            target = clean(conversation) or old.conversation
            if db.execute(statements.IS_ANOTHERS, (target, old.person)).rows:
                raise records.foreign(session, target)
            made = steps.copy_session(db, old, before, target)
            if current:
                db.run(*steps.go_on_in(made, target, statements.SET_CURRENT_OF_IDLE))
            return steps.get_info(db, made)

        return self._db.write(copy)

    def end(self, session: str, reason: str) -> bool:
        """Write the boundary with its reason; the first reason stays, and True is told to whoever wrote that one. The
        session is not current any more; rows of a turn that is still under way may follow."""
        _, ended, *_ = self._db.run(steps.look_at(session), *steps.end_session(session, reason))
        return bool(ended.changed)

    def set_title(self, session: str, title: str) -> None:
        self._db.run(Sql(statements.SET_TITLE, (clean(title), session), partial(records.missing, session)))

    def delete(self, session: str) -> bool:
        """Remove a session with its rows, search entries and blobs nobody else uses; usage rows stay in the ledger.
        AtWork when it is current and a living process is in the middle of a turn of it."""

        def delete(db: Transaction) -> bool:
            info = steps.find_info(db, statements.GET_SESSION, session)
            if info is None:
                return False
            *_, at_work = db.run(
                Sql(statements.LOCK_CONVERSATION_OF, (session,)), Sql(statements.IS_AT_WORK, (session,))
            )
            if at_work.rows:
                raise records.at_work(info.conversation)
            delete_session(db, session)
            return True

        return self._db.write(delete)

    def stale_sessions(self, before: float, limit: int) -> list[str]:
        """Sessions that nobody touched since then, nor a later one of their chain; none whose conversation has open
        messages, and no current one that a living process has. The oldest first, those without messages last."""
        return self._db.read(lambda db: retention_sql.find_stale(db, before, limit))

    def delete_stale(self, session: str, before: float) -> bool:
        """As `delete`, but only if it is stale even now."""
        return self._db.write(lambda db: retention_sql.delete_stale(db, session, before))

    # --- transcripts

    def load(self, session: str) -> Transcript:
        """The visible rows and frozen parts as sent; the version counts all rows."""
        return self._db.read(lambda db: steps.read_transcript(db, session))

    def history(self, session: str) -> Iterator[Row]:
        """Every row ever written, taken-back ones and head rows included, in order."""
        version = self._db.read(lambda db: steps.get_head(db, session).version)
        return self._page_history(session, version)

    def page(
        self, session: str, *, before: int | None = None, limit: int = 100, standing: bool = False
    ) -> list[PagedRow]:
        """The last `limit` rows of what was said, or those before a position, in order and without what was sent; it
        costs what is on the page, however long the session is. What was compacted in its place is there, and what the
        model gets instead is not (E2); with `standing` it is as the model gets it."""
        return self._db.read(lambda db: steps.read_page(db, session, before, limit, standing=standing))

    def said(self, session: str) -> list[Row]:
        """All that was said in a session, as its pages show it."""
        return [paged.row for paged in self.page(session, limit=sys.maxsize)]

    def append(self, session: str, writer: str, base: int, rows: Sequence[Row], usage: Sequence[UsageRow] = ()) -> int:
        """Commit rows and usage in one transaction if the version is still `base` and the session was not rotated,
        else Fenced; the new version."""
        written, kept = Written(session, writer, base, rows), [records.write_row(row) for row in rows]
        self._db.write(lambda db: db.run(*steps.append_rows(db, steps.get_head(db, session), written, kept, usage)))
        return base + len(kept)

    def freeze(self, session: str, place: int, dialect: str, body: bytes) -> str:
        """Keep the encoded form of a part (-2 tools, -1 system) or of a row (its position); its content hash."""

        def keep(db: Transaction) -> None:
            version = steps.get_head(db, session).version
            db.run(*steps.keep_encoded(db, session, version, [(place, dialect, body)]))

        self._db.write(keep)
        return records.digest(body).hex()

    def rotate(self, session: str, writer: str, base: int, reason: str, rows: Sequence[Row]) -> SessionInfo:
        """End `session` with `reason` and open its child with `rows` (same conversation, task and frozen tools and
        system), current in its place, in one transaction; Fenced if someone else wrote to it or ended it."""
        written, kept = Written(session, writer, base, rows), [records.write_row(row) for row in rows]
        return self._db.write(lambda db: steps.rotate_session(db, steps.get_head(db, session), written, kept, reason))

    # --- ledger

    def charge(self, session: str, usage: Sequence[UsageRow]) -> None:
        """Put calls into the ledger, also those of a session that was deleted meanwhile."""
        self._db.write(lambda db: db.run(*steps.add_usage(steps.find_owner(db, session), usage)))

    def usage(
        self, *, session: str | None = None, task: str | None = None, since: float = 0.0, person: str | None = None
    ) -> UsageSum:
        """The sum of the calls of a session, of a task (all sessions of a chain) or of all, from `since` on; with
        `person`, of their conversations only."""
        rows = self._read_ledger(statements.SUM_USAGE, session, task, (since, person, person))
        return UsageSum(*rows[0])

    def usage_by(
        self,
        group: str,
        *,
        session: str | None = None,
        task: str | None = None,
        since: float = 0.0,
        person: str | None = None,
    ) -> list[UsageGroup]:
        """The same calls as `usage` sums, in groups by "day", "model" or "turn", the earliest first."""
        flags = records.find_flags(group)
        rows = self._read_ledger(statements.SPLIT_USAGE, session, task, (since, person, person), flags)
        return [UsageGroup(records.pick_keys(flags, row[:4]), UsageSum(*row[5:]), row[4]) for row in rows]

    def note_break(self, session: str, reason: str, position: int) -> None:
        """Record that the prefix moved; StoreFailure without a reason. It stays when its session is deleted."""
        row = {"reason": records.check_reason(reason), "position": position}
        self._db.write(lambda db: db.execute(statements.ADD_BREAK, {**steps.find_owner(db, session), **row}))

    def breaks(self, *, session: str | None = None, task: str | None = None, since: float = 0.0) -> list[BreakRow]:
        """The breaks of a session, of a task or of all, from `since` on, the earliest first."""
        return [BreakRow(*row) for row in self._read_ledger(statements.GET_BREAKS, session, task, (since,))]

    # --- damage

    def damaged(self, limit: int = 20) -> list[Damaged]:
        """Rows that could not be read and were set aside, the newest first; they are kept as long as what is over."""
        return self._db.read(lambda db: damage_sql.list_damaged(db, limit))

    def count_damaged(self) -> int:
        return int(self._db.find(damage_sql.COUNT)[0][0])

    def set_damage_aside(self) -> int:
        """Look for rows that cannot be read and set each aside, as whoever meets one does; how many there were."""
        found = self._db.read(lambda db: list(damage_sql.find_damaged(db)))
        for damaged in found:
            self.engine.write(partial(damage_sql.set_aside, damaged=damaged))
        return len(found)

    @property
    def broken(self) -> str:
        """What is wrong with the file as a whole, once a call has met it; empty: nothing."""
        return self.engine.broken

    def find_loss(self) -> str:
        """What became of the files under this process: what is written into lost ones is gone with it. Empty: they are
        in place."""
        return self.engine.find_loss()

    def _mend(self, db: Transaction, damaged: DamagedRow) -> Callable[[], None]:
        aside = damage_sql.set_aside(db, damaged)
        return lambda: None if aside is None else self.when_damaged(aside)

    # --- search

    def search(self, words: str, *, limit: int = 20, person: str | None = None) -> list[SearchHit]:
        """The newest sessions in whose titles all words occur, then the newest messages in whose shown text they do,
        taken-back and compacted ones too. Case and accents do not count. A word may be the beginning of one that
        occurs, in a title any part. Of titles, those of the newest 5,000 sessions are looked at. Signs that are no
        words are left out. With `person`, only what is theirs. StoreFailure while there is no index."""
        return self._db.read(lambda db: search_index.find(db, words, limit, person))

    def drop_search(self) -> None:
        """Give up the index; messages are kept, and searching fails until it is rebuilt."""
        self._db.write(search_index.drop)

    def rebuild_search(self) -> int:
        """Index all messages anew, in small transactions so that writers go on; the number of messages that went in
        here, those that writers took along left out."""
        with self._rebuild_lock:
            last = self._db.write(search_index.restart)
            reach, total = 0, 0
            while reach < last:
                begun = time.monotonic()
                reach, indexed = self._db.write(search_index.extend)
                total += indexed
                # A lock is not fair: the writers, here and in other processes, get as much time as this took.
                time.sleep(max(REBUILD_PAUSE, time.monotonic() - begun))
            self._db.write(search_index.finish)
            return total

    def close(self) -> None:
        self.engine.close()

    def _read_ledger(
        self,
        statements: Mapping[tuple[bool, bool], str],
        session: str | None,
        task: str | None,
        rest: tuple[float | str | None, ...],
        flags: tuple[bool, ...] = (),
    ) -> list[tuple[Any, ...]]:
        wanted = (*flags, *(value for value in (session, task) if value is not None), *rest)
        query = statements[session is not None, task is not None]
        return self._db.find(query, wanted)

    def _page_history(self, session: str, version: int) -> Iterator[Row]:
        """Rows never change, so pages read one by one fit together, and no reader is held meanwhile."""
        for first in range(0, version, PAGE):
            last = min(first + PAGE, version)
            yield from self._db.read(partial(steps.read_rows, session=session, first=first, last=last))
