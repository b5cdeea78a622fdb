"""One life of a server: it is started, spoken to, and ends. Everything here runs on the loop of the servers.

The SDK wants a session to be opened and closed by one task, so each link has one. Whoever calls waits for the answer
and for the end of the link at the same time: a call that is cut by it says so.
"""

import asyncio
import logging
import shlex
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client.auth.exceptions import OAuthFlowError
from mcp.shared.message import SessionMessage
from mcp.shared.session import RequestResponder

from hermes_base.errors import HermesError, ToolFailure
from hermes_base.text.harmless import clean_shown
from hermes_constants import VERSION
from mcp import ClientSession, McpError, types
from tools.mcp.live.asking_session import AskingSession
from tools.mcp.live.call_client import CUT, LOGIN_STATUS, SESSION_GONE, WORDS_CHARS, tell_login_over
from tools.mcp.live.keeper_stdio import LinkNotes, Received, Sent, ServerPlace, open_stdio
from tools.mcp.live.remote_http import open_remote
from tools.mcp.live.server_asks import ServerAsks, ServerCall
from tools.mcp.mcp_results import clean_line
from tools.mcp.mcp_specs import MOST_SECONDS, STDIO, ServerSpec

log = logging.getLogger(__name__)
# They would log what servers and people write, and addresses with the secrets in them (G6).
for _name, _level in (("mcp", "CRITICAL"), ("client", "CRITICAL"), ("httpx", "WARNING"), ("httpcore", "WARNING")):
    logging.getLogger(_name).setLevel(_level)

COMMAND_CHARS = 200
TELL_SECONDS = 2.0
PING_SECONDS = 5.0
CLOSE_SECONDS = 10.0  # more than a program has to end
NO_MESSAGE = "it sent what is no message of MCP"
OUTCOME_UNKNOWN = "Whether something was done is not known."

Auth = Callable[[], Awaitable[httpx.Auth | None]]


class LinkEnded(ToolFailure):
    """The server is gone, or never came."""


