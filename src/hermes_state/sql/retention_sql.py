"""Lets go of what is over: a few rows a call, the oldest first, each kind by an index of its own."""

from collections.abc import Sequence

from hermes_state.sql import statements
from hermes_state.sql.engines.engine import Sql, Transaction
from hermes_state.sql.people_sql import delete_session

OLD_MESSAGES = (
    "delete from inbox where (conversation, seq) in (select conversation, seq from inbox where done_epoch is not null "
    "and coalesce(done, accepted) < :before order by coalesce(done, accepted) limit :limit)"
)
OLD_ANSWERS = (
    "select id, conversation from outbox where ended is not null and ended < :before order by ended limit :limit"
)
#: How far a conversation's rows went, for clients that come back when the last of them is gone.
KEEP_LAST_ROW = "update conversation set last_row = greatest(last_row, ?) where id = ?"
DELETE_ANSWER = "delete from outbox where id = ?"
OLD_CONTROLS = (
    "delete from control where id in (select id from control where taken_by is not null and taken_at < :before "
    "order by taken_at limit :limit)"
)
OLD_QUESTIONS = (
    "delete from question where id in (select id from question where state <> 'open' "
    "and greatest(created, expires) < :before order by greatest(created, expires) limit :limit)"
)
OLD_DAMAGE = (
    "delete from damaged where id in (select id from damaged where found < :before order by found limit :limit)"
)
#: A rule that holds no more is over at once; there is nothing to look up in it.
OLD_RULES = (
    "delete from approval_rule where id in (select id from approval_rule where expires <= clock() "
    "order by expires limit :limit)"
)
OLD_REPEATS = (
    "delete from api_repeat where name in (select name from api_repeat where until <= clock() "
    "order by until limit :limit)"
)
OLD_SIGN_INS = (
    "delete from sign_in where digest in (select digest from sign_in where expires <= clock() "
    "order by expires limit :limit)"
)
#: What the model of a chat was to hear, and nobody has spoken there since.
OLD_NOTES = (
    "delete from heard_note where id in "
    "(select id from heard_note where created < :before order by created limit :limit)"
)
_OVER = (OLD_MESSAGES, OLD_CONTROLS, OLD_QUESTIONS, OLD_DAMAGE, OLD_NOTES)
#: Nobody touched the session or its chain, nothing waits in its conversation, and no living process has it.
_STALE = (
    "from session s cross join conversation c where c.id = s.conversation and s.updated < :before and c.pending = 0 "
    "and (coalesce(c.current, '') <> s.id "
    "or not exists (select 1 from node o where o.id = c.owner and o.expires > clock())) "
    "and not exists (select 1 from session t where t.task = s.task and t.updated >= :before) "
)
STALE_SESSIONS = f"select s.id {_STALE} and s.messages > 0 order by s.updated, s.id limit :limit"
STALE_EMPTY = f"select s.id {_STALE} and s.messages = 0 order by s.updated, s.id limit :limit"
IS_STALE = f"select 1 {_STALE} and s.id = :session"
#: Pages of bodies by their keys, from a first key on; what is to be found in them is looked for outside of the engine.
PAGES_OF_BODIES: tuple[tuple[str, Sequence[str | int]], ...] = (
    (
        "select body, conversation, seq from inbox where (conversation, seq) > (?, ?) "
        "order by conversation, seq limit ?",
        ("", 0),
    ),
    ("select body, id from outbox where id > ? order by id limit ?", (0,)),
)


def sweep(db: Transaction, before: float, limit: int) -> int:
    """Delete at most `limit` rows that were over before then; how many went."""
    gone = 0
    for statement in (OLD_RULES, OLD_REPEATS, OLD_SIGN_INS):
        gone += db.execute(statement, {"limit": limit - gone}).changed
    for statement in _OVER:
        gone += db.execute(statement, {"before": before, "limit": limit - gone}).changed
    answers = db.execute(OLD_ANSWERS, {"before": before, "limit": limit - gone}).rows
    db.run(*(Sql(KEEP_LAST_ROW, answer) for answer in answers))
    db.run(*(Sql(DELETE_ANSWER, (row,)) for row, _ in answers))
    return gone + len(answers)


def find_stale(db: Transaction, before: float, limit: int) -> list[str]:
    wanted = {"before": before, "limit": limit}
    found = [session for query in (STALE_SESSIONS, STALE_EMPTY) for (session,) in db.execute(query, wanted).rows]
    return found[:limit]


def delete_stale(db: Transaction, session: str, before: float) -> bool:
    """Delete the session if it is stale; False when somebody came back to it meanwhile."""
    lock = Sql(statements.LOCK_CONVERSATION_OF, (session,))
    *_, stale = db.run(lock, Sql(IS_STALE, {"session": session, "before": before}))
    if not stale.rows:
        return False
    delete_session(db, session)
    return True
