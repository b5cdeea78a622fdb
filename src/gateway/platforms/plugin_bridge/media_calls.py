"""What an adapter of a plugin may show beside text, and what happens where it cannot: a word in its place."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from gateway.platforms.plugin_bridge.messages import SendResult
from hermes_base.turn.plugin_asks import open_asks

NO_WAY = "{name} has no way to send {what}."


class MediaCalls(ABC):
    """A part of `BasePlatformAdapter`; each of these may be filled in by an adapter."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    async def send(
        self, chat_id: str, content: str, reply_to: str | None = None, metadata: dict[str, Any] | None = None
    ) -> SendResult: ...

    async def send_image(
        self,
        chat_id: str,
        image_url: str,
        caption: str | None = None,
        reply_to: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> SendResult:
        text = "\n".join(part for part in (caption, image_url) if part)
        return await self.send(chat_id=chat_id, content=text, reply_to=reply_to, metadata=metadata)

    async def send_animation(
        self,
        chat_id: str,
        animation_url: str,
        caption: str | None = None,
        reply_to: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> SendResult:
        return await self.send_image(chat_id, animation_url, caption, reply_to, metadata)

    async def send_image_file(
        self,
        chat_id: str,
        image_path: str,
        caption: str | None = None,
        reply_to: str | None = None,
        metadata: dict[str, Any] | None = None,
        **more: Any,
    ) -> SendResult:
        return await self._tell_unsent(chat_id, "a picture", caption, reply_to, metadata)

    async def send_voice(
        self,
        chat_id: str,
        audio_path: str,
        caption: str | None = None,
        reply_to: str | None = None,
        metadata: dict[str, Any] | None = None,
        **more: Any,
    ) -> SendResult:
        return await self._tell_unsent(chat_id, "a recording", caption, reply_to, metadata)

    async def send_video(
        self,
        chat_id: str,
        video_path: str,
        caption: str | None = None,
        reply_to: str | None = None,
        metadata: dict[str, Any] | None = None,
        **more: Any,
    ) -> SendResult:
        return await self._tell_unsent(chat_id, "a video", caption, reply_to, metadata)

    async def send_document(
        self,
        chat_id: str,
        file_path: str,
        caption: str | None = None,
        file_name: str | None = None,
        reply_to: str | None = None,
        metadata: dict[str, Any] | None = None,
        **more: Any,
    ) -> SendResult:
        return await self._tell_unsent(
            chat_id, f"the file {file_name}" if file_name else "a file", caption, reply_to, metadata
        )

    async def _tell_unsent(
        self, chat_id: str, what: str, caption: str | None, reply_to: str | None, metadata: dict[str, Any] | None
    ) -> SendResult:
        """A word in the place of a file; never its path."""
        text = "\n".join(part for part in (caption, NO_WAY.format(name=self.name, what=what)) if part)
        return await self.send(chat_id=chat_id, content=text, reply_to=reply_to, metadata=metadata)

    async def send_multiple_images(
        self,
        chat_id: str,
        images: Sequence[tuple[str, str]],
        metadata: dict[str, Any] | None = None,
        human_delay: float = 0.0,
    ) -> None:
        for number, (url, alt) in enumerate(images):
            if number and human_delay:
                await asyncio.sleep(human_delay)
            place = urlsplit(url)
            caption = alt or None
            if place.scheme == "file":
                await self.send_image_file(chat_id, unquote(place.path), caption=caption, metadata=metadata)
            elif PurePosixPath(place.path).suffix.lower() == ".gif":
                await self.send_animation(chat_id, url, caption=caption, metadata=metadata)
            else:
                await self.send_image(chat_id, url, caption=caption, metadata=metadata)

    async def play_tts(self, chat_id: str, audio_path: str, **more: Any) -> SendResult:
        return await self.send_voice(chat_id, audio_path, **more)

    async def send_private_notice(
        self,
        chat_id: str,
        user_id: str,
        content: str,
        reply_to: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> SendResult:
        return await self.send(chat_id=chat_id, content=content, reply_to=reply_to, metadata=metadata)

    async def send_clarify(
        self,
        chat_id: str,
        question: str,
        choices: Sequence[str] | None,
        clarify_id: str,
        session_key: str,
        metadata: dict[str, Any] | None = None,
    ) -> SendResult:
        """As text: the choices are numbered, and a number or its words are the answer."""
        lines = [question, *(f"{number}. {choice}" for number, choice in enumerate(choices or (), 1))]
        ask = open_asks.find(clarify_id)
        if ask is not None:
            ask.awaits_text = True
        return await self.send(chat_id=chat_id, content="\n".join(lines), metadata=metadata)

    async def send_slash_confirm(
        self,
        chat_id: str,
        title: str,
        message: str,
        session_key: str,
        confirm_id: str,
        metadata: dict[str, Any] | None = None,
    ) -> SendResult:
        return SendResult(False, error="Not supported")

    async def send_draft(
        self, chat_id: str, draft_id: Any, content: str, metadata: dict[str, Any] | None = None
    ) -> SendResult:
        raise NotImplementedError

    def supports_draft_streaming(self, chat_type: str | None = None, metadata: dict[str, Any] | None = None) -> bool:
        return False

    def prefers_fresh_final_streaming(self, content: str, metadata: dict[str, Any] | None = None) -> bool:
        return False

    def streaming_overflow_limit(self) -> int | None:
        return None

    def format_message(self, content: str) -> str:
        return content

    def format_tool_event(self, event: Any, *, mode: str = "all", preview_max_len: int = 40) -> str | None:
        name, preview = getattr(event, "name", event), str(getattr(event, "preview", "") or "")
        shown = preview if len(preview) <= preview_max_len else preview[: max(0, preview_max_len - 1)] + "…"
        return f"⚙️ {name}: {shown}" if shown else f"⚙️ {name}"
