"""The application of a chat app's server: a call is recorded, meets its fault, is let through or not, and performed.

What the app itself is stands behind `ChatService`. Below `/lab/` a test steers the server: one verb a call.
"""

import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from starlette.types import Receive, Scope, Send

from hermes_lab.chats import faults
from hermes_lab.chats.chat_socket import ChatSocket
from hermes_lab.chats.faults import ChatFault, FaultPlan
from hermes_lab.chats.rates import ACCOUNT, RateBook, Share
from hermes_lab.chats.record import ChatCall, ChatClock, ChatRecord
from hermes_lab.connection import JSON, Connection, Headers
from hermes_lab.values import LabProblem

#: So long after a client was told to wait, its calls may still be on their way. Seconds.
GRACE = 0.5
PENALTY, RATE = "penalty", "rate"  # kinds of complaints
_PAGE = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"


@dataclass(slots=True)
class ChatAsk:
    """A call as the app reads it."""

    account: str
    method: str
    chat: str
    parameters: Any  # as the app needs them
    shown: Mapping[str, Any]  # the same, for the record
    shares: Sequence[Share] = ()  # of the rates it counts against
    penalty_seconds: float = 0.0  # what an excess costs


@dataclass(frozen=True, slots=True)
class ChatReply:
    status: int
    body: bytes
    headers: Headers = JSON
    problem: str = ""


class ChatService(Protocol):
    """An app behind its server. All calls are made on the server's loop."""

    record: ChatRecord
    verbs: Mapping[str, Callable[..., Any]]  # what a test may ask for, besides the toolkit's own

    def accounts(self) -> Iterable[str]:
        """The names of those who may call, as `ChatAsk.account` has them."""
        ...

    def read(self, connection: Connection, body: bytes) -> ChatAsk | ChatReply:
        """What is asked; a reply for what is no call at all."""
        ...

    async def perform(self, ask: ChatAsk, call: ChatCall, connection: Connection) -> ChatReply | None:
        """Do it. None: the client has left while it waited."""
        ...

    def refuse(self, seconds: float) -> ChatReply:
        """The answer to a call that comes too early."""
        ...

    def fail(self, status: int, text: str) -> ChatReply:
        """The answer of a service that is ill; without a text, the usual one."""
        ...

    async def leave(self) -> None:
        """End what runs by itself."""
        ...


#: What an app does with a client that opens a websocket, until the line is closed.
Converse = Callable[[ChatSocket], Awaitable[None]]


