"""Mail that no person waits behind: lists, robots, loops and bounces. It is never answered. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email import policy
from email.parser import BytesParser

from gateway.platforms.mail.mail_body import is_tame
from gateway.platforms.mail.mail_head import MailHead
from gateway.platforms.mail.sender_proof import read_sender

LOOP_HEADER = "X-Loop"
_ROBOTS = re.compile(
    r"(?:mailer-daemon|postmaster|no-?reply|do-?not-?reply|noreply-.*|bounces?|bounces?[+-].*|listserv|majordomo|"
    r".*-(?:request|bounces?))",
    re.IGNORECASE,
)
_PRECEDENCES = frozenset({"bulk", "list", "junk", "auto_reply"})
_MARKS = ("x-autoreply", "x-autorespond", "x-autoresponder")


@dataclass(frozen=True, slots=True)
class BouncedMail:
    """A mail that somebody's server did not take in the end."""

    message: str  # the Message-ID of what came back, without its brackets
    recipient: str
    reason: str
    is_final: bool  # else it is late, and still tried


def find_robot(head: MailHead, own_address: str) -> str:
    """Why a mail is not answered, whoever it is from; empty: a person may have written it."""
    checks: Mapping[str, bool] = {
        "it was sent automatically (Auto-Submitted)": any(
            value.partition(";")[0].strip().lower() != "no" for value in head.every("auto-submitted")
        ),
        "it is bulk mail (Precedence)": any(
            value.strip().lower() in _PRECEDENCES for value in head.every("precedence")
        ),
        "it is from a list": any(name.startswith("list-") for name in head.names()),
        "it asks for no automatic answer (X-Auto-Response-Suppress)": any(
            value.strip().lower() != "none" for value in head.every("x-auto-response-suppress")
        ),
        "it is an automatic answer": any(head.every(name) for name in _MARKS),
        "it has nobody to answer to (an empty Return-Path)": any(
            re.sub(r"\s", "", value) == "<>" for value in head.every("return-path")
        ),
        "it is a report": any(is_report(value) for value in head.every("content-type")),
        "it went through here before (X-Loop)": any(
            own_address in value.lower() for value in head.every(LOOP_HEADER.lower())
        ),
    }
    found = next((reason for reason, holds in checks.items() if holds), "")
    return found or _find_robot_sender(head, own_address)


def _find_robot_sender(head: MailHead, own_address: str) -> str:
    for value in head.every("from"):
        sender = read_sender(value)
        if sender is not None and sender.address == own_address:
            return "it is from this mailbox itself"
        if sender is not None and _ROBOTS.fullmatch(sender.address.partition("@")[0]):
            return "it is from a robot"
    return ""


def is_report(content_type: str) -> bool:
    return content_type.strip().lower().startswith("multipart/report")


def read_bounce(raw: bytes) -> BouncedMail | None:
    """What a report on a delivery says (RFC 3464); None: it is none. Nobody has proven anything about it: it may raise
    whatever the parser does."""
    if not is_tame(raw):
        return None
    parsed = BytesParser(policy=policy.compat32).parsebytes(raw)
    facts: dict[str, str] = {}
    message = ""
    for number, part in enumerate(parsed.walk()):
        if number > 50:
            break
        kind = part.get_content_type()
        if kind in ("message/rfc822", "text/rfc822-headers", "message/rfc822-headers", "message/global-headers"):
            payload = part.get_payload(decode=True)
            text = payload.decode("latin-1") if isinstance(payload, bytes) else part.as_string()
            found = re.search(r"(?im)^message-id:\s*<([^<>\s]+)>", text)
            message = message or (found[1] if found else "")
        elif part.get("Action"):
            facts = {name.lower(): str(value) for name, value in part.items()}
    if not message or not facts:
        return None
    recipient = facts.get("final-recipient", facts.get("original-recipient", "")).rpartition(";")[2]
    said = facts.get("diagnostic-code", facts.get("status", "")).partition(";")
    is_final = facts["action"].strip().lower() == "failed"
    return BouncedMail(message, _clean(recipient), _clean(said[2] or said[0]), is_final)


def _clean(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())[:200]
