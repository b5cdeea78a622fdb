"""An editor: `hermes acp` as a process, driven by the protocol's own client."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
from acp import schema
from gateway_process import HERMES
from warm_python import WarmProcess

PATIENCE = 60.0


class Editor:
    """The protocol's client side; it keeps what it is told, and answers questions as it is told to."""

    def __init__(self) -> None:
        self.updates: list[tuple[str, Any]] = []
        self.asked: list[tuple[schema.ToolCallUpdate, list[schema.PermissionOption]]] = []
        self.choose: Callable[[list[schema.PermissionOption]], str | None] = lambda options: None
        self.hold: asyncio.Event | None = None  # questions wait for it
        self._changed = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append((session_id, update))
        self._changed.set()

    async def request_permission(
        self, session_id: str, tool_call: schema.ToolCallUpdate, options: list[schema.PermissionOption], **_: Any
    ) -> schema.RequestPermissionResponse:
        self.asked.append((tool_call, options))
        self._changed.set()
        if self.hold is not None:
            await self.hold.wait()
        chosen = self.choose(options)
        if chosen is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return schema.RequestPermissionResponse(outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen))

    def of(self, kind: type, session: str = "") -> list[Any]:
        return [update for id, update in self.updates if isinstance(update, kind) and session in ("", id)]

    def said(self, session: str = "") -> str:
        return "".join(chunk.content.text for chunk in self.of(schema.AgentMessageChunk, session))

    async def until(self, is_true: Callable[[], Any]) -> None:
        """Wait for something that comes with an update or a question."""
        async with asyncio.timeout(PATIENCE):
            while not is_true():
                self._changed.clear()
                await self._changed.wait()


class EditorSide:
    """One run of `hermes acp`."""

    def __init__(self, process: WarmProcess, editor: Editor, agent: Any, writer: asyncio.StreamWriter) -> None:
        self.process, self.editor, self.agent, self._writer = process, editor, agent, writer

    async def new(self, folder: Path) -> str:
        return str((await self.agent.new_session(cwd=str(folder), mcp_servers=[])).session_id)

    async def ask(self, session: str, *blocks: Any) -> str:
        """Send a prompt; why the turn stopped."""
        given = [acp.text_block(block) if isinstance(block, str) else block for block in blocks]
        async with asyncio.timeout(PATIENCE):
            return str((await self.agent.prompt(session_id=session, prompt=given)).stop_reason)

    async def leave(self) -> int:
        """Close its stdin, as an editor does; the exit code."""
        self._writer.close()
        return await asyncio.to_thread(self.process.wait)


@asynccontextmanager
async def open_editor(home: Path) -> AsyncIterator[EditorSide]:
    read, write = os.pipe()
    with (home / "editor-stderr.log").open("ab") as errors:
        process = WarmProcess(
            [HERMES, "acp"],
            stderr=errors.fileno(),
            env={**os.environ, "HERMES_HOME": str(home)},
            stdin=read,
            modules=["hermes_cli.acp.editor_agent"],
        )
    os.close(read)
    loop, editor = asyncio.get_running_loop(), Editor()
    reader = asyncio.StreamReader(limit=2**24)
    told, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(write, "wb"))
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    agent = acp.connect_to_agent(editor, writer, reader)  # type: ignore[arg-type]
    try:
        async with asyncio.timeout(PATIENCE):
            await agent.initialize(protocol_version=1)
        yield EditorSide(process, editor, agent, writer)
    finally:
        await agent.close()
        transport.close()
        if process.poll() is None:
            try:
                await asyncio.to_thread(process.wait, 30.0)
            except Exception:
                process.kill()
                raise
        told.close()
        await asyncio.sleep(0)
        process.__exit__(None, None, None)


def set_up(home: Path, base_url: str, **settings: Any) -> None:
    home.mkdir(parents=True, exist_ok=True)
    config = {"model": {"base_url": base_url, "default": "lab"}, "terminal": {"network": False}, **settings}
    (home / "config.yaml").write_text(json.dumps({"approvals": {"mode": "auto"}, **config}))


def drive(home: Path, *steps: Callable[[EditorSide], Awaitable[Any]]) -> list[Any]:
    """Each step has an editor of its own, one after the other."""

    async def run() -> list[Any]:
        came = []
        for step in steps:
            async with open_editor(home) as side:
                came.append(await step(side))
        return came

    return asyncio.run(run())


def call(name: str, **args: Any) -> str:
    return f"[[tool {name} {json.dumps(args)}]]"
