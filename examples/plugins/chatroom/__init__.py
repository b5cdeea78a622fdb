"""A plugin with a chat platform: it speaks to the server in `server.py`, one line of JSON for each message.

python examples/plugins/chatroom/server.py 7777
cp -r examples/plugins/chatroom ~/.hermes/plugins/ && hermes plugins enable chatroom
hermes config set CHATROOM_ADDRESS 127.0.0.1:7777
"""

import asyncio
import base64
import contextlib
import itertools
import json
import os
from pathlib import Path

from gateway.config import Platform
from gateway.platforms.base import (
    BasePlatformAdapter,
    MessageEvent,
    MessageType,
    SendResult,
    cache_document_from_bytes,
    cache_image_from_bytes,
)
from hermes_cli import config
from tools.approval import resolve_gateway_approval
from tools.clarify_gateway import resolve_gateway_clarify

LONGEST_LINE = 32 * 1024 * 1024


class ChatroomAdapter(BasePlatformAdapter):
    MAX_MESSAGE_LENGTH = 2000

    def __init__(self, settings):
        super().__init__(settings, Platform("chatroom"))
        self._address = settings.extra["address"]
        self._waiting = {}
        self._numbers = itertools.count(1)
        self._buttons = {}

    # --- the line

    async def connect(self, *, is_reconnect=False):
        host, _, port = self._address.rpartition(":")
        try:
            self._reader, self._writer = await asyncio.open_connection(host, int(port), limit=LONGEST_LINE)
        except OSError as problem:
            self._set_fatal_error("connection", f"Nobody listens at {self._address} ({problem}).", retryable=True)
            return False
        reading = asyncio.create_task(self._read())
        self._background_tasks.add(reading)
        self._mark_connected()
        return True

    async def disconnect(self):
        self._mark_disconnected()
        writer = getattr(self, "_writer", None)
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _read(self):
        with contextlib.suppress(OSError, ValueError):
            while line := await self._reader.readline():
                told = json.loads(line)
                if "answers" in told:
                    self._waiting.pop(told["answers"]).set_result(told)
                elif told.get("event") == "button":
                    self._press(told)
                else:
                    # A message is confirmed when it was handed over: the server brings it again until then.
                    taking = asyncio.create_task(self._take(told))
                    self._background_tasks.add(taking)
                    taking.add_done_callback(self._background_tasks.discard)
        for waiting in self._waiting.values():
            waiting.set_exception(ConnectionError("the server has hung up"))
        self._waiting.clear()
        if self.is_connected:
            self._set_fatal_error("connection", "The server has hung up.", retryable=True)
            await self._notify_fatal_error()

    async def _take(self, told):
        source = self.build_source(
            told["chat"],
            chat_type=told.get("kind", "dm"),
            user_id=told["user"],
            user_name=told.get("name"),
            thread_id=told.get("thread"),
        )
        event = MessageEvent(told["text"], MessageType.TEXT, source, message_id=told["id"])
        event.channel_prompt = (self.config.extra.get("channel_prompts") or {}).get(told["chat"])
        for file in told.get("files", ()):
            data = base64.b64decode(file["data"])
            is_image = file["type"].startswith("image/")
            kept = cache_image_from_bytes(data, ".png") if is_image else cache_document_from_bytes(data, file["name"])
            event.media_urls.append(kept)
            event.media_types.append(file["type"])
        await self.handle_message(event)
        await self._ask({"op": "confirm", "id": told["id"]})

    def _press(self, told):
        kind, name = self._buttons.get(told["message"], (None, None))
        if kind == "approval":
            resolve_gateway_approval(name, told["choice"])
        elif kind == "question":
            resolve_gateway_clarify(name, told["choice"])

    async def _ask(self, order):
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        self._writer.write((json.dumps({**order, "number": number}) + "\n").encode())
        await self._writer.drain()
        return await self._waiting[number]

    async def _post(self, order, metadata=None):
        thread = (metadata or {}).get("thread_id")
        answer = await self._ask({**order, "thread": thread} if thread else order)
        if "refused" in answer:
            again, kind = answer.get("again", False), answer.get("kind")
            return SendResult(False, error=answer["refused"], retryable=again, error_kind=kind)
        return SendResult(True, message_id=answer["id"])

    # --- what is shown

    async def send(self, chat_id, content, reply_to=None, metadata=None):
        return await self._post({"op": "send", "chat": chat_id, "text": content, "reply_to": reply_to}, metadata)

    async def edit_message(self, chat_id, message_id, content, *, finalize=False):
        return await self._post({"op": "edit", "chat": chat_id, "id": message_id, "text": content, "final": finalize})

    async def send_typing(self, chat_id, metadata=None):
        await self._ask({"op": "typing", "chat": chat_id})

    async def send_document(self, chat_id, file_path, caption=None, file_name=None, reply_to=None, metadata=None):
        data = await asyncio.to_thread(Path(file_path).read_bytes)
        coded = base64.b64encode(data).decode()
        order = {"op": "file", "chat": chat_id, "text": caption or "", "name": file_name, "data": coded}
        return await self._post(order, metadata)

    async def send_exec_approval(self, chat_id, command, session_key, description="", metadata=None):
        order = {"op": "send", "chat": chat_id, "text": f"May I? {command}\n{description}"}
        sent = await self._post({**order, "buttons": ["once", "session", "deny"]}, metadata)
        self._buttons[sent.message_id] = ("approval", session_key)
        return sent

    async def send_clarify(self, chat_id, question, choices, clarify_id, session_key, metadata=None):
        order = {"op": "send", "chat": chat_id, "text": question, "buttons": choices or []}
        sent = await self._post(order, metadata)
        self._buttons[sent.message_id] = ("question", clarify_id)
        return sent

    async def on_processing_start(self, event):
        await self._ask({"op": "mark", "id": event.message_id, "mark": "taken"})

    async def on_processing_complete(self, event, outcome):
        await self._ask({"op": "mark", "id": event.message_id, "mark": outcome.value})

    async def get_chat_info(self, chat_id):
        return {"name": chat_id, "type": "dm"}


