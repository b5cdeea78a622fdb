"""What a mail is to Hermes: a message of a proven person, or nothing that is answered. Pure, but for the book of
threads."""

import hashlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.platforms.mail.auto_mail import find_robot, is_report
from gateway.platforms.mail.lines.imap_wire import FetchedMail
from gateway.platforms.mail.mail_body import read_body
from gateway.platforms.mail.mail_head import MailHead
from gateway.platforms.mail.mail_servers import MailAccount
from gateway.platforms.mail.quoted_text import split_quoted
from gateway.platforms.mail.sender_proof import (
    ProvenSender,
    UnprovenSender,
    prove_sender,
    read_authserv_id,
)
from gateway.platforms.mail.thread_book import OwnIds, ThreadBook, ThreadHead, name_thread
from hermes_base.inbound import Address, FileRef, Inbound

MOST_MAIL = 36_000_000  # bytes that are read of one: 25 MB of files grow to so many on their way
CUT_OFF = f"[The mail is larger than {MOST_MAIL // 1_000_000} MB: the rest of it was not read.]"


@dataclass(frozen=True, slots=True)
class IgnoredMail:
    reason: str
    may_be_bounce: bool = False


def judge_head(head: MailHead, account: MailAccount) -> ProvenSender | IgnoredMail:
    """Whether somebody is there to be answered. That costs nothing: no body was fetched for it."""
    if head.is_odd:
        return IgnoredMail("its head is not as it has to be")
    robot = find_robot(head, account.address)
    if robot:
        return IgnoredMail(robot, may_be_bounce=any(map(is_report, head.every("content-type"))))
    proof = prove_sender(head.every("from"), head.every("authentication-results"), account.authserv_id)
    return IgnoredMail(proof.reason) if isinstance(proof, UnprovenSender) else proof


def find_authserv_ids(heads: Sequence[MailHead]) -> list[str]:
    """Who wrote the topmost Authentication-Results of these mails, the most frequent first."""
    found = [
        read_authserv_id(head.every("authentication-results")[0])
        for head in heads
        if head.every("authentication-results")
    ]
    return sorted(filter(None, set(found)), key=found.count, reverse=True)


class MailReader:
    """Makes messages of mails. What it does takes its time: no work for the event loop."""

    def __init__(self, account: str, ids: OwnIds, book: ThreadBook) -> None:
        self._account = account
        self._ids = ids
        self._book = book

    def read(self, mail: FetchedMail, sender: ProvenSender, validity: int) -> Inbound:
        """The message; the book knows its thread from now on."""
        head, body = MailHead(mail.data), read_body(mail.data)
        message = head.message_id or f"x-{hashlib.sha256(mail.data).hexdigest()[:32]}"
        before = head.references
        parent = before[-1] if before else ""
        own_parent = self._ids.read(parent)
        ours = own_parent or next(filter(None, map(self._ids.read, reversed(before))), None)
        thread = ours.thread if ours else name_thread(before[0] if before else message)
        known = self._book.find(sender.address, thread)
        text, forwarded = compose_text(
            body.text,
            subject="" if known or ours else head.subject,
            knows_parent=own_parent is not None or (known is not None and parent in known.ids),
        )
        files = tuple(
            FileRef("", file.name, file.kind, len(file.data), f"{validity}.{mail.uid}.{number}")
            for number, file in enumerate(body.files)
        )
        if len(mail.data) < mail.size and len(mail.data) >= MOST_MAIL:
            text, files = f"{text}\n\n{CUT_OFF}", files[:-1]  # the last one is a part of itself
        subject = head.subject or (known.subject if known else "")
        ids = dict.fromkeys([*(known.ids if known else ()), *before, message])
        self._book.note(sender.address, thread, ThreadHead(subject, tuple(ids)))
        return Inbound(
            Address("mail", self._account, sender.address, thread=thread),
            message,
            sender.address,
            text,
            sender_name=sender.name,
            mentioned=True,
            seen=own_parent.question if own_parent else "",
            reply_to=parent if own_parent else "",
            forwarded=forwarded,
            files=files,
            received=mail.arrived or time.time(),
        )


def compose_text(body: str, *, subject: str, knows_parent: bool) -> tuple[str, bool]:
    """What is read of a mail, and whether words of others are in it. What we said ourselves, or were told before, is
    cut; what others wrote stays: it is what the mail is about."""
    split = split_quoted(body)
    is_mixed = split.mixed and not knows_parent
    if split.own.startswith("/"):
        return split.own, is_mixed
    keeps = bool(split.quoted) and (split.forwarded or not knows_parent or not split.own)
    text = "\n\n".join(filter(None, (split.own, split.quoted if keeps else "")))
    if subject and text:
        text = f"Subject: {subject}\n\n{text}"
    return text or subject, keeps or is_mixed


def read_remote(remote: str) -> tuple[int, int, int] | None:
    """Where a file stands: the validity of the numbers, the mail, the file in it."""
    found = re.fullmatch(r"([0-9]+)\.([0-9]+)\.([0-9]+)", remote)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None
