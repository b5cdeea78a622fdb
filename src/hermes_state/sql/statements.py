"""Every SQL statement that reads or writes the store, by name; columns are named, so that added ones do no harm."""

# --- meta
HAS_META = "select 1 from stored_tables where name = 'meta'"
GET_META = "select value from meta where key = ?"
SET_META = "insert into meta (key, value) values (?, ?) on conflict (key) do update set value = excluded.value"
LIVING_NODES = "select address, version from node where expires > clock() order by address, id"

# --- conversations and sessions
_INFO = (
    "s.id, s.conversation, s.task, s.parent, s.platform, s.model, s.title, s.started, s.updated, s.ended, "
    "s.end_reason, s.version, s.messages, s.preview, (select o.person from conversation o where o.id = s.conversation)"
)
GET_SESSION = f"select {_INFO} from session s where s.id = ?"
LAST_OF_TASK = (
    f"select {_INFO} from session s where s.task = ? "
    "order by s.updated desc, s.successor is not null, s.id desc limit 1"
)
GET_CURRENT = f"select {_INFO} from conversation c join session s on s.id = c.current where c.id = ?"
GET_STANDING = "select s.id, s.version from conversation c join session s on s.id = c.current where c.id = ?"
_HEAD = (
    "s.conversation, s.task, s.version, s.writer, s.ended, s.end_reason, s.successor, s.messages, s.preview, "
    "s.platform, s.model, s.title, (select value from meta where key = 'search'), "
    "(select coalesce(max(id), 0) from message)"
)
GET_HEAD = f"select {_HEAD} from session s where s.id = ?"
#: For the owner of a conversation alone; nothing but nulls, when there is no such session.
GET_OWN_HEAD = (
    f"select {_HEAD} from conversation c left join session s on s.id = :session "
    "where c.id = :conversation and c.epoch = :epoch and c.owner = :node for update of c"
)
#: Whose a conversation is decides about all that hangs on it. The first is for what has few conversations of a person
#: among many, the second for what is read in its own order.
_OF_PERSON = "conversation in (select id from conversation where person = ?)"
_IS_OF_PERSON = "exists (select 1 from conversation o where o.id = {}.conversation and o.person = ?)"
#: All read the newest `limit` entries of an index, from a time on backwards, and stop.
_RECENT = f"select {_INFO} from session s where s.messages > 0 and {{}}s.updated < ? "
_NEWEST = "order by s.updated desc, s.id desc limit ?"
#: By whether a conversation and whether a person is asked for.
RECENT_SESSIONS = {
    (False, False): _RECENT.format("") + _NEWEST,
    (True, False): _RECENT.format("s.conversation = ? and ") + _NEWEST,
    (False, True): _RECENT.format(f"s.{_OF_PERSON} and ") + _NEWEST,
    (True, True): _RECENT.format(f"s.conversation = ? and s.{_OF_PERSON} and ") + _NEWEST,
}
RECENT_OF_OWNER = _RECENT.format(f"{_IS_OF_PERSON.format('s')} and ") + _NEWEST
#: The current sessions whose first text begins so, of conversations whose names do; by the text's index.
SESSIONS_BEGUN_SO = (
    f"select {_INFO} from session s join conversation c on c.id = s.conversation and c.current = s.id "
    "where s.messages > 0 and s.preview >= ? and s.preview < ? "
    f"and s.conversation >= ? and s.conversation < ? {_NEWEST}"
)
ADD_SESSION = (
    "insert into session (id, conversation, task, parent, platform, model, title, started, updated) "
    "values (?, ?, ?, ?, ?, ?, ?, clock(), clock()) on conflict (id) do nothing"
)
ADD_CONVERSATION = "insert into conversation (id) values (?) on conflict (id) do nothing"
#: Whose a conversation is does not change any more.
ASSIGN = "update conversation set person = ? where id = ? and person = ''"
IS_ANOTHERS = "select 1 from conversation where id = ? and person not in ('', ?)"
SET_CURRENT = "update conversation set current = ? where id = ?"
#: Whoever is not the owner moves a conversation only while no message of it is open: one statement, over all processes,
#: and on the one row that every message passes through.
SET_CURRENT_OF_IDLE = "update conversation set current = ? where id = ? and pending = 0"
#: What is decided about a conversation, or about a session in it, holds until the transaction ends.
LOCK_CONVERSATION = "select 1 from conversation where id = ? for update"
LOCK_CONVERSATION_OF = "select 1 from session s join conversation c on c.id = s.conversation where s.id = ? for update"
#: A turn of the current session that a living process has begun and not ended.
IS_AT_WORK = (
    "select 1 from session s join conversation c on c.id = s.conversation and c.current = s.id "
    "join node o on o.id = c.owner and o.expires > clock() where s.id = ? and exists "
    " (select 1 from inbox i where i.conversation = c.id and i.done_epoch is null and i.begun is not null)"
)
#: Where the session's conversation goes on, if it stands in this one.
MOVE_CURRENT = (
    "update conversation set current = :next where current = :session "
    "and id = (select conversation from session where id = :session)"
)
#: A transcript that has moved on is left alone.
ADVANCE_SESSION = (
    "update session set version = :version, writer = :writer, messages = :messages, preview = :preview, "
    "updated = clock() where id = :session and version = :base and successor is null"
)
END_CURRENT = (
    "update session set ended = clock(), end_reason = ? "
    "where ended is null and id = (select current from conversation where id = ?)"
)
END_SESSION = "update session set ended = clock(), end_reason = ? where id = ? and ended is null"
#: What was allowed in a conversation is allowed until it begins anew, also if it is gone on with later (G4).
_END_RULES = "delete from approval_rule where task <> '' and task = (select s.task from session s where s.id = {})"
END_RULES = _END_RULES.format("?")
END_RULES_OF_CURRENT = _END_RULES.format("(select current from conversation where id = ?)")
#: Only where the transcript stands as its writer left it.
SET_SUCCESSOR = "update session set successor = ? where id = ? and version = ? and successor is null"
REOPEN_SESSION = (
    "update session set ended = null, end_reason = null, successor = null where id = ? and conversation = ?"
)
SET_TITLE = "update session set title = ? where id = ?"
DELETE_SESSION = "delete from session where id = ?"
#: What could not be read of it is deleted with it.
DELETE_DAMAGED = "delete from damaged where session = ?"

