"""What daily operation adds to the layout: keys of the API, pages of a transcript, and the ways to what may go.

Each index on what is over holds only that, in the order in which it is let go. When a message was dealt with is known
from this layout on; for older rows, and those of an older program, the time of their arrival stands for it.
"""

STATEMENTS: tuple[str, ...] = (
    """create table api_key (
        id text primary key,
        name text not null,
        person text not null,
        digest text not null unique,
        created real not null,
        last_used real,
        revoked real
    ) without rowid""",
    "create index api_key_person on api_key(person)",
    # What was taken back is folded from these rows alone, so that a page costs what is on it.
    "create index message_head on message(session, position) where kind = 'head'",
    "alter table inbox add column done real",
    "create index inbox_done on inbox(coalesce(done, accepted)) where done_epoch is not null",
    # Rows of the outbox go in the end; how far they went is kept for clients that come back.
    "alter table conversation add column last_row integer not null default 0",
    "create index outbox_ended on outbox(ended) where ended is not null",
    "create index control_taken on control(taken_at) where taken_by is not null",
    "create index question_closed on question(greatest(created, expires)) where state <> 'open'",
    "create index session_empty on session(updated, id) where messages = 0",
    "create index session_task on session(task, updated)",
)
