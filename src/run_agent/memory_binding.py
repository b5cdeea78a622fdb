"""The memory provider of one agent, from the first turn on: opened for a session, asked before a message is sent, told
what came of it, and moved along when the conversation goes on elsewhere.

An agent without a provider has no object of this kind: a turn of it does nothing here.
"""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from agent.context_engine import sanitize_memory_context
from agent.memory_manager import MemoryManager, build_memory_context_block
from hermes_base.chat import LastingNotice
from hermes_base.errors import ConfigProblem
from hermes_base.settings import Settings
from hermes_base.text.foreign import ForeignText
from hermes_base.turn.journal import STEERED
from hermes_cli import config as cli_config
from hermes_cli.profiles import get_active_profile_name
from hermes_constants import get_hermes_home
from plugins import memory as memory_plugins
from tools.memory_tool import NEEDS
from tools.registry import registry

log = logging.getLogger(__name__)

RECALLED = "what a memory provider remembers"  # an origin of foreign text: it may stem from anywhere (G9)
WITHOUT = "This conversation goes on without it."
#: After so long a provider that could not be opened is tried again.
AGAIN_SECONDS = 60.0
MOST_TOLD = 1_000
#: What providers know platforms by, where that is another name.
_PLATFORMS = {"local": "cli"}

Facts = Mapping[str, Any]