# --- rows and what was sent
_SEQ = "cast(:seq as integer)"  # null has no type of its own
#: Rows and calls of a turn (a `seq`) are numbered after those that it has already; the others have no number.
ADD_MESSAGE = (
    "insert into message (session, position, conversation, seq, n, epoch, writer, kind, body, shown, created) "
    f"select :session, :position, :conversation, {_SEQ}, "
    f"case when {_SEQ} is not null then coalesce(max(n), 0) + 1 end, :epoch, :writer, :kind, :body, :shown, "
    f"clock() from message where conversation = :conversation and seq = {_SEQ}"
)
GET_MESSAGES = (
    "select id, position, kind, bytes_of(body), shown from message "
    "where session = ? and position >= ? and position < ? "
    "order by position"
)
GET_HEADS = "select id, position, bytes_of(body) from message where session = ? and kind = 'head' order by position"
GET_PAGE = (
    "select id, position, kind, bytes_of(body), shown, created, coalesce(seq, 0), coalesce(n, 0) from message "
    "where session = ? and position >= ? and position < ? "
    "order by position"
)
GET_SENT = (
    "select e.place, e.dialect, b.body, e.hash from sent e join blob b on b.hash = e.hash "
    "where e.session = ? and e.place >= ? and e.place < ?"
)
#: What stands there under the same hash is the same, unless the disk damaged it: then this is its repair.
ADD_BLOB = (
    "insert into blob (hash, body) values (?, ?) "
    "on conflict (hash) do update set body = excluded.body where blob.body <> excluded.body"
)
GET_SENT_HASH = "select hash from sent where session = ? and place = ? and dialect = ?"
SET_SENT = (
    "insert into sent (session, place, dialect, hash) values (?, ?, ?, ?) "
    "on conflict (session, place, dialect) do update set hash = excluded.hash"
)
COPY_PARTS = (
    "insert into sent (session, place, dialect, hash) "
    "select ?, place, dialect, hash from sent where session = ? and place < 0"
)
GET_HASHES = "select distinct hash from sent where session = ?"
DROP_UNUSED_BLOB = (
    "delete from blob where hash = ? and not exists (select 1 from sent where sent.hash = blob.hash) "
    "and not exists (select 1 from kept_part where kept_part.hash = blob.hash)"
)

