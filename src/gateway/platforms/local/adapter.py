"""Serves the local socket: takes lines in, hands rows and events out, and knows who looks at which conversation.

Each client follows the outbox of its conversation in order: before a row is pushed, what came before it is. Delivery
asks for a row when it is its turn; a row counts as sent when one client has confirmed it.
"""

import asyncio
import logging
import os
import re
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, cast

from gateway.platforms.face import Accepted, BaseAdapter, Core, LiveEvent, Part, Refused
from gateway.platforms.local import LOCAL_PLAIN, SPEC, listening
from gateway.platforms.local.attached import Attached
from gateway.platforms.local.house import LocalHouse
from gateway.platforms.local.viewers import AllViewers, address_of
from hermes_base import local_wire as wire
from hermes_base.errors import HermesError
from hermes_base.inbound import Address, FileRef, Inbound

log = logging.getLogger(__name__)

OWNER = "owner"  # whoever can open the socket
_LOOK_SECONDS = 30.0  # between two looks at the socket's file
_SETTLE_SECONDS = 0.2  # for the last events
_CLOSE_SECONDS = 0.5  # for clients to read the last lines
_BROKEN = "Something went wrong inside hermes; the log says what."
#: A message is called `<client>-<id>`, so a client's name has no dash.
_CLIENT = re.compile(r"[\w.]{1,64}", re.ASCII)
_MESSAGE = re.compile(r"[\w.-]{1,64}", re.ASCII)


