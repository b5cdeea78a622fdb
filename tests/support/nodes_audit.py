"""What has to hold when several gateways were killed, stopped, cut off and started again while people talked to their
bot: told as sentences; an empty list: nothing is wrong."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from gateway.core.drafts import UNFINISHED
from gateway.core.text.render import mark_repeated
from gateway.platforms.face import Part
from gateway.platforms.telegram import SPEC
from gateway.turns.run_turn import GIVEN_UP, GOING_ON, TRYING_AGAIN
from hermes_base.inbound import Address
from hermes_lab.chats.telegram.telegram_lab import TelegramLab
from hermes_state.turns import MAX_ATTEMPTS

Span = tuple[float, float]
TAKEOVER = 10.0  # seconds
Read = Callable[[str], list[tuple[Any, ...]]]
ANSWER = re.compile(r"answer (m\d+\.\d+)\b")
_SIGN = "@@"
#: What stands around a message that may have been sent before (C7).
MARKED = mark_repeated(Part(Address("telegram", "bot", "1"), _SIGN), SPEC).text.replace(_SIGN, "").strip()


def audit_chat(seen: Sequence[str], tokens: Sequence[str], given_up: Collection[str] = ()) -> list[str]:
    """One person's chat: each message has one answer, in order, and every other copy is marked. A draft that was left
    behind is no answer, and somebody says why it stands there. `given_up`: what was begun three times and broke off
    each time, which its person is told (C10)."""
    told, first, last, plain = [], dict[str, int](), -1, Counter[str]()
    for place, text in enumerate(seen):
        if text.endswith(UNFINISHED):
            below = seen[place + 1 :]
            told += [f"left behind: {token}" for token in ANSWER.findall(text) if not _explains(token, below)]
            continue
        for token in ANSWER.findall(text):
            plain[token] += MARKED not in text
            if token not in tokens:
                told.append(f"nobody asked: {token}")
            elif token not in first:
                first[token] = tokens.index(token)
                if first[token] < last:
                    told.append(f"out of order: {token}")
                last = max(last, first[token])
            elif plain[token] > 1:
                told.append(f"doubled: {token}")
    if sum(was_given_up(text) for text in seen) < len(set(given_up).intersection(tokens)):
        told.append("given up, and nobody was told")
    return told + [f"lost: {token}" for token in tokens if token not in first and token not in given_up]


def was_given_up(text: str) -> bool:
    return GIVEN_UP["attempts"] in text


def find_given_up(read: Read) -> set[str]:
    """What was said in messages that were begun as often as any may be, and once more to be closed."""
    bodies = read(f"select body from inbox where attempts > {MAX_ATTEMPTS} and done_epoch is not null")
    return {token for (body,) in bodies for token in ANSWER.findall(str(body))}


def _explains(token: str, below: Sequence[str]) -> bool:
    """Whether it is said why a draft of the answer to this stands above: before the answer, or by its mark."""
    for text in below:
        if text in (GOING_ON, TRYING_AGAIN):
            return True
        if token in ANSWER.findall(text) and not text.endswith(UNFINISHED):
            return MARKED in text
    return False


def describe_around(telegram: TelegramLab, person: int, told: Sequence[str], began: float) -> list[str]:
    """What stands in a chat of which this is told, and the calls by which it came there, with their times."""
    words = [f"{one.rpartition(' ')[2]}" for one in told]
    shown = [one for one in telegram.messages(person) if any(word in str(one.get("text")) for word in words)]
    numbers = {one["message_id"] for one in shown}
    lines = [f"stands: {one['message_id']} {one['text']!r}, edited: {'edit_date' in one}" for one in shown]
    for call in telegram.calls(chat=person):
        given = call["parameters"]
        if any(word in str(given.get("text")) for word in words) or given.get("message_id") in numbers:
            effect = "effect" if call["took_effect"] else "no effect"
            lines.append(f"{call['at'] - began:.2f} {call['method']} {dict(given)} {call['status']} {effect}")
    return lines


def measure_takeovers(waits: Sequence[Span], harms: Sequence[Span], outages: Sequence[Span]) -> list[float]:
    """Of each wait (when it began, when it ended) the seconds since it began or since the last harm that came in it,
    whichever is later; those while the database was down, or had been a moment before, do not count."""
    counted = [(began, end) for began, end in waits if not any(b < end and began < e + TAKEOVER for b, e in outages)]
    lasts = [max([began, *(b for b, _ in harms if began < b < end)]) for began, end in counted]
    return sorted(end - last for (_, end), last in zip(counted, lasts, strict=True))


def audit_store(read: Read) -> list[str]:
    told = [f"not dealt with: {row}" for row in read("select conversation, seq from inbox where done_epoch is null")]
    told += [f"not sent: {row}" for row in read("select conversation, seq, state from outbox where ended is null")]
    told += [f"still pending: {row}" for row in read("select id, pending from conversation where pending <> 0")]
    told += [
        f"places: {row}"
        for row in read(
            "select c.id, c.next_seq, count(i.seq) from conversation c left join inbox i on i.conversation = c.id "
            "group by c.id, c.next_seq having count(i.seq) <> c.next_seq"
        )
    ]
    told += [
        f"a stale write: {row}"
        for row in read(
            "select m.session, m.position from message m join message n on n.session = m.session "
            "and n.position = m.position + 1 where n.epoch < m.epoch"
        )
    ]
    told += [
        f"done under an epoch that was never given: {row}"
        for row in read(
            "select i.conversation, i.seq from inbox i join conversation c on c.id = i.conversation "
            "where i.done_epoch > c.epoch"
        )
    ]
    return told + [
        f"{count} answers: {conversation}#{seq}"
        for conversation, seq, count in read(
            'select conversation, seq, count(*) from outbox where seq > 0 and body like \'%"kind":"answer"%\' '
            "group by conversation, seq having count(*) > 1"
        )
    ]
