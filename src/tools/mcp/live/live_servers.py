"""A server for as long as Hermes runs: started when it is needed, and again, with growing pauses, when it has ended."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import httpx

from hermes_base.errors import ToolFailure
from hermes_base.turn.tool_context import ToolContext
from mcp import types
from tools.mcp.live.call_client import SESSION_GONE
from tools.mcp.live.keeper_stdio import ServerPlace
from tools.mcp.live.oauth_tokens import find_login
from tools.mcp.live.server_asks import ServerCall
from tools.mcp.live.server_link import LinkEnded, ServerLink
from tools.mcp.mcp_memory import MOST_TOOLS, KnownServer, take_tools
from tools.mcp.mcp_specs import SSE, ServerSpec

log = logging.getLogger(__name__)

MOST_PAGES = 50
MOST_LISTED = 200
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
STEADY_SECONDS = 60.0  # who has lived so long is started again at once
LIST_PAUSE = 2.0  # between two looks at a list that keeps changing
NOT_THIS_WAY = (400, 404, 405)  # what an address of the older kind says to a session of the newer
RETIRE_SECONDS = 600.0  # that calls under way have to finish when the settings have changed


class ServerRetired(ToolFailure):
    """Nothing was sent: another one stands in its place."""


class LiveServer:
    """All of it runs on the loop of the servers."""

    def __init__(self, spec: ServerSpec, place: ServerPlace, on_listed: Callable[[KnownServer], None]) -> None:
        self.spec, self.place = spec, place
        self._on_listed = on_listed
        self._way = spec  # as it is spoken to
        self._refused = 0
        self._link: ServerLink | None = None
        self._opening: ServerLink | None = None  # the one that shall be it
        self._lock = asyncio.Lock()
        self._failures = 0
        self._began = 0.0
        self._not_before = 0.0
        self._last_fault = ""
        self._changed = False
        self._looking: asyncio.Task[None] | None = None
        self._retired = False
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def call_tool(self, tool: str, arguments: Mapping[str, Any], context: ToolContext | None) -> dict[str, Any]:
        params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        return await self._request(types.CallToolRequest(params=params), ServerCall(context))

    async def look(self, *, anew: bool = False) -> KnownServer:
        """What it offers now; whoever keeps it is told. `anew`: a person wants to know, so no pause counts."""
        self._check_retired()
        if anew:
            self._failures, self._not_before = 0, 0.0
        link = await self._use()
        capabilities = link.welcome.get("capabilities") or {}
        listed = await self._list(types.ListToolsRequest, "tools", MOST_TOOLS) if capabilities.get("tools") else []
        known = KnownServer(
            await asyncio.to_thread(take_tools, self.spec.name, listed),  # the loop is there for all servers
            bool(capabilities.get("resources")),
            bool(capabilities.get("prompts")),
            self.spec.print,
        )
        self._on_listed(known)
        return known

    async def list_resources(self) -> dict[str, list[dict[str, Any]]]:
        resources = await self._list(types.ListResourcesRequest, "resources", MOST_LISTED)
        try:
            templates = await self._list(types.ListResourceTemplatesRequest, "resourceTemplates", MOST_LISTED)
        except ToolFailure:  # not every server knows the question
            templates = []
        return {"resources": resources, "templates": templates}

    async def read_resource(self, uri: str, context: ToolContext) -> dict[str, Any]:
        request = types.ReadResourceRequest.model_validate({"method": "resources/read", "params": {"uri": uri}})
        return await self._request(request, ServerCall(context))

    async def list_prompts(self) -> list[dict[str, Any]]:
        return await self._list(types.ListPromptsRequest, "prompts", MOST_LISTED)

    async def get_prompt(self, name: str, arguments: Mapping[str, str], context: ToolContext) -> dict[str, Any]:
        params = types.GetPromptRequestParams(name=name, arguments=dict(arguments))
        return await self._request(types.GetPromptRequest(params=params), ServerCall(context))

    async def retire(self) -> None:
        """Take no calls any more, and end when those under way have their answers, or their time is over."""
        self._retired = True
        try:
            async with asyncio.timeout(RETIRE_SECONDS):
                await self._idle.wait()
        except TimeoutError:
            log.warning("calls of MCP server %s, which is set otherwise now, took too long", self.spec.name)
        finally:
            await self.close()

    async def close(self) -> None:
        self._retired = True
        if self._looking is not None:
            self._looking.cancel()
        for link in (self._opening, self._link):
            if link is not None:
                await link.close()

    @property
    def welcome(self) -> Mapping[str, Any]:
        """What it said of itself when it was started."""
        return self._link.welcome if self._link is not None else {}

    # --- requests

    def _check_retired(self) -> None:
        if self._retired:
            raise ServerRetired(f"The MCP server {self.spec.name} is set otherwise now; nothing was called.")

    async def _request(self, request: Any, call: ServerCall) -> dict[str, Any]:
        self._check_retired()
        self._under_way += 1
        self._idle.clear()
        try:
            return await self._make_request(request, call)
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()

    async def _make_request(self, request: Any, call: ServerCall) -> dict[str, Any]:
        for _ in range(2):
            link = await self._use()
            try:
                return await link.request(request, call)
            except LinkEnded as end:
                if end.what != SESSION_GONE:
                    raise  # else it did not take the call, so it is made anew
        raise LinkEnded(f"The MCP server {self.spec.name} forgets a session as soon as it has begun.")

    async def _list(self, kind: Any, key: str, most: int) -> list[dict[str, Any]]:
        """All pages of a list, as far as there is an end to it."""
        found: list[dict[str, Any]] = []
        cursor, seen = "", set[str]()
        for _ in range(MOST_PAGES):
            page = await self._request(kind(params=types.PaginatedRequestParams(cursor=cursor or None)), ServerCall())
            rows = page.get(key)
            found += [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
            cursor = given if isinstance(given := page.get("nextCursor"), str) else ""
            if not cursor or cursor in seen or len(found) > most:
                break
            seen.add(cursor)
        return found

    # --- its lives

    async def _use(self) -> ServerLink:
        """The link, begun anew where that is due; LinkEnded while it is not."""
        async with self._lock:
            link = self._link
            if link is not None and link.alive and link.doubtful and not await link.answers():
                await link.close()
            if link is not None and link.alive:
                return link
            loop = asyncio.get_running_loop()
            if link is not None:
                await link.close()
                self._link = None
                self._note_end(loop.time(), link.gone.result())
            left = self._not_before - loop.time()
            if left > 0:
                raise LinkEnded(self._last_fault, fix=f"It is started again in {left:.0f} seconds at the earliest.")
            self._began = loop.time()
            try:
                link = self._link = await self._open_any()
            except LinkEnded as problem:
                self._failures += 1
                self._pause(loop.time(), str(problem))
                raise
            return link

    async def _open_any(self) -> ServerLink:
        """A new link. An address whose way was not named, and that takes no session, may be one of the older kind."""
        try:
            return await self._open(self._way)
        except LinkEnded as problem:
            if not self.spec.guessed or self._way.transport == SSE or self._refused not in NOT_THIS_WAY:
                raise
            try:
                link = await self._open(replace(self.spec, transport=SSE))
            except LinkEnded:
                raise problem from None
        self._way = link.spec
        return link

    async def _open(self, spec: ServerSpec) -> ServerLink:
        link = self._opening = ServerLink(spec, self.place, self._find_login, self._note_change)
        try:
            await link.open()
        except BaseException:
            self._refused = link.refused
            await link.close()
            raise
        finally:
            self._opening = None
        return link

    async def _find_login(self) -> httpx.Auth | None:
        has_own = any(name.lower() == "authorization" for name in self.spec.headers)
        return None if has_own else find_login(self.spec, self.place)

    def _note_end(self, now: float, fault: str) -> None:
        """Who ends again and again is started with growing pauses; who has lived for a while, at once."""
        self._failures = 0 if now - self._began > STEADY_SECONDS else self._failures + 1
        if self._failures > 1:
            self._pause(now, fault)

    def _pause(self, now: float, fault: str) -> None:
        self._last_fault = fault
        self._not_before = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (self._failures - 1))

    def _note_change(self) -> None:
        """Look at the list that has changed; however often that is said, a look at a time."""
        self._changed = True
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._look_again())

    async def _look_again(self) -> None:
        while self._changed:
            self._changed = False
            try:
                await self.look()
            except ToolFailure as problem:
                log.info("the changed list of MCP server %s could not be read: %s", self.spec.name, problem)
            await asyncio.sleep(LIST_PAUSE)
