"""Every SQL statement on the tables of people, by name."""

# --- people
_PERSON = "p.id, p.name, cast(p.role as blob), p.created"
FIND_PERSON = f"select {_PERSON} from identity i join person p on p.id = i.person where i.platform = ? and i.sender = ?"
GET_PERSON = f"select {_PERSON} from person p where p.id = ?"
GET_OWNER = f"select {_PERSON} from person p where p.role = 'owner'"
GET_PEOPLE = f"select {_PERSON} from person p order by p.created, p.id"
ADD_PERSON = "insert into person (id, name, role, created) values (?, ?, ?, ?) on conflict (id) do nothing"
SET_ROLE = "update person set role = ? where id = ?"
DELETE_PERSON = "delete from person where id = ?"
GET_IDENTITIES = "select platform, sender, person, listed from identity order by person, platform, sender"
GET_IDENTITIES_OF = "select platform, sender, person, listed from identity where person = ? order by platform, sender"
ADD_IDENTITY = (
    "insert into identity (platform, sender, person, listed) values (?, ?, ?, ?) "
    "on conflict (platform, sender) do update set listed = min(listed, excluded.listed)"
)
DELETE_IDENTITIES = "delete from identity where person = ?"
ADD_MARK = "insert into removed_identity (mark) values (?) on conflict (mark) do nothing"
DELETE_MARK = "delete from removed_identity where mark = ?"
HAS_MARK = "select 1 from removed_identity where mark = ?"

# --- requests of strangers
_PAIRING = "code, platform, sender, name, created, expires, chat"
GET_PAIRINGS = f"select {_PAIRING} from pairing where expires > ? order by created, code"
GET_PAIRING_OF = f"select {_PAIRING} from pairing where platform = ? and sender = ? and expires > ?"
COUNT_PAIRINGS = "select count(*) from pairing where platform = ? and expires > ?"
ADD_PAIRING = (
    "insert into pairing (code, platform, sender, name, created, expires, chat) values (?, ?, ?, ?, ?, ?, ?) "
    "on conflict (code) do nothing"
)
DROP_OLD_PAIRINGS = "delete from pairing where expires <= ?"
DROP_PAIRING = "delete from pairing where platform = ? and sender = ?"

# --- questions
_QUESTION = "id, conversation, turn, kind, text, choices, approver, node, created, expires, state, answer, answered_by"
_READ_QUESTION = _QUESTION.replace("choices", "cast(choices as blob)")
GET_QUESTION = f"select {_READ_QUESTION} from question where id = ?"
OPEN_QUESTIONS = (
    f"select {_READ_QUESTION} from question where conversation = ? and state = 'open' and expires > ? "
    "order by created, id"
)
ADD_QUESTION = (
    f"insert into question ({_QUESTION}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (id) do nothing"
)
CLOSE_QUESTION = "update question set state = ?, answer = ?, answered_by = ? where id = ? and state = 'open'"
EXPIRE_QUESTION = "update question set state = 'expired' where id = ? and state = 'open' and expires <= ?"
VOID_TURN = "update question set state = 'void' where conversation = ? and turn = ? and state = 'open'"
VOID_NODE = "update question set state = 'void' where node = ? and state = 'open'"
VOID_ALL = "update question set state = 'void' where state = 'open'"
DELETE_QUESTIONS_OF = "delete from question where approver = ?"
VOID_PERSON = "update question set state = 'void' where approver = ? and state = 'open'"

# --- keys of the API
REVOKE_KEYS = "update api_key set revoked = ? where person = ? and revoked is null"
DELETE_KEYS = "delete from api_key where person = ?"

# --- what belongs to whom
PERSON_OF = "select person from conversation where id = ?"
CONVERSATIONS_OF = "select id from conversation where person = ? order by id"
SPOKEN_LAST_BY = (
    "select id from conversation "
    "where case when json_valid(choices) then json_extract(choices, '$.person') end = ? order by id"
)
SESSIONS_OF = "select id from session where conversation = ?"
COUNT_MESSAGES = "select count(*) from message where session = ?"
#: What hangs on a conversation, with the name under which it is counted (empty: not told).
DELETIONS: tuple[tuple[str, str], ...] = (
    ("inbox", "delete from inbox where conversation = ?"),
    ("outbox", "delete from outbox where conversation = ?"),
    ("", "delete from turn_step where conversation = ?"),
    ("", "delete from control where conversation = ?"),
    ("questions", "delete from question where conversation = ?"),
    ("", "delete from damaged where conversation = ?"),
)
FORGET_CALLS = (
    "update usage set conversation = '', session = '', task = '', turn = null, seq = null, call = null "
    "where conversation = ?"
)
FORGET_BREAKS = "update prefix_break set conversation = '', session = '', task = '' where conversation = ?"
DELETE_CONVERSATION = "delete from conversation where id = ?"
#: Without it, words that were taken out stay in the index's older parts until it tidies itself up.
TIDY_SEARCH = "insert into search (search) values ('optimize')"
