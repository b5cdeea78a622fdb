"""The tables of messages on their way, of turns and of who owns a conversation.

What was dealt with leaves the partial indexes, so that looking for work costs what there is to do, not what there was.
"""

STATEMENTS: tuple[str, ...] = (
    "alter table conversation add column owner text",
    "alter table conversation add column last_owner text",
    "alter table conversation add column pending integer not null default 0",
    "alter table conversation add column next_seq integer not null default 0",
    "alter table conversation add column ready_at real not null default 0",
    "alter table conversation add column choices text not null default '{}'",
    "create index conversation_ready on conversation(ready_at) where pending > 0",
    "create index conversation_ready_owner on conversation(owner, ready_at) where pending > 0",
    "create index conversation_owner on conversation(owner) where owner is not null",
    """create table node (
        id text primary key,
        expires real not null,
        draining integer not null default 0,
        version text not null,
        capacity integer not null,
        address text not null
    ) without rowid""",
    "create index node_expires on node(expires)",
    """create table inbox (
        conversation text not null,
        seq integer not null,
        account text not null,
        ext_id text not null,
        body text not null,
        attempts integer not null default 0,
        taken integer not null default 0,
        begun real,
        accepted real not null,
        retry_at real not null default 0,
        error text not null default '',
        done_epoch integer,
        primary key (conversation, seq),
        unique (account, ext_id)
    )""",
    "create index inbox_open on inbox(conversation, seq) where done_epoch is null",
    # Numbers of outbox rows are handed to clients as places to go on from, so none is given twice.
    """create table outbox (
        id integer primary key autoincrement,
        conversation text not null,
        seq integer not null,
        n integer not null,
        name text,
        account text not null,
        chat text not null,
        body text not null,
        state text not null,
        attempts integer not null default 0,
        parts_sent integer not null default 0,
        platform_ids text not null default '[]',
        unsure integer not null default 0,
        lease_epoch integer not null default 0,
        retry_at real not null default 0,
        reason text not null default '',
        created real not null,
        ended real,
        unique (conversation, seq, n)
    )""",
    "create index outbox_open on outbox(account, chat, id) where ended is null",
    "create index outbox_of_conversation on outbox(conversation, id)",
    "create unique index outbox_name on outbox(conversation, name) where name is not null",
    """create table turn_step (
        conversation text not null,
        seq integer not null,
        n integer not null,
        epoch integer not null,
        kind text not null,
        body text not null,
        primary key (conversation, seq, n)
    ) without rowid""",
    """create table control (
        id integer primary key,
        conversation text not null,
        kind text not null,
        body text not null,
        created real not null,
        taken_by text,
        taken_at real
    )""",
    "create index control_open on control(taken_by, id) where taken_by is null",
    """create table lease (
        name text primary key,
        owner text,
        epoch integer not null default 0,
        expires real not null default 0
    ) without rowid""",
    "create index lease_owner on lease(owner) where owner is not null",
    "create unique index message_turn on message(conversation, seq, n) where seq is not null",
    "create unique index usage_call on usage(conversation, seq, call) where seq is not null",
)
