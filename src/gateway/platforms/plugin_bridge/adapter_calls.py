"""The calls that send something through an adapter of a plugin, each with the keywords that it takes."""

import asyncio
import inspect
import logging
import mimetypes
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gateway.platforms.base import BasePlatformAdapter
from gateway.platforms.face import NeverTaken, NotNow, Part
from gateway.platforms.plugin_bridge.bridge_spec import choose_arguments, find_file_call, has_own
from gateway.platforms.plugin_bridge.event_forms import describe_place
from gateway.platforms.plugin_bridge.messages import MessageEvent, ProcessingOutcome
from gateway.platforms.plugin_bridge.send_results import judge_result, read_message_id
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import ANSWER, NOTE, QUESTION, Address, FileRef, Outgoing
from hermes_base.turn.consent import KEPT
from hermes_base.turn.plugin_asks import APPROVAL, CLARIFICATION, OpenAsk, open_asks

if TYPE_CHECKING:
    from gateway.platforms.plugin_bridge.bridge_adapter import BridgeAdapter

log = logging.getLogger(__name__)

CALL_SECONDS = 120.0  # the delivery has its own limit, which is shorter
ASK_SECONDS = 15.0
TYPING_SECONDS = 1.5
WORD_SECONDS = 5.0
AGAIN_SECONDS = 5.0
UNNAMED = "unnamed"  # the id of a message whose adapter did not say one
_FILE_ARGUMENTS = {
    "send_image_file": "image_path",
    "send_voice": "audio_path",
    "send_video": "video_path",
    "send_document": "file_path",
}


