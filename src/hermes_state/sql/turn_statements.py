"""Every SQL statement on messages, turns and ownership, by name.

An open message has no `done_epoch`, an open outbox row no `ended`; both conditions are written as in the partial
indexes, so that those are used. What decides about a write stands in its own conditions wherever it can.
"""

# --- processes
_LIVES = "exists (select 1 from node {0} where {0}.id = {1} and {0}.expires > clock(){2})"
#: A living node `b` serves what is needed better than `m`: the usual model (empty), or a provider that was chosen.
_BETTER = (
    "exists (select 1 from node b where b.expires > clock() and b.draining = 0 and case when {0} = '' "
    "then b.serves > m.serves else b.providers like '% ' || {0} || ' %' and m.providers not like '% ' || {0} || ' %' "
    "end)"
)
_MAY_CLAIM = _LIVES.format("m", ":node", f" and m.draining = 0 and not {_BETTER.replace('{0}', '{0}.needs')}")
ADD_NODE = (
    "insert into node (id, expires, version, capacity, address, serves, providers, facts) "
    "values (:id, clock() + :lease, :version, :capacity, :address, :serves, :providers, :facts)"
)
DESCRIBE_NODE = "update node set serves = :serves, providers = :providers, facts = :facts where id = :node"
DELETE_NODES = "delete from node where expires < clock() - :kept"
DELETE_NODE = "delete from node where id = :node"
BEAT = "update node set expires = clock() + :lease where id = :node and expires > clock()"
DRAIN = "update node set draining = 1 where id = :node"
_BEST = "(select max(b.serves) from node b where b.expires > clock() and b.draining = 0)"
COUNT_OWNED = (
    f"select (select count(*) from node where expires > clock() and draining = 0 and serves = {_BEST}), "
    "count(*), count(*) filter (where c.owner = :node), "
    f"coalesce((select m.serves >= {_BEST} from node m where m.id = :node), 1 = 1) "
    "from node n join conversation c on c.owner = n.id where n.expires > clock()"
)
#: A process that was taken for dead goes on asking as the node that it is now.
TAKE_QUESTIONS = "update question set node = :id where node = :former and state = 'open'"
NODES = (
    "select n.id, n.version, n.address, n.draining, :lease - (n.expires - clock()), "
    "(select count(*) from conversation c where c.owner = n.id), "
    "(select count(*) from conversation c where c.owner = n.id and c.pending > 0), n.serves, n.facts "
    "from node n where n.expires > clock() order by n.address, n.id"
)
VERSIONS = "select distinct version from node where expires > clock() order by version"
RELEASE_ALL = "update conversation set owner = null where owner = :node"

#: The clock was set back by so much: what was to wait until then waits no longer than it was meant to.
MOVES = (
    "update node set expires = expires - :by where expires > clock()",
    "update lease set expires = expires - :by where owner is not null and expires > clock()",
    "update conversation set ready_at = ready_at - :by where pending > 0 and ready_at > clock()",
    "update inbox set accepted = accepted - :by where done_epoch is null and accepted > clock()",
    "update inbox set retry_at = retry_at - :by where done_epoch is null and retry_at > clock()",
    "update outbox set retry_at = retry_at - :by where ended is null and retry_at > clock()",
    "update approval_rule set expires = expires - :by where expires > clock()",
    "update pairing set expires = expires - :by where expires > clock()",
    "update link_code set expires = expires - :by where expires > clock()",
    "update question set expires = expires - :by where state = 'open' and expires > clock()",
    "update penalty set until = until - :by where until > clock()",
    "update sign_in set expires = expires - :by where expires > clock()",
    "update pace set until = until - :by where until > clock()",
    "update api_repeat set until = until - :by where until > clock()",
)

