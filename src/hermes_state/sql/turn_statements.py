"""Every SQL statement on messages, turns and ownership, by name.

`:now` is the database's clock, read inside the transaction. An open message has no `done_epoch`, an open outbox row no
`ended`; both conditions are written as in the partial indexes, so that those are used.
"""

# --- processes
ADD_NODE = (
    "insert into node (id, expires, version, capacity, address) values (:id, :expires, :version, :capacity, :address)"
)
DELETE_NODES = "delete from node where expires < :before"
DELETE_NODE = "delete from node where id = :node"
BEAT = "update node set expires = :expires where id = :node and expires > :now"
DRAIN = "update node set draining = 1 where id = :node"
GET_NODE = "select draining from node where id = :node and expires > :now"
COUNT_NODES = "select count(*) from node where expires > :now"
COUNT_OWNED = (
    "select count(*), coalesce(sum(c.owner = :node), 0) from node n join conversation c on c.owner = n.id "
    "where n.expires > :now"
)
RELEASE_ALL = "update conversation set owner = null where owner = :node"

#: The clock was set back by so much: what was to wait until then waits no longer than it was meant to.
MOVE_NODES = "update node set expires = expires - :by where expires > :now"
MOVE_LEASES = "update lease set expires = expires - :by where owner is not null and expires > :now"
MOVE_READY = "update conversation set ready_at = ready_at - :by where pending > 0 and ready_at > :now"
MOVE_ACCEPTED = "update inbox set accepted = accepted - :by where done_epoch is null and accepted > :now"
MOVE_RETRIED = "update inbox set retry_at = retry_at - :by where done_epoch is null and retry_at > :now"
MOVE_UNSENT = "update outbox set retry_at = retry_at - :by where ended is null and retry_at > :now"

# --- ownership
_DUE = (
    "exists (select 1 from inbox i where i.conversation = c.id and i.done_epoch is null and i.retry_at <= :now "
    "order by i.seq)"
)
#: Work without a living owner; for a moment it waits for the living node that had the conversation last.
FIND_WORK = (
    "select c.id from conversation c where c.pending > 0 and c.ready_at <= :before "
    "and not exists (select 1 from node o where o.id = c.owner and o.expires > :now) "
    "and (c.last_owner = :node or c.ready_at < :grace or not exists "
    "(select 1 from node l where l.id = c.last_owner and l.expires > :now and l.draining = 0)) "
    f"and {_DUE} order by c.ready_at, c.id limit :limit"
)
TAKE = (
    "update conversation set owner = :node, last_owner = :node, epoch = epoch + 1 where id = :conversation "
    "returning epoch"
)
GET_OWNER = (
    "select c.epoch, c.owner, exists (select 1 from node o where o.id = c.owner and o.expires > :now) "
    "from conversation c where c.id = :conversation"
)
FIND_READY = (
    f"select c.id, c.epoch from conversation c where c.owner = :node and c.pending > 0 and {_DUE} "
    "order by c.ready_at, c.id"
)
RELEASE = "update conversation set owner = null where id = :conversation and epoch = :epoch and owner = :node"
FENCE = "select 1 from conversation where id = :conversation and epoch = :epoch and owner = :node"
_HOLDING = (
    "select c.id, c.epoch, coalesce(c.owner, ''), exists (select 1 from node o where o.id = c.owner and "
    "o.expires > :now), c.pending from conversation c where c.id in ({}) order by c.pending = 0, c.ready_at, c.id "
    "limit :limit"
)
#: Each half reads the first entries of its index and stops.
HOLDINGS = _HOLDING.format(
    "select id from (select id from conversation where pending > 0 order by ready_at limit :limit) union all "
    "select id from (select id from conversation where owner is not null order by owner limit :limit)"
)

# --- messages
SEEN = "select 1 from inbox where account = :account and ext_id = :ext_id"
COUNT_IN = (
    "update conversation set next_seq = next_seq + 1, pending = pending + 1, "
    "ready_at = case when pending = 0 then :now else ready_at end where id = :conversation returning next_seq"
)
ADD_MESSAGE = (
    "insert into inbox (conversation, seq, account, ext_id, body, accepted) "
    "values (:conversation, :seq, :account, :ext_id, :body, :now)"
)
#: `:first` and `:end` enclose the names that begin with the stem; `:length` is the stem's, with its stroke.
FIND_REVISIONS = (
    "select seq, begun is not null, done_epoch is not null from inbox "
    "where account = :account and ext_id >= :first and ext_id < :end "
    "and instr(substr(ext_id, :length + 1), '/') = 0 order by seq"
)
WAITING = (
    "select i.seq, cast(i.body as blob), i.attempts, i.taken, i.accepted, i.begun from inbox i "
    "where i.conversation = :conversation and i.done_epoch is null and i.retry_at <= :now "
    "and exists (select 1 from conversation c where c.id = :conversation and c.epoch = :epoch and c.owner = :node) "
    "order by i.seq limit :limit"
)
OPEN_SEQS = """select seq from inbox where conversation = :conversation and done_epoch is null order by seq"""
INBOX_SINCE = (
    "select seq, cast(body as blob) from inbox where conversation = :conversation and seq > :after "
    "order by seq limit :limit"
)
LATEST_SEQ = "select next_seq from conversation where id = :conversation"
COUNT_INBOX = "select count(*) from inbox where done_epoch is null"