class AgentMemory:
    """`find_facts` says for whom and where the agent works; `emit` reaches the person, once for each kind of fault."""

    def __init__(
        self, name: str, conversation: str, find_facts: Callable[[], Facts], emit: Callable[[LastingNotice], None]
    ) -> None:
        self.name = name
        self._conversation = conversation
        self._find_facts = find_facts
        self._emit = emit
        self._manager: MemoryManager | None = None
        self._session = ""
        self._failed_at = 0.0
        self._faults: list[str] = []  # that nobody was told of yet
        self._lock = threading.Lock()
        self.tool_names: frozenset[str] = frozenset()

    # --- its life

    def open(self, session: str) -> bool:
        """Have it ready for a session; whether it was opened just now. A fault is told, and the turn goes on."""
        opened = False
        if self._manager is None and (not self._failed_at or time.monotonic() - self._failed_at > AGAIN_SECONDS):
            self._manager = self._open(session)
            opened = self._manager is not None
            self._failed_at = 0.0 if opened else time.monotonic()
        elif self._manager is not None and session != self._session:
            self._manager.queue_move(None, session, parent_session_id=self._session, reset=False, reason="resume")
            self._session = session
        self._tell_faults()
        return opened

    def _open(self, session: str) -> MemoryManager | None:
        choice = memory_plugins.select_memory_provider(self.name)
        if choice.provider is None:
            self._note(choice.told)
            return None
        manager = MemoryManager(on_problem=self._note)
        manager.add_provider(choice.provider)
        facts = {name: value for name, value in self._find_facts().items() if value not in ("", None)}
        if not manager.initialize_all(session, **facts):
            return None
        self._session = session
        return manager

    def move(self, session: str, ended: Sequence[Mapping[str, Any]] | None = None, **facts: Any) -> None:
        """The conversation goes on in another session; `ended` is what the old one said, if that is over."""
        if self._manager is not None:
            old, self._session = self._session, session
            self._manager.queue_move(ended, session, parent_session_id=old, **facts)

    def follow_new(self, left: str) -> None:
        """The session that is open is a person's new one, in the place of the one that they left."""
        if self._manager is not None:
            told = {"parent_session_id": left, "reset": True, "reason": "new_session"}
            self._manager.queue_move(None, self._session, **told)

    def end(self, session: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """The session is over, and the provider keeps what it wants of it."""
        self.open(session)
        if self._manager is not None:
            self._manager.queue_move(messages)

    def close(self) -> None:
        """The agent lets go of it: it shuts down behind what is queued; nobody waits. A later turn opens another."""
        manager, self._manager = self._manager, None
        if manager is not None:
            manager.queue_shutdown()

    # --- a turn

    def add_block(self, prompt: str, foreign: ForeignText | None) -> str:
        """A system prompt with its part of it."""
        block = self._manager.build_system_prompt() if self._manager is not None else ""
        if block and foreign is not None:
            foreign.note(RECALLED)
        return f"{prompt}\n\n{block}" if block else prompt

    def recall(self, foreign: ForeignText, text: str, messages: Sequence[Mapping[str, Any]]) -> str:
        """What goes along with the newest message; empty: nothing."""
        manager = self._manager
        if manager is None:
            return ""
        asked = sum(message.get("role") == "user" and not message.get(STEERED) for message in messages)
        manager.on_turn_start(asked + 1, text)
        found = manager.prefetch_all(text, session_id=self._session) if text.strip() else ""
        block = build_memory_context_block(found)
        if block:
            foreign.note(RECALLED)
        self._tell_faults()
        return block

    def keep(self, user: str, answer: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """A turn that was answered, in the background."""
        if self._manager is not None:
            asked = cli_config.redactor()(user)
            self._manager.sync_all(asked, answer, session_id=self._session, messages=messages)
            self._manager.queue_prefetch_all(asked, session_id=self._session)

    def brief_summary(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """What a summary of these messages should hold."""
        found = self._manager.on_pre_compress(messages) if self._manager is not None else ""
        return sanitize_memory_context(found)

    def make_ports(self, foreign: ForeignText) -> dict[str, Any]:
        """What a turn is given of it."""
        return {"recall": partial(self.recall, foreign), "brief_summary": self.brief_summary}

    # --- tools

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Its tools; one that has the name of a tool of ours is refused."""
        offered = self._manager.get_all_tool_schemas() if self._manager is not None else []
        taken = [schema["name"] for schema in offered if registry.get_entry(schema["name"]) is not None]
        for name in taken:
            log.warning("memory provider %s wants the tool %s, which is there already; it is refused", self.name, name)
        return [schema for schema in offered if schema["name"] not in taken]

    def run_tool(self, name: str, args: dict[str, Any], foreign: ForeignText) -> str:
        foreign.note(RECALLED)
        result = self._manager.handle_tool_call(name, args) if self._manager is not None else ""
        return result or f'{{"error": "The memory provider {self.name} is not there now."}}'

    def mirror(self, args: Mapping[str, Any], redact: Callable[[str], str]) -> None:
        """A note of the built-in memory was written."""
        if self._manager is not None and args.get("action") in NEEDS:
            texts = {name: redact(str(args.get(name) or "")) for name in ("content", "old_text")}
            about = {"old_text": texts["old_text"]} if texts["old_text"] else {}
            target = str(args.get("target") or "memory")
            self._manager.on_memory_write(str(args["action"]), target, texts["content"], about)

    # --- faults

    def _note(self, sentence: str) -> None:
        """On any thread: the next look of the turn tells it."""
        memory_plugins.note_problem(self.name, sentence)
        with self._lock:
            self._faults.append(sentence)

    def _tell_faults(self) -> None:
        with self._lock:
            faults, self._faults = self._faults, []
        for fault in faults:
            key = self._conversation, fault.partition("(")[0]
            with _told_lock:
                known = key in _told
                _told[key] = None
                while len(_told) > MOST_TOLD:
                    _told.popitem(last=False)
            if not known:
                self._emit(LastingNotice(f"{fault} {WITHOUT}", "warning"))


_told: OrderedDict[tuple[str, str], None] = OrderedDict()  # conversations and what was told there
_told_lock = threading.Lock()


def name_provider(settings: Settings) -> str:
    """The provider that the settings name; empty: none."""
    name = settings.memory.provider
    return "" if name in memory_plugins.NONE else name


def describe_agent(platform: str, conversation: str, scope: Facts) -> dict[str, Any]:
    """What every provider is told of the agent that it works for. `scope` says for whom and in which chat."""
    return {
        **scope,
        "platform": _PLATFORMS.get(platform, platform),
        "hermes_home": str(get_hermes_home()),
        "agent_context": "primary",
        "agent_identity": get_active_profile_name(),
        "agent_workspace": "hermes",
        "gateway_session_key": conversation,
    }


def tell_end(settings: Settings, session: str, messages: Sequence[Mapping[str, Any]], facts: Facts) -> None:
    """A session that no agent holds is over: a provider is made for it, told, and let go."""
    name = name_provider(settings) if settings.memory.memory_enabled else ""
    if not name or not messages:
        return
    memory = AgentMemory(name, str(facts.get("gateway_session_key", "")), lambda: facts, lambda notice: None)
    try:
        memory.end(session, messages)
    except ConfigProblem as problem:
        log.warning("memory provider %s was not told of an end: %s", name, problem)
    memory.close()
