"""One app in one workspace of Slack. What is said to it and by it is decided in the `wire` modules; here the calls are
made, and what Slack answers is told in the words of the face."""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.platforms.face import (
    Core,
    HookAnswer,
    HookRequest,
    MenuCommand,
    NeverTaken,
    NotNow,
    Part,
)
from gateway.platforms.line_adapter import LineAdapter
from gateway.platforms.slack import SPEC, wire_out
from gateway.platforms.slack.link import SlackLink, open_link, read_keys
from gateway.platforms.slack.probe import HTTP, SOCKET, SlackIdentity, ask_identity, read_mode, read_secret
from gateway.platforms.slack.reading_back import SentKeys
from gateway.platforms.slack.reception import SlackReception
from gateway.platforms.slack.refusals import (
    BAD_TOKEN,
    BAD_TOKEN_FIX,
    UNREACHED_SECONDS,
    SlackTrouble,
    SlackTroubleKind,
    as_failure,
    list_missing,
    say_scope,
)
from gateway.platforms.slack.watching import SIGNATURE, SlackDoor, SocketWatch, say_trouble
from gateway.platforms.slack.wire import SlackSelf, is_ts
from gateway.platforms.slack.wire_out import SlackCall
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, FileRef

_log = logging.getLogger(__name__)
NOT_CONNECTED_SECONDS = 5.0
UPLOAD_SECONDS = 30.0  # until a file is tried again
KEPT_EDITS = 4  # of what Slack takes at once: for answers, while drafts can wait
MOST_AHEAD = 100  # captions that went ahead of files which did not arrive yet, and files that were uploaded


