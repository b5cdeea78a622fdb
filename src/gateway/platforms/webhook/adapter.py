"""One hook: checks and takes what comes to it, and sends what is answered to its reply_url."""

import asyncio
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.platforms.face import (
    BaseAdapter,
    Core,
    HookAnswer,
    HookRequest,
    NeverTaken,
    NotNow,
    Part,
    Refused,
)
from gateway.platforms.signing import write_signature
from gateway.platforms.webhook import SPEC, wire
from gateway.platforms.webhook.hook_settings import HookRules, read_hook
from gateway.platforms.webhook.seen_requests import SeenRequests
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import FileRef, Inbound
from hermes_net.checked_http import AddressRefused, CallFailed, HttpCall, call_checked

REPLY_SECONDS = 20.0
MOST_REPLY_BYTES = 65_536  # of the answer to an answer, of which only the status counts
REFUSED_SECONDS = 60.0  # until an address that may not be called is tried again: its name may lead elsewhere then
TAKEN = HookAnswer(200, "Taken.")


class WebhookAdapter(BaseAdapter):
    spec = SPEC

    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__(account, settings, home)
        self._core: Core | None = None
        self._hook: HookRules | None = None
        self._seen = SeenRequests()
        self._pending: dict[str, str] = {}  # what was signed, and its id, of those that are being stored

    async def connect(self, core: Core) -> None:
        try:
            self._hook = read_hook(self.settings)
        except ConfigProblem as problem:
            self.problem = str(problem)
            raise
        self.problem = ""
        self.replies = bool(self._hook.reply_url)
        self.hook_header = self._hook.form.header
        self._core = core
        self.last_seen = time.time()

    async def disconnect(self) -> None:
        self._core = None

    # --- in

    async def receive_hook(self, request: HookRequest) -> HookAnswer:
        core, hook = self._core, self._hook
        if core is None or hook is None:
            return HookAnswer(503)
        # A body may have a megabyte: it is hashed and read beside the event loop.
        read = await asyncio.to_thread(wire.read_request, hook, self.account, request, time.time())
        if isinstance(read, HookAnswer):
            return read
        self.last_seen = time.time()
        if not hook.form.timed:  # the same bytes may be meant twice: their id alone tells them apart
            return await _take(core, read)
        signed = await asyncio.to_thread(wire.hash_signed, hook, request)
        return await self._take_once(core, read, signed)

    async def _take_once(self, core: Core, read: Inbound, signed: str) -> HookAnswer:
        """The id may stand in a header, which nobody signed: what was signed is taken under one id only."""
        now = time.time()
        if self._pending.get(signed, read.ext_id) != read.ext_id:
            return HookAnswer(503, "This request is being taken under another id. Nothing was kept of this one.")
        if self._seen.find(signed, now) not in ("", read.ext_id):
            return TAKEN
        self._pending[signed] = read.ext_id
        try:
            answer = await _take(core, read)
        finally:
            self._pending.pop(signed, None)
        if answer is TAKEN:
            self._seen.note(signed, read.ext_id, now)
        return answer

    # --- out

    async def send(self, part: Part) -> str:
        return await self._reply(part)

    async def send_file(self, part: Part, file: FileRef) -> str:
        try:
            content = await asyncio.to_thread(Path(file.path).read_bytes)
        except OSError as error:
            raise NeverTaken(f"The file {file.name} cannot be read: {error.strerror}.") from error
        return await self._reply(part, file, content)

    async def _reply(self, part: Part, file: FileRef | None = None, content: bytes = b"") -> str:
        """Without a reply_url an answer has arrived as soon as it is stored: it stands in the conversation."""
        id = part.key or uuid.uuid4().hex
        hook = self._hook
        if hook is None or self._core is None:
            raise DeliveryFailure("The hook is not connected.")
        if not hook.reply_url:
            return id
        body = await asyncio.to_thread(wire.write_reply, part, id, file, content)
        headers = {
            "content-type": "application/json",
            "idempotency-key": id,
            **write_signature(hook.secrets[0], body, time.time()),
        }
        call = HttpCall(
            hook.reply_url,
            "POST",
            headers,
            body,
            seconds=REPLY_SECONDS,
            most_bytes=MOST_REPLY_BYTES,
            wants_body=False,  # an answer that arrived would be sent again for the sake of it
        )
        try:
            answer = await call_checked(call, hook.may_call)
        except AddressRefused as problem:
            self.problem = str(problem)
            raise NotNow(str(problem), REFUSED_SECONDS) from problem
        except CallFailed as problem:
            raise DeliveryFailure(str(problem)) from problem
        self.problem = ""
        self.last_seen = time.time()
        failure = wire.judge_reply(answer, time.time())
        if failure is not None:
            raise failure
        return id


async def _take(core: Core, read: Inbound) -> HookAnswer:
    taken = await core.take(read)
    return HookAnswer(403 if taken.barred else 503, taken.reason) if isinstance(taken, Refused) else TAKEN
