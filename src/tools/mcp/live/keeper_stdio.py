"""A server that is a program: started under the keeper, behind the walls of its level, spoken to through its pipes.

It ends with Hermes, however that ends. What it writes beside the protocol is kept for whoever looks for a fault.
"""

import asyncio
import logging
import os
import shlex
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from io import FileIO
from pathlib import Path
from types import MappingProxyType

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from hermes_base.errors import ToolFailure
from hermes_base.settings import Settings
from hermes_base.text.harmless import clean_shown
from hermes_base.turn.tool_context import ToolContext
from tools.files.roots import list_homes
from tools.mcp.live.wire_texts import read_message
from tools.mcp.mcp_memory import FOLDER, WORK, file_name, make_private
from tools.mcp.mcp_specs import ServerSpec, expand, find_opened
from tools.shell.sandbox import Walls
from tools.shell.sandbox_view import check_root
from tools.shell.shell_state import ShellState
from tools.shell.shells import ShellStart, launch, shell_of
from tools.shell.spawning import GRACE_SECONDS, Running

log = logging.getLogger(__name__)

LINE_BYTES = 16 * 1024 * 1024
ERROR_BYTES = 1024 * 1024  # that are kept of what it writes beside the protocol
ERROR_SECONDS = 5.0  # between two looks at how much that is
TOLD_BYTES = 4_096
STRANGE_LINES, STRANGE_BYTES = 2_000, 1024 * 1024  # in a row, that are no messages
KEPT_LINES, LINE_CHARS = 5, 300
END_SECONDS = 5.0
FAREWELL_SECONDS = 2.0  # between the end of a program's output and its own
#: What a shell says of a program that it could not start.
_SHELL_CODES = MappingProxyType({126: "it cannot be run: it is no program, or not executable", 127: "it is not found"})
#: What stands in the folder that a program's own files belong to.
MODULES = "node_modules"
PROJECT_MARKS = ("pyvenv.cfg", "package.json", "pyproject.toml", ".git")

Received = MemoryObjectReceiveStream[SessionMessage | Exception]
Sent = MemoryObjectSendStream[SessionMessage]


@dataclass(frozen=True, slots=True)
class ServerPlace:
    """Where a server belongs: the home, its settings, and where variables are looked up."""

    home: Path
    settings: Settings
    look_up: Callable[[str], str]
    redact: Callable[[str], str] = str

    def folder_of(self, server: str) -> Path:
        """A folder of the server's own."""
        return make_private(self.home / FOLDER / WORK / file_name(server))


@dataclass
class LinkNotes:
    """What is worth telling when a server does not work."""

    strange: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))  # lines that were no message
    errors: int = -1  # what it wrote to stderr: the file that we made, whatever the server puts into its place
    fault: str = ""  # why we ended it

    def note_strange(self, line: bytes) -> None:
        if line.strip():
            self.strange.append(line[: LINE_CHARS * 2].decode("utf-8", "replace"))

    def tell(self) -> str:
        """The last words of the server, cleaned; empty: there are none."""
        lines = list(self.strange)
        if self.errors >= 0:
            start = max(0, os.fstat(self.errors).st_size - TOLD_BYTES)
            said = os.pread(self.errors, TOLD_BYTES, start).decode("utf-8", "replace")
            lines += said.strip().splitlines()[-KEPT_LINES:]
        shown = [clean_shown(line).strip()[:LINE_CHARS] for line in lines]
        return " | ".join(line for line in shown if line)

    def close(self) -> None:
        errors, self.errors = self.errors, -1
        if errors >= 0:
            os.close(errors)


@asynccontextmanager
async def open_stdio(spec: ServerSpec, place: ServerPlace, notes: LinkNotes) -> AsyncIterator[tuple[Received, Sent]]:
    """The streams of a session with the program; afterwards it has ended, with everything that it started."""
    starting = asyncio.ensure_future(asyncio.to_thread(_start, spec, place, notes))
    starting.add_done_callback(lambda done: None if done.cancelled() else done.exception())
    try:
        running = await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(partial(_end_late, notes))
        raise
    try:
        reader, writer, pipe = await _connect(running)
        to_session, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sent, from_session = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_read, reader, to_session, notes, running)
                group.start_soon(_write, writer, from_session)
                group.start_soon(_keep_short, notes)
                try:
                    yield received, sent
                finally:
                    group.cancel_scope.cancel()
        finally:
            for stream in (to_session, received, sent, from_session):
                stream.close()
            if not writer.transport.is_closing():  # a pipe whose other end is gone has closed itself, for good
                writer.transport.abort()  # what it has not read by now it need not read
            pipe.close()
    finally:
        running.end(GRACE_SECONDS)
        with anyio.CancelScope(shield=True):
            await asyncio.to_thread(running.ended.wait, END_SECONDS)


def _end_late(notes: LinkNotes, done: "asyncio.Future[Running]") -> None:
    """What was started although nobody waits for it any more ends."""
    notes.close()
    if not done.cancelled() and done.exception() is None:
        done.result().end(0)
        done.result().finish()