async def send_alone(settings, chat_id, message, **_):
    """For a message while nobody is connected: it listens to nothing but the answer."""
    host, _, port = settings.extra["address"].rpartition(":")
    try:
        reader, writer = await asyncio.open_connection(host, int(port), limit=LONGEST_LINE)
    except OSError as problem:
        return {"error": str(problem)}
    try:
        order = {"op": "send", "chat": chat_id, "text": message, "number": 1}
        writer.write((json.dumps(order) + "\n").encode())
        while line := await reader.readline():
            told = json.loads(line)
            if told.get("answers") == 1:
                return {"success": True, "message_id": told["id"]} if "id" in told else {"error": told["refused"]}
        return {"error": "The server has hung up."}
    finally:
        writer.close()


def set_up():
    """`hermes setup chatroom`."""
    address = input("Where does the server listen [127.0.0.1:7777]: ").strip() or "127.0.0.1:7777"
    config.set_value("CHATROOM_ADDRESS", address)
    print(f"The chatroom at {address} it is.")


def find_address():
    """What the variables say; the platform is on as soon as they say where the server is."""
    address = os.getenv("CHATROOM_ADDRESS", "")
    return {"address": address} if address else None


def register(ctx):
    ctx.register_platform(
        "chatroom",
        "Chatroom",
        ChatroomAdapter,
        check_fn=lambda: True,
        validate_config=lambda settings: bool(settings.extra.get("address")),
        required_env=["CHATROOM_ADDRESS"],
        env_enablement_fn=find_address,
        allowed_users_env="CHATROOM_ALLOWED_USERS",
        allow_all_env="CHATROOM_ALLOW_ALL_USERS",
        setup_fn=set_up,
        standalone_sender_fn=send_alone,
        cron_deliver_env_var="CHATROOM_HOME_CHANNEL",
        max_message_length=ChatroomAdapter.MAX_MESSAGE_LENGTH,
        platform_hint="People read this in a plain chat window.",
        emoji="💬",
    )
