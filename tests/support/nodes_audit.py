"""What has to hold when several gateways were killed, stopped, cut off and started again while people talked to their
bot: told as sentences; an empty list: nothing is wrong."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from gateway.core.text.render import mark_repeated
from gateway.platforms.face import Part
from gateway.platforms.telegram import SPEC
from hermes_base.inbound import Address

Read = Callable[[str], list[tuple[Any, ...]]]
ANSWER = re.compile(r"answer (m\d+\.\d+)\b")
_SIGN = "@@"
#: What stands around a message that may have been sent before (C7).
MARKED = mark_repeated(Part(Address("telegram", "bot", "1"), _SIGN), SPEC).text.replace(_SIGN, "").strip()


def audit_chat(seen: Sequence[str], tokens: Sequence[str]) -> list[str]:
    """One person's chat: each message has one answer, in order; a second copy is marked as one that may be there."""
    told, first, last = [], dict[str, int](), -1
    for text in seen:
        for token in ANSWER.findall(text):
            if token not in tokens:
                told.append(f"nobody asked: {token}")
            elif token not in first:
                first[token] = tokens.index(token)
                if first[token] < last:
                    told.append(f"out of order: {token}")
                last = max(last, first[token])
            elif MARKED not in text:
                told.append(f"doubled: {token}")
    return told + [f"lost: {token}" for token in tokens if token not in first]


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
