"""The tables of people, and the column that says to whom a conversation belongs.

An empty `person` is the owner of the machine, so what was stored before there were people is the owner's.
"""

STATEMENTS: tuple[str, ...] = (
    "alter table conversation add column person text not null default ''",
    "create index conversation_person on conversation(person, id)",
    """create table person (
        id text primary key,
        name text not null,
        role text not null,
        created real not null
    ) without rowid""",
    # There is one owner, whatever two approvals at the same moment say.
    "create unique index person_owner on person(role) where role = 'owner'",
    """create table identity (
        platform text not null,
        sender text not null,
        person text not null references person(id) on delete cascade,
        listed integer not null default 0,
        primary key (platform, sender)
    ) without rowid""",
    "create index identity_person on identity(person)",
    # Of who was removed only a hash is left: enough to know them again, too little to know who they were.
    "create table removed_identity (mark blob primary key) without rowid",
    """create table pairing (
        platform text not null,
        sender text not null,
        code text not null unique,
        name text not null,
        chat text not null,
        created real not null,
        expires real not null,
        primary key (platform, sender)
    ) without rowid""",
    """create table question (
        id text primary key,
        conversation text not null,
        turn text not null,
        kind text not null,
        text text not null,
        choices text not null,
        approver text not null,
        node text not null,
        created real not null,
        expires real not null,
        state text not null,
        answer text not null default '',
        answered_by text not null default ''
    ) without rowid""",
    "create index question_open on question(conversation, created) where state = 'open'",
    "create index question_node on question(node) where state = 'open'",
)
