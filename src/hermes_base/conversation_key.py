"""Keys of conversations, made and read here alone: `agent:<profile>:<platform>:<kind>:<chat>[:<thread>]`."""

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote, unquote

from hermes_base.errors import HermesError

_SAFE = "@+-_.!#$/="  # what platforms put into ids; a colon or a percent sign is written as %3A, %25
ONCE = "once."  # begins the chat of a single question
DEFAULT_PROFILE, DEFAULT_PROFILE_IN_KEYS = "default", "main"


@dataclass(frozen=True, slots=True)
class ConversationKey:
    profile: str
    platform: str
    kind: str  # dm, group, channel, …
    chat: str
    thread: str | None = None

    def __str__(self) -> str:
        profile = DEFAULT_PROFILE_IN_KEYS if self.profile == DEFAULT_PROFILE else self.profile
        parts = [profile, self.platform, self.kind, self.chat, *([] if self.thread is None else [self.thread])]
        return ":".join(["agent", *(quote(part, safe=_SAFE) for part in parts)])


@lru_cache(maxsize=4096)
def write_key(profile: str, platform: str, kind: str, chat: str, thread: str | None) -> str:
    """The same of its parts: asked for with every message, and a chat has many."""
    return str(ConversationKey(profile, platform, kind, chat, thread))


def begin_keys(profile: str, platform: str) -> str:
    """What all keys of a platform begin with."""
    return str(ConversationKey(profile, platform, "", "")).rstrip(":") + ":"


@lru_cache(maxsize=4096)
def parse_key(text: str) -> ConversationKey:
    """The parts of a key; HermesError when it is none."""
    head, *parts = text.split(":")
    if head != "agent" or len(parts) not in (4, 5):
        raise HermesError(f"'{text}' is not the key of a conversation.")
    profile, platform, kind, chat, *thread = map(unquote, parts)
    profile = DEFAULT_PROFILE if profile == DEFAULT_PROFILE_IN_KEYS else profile
    return ConversationKey(profile, platform, kind, chat, thread[0] if thread else None)
