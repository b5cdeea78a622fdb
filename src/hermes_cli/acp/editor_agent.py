"""The agent that an editor talks to: its calls in, sessions of Hermes behind them. Whatever cannot be done is an error
of JSON-RPC with a sentence."""

import asyncio
import logging
import os
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from acp import AgentSideConnection, RequestError, schema
from acp.interfaces import Agent
from acp.meta import PROTOCOL_VERSION

from hermes_base.command_table import COMMANDS
from hermes_base.errors import HermesError
from hermes_base.local_wire import Hello
from hermes_cli.acp.editor_session import Busy, Editor, EditorSession, Unanswered
from hermes_cli.acp.prompt_blocks import Block, UnfitPrompt, keep_files, read_prompt
from hermes_cli.acp.replaying import list_answers, replay
from hermes_cli.acp.session_shelf import SessionShelf, is_key
from hermes_cli.acp.stdio_wire import LEAVE_SECONDS, StdioWire
from hermes_cli.chat.joining import HomeGateway
from hermes_cli.chat.local_client import LocalClient
from hermes_cli.chat.terminal_events import SIGNALLED, find_endings
from hermes_constants import VERSION, get_hermes_home

log = logging.getLogger(__name__)

INVALID_PARAMS, INTERNAL, INVALID_REQUEST, NOT_FOUND = -32602, -32603, -32600, -32002
LISTED = 50
MOST_SESSIONS = 64
#: Commands that lead out of a session, which is the editor's to do.
_NOT_OFFERED = frozenset({"new", "resume", "branch", "quit", "stop"})


async def serve(source: int, sink: int) -> int:
    """Speak with an editor until it goes or a signal comes; the exit code."""
    home, loop = get_hermes_home(), asyncio.get_running_loop()
    agent = EditorAgent(home, HomeGateway(home))
    connection = AgentSideConnection(cast(Agent, agent), StdioWire(source, sink), listening=False)
    listening = loop.create_task(connection.listen())
    heard: list[int] = []

    def end(number: int) -> None:
        heard.append(number)
        listening.cancel()

    for number in (signal.SIGINT, *find_endings()):
        loop.add_signal_handler(number, end, number)
    try:
        await asyncio.wait([listening])
    finally:
        await agent.close()
        await connection.close()
    return SIGNALLED + heard[0] if heard else 0