def _start(spec: ServerSpec, place: ServerPlace, notes: LinkNotes) -> Running:
    own = place.folder_of(spec.name)
    errors = own / "stderr.txt"
    errors.unlink(missing_ok=True)
    notes.errors = os.open(errors, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    folder = os.path.realpath(spec.cwd or own)
    if not os.path.isdir(folder):
        raise ToolFailure(f"The folder {folder} is not there.", fix=f"Make it, or change mcp_servers.{spec.name}.cwd.")
    context, readable = _make_context(spec, place, folder, own)
    words = [expand(word, place.look_up, spec.name) for word in (spec.command, *spec.args)]
    command = " ".join(map(shlex.quote, words))
    script = f"exec {command} 2>>{shlex.quote(str(errors))}"
    start = ShellStart(
        script, ShellState(folder, _read_env(spec, place)), Walls(spec.level), unasked=False, readable=readable
    )
    return launch(start, shell_of(context), context, pty=False, with_stdin=True).running


def _read_env(spec: ServerSpec, place: ServerPlace) -> Mapping[str, str]:
    return {name: expand(text, place.look_up, f"{spec.name}.env.{name}") for name, text in spec.env.items()}


def _make_context(spec: ServerSpec, place: ServerPlace, folder: str, own: Path) -> tuple[ToolContext, tuple[str, ...]]:
    """A task of its own, with the folders that the owner named to it; and what its program needs to be read."""
    settings = place.settings
    network = settings.terminal.network if spec.network is None else spec.network
    base = ToolContext(task=f"mcp {place.home} {spec.name} {spec.print}", folder=folder, home=place.home, own=own)
    homes = list_homes(base)
    named = [os.path.realpath(path) for path in find_opened(spec) if os.path.exists(path)]
    opened = [path for path in named if os.path.isdir(path) and _may_open(path, homes)]
    files = [path for path in find_opened(spec) if os.path.isfile(path)]
    projects = {_find_project(path) for file in files for path in (file, os.path.realpath(file))}
    settings = replace(
        settings,
        people=replace(settings.people, roots=tuple(dict.fromkeys([str(own), *opened]))),
        terminal=replace(settings.terminal, network=network, env=()),
    )
    readable = tuple(sorted(path for path in projects if _may_open(path, homes) and path not in opened))
    return replace(base, settings=settings), readable


def _may_open(path: str, homes: tuple[str, ...]) -> bool:
    try:
        check_root(path, homes)
    except ToolFailure:
        return False
    return path != os.path.realpath(Path.home())


def _find_project(path: str) -> str:
    """The folder that a file belongs to: the nearest one above that is marked as a project, else its own. A package of
    npm needs those that lie beside it."""
    parts = Path(path).parts
    if MODULES in parts:
        return str(Path(*parts[: parts.index(MODULES) + 1]))
    home = Path.home().resolve()
    for above in Path(path).parents:
        if above == home:
            break
        if any((above / mark).exists() for mark in PROJECT_MARKS):
            return str(above)
    return os.path.dirname(path)


async def _connect(running: Running) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, asyncio.BaseTransport]:
    loop = asyncio.get_running_loop()
    stdin, stdout = running.take_ends()
    reader = asyncio.StreamReader(limit=LINE_BYTES)
    output, input = FileIO(stdout, "rb"), FileIO(stdin, "wb")  # closed with their transports
    try:
        pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), output)
        try:
            transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, input)
        except BaseException:
            pipe.close()
            raise
    except BaseException:
        output.close()
        input.close()
        raise
    return reader, asyncio.StreamWriter(transport, protocol, None, loop), pipe


async def _read(
    reader: asyncio.StreamReader,
    out: MemoryObjectSendStream[SessionMessage | Exception],
    notes: LinkNotes,
    running: Running,
) -> None:
    """One message a line; one that is none is noted. A line without end, or no end of such lines, ends the server."""
    lines = size = 0
    async with out:
        while True:
            try:
                line = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as rest:
                notes.note_strange(rest.partial)
                await asyncio.to_thread(running.ended.wait, FAREWELL_SECONDS)
                notes.fault = tell_end(running.exit_code)
                return
            except asyncio.LimitOverrunError:
                notes.fault = f"it wrote a line of more than {LINE_BYTES >> 20} MB"
                return
            message = read_message(line)
            if message is None:
                notes.note_strange(line)
                lines, size = lines + 1, size + len(line)
                if lines > STRANGE_LINES or size > STRANGE_BYTES:
                    notes.fault = "it writes line after line to its standard output that is no message of MCP"
                    return
                continue
            lines = size = 0
            try:
                await out.send(SessionMessage(message))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


async def _keep_short(notes: LinkNotes) -> None:
    """What it writes to stderr is appended to a file; a long one begins anew."""
    while True:
        await asyncio.sleep(ERROR_SECONDS)
        if notes.errors >= 0 and os.fstat(notes.errors).st_size > ERROR_BYTES:
            os.ftruncate(notes.errors, 0)


async def _write(writer: asyncio.StreamWriter, messages: MemoryObjectReceiveStream[SessionMessage]) -> None:
    async with messages:
        async for message in messages:
            text = message.message.model_dump_json(by_alias=True, exclude_none=True)
            try:
                writer.write(text.encode() + b"\n")
                await writer.drain()
            except (OSError, RuntimeError):
                break
        async for _ in messages:  # it has ended, and the reader of its output tells how: nobody else is to
            continue


def tell_end(code: int | None) -> str:
    """What a program did that wrote its last, as one who started it in a terminal would say it."""
    if code is None:
        return "it closed its output without an end"
    if code in _SHELL_CODES:
        return _SHELL_CODES[code]
    number = -code if code < 0 else code - 128
    try:
        return f"it was ended by {signal.Signals(number).name}"
    except ValueError:
        return f"it ended with exit code {code}"
