"""What comes from an adapter of a plugin, and what it answers when something is sent: values in its own form."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Any, Self

from gateway.session import SessionSource

_DASHES = str.maketrans({"—": "--", "–": "-", "―": "--", "−": "-"})


class MessageType(Enum):
    TEXT = "text"
    LOCATION = "location"
    PHOTO = "photo"
    VIDEO = "video"
    AUDIO = "audio"
    VOICE = "voice"
    DOCUMENT = "document"
    STICKER = "sticker"
    COMMAND = "command"


class ProcessingOutcome(Enum):
    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"


@dataclass
class MessageEvent:
    """One message. Adapters and hooks change it as they like; what counts is how it is handed over."""

    text: str
    message_type: MessageType = MessageType.TEXT
    source: SessionSource | None = None
    raw_message: Any = None
    message_id: str | None = None
    platform_update_id: int | None = None
    media_urls: list[str] = field(default_factory=list)  # paths on this machine
    media_types: list[str] = field(default_factory=list)  # of each, its media type
    reply_to_message_id: str | None = None
    reply_to_text: str | None = None
    reply_to_author_id: str | None = None
    reply_to_author_name: str | None = None
    reply_to_is_own_message: bool = False
    auto_skill: str | list[str] | None = None
    channel_prompt: str | None = None  # what holds in this chat
    channel_context: str | None = None  # what was said there before, by anybody
    internal: bool = False  # the house alone decides that: what an adapter says of it is ignored
    metadata: dict[str, Any] = field(default_factory=dict)
    timestamp: datetime = field(default_factory=datetime.now)

    def is_command(self) -> bool:
        return self.text.startswith("/")

    def get_command(self) -> str | None:
        """The name of the command, without what follows it; None: it is none, or a path."""
        if not self.is_command():
            return None
        words = self.text.split(maxsplit=1)
        name = words[0][1:].lower().partition("@")[0]
        return name if name and "/" not in name else None

    def get_command_args(self) -> str:
        """What stands behind the command; long dashes, which phones make of two hyphens, are hyphens again."""
        if not self.is_command():
            return self.text
        words = self.text.split(maxsplit=1)
        return words[1].translate(_DASHES) if len(words) > 1 else ""


@dataclass
class SendResult:
    success: bool
    message_id: str | None = None
    error: str | None = None
    raw_response: Any = None
    retryable: bool = False
    retry_after: float | None = None
    continuation_message_ids: tuple[str, ...] = ()
    error_kind: str | None = None  # too_long, bad_format, forbidden, not_found, rate_limited, transient, unknown


class EphemeralReply(str):
    """A text that its platform may take away after a while."""

    ttl_seconds: int | None
    __slots__ = ("ttl_seconds",)

    def __new__(cls, text: str, ttl_seconds: int | None = None) -> Self:
        made = super().__new__(cls, text)
        made.ttl_seconds = ttl_seconds
        return made

    @property
    def text(self) -> str:
        return str(self)


def merge_pending_message_event(
    pending: dict[str, MessageEvent], key: str, event: MessageEvent, *, merge_text: bool = False
) -> None:
    """Put an event behind one that waits: files and captions together, texts only if asked for; else it takes its
    place."""
    waiting = pending.get(key)
    if waiting is None:
        pending[key] = event
        return
    both_text = waiting.message_type is event.message_type is MessageType.TEXT
    if waiting.media_urls or event.media_urls:
        texts = [text for text in (waiting.text, event.text) if text]
        urls, types = [*waiting.media_urls, *event.media_urls], [*waiting.media_types, *event.media_types]
        kind = waiting.message_type if waiting.media_urls else event.message_type
        joined = "\n\n".join(dict.fromkeys(texts))
        pending[key] = replace(waiting, text=joined, media_urls=urls, media_types=types, message_type=kind)
    elif both_text and merge_text:
        pending[key] = replace(waiting, text="\n".join(text for text in (waiting.text, event.text) if text))
    else:
        pending[key] = event


def resolve_channel_prompt(
    extra: Mapping[str, Any] | None, channel_id: str, parent_id: str | None = None
) -> str | None:
    """What `channel_prompts` says of a channel, else of the one it belongs to."""
    prompts = (extra or {}).get("channel_prompts")
    if not isinstance(prompts, Mapping):
        return None
    by_id = {str(name): value for name, value in prompts.items()}
    found = (by_id.get(str(id)) for id in (channel_id, parent_id) if id)
    return next((str(text).strip() for text in found if text and str(text).strip()), None)


def thread_metadata(source: Any, reply_to_message_id: str | None = None) -> dict[str, Any] | None:
    """What is sent along so that it arrives in its thread."""
    thread = getattr(source, "thread_id", None)
    if thread is None:
        return None
    return {"thread_id": thread, **({"reply_to_message_id": reply_to_message_id} if reply_to_message_id else {})}


MEDIA_MARK = re.compile(r"""[`"']?MEDIA:\s*(?:"(?P<quoted>[^"\n]+)"|`(?P<ticked>[^`\n]+)`|(?P<bare>\S+))[`"']?""")
VOICE_MARK, DOCUMENT_MARK = "[[audio_as_voice]]", "[[as_document]]"
