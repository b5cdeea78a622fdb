"""Holds the living state of the gateway: one warm agent for each conversation, and which of them are in a turn.

The cache's policy is pure (`gateway.core.agent_cache`); here are the dict, the lock, and what is performed. The lock is
never held while an agent is called. Evicting an agent (soft release: the conversation goes on later), ending a session
(everything of its task ends) and ending the process are three different things.
"""

import logging
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from gateway.core.agent_cache import (
    CACHE_BUSTING_KEYS,
    HeldTranscript,
    config_signature,
    extract_cache_busting,
    idle_keys,
    over_bytes,
    over_cap,
    untouchable,
)
from gateway.platforms.plugin_bridge.runner_face import RunnerFace, find_runner
from hermes_base.errors import Fenced, HermesError
from hermes_base.settings import GatewaySettings
from tools.registry import registry

log = logging.getLogger(__name__)

_AGENT_CACHE_MAX_SIZE = GatewaySettings().agents
_AGENT_CACHE_IDLE_TTL_SECS = 60.0 * GatewaySettings().agent_idle_minutes
_AGENT_CACHE_MAX_BYTES = GatewaySettings().agent_megabytes * 1024 * 1024
FULL_AGAIN_SECONDS = 60.0


class Pending:
    """Stands in `_running_agents` while an agent is being built; one for each building."""


_AGENT_PENDING_SENTINEL = Pending()

Entry = tuple[Any, str]


#: What plugins call to find the runner of this process; None: no gateway runs.
_gateway_runner_ref = find_runner