# --- ownership
_DUE = (
    "exists (select 1 from inbox i where i.conversation = c.id and i.done_epoch is null and i.retry_at <= clock() "
    "order by i.seq)"
)
_TAKE = "update conversation set owner = :node, last_owner = :node, epoch = epoch + 1 where "
#: Work without a living owner; for a moment it waits for the living node that had the conversation last. That nobody
#: has taken it since this statement began is a condition of its own: of a row that was changed meanwhile the engine
#: looks at the conditions again when it locks it, but not at those that are joined with other tables, and two had it.
#: The other statements that take something wait for the row's lock before they begin.
CLAIM = (
    "with subquery_due as materialized (select c.id from conversation c "
    f"where c.pending > 0 and c.ready_at <= clock() - :age and {_MAY_CLAIM.format('c')} "
    f"and not {_LIVES.format('o', 'c.owner', '')} "
    "and c.epoch = (select e.epoch from conversation e where e.id = c.id) and (c.last_owner = :node "
    f"or c.ready_at < clock() - :grace or not {_LIVES.format('l', 'c.last_owner', ' and l.draining = 0')}) "
    f"and {_DUE} order by c.ready_at, c.id limit :limit for update of c skip locked) "
    f"{_TAKE} id in (select id from subquery_due) returning ready_at, id, epoch"
)
CLAIM_ONE = (
    f"{_TAKE} id = :conversation and not {_LIVES.format('o', 'conversation.owner', '')} "
    f"and {_MAY_CLAIM.format('conversation')}"
)
GET_CLAIM = (
    f"select epoch from conversation where id = :conversation and owner = :node and {_LIVES.format('m', ':node', '')}"
)
LIVING_OWNER = f"select c.owner from conversation c where c.id = :conversation and {_LIVES.format('o', 'c.owner', '')}"
FIND_READY = (
    f"select c.id, c.epoch from conversation c where c.owner = :node and c.pending > 0 and {_DUE} "
    "order by c.ready_at, c.id"
)
RELEASE = "update conversation set owner = null where id = :conversation and epoch = :epoch and owner = :node"
#: Nobody is waited for any more: whoever has room may take it.
GIVE_UP = f"{RELEASE.replace('owner = null', 'owner = null, last_owner = null', 1)} and pending = 0"
#: How often the files were changed that a turn for this person reads: their memory, and the skills of all.
GET_REVISIONS = (
    "select folder, revision from kept_folder "
    "where (person = :person and folder = 'memories') or (person = '' and folder = 'skills')"
)
#: To a living node that serves it better.
PASS_ON = (
    "update conversation set needs = :needs, owner = null, last_owner = null where id = :conversation "
    "and epoch = :epoch and owner = :node and exists (select 1 from node m where m.id = :node "
    f"and {_BETTER.format('cast(:needs as text)')})"
)
FENCE = "select 1 from conversation where id = :conversation and epoch = :epoch and owner = :node for update"
#: Each half reads the first entries of its index and stops.
HOLDINGS = (
    f"select c.id, c.epoch, coalesce(c.owner, ''), {_LIVES.format('o', 'c.owner', '')}, c.pending from conversation c "
    "where c.id in (select id from (select id from conversation where pending > 0 order by ready_at limit :limit) "
    "subquery_waiting union all select id from (select id from conversation where owner is not null "
    "order by owner limit :limit) subquery_owned) order by c.pending = 0, c.ready_at, c.id limit :limit"
)

# --- messages
#: A conversation begins with its first message.
COUNT_IN = (
    "insert into conversation (id, next_seq, pending, ready_at) values (:conversation, 1, 1, clock()) "
    "on conflict (id) do update set next_seq = conversation.next_seq + 1, pending = conversation.pending + 1, "
    "ready_at = case when conversation.pending = 0 then clock() else conversation.ready_at end"
)
#: What was seen before is not added.
ADD_MESSAGE = (
    "insert into inbox (conversation, seq, account, ext_id, body, accepted) "
    "select id, next_seq, :account, :ext_id, :body, clock() from conversation where id = :conversation "
    "on conflict (account, ext_id) do nothing returning seq"
)
SET_LAST_HEARD = (
    "insert into last_heard (account, chat, thread, kind, conversation, message) "
    "values (:account, :chat, :thread, :kind, :conversation, :message) "
    "on conflict (account, chat, thread) do update set kind = excluded.kind, conversation = excluded.conversation, "
    "message = excluded.message"
)
GET_LAST_HEARD = "select chat, kind, thread, message from last_heard where account = :account"
#: `:first` and `:end` enclose the names that begin with the stem; `:length` is the stem's, with its stroke.
FIND_REVISIONS = (
    "select seq, begun is not null, done_epoch is not null from inbox "
    "where account = :account and ext_id >= :first and ext_id < :end "
    "and substr(ext_id, :length + 1) not like '%/%' order by seq"
)
WAITING = (
    "select i.seq, bytes_of(i.body), i.attempts, i.taken, i.accepted, i.begun, i.draft, clock() from inbox i "
    "where i.conversation = :conversation and i.done_epoch is null and i.retry_at <= clock() "
    "and exists (select 1 from conversation c where c.id = :conversation and c.epoch = :epoch and c.owner = :node) "
    "order by i.seq limit :limit"
)
NOTE_DRAFT = (
    "update inbox set draft = :message where conversation = :conversation and seq = :seq and done_epoch is null"
)
OPEN_SEQS = """select seq from inbox where conversation = :conversation and done_epoch is null order by seq"""
INBOX_SINCE = (
    "select seq, bytes_of(body) from inbox where conversation = :conversation and seq > :after "
    "order by seq limit :limit"
)
INBOX_TIMES = (
    "select seq, accepted, coalesce(begun, 0) from inbox "
    "where conversation = :conversation and seq >= :first and seq <= :last"
)
COUNT_ROWS = "select coalesce(max(n), 0) from message where conversation = :conversation and seq = :seq"
COUNT_OPEN = (
    "select (select count(*) from inbox where done_epoch is null), (select count(*) from outbox where ended is null)"
)

