"""What has to hold of a store after any chaos of writers, told as sentences; an empty list: nothing is wrong.

Each message was answered with its own name (`ext_id`), in a turn of its own that wrote a question and an answer."""

from collections import Counter
from collections.abc import Collection

from store_places import read_rows

CONVERSATIONS = "select id, next_seq, pending, epoch from conversation order by id"
INBOX = "select conversation, seq, ext_id, done_epoch from inbox order by conversation, seq"
OUTBOX = "select conversation, seq, body from outbox order by conversation, id"
MESSAGES = "select conversation, position, seq, n, epoch from message order by conversation, position"
CALLS = "select conversation, seq, count(*) from usage group by conversation, seq"
VERSIONS = "select conversation, version from session"


def audit(where: str, names: Collection[str]) -> list[str]:
    """`names`: the messages that somebody was told are stored."""
    inbox = read_rows(where, INBOX)
    return [
        *_audit_messages(where, inbox, names),
        *_audit_answers(where, inbox),
        *_audit_transcripts(where, inbox),
    ]


def _audit_messages(where: str, inbox: list[tuple[str, int, str, int | None]], names: Collection[str]) -> list[str]:
    stored = Counter(name for _, _, name, _ in inbox)
    told = [f"lost: {name}" for name in sorted(set(names) - stored.keys())]
    told += [f"stored twice: {name}" for name, times in stored.items() if times > 1]
    told += [f"not answered: {name}" for _, _, name, done in inbox if done is None]
    places: dict[str, list[int]] = {}
    for conversation, seq, _, _ in inbox:
        places.setdefault(conversation, []).append(seq)
    for conversation, last, pending, _ in read_rows(where, CONVERSATIONS):
        given = places.get(conversation, [])
        if given != list(range(1, last + 1)):
            told.append(f"places of {conversation}: {given} of {last}")
        if pending:
            told.append(f"pending in {conversation}: {pending}")
    return told


def _audit_answers(where: str, inbox: list[tuple[str, int, str, int | None]]) -> list[str]:
    names = {(conversation, seq): name for conversation, seq, name, _ in inbox}
    told: list[str] = []
    last: dict[str, int] = {}
    answers: Counter[str] = Counter()
    for conversation, seq, body in read_rows(where, OUTBOX):
        name = names.get((conversation, seq), "nobody")
        answers[name] += 1
        if f'"{name}"' not in body:
            told.append(f"another's answer: {name}")
        if seq < last.get(conversation, 0):
            told.append(f"out of order: {name}")
        last[conversation] = seq
    told += [f"answered {answers[name]} times: {name}" for _, _, name, _ in inbox if answers[name] != 1]
    return told


def _audit_transcripts(where: str, inbox: list[tuple[str, int, str, int | None]]) -> list[str]:
    told: list[str] = []
    closed = {(conversation, seq): done for conversation, seq, _, done in inbox}
    rows: dict[str, list[tuple[int, int, int, int]]] = {}
    for conversation, *row in read_rows(where, MESSAGES):
        rows.setdefault(conversation, []).append(tuple(row))
    epochs = {name: epoch for name, _, _, epoch in read_rows(where, CONVERSATIONS)}
    for conversation, version in read_rows(where, VERSIONS):
        held = rows.get(conversation, [])
        if [position for position, *_ in held] != list(range(version)):
            told.append(f"positions of {conversation}")
        if [epoch for *_, epoch in held] != sorted(epoch for *_, epoch in held):
            told.append(f"a stale write: {conversation}")
        if any(epoch > epochs[conversation] for *_, epoch in held):
            told.append(f"an epoch that was never given: {conversation}")
        for seq in sorted({seq for _, seq, _, _ in held}):
            turn = [(n, epoch) for _, of, n, epoch in held if of == seq]
            if [n for n, _ in turn] != [1, 2] or turn[-1][1] != closed.get((conversation, seq)):
                told.append(f"rows of turn {seq} of {conversation}: {turn}")
    calls = {(conversation, seq): count for conversation, seq, count in read_rows(where, CALLS)}
    told += [f"paid {calls.get(key, 0)} times: {key}" for key in closed if calls.get(key) != 1]
    return told
