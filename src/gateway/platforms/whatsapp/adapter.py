"""One number on WhatsApp. What is said to it and by it is decided in the `wire` modules; here the calls are made, and
what WhatsApp answers is told in the words of the face."""

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gateway.platforms.backoff import Pauses
from gateway.platforms.face import Core, HookAnswer, HookRequest, NeverTaken, NotNow, Part
from gateway.platforms.line_adapter import LineAdapter
from gateway.platforms.signing import FORMS, check, is_same
from gateway.platforms.whatsapp import SPEC, wire_out
from gateway.platforms.whatsapp.link import GraphLink, open_link
from gateway.platforms.whatsapp.number_settings import NumberSettings, read_number
from gateway.platforms.whatsapp.probe import as_problem
from gateway.platforms.whatsapp.reception import HookReception
from gateway.platforms.whatsapp.refusals import (
    PAIR_LIMIT,
    UNREACHED_SECONDS,
    GraphTrouble,
    RefusalKind,
    as_failure,
    find_meaning,
)
from gateway.platforms.whatsapp.sent_memory import SentMemory
from gateway.platforms.whatsapp.wire import HookItem, NumberSelf, OddHook, read_hook
from gateway.platforms.whatsapp.wire_out import Body
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import Address, FileRef

_log = logging.getLogger(__name__)
SIGNED = FORMS["github"]  # both sign the body alone, in the same header
LOOK_SECONDS = 60.0  # between two looks whether WhatsApp still knows us
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0  # between looks that failed
OWNER_LOOK_SECONDS = 300.0  # while the owner has something to see to
MOST_AHEAD = 100  # messages that went ahead of others which did not arrive yet
NOT_CONNECTED_SECONDS = 2.0
UNREACHED = "WhatsApp cannot be reached ({}). It is tried again; what people write waits there."


