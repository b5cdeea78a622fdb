"""Works on messages of an adapter that no gateway drives, as its author's own tests do: one message of a conversation
after the other, commands at once, and what the handler says is sent as the adapter can."""

import asyncio
import contextlib
import logging
import mimetypes
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.platforms.plugin_bridge.messages import (
    DOCUMENT_MARK,
    MessageEvent,
    ProcessingOutcome,
    merge_pending_message_event,
    thread_metadata,
)
from gateway.platforms.plugin_bridge.texts import find_temporary, validate_media_delivery_path
from hermes_base.call_forms import read_call_form
from hermes_base.command_table import NOT_HELD_UP
from hermes_base.turn.plugin_asks import CLARIFICATION, open_asks

if TYPE_CHECKING:
    from gateway.platforms.base import BasePlatformAdapter

log = logging.getLogger(__name__)

TYPING_SECONDS, LONGEST_TYPING_CALL = 2.0, 1.5


def take(adapter: "BasePlatformAdapter", event: MessageEvent, key: str) -> None:
    """Begin to work on it beside, where its conversation is idle."""
    adapter._active_sessions[key] = asyncio.Event()
    task = asyncio.create_task(adapter._process_message_background(event, key))
    adapter._session_tasks[key] = task
    adapter._background_tasks.add(task)

    def forget(done: "asyncio.Task[None]") -> None:
        adapter._background_tasks.discard(done)
        if adapter._session_tasks.get(key) is done:
            del adapter._session_tasks[key]

    task.add_done_callback(forget)


async def take_beside(adapter: "BasePlatformAdapter", event: MessageEvent, key: str) -> None:
    """A message of a conversation that is busy: what waits for nothing is done at once; else whoever was put there for
    that decides, or it waits for its turn."""
    if event.get_command() in NOT_HELD_UP or any(ask.awaits_text for ask in open_asks.of_session(key, CLARIFICATION)):
        await _ask_handler(adapter, event)
        return
    handler = adapter._busy_session_handler
    if handler is not None and await handler(event, key):
        return
    merge_pending_message_event(adapter._pending_messages, key, event)


async def work(adapter: "BasePlatformAdapter", event: MessageEvent, key: str) -> None:
    """On it, and on what came meanwhile."""
    try:
        waiting: MessageEvent | None = event
        while waiting is not None:
            async with _show_typing(adapter, waiting):
                await _answer(adapter, waiting, key)
            waiting = adapter._pending_messages.pop(key, None)
    finally:
        adapter._active_sessions.pop(key, None)


async def _answer(adapter: "BasePlatformAdapter", event: MessageEvent, key: str) -> None:
    outcome = ProcessingOutcome.FAILURE
    await _tell(adapter, adapter.on_processing_start, event)
    try:
        await _ask_handler(adapter, event)
        outcome = ProcessingOutcome.SUCCESS
    except asyncio.CancelledError:
        outcome = ProcessingOutcome.CANCELLED
        raise
    except Exception:
        log.exception("%s: a message could not be answered", adapter.name)
    finally:
        await _tell(adapter, adapter.on_processing_complete, event, outcome)
    delivered = adapter._post_delivery_callbacks.pop(key, None)
    if delivered is not None:
        await _tell(adapter, delivered)


async def _ask_handler(adapter: "BasePlatformAdapter", event: MessageEvent) -> None:
    said = await adapter._message_handler(event) if adapter._message_handler is not None else None
    if said and event.source is not None:
        await _deliver(adapter, event, str(said))


async def _tell(adapter: "BasePlatformAdapter", call: Any, *facts: Any) -> None:
    """What an adapter does beside an answer cannot make the answer fail."""
    try:
        told = call(*facts)
        if asyncio.iscoroutine(told):
            await told
    except Exception:
        log.exception("%s failed beside a message", adapter.name)


@contextlib.asynccontextmanager
async def _show_typing(adapter: "BasePlatformAdapter", event: MessageEvent) -> AsyncIterator[None]:
    chat = event.source.chat_id if event.source is not None else ""
    place = {"metadata": thread_metadata(event.source)}

    async def show() -> None:
        while True:
            if chat not in adapter._typing_paused:
                with contextlib.suppress(Exception):  # a sign of life is a courtesy
                    async with asyncio.timeout(LONGEST_TYPING_CALL):
                        await adapter.send_typing(chat, **place)
            await asyncio.sleep(TYPING_SECONDS)

    shown = asyncio.create_task(show()) if getattr(adapter.config, "typing_indicator", True) else None
    try:
        yield
    finally:
        if shown is not None:
            shown.cancel()
            await asyncio.gather(shown, return_exceptions=True)
            form = read_call_form(adapter.stop_typing)
            with contextlib.suppress(Exception):
                await adapter.stop_typing(chat, **(place if form is None else form.choose(place)))


async def _deliver(adapter: "BasePlatformAdapter", event: MessageEvent, said: str) -> None:
    """First the text, then the pictures in one call, then each file by what it is."""
    assert event.source is not None  # the caller has looked
    chat, place = event.source.chat_id, thread_metadata(event.source)
    is_document = DOCUMENT_MARK in said
    media, text = adapter.extract_media(said)
    pictures, text = adapter.extract_images(text)
    files, text = adapter.extract_local_files(text)
    if text.strip():
        notified = {**(place or {}), "notify": True}
        await adapter._send_with_retry(chat_id=chat, content=text, reply_to=event.message_id, metadata=notified)
    found = [*((path, voice) for path, voice in media), *((path, False) for path in files)]
    sorted_files = list(_sort(found, is_document))
    shown = [*pictures, *((Path(path).as_uri(), "") for call, path in sorted_files if call == "image")]
    if shown:
        await adapter.send_multiple_images(chat_id=chat, images=shown, metadata=place)
    for call, path in sorted_files:
        if call == "send_voice":
            await adapter.send_voice(chat_id=chat, audio_path=path, metadata=place)
        elif call == "send_video":
            await adapter.send_video(chat_id=chat, video_path=path, metadata=place)
        elif call == "send_document":
            await adapter.send_document(chat_id=chat, file_path=path, metadata=place)


def _sort(files: list[tuple[str, bool]], is_document: bool) -> Iterator[tuple[str, str]]:
    """How each file that may be sent (G7) is sent."""
    for named, is_voice in files:
        path = validate_media_delivery_path(named) or find_temporary(named)
        if path is None:
            log.warning("%s is not sent: it is no file that may be", Path(named).name)
            continue
        kind = (mimetypes.guess_type(path)[0] or "").partition("/")[0]
        if is_document:
            yield "send_document", path
        elif kind == "audio" or is_voice:
            yield "send_voice", path
        else:
            yield {"image": "image", "video": "send_video"}.get(kind, "send_document"), path