# --- a turn
BEGIN_MESSAGE = (
    "update inbox set attempts = attempts + 1, begun = coalesce(begun, clock()) "
    "where conversation = :conversation and seq = :seq and done_epoch is null "
    "returning seq, attempts, taken, begun, clock()"
)
GET_DONE = "select done_epoch from inbox where conversation = :conversation and seq = :seq"
TAKE_MESSAGE = "update inbox set taken = 1 where conversation = :conversation and seq = :seq"
CLOSE_MESSAGE = (
    "update inbox set done_epoch = :epoch, done = clock() "
    "where conversation = :conversation and seq = :seq and done_epoch is null and exists "
    "(select 1 from conversation c where c.id = :conversation and c.epoch = :epoch and c.owner = :node)"
)
COUNT_OUT = (
    "update conversation set pending = pending - :closed where id = :conversation and epoch = :epoch and owner = :node"
)
POSTPONE = (
    "update inbox set error = :error, retry_at = :retry_at "
    "where conversation = :conversation and seq = :seq and done_epoch is null"
)
SET_STEP = (
    "insert into turn_step (conversation, seq, n, epoch, kind, body) "
    "values (:conversation, :seq, :n, :epoch, :kind, :body) on conflict (conversation, seq, n) "
    "do update set epoch = excluded.epoch, kind = excluded.kind, body = excluded.body"
)
#: What a turn has shown so far, for those who look on from elsewhere: its step 0. Of a turn that is over none is kept.
KEEP_SHOWN = (
    "insert into turn_step (conversation, seq, n, epoch, kind, body) "
    "select i.conversation, i.seq, 0, :epoch, 'shown', :body from inbox i "
    "where i.conversation = :conversation and i.seq = :seq and i.done_epoch is null and exists "
    "(select 1 from conversation c where c.id = :conversation and c.epoch = :epoch and c.owner = :node) for update "
    "on conflict (conversation, seq, n) do update set epoch = excluded.epoch, body = excluded.body"
)
GET_SHOWN = "select epoch, bytes_of(body) from turn_step where conversation = :conversation and seq = :seq and n = 0"
GET_STEPS = (
    "select n, kind, bytes_of(body) from turn_step "
    "where conversation = :conversation and seq = :seq and n > 0 order by n"
)
DELETE_STEPS = "delete from turn_step where conversation = :conversation and seq = :seq"

# --- control
ADD_CONTROL = (
    "insert into control (conversation, kind, body, created) values (:conversation, :kind, :body, clock()) returning id"
)
GET_CONTROL = "select taken_by is not null, bytes_of(body) from control where id = :id"
WITHDRAW_CONTROL = "delete from control where id = :id and taken_by is null"
END_CONTROL = "update control set body = :body where id = :id"
TAKE_CONTROLS = (
    "update control set taken_by = :node, taken_at = clock() where taken_by is null and exists "
    "(select 1 from conversation c where c.id = control.conversation and c.owner = :node) "
    "returning id, conversation, kind, bytes_of(body), created"
)

