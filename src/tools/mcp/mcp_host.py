"""The servers of a home, for threads that wait: which there are, what is known of them, and calls to them.

Nothing is started, and nothing of the SDK is loaded, before a server is called or its tools have to be found out.
"""

import atexit
import importlib
import importlib.util
import logging
import threading
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_all
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hermes_base.errors import ConfigProblem, HermesError, ToolFailure
from hermes_base.settings import Settings
from hermes_base.turn.tool_context import ToolContext
from hermes_cli import config as cli_config
from hermes_constants import get_hermes_home
from tools.mcp.mcp_loop import LoopThread
from tools.mcp.mcp_memory import KnownServer, keep, recall
from tools.mcp.mcp_specs import STDIO, ServerSpec, read_servers

log = logging.getLogger(__name__)

PACKAGE, INSTALL = "mcp", "pip install 'mcp<2'"
FIRST_LOOK_SECONDS = 20.0  # a new conversation waits at most so long for servers whose tools are not known yet
LOOK_AGAIN_SECONDS = 60.0  # and not again for one that did not answer
MOST_RETIRED = 5  # changes of the settings in the moment of one call

T = TypeVar("T")
_loop = LoopThread()


def is_installed() -> bool:
    return importlib.util.find_spec(PACKAGE) is not None


def load_live() -> Any:
    """The part that speaks to servers. Late: the SDK costs most of a second, and not everybody has it."""
    if not is_installed():
        raise ToolFailure("The package for MCP servers is not installed.", fix=f"Install it: {INSTALL}")
    return importlib.import_module("tools.mcp.live.live_servers")


@dataclass
class _ServerEntry:
    """A server as it is set now; `live` is made with the first call."""

    spec: ServerSpec
    known: KnownServer | None = None
    live: Any = None
    fault: str = ""
    looked: float | None = None  # when it was last asked for its tools
    looking: threading.Event = field(default_factory=threading.Event)  # that is over