class AdapterCalls:
    """Of one account; on the gateway's loop."""

    def __init__(self, bridge: "BridgeAdapter") -> None:
        self._bridge = bridge
        self._processing: dict[str, list[MessageEvent]] = {}  # by conversation: what its turn has taken

    def _get_theirs(self) -> BasePlatformAdapter:
        theirs = self._bridge.theirs
        if theirs is None:
            raise NotNow(f"{self._bridge.spec.label} is not connected.", AGAIN_SECONDS)
        return theirs

    async def _call(self, theirs: BasePlatformAdapter, name: str, seconds: float, **given: Any) -> Any:
        call = getattr(theirs, name)
        chosen = choose_arguments(call, given)
        return await self._bridge.run_while_connected(lambda: call(**chosen), seconds)

    # --- texts

    async def send(self, part: Part) -> str:
        """The platform's id of the message."""
        if self._bridge.theirs is None and self._bridge.entry.standalone_sender_fn is not None:
            return await self._send_standalone(part)
        theirs = self._get_theirs()
        asked = await self._ask(theirs, part) if part.question else ""
        if asked:
            return asked
        result = await self._call(
            theirs,
            "send",
            CALL_SECONDS,
            chat_id=part.address.chat,
            content=part.text,
            reply_to=part.reply_to or None,
            metadata=_write_metadata(part),
        )
        return await self._settle(theirs, part, result)

    async def edit(self, platform_id: str, part: Part) -> None:
        theirs = self._get_theirs()
        if platform_id == UNNAMED or not has_own(theirs, "edit_message"):
            raise NeverTaken(f"{self._bridge.spec.label} cannot edit this message.")
        result = await self._call(
            theirs,
            "edit_message",
            CALL_SECONDS,
            chat_id=part.address.chat,
            message_id=platform_id,
            content=part.text,
            finalize=bool(part.row),
            metadata=_write_metadata(part),
        )
        failure = judge_result(result, self._bridge.spec.label)
        if isinstance(failure, NeverTaken):  # the answer is sent as a message of its own
            raise NeverTaken(str(failure))
        if failure is not None:
            raise failure
        await self._end_processing(theirs, part)

    async def _settle(self, theirs: BasePlatformAdapter, part: Part, result: Any) -> str:
        failure = judge_result(result, self._bridge.spec.label)
        if failure is not None:
            raise failure
        await self._end_processing(theirs, part)
        return read_message_id(result) or UNNAMED

    async def _send_standalone(self, part: Part, file: FileRef | None = None) -> str:
        """Without a connection, where its plugin can do that."""
        send, config = self._bridge.entry.standalone_sender_fn, await self._bridge.read_config()
        assert send is not None  # the caller has looked
        given = {
            "thread_id": part.address.thread or None,
            "media_files": [(file.path, file.kind == "audio")] if file else None,
            "force_document": False,
        }
        chosen = choose_arguments(send, given)
        result = await self._bridge.run(lambda: send(config, part.address.chat, part.text, **chosen), CALL_SECONDS)
        if isinstance(result, Mapping) and result.get("success"):
            return str(result.get("message_id") or UNNAMED)
        said = result.get("error") if isinstance(result, Mapping) else result
        raise NotNow(f"{self._bridge.spec.label} did not take the message: {said}", AGAIN_SECONDS)

    # --- files

    async def send_file(self, part: Part, file: FileRef) -> str:
        if self._bridge.theirs is None and self._bridge.entry.standalone_sender_fn is not None:
            return await self._send_standalone(part, file)
        theirs = self._get_theirs()
        guessed = (mimetypes.guess_type(file.name)[0] or "").partition("/")[0]
        name = find_file_call(theirs, "video" if guessed == "video" else file.kind)
        if not name:
            raise NeverTaken(f"{self._bridge.spec.label} takes no files of this kind.")
        result = await self._call(
            theirs,
            name,
            CALL_SECONDS,
            chat_id=part.address.chat,
            caption=part.text or None,
            file_name=file.name,
            reply_to=part.reply_to or None,
            metadata=_write_metadata(part),
            **{_FILE_ARGUMENTS[name]: file.path},
        )
        failure = judge_result(result, self._bridge.spec.label)
        if failure is not None:
            raise NeverTaken(str(failure)) if isinstance(failure, NeverTaken) else failure
        return read_message_id(result) or UNNAMED

    # --- questions

    async def _ask(self, theirs: BasePlatformAdapter, part: Part) -> str:
        """Ask with the adapter's own buttons; empty: it has none, or they were not taken, and it is asked as text. In a
        group nobody could tell who pressed them (G4)."""
        outgoing = part.outgoing
        if outgoing is None or outgoing.kind != QUESTION:
            return ""
        address, key = part.address, self._bridge.find_key(part.address)
        kind = CLARIFICATION if outgoing.level == CLARIFICATION else APPROVAL
        choices = outgoing.choices

        def settle(answer: str, word: str) -> None:
            self._bridge.press(part.question, address, choices, answer, word)

        is_private = address.kind == "dm"
        open_asks.add(OpenAsk(part.question, key, kind, outgoing.text, choices, settle if is_private else None))
        name = "send_clarify" if kind == CLARIFICATION else "send_exec_approval"
        if not is_private or not has_own(theirs, name):
            return ""
        shown = _ask_as_clarify if kind == CLARIFICATION else _ask_as_approval
        place = describe_place(address)
        given = {"chat_id": address.chat, "session_key": key, "metadata": place, **shown(part.question, outgoing)}
        try:
            result = await self._call(theirs, name, ASK_SECONDS, **given)
        except DeliveryFailure as problem:
            log.warning("%s could not ask with buttons, so it asks by text: %s", self._bridge.spec.label, problem)
            return ""
        failure = judge_result(result, self._bridge.spec.label)
        return "" if failure is not None else read_message_id(result) or UNNAMED

    # --- signs of life

    async def typing(self, address: Address) -> None:
        theirs = self._get_theirs()
        if address.chat in theirs._typing_paused:
            return
        try:
            place = describe_place(address)
            await self._call(theirs, "send_typing", TYPING_SECONDS, chat_id=address.chat, metadata=place)
        except DeliveryFailure as problem:
            log.debug("%s shows no sign of typing: %s", self._bridge.spec.label, problem)

    async def begin_processing(self, address: Address, message: str) -> None:
        """A message was taken for a turn."""
        theirs, key = self._get_theirs(), self._bridge.find_key(address)
        event = self._bridge.find_event(address, message)
        if event is None:
            return
        self._processing.setdefault(key, []).append(event)

        async def begin() -> None:
            theirs._active_sessions.setdefault(key, asyncio.Event())
            await theirs.on_processing_start(event)

        await self._bridge.run(begin, WORD_SECONDS)

    async def _end_processing(self, theirs: BasePlatformAdapter, part: Part) -> None:
        """The answer of a turn is there: whatever showed that it ran goes. Nothing of it can make the answer fail."""
        outgoing = part.outgoing
        if outgoing is None or outgoing.kind != ANSWER:
            return
        key = self._bridge.find_key(part.address)
        events, outcome = self._processing.pop(key, []), _find_outcome(outgoing)
        for ask in (*open_asks.of_session(key, APPROVAL), *open_asks.of_session(key, CLARIFICATION)):
            if not ask.by_plugin:
                open_asks.drop(ask.id)

        async def end() -> None:
            theirs._active_sessions.pop(key, None)
            if has_own(theirs, "stop_typing"):
                given = {"chat_id": part.address.chat, "metadata": describe_place(part.address)}
                await theirs.stop_typing(**choose_arguments(theirs.stop_typing, given))
            for event in events:
                await theirs.on_processing_complete(event, outcome)
            callback = theirs._post_delivery_callbacks.pop(key, None)
            told = callback() if callback is not None else None
            if inspect.isawaitable(told):
                await told

        try:
            await self._bridge.run(end, WORD_SECONDS)
        except DeliveryFailure as problem:
            log.warning("%s failed after an answer was sent: %s", self._bridge.spec.label, problem)


def _ask_as_approval(question: str, outgoing: Outgoing) -> dict[str, Any]:
    del question
    return {
        "command": outgoing.text,
        "description": outgoing.reason or "It needs your consent.",
        "allow_permanent": any(choice in KEPT for choice in outgoing.choices),
        "smart_denied": False,
    }


def _ask_as_clarify(question: str, outgoing: Outgoing) -> dict[str, Any]:
    return {"question": outgoing.text, "choices": list(outgoing.choices) or None, "clarify_id": question}


def _write_metadata(part: Part) -> dict[str, Any] | None:
    place = describe_place(part.address)
    is_final = part.outgoing is not None and part.outgoing.kind in (ANSWER, NOTE, QUESTION)
    return {**(place or {}), "notify": True} if is_final else place


def _find_outcome(outgoing: Outgoing) -> ProcessingOutcome:
    if outgoing.interrupted:
        return ProcessingOutcome.CANCELLED
    return ProcessingOutcome.FAILURE if outgoing.level == "error" else ProcessingOutcome.SUCCESS
