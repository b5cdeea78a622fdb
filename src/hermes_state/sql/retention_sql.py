"""Lets go of what is over, in SQLite: a few rows a call, the oldest first, each kind by an index of its own."""

import sqlite3

from hermes_state.sql import session_steps as steps
from hermes_state.sql import statements
from hermes_state.sql.people_sql import delete_session

OLD_MESSAGES = (
    "delete from inbox where rowid in (select rowid from inbox where done_epoch is not null "
    "and coalesce(done, accepted) < :before order by coalesce(done, accepted) limit :limit)"
)
OLD_ANSWERS = (
    "select id, conversation from outbox where ended is not null and ended < :before order by ended limit :limit"
)
#: How far a conversation's rows went, for clients that come back when the last of them is gone.
KEEP_LAST_ROW = "update conversation set last_row = max(last_row, ?) where id = ?"
DELETE_ANSWER = "delete from outbox where id = ?"
OLD_CONTROLS = (
    "delete from control where id in (select id from control where taken_by is not null and taken_at < :before "
    "order by taken_at limit :limit)"
)
OLD_QUESTIONS = (
    "delete from question where id in (select id from question where state <> 'open' "
    "and max(created, expires) < :before order by max(created, expires) limit :limit)"
)
OLD_DAMAGE = (
    "delete from damaged where id in (select id from damaged where found < :before order by found limit :limit)"
)
#: Nobody touched the session or its chain, nothing waits in its conversation, and no living process has it.
_STALE = (
    "from session s cross join conversation c where c.id = s.conversation and s.updated < :before and c.pending = 0 "
    "and (c.current is not s.id or not exists (select 1 from node o where o.id = c.owner and o.expires > :now)) "
    "and not exists (select 1 from session t where t.task = s.task and t.updated >= :before) "
)
STALE_SESSIONS = f"select s.id {_STALE} and s.messages > 0 order by s.updated, s.id limit :limit"
STALE_EMPTY = f"select s.id {_STALE} and s.messages = 0 order by s.updated, s.id limit :limit"
IS_STALE = f"select 1 {_STALE} and s.id = :session"
#: A page of bodies by row number; what is to be found in them is looked for outside of the engine.
PAGES_OF_BODIES = (
    "select rowid, body from inbox where rowid > ? order by rowid limit ?",
    "select id, body from outbox where id > ? order by id limit ?",
)


def sweep(db: sqlite3.Connection, before: float, limit: int) -> int:
    """Delete at most `limit` rows that were over before then; how many went."""
    gone = 0
    for statement in (OLD_MESSAGES, OLD_CONTROLS, OLD_QUESTIONS, OLD_DAMAGE):
        gone += db.execute(statement, {"before": before, "limit": limit - gone}).rowcount
    answers = db.execute(OLD_ANSWERS, {"before": before, "limit": limit - gone}).fetchall()
    db.executemany(KEEP_LAST_ROW, answers)
    db.executemany(DELETE_ANSWER, [(row,) for row, _ in answers])
    return gone + len(answers)


def find_stale(db: sqlite3.Connection, before: float, now: float, limit: int) -> list[str]:
    wanted = {"before": before, "now": now, "limit": limit}
    found = [session for query in (STALE_SESSIONS, STALE_EMPTY) for (session,) in db.execute(query, wanted)]
    return found[:limit]


def delete_stale(db: sqlite3.Connection, session: str, before: float, now: float) -> bool:
    """Delete the session if it is stale; False when somebody came back to it meanwhile."""
    if db.execute(IS_STALE, {"session": session, "before": before, "now": now}).fetchone() is None:
        return False
    db.execute(statements.MOVE_CURRENT, (None, steps.get_head(db, session).conversation, session))
    delete_session(db, session)
    return True