class McpHost:
    """The servers of one home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._lock = threading.Lock()
        self._servers: dict[str, _ServerEntry] = {}
        self._settings = Settings()
        self._section: Mapping[str, Any] | None = None
        self._retiring: dict[
            Future[None], Any
        ] = {}  # they finish what they were called for before the settings changed

    # --- what is known

    def take_settings(self, settings: Settings) -> None:
        """The servers as they are set now. One that is set otherwise is started anew when it is needed, and answers
        what it was called for before it ends; one that is taken out ends at once."""
        with self._lock:
            before, self._settings = self._settings, settings
            changed = self._let_go_of_programs() if before.terminal != settings.terminal else []
            if self._section is not None and dict(self._section) == dict(settings.mcp_servers):
                self._retire(changed)
                return
            self._section = settings.mcp_servers
            specs, faults = read_servers(settings.mcp_servers)
            for fault in faults:
                log.warning("%s", fault.what)
            wanted = {spec.name: spec for spec in specs if spec.enabled}
            gone = [self._servers.pop(name).live for name in list(self._servers) if name not in wanted]
            for name, spec in wanted.items():
                entry = self._servers.get(name)
                if entry is None or entry.spec.print != spec.print:
                    changed += [entry.live] if entry is not None else []
                    self._servers[name] = _ServerEntry(spec, recall(self.home, spec))
                else:
                    if entry.spec != spec:
                        changed.append(entry.live)
                        entry.live = None
                    entry.spec = spec
            self._retire(changed)
        for live in filter(None, gone):
            _loop.begin(live.close())

    def _let_go_of_programs(self) -> list[Any]:
        """Programs that stand behind walls as they were set before: the next call starts them behind those of now."""
        programs = [entry for entry in self._servers.values() if entry.spec.transport == STDIO]
        lives = [entry.live for entry in programs]
        for entry in programs:
            entry.live = None
        return lives

    def _retire(self, lives: list[Any]) -> None:
        """The caller holds the lock."""
        for live in filter(None, lives):
            ending = _loop.begin(live.retire())
            self._retiring[ending] = live
            ending.add_done_callback(lambda done: self._retiring.pop(done, None))

    def take_first(self, settings: Settings) -> None:
        """The same for a host that knows no settings yet: those of a turn may be older than what holds now."""
        if self._section is None:
            self.take_settings(settings)

    def specs(self) -> list[ServerSpec]:
        with self._lock:
            return [entry.spec for entry in self._servers.values()]

    def known(self) -> dict[str, tuple[ServerSpec, KnownServer]]:
        """What is known of each server, by its name."""
        with self._lock:
            return {name: (one.spec, one.known) for name, one in self._servers.items() if one.known is not None}

    def find_unknown(self, seconds: float = FIRST_LOOK_SECONDS) -> dict[str, str]:
        """Ask the servers of which nothing is known yet, all at once; which of them did not answer, and why. Whoever
        comes while they are asked waits, too."""
        now = time.monotonic()
        with self._lock:
            entries = [one for one in self._servers.values() if one.known is None]
            new = [one for one in entries if one.looked is None]
            ages = {one.spec.name: now - one.looked for one in entries if one.looked is not None}
            due = [one for one in entries if one.looked is not None and ages[one.spec.name] >= LOOK_AGAIN_SECONDS]
            asked = [one for one in entries if ages.get(one.spec.name, seconds) < min(seconds, LOOK_AGAIN_SECONDS)]
            for entry in (*new, *due):
                entry.looked, entry.looking = now, threading.Event()
        for entry in due:
            self._begin_look(entry)  # nobody waits twice for one that did not answer
        for entry in new:
            self._begin_look(entry)
        for entry in (*new, *asked):
            entry.looking.wait(max(0.0, now + seconds - time.monotonic()))
        return {entry.spec.name: entry.fault for entry in entries if entry.known is None}

    def look_at_all(self, seconds: float = FIRST_LOOK_SECONDS) -> dict[str, str]:
        """Ask all servers what they offer now; which of them did not answer, and why."""
        with self._lock:
            entries = list(self._servers.values())
        begun = [self._begin_look(entry, anew=True) for entry in entries]
        wait_for_all([future for future in begun if future is not None], seconds)
        return {entry.spec.name: entry.fault for entry in entries if entry.fault}

    def look(self, name: str, seconds: float | None = None) -> KnownServer:
        """What a server offers now; ToolFailure when it does not answer."""
        entry = self._find(name)
        known: KnownServer = _loop.run(self._live(entry).look(), seconds=seconds or entry.spec.connect_timeout * 2)
        return known

    def welcome(self, name: str) -> Mapping[str, Any]:
        live = self._find(name).live
        return live.welcome if live is not None else {}

    def _begin_look(self, entry: _ServerEntry, *, anew: bool = False) -> "Future[None] | None":
        try:
            live = self._live(entry)
        except HermesError as problem:
            self._note_fault(entry, str(problem))
            entry.looking.set()
            return None
        entry.fault = f"The MCP server {entry.spec.name} has not answered yet."
        return _loop.begin(self._look_once(entry, live, anew))

    async def _look_once(self, entry: _ServerEntry, live: Any, anew: bool) -> None:
        try:
            await live.look(anew=anew)
        except HermesError as problem:
            self._note_fault(entry, str(problem))
        finally:
            entry.looking.set()

    def _note_fault(self, entry: _ServerEntry, fault: str) -> None:
        entry.fault = cli_config.redactor()(fault)
        log.warning("the tools of MCP server %s are not known: %s", entry.spec.name, entry.fault)

    # --- calls

    def find_spec(self, name: str) -> ServerSpec:
        return self._find(name).spec

    def call_tool(self, name: str, tool: str, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        result: dict[str, Any] = self._run(name, "call_tool", context, tool, arguments, context)
        return result

    def run(self, name: str, what: str, context: ToolContext, *values: Any) -> Any:
        """One of the other questions that a server can be asked, by its name."""
        return self._run(name, what, context, *values)

    def _run(self, name: str, what: str, context: ToolContext, *values: Any) -> Any:
        """Until it is answered, which is bounded by the times of the server: no other clock counts meanwhile (C12)."""
        for _ in range(MOST_RETIRED):
            live = self._live(self._find(name))
            work: Coroutine[Any, Any, Any] = getattr(live, what)(*values)
            try:
                return _loop.run(work, context.cancel, on_wait=context.note_activity)
            except load_live().ServerRetired:
                continue  # the settings changed just now
        raise ToolFailure(f"The settings of the MCP server {name} keep changing; nothing was called.")

    def _find(self, name: str) -> _ServerEntry:
        with self._lock:
            entry = self._servers.get(name)
        if entry is None:
            raise ToolFailure(f"There is no MCP server called '{name}' any more; nothing was called.")
        return entry

    def _live(self, entry: _ServerEntry) -> Any:
        """The part of a server that runs on the loop; made once."""
        module = load_live()
        with self._lock:
            if entry.live is None:
                place = module.ServerPlace(self.home, self._settings, cli_config.env_value, _redact)
                making = _loop.begin(_make(module, entry.spec, place, lambda known: self._take_known(entry, known)))
                entry.live = making.result()
            return entry.live

    def _take_known(self, entry: _ServerEntry, known: KnownServer) -> None:
        """On the loop: a list of tools has come."""
        entry.fault = ""
        if entry.known == known:
            return
        entry.known = known
        try:
            keep(self.home, entry.spec, known)
        except (OSError, ConfigProblem) as problem:
            log.warning("the tools of MCP server %s cannot be kept: %s", entry.spec.name, type(problem).__name__)

    def close(self) -> None:
        with self._lock:
            entries, self._section = list(self._servers.values()), None
            self._servers.clear()
            lives = [*(entry.live for entry in entries if entry.live is not None), *self._retiring.values()]
        ending = [_loop.begin(live.close()) for live in lives]
        wait_for_all(ending, 10.0)


async def _make(module: Any, *parts: Any) -> Any:
    return module.LiveServer(*parts)


def _redact(text: str) -> str:
    return cli_config.redactor()(text)


_hosts: dict[Path, McpHost] = {}
_hosts_lock = threading.Lock()


def host_of(home: Path | None = None) -> McpHost:
    """The servers of a home; each home has its own (G13)."""
    home = home or get_hermes_home()
    with _hosts_lock:
        if home not in _hosts:
            if not _hosts:
                atexit.register(close_all)
            _hosts[home] = McpHost(home)
        return _hosts[home]


def close_all() -> None:
    """End all servers, and the loop."""
    with _hosts_lock:
        hosts = list(_hosts.values())
        _hosts.clear()
    atexit.unregister(close_all)
    for host in hosts:
        host.close()
    _loop.close()