# --- a turn
GET_MESSAGE = "select attempts, taken, begun, done_epoch from inbox where conversation = :conversation and seq = :seq"
BEGIN_MESSAGE = (
    "update inbox set attempts = attempts + 1, begun = coalesce(begun, :now) "
    "where conversation = :conversation and seq = :seq"
)
TAKE_MESSAGE = "update inbox set taken = 1 where conversation = :conversation and seq = :seq"
CLOSE_MESSAGE = (
    "update inbox set done_epoch = :epoch, done = :now "
    "where conversation = :conversation and seq = :seq and done_epoch is null"
)
COUNT_OUT = "update conversation set pending = pending - :closed where id = :conversation"
POSTPONE = (
    "update inbox set error = :error, retry_at = :retry_at "
    "where conversation = :conversation and seq = :seq and done_epoch is null"
)
SET_STEP = (
    "insert into turn_step (conversation, seq, n, epoch, kind, body) "
    "values (:conversation, :seq, :n, :epoch, :kind, :body) on conflict (conversation, seq, n) "
    "do update set epoch = excluded.epoch, kind = excluded.kind, body = excluded.body"
)
GET_STEPS = (
    "select n, kind, cast(body as blob) from turn_step where conversation = :conversation and seq = :seq order by n"
)
DELETE_STEPS = "delete from turn_step where conversation = :conversation and seq = :seq"

# --- control
ADD_CONTROL = "insert into control (conversation, kind, body, created) values (:conversation, :kind, :body, :now)"
FIND_CONTROLS = (
    "select k.id, k.conversation, k.kind, cast(k.body as blob), k.created from control k "
    "join conversation c on c.id = k.conversation where k.taken_by is null and c.owner = :node order by k.id"
)
TAKE_CONTROL = "update control set taken_by = :node, taken_at = :now where id = :id"

# --- leases
ADD_LEASE = "insert into lease (name) values (:name) on conflict (name) do nothing"
HOLD = (
    "update lease set epoch = epoch + (case when owner = :node and expires > :now then 0 else 1 end), "
    "owner = :node, expires = :expires where name = :name and (owner = :node or expires <= :now) "
    "and exists (select 1 from node where id = :node) returning epoch"
)
DROP = "update lease set owner = null, expires = 0 where name = :name and owner = :node"
DROP_OF_NODE = "update lease set owner = null, expires = 0 where owner = :node"
DROP_ALL = "update lease set owner = null, expires = 0 where owner is not null"
CHECK_LEASE = "select 1 from lease where name = :account and epoch = :lease_epoch and owner is not null"

# --- delivery
_ROW = (
    "id, conversation, seq, n, cast(body as blob), state, attempts, parts_sent, cast(platform_ids as blob), unsure, "
    "created"
)
NEXT_ANSWER = "select coalesce(max(n), 0) + 1 from outbox where conversation = :conversation and seq = :seq"
HAS_NAME = "select 1 from outbox where conversation = :conversation and name = :name"
ADD_ANSWER = (
    "insert into outbox (conversation, seq, n, name, account, chat, body, state, created) "
    "values (:conversation, :seq, :n, :name, :account, :chat, :body, 'waiting', :now)"
)
FIND_CHATS = "select chat from outbox where account = :account and ended is null group by chat order by min(id)"
FIRST_UNSENT = (
    "select id, state, retry_at from outbox where account = :account and chat = :chat "
    "and ended is null order by id limit 1"
)
TAKE_UNSENT = (
    "update outbox set state = 'sending', lease_epoch = :lease_epoch, attempts = attempts + 1, "
    f"unsure = max(unsure, :unsure) where id = :id returning {_ROW}"
)
GET_SENDING = "select state, lease_epoch, parts_sent, cast(platform_ids as blob), unsure from outbox where id = :id"
SET_PROGRESS = (
    "update outbox set state = :state, parts_sent = :parts_sent, platform_ids = :platform_ids, unsure = :unsure, "
    "retry_at = :retry_at, reason = :reason, ended = :ended where id = :id"
)
OUTBOX_SINCE = f"select {_ROW} from outbox where conversation = :conversation and id > :after order by id limit :limit"
OUTBOX_OF = f"select {_ROW} from outbox where conversation = :conversation and seq = :seq order by n"
OUTBOX_FROM = (
    f"select {_ROW} from outbox where conversation = :conversation and created >= :since order by id limit :limit"
)
LATEST_ROW = (
    "select max(coalesce((select max(id) from outbox where conversation = :conversation), 0), "
    "coalesce((select last_row from conversation where id = :conversation), 0))"
)
COUNT_OUTBOX = "select count(*) from outbox where ended is null"

# --- choices
GET_CHOICES = "select cast(choices as blob) from conversation where id = :conversation"
SET_CHOICES = "update conversation set choices = :choices where id = :conversation"