class ChatApp:
    def __init__(self, service: ChatService, converse: Converse | None = None) -> None:
        """`converse`: for an app that has websockets."""
        self.service = service
        self._converse = converse
        self._sockets: set[ChatSocket] = set()
        self.record = service.record
        self.clock: ChatClock = service.record.clock
        self.plan = FaultPlan()
        self.books: dict[str, RateBook] = {}
        self._open: set[Connection] = set()
        self.verbs: dict[str, Callable[..., Any]] = {
            "calls": self.record.describe_calls,
            "complaints": lambda: [asdict(complaint) for complaint in self.record.complaints],
            "forgive": lambda kinds=(): self.record.forgive(tuple(kinds)),
            "plan": self._replace_plan,
            "faults_left": self.plan.count_left,
            "punish": self._punish,
            "advance": self.clock.advance,
            "cut": self._cut_all,
            "under_way": lambda: len(self._under_way()),
            **service.verbs,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._talk(ChatSocket(scope, receive, send))
            return
        connection = Connection(scope, receive, send)
        self._open.add(connection)
        try:
            body = await connection.read_body()
            if body is None:
                return
            if connection.path.startswith("/lab/"):
                await self._steer(connection, body)
            else:
                await self._serve(connection, body)
        finally:
            self._open.discard(connection)

    async def _talk(self, socket: ChatSocket) -> None:
        if self._converse is None:
            await socket.refuse()
            return
        self._sockets.add(socket)
        try:
            await self._converse(socket)
        finally:
            self._sockets.discard(socket)

    async def leave(self) -> None:
        await self.service.leave()

    # --- calls of clients

    async def _serve(self, connection: Connection, body: bytes) -> None:
        ask = self.service.read(connection, body)
        if isinstance(ask, ChatReply):
            await _send(connection, ask)
            return
        call = self.record.note(ask.account, ask.method, ask.chat, ask.shown)
        early = self._judge_time(ask, call)
        if early is not None:
            await self._reply(connection, call, early)
            return
        fault = self.plan.take(ask.method, ask.chat)
        if fault is None:
            await self._perform(connection, ask, call)
        else:
            call.fault = fault.kind
            await self._spoil(connection, ask, call, fault)

    async def _perform(self, connection: Connection, ask: ChatAsk, call: ChatCall, quiet: bool = False) -> None:
        late = self._judge_rate(ask, call)
        reply = late or await self.service.perform(ask, call, connection)
        call.took_effect = late is None and reply is not None and not reply.problem
        if reply is not None and not quiet:
            await self._reply(connection, call, reply)

    async def _spoil(self, connection: Connection, ask: ChatAsk, call: ChatCall, fault: ChatFault) -> None:
        match fault.kind:
            case faults.TOO_MANY:
                if ask.shares:
                    scope = ACCOUNT if fault.whole_account else ask.chat or ask.method
                    self._book(ask.account).punish(self.clock.now(), scope, fault.seconds)
                early = self._judge_time(ask, call, planned=True)
                await self._reply(connection, call, early or self.service.refuse(fault.seconds))
            case faults.ERROR:
                await self._reply(connection, call, self.service.fail(fault.status, fault.text))
            case faults.PAGE:
                kind = (("content-type", "text/html"),)
                await self._reply(connection, call, ChatReply(fault.status, _PAGE, kind, "a page"))
            case faults.CUT_BEFORE:
                await connection.cut()
            case faults.SILENT:
                await connection.hang()
            case faults.CUT_AFTER:
                await self._perform(connection, ask, call, quiet=True)
                await connection.cut()
            case faults.SILENT_AFTER:
                await self._perform(connection, ask, call, quiet=True)
                await connection.hang()
            case _:
                await connection.wait(fault.seconds)  # who leaves meanwhile has asked for it all the same
                await self._perform(connection, ask, call)

    async def _reply(self, connection: Connection, call: ChatCall, reply: ChatReply) -> None:
        call.status, call.problem = reply.status, reply.problem
        await _send(connection, reply)

    def _judge_time(self, ask: ChatAsk, call: ChatCall, planned: bool = False) -> ChatReply | None:
        """The refusal of a call that comes during a penalty. Calls that are about no chat are counted by their method:
        a bot that may not name its commands anew goes on talking."""
        now = self.clock.now()
        shares = ask.shares if ask.chat or not ask.shares else [*ask.shares, Share(ask.method)]
        penalty = self._book(ask.account).find_penalty(now, shares)
        if penalty is None:
            return None
        left = penalty.until - now
        if not penalty.told_at:
            penalty.told_at = now
        elif not planned and now > penalty.told_at + GRACE:
            where = f"in chat {ask.chat}" if ask.chat else "of the account"
            self.record.complain(PENALTY, f"{ask.method} {left:.1f} s before the end of a penalty {where}.", call)
        return self.service.refuse(left)

    def _judge_rate(self, ask: ChatAsk, call: ChatCall) -> ChatReply | None:
        """The refusal of a call that is one too many; a penalty begins with it."""
        now = self.clock.now()
        book = self._book(ask.account)
        excess = book.take(now, ask.shares)
        if excess is None:
            return None
        where = f"chat {excess.scope}" if excess.scope else "the account"
        self.record.complain(RATE, f"{ask.method} comes {excess.seconds:.1f} s too early for {where}.", call)
        penalty = book.punish(now, excess.scope, max(excess.seconds, ask.penalty_seconds))
        penalty.told_at = now
        return self.service.refuse(penalty.until - now)

    def _book(self, account: str) -> RateBook:
        return self.books.setdefault(account, RateBook())

    # --- what a test asks for

    async def _steer(self, connection: Connection, body: bytes) -> None:
        try:
            found = await self.do(connection.path.removeprefix("/lab/"), json.loads(body or b"{}"))
        except (LabProblem, ValueError, TypeError, KeyError) as problem:
            said = str(problem) or type(problem).__name__
            await connection.send_whole(400, json.dumps({"problem": said}).encode())
            return
        await connection.send_whole(200, json.dumps({"result": found}).encode())

    async def do(self, verb: str, arguments: Mapping[str, Any]) -> Any:
        """Perform a verb; what it gives can be written as JSON."""
        if verb not in self.verbs:
            raise LabProblem(f"There is no verb {verb!r}.", fix=f"Known are: {', '.join(sorted(self.verbs))}.")
        found = self.verbs[verb](**arguments)
        return await found if inspect.isawaitable(found) else found

    def _replace_plan(self, faults: Sequence[Mapping[str, Any]], seed: int = 0) -> None:
        self.plan.replace(faults, seed)

    def _punish(self, seconds: float, chat: str = "", account: str = "") -> None:
        """Take nothing for so long, in one chat or at all."""
        for name in [account] if account else self.service.accounts():
            self._book(name).punish(self.clock.now(), chat or ACCOUNT, seconds)

    def _cut_all(self) -> int:
        """Cut the connection of every call that is under way, but for those that steer, and every websocket."""
        under_way = self._under_way()
        for connection in under_way:
            connection.abort()
        return len(under_way)

    def _under_way(self) -> list[Connection | ChatSocket]:
        return [*(one for one in self._open if not one.path.startswith("/lab/")), *self._sockets]


async def _send(connection: Connection, reply: ChatReply) -> None:
    await connection.send_whole(reply.status, reply.body, reply.headers)