class LocalAdapter(BaseAdapter):
    """The account of this home on its own socket."""

    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__(account, settings, home)
        self.spec = SPEC if settings.get("idempotent", True) else LOCAL_PLAIN
        self.path = wire.socket_path(home)
        self._server: asyncio.Server | None = None
        self._file: tuple[int, int] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._clients: set[Attached] = set()

    # --- Adapter

    async def connect(self, core: Core) -> None:
        if self._server is not None:
            return
        self._house = cast(LocalHouse, core)  # it is offered more than other platforms
        self._viewers = AllViewers(self._house, self.account, self._start, keyed=self.spec.takes_keys)
        await self._listen()
        self._looking = self._start(self._look_after_file())

    async def disconnect(self) -> None:
        """Say goodbye, let the last lines be read, leave nothing behind."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        if listening.identify(self.path) == self._file:
            self.path.unlink(missing_ok=True)
        await self._viewers.settle(_SETTLE_SECONDS)
        for client in self._clients:
            client.end("The gateway is closing.")
        self._looking.cancel()
        waiting = [task for task in self._tasks if task is not asyncio.current_task()]
        if waiting:
            await asyncio.wait(waiting, timeout=_CLOSE_SECONDS)
        for client in set(self._clients):
            client.abort()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    async def send(self, part: Part) -> str:
        return await self._viewers.send(part)

    async def send_file(self, part: Part, file: FileRef) -> str:
        return await self._viewers.send(part, file)

    def show(self, conversation: str, event: LiveEvent) -> None:
        self._viewers.show(conversation, event)

    def reachable(self, address: Address) -> bool:
        return self._viewers.is_there(address.chat)

    # --- the socket

    async def _listen(self) -> None:
        sock = listening.listen(self.path)
        self._file = listening.identify(self.path)
        self._server = await asyncio.start_unix_server(self._serve, sock=sock, limit=wire.MAX_LINE)
        self.last_seen = time.time()

    async def _look_after_file(self) -> None:
        """The socket is alive while its file is there; one that was swept away is made anew."""
        while self._server is not None:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                if listening.identify(self.path) != self._file:
                    log.warning("The socket %s was gone and is made anew.", self.path)
                    self._server.close()
                    await self._listen()
            except (HermesError, OSError):
                log.warning("The socket %s cannot be made anew.", self.path, exc_info=True)
            else:
                self.last_seen = time.time()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._keep(asyncio.get_running_loop().create_task(work))

    def _keep(self, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its first line to its last."""
        sock: socket.socket = writer.get_extra_info("socket")
        if listening.peer_uid(sock) != os.getuid():
            log.warning("A process of another user was turned away from the socket.")
            writer.close()
            return
        client = Attached(writer)
        self._clients.add(client)
        self._keep(cast(asyncio.Task[Any], asyncio.current_task()))
        writing = asyncio.create_task(client.write_on())
        writing.add_done_callback(lambda _: reader.feed_eof())  # a client that was cut is not read any more
        try:
            while line := await _read_line(reader, client):
                self.last_seen = time.time()
                await self._take_line(client, line)
        except OSError:
            log.debug("a client went away")
        finally:
            self._viewers.leave(client)
            client.end()
            self._clients.discard(client)
            await writing

    # --- lines

    async def _take_line(self, client: Attached, line: bytes) -> None:
        try:
            message = wire.decode_from_client(line)
            await _HANDLERS[type(message)](self, client, message)
        except HermesError as problem:
            client.push(wire.Trouble(str(problem)))
        except Exception:  # the boundary to a client: it is told, and the others go on
            log.exception("a line from a client failed")
            client.push(wire.Trouble(_BROKEN))

    async def _open(self, client: Attached, hello: wire.Hello) -> None:
        if not _CLIENT.fullmatch(hello.client):
            raise wire.WireProblem("hello.client is not 1 to 64 letters, digits, dots and underscores.")
        for other in self._clients:
            if other is not client and other.hello.client == hello.client:
                self._viewers.leave(other)
                other.end("Another connection of the same client took its place.")
        opened = await self._house.open(hello)
        address = address_of(self.account, opened.conversation)
        self._viewers.leave(client)
        client.hello = hello
        await self._viewers.enter(client, opened)
        self._house.wake_delivery(address)

    async def _say(self, client: Attached, say: wire.Say) -> None:
        conversation = _conversation_of(client)
        if not _MESSAGE.fullmatch(say.id):
            raise wire.WireProblem("say.id is not 1 to 64 letters, digits, dots, dashes and underscores.")
        address = address_of(self.account, conversation)
        inbound = Inbound(
            address=address,
            message=f"{client.hello.client}-{say.id}",
            sender=OWNER,
            text=say.text,
            mentioned=True,
            folder=client.hello.folder,
            files=say.files,
            conversation=conversation if address.chat == conversation else "",
            received=time.time(),
        )
        try:
            taken = await self._house.take(inbound)
        except HermesError as problem:
            taken = Refused(str(problem))
        except Exception:  # the boundary to a client: it must not wait for a message that nobody has
            log.exception("a message could not be stored")
            taken = Refused(_BROKEN)
        if isinstance(taken, Refused):
            client.push(wire.NotStored(say.id, taken.reason))
        elif taken.seq is not None:
            client.push(wire.Stored(say.id, taken.seq))
            self._viewers.note_sender(conversation, taken.seq, client)
        else:
            with client.must_hear():
                client.push(await self._describe_seen(say.id, inbound, taken))

    async def _describe_seen(self, id: str, inbound: Inbound, taken: Accepted) -> wire.Stored:
        found = await self._house.find(inbound)
        if found is None:
            return wire.Stored(id, None, again=True)
        newest, _ = await self._house.latest(taken.conversation)
        return wire.Stored(id, found.seq, again=True, done=found.done, outbox=newest)

    async def _stop(self, client: Attached, stop: wire.Stop) -> None:
        ok, reason = await self._house.stop(_conversation_of(client), OWNER)
        client.push(wire.Stopped(ok, reason, stop.id))

    async def _answer(self, client: Attached, answer: wire.GiveAnswer) -> None:
        _conversation_of(client)
        ok = await self._house.answer(answer.question, answer.text, OWNER)
        client.push(wire.Answered(ok, answer.id))

    async def _confirm(self, client: Attached, got: wire.Got) -> None:
        self._viewers.confirm(client, got.row)

    async def _call(self, client: Attached, call: wire.Call) -> None:
        """Beside the other lines: a call may take its time."""
        self._start(self._perform(client, call))

    async def _perform(self, client: Attached, call: wire.Call) -> None:
        try:
            result = await self._house.perform(call.name, call.args)
            client.push(wire.Told(call.id, True, result))
        except HermesError as problem:
            client.push(wire.Told(call.id, False, error=str(problem)))
        except Exception:  # the boundary to a client
            log.exception("the call %s failed", call.name)
            client.push(wire.Told(call.id, False, error=_BROKEN))

    async def _part(self, client: Attached, bye: wire.Bye) -> None:
        del bye
        self._viewers.leave(client)
        client.end()


async def _read_line(reader: asyncio.StreamReader, client: Attached) -> bytes:
    """The next line; empty at the end, or after one that is too long to find the end of."""
    try:
        return await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError:
        return b""
    except asyncio.LimitOverrunError:
        client.push(wire.Trouble(f"A line is longer than {wire.MAX_LINE:,} bytes."))
        client.end("A line was too long.")
        return b""


def _conversation_of(client: Attached) -> str:
    if not client.conversation:
        raise wire.WireProblem("Say hello first.")
    return client.conversation


_HANDLERS: Mapping[type, Callable[[LocalAdapter, Attached, Any], Awaitable[None]]] = {
    wire.Hello: LocalAdapter._open,
    wire.Say: LocalAdapter._say,
    wire.Stop: LocalAdapter._stop,
    wire.GiveAnswer: LocalAdapter._answer,
    wire.Got: LocalAdapter._confirm,
    wire.Call: LocalAdapter._call,
    wire.Bye: LocalAdapter._part,
}
