"""The adapter of a chat platform in the form that plugins are written for. What drives one is
`gateway.platforms.plugin_bridge.bridge_adapter`: every message goes through our inbox, budget, delivery and people."""

import asyncio
import contextlib
import logging
import random
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from gateway.config import Platform, PlatformConfig
from gateway.platforms.plugin_bridge import standing_alone
from gateway.platforms.plugin_bridge.media_cache import (
    CachedMedia,
    cache_audio_from_bytes,
    cache_audio_from_url,
    cache_document_from_bytes,
    cache_image_from_bytes,
    cache_image_from_url,
    cache_media_bytes,
    cache_video_from_bytes,
)
from gateway.platforms.plugin_bridge.media_calls import MediaCalls
from gateway.platforms.plugin_bridge.messages import (
    EphemeralReply,
    MessageEvent,
    MessageType,
    ProcessingOutcome,
    SendResult,
    merge_pending_message_event,
    resolve_channel_prompt,
)
from gateway.platforms.plugin_bridge.messages import thread_metadata as _thread_metadata_for_source
from gateway.platforms.plugin_bridge.send_results import is_connection_error, is_unanswered
from gateway.platforms.plugin_bridge.texts import (
    extract_images,
    extract_local_files,
    extract_media,
    resolve_proxy_url,
    truncate_message,
    utf16_len,
    validate_media_delivery_path,
)
from gateway.session import SessionSource, build_session_key
from gateway.status import acquire_scoped_lock, release_scoped_lock

__all__ = [
    "BasePlatformAdapter",
    "CachedMedia",
    "EphemeralReply",
    "MessageEvent",
    "MessageType",
    "Platform",
    "PlatformConfig",
    "ProcessingOutcome",
    "SendResult",
    "SessionSource",
    "_thread_metadata_for_source",
    "cache_audio_from_bytes",
    "cache_audio_from_url",
    "cache_document_from_bytes",
    "cache_image_from_bytes",
    "cache_image_from_url",
    "cache_media_bytes",
    "cache_video_from_bytes",
    "merge_pending_message_event",
    "resolve_channel_prompt",
    "resolve_proxy_url",
    "utf16_len",
]

logger = logging.getLogger(__name__)
T = TypeVar("T")
MAX_MESSAGE_LENGTH = 4096
PLAIN_CHARS = 3500  # of a message that is sent as plain text, since it was not taken as it was
NOT_SENT = "⚠️ This message could not be sent: {error}"

Handler = Callable[[MessageEvent], Awaitable[Any]]


