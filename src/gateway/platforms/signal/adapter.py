"""One account on Signal. What is said to it and by it is decided in the `wire` modules; here the calls are made, and
what the daemon answers is told in the words of the face."""

import asyncio
import base64
import binascii
import contextlib
import functools
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from gateway.platforms.backoff import Pauses
from gateway.platforms.face import Core, NeverTaken, NotNow, Part
from gateway.platforms.line_adapter import LineAdapter
from gateway.platforms.signal import SPEC, wire_out
from gateway.platforms.signal.account_worries import ACCOUNT, MODE, NUMBER, PATIENCE, AccountWorries
from gateway.platforms.signal.edit_chains import EditChains, find_file, keep_chains, read_chains
from gateway.platforms.signal.introduction import ASK_SECONDS, introduce
from gateway.platforms.signal.link import CALL_SECONDS, MOST_LINE_BYTES, SignalLink, open_link
from gateway.platforms.signal.reception import ReceptionCalls, SignalReception
from gateway.platforms.signal.refusals import (
    CUT,
    NO_ID,
    NOT_CONNECTED,
    OWNER_SECONDS,
    SUCCESS,
    UNREACHED_SECONDS,
    LineTrouble,
    RpcTrouble,
    as_failure,
    is_account_lost,
    is_captcha,
    judge_results,
    read_results,
)
from gateway.platforms.signal.signal_settings import SignalSettings, is_account_id, read_settings
from gateway.platforms.signal.wire import MOST_LONG_TEXT, SignalSelf, is_timestamp, read_remote
from hermes_base.errors import ConfigProblem, DeliveryFailure
from hermes_base.inbound import Address, FileRef

T = TypeVar("T")
_log = logging.getLogger(__name__)
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0  # between two tries to connect: the daemon is near
STEADY_SECONDS = 10.0  # a line that held so long was no failure
CONFIG_SECONDS = 60.0  # what only the owner can put right is tried again so seldom
BEAT_SECONDS, ANSWER_SECONDS = 30.0, 20.0  # between two looks whether the daemon is there, and for its answer
PART_SECONDS, SETTLE_SECONDS = 2.0, 5.0
LONG_TEXT_SECONDS = 15.0
TYPING_SECONDS = 10.0  # between two signs of typing in a chat
MOST_FETCH = MOST_LINE_BYTES // 4 * 3 - 1024
MOST_UNDER_WAY = 200
TOLD_SECONDS = 10.0  # a shorter patience is over before anybody has read of it
BROKEN = "The line to signal-cli's daemon at {} broke off: {}. It is made again; what people write waits at Signal."
AGAIN = "It is tried again; what people write waits at Signal."


