"""A memory provider that notes every call, and a look at what it noted."""

import sys
from types import ModuleType
from typing import Any

from agent import provider_calls

#: Notes every call; hangs or fails in the methods that a test names.
WATCHER = """
    import threading
    from agent.memory_provider import MemoryProvider

    CALLS, HANGS, FAILS = [], set(), set()
    GO = threading.Event()

    class Watcher(MemoryProvider):
        name = "watcher"

        def _note(self, what, *args, **facts):
            CALLS.append((what, args, facts))
            if what in HANGS:
                GO.wait()
            if what in FAILS:
                raise RuntimeError("no " + what)

        def is_available(self):
            self._note("is_available")
            return True

        def initialize(self, session_id, **facts):
            self._note("initialize", session_id, **facts)

        def get_tool_schemas(self):
            self._note("get_tool_schemas")
            schema = {"description": "look", "parameters": {"type": "object", "properties": {}}}
            return [{**schema, "name": "watcher_look"}, {**schema, "name": "memory"}]

        def system_prompt_block(self):
            self._note("system_prompt_block")
            return "The watcher watches."

        def on_turn_start(self, turn_number, message, **more):
            self._note("on_turn_start", turn_number, message, **more)

        def prefetch(self, query, *, session_id=""):
            self._note("prefetch", query, session_id=session_id)
            return "recalled for " + query

        def queue_prefetch(self, query, *, session_id=""):
            self._note("queue_prefetch", query, session_id=session_id)

        def sync_turn(self, user, answer, *, session_id=""):
            self._note("sync_turn", user, answer, session_id=session_id)

        def handle_tool_call(self, tool_name, args):
            self._note("handle_tool_call", tool_name, args)
            return "seen"

        def on_session_end(self, messages):
            self._note("on_session_end", len(messages))

        def on_session_switch(self, new_session_id, **facts):
            self._note("on_session_switch", new_session_id, **facts)

        def on_pre_compress(self, messages):
            self._note("on_pre_compress", len(messages))
            return "keep the tea"

        def on_memory_write(self, action, target, content, metadata=None):
            self._note("on_memory_write", action, target, content, metadata=metadata)

        def shutdown(self):
            self._note("shutdown")

    def register(ctx):
        ctx.register_command("nothing", lambda text: text)
        ctx.register_whatever_comes_next(1, two=3)
        ctx.register_memory_provider(Watcher())
"""


def loaded(name: str = "watcher") -> ModuleType:
    """The provider's module."""
    return sys.modules[f"_hermes_user_memory.{name}"]


def list_calls(name: str = "watcher") -> list[str]:
    """The methods that were called after it was chosen, in order."""
    provider_calls.drain_all()
    asked = {"is_available", "get_tool_schemas"}
    return [what for what, _, _ in loaded(name).CALLS if what not in asked]


def find_call(what: str, name: str = "watcher") -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The last call of a method: its arguments."""
    provider_calls.drain_all()
    return [(args, facts) for called, args, facts in loaded(name).CALLS if called == what][-1]