class SlackAdapter(LineAdapter):
    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__(account, settings, home)
        self.spec = replace(SPEC, has_receipts=settings.get("reactions") is not False)
        self._me = SlackSelf(account, "", "", in_threads=settings.get("answer_in_threads") is not False)
        self._link: SlackLink | None = None
        self._reception: SlackReception | None = None
        self._door: SlackDoor | None = None
        self._sent = SentKeys(self._call_plainly)
        self._away: dict[str, set[Address]] = {}  # by channel: what waits there
        self._lack = ""  # what the app may not do and has to
        self._ended = ""  # that the bot's token is not taken; a socket, which has another one, says nothing on it
        self._takes_signs = True
        self._ahead: dict[str, str] = {}  # by key of the part: the caption that was sent as a message
        self._uploaded: dict[str, str] = {}  # by key of the part: a file of which nobody knows whether it was shown

    # --- being there: Slack brings again what was not confirmed, and has the rest in its history

    async def _begin(self, core: Core) -> None:
        mode = read_mode(self.settings)
        keys, secret = read_keys(self.settings, needs_app=mode == SOCKET), read_secret(self.settings, mode)
        link = self._link = await open_link(keys)
        self._meet(await ask_identity(link))
        self._ended = ""
        reception = self._reception = SlackReception(
            lambda: self._me,
            link.call_patiently,
            link.call,
            core,
            lambda chat: self._wake(core, chat),
            self.send,
            self._note_end,
        )
        watch = await self._open(mode, secret, core, link, reception)
        self._note_life()
        self._keep(watch)

    async def _close(self) -> None:
        reception, self._reception = self._reception, None
        link, self._link, self._door = self._link, None, None
        if reception is not None:
            await reception.close()
        if link is not None:
            await link.close()

    def _meet(self, found: SlackIdentity) -> None:
        self._me = replace(self._me, user=found.user, team=found.team, name=found.name)
        needed, wanted = list_missing(found.scopes) if found.scopes else ([], [])
        self._lack = say_scope(needed[0]) if needed else ""
        self._takes_signs = "reactions:write" not in wanted
        if wanted:
            _log.warning("The Slack app could do more with these scopes: %s", ", ".join(wanted))

    async def _open(
        self, mode: str, secret: str, core: Core, link: SlackLink, reception: SlackReception
    ) -> Callable[[], Any]:
        """Open the way for messages; what has to run from now on."""
        find_last = functools.partial(core.find_last, Address(SPEC.name, self.account, "").account_key)
        if mode == HTTP:
            self._door = SlackDoor(link, reception, secret, find_last, self._note_life, self._note_problem)
            self.hook_header = SIGNATURE.header
            reception.read_on(await find_last())
            return self._door.run
        watch = SocketWatch(link, reception, find_last, self._note_life, self._note_problem)
        try:
            await watch.open()
        except SlackTrouble as trouble:
            if trouble.kind in (SlackTroubleKind.TOKEN, SlackTroubleKind.SCOPE, SlackTroubleKind.REFUSED):
                raise ConfigProblem(say_trouble(trouble, of_app=True)) from None
            raise as_failure(trouble) from None
        return watch.run

    def _note_life(self, problem: str = "", *, hears: bool = False) -> None:
        trouble = problem or self._ended
        super()._note_life(trouble or self._lack, hears=hears or not trouble)

    def _note_end(self) -> None:
        self._ended = f"{BAD_TOKEN} {BAD_TOKEN_FIX}"
        self._note_problem(self._ended)

    def _wake(self, core: Core, chat: str) -> None:
        for address in self._away.pop(chat, set()):
            core.wake_delivery(address)

    async def receive_hook(self, request: HookRequest) -> HookAnswer:
        door = self._door
        return await door.receive(request) if door and not request.path else HookAnswer(404)

    # --- messages

    async def send(self, part: Part) -> str:
        _check_length(part)
        with self._told_by_the_face(part.address):
            return await self._find_sent(part) or await self._post(part)

    async def _find_sent(self, part: Part) -> str:
        """The same message of an earlier try; empty: there is none."""
        try:
            return await self._sent.find(part)
        except SlackTrouble as trouble:
            if trouble.kind is not SlackTroubleKind.UNSURE:
                raise
            raise NotNow(f"Slack gave no answer: {trouble.error}.", UNREACHED_SECONDS) from None  # it was only read

    async def _post(self, part: Part) -> str:
        """Without an answer nobody knows whether it arrived; also when whoever sends does not wait any longer."""
        try:
            ts = (await self._call_plainly(wire_out.make_message(part))).get("ts")
        except SlackTrouble as trouble:
            if trouble.kind is SlackTroubleKind.UNSURE:
                self._sent.doubt(part.address)
            raise
        except BaseException:
            self._sent.doubt(part.address)
            raise
        if not isinstance(ts, str):
            self._sent.doubt(part.address)
            raise DeliveryFailure("Slack did not tell the id of the message.")
        self._sent.note(part, ts)
        return ts

    async def edit(self, platform_id: str, part: Part) -> None:
        if not is_ts(platform_id):
            raise NeverTaken("There is no such message in Slack.")
        _check_length(part)
        call = wire_out.make_edit(platform_id, part)
        if not part.row and not self._find_link().has_room(call.method, KEPT_EDITS):
            raise DeliveryFailure("Slack takes few edits a minute, and the last are kept for whole answers.")
        with self._told_by_the_face(part.address):
            await self._call_plainly(call)

    async def acknowledge(self, address: Address, message: str) -> None:
        """An app that may not react is not asked again."""
        if not is_ts(message) or not self._takes_signs:
            return
        with self._told_by_the_face(address):
            try:
                await self._call_plainly(wire_out.make_reaction(address, message))
            except SlackTrouble as trouble:
                if trouble.kind not in (SlackTroubleKind.REFUSED, SlackTroubleKind.SCOPE):
                    raise
                _log.info("A message in %s takes no reaction: %s", address.chat, trouble)
                self._takes_signs = trouble.kind is not SlackTroubleKind.SCOPE

    async def offer_commands(self, commands: Sequence[MenuCommand]) -> None:
        """Slack's menu stands in the app's manifest; here they are what can be typed."""
        self._me = replace(self._me, commands=frozenset(command.name.lower() for command in commands))

    def reachable(self, address: Address) -> bool:
        return address not in self._away.get(address.chat, ())

    # --- files

    async def send_file(self, part: Part, file: FileRef) -> str:
        try:
            size = (await asyncio.to_thread(Path(file.path).stat)).st_size
        except OSError as error:
            raise NeverTaken(f"The file {file.name} cannot be read any more: {error.strerror}.") from error
        if size > self.spec.max_file_bytes:
            raise NeverTaken(f"The file {file.name} is larger than Slack takes.")
        if not size:
            raise NeverTaken(f"The file {file.name} is empty, and Slack takes no such files.")
        if part.choices or wire_out.measure(part) > wire_out.MOST_TEXT:
            part = await self._send_ahead(part)
        with self._told_by_the_face(part.address):
            sent = await self._find_shown(part) or await self._share(part, file, size)
        self._ahead.pop(part.key, None)
        self._uploaded.pop(part.key, None)
        return sent

    async def _share(self, part: Part, file: FileRef, size: int) -> str:
        asked = await self._call_plainly(wire_out.make_upload(file.name, size))
        url, file_id = asked.get("upload_url"), asked.get("file_id")
        if not isinstance(url, str) or not isinstance(file_id, str):
            raise DeliveryFailure("Slack did not say where the file goes.")
        try:
            await self._find_link().upload(url, Path(file.path))
        except OSError as error:
            raise NeverTaken(f"The file {file.name} cannot be read any more: {error.strerror}.") from error
        except SlackTrouble as trouble:  # it goes to another place than messages, which may be taken
            raise NotNow(f"Slack does not take the file {file.name} now: {trouble.error}.", UPLOAD_SECONDS) from None
        if part.key:
            _remember(self._uploaded, part.key, file_id)
        await self._call_plainly(wire_out.make_share(part, file_id, file.name))
        return file_id

    async def _find_shown(self, part: Part) -> str:
        """The file of an earlier try, if it stands in the chat; empty: it does not."""
        file_id = self._uploaded.get(part.key, "") if part.key else ""
        if not file_id:
            return ""
        try:
            found = (await self._call_plainly(SlackCall("files.info", {"file": file_id}, form=True))).get("file")
        except SlackTrouble as trouble:
            if trouble.kind not in (SlackTroubleKind.REFUSED, SlackTroubleKind.SCOPE):
                raise
            return ""
        return file_id if wire_out.is_shown(found, part.address.chat) else ""

    async def _send_ahead(self, part: Part) -> Part:
        """A caption that is too long, or that asks, is a message of its own, sent once however often the file is
        tried."""
        if part.key not in self._ahead:
            _remember(self._ahead, part.key, await self.send(part))
        return replace(part, text="", plain="", question="", choices=())

    async def fetch(self, file: FileRef, path: Path) -> None:
        try:
            await self._find_link().fetch(file.remote, path)
        except SlackTrouble as trouble:
            raise as_failure(trouble) from None

    # --- calls

    def _find_link(self) -> SlackLink:
        if self._link is None:
            raise NotNow("Slack is not connected.", NOT_CONNECTED_SECONDS)
        return self._link

    async def _call_plainly(self, call: SlackCall) -> Mapping[str, Any]:
        answer = await self._find_link().call(call)
        if self._ended:
            self._ended = ""
            self._note_problem(self._lack, hears=True)
        return answer

    @contextlib.contextmanager
    def _told_by_the_face(self, address: Address) -> Iterator[None]:
        try:
            yield
        except SlackTrouble as trouble:
            failure = as_failure(trouble)
            if isinstance(failure, NotNow) and failure.seconds is None:
                self._away.setdefault(address.chat, set()).add(address)
                _log.warning("Nobody can be reached in %s: %s", address.chat_key, failure)
            if trouble.kind is SlackTroubleKind.TOKEN:
                self._note_end()
            raise failure from None


def _check_length(part: Part) -> None:
    if wire_out.measure(part) > wire_out.MOST_TEXT:
        raise NeverTaken(f"The text is longer than the {wire_out.MOST_TEXT} signs of a message in Slack.")


def _remember(kept: dict[str, str], key: str, value: str) -> None:
    while len(kept) >= MOST_AHEAD:
        del kept[next(iter(kept))]
    kept[key] = value
