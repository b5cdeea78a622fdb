"""A message of a plugin's adapter as our `Inbound`, and ours as their `MessageEvent`. Pure."""

import mimetypes
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from gateway.config import name_platform
from gateway.platforms.plugin_bridge.media_cache import CACHED_NAME
from gateway.platforms.plugin_bridge.messages import MessageEvent, MessageType
from gateway.session import SessionSource, find_address
from hermes_base.inbound import Address, FileRef, Inbound
from hermes_base.text.whole_text import clean_text

_KINDS = {"image": "image", "audio": "audio"}
_TYPES = {"image": MessageType.PHOTO, "audio": MessageType.AUDIO, "file": MessageType.DOCUMENT}
_SKILL = "Use the skill {names} for this message."


def read_event(event: MessageEvent, account: str) -> Inbound | None:
    """The message as we store it; None when nobody is known to have sent it (G2). What its adapter says of `internal`,
    or of who is authorised, counts for nothing."""
    source = event.source
    if source is None or source.user_id in (None, ""):
        return None
    quoted = (event.channel_context, event.reply_to_text)
    return Inbound(
        find_address(source, account),
        str(event.message_id or source.message_id or f"unnamed-{uuid.uuid4().hex}"),
        str(source.user_id),
        event.text or "",
        sender_name=source.user_name or "",
        mentioned=True,  # its adapter hands over what is for us
        reply_to=str(event.reply_to_message_id or ""),
        quote="\n\n".join(text.strip() for text in quoted if text and text.strip()),
        files=_read_files(event.media_urls, event.media_types),
        facts=describe_facts(event),
        received=_read_time(event.timestamp),
    )


def describe_facts(event: MessageEvent) -> str:
    """What the adapter says of the chat and of this message, for the model."""
    skills = [event.auto_skill] if isinstance(event.auto_skill, str) else event.auto_skill or []
    named = _SKILL.format(names=", ".join(map(str, skills))) if skills else ""
    return "\n".join(text for text in ((event.channel_prompt or "").strip(), named) if text)


def _read_files(urls: Sequence[Any], types: Sequence[Any]) -> tuple[FileRef, ...]:
    """They are copied when the message has its turn: until then their path is their name over there."""
    found = []
    for number, url in enumerate(urls or ()):
        path = str(url).removeprefix("file://")
        given = str(types[number]) if number < len(types or ()) else mimetypes.guess_type(path)[0] or ""
        kind = _KINDS.get(given.partition("/")[0], "file")
        name = CACHED_NAME.sub("", PurePosixPath(path).name) or "file"
        found.append(FileRef("", name, kind, remote=path))
    return tuple(found)


def _read_time(at: Any) -> float:
    try:
        return float(at.timestamp()) if isinstance(at, datetime) else 0.0
    except (OverflowError, OSError, ValueError):
        return 0.0


def write_event(inbound: Inbound) -> MessageEvent:
    """As hooks see a message, of whichever platform."""
    address = inbound.address
    source = SessionSource(
        name_platform(address.platform),
        address.chat,
        chat_type=address.kind,
        user_id=inbound.sender,
        user_name=inbound.sender_name or None,
        thread_id=address.thread or None,
        message_id=inbound.message,
    )
    text = f"/{inbound.way} {inbound.text}" if inbound.way else inbound.text
    kind = MessageType.COMMAND if text.startswith("/") else MessageType.TEXT
    return MessageEvent(
        text,
        _TYPES.get(inbound.files[0].kind, kind) if inbound.files else kind,
        source,
        message_id=inbound.message,
        media_urls=[file.path or file.remote for file in inbound.files],
        media_types=[mimetypes.guess_type(file.name)[0] or "application/octet-stream" for file in inbound.files],
        reply_to_message_id=inbound.reply_to or None,
        reply_to_text=inbound.quote or None,
        channel_prompt=inbound.facts or None,
        timestamp=datetime.fromtimestamp(inbound.received) if inbound.received else datetime.now(),
    )


def take_changes(inbound: Inbound, before: MessageEvent, after: MessageEvent) -> Inbound:
    """The message with what hooks wrote into their form of it."""
    changed = inbound
    if after.text != before.text:
        changed = replace(changed, text=clean_text(str(after.text)), way="")
    if after.channel_prompt != before.channel_prompt:
        changed = replace(changed, facts=clean_text(str(after.channel_prompt or "")))
    return changed


def describe_place(address: Address) -> dict[str, Any] | None:
    """What is sent along so that it arrives in its thread."""
    return {"thread_id": address.thread} if address.thread else None