class OwnField(Generic[T]):
    """A field that is there as soon as somebody asks for it: adapters are also made without `__init__`."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        if instance is None:
            return self  # type: ignore[return-value]
        made = instance.__dict__[self._name] = self._make()
        return made


class BasePlatformAdapter(MediaCalls):
    supports_code_blocks = False
    supports_status_text = False
    supports_async_delivery = True
    splits_long_messages = False  # True: the host does not cut
    typed_command_prefix = "/"
    supports_inchannel_continuable = False
    interactive_resume = True
    REQUIRES_EDIT_FINALIZE = False

    gateway_runner: Any = None  # set by the gateway
    config: PlatformConfig = PlatformConfig()
    platform: Platform = Platform.LOCAL
    _running = False
    _stores_first = False  # set by the gateway, whose handler returns when a message is stored
    _message_handler: Handler | None = None
    _fatal_error_handler: Callable[["BasePlatformAdapter"], Any] | None = None
    _busy_session_handler: Any = None
    _topic_recovery_fn: Any = None
    _authorization_check: Any = None
    _session_store: Any = None
    _fatal_error_code: str | None = None
    _fatal_error_message: str | None = None
    _fatal_error_retryable = True
    _platform_lock: tuple[str, str] | None = None
    _background_tasks: OwnField[set[asyncio.Task[Any]]] = OwnField(set)
    _active_sessions: OwnField[dict[str, asyncio.Event]] = OwnField(dict)
    _pending_messages: OwnField[dict[str, MessageEvent]] = OwnField(dict)
    _session_tasks: OwnField[dict[str, asyncio.Task[Any]]] = OwnField(dict)
    _session_sources: OwnField[dict[str, SessionSource]] = OwnField(dict)
    _typing_paused: OwnField[set[str]] = OwnField(set)
    _post_delivery_callbacks: OwnField[dict[str, Callable[[], Any]]] = OwnField(dict)

    def __init__(self, config: PlatformConfig, platform: Platform) -> None:
        self.config, self.platform = config, platform

    # --- what every adapter has

    @abstractmethod
    async def connect(self, *, is_reconnect: bool = False) -> bool: ...

    @abstractmethod
    async def disconnect(self) -> None: ...

    @abstractmethod
    async def get_chat_info(self, chat_id: str) -> dict[str, Any]: ...

    # --- what an adapter may have

    async def edit_message(self, chat_id: str, message_id: str, content: str, *, finalize: bool = False) -> SendResult:
        return SendResult(False, error="Not supported")

    async def delete_message(self, chat_id: str, message_id: str) -> bool:
        return False

    async def send_typing(self, chat_id: str, metadata: dict[str, Any] | None = None) -> None:
        """Show that somebody writes; there is no such sign unless an adapter has one."""
        return

    async def stop_typing(self, chat_id: str) -> None:
        """Take it away."""
        return

    async def on_processing_start(self, event: MessageEvent) -> None:
        """A message was taken for a turn."""
        return

    async def on_processing_complete(self, event: MessageEvent, outcome: ProcessingOutcome) -> None:
        """Its answer was sent."""
        return

    @property
    def name(self) -> str:
        return str(self.platform.value).title()

    @property
    def is_connected(self) -> bool:
        return self._running

    @property
    def message_len_fn(self) -> Callable[[str], int]:
        return len

    @property
    def enforces_own_access_policy(self) -> bool:
        return False

    @property
    def authorization_is_upstream(self) -> bool:
        return False

    # --- messages that come in

    def build_source(
        self,
        chat_id: str,
        chat_name: str | None = None,
        chat_type: str = "dm",
        user_id: str | None = None,
        user_name: str | None = None,
        thread_id: str | None = None,
        chat_topic: str | None = None,
        user_id_alt: str | None = None,
        chat_id_alt: str | None = None,
        is_bot: bool = False,
        scope_id: str | None = None,
        guild_id: str | None = None,
        parent_chat_id: str | None = None,
        message_id: str | None = None,
        role_authorized: bool = False,
        auto_thread_created: bool = False,
        auto_thread_initial_name: str | None = None,
    ) -> SessionSource:
        """The place of a message, its ids as text; what may be given stands in the order of `SessionSource`."""
        return SessionSource(
            self.platform,
            str(chat_id),
            chat_name,
            chat_type,
            _as_id(user_id),
            user_name,
            _as_id(thread_id),
            (chat_topic or "").strip() or None,
            _as_id(user_id_alt),
            _as_id(chat_id_alt),
            is_bot,
            _as_id(scope_id),
            _as_id(guild_id),
            _as_id(parent_chat_id),
            _as_id(message_id),
            role_authorized,
            auto_thread_created=auto_thread_created,
            auto_thread_initial_name=auto_thread_initial_name,
        )

    async def handle_message(self, event: MessageEvent) -> None:
        """Hand a message over. In a gateway it is stored when this returns, and only then may its service be told so
        (C1); any other handler works on it beside, one message of a conversation after the other."""
        if self._message_handler is None or event.source is None:
            logger.warning("%s: a message came and nobody takes it", self.name)
            return
        key = build_session_key(event.source)
        self._session_sources[key] = event.source
        if self._stores_first:
            await self._process_message_background(event, key)
        elif key in self._active_sessions:
            await standing_alone.take_beside(self, event, key)
        else:
            standing_alone.take(self, event, key)

    async def _process_message_background(self, event: MessageEvent, session_key: str) -> None:
        if not self._stores_first:
            await standing_alone.work(self, event, session_key)
        elif self._message_handler is not None:
            await self._message_handler(event)

    async def cancel_session_processing(
        self, session_key: str, *, release_guard: bool = True, discard_pending: bool = True
    ) -> None:
        """Stop what runs in a conversation, as whoever spoke there last."""
        if discard_pending:
            self._pending_messages.pop(session_key, None)
        source = self._session_sources.get(session_key)
        if session_key in self._active_sessions and source is not None and self._message_handler is not None:
            self._active_sessions[session_key].set()
            await self._message_handler(MessageEvent("/stop", MessageType.COMMAND, source))
        if release_guard:
            self._active_sessions.pop(session_key, None)

    async def cancel_background_tasks(self) -> None:
        tasks = [task for task in self._background_tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._background_tasks.clear()

    def has_pending_interrupt(self, session_key: str) -> bool:
        event = self._active_sessions.get(session_key)
        return event is not None and event.is_set()

    def get_pending_message(self, session_key: str) -> MessageEvent | None:
        return self._pending_messages.pop(session_key, None)

    def pause_typing_for_chat(self, chat_id: str) -> None:
        self._typing_paused.add(str(chat_id))

    def resume_typing_for_chat(self, chat_id: str) -> None:
        self._typing_paused.discard(str(chat_id))

    def register_post_delivery_callback(
        self, session_key: str, callback: Callable[[], Any], *, generation: int | None = None
    ) -> None:
        """Called once when the next answer of the conversation was sent."""
        del generation
        self._post_delivery_callbacks[session_key] = callback

    # --- state

    def _mark_connected(self) -> None:
        self._running = True
        self._fatal_error_code = self._fatal_error_message = None
        self._fatal_error_retryable = True

    def _mark_disconnected(self) -> None:
        self._running = False

    def _set_fatal_error(self, code: str, message: str, *, retryable: bool) -> None:
        self._running = False
        self._fatal_error_code, self._fatal_error_message = code, message
        self._fatal_error_retryable = retryable

    async def _notify_fatal_error(self) -> None:
        """Tell the gateway, which lets this adapter go and makes another one if that may help."""
        if self._fatal_error_handler is not None:
            told = self._fatal_error_handler(self)
            if asyncio.iscoroutine(told):
                await told

    @property
    def has_fatal_error(self) -> bool:
        return self._fatal_error_message is not None

    @property
    def fatal_error_code(self) -> str | None:
        return self._fatal_error_code

    @property
    def fatal_error_message(self) -> str | None:
        return self._fatal_error_message

    @property
    def fatal_error_retryable(self) -> bool:
        return self._fatal_error_retryable

    def _acquire_platform_lock(self, scope: str, identity: str, resource_desc: str) -> bool:
        """Whether this process alone speaks for the account; if not, it is a fatal error that may pass."""
        ours, record = acquire_scoped_lock(scope, identity, {"platform": str(self.platform.value)})
        if ours:
            self._platform_lock = (scope, identity)
            return True
        holder = (record or {}).get("pid") or "another one"
        message = f"{resource_desc} is in use by another process on this machine ({holder})."
        self._set_fatal_error(f"{scope}_lock", message, retryable=True)
        return False

    def _release_platform_lock(self) -> None:
        held, self._platform_lock = self._platform_lock, None
        if held is not None:
            release_scoped_lock(*held)

    # --- what the gateway sets

    def set_message_handler(self, handler: Handler | None) -> None:
        self._message_handler = handler

    def set_fatal_error_handler(self, handler: Callable[["BasePlatformAdapter"], Any] | None) -> None:
        self._fatal_error_handler = handler

    def set_session_store(self, session_store: Any) -> None:
        self._session_store = session_store

    def set_busy_session_handler(self, handler: Any) -> None:
        self._busy_session_handler = handler

    def set_topic_recovery_fn(self, fn: Any) -> None:
        self._topic_recovery_fn = fn

    def set_authorization_check(self, check: Any) -> None:
        self._authorization_check = check

    # --- sending

    async def _send_with_retry(
        self,
        chat_id: str,
        content: str,
        reply_to: str | None = None,
        metadata: dict[str, Any] | None = None,
        max_retries: int = 2,
        base_delay: float = 2.0,
    ) -> SendResult:
        """Send; twice more what failed on the way, once more as plain text what was not taken."""
        result = await self.send(chat_id=chat_id, content=content, reply_to=reply_to, metadata=metadata)
        for number in range(max_retries):
            if result.success or not (result.retryable or is_connection_error(result.error)):
                break
            await asyncio.sleep(result.retry_after or base_delay * 2**number * random.uniform(0.9, 1.1))
            result = await self.send(chat_id=chat_id, content=content, reply_to=reply_to, metadata=metadata)
        else:
            if not result.success:
                with contextlib.suppress(Exception):  # the notice is a courtesy
                    await self.send(chat_id=chat_id, content=NOT_SENT.format(error=result.error), metadata=metadata)
                return result
        if result.success or is_unanswered(result.error):
            return result
        return await self.send(chat_id=chat_id, content=content[:PLAIN_CHARS], reply_to=reply_to, metadata=metadata)

    truncate_message = staticmethod(truncate_message)
    extract_media = staticmethod(extract_media)
    extract_images = staticmethod(extract_images)
    extract_local_files = staticmethod(extract_local_files)
    validate_media_delivery_path = staticmethod(validate_media_delivery_path)


def _as_id(value: Any) -> str | None:
    return None if value is None else str(value)
