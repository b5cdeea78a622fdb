"""Counts what is wrong in a home after its gateway was killed again and again: lost, doubled, disordered, invented."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway_process import Person, Shown, read_store

from gateway.turns.run_turn import GOING_ON
from hermes_base.inbound import ANSWER, NOTE, Outgoing, read_outgoing
from hermes_lab.server import LabServer

#: The name of a message: the first word of its text, also where several messages became one.
TOKEN = re.compile(r"\bm\d+\.\d+\b")
FIRST_WORD = re.compile(rf"^{TOKEN.pattern}", re.MULTILINE)
MOST_TOLD = 2  # a third restart of the same turn ends it


@dataclass(frozen=True, slots=True)
class Message:
    seq: int
    text: str
    attempts: int
    done: bool

    @property
    def is_command(self) -> bool:
        return self.text.startswith("/")


@dataclass(frozen=True, slots=True)
class Line:
    """A message of the transcript."""

    session: str
    seq: int
    role: str
    body: dict[str, Any]

    @property
    def tokens(self) -> list[str]:
        return FIRST_WORD.findall(self.body["content"]) if self.role == "user" else []

    @property
    def calls(self) -> list[str]:
        return [call["id"] for call in self.body.get("tool_calls", ())]


@dataclass(frozen=True, slots=True)
class Told:
    """A row of the outbox."""

    id: int
    seq: int
    named: bool
    state: str
    outgoing: Outgoing


@dataclass(frozen=True, slots=True)
class Conversation:
    """All that the store knows of one."""

    messages: Sequence[Message]
    lines: Sequence[Line]
    taken_back: Counter[int]  # how often each message took something back
    told: Sequence[Told]


def read_conversation(home: Path, key: str) -> Conversation:
    messages = read_store(
        home, "select seq, body, attempts, done_epoch from inbox where conversation = ? order by seq", key
    )
    lines = read_store(
        home,
        "select session, seq, kind, body from message where conversation = ? order by session, position",
        key,
    )
    told = read_store(home, "select id, seq, name, state, body from outbox where conversation = ? order by id", key)
    return Conversation(
        [Message(seq, json.loads(body)["text"], tries, done is not None) for seq, body, tries, done in messages],
        [
            Line(session, seq, json.loads(body)["role"], json.loads(body))
            for session, seq, kind, body in lines
            if kind == "message"
        ],
        Counter(seq for _, seq, kind, _ in lines if kind == "head"),
        [Told(id, seq, name is not None, state, read_outgoing(body)) for id, seq, name, state, body in told],
    )


def find_damage(home: Path, person: Person, *, steered: bool = False) -> Iterator[str]:
    """Everything that is wrong with one conversation, in words."""
    found = read_conversation(home, person.conversation)
    damage = [
        *_check_messages(found, person.texts),
        *_check_transcript(found, steered),
        *_check_answers(found),
        *(f"message {seq} took back {times} turns" for seq, times in found.taken_back.items() if times != 1),
        *_check_order(found),
        *_check_restarts(found),
        *_check_shown(found, person.shown),
    ]
    return (f"{person.name}: {problem}" for problem in damage)


def _check_messages(found: Conversation, said: Sequence[str]) -> Iterator[str]:
    """C1, C3: each message is stored once, in the order in which it was said, and dealt with."""
    stored = [message.text for message in found.messages]
    if stored != list(said):
        yield f"said and stored differ: {_name_difference(said, stored)}"
    yield from (f"never dealt with: {message}" for message in found.messages if not message.done)


def _check_transcript(found: Conversation, steered: bool) -> Iterator[str]:
    """Each message once (and once more for each time it was asked again), each call with one result, each turn with
    one end, and no turn without a message."""
    texts = {message.seq: message.text for message in found.messages}
    fresh = Counter(
        token for line in found.lines if not texts.get(line.seq, "").startswith("/retry") for token in line.tokens
    )
    for message in found.messages:
        for token in FIRST_WORD.findall(message.text):
            if fresh[token] != 1:
                yield f"{token} stands {fresh[token]} times in the transcript"
    for seq, turn in _group_turns(found.lines).items():
        if seq not in texts:
            yield f"a turn {seq} that no message asked for"
        yield from (f"turn {seq}: {problem}" for problem in _check_turn(turn, steered))


def _group_turns(lines: Iterable[Line]) -> dict[int, list[Line]]:
    turns: dict[int, list[Line]] = {}
    for line in lines:
        turns.setdefault(line.seq, []).append(line)
    return turns


def _check_turn(turn: Sequence[Line], steered: bool) -> Iterator[str]:
    roles = [line.role for line in turn]
    ends = [line for line in turn if line.role == "assistant" and not line.calls]
    if roles[0] != "user" or turn[-1] not in ends:
        yield f"it does not go from a question to an answer: {roles}"
    if not steered and (roles.count("user") != 1 or len(ends) != 1):
        yield f"{roles.count('user')} questions, {len(ends)} answers: {roles}"
    calls = Counter(call for line in turn for call in line.calls)
    results = Counter(line.body["tool_call_id"] for line in turn if line.role == "tool")
    if calls != results or any(count > 1 for count in calls.values()):
        yield f"calls {calls}, results {results}"


def _check_answers(found: Conversation) -> Iterator[str]:
    """C2: every turn has one answer, every command one word, and nothing else was said."""
    turns = _group_turns(found.lines)
    answers = Counter(told.seq for told in found.told if told.outgoing.kind == ANSWER)
    words = Counter(told.seq for told in found.told if _is_word(told))
    joined = {token for line in found.lines for token in line.tokens}
    for message in found.messages:
        seq, asked = message.seq, any(line.role == "user" for line in turns.get(message.seq, ()))
        token = TOKEN.match(message.text)
        if asked or message.seq in answers:
            expected = (1, 0)
        elif message.is_command:
            expected = (0, 1)
        else:
            expected = (0, 0) if token is not None and token[0] in joined else (1, 0)
        if (answers[seq], words[seq]) != expected:
            yield f"{message} has {answers[seq]} answers and {words[seq]} words, expected {expected}"
    for told in found.told:
        yield from _check_answer(told, turns)


def _check_answer(told: Told, turns: dict[int, list[Line]]) -> Iterator[str]:
    if told.state != "sent":
        yield f"not delivered: {told}"
    if told.outgoing.kind == ANSWER and told.outgoing.completed:
        tokens = {token for line in turns.get(told.seq, ()) for token in line.tokens}
        if not tokens.intersection(TOKEN.findall(told.outgoing.text)):
            yield f"an answer to another question: {told}, asked {tokens}"


def _is_word(told: Told) -> bool:
    return told.outgoing.kind == NOTE and not told.named and told.outgoing.text != GOING_ON


def _check_order(found: Conversation) -> Iterator[str]:
    """What ended a message came in the order of the messages."""
    ends = [told.seq for told in found.told if told.outgoing.kind == ANSWER or _is_word(told)]
    if ends != sorted(ends):
        yield f"answered out of order: {ends}"


def _check_restarts(found: Conversation) -> Iterator[str]:
    """C10: "going on" is told once for each restart of a turn; what was stopped before that is not gone on with."""
    told = Counter(one.seq for one in found.told if one.outgoing.text == GOING_ON)
    stopped = {one.seq for one in found.told if one.outgoing.kind == ANSWER and one.outgoing.interrupted}
    turns = _group_turns(found.lines)
    for message in found.messages:
        restarts = min(message.attempts - 1, MOST_TOLD) if message.seq in turns and message.attempts else 0
        least = 0 if message.seq in stopped else restarts
        if not least <= told[message.seq] <= restarts:
            yield f"{message} was restarted {restarts} times, and told so {told[message.seq]} times"


def _check_shown(found: Conversation, shown: Sequence[Shown]) -> Iterator[str]:
    """C7, C9: every row is seen once, in order, as it was stored."""
    rows = [(one.row, one.outgoing.text) for one in shown]
    stored = [(told.id, told.outgoing.text) for told in found.told]
    if rows != stored:
        yield f"shown and stored differ: {_name_difference(stored, rows)}"


def _name_difference(wanted: Sequence[Any], got: Sequence[Any]) -> str:
    missing = [one for one in wanted if one not in got]
    added = [one for one in got if one not in wanted]
    return f"missing {missing}, added {added}, of {len(wanted)} and {len(got)}"


def find_broken_prefixes(lab: LabServer) -> Counter[str]:
    """How often each conversation's next request did not begin with the bytes of the one before (A1, A6).

    Requests belong together when their first question is the same."""
    last: dict[str, bytes] = {}
    broken: Counter[str] = Counter()
    for request in lab.requests:
        if not request.path.endswith("/chat/completions"):
            continue
        first = next(message for message in request.json()["messages"] if message["role"] == "user")
        token = TOKEN.search(first["content"])
        assert token is not None, first
        prefix = request.body[: request.body.rindex(b'],"stream"')]
        if not prefix.startswith(last.get(token[0], b"")):
            broken[token[0].split(".")[0]] += 1
        last[token[0]] = prefix
    return broken
