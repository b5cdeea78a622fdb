"""The tables of the store and the steps that lead from an older layout to this one.

A migration only adds (tables, columns with defaults, indexes), so the program one version older still works on the
migrated store: the store says in `min_reader` which is the oldest layout a program may know to use it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hermes_base.errors import StoreFailure
from hermes_constants import STORE_FILE
from hermes_state.sql import statements
from hermes_state.sql.engines.engine import Sql, Transaction


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the layout; `min_reader` is the oldest layout whose program still works after it."""

    version: int
    min_reader: int
    statements: tuple[str, ...]


# The columns seq, n, epoch and call are empty where no claim owns the turn; their unique indexes come with layout 3.
_TABLES = (
    "create table meta (key text primary key, value text not null) without rowid",
    """create table conversation (
        id text primary key,
        current text,
        epoch integer not null default 0
    ) without rowid""",
    """create table session (
        id text primary key,
        conversation text not null references conversation(id),
        task text not null,
        parent text,
        successor text,
        platform text not null,
        model text not null,
        title text not null,
        started real not null,
        updated real not null,
        ended real,
        end_reason text,
        version integer not null default 0,
        writer text not null default '',
        messages integer not null default 0,
        preview text not null default ''
    ) without rowid""",
    """create table message (
        id integer primary key,
        session text not null references session(id) on delete cascade,
        position integer not null,
        conversation text not null,
        seq integer,
        n integer,
        epoch integer not null default 0,
        writer text not null,
        kind text not null,
        body text not null,
        shown text,
        created real not null,
        unique (session, position)
    )""",
    "create table blob (hash blob primary key, body blob not null)",
    """create table sent (
        session text not null references session(id) on delete cascade,
        place integer not null,
        dialect text not null,
        hash blob not null references blob(hash),
        primary key (session, place, dialect)
    ) without rowid""",
    """create table usage (
        id integer primary key,
        conversation text not null,
        session text not null,
        task text not null,
        seq integer,
        call integer,
        provider text not null,
        model text not null,
        kind text not null,
        input_tokens integer not null,
        cache_read_tokens integer not null,
        cache_write_tokens integer not null,
        output_tokens integer not null,
        reasoning_tokens integer not null,
        cost real,
        settled integer not null,
        created real not null
    )""",
)

_INDEXES = (
    "create index session_recent on session(updated, id) where messages > 0",
    "create index session_of_conversation on session(conversation, updated, id) where messages > 0",
    "create index sent_hash on sent(hash)",
    "create index usage_session on usage(session, created)",
    "create index usage_task on usage(task, created)",
    "create index usage_created on usage(created)",
)

_TURNS_AND_BREAKS = (
    "alter table usage add column turn text",
    "alter table usage add column saved real",
    """create table prefix_break (
        id integer primary key,
        conversation text not null,
        session text not null,
        task text not null,
        reason text not null,
        position integer not null,
        created real not null
    )""",
    "create index break_session on prefix_break(session, created)",
    "create index break_task on prefix_break(task, created)",
    "create index break_created on prefix_break(created)",
)