class GatewayRunner(RunnerFace):
    """One for a process. Defaults on the class make an instance without `__init__` whole."""

    _CACHE_BUSTING_CONFIG_KEYS = CACHE_BUSTING_KEYS
    _agent_cache: dict[str, Entry] = MappingProxyType({})  # type: ignore[assignment]
    _agent_cache_lock = threading.Lock()  # of instances made without `__init__`
    _running_agents: dict[str, Any] = MappingProxyType({})  # type: ignore[assignment]
    _held: dict[str, HeldTranscript] = MappingProxyType({})  # type: ignore[assignment]
    _notes: dict[str, list[str]] = MappingProxyType({})  # type: ignore[assignment]
    _resets: dict[str, str] = MappingProxyType({})  # type: ignore[assignment]
    counters: Counter[str] = Counter()
    _told_full: float = -1e9  # when the log was last told that the cache is full of running agents
    _limits: tuple[int, float, int] | None = None  # agents, idle seconds, bytes; None: the module's own

    def __init__(self) -> None:
        self._agent_cache = OrderedDict()
        self._agent_cache_lock = threading.Lock()
        self._running_agents = {}
        self._held = {}  # where the transcript stood when the agent last wrote or read it
        self._resets = {}  # sessions that were left for a new one, by conversation
        self._notes = {}  # what the next message of a conversation tells its model; it outlives an agent
        self.counters = Counter()  # hits, builds and evictions by reason

    def set_limits(self, *, agents: int, idle_seconds: float, size: int) -> None:
        """How many agents are kept, for how long without use, and how many bytes of conversations."""
        self._limits = agents, idle_seconds, size

    def _get_limits(self) -> tuple[int, float, int]:
        return self._limits or (_AGENT_CACHE_MAX_SIZE, _AGENT_CACHE_IDLE_TTL_SECS, _AGENT_CACHE_MAX_BYTES)

    # --- a turn's agent

    def claim_agent(
        self,
        key: str,
        signature: str,
        build: Callable[[], Any],
        *,
        interrupt_depth: int = 0,
        standing: tuple[str, int] | None = None,
    ) -> Any:
        """The conversation's warm agent, or a new one; it counts as running until `finish_turn`.

        Look-up and claim are one step: an agent that was found cannot be released before its turn starts. `standing` is
        where the store says the transcript stands: an agent that knows another state is the wrong one.
        """
        with self._agent_cache_lock:
            if key in self._running_agents:
                raise HermesError(f"A turn of {key} is under way already.")
            agent, stale = self._look_up(key, signature, standing)
            pending = Pending()
            self._running_agents[key] = pending if agent is None else agent
        if agent is not None:
            self._init_cached_agent_for_turn(agent, interrupt_depth)
            return agent
        self._release_later(stale)
        return self._build_claimed(key, signature, build, pending)

    def finish_turn(self, key: str, agent: Any, held: HeldTranscript | None = None) -> None:
        """This agent's turn is over and its transcript stands at `held`; one that was evicted meanwhile is let go now.

        A turn that was left behind ends like any other: whoever came after it stays registered.
        """
        with self._agent_cache_lock:
            self._unregister(key, agent)
            cached = self._agent_cache.get(key)
            if cached is not None and cached[0] is agent and held is not None:
                self._held[key] = held
                limit = self._get_limits()[2]
                if sum(each.bytes for each in self._held.values()) > limit:
                    # The oldest go while all together are too large, never one in mid-turn or unsaved.
                    sizes = [(name, self._held[name].bytes) for name in self._agent_cache if name in self._held]
                    going, _ = over_bytes(sizes, self._kept_keys(), limit)
                    self._release_later([self._take_out(name, "bytes") for name in going])
        if cached is None or cached[0] is not agent:
            self._release_later([agent])

    def abandon_turn(self, key: str, agent: Any = None) -> None:
        """The thread of this agent's turn does not come back: the agent is forgotten, and the conversation is free
        again. Without an agent: of the turn that still builds one."""
        with self._agent_cache_lock:
            running = self._running_agents.get(key)
            left = running if agent is None and isinstance(running, Pending) else agent
            self._unregister(key, left)
            cached = self._agent_cache.get(key)
            if cached is not None and cached[0] is left:
                self._take_out(key, "abandoned")

    def _unregister(self, key: str, holder: Any) -> bool:
        """Only who is registered can be taken off, never who came after; whether it was. The lock is held."""
        registered = holder is not None and self._running_agents.get(key) is holder
        if registered:
            del self._running_agents[key]
        return registered

    def count(self) -> int:
        return len(self._agent_cache)

    def cached_agent(self, key: str) -> Any:
        """The warm agent, in a turn or not; None without one."""
        with self._agent_cache_lock:
            entry = self._agent_cache.get(key)
        return None if entry is None else entry[0]

    def list_agents(self) -> list[Any]:
        """The warm agents, in a turn or not."""
        with self._agent_cache_lock:
            return [agent for agent, *_ in self._agent_cache.values()]

    def _list_idle(self) -> list[tuple[str, str]]:
        """The conversations with a warm agent that is in no turn, each with the session that it is warm for."""
        with self._agent_cache_lock:
            busy = set(self._active_keys())
            return [(key, entry[0].session_id or "") for key, entry in self._agent_cache.items() if key not in busy]

    def _look_up(self, key: str, signature: str, standing: tuple[str, int] | None) -> tuple[Any, list[Any]]:
        """The agent of a hit, refreshed in its place; on a miss what stood there. The lock is held."""
        entry = self._agent_cache.get(key)
        if entry is None:
            self.counters["build:new"] += 1
            return None, []
        held = self._held.get(key)
        moved = standing is not None and held is not None and (held.session, held.version) != standing
        if entry[1] != signature or moved:
            reason = "settings" if entry[1] != signature else "transcript"
            self.counters[f"build:{reason}"] += 1
            self._take_out(key, reason)
            return None, [entry[0]]
        if isinstance(self._agent_cache, OrderedDict):
            self._agent_cache.move_to_end(key)
        self.counters["hit"] += 1
        return entry[0], []

    def _take_out(self, key: str, reason: str) -> Any:
        """Remove an entry with all that is known of it; its agent, or None. The lock is held."""
        entry = self._agent_cache.pop(key, None)
        if self._held:
            self._held.pop(key, None)
        if key in self._notes and not self._notes[key]:
            del self._notes[key]
        if entry is None:
            return None
        self.counters[f"evict:{reason}"] += 1
        return entry[0]

    def _build_claimed(self, key: str, signature: str, build: Callable[[], Any], pending: Pending) -> Any:
        try:
            agent = build()
        except BaseException:
            with self._agent_cache_lock:
                self._unregister(key, pending)
            raise
        with self._agent_cache_lock:
            in_time = self._unregister(key, pending)
            if in_time:
                self._running_agents[key] = agent
                self._agent_cache[key] = (agent, signature)
                self._enforce_agent_cache_cap()
        if not in_time:
            self._release_later([agent])
            raise Fenced("This turn was left behind while its agent was being built.", kept="Nothing was written.")
        return agent

    @staticmethod
    def _init_cached_agent_for_turn(agent: Any, interrupt_depth: int) -> None:
        """A fresh turn starts its silence clock anew; one that goes on after an interrupt keeps it running."""
        agent._api_call_count = 0
        if interrupt_depth == 0:
            agent._last_activity_ts = time.time()
            agent._last_activity_desc = "starting new turn (cached)"

    # --- what makes a cached agent the wrong one

    @staticmethod
    def _agent_config_signature(
        model: str,
        runtime: Mapping[str, Any],
        enabled_toolsets: Sequence[str],
        ephemeral_prompt: str,
        cache_keys: Mapping[str, Any] | None = None,
    ) -> str:
        return config_signature(model, runtime, enabled_toolsets, ephemeral_prompt, cache_keys)

    @staticmethod
    def _extract_cache_busting_config(config: Mapping[str, Any] | None) -> dict[str, Any]:
        return extract_cache_busting(config, registry._generation)

    # --- who goes

    def _evict_cached_agent(self, key: str, reason: str = "asked") -> None:
        """Take an entry out. A running agent is let go by the end of its turn."""
        with self._agent_cache_lock:
            agent = self._take_out(key, reason)
            running = agent is not None and self._running_agents.get(key) is agent
        if agent is not None and not running:
            self._release_later([agent])

    def end_session(self, key: str, messages: Sequence[Mapping[str, Any]] | None = None) -> bool:
        """The conversation's session is over: its warm agent goes, with everything that works for its task. The end
        itself is decided and performed in `gateway.turns.endings`; `messages` is the stored transcript. Whether there
        was an agent: of several callers, one is told so."""
        with self._agent_cache_lock:
            agent = self._take_out(key, "ended")
        if agent is not None:
            self._cleanup_agent_resources(agent, messages)
        return agent is not None

    def note_reset(self, key: str, session: str) -> None:
        """A person left this session for a new one: the agent that begins it tells plugins and the engine."""
        self._resets[key] = session

    def take_reset(self, key: str) -> str:
        return self._resets.pop(key, "")

    def notes_of(self, key: str) -> list[str]:
        """What the conversation's next message tells the model, once, whichever agent asks it (A4)."""
        return self._notes.setdefault(key, [])

    def drop_notes(self, key: str) -> None:
        """The conversation goes on in another session, which they are not about."""
        self.notes_of(key).clear()

    def release_all(self) -> None:
        """The process ends: every agent that is in no turn lets its client go; conversations stay as they are."""
        with self._agent_cache_lock:
            running = self._active_keys()
            agents = [self._take_out(key, "closing") for key in list(self._agent_cache) if key not in running]
        self._release_all(agents)

    def _enforce_agent_cache_cap(self) -> None:
        """Let the oldest entries beyond the cap go, never one in mid-turn. The caller holds the lock."""
        if not isinstance(self._agent_cache, OrderedDict):
            return  # without an order there is no oldest
        going, busy = over_cap(list(self._agent_cache), self._kept_keys(), self._get_limits()[0])
        agents = [self._take_out(key, "cap") for key in going]
        if busy and time.monotonic() - self._told_full > FULL_AGAIN_SECONDS:
            self._told_full = time.monotonic()
            log.warning("the agent cache stays over its cap: %d of the oldest agents are mid-turn", busy)
        self._release_later(agents)

    def _sweep_idle_cached_agents(self) -> int:
        """Let agents go that nobody used for a while; how many."""
        with self._agent_cache_lock:
            seen = {key: getattr(entry[0], "_last_activity_ts", None) for key, entry in self._agent_cache.items()}
            known = {key: moment for key, moment in seen.items() if moment is not None}
            going = idle_keys(known, self._kept_keys(), time.time(), self._get_limits()[1])
            agents = [self._take_out(key, "idle") for key in going]
        self._release_later(agents)
        return len(agents)

    def _kept_keys(self) -> frozenset[str]:
        """Entries that may not go: in a turn, or with something that is stored nowhere (F2)."""
        return untouchable(self._active_keys(), self._held)

    def _active_keys(self) -> list[str]:
        """Entries whose agent is in a turn; one that is still being built is not active."""
        running = {id(agent) for agent in self._running_agents.values() if not isinstance(agent, Pending)}
        return [key for key, entry in self._agent_cache.items() if id(entry[0]) in running]

    # --- letting go

    def _release_later(self, agents: Sequence[Any]) -> None:
        """On a thread of its own: releasing may touch the network, and nobody waits for it."""
        if agents:
            threading.Thread(target=self._release_all, args=(agents,), name="release-agents", daemon=True).start()

    def _release_all(self, agents: Sequence[Any]) -> None:
        for agent in agents:
            try:
                self._release_evicted_agent_soft(agent)
            except Exception:
                log.exception("an evicted agent could not be released")

    def _release_evicted_agent_soft(self, agent: Any) -> None:
        """The conversation may go on later: only the model client goes."""
        agent.release_clients()

    def _cleanup_agent_resources(self, agent: Any, messages: Sequence[Mapping[str, Any]] | None = None) -> None:
        """The conversation is over: everything of its task ends."""
        agent.shutdown_memory_provider(messages)
        agent.close()