class EditorAgent:
    """Implements the library's `Agent`."""

    def __init__(self, home: Path, gateway: HomeGateway) -> None:
        self._home = home
        self._gateway = gateway
        self._shelf = SessionShelf(home)
        self._sessions: dict[str, EditorSession] = {}
        self._opening: set[LocalClient] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._answering: set[asyncio.Task[Any]] = set()  # calls that are soon done

    def on_connect(self, conn: Any) -> None:
        self._editor = cast(Editor, conn)

    async def close(self) -> None:
        """What runs goes on in the gateway that it belongs to; our own one ends as with a terminal that is closed."""
        if self._answering:
            await asyncio.wait(self._answering, timeout=LEAVE_SECONDS)
        for task in self._tasks:
            task.cancel()
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()
        for client in list(self._opening):
            await asyncio.to_thread(client.close)
        await asyncio.to_thread(self._gateway.leave)

    @contextmanager
    def _soon(self) -> Iterator[None]:
        """A call that is answered even if the editor says nothing more."""
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._answering.add(task)
        try:
            yield
        finally:
            task.add_done_callback(self._answering.discard)  # when its answer is written

    # --- who we are

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        known = protocol_version if 0 < protocol_version <= PROTOCOL_VERSION else PROTOCOL_VERSION
        return schema.InitializeResponse(
            protocol_version=known,
            agent_info=schema.Implementation(name="hermes", title="Hermes", version=VERSION),
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=schema.McpCapabilities(http=False, sse=False),
                session_capabilities=schema.SessionCapabilities(list=schema.SessionListCapabilities()),
            ),
            auth_methods=[],
        )

    async def authenticate(self, method_id: str, **_: Any) -> None:
        del method_id
        words = "There is nothing to sign in to: Hermes runs as you. `hermes setup` chooses who answers."
        raise RequestError(INVALID_PARAMS, words)

    # --- sessions

    async def new_session(self, cwd: str, mcp_servers: Any = None, **_: Any) -> schema.NewSessionResponse:
        folder = _read_folder(cwd)
        _note_servers(mcp_servers)
        with self._soon():
            async with self._open("", Hello(folder=folder)) as (session, _client):
                self._take_in(session)
        return schema.NewSessionResponse(session_id=session.id)

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Any = None, **_: Any
    ) -> schema.LoadSessionResponse:
        """Tell all that was said and done before, and then go on."""
        folder = _read_folder(cwd)
        _note_servers(mcp_servers)
        with self._soon():
            await self._load(folder, session_id)
        return schema.LoadSessionResponse()

    async def _load(self, folder: str, session_id: str) -> None:
        open_here = self._sessions.get(session_id)
        if open_here is not None and open_here.is_busy:
            raise RequestError(INVALID_REQUEST, "A prompt of this session is being answered; it is not loaded now.")
        found = await asyncio.to_thread(self._shelf.find, session_id)
        named = is_key(session_id)
        if found is None and open_here is None and not (named and await asyncio.to_thread(self._is_known, session_id)):
            raise _say_unknown(session_id)
        if open_here is not None:
            del self._sessions[session_id]
            await open_here.close()
        hello = Hello(folder=folder, conversation=session_id) if named else Hello(folder=folder, resume=session_id)
        async with self._open(session_id, hello) as (session, client):
            current = await asyncio.to_thread(self._shelf.find, client.conversation)
            rows = await asyncio.to_thread(self._shelf.rows, current.id) if current is not None else []
            for update in replay(rows, folder):
                await self._editor.session_update(session_id, update)
            self._take_in(session, list_answers(rows))

    def _is_known(self, conversation: str) -> bool:
        return self._shelf.is_known(conversation)

    @asynccontextmanager
    async def _open(self, id: str, hello: Hello) -> AsyncIterator[tuple[EditorSession, LocalClient]]:
        """A session on its conversation, which is closed again unless all goes well."""
        if len(self._sessions) + len(self._opening) >= MOST_SESSIONS:
            raise RequestError(INVALID_REQUEST, f"At most {MOST_SESSIONS} sessions are open at a time.")
        asked = Hello(
            client=uuid.uuid4().hex, folder=hello.folder, conversation=hello.conversation, resume=hello.resume
        )
        client = LocalClient(asked, self._gateway.make_reach())
        self._opening.add(client)
        try:
            await asyncio.to_thread(client.open)
            name = id or client.conversation
            yield EditorSession(name, client, self._editor, self._shelf, hello.folder, self._home), client
        except BaseException as problem:
            await asyncio.to_thread(client.close)
            if isinstance(problem, HermesError):
                raise RequestError(INTERNAL, str(problem)) from problem
            raise
        finally:
            self._opening.discard(client)

    def _take_in(self, session: EditorSession, replayed: set[str] | None = None) -> None:
        self._sessions[session.id] = session
        session.start(replayed)
        self._spawn(self._offer_commands(session.id))

    def _spawn(self, work: Any) -> None:
        """Begins when the call that is being answered is answered."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _offer_commands(self, id: str) -> None:
        try:
            await self._editor.session_update(id, list_commands())
        except ConnectionError:
            log.info("The editor is gone.")

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        try:
            before = float(cursor) if cursor else None
        except ValueError as problem:
            raise RequestError(INVALID_PARAMS, "This cursor is none that was given out.") from problem
        try:
            with self._soon():
                found = await asyncio.to_thread(self._shelf.list_newest, LISTED + 1, before, cwd or "")
        except HermesError as problem:
            raise RequestError(INTERNAL, str(problem)) from problem
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(
                    session_id=each.id,
                    cwd=each.folder,
                    title=each.title,
                    updated_at=datetime.fromtimestamp(each.updated, UTC).isoformat(),
                )
                for each in found[:LISTED]
            ],
            next_cursor=repr(found[LISTED - 1].updated) if len(found) > LISTED else None,
        )

    # --- turns

    async def prompt(self, session_id: str, prompt: list[Block], **_: Any) -> schema.PromptResponse:
        session = self._find(session_id)
        try:
            said = read_prompt(prompt, session.folder)
            files = await asyncio.to_thread(keep_files, said.files, self._home)
            reason = await session.prompt(said.text, files)
        except UnfitPrompt as problem:
            raise RequestError(INVALID_PARAMS, str(problem)) from problem
        except Busy as problem:
            words = (
                "A prompt of this session is being answered. Cancel it, or wait for its end; this one was not taken."
            )
            raise RequestError(INVALID_REQUEST, words) from problem
        except Unanswered as problem:
            raise RequestError(INTERNAL, str(problem)) from problem
        except OSError as problem:
            words = f"What came with the prompt could not be kept: {problem.strerror}. Nothing was sent."
            raise RequestError(INTERNAL, words) from problem
        return schema.PromptResponse(stop_reason=reason)

    async def cancel(self, session_id: str, **_: Any) -> None:
        session = self._sessions.get(session_id)
        if session is not None:
            await session.cancel()

    def _find(self, id: str) -> EditorSession:
        session = self._sessions.get(id)
        if session is None:
            raise _say_unknown(id)
        return session


def list_commands() -> schema.AvailableCommandsUpdate:
    """The slash commands that make sense in an editor."""
    return schema.AvailableCommandsUpdate(
        session_update="available_commands_update",
        available_commands=[
            schema.AvailableCommand(
                name=command.name,
                description=command.summary,
                input=schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint=command.args))
                if command.args
                else None,
            )
            for command in COMMANDS
            if command.in_menu and command.name not in _NOT_OFFERED
        ],
    )


def _read_folder(cwd: str) -> str:
    if not os.path.isabs(cwd):
        raise RequestError(INVALID_PARAMS, f"The folder of a session is a whole path, and {cwd!r} is none.")
    if not os.path.isdir(cwd):
        raise RequestError(INVALID_PARAMS, f"There is no folder {cwd}.")
    return cwd


def _note_servers(servers: Any) -> None:
    if servers:
        log.info("The editor names %d MCP servers; Hermes uses those of its own settings.", len(servers))


def _say_unknown(id: str) -> RequestError:
    return RequestError(NOT_FOUND, f"There is no session {id!r}; session/list names those that there are.")
