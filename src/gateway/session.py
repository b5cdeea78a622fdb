"""Where a message came from and what its conversation is called, in the form that plugins are written for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Protocol, Self

from gateway.config import Platform, find_profile, name_platform
from gateway.whatsapp_identity import canonical_whatsapp_identifier
from hermes_base.inbound import Address

__all__ = ["SessionEntry", "SessionSource", "SessionStore", "build_session_key", "canonical_whatsapp_identifier"]

DM = "dm"


@dataclass
class SessionSource:
    """A place on a platform, and who speaks there."""

    platform: Platform
    chat_id: str
    chat_name: str | None = None
    chat_type: str = DM  # dm, group, channel, thread, forum
    user_id: str | None = None
    user_name: str | None = None
    thread_id: str | None = None
    chat_topic: str | None = None
    user_id_alt: str | None = None
    chat_id_alt: str | None = None
    is_bot: bool = False
    scope_id: str | None = None
    guild_id: str | None = None
    parent_chat_id: str | None = None
    message_id: str | None = None
    role_authorized: bool = False
    profile: str | None = None
    auto_thread_created: bool = False
    auto_thread_initial_name: str | None = None
    delivered_via_upstream_relay: bool = False

    def __post_init__(self) -> None:
        self.scope_id = self.guild_id = self.scope_id or self.guild_id

    @property
    def description(self) -> str:
        """For a log, or for a person."""
        if self.platform is Platform.LOCAL:
            return "the terminal"
        who = self.user_name or self.user_id or "somebody"
        where = self.chat_name or self.chat_id
        place = f"direct chat with {who}" if self.chat_type == DM else f"{self.chat_type} {where}"
        return f"{place}, thread {self.thread_id}" if self.thread_id else place

    def to_dict(self) -> dict[str, Any]:
        """What is set, and always where it is."""
        always = {"platform", "chat_id", "chat_name", "chat_type", "user_id", "user_name", "thread_id", "chat_topic"}
        own = {one.name: getattr(self, one.name) for one in fields(self)}
        own["platform"] = self.platform.value
        return {name: value for name, value in own.items() if name in always or value}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        names = {one.name for one in fields(cls)}
        given = {name: value for name, value in data.items() if name in names}
        platform = given["platform"]
        given["platform"] = platform if isinstance(platform, Platform) else name_platform(str(platform).strip().lower())
        return cls(**{**given, "chat_id": str(given["chat_id"])})


def find_address(source: SessionSource, account: str = "") -> Address:
    """The place as this house calls it. A direct chat without an id is that of its person."""
    platform = str(getattr(source.platform, "value", source.platform))
    chat = str(source.chat_id or "")
    if not chat and source.chat_type == DM:
        chat = str(source.user_id_alt or source.user_id or "")
    return Address(platform, account or platform, chat, source.chat_type or DM, str(source.thread_id or ""))


def build_session_key(
    source: SessionSource,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
    profile: str | None = None,
) -> str:
    """The key of the conversation, as it is really used here: a group has one, whatever the two flags say."""
    del group_sessions_per_user, thread_sessions_per_user
    return find_address(source).conversation(profile or source.profile or find_profile()).rstrip(":")


# --- sessions


@dataclass
class SessionEntry:
    session_key: str
    session_id: str
    created_at: datetime
    updated_at: datetime
    origin: SessionSource | None = None
    display_name: str | None = None
    platform: Platform | None = None
    chat_type: str = DM


@dataclass(frozen=True, slots=True)
class StoredSession:
    """What the store knows of a session."""

    key: str
    id: str
    started: float
    touched: float
    title: str = ""
    address: Address | None = None


class KnownSessions(Protocol):
    """What `SessionStore` asks the house for; called on the caller's thread."""

    def find(self, key: str) -> StoredSession | None: ...

    def find_by_id(self, session: str) -> StoredSession | None: ...

    def every(self) -> Sequence[StoredSession]: ...

    def open(self, address: Address) -> StoredSession: ...

    def begin_anew(self, key: str) -> None: ...

    def read(self, session: str) -> list[dict[str, Any]]: ...

    def tell(self, session: str, message: Mapping[str, Any]) -> None: ...


@dataclass
class SessionStore:
    """The sessions of the house, as hooks and adapters of plugins look at them. It writes no transcript: what is added
    is told to the model with the next message of the conversation, and stored with that (A1)."""

    shelf: KnownSessions | None = None
    read_config: Callable[[], Any] = lambda: None
    _db: Any = None
    _prompt_tokens: dict[str, int] = field(default_factory=dict)

    @property
    def config(self) -> Any:
        return self.read_config()

    @property
    def _entries(self) -> dict[str, SessionEntry]:
        return {stored.key: make_entry(stored) for stored in self.shelf.every()} if self.shelf else {}

    def _ensure_loaded(self) -> None:
        """The store is always there."""

    def get_or_create_session(self, source: SessionSource, force_new: bool = False) -> SessionEntry:
        key = build_session_key(source)
        if self.shelf is None:
            now = datetime.now()
            return SessionEntry(key, "", now, now, source, source.chat_name, source.platform, source.chat_type)
        if force_new:
            self.shelf.begin_anew(key)
        stored = self.shelf.find(key) or self.shelf.open(find_address(source))
        return make_entry(stored, source)

    def append_to_transcript(self, session_id: str, message: Mapping[str, Any], skip_db: bool = False) -> None:
        if self.shelf is not None and not skip_db:
            self.shelf.tell(session_id, message)

    def update_session(self, session_key: str, last_prompt_tokens: int | None = None) -> None:
        """The ledger counts tokens; what a plugin says of them is kept for it alone."""
        if last_prompt_tokens is not None:
            self._prompt_tokens[session_key] = last_prompt_tokens

    def load_transcript(self, session_id: str) -> list[dict[str, Any]]:
        return self.shelf.read(session_id) if self.shelf is not None else []

    def peek_session_id(self, session_key: str) -> str | None:
        stored = self.shelf.find(session_key) if self.shelf is not None else None
        return stored.id if stored else None

    def lookup_by_session_id(self, session_id: str) -> SessionEntry | None:
        stored = self.shelf.find_by_id(session_id) if self.shelf is not None else None
        return make_entry(stored) if stored else None


def make_entry(stored: StoredSession, source: SessionSource | None = None) -> SessionEntry:
    address = stored.address
    platform = name_platform(address.platform) if address else source.platform if source else None
    if source is None and address is not None and platform is not None:
        source = SessionSource(platform, address.chat, chat_type=address.kind, thread_id=address.thread or None)
    return SessionEntry(
        stored.key,
        stored.id,
        datetime.fromtimestamp(stored.started),
        datetime.fromtimestamp(stored.touched),
        source,
        stored.title or None,
        platform,
        source.chat_type if source else DM,
    )