# The tables of messages on their way, of turns and of who owns a conversation. What was dealt with leaves the partial
# indexes, so that looking for work costs what there is to do, not what there was.
_TURNS = (
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

# The tables of people, and the column that says to whom a conversation belongs.
# An empty `person` is the owner of the machine, so what was stored before there were people is the owner's.
_PEOPLE = (
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

# What daily operation adds to the layout: keys of the API, pages of a transcript, and the ways to what may go.
# Each index on what is over holds only that, in the order in which it is let go. When a message was dealt with is known
# from this layout on; for older rows, and those of an older program, the time of their arrival stands for it.
_DAILY = (
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

# The table of what could not be read and was set aside: its bytes are kept for the operator until they are old.
_DAMAGE = (
    """create table damaged (
        id integer primary key,
        source text not null,
        key text not null,
        conversation text not null,
        session text not null,
        body blob not null,
        problem text not null,
        found real not null
    )""",
    "create index damaged_found on damaged(found)",
    "create index damaged_conversation on damaged(conversation)",
    "create index damaged_session on damaged(session)",
)

_FIRST_TEXTS = ("create index session_first_text on session(preview, updated, id) where messages > 0",)

# Approvals that are kept as rules. Whoever does not know the table asks each time.
_APPROVALS = (
    """create table approval_rule (
        id text primary key,
        person text not null,
        conversation text not null,
        task text not null,
        kind text not null,
        folder text not null,
        backend text not null,
        level text not null,
        words text not null,
        shown text not null,
        made_by text not null,
        created real not null,
        expires real not null,
        last_used real,
        times_used integer not null default 0
    ) without rowid""",
    "create index approval_rule_person on approval_rule(person, kind, folder)",
    "create index approval_rule_expires on approval_rule(expires)",
    "create index approval_rule_task on approval_rule(task) where task <> ''",
)

# What a person is told without having asked: where and when they want it, what waits for the end of their quiet hours,
# the codes that join two identities, and what the model of a chat has to hear of words that others sent there.
# The habits of whoever is the owner stand under the name `owner`; `set_by` and `sender` say who made a chat the home,
# and a message that nobody asked for names its reader: both end with that person's access. What the model has to hear
# of a message stands with it until it is sent.
_HABITS = (
    """create table habit (
        person text primary key,
        platform text not null default '',
        account text not null default '',
        chat text not null default '',
        kind text not null default '',
        thread text not null default '',
        timezone text not null default '',
        quiet text not null default '',
        set_by text not null default '',
        sender text not null default ''
    ) without rowid""",
    """create table link_code (
        code text primary key,
        person text not null,
        platform text not null,
        account text not null,
        chat text not null,
        expires real not null
    ) without rowid""",
    "create index link_code_person on link_code(person)",
    """create table heard_note (
        id integer primary key,
        conversation text not null,
        text text not null,
        origin text not null,
        created real not null,
        task text not null default ''
    )""",
    "create index heard_note_conversation on heard_note(conversation, id)",
    "create index heard_note_created on heard_note(created)",
    "alter table outbox add column held_for text not null default ''",
    "alter table outbox add column hold_until real not null default 0",
    "create index outbox_held on outbox(held_for, hold_until) where ended is null and hold_until > 0",
    "alter table outbox add column reader text not null default ''",
    "alter table outbox add column note text not null default ''",
    "alter table outbox add column note_origin text not null default ''",
    "create index outbox_reader on outbox(reader) where ended is null and reader <> ''",
)

# The last message of each chat of an account whose platform has a history: where to go on reading after an absence. It
# outlives the message's own row.
_LAST_HEARD = (
    """create table last_heard (
        account text not null,
        chat text not null,
        thread text not null,
        kind text not null,
        conversation text not null,
        message text not null,
        primary key (account, chat, thread)
    ) without rowid""",
    "create index last_heard_conversation on last_heard(conversation)",
)

# What a chat was shown of an answer that is not there yet: a turn that goes on after a kill puts its answer there.
_DRAFTS = ("alter table inbox add column draft text not null default ''",)

# Where a stranger was told their code: there they hear that they were let in.
_WELCOMES = ("alter table pairing add column conversation text not null default ''",)

# For how long a platform asked not to be called, in one chat or (chat '') at all: that outlives the process.
_PENALTIES = (
    """create table penalty (
        account text not null,
        chat text not null,
        kind text not null,
        until real not null,
        primary key (account, chat)
    ) without rowid""",
)

# Whether a role is that of the settings (else a command of the machine gave it), and whether an identity was joined by
# a code: it opens the door only as long as another one of its person does.
_STANDINGS = (
    "alter table person add column by_settings integer not null default 0",
    "alter table identity add column by_code integer not null default 0",
)

# What foreign text was in sight when a message of ours was written: whoever quotes it brings that back.
_ORIGINS = ("alter table outbox add column origins text not null default '[]'",)

# Files of people, for gateways that share a store: whose each is (empty: the owner's), its path below their folder, and
# its bytes in parts, each a blob by its hash. What is read whole before a turn has a number that each change raises.
_KEPT_FILES = (
    """create table kept_file (
        id integer primary key autoincrement,
        person text not null,
        path text not null,
        hash blob not null,
        size integer not null,
        mode integer not null,
        kept real not null,
        unique (person, path)
    )""",
    "create index kept_file_age on kept_file(kept)",
    """create table kept_part (
        file integer not null references kept_file(id) on delete cascade,
        n integer not null,
        hash blob not null references blob(hash),
        primary key (file, n)
    ) without rowid""",
    "create index kept_part_hash on kept_part(hash)",
    """create table kept_folder (
        person text not null,
        folder text not null,
        revision integer not null,
        primary key (person, folder)
    ) without rowid""",
)

#: Requests that clients may send again: where the first went, for as long as a repetition is known.
_REPEATS = (
    """create table api_repeat (
        name text primary key,
        mark text not null,
        conversation text not null,
        message text not null,
        until real not null
    ) without rowid""",
    "create index api_repeat_until on api_repeat(until)",
    "create index api_repeat_conversation on api_repeat(conversation)",
)

# How well a node can answer, and what it tells the others of itself; and what a conversation was found to need.
_ABILITIES = (
    "alter table node add column serves integer not null default 2",
    "alter table node add column providers text not null default ' '",
    "alter table node add column facts text not null default ''",
    "alter table conversation add column needs text not null default ''",
)

#: Who is signed in on the page, and how fast passwords are tried.
_SIGN_INS = (
    """create table sign_in (
        digest text primary key,
        bound text not null,
        home text not null,
        token text not null,
        expires real not null
    ) without rowid""",
    "create index sign_in_expires on sign_in(expires)",
    """create table pace (
        name text primary key,
        until real not null
    ) without rowid""",
)

# The settings that concern all gateways: names on the way to each, and its value, as JSON.
_SHARED_SETTINGS = (
    """create table shared_setting (
        key text primary key,
        value text not null,
        changed real not null,
        changed_by text not null
    ) without rowid""",
)

# Accounts at providers that all leave alone for a while.
_UNWELL = ("create table unwell_account (name text primary key, until real not null) without rowid",)

MIGRATIONS: tuple[Migration, ...] = (
    Migration(1, 1, (*_TABLES, *_INDEXES, statements.CREATE_SEARCH, statements.START_SEARCH)),
    Migration(2, 1, _TURNS_AND_BREAKS),
    Migration(3, 1, _TURNS),
    Migration(4, 1, _PEOPLE),
    Migration(5, 1, _DAILY),
    Migration(6, 1, _DAMAGE),
    Migration(7, 1, _FIRST_TEXTS),
    Migration(8, 1, (*_APPROVALS, *_HABITS, *_LAST_HEARD, *_DRAFTS, *_WELCOMES, *_PENALTIES, *_STANDINGS, *_ORIGINS)),
    Migration(9, 1, (*_KEPT_FILES, *_REPEATS, *_ABILITIES, *_SIGN_INS, *_SHARED_SETTINGS, *_UNWELL)),
)
SCHEMA_VERSION = MIGRATIONS[-1].version


def check_readable(db: Transaction) -> int:
    """The layout version of the store (0: no tables yet); StoreFailure when this program is too old for it."""
    if not db.execute(statements.HAS_META).rows:
        return 0
    min_reader = _read_number(db, "min_reader")
    if min_reader > SCHEMA_VERSION:
        raise StoreFailure(
            f"The store was written by a newer version of Hermes: it needs layout {min_reader}, "
            f"and this program knows up to {SCHEMA_VERSION}.",
            kept="Nothing was changed.",
            fix="Update Hermes, or use another store: store.url names a database, HERMES_HOME a folder.",
        )
    return _read_number(db, "schema")


def check_company(db: Transaction) -> None:
    """StoreFailure when gateways live that could not work with the newest layout: it is not made beside them."""
    layout = check_readable(db)
    if 0 < layout < MIGRATIONS[-1].min_reader and (living := db.execute(statements.LIVING_NODES).rows):
        named = ", ".join(f"{address} (version {version})" for address, version in living)
        raise StoreFailure(
            f"Earlier versions could not use the store after this one has begun, and they work on it now: {named}.",
            kept="Nothing was changed.",
            fix="Stop those gateways (`hermes gateway stop` there), then start this one.",
        )


def migrate(db: Transaction, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring the store to the newest layout, inside a writing transaction."""
    version = check_readable(db)
    for migration in migrations:
        if migration.version > version:
            db.run(*(Sql(statement) for statement in migration.statements))
            db.execute(statements.SET_META, ("schema", str(migration.version)))
            db.execute(statements.SET_META, ("min_reader", str(migration.min_reader)))


def _read_number(db: Transaction, key: str) -> int:
    row = db.execute(statements.GET_META, (key,)).first
    if row is None or not str(row[0]).isdigit():
        raise StoreFailure(
            "This file is not a store of Hermes, or its description is damaged.",
            kept="Nothing was changed.",
            fix=f"Move {STORE_FILE} away to start with an empty store, or restore a backup.",
        )
    return int(row[0])