@dataclass(eq=False)
class ServerLink:
    spec: ServerSpec
    place: ServerPlace
    auth: Auth
    on_changed: Callable[[], None]  # the list of its tools is another one
    notes: LinkNotes = field(default_factory=LinkNotes)
    calls: list[ServerCall] = field(default_factory=list)
    doubtful: bool = False  # a call of it had no answer

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[ClientSession] = loop.create_future()
        self.gone: asyncio.Future[str] = loop.create_future()
        self._closing = asyncio.Event()
        self._beside: set[asyncio.Task[None]] = set()
        self.welcome: dict[str, Any] = {}
        self._was_ended = False  # by us
        self.refused = 0  # the status with which the address took no session
        self._task = loop.create_task(self._live(), name=f"mcp {self.spec.name}")

    async def open(self) -> None:
        """Wait until it can be spoken to; LinkEnded with the reason when it cannot."""
        await asyncio.wait(_both(self.ready, self.gone), return_when=asyncio.FIRST_COMPLETED)
        if not self.ready.done():
            raise LinkEnded(self.gone.result(), fix=self._advise())

    async def close(self) -> None:
        """Bounded, whatever waits for whom while a session ends: everybody who calls the server waits for this."""
        self._closing.set()
        while not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)
        if not self.gone.done():  # ended before it began
            self.notes.close()
            self.gone.set_result(f"The MCP server {self.spec.name} is not there: it was ended.")

    @property
    def alive(self) -> bool:
        return self.ready.done() and not self.gone.done() and not self._closing.is_set()

    # --- its life

    async def _live(self) -> None:
        reason = ""
        try:
            async with AsyncExitStack() as stack:
                session = await self._connect(stack)
                self.ready.set_result(session)
                await self._closing.wait()
        except asyncio.CancelledError:
            reason, self._was_ended = "it was ended", True
        except BaseException as problem:  # noqa: BLE001 - the boundary to the SDK; it is told to whoever calls
            reason = self.explain(problem)
        finally:
            self._closing.set()
            for task in self._beside:
                task.cancel()
            is_program = self.spec.transport == STDIO
            said = self.notes.tell() if is_program else ""
            self.notes.close()
            what = (reason or self.notes.fault or "it ended").rstrip(".")
            parts = (
                f"The MCP server {self.spec.name} is not there: {what}.",
                f"Its command: {self._show_command()}." if is_program else "",
                f"It said: {said}" if said else "",
            )
            self.gone.set_result(self.place.redact(" ".join(filter(None, parts))))
            log.info("MCP server %s: %s", self.spec.name, self.place.redact(what))

    async def _connect(self, stack: AsyncExitStack) -> ClientSession:
        async with asyncio.timeout(self.spec.connect_timeout):
            if self.spec.transport == STDIO:
                streams = await stack.enter_async_context(open_stdio(self.spec, self.place, self.notes))
            else:
                remote = open_remote(self.spec, self.place, await self.auth(), self._suspect, lambda: bool(self.calls))
                streams = await stack.enter_async_context(remote)
            group = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(group.cancel_scope.cancel)
            checked, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
            stack.callback(received.close)
            group.start_soon(self._screen, streams[0], checked, streams[1])
            asks = ServerAsks(self.spec, self.find_call)
            session = AskingSession(
                received,
                streams[1],
                sampling_callback=asks.sample if self.spec.sampling else None,
                elicitation_callback=asks.elicit,
                message_handler=self._take_notice,
                client_info=types.Implementation(name="hermes", version=VERSION),
            )
            await stack.enter_async_context(session)
            self.welcome = (await session.initialize()).model_dump(by_alias=True)
            return session

    async def _screen(
        self, source: Received, out: MemoryObjectSendStream[SessionMessage | Exception], back: Sent
    ) -> None:
        """Pass on what is a message of the protocol; the end of the stream is the end of the link."""
        async with source, out:
            async for item in source:
                if isinstance(item, Exception):
                    self.notes.strange.append(f"{type(item).__name__}")
                    if self.calls and self.spec.transport != STDIO:  # it stands where an answer should
                        self._suspect(NO_MESSAGE)
                    continue
                try:
                    if _is_proper(item):
                        await out.send(item)
                    elif isinstance(item.message.root, types.JSONRPCRequest):
                        await back.send(_refuse_unknown(item.message.root.id))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    break
        self._closing.set()

    async def _take_notice(
        self,
        message: RequestResponder[types.ServerRequest, types.ClientResult] | types.ServerNotification | Exception,
    ) -> None:
        if isinstance(message, types.ServerNotification) and isinstance(
            message.root, types.ToolListChangedNotification
        ):
            self.on_changed()

    # --- calls

    def find_call(self) -> ServerCall | None:
        """For whom the server asks something: the newest call that waits for it. With calls of several people under way
        nobody can tell, so it is nobody's."""
        waiting = [(call, call.context) for call in self.calls if call.context is not None]
        whose = {(context.conversation, context.person, context.sender) for _, context in waiting}
        return waiting[-1][0] if len(whose) == 1 else None

    async def request(self, request: Any, call: ServerCall) -> dict[str, Any]:
        """The answer to a request; ToolFailure when the server refuses it, ends, or takes too long."""
        session = self.ready.result()

        async def note(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
            call.note_progress()

        async def send() -> types.Result:
            call.number = session._request_id  # what the SDK gives to the request that comes next
            return await session.send_request(types.ClientRequest(request), types.Result, progress_callback=note)

        sending = asyncio.ensure_future(send())
        self.calls.append(call)
        try:
            await self._wait(sending, call)
            return (await sending).model_dump(by_alias=True)
        except McpError as refusal:
            if refusal.error.code == types.CONNECTION_CLOSED:
                raise await self._tell_cut() from None
            if refusal.error.message == SESSION_GONE:
                await self.close()
                raise LinkEnded(SESSION_GONE) from None
            words = clean_shown(refusal.error.message)[:WORDS_CHARS]
            if refusal.error.code == CUT:
                if not await self.answers():
                    raise await self._tell_cut() from None
                raise ToolFailure(f"The call was cut: {words}.", fix=OUTCOME_UNKNOWN) from None
            raise ToolFailure(f"The MCP server {self.spec.name} refuses it: {words}") from None
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise await self._tell_cut() from None
        finally:
            self.calls.remove(call)
            if not sending.done():
                sending.cancel()
                self._tell_cancelled(call.number)

    async def _wait(self, sending: "asyncio.Future[types.Result]", call: ServerCall) -> None:
        """Until there is an answer. The time counts from the last progress; an open question to a person is some."""
        loop, limit = asyncio.get_running_loop(), self.spec.timeout
        began = call.moved = loop.time()
        while not sending.done():
            call.moved = loop.time() if call.asking else call.moved
            left = min(call.moved + limit, began + MOST_SECONDS) - loop.time()
            if left <= 0:
                self.doubtful = True
                why = f"did not answer within {limit:g} seconds (mcp_servers.{self.spec.name}.timeout)"
                if loop.time() >= began + MOST_SECONDS:
                    why = f"was not done after {MOST_SECONDS / 60:g} minutes, the longest time of a call"
                if self.notes.strange:
                    why += ", and wrote what is no message of MCP"
                raise ToolFailure(
                    f"The MCP server {self.spec.name} {why}; the call was cancelled.",
                    fix=OUTCOME_UNKNOWN,
                )
            await asyncio.wait(_both(sending, self.gone), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if self.gone.done() and not sending.done():
                raise await self._tell_cut()

    async def _tell_cut(self) -> LinkEnded:
        self._closing.set()
        why = await asyncio.shield(self.gone)
        return LinkEnded(f"The call was cut. {why}", fix=OUTCOME_UNKNOWN)

    def _tell_cancelled(self, number: int) -> None:
        """Tell the server that nobody waits any more; whoever was cancelled does not wait for this."""
        if not self.alive or number < 0:
            return
        params = types.CancelledNotificationParams(requestId=number, reason="the turn was stopped")
        notice = types.ClientNotification(types.CancelledNotification(params=params))

        async def tell() -> None:
            with suppress(TimeoutError, anyio.ClosedResourceError, anyio.BrokenResourceError):
                async with asyncio.timeout(TELL_SECONDS):
                    await self.ready.result().send_notification(notice)

        self._begin_beside(tell())

    def _suspect(self, why: str) -> None:
        """An answer broke off: find out whether the server is still there, so that nobody waits for it in vain. An
        answer that cannot be taken ends the link: nobody can tell whose it was."""
        if why:
            self.notes.fault = self.notes.fault or why
            self._closing.set()
            return

        async def find_out() -> None:
            if self.alive and not await self.answers():
                self._closing.set()

        self._begin_beside(find_out())

    def _begin_beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def answers(self) -> bool:
        """Whether it still does, after a call that had no answer."""
        try:
            async with asyncio.timeout(PING_SECONDS):
                await self.ready.result().send_ping()
        except (TimeoutError, McpError, anyio.ClosedResourceError):
            return False
        self.doubtful = False
        return True

    # --- words

    def _show_command(self) -> str:
        """As the owner wrote it: what stands in variables stays there."""
        return clean_line(shlex.join((self.spec.command, *self.spec.args)))[:COMMAND_CHARS]

    def _advise(self) -> str:
        """What the owner can do about a program that does not come up."""
        if self.spec.transport != STDIO or self._was_ended:
            return ""
        name = self.spec.name
        return f"Try it in a terminal, put mcp_servers.{name} right in the settings, and run `hermes mcp test {name}`."

    def explain(self, problem: BaseException) -> str:
        """Why there is no link, in words; never the address, which may hold a secret."""
        found = list(_flatten(problem))
        ours = next((one for one in found if isinstance(one, HermesError)), None)
        if ours is not None:
            return str(ours)
        if any(isinstance(one, OAuthFlowError) for one in found):
            return tell_login_over(self.spec)
        status = next((one for one in found if isinstance(one, httpx.HTTPStatusError)), None)
        if status is not None:
            self.refused = code = status.response.status_code
            login = f"; `hermes mcp login {self.spec.name}` signs in" if code in LOGIN_STATUS else ""
            return f"it answered with status {code}{login}"
        if self.notes.fault:
            return self.notes.fault
        if any(isinstance(one, TimeoutError) for one in found):
            strange = ", and what it writes is no MCP" if self.notes.strange else ""
            return f"it did not answer within {self.spec.connect_timeout:g} seconds{strange}"
        if any(isinstance(one, httpx.TransportError) for one in found):
            return f"it cannot be reached ({type(found[0]).__name__})"
        refusal = next((one for one in found if isinstance(one, McpError)), None)
        if refusal is not None and refusal.error.code != types.CONNECTION_CLOSED:
            return f"it refuses: {clean_shown(refusal.error.message)[:WORDS_CHARS]}"
        if refusal is not None or not found:
            return "it ended"
        odd = next((one for one in found if isinstance(one, RuntimeError) and "protocol version" in str(one)), None)
        if odd is not None:
            return f"it speaks a version of MCP that is not known here ({clean_line(odd).rpartition(' ')[2][:20]})"
        return f"it speaks no MCP that is understood ({type(found[0]).__name__})"


def _both(first: "asyncio.Future[Any]", second: "asyncio.Future[Any]") -> set["asyncio.Future[Any]"]:
    return {first, second}


def _flatten(problem: BaseException) -> Iterator[BaseException]:
    """What a group of errors is made of; a cancelled task is nobody's reason."""
    if isinstance(problem, BaseExceptionGroup):
        for inner in problem.exceptions:
            yield from _flatten(inner)
    elif not isinstance(problem, asyncio.CancelledError):
        yield problem


def _refuse_unknown(request: str | int) -> SessionMessage:
    error = types.ErrorData(code=types.METHOD_NOT_FOUND, message="This is not understood here.")
    return SessionMessage(types.JSONRPCMessage(types.JSONRPCError(jsonrpc="2.0", id=request, error=error)))


def _is_proper(item: SessionMessage) -> bool:
    """Whether the SDK can read it; it would write what it cannot read into the log."""
    root = item.message.root
    kinds: dict[type, type[types.ServerRequest] | type[types.ServerNotification]] = {
        types.JSONRPCRequest: types.ServerRequest,
        types.JSONRPCNotification: types.ServerNotification,
    }
    kind = kinds.get(type(root))
    if kind is None:
        return True
    try:
        kind.model_validate(root.model_dump(by_alias=True, mode="json", exclude_none=True))
    except ValueError:
        return False
    return True