# --- ledger
ADD_USAGE = (
    "insert into usage (conversation, session, task, seq, call, provider, model, kind, input_tokens, "
    "cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost, settled, turn, saved, created) "
    f"select :conversation, :session, :task, {_SEQ}, case when {_SEQ} is not null then coalesce(max(call), 0) + 1 end, "
    ":provider, :model, :kind, :input_tokens, :cache_read_tokens, :cache_write_tokens, :output_tokens, "
    ":reasoning_tokens, cast(:cost as real), :settled, :turn, cast(:saved as real), clock() "
    f"from usage where conversation = :conversation and seq = {_SEQ}"
)
_SUMS = (
    "count(*), coalesce(sum(input_tokens), 0), coalesce(sum(cache_read_tokens), 0), "
    "coalesce(sum(cache_write_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(reasoning_tokens), 0), "
    "coalesce(sum(cost), 0.0), count(*) - count(cost), count(*) filter (where settled = 0), coalesce(sum(saved), 0.0)"
)
#: By whether a session and whether a task is asked for: the statements on the ledger are written so, too. Each has its
#: own index, so that reading a session or a task does not read the ledger.
_SINCE = {
    (False, False): "where created >= ?",
    (True, False): "where session = ? and created >= ?",
    (False, True): "where task = ? and created >= ?",
    (True, True): "where session = ? and task = ? and created >= ?",
}
#: Null stands for everybody. The person is given twice.
_READ_BY = f"(cast(? as text) is null or {_IS_OF_PERSON})"
_ANYBODY_OR = f" and {_READ_BY.format('usage')}"
SUM_USAGE = {asked: f"select {_SUMS} from usage {since}{_ANYBODY_OR}" for asked, since in _SINCE.items()}
#: Grouped by those of day, provider, model and turn whose flag is set. Programs of layout 1 leave the turn empty.
_SPLIT_USAGE = (
    "select case when ? then local_day(created) end as by_day, case when ? then provider end "
    "as by_provider, case when ? then model end as by_model, case when ? then coalesce(turn, '') end as by_turn, "
    f"min(created) as first, {_SUMS} from usage "
)
_SPLIT = f"{_ANYBODY_OR} group by by_day, by_provider, by_model, by_turn order by first, min(id)"
SPLIT_USAGE = {asked: _SPLIT_USAGE + since + _SPLIT for asked, since in _SINCE.items()}
ADD_BREAK = (
    "insert into prefix_break (conversation, session, task, reason, position, created) "
    "values (:conversation, :session, :task, :reason, :position, clock())"
)
_GET_BREAKS = "select session, reason, position, created from prefix_break "
GET_BREAKS = {asked: f"{_GET_BREAKS}{since} order by created, id" for asked, since in _SINCE.items()}

# --- search: the first ones are names, behind which each engine has its own statement
CREATE_SEARCH = "create the search index"
DROP_SEARCH = "drop the search index"
ADD_SEARCH = "add a row's text to the search index"
ADD_SEARCH_AT = "add a text to the search index, of the row at a place of a session"
TAKE_SEARCH = "take a row's text out of the search index"
TIDY_SEARCH = "let nothing of what was taken out be left"
#: Likewise of the numbers that the engine gives to the rows of a table (its name; its name and a number). The second
#: is for a table that has none yet.
LAST_NUMBER = "the highest number that was given in a table"
GO_ON_AFTER = "rows of a table get higher numbers than this one"
_HIT = "m.id, m.session, m.position, m.kind, bytes_of(m.body), m.shown, m.created"
SEARCH = (
    f"select {_HIT} from search f join message m on m.id = search_row "
    f"where search_matches(?) and {_READ_BY.format('m')} order by search_row desc limit ?"
)
MESSAGES_BEHIND = f"select {_HIT} from message m where m.id > ? and {_READ_BY.format('m')} order by m.id desc limit ?"
#: What it says is read in `search_index`; without the entry there is no index.
START_SEARCH = "insert into meta (key, value) values ('search', '0 0')"
STOP_SEARCH = "delete from meta where key = 'search'"
#: The newest sessions by an index, whatever they are called: as many as a person waits for.
TITLES = (
    "select id, title, updated from (select s.id, s.title, s.updated from session s "
    f"where s.messages > 0 and {_READ_BY.format('s')} order by s.updated desc, s.id desc limit ?) subquery_newest "
    "where title <> ''"
)
LAST_MESSAGE = "select coalesce(max(id), 0) from message"
MESSAGES_AFTER = "select id, kind, bytes_of(body), shown from message where id > ? order by id limit ?"
MESSAGES_OF_SESSION = "select id, kind, bytes_of(body), shown from message where session = ?"