class SignalAdapter(LineAdapter):
    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__(account, settings, home)
        self.spec = replace(SPEC, has_receipts=settings.get("receipts") is not False)
        self._core: Core | None = None
        self._number = ""
        self._link: SignalLink | None = None
        self._subscription: int | None = None
        self._reception: SignalReception | None = None
        self._chains = EditChains()
        self._keeping = asyncio.Lock()
        self._kept_changes = 0
        self._sending: dict[str, asyncio.Task[str]] = {}  # by key: messages whose fate is not known yet
        self._editing: dict[str, asyncio.Task[None]] = {}  # by message: its last edit
        self._away: dict[str, set[Address]] = {}  # by chat: what waits there
        self._typed: dict[str, float] = {}  # by chat: when typing was shown last
        self._listens = True  # messages are asked for
        self._worries = AccountWorries()

    # --- being there

    async def _begin(self, core: Core) -> None:
        settings = read_settings(self.settings)
        self._core, self._number = core, settings.number
        self._listens, self._worries = True, AccountWorries()
        self._chains = await asyncio.to_thread(read_chains, find_file(self.home, self.account))
        own = settings.number if is_account_id(settings.number) else ""
        me = SignalSelf(self.account, settings.number, own)
        calls = ReceptionCalls(
            self.send, self._fetch_text, self._wake, self._keep_chains, self._worry, self._unsubscribe
        )
        self._reception = SignalReception(core, me, self._chains, calls)
        await self._open(settings)
        self._keep(functools.partial(self._live, settings))

    async def _open(self, settings: SignalSettings) -> None:
        """A line that brings messages from now on: whatever comes can be stored. It may be another daemon's."""
        reception = self._find_reception()
        self._worries.end(MODE, NUMBER)
        link = await open_link(settings, reception.hear, self._note_line)
        try:
            found = await introduce(link, settings, reception.me.id)
            reception.me = replace(reception.me, id=found.id or reception.me.id)
            self._link = link
            self._subscription = await self._subscribe(link) if self._listens else None
        except BaseException:
            self._link = None
            await link.close()
            raise
        self._note_line()

    async def _subscribe(self, link: SignalLink) -> int | None:
        try:
            found = await link.call("subscribeReceive", {"account": self._number}, ASK_SECONDS)
        except RpcTrouble as trouble:
            raise as_failure(trouble) from None
        return found if isinstance(found, int) else None

    async def _live(self, settings: SignalSettings) -> None:
        """Whatever happens, it goes on."""
        pauses = Pauses(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            link = self._link
            if link is not None:
                began = time.monotonic()
                why = await self._watch(link)
                if time.monotonic() - began > STEADY_SECONDS:
                    pauses.reset()
                self._link = None
                await link.close()
                self._note_problem(BROKEN.format(settings.place, why))
            await asyncio.sleep(pauses.next())
            try:
                await self._open(settings)
            except ConfigProblem as problem:
                self._note_problem(str(problem))
                await asyncio.sleep(CONFIG_SECONDS)
            except DeliveryFailure as problem:
                self._note_problem(f"{problem} {AGAIN}")

    async def _watch(self, link: SignalLink) -> str:
        """Run a line to its end; why it ended. C13: the daemon is asked now and then whether it is there."""
        beating = asyncio.create_task(self._beat(link), name=f"signal {self.account} looks")
        try:
            return await link.wait_end()
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def _beat(self, link: SignalLink) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            read = link.lines_read
            try:
                await link.call("version", {"account": self._number}, ANSWER_SECONDS)
            except RpcTrouble as trouble:
                # Behind much that waits to be stored an answer is late: a line that is cut then loses all of it.
                is_slow = link.is_held_up or link.lines_read > read
                if trouble.kind is not LineTrouble.REFUSED and not is_slow:
                    _log.warning("signal-cli's daemon does not answer any more; the line is made anew.")
                    link.cut()

    def _note_line(self) -> None:
        """A line came from the daemon."""
        self._note_life(self._worries.describe(time.monotonic()), hears=not self._worries.is_cut_off)

    def _tell_worries(self) -> None:
        if self._link is not None:  # without a line that is what is wrong; the next one tells the rest
            self._note_problem(self._worries.describe(time.monotonic()), hears=not self._worries.is_cut_off)

    def _worry(self, about: str, sentence: str, seconds: float = math.inf) -> None:
        """The owner has to know it: in the log, the status and the doctor, at once."""
        self._worries.note(about, sentence, time.monotonic() + seconds)
        self._tell_worries()

    def _end_worries(self, *about: str) -> None:
        if self._worries.end(*about):
            self._tell_worries()

    async def stop_hearing(self) -> None:
        """The daemon brings nothing twice: what it has brought is stored, and the rest waits at Signal."""
        self._listens = False
        await self._unsubscribe()
        if self._reception is not None:
            await self._reception.settle(SETTLE_SECONDS)

    async def _unsubscribe(self) -> None:
        link, subscription = self._link, self._subscription
        self._subscription = None
        if link is not None and link.is_open and subscription is not None:
            listened = {"account": self._number, "subscription": subscription}
            with contextlib.suppress(RpcTrouble):
                await link.call("unsubscribeReceive", listened, PART_SECONDS)

    async def _part(self) -> None:
        """No message comes after this, and those that came are stored: else they would be lost."""
        await self.stop_hearing()

    async def _close(self) -> None:
        link, self._link = self._link, None
        reception, self._reception = self._reception, None
        tasks = [*self._sending.values(), *self._editing.values()]
        self._sending, self._editing = {}, {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if link is not None:
            await link.close()
        if reception is not None:
            await reception.close()

    # --- messages

    async def send(self, part: Part) -> str:
        _check_length(part)
        return await self._finish(part.key, functools.partial(self._send, part))

    async def _send(self, part: Part) -> str:
        words = self._find_reception().find_words(part.reply_to)
        return str(await self._post(part.address, wire_out.make_message(part, words)))

    async def edit(self, platform_id: str, part: Part) -> None:
        if not is_timestamp(platform_id):
            raise NeverTaken("There is no such message in Signal.")
        _check_length(part)
        before = self._editing.get(platform_id)
        if before is not None:  # the next one has to name it, so it has to be known when it was sent
            await asyncio.wait({before})
        editing = _begin_task(self._edit(int(platform_id), part))
        self._editing[platform_id] = editing
        try:
            await _wait_for(editing)
        finally:
            if editing.done() and self._editing.get(platform_id) is editing:
                del self._editing[platform_id]

    async def _edit(self, message: int, part: Part) -> None:
        self._find_link()
        latest = self._chains.begin_edit(message, time.time())
        await self._keep_chains()
        words = self._find_reception().find_words(part.reply_to)
        try:
            sent = await self._post(part.address, wire_out.make_edit(latest, part, words))
        except (NotNow, NeverTaken):
            self._chains.end_edit(message, None)
            raise
        else:
            self._chains.end_edit(message, sent)
        finally:
            await self._keep_chains()

    async def typing(self, address: Address) -> None:
        """The sign stays for a quarter of a minute, and goes with a message; in a group each costs many."""
        now = time.monotonic()
        if now - self._typed.get(address.chat, -math.inf) < TYPING_SECONDS:
            return
        self._typed = {chat: at for chat, at in self._typed.items() if now - at < TYPING_SECONDS}
        self._typed[address.chat] = now
        await self._sign("sendTyping", wire_out.make_typing(address), address)

    async def acknowledge(self, address: Address, message: str) -> None:
        receipt = wire_out.make_receipt(message)
        if receipt is not None:
            await self._sign("sendReceipt", receipt, address)

    def reachable(self, address: Address) -> bool:
        return address not in self._away.get(address.chat, ())

    # --- files

    async def send_file(self, part: Part, file: FileRef) -> str:
        _check_length(part)
        data = await self._read_upload(file)
        return await self._finish(part.key, functools.partial(self._upload, part, file, data))

    async def _upload(self, part: Part, file: FileRef, data: bytes) -> str:
        params = await asyncio.to_thread(wire_out.make_file, part, file, data)
        return str(await self._post(part.address, params, f"the file {file.name}", heavy=True))

    async def fetch(self, file: FileRef, path: Path) -> None:
        data = await self._fetch_bytes(file)
        await asyncio.to_thread(path.write_bytes, data)

    async def _fetch_bytes(self, file: FileRef, seconds: float = CALL_SECONDS) -> bytes:
        found = read_remote(file.remote)
        if found is None:
            raise NeverTaken("There is no such file in Signal.")
        if file.size > MOST_FETCH:
            raise NeverTaken(f"The file {file.name} is larger than can be fetched from Signal.")
        params = {"account": self._number, **wire_out.make_fetch(*found)}
        try:
            answer = await self._find_link().call("getAttachment", params, seconds)
        except RpcTrouble as trouble:
            if trouble.kind is LineTrouble.REFUSED:
                raise NeverTaken(f"signal-cli does not have the file {file.name} any more.") from None
            raise as_failure(trouble) from None
        data = answer.get("data") if isinstance(answer, Mapping) else None
        try:
            return await asyncio.to_thread(base64.b64decode, data if isinstance(data, str) else "?", validate=True)
        except (binascii.Error, ValueError):
            raise NeverTaken(f"signal-cli handed the file {file.name} over in a form that cannot be read.") from None

    async def _fetch_text(self, file: FileRef) -> str:
        """The whole of a text that was cut."""
        data = await self._fetch_bytes(file, LONG_TEXT_SECONDS)
        return data[:MOST_LONG_TEXT].decode("utf-8", "ignore")

    # --- calls

    async def _finish(self, key: str, send: Callable[[], Awaitable[str]]) -> str:
        """Whoever gives up waiting leaves the call under way. If it comes to a good end, a repetition has its result,
        and nothing is sent twice."""
        known = self._sending.pop(key, None) if key else None
        if known is not None and known.done() and (known.cancelled() or known.exception()):
            known = None
        sending = known or _begin_task(send())
        if key:
            self._sending[key] = sending
            if len(self._sending) > MOST_UNDER_WAY:
                self._sending = {name: task for name, task in self._sending.items() if not task.done()}
        try:
            sent = await _wait_for(sending)
        except (DeliveryFailure, RpcTrouble):
            self._sending.pop(key, None)
            raise
        self._sending.pop(key, None)
        return sent

    async def _post(self, address: Address, params: Mapping[str, Any], what: str = "it", *, heavy: bool = False) -> int:
        """Send a message; the time that names it. Who did not get it, where others did, is told in the log."""
        self._typed.pop(address.chat, None)
        with self._told_by_the_face(address, what):
            answer = await self._find_link().call("send", {"account": self._number, **params}, heavy=heavy)
        results = read_results(answer)
        failure = judge_results(results)
        if failure is not None:
            self._note_refusal(address, failure)
            raise failure
        for one in results:
            if one.kind != SUCCESS:
                _log.warning("A message in %s did not reach everybody: %s", address.chat_key, one.sentence)
        self._end_worries(ACCOUNT, PATIENCE, address.chat)
        sent = answer.get("timestamp") if isinstance(answer, Mapping) else None
        if not isinstance(sent, int) or isinstance(sent, bool) or not is_timestamp(str(sent)):
            raise DeliveryFailure(NO_ID)
        return sent

    async def _sign(self, method: str, params: Mapping[str, Any], address: Address) -> None:
        """A call that nobody misses. What one person does not take says nothing about the chat (C8); only what Signal
        asks of the whole account does."""
        try:
            with self._told_by_the_face(address, "it", sign=True):
                await self._find_link().call(method, {"account": self._number, **params})
        except NotNow as wait:
            if _is_for_all(wait):
                raise
            raise DeliveryFailure(str(wait)) from None

    def _find_link(self) -> SignalLink:
        """Where it is another account's, nothing is said: it would be in that one's name."""
        others = self._worries.find(NUMBER)
        if others:
            raise NotNow(others, OWNER_SECONDS, whole_account=True)
        if self._link is None or not self._link.is_open:
            raise NotNow(NOT_CONNECTED, UNREACHED_SECONDS, whole_account=True)
        return self._link

    def _find_reception(self) -> SignalReception:
        if self._reception is None:
            raise NotNow(NOT_CONNECTED, UNREACHED_SECONDS, whole_account=True)
        return self._reception

    @contextlib.contextmanager
    def _told_by_the_face(self, address: Address, what: str, *, sign: bool = False) -> Iterator[None]:
        try:
            yield
        except RpcTrouble as trouble:
            failure = as_failure(trouble, what, "the person" if address.kind == "group" else address.chat)
            if trouble.kind is LineTrouble.REFUSED and (not sign or _is_for_all(failure)):
                self._note_refusal(address, failure)
            raise failure from None

    def _note_refusal(self, address: Address, failure: DeliveryFailure) -> None:
        """Who waits for an answer that Signal does not take sees nothing of it: the owner has to."""
        if not isinstance(failure, NotNow):
            return
        if failure.seconds is None:
            self._away.setdefault(address.chat, set()).add(address)
            _log.warning("Nobody can be reached in %s: %s", address.chat_key, failure)
        elif is_account_lost(failure):
            self._worry(ACCOUNT, str(failure))
        elif not failure.whole_account:
            self._worry(address.chat, str(failure))
        elif is_captcha(failure):
            self._worry(PATIENCE, str(failure))
        elif failure.seconds >= TOLD_SECONDS:
            self._worry(PATIENCE, str(failure), failure.seconds)

    def _wake(self, chat: str) -> None:
        """Somebody is in this chat; of a direct one, it was read, so its key is trusted."""
        if is_account_id(chat):
            self._end_worries(chat)
        if self._core is not None:
            for address in self._away.pop(chat, set()):
                self._core.wake_delivery(address)

    async def _keep_chains(self) -> None:
        """Write the chains of edits down. Where that fails they hold for as long as we run."""
        async with self._keeping:
            changed = self._chains.changed
            if changed == self._kept_changes:
                return
            try:
                await asyncio.to_thread(keep_chains, find_file(self.home, self.account), self._chains.describe())
                self._kept_changes = changed
            except OSError as problem:
                _log.warning("The edits of messages on Signal could not be written down: %s", problem.strerror)


def _is_for_all(failure: DeliveryFailure) -> bool:
    return isinstance(failure, NotNow) and failure.whole_account


def _begin_task(work: Awaitable[T]) -> "asyncio.Task[T]":
    """A task that may end when nobody waits for it any more."""
    task = asyncio.ensure_future(work)
    assert isinstance(task, asyncio.Task)
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return task


async def _wait_for(task: "asyncio.Task[T]") -> T:
    """The result of a task that goes on if whoever waits is called off. If the task itself was, the line is closed."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        waiting = asyncio.current_task()
        if task.cancelled() and waiting is not None and not waiting.cancelling():
            raise DeliveryFailure(CUT) from None
        raise


def _check_length(part: Part) -> None:
    """Of a longer text the daemon would make an attachment."""
    if wire_out.measure_shown(part) > wire_out.MOST_TEXT:
        raise NeverTaken(f"The text is longer than the {wire_out.MOST_TEXT} bytes of a message in Signal.")