class WhatsAppAdapter(LineAdapter):
    spec = SPEC

    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__(account, settings, home)
        self._number: NumberSettings | None = None
        self._link: GraphLink | None = None
        self._reception: HookReception | None = None
        self._memory = SentMemory()
        self._ahead: dict[str, int] = {}  # by key of a part: how many of its messages were sent
        self._slowed: dict[str, int] = {}  # by chat: how often in a row fewer messages were asked for
        self._send_problem = ""

    # --- being there: WhatsApp keeps what people write meanwhile, and brings it for a week

    async def _begin(self, core: Core) -> None:
        number = read_number(self.settings)
        link = self._link = await open_link(number)
        try:
            await link.describe_number()
        except GraphTrouble as trouble:
            meaning = find_meaning(trouble)
            is_ours = meaning.lasting or meaning.verdict is RefusalKind.NEVER
            raise as_problem(trouble) if is_ours else as_failure(trouble) from None
        self._number, self._send_problem = number, ""
        self._reception = HookReception(core, self._memory, self.send)
        self.hook_header = SIGNED.header
        self._note_life()
        self._keep(functools.partial(self._watch, link))

    async def _close(self) -> None:
        link, self._link = self._link, None
        reception, self._reception = self._reception, None
        if link is not None:
            await link.close()
        if reception is not None:
            reception.close()

    async def _watch(self, link: GraphLink) -> None:
        """Once a minute: whether WhatsApp is there and the token still holds (C13)."""
        pauses, pause = Pauses(FIRST_PAUSE, LONGEST_PAUSE), LOOK_SECONDS
        while True:
            await asyncio.sleep(pause)
            pause = LOOK_SECONDS
            try:
                await link.describe_number()
                pauses.reset()
                self._note_life()
            except GraphTrouble as trouble:
                meaning = find_meaning(trouble)
                self._note_problem(meaning.sentence if meaning.lasting else UNREACHED.format(trouble))
                pause = OWNER_LOOK_SECONDS if meaning.lasting else pauses.next()

    def _note_life(self, problem: str = "", *, hears: bool = False) -> None:
        super()._note_life(problem or self._send_problem, hears=hears)

    # --- what WhatsApp brings

    async def receive_hook(self, request: HookRequest) -> HookAnswer:
        number, reception = self._number, self._reception
        if request.path:
            return HookAnswer(404)
        if number is None or reception is None:
            return HookAnswer(503)
        if request.method == "GET":
            return _introduce(number, request.query)
        # A body may have three megabytes: it is hashed and read beside the event loop.
        found = await asyncio.to_thread(_read_request, number, NumberSelf(self.account, number.number), request)
        if isinstance(found, HookAnswer):
            return found
        self.last_seen = time.time()
        return HookAnswer(200 if await reception.take_all(found) else 503)

    # --- messages

    async def send(self, part: Part) -> str:
        if wire_out.measure(part.text) > wire_out.MOST_TEXT:
            raise NeverTaken(f"The text is longer than the {wire_out.MOST_TEXT} signs of a message in WhatsApp.")
        return await self._send_all(part, wire_out.make_messages(part))

    async def typing(self, address: Address) -> None:
        """In answer to the last message, if one came since the start; the sign stays for a while."""
        message = self._memory.choose_typing(address.chat, time.monotonic())
        if message:
            with self._told_by_the_face(address):
                await self._find_link().post(wire_out.make_typing(message))

    async def acknowledge(self, address: Address, message: str) -> None:
        if wire_out.is_message_id(message):
            with self._told_by_the_face(address):
                await self._find_link().post(wire_out.make_read(message))

    def reachable(self, address: Address) -> bool:
        return not self._memory.is_away(address)

    async def _send_all(self, part: Part, bodies: list[Body]) -> str:
        """The id of the last message. Those before it are sent once, however often the last is tried."""
        sent = ""
        begin = self._ahead.get(part.key, 0) if part.key else 0
        for index in range(min(begin, len(bodies) - 1), len(bodies)):
            sent = await self._send_one(part, bodies[index])
            if part.key and index + 1 < len(bodies):
                self._ahead[part.key] = index + 1
        self._ahead.pop(part.key, None)
        while len(self._ahead) > MOST_AHEAD:
            del self._ahead[next(iter(self._ahead))]
        return sent

    async def _send_one(self, part: Part, body: Body) -> str:
        key = wire_out.read_key(body)
        if arrived := self._memory.find_arrived(key):
            return arrived
        self._memory.begin(key)  # what becomes of it may be told before the call has an end
        try:
            with self._told_by_the_face(part.address):
                sent = _read_id(await self._find_link().post(body))
        except (NotNow, NeverTaken):
            self._memory.end(key)
            raise
        self._memory.end(key)
        if part.row:
            self._memory.note_sent(sent)
        self._slowed.pop(part.address.chat, None)
        if self._send_problem:
            self._send_problem = ""
            self._note_problem("")
        return sent

    # --- files

    async def send_file(self, part: Part, file: FileRef) -> str:
        data = await self._read_upload(file)
        plan = wire_out.plan_upload(file, data)
        try:
            with self._told_by_the_face(part.address):
                media = await self._find_link().upload(file.name, data, plan)
        except DeliveryFailure as failure:
            if isinstance(failure, NotNow | NeverTaken):
                raise
            raise NotNow(str(failure), UNREACHED_SECONDS) from None  # of what only went up, nobody has seen anything
        return await self._send_all(part, wire_out.make_file(part, file, plan, media))

    async def fetch(self, file: FileRef, path: Path) -> None:
        try:
            await self._find_link().fetch(file.remote, path)
        except GraphTrouble as trouble:
            raise as_failure(trouble) from None

    # --- calls

    def _find_link(self) -> GraphLink:
        if self._link is None:
            raise NotNow("WhatsApp is not connected.", NOT_CONNECTED_SECONDS)
        return self._link

    @contextlib.contextmanager
    def _told_by_the_face(self, address: Address) -> Iterator[None]:
        try:
            yield
        except GraphTrouble as trouble:
            slowed = self._slowed.get(address.chat, 0)
            failure, meaning = as_failure(trouble, slowed), find_meaning(trouble)
            if trouble.code == PAIR_LIMIT:
                self._slowed[address.chat] = slowed + 1
            if meaning.verdict is RefusalKind.AWAY:
                self._memory.note_away(address)
            if meaning.lasting:
                self._send_problem = meaning.sentence
                self._note_problem(meaning.sentence)
            raise failure from None


def _read_request(number: NumberSettings, me: NumberSelf, request: HookRequest) -> list[HookItem] | HookAnswer:
    """What a request brings, or what to answer because it brings nothing. Nothing of it is looked at before its
    signature was."""
    if not check(SIGNED, request.headers, request.body, [number.app_secret], time.time()):
        return HookAnswer(401)
    if request.method != "POST":
        return HookAnswer(405)
    try:
        return read_hook(request.body, me)
    except OddHook as odd:
        _log.warning("WhatsApp sent something that is left out: %s.", odd)
        return HookAnswer(400)


def _introduce(number: NumberSettings, query: Mapping[str, str]) -> HookAnswer:
    """WhatsApp asks whether this is the place that its owner named: it shows the word, and gets its challenge back."""
    known = is_same(query.get("hub.verify_token", ""), [number.verify_token])
    if query.get("hub.mode") != "subscribe" or not known:
        return HookAnswer(403)
    return HookAnswer(200, query.get("hub.challenge", "")[:1000])


def _read_id(answer: Mapping[str, Any]) -> str:
    """The id of a message that was sent; an answer without one says nothing on whether it was."""
    messages = answer.get("messages")
    first = messages[0] if isinstance(messages, list) and messages else None
    id = first.get("id") if isinstance(first, Mapping) else None
    if not isinstance(id, str) or not id:
        raise DeliveryFailure("WhatsApp did not tell the id of the message.")
    return id