# --- leases
ADD_LEASE = "insert into lease (name) values (:name) on conflict (name) do nothing"
#: What a dead node held is free at once.
HOLD = (
    "update lease set epoch = epoch + (case when owner = :node and expires > clock() then 0 else 1 end), "
    "owner = :node, expires = clock() + :ttl where name = :name and (owner = :node or expires <= clock() "
    f"or not {_LIVES.format('o', 'lease.owner', '')}) and exists (select 1 from node where id = :node) returning epoch"
)
LEASES = (
    "select lease.name, owner, epoch, node.address from lease join node on node.id = owner "
    "where owner is not null and lease.expires > clock() and node.expires > clock() order by lease.name"
)
DROP = "update lease set owner = null, expires = 0 where name = :name and owner = :node"
DROP_OF_NODE = "update lease set owner = null, expires = 0 where owner = :node"
DROP_ALL = "update lease set owner = null, expires = 0 where owner is not null"
CHECK_LEASE = "select 1 from lease where name = :account and epoch = :lease_epoch and owner is not null"

# --- delivery
_ROW = "id, conversation, seq, n, bytes_of(body), state, attempts, parts_sent, bytes_of(platform_ids), unsure, created"
#: Numbered after those that the turn has already; of one name there is one.
ADD_ANSWER = (
    "insert into outbox (conversation, seq, n, name, account, chat, body, state, created, held_for, hold_until, "
    "reader, note, note_origin, origins) "
    "select :conversation, :seq, coalesce(max(n), 0) + 1, :name, :account, :chat, :body, 'waiting', clock(), "
    ":held_for, :hold_until, :reader, :note, :note_origin, :origins "
    "from outbox where conversation = :conversation and seq = :seq "
    "on conflict (conversation, name) where name is not null do nothing"
)
#: What waits for the end of somebody's quiet hours is not there for whoever sends; the rest goes past it.
_UNSENT = "account = :account and {}ended is null and hold_until <= clock()"
FIND_CHATS = f"select chat from outbox where {_UNSENT.format('')} group by chat order by min(id)"
TAKE_UNSENT = (
    "update outbox set state = 'sending', lease_epoch = :lease_epoch, attempts = attempts + 1, "
    "unsure = case when state = 'sending' then 1 else unsure end where retry_at <= clock() and id = (select o.id "
    f"from outbox o where {_UNSENT.format('chat = :chat and ')} order by o.id limit 1) "
    "and exists (select 1 from lease where name = :account and epoch = :lease_epoch and owner is not null) "
    f"returning {_ROW}"
)
#: Until when the first message of a chat waits.
FIRST_RETRY = (
    f"select o.retry_at - clock() from outbox o where {_UNSENT.format('chat = :chat and ')} order by o.id limit 1"
)
DROP_PENALTIES = "delete from penalty where until <= clock()"
NOTE_PENALTY = (
    "insert into penalty (account, chat, kind, until) values (:account, :chat, :kind, clock() + :seconds) "
    "on conflict (account, chat) do update set until = greatest(penalty.until, excluded.until)"
)
GET_PENALTIES = "select chat, kind, until - clock() from penalty where account = :account and until > clock()"
#: Whoever sends it under this lease has come so far. `:id` is the platform's, as JSON; `:keep` is 0 when an older doubt
#: is over.
_LOST = ":state = 'waiting' and reader = '-'"  # what comes back unsent, and has no reader any more
SET_PROGRESS = (
    f"update outbox set state = case when {_LOST} then 'failed' else :state end, "
    "parts_sent = parts_sent + :parts, platform_ids = case when :parts = 0 then "
    "platform_ids else substr(platform_ids, 1, length(platform_ids) - 1) || "
    "case when platform_ids = '[]' then '' else ', ' end || :id || ']' end, "
    "unsure = greatest(unsure * :keep, :doubt), retry_at = :retry_at, "
    f"reason = case when {_LOST} then reason else :reason end, "
    f"ended = case when :over = 1 or ({_LOST}) then clock() end "
    "where id = :row and lease_epoch = :lease_epoch and state = 'sending' returning account, chat"
)
#: Its reader lost access while it was being sent by a process that is gone.
END_UNREAD = "update outbox set state = 'failed', ended = clock() where reader = '-' and ended is null and reader <> ''"
#: It has arrived: the model of its conversation hears of it.
ADD_HEARD = (
    "insert into heard_note (conversation, text, origin, created) "
    "select conversation, note, note_origin, clock() from outbox where id = :row and note <> ''"
)
#: That it was noted, now or before.
HAS_PROGRESS = "select account, chat from outbox where id = :row and lease_epoch = :lease_epoch and state = :state"
HAS_UNSENT = "select 1 from outbox where account = ? and chat = ? and ended is null and hold_until <= clock() limit 1"
#: Nobody sends these: they stand where their clients look.
_ARRIVED = "update outbox set state = 'sent', ended = clock() where account = :account and ended is null and "
ARRIVED = f"{_ARRIVED} id = :row returning {_ROW}"
ARRIVED_ALL = f"{_ARRIVED} chat = :chat returning {_ROW}"
SENT_IDS = "select platform_ids, origins from outbox where conversation = :conversation order by id desc limit :limit"
SENT_QUESTIONS = (
    "select platform_ids, name from outbox where conversation = :conversation "
    "and substr(name, 1, length(:prefix)) = :prefix order by id desc limit :limit"
)
SENT_ROWS = (
    "select id, platform_ids from outbox where conversation = :conversation and state in ('sent', 'waiting') "
    "order by id desc limit :limit"
)
#: It has not arrived after all: it waits again from one of its parts on, or is kept with the reason.
RETURN_SENT = (
    "update outbox set state = :state, parts_sent = :parts, platform_ids = :ids, unsure = 0, retry_at = 0, "
    "reason = :reason, ended = case when :over = 1 then clock() end where id = :row "
    f"returning {_ROW}"
)
UNSENT = f"select {_ROW} from outbox where account = :account and chat = :chat and ended is null order by id"
UNSENT_CHATS = (
    "select account, chat, count(*), min(created), max(attempts) > 1 or max(retry_at) > 0 from outbox "
    "where ended is null group by account, chat order by min(created) limit :limit"
)
COUNT_UNSENT = "select account, count(*) from outbox where ended is null group by account"
REFUSED = (
    "select account, chat, ended, reason from outbox where ended is not null and ended > :since and state = 'failed' "
    "order by ended desc limit :limit"
)
OUTBOX_SINCE = f"select {_ROW} from outbox where conversation = :conversation and id > :after order by id limit :limit"
OUTBOX_NAMED = f"select {_ROW} from outbox where conversation = :conversation and name = :name"
OUTBOX_OF = f"select {_ROW} from outbox where conversation = :conversation and seq = :seq order by n"
OUTBOX_FROM = (
    f"select {_ROW} from outbox where conversation = :conversation and created >= :since order by id limit :limit"
)
FIND_NAMED = "select state, reason, body from outbox where conversation = :conversation and name = :name"
FIND_AGE = "select clock() - ended from outbox where conversation = :conversation and name = :name and state = 'sent'"
_HELD = "ended is null and hold_until > 0 and hold_until > clock()"
COUNT_HELD = f"select count(*), coalesce(min(hold_until), 0) from outbox where {_HELD}"
COUNT_HELD_FOR = f"{COUNT_HELD} and held_for = :person"
HOLD_ANEW = f"update outbox set hold_until = :until where held_for = :person and {_HELD}"
LATEST = (
    "select greatest(coalesce((select max(id) from outbox where conversation = :conversation), 0), "
    "coalesce((select last_row from conversation where id = :conversation), 0)), "
    "coalesce((select next_seq from conversation where id = :conversation), 0)"
)

#: Of several conversations at once; `{}` is as many question marks.
STANDINGS = (
    "select c.id, c.epoch, greatest(coalesce((select max(o.id) from outbox o where o.conversation = c.id), 0), "
    "coalesce(c.last_row, 0)), coalesce(s.id, ''), coalesce(s.version, 0) "
    "from conversation c left join session s on s.id = c.current where c.id in ({})"
)
OPEN_MESSAGES = "select conversation, seq from inbox where conversation in ({}) and done_epoch is null"

# --- choices
GET_CHOICES = "select bytes_of(choices), person from conversation where id = :conversation"
SET_CHOICES = "update conversation set choices = :choices where id = :conversation"
