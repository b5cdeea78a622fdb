"""The context engine that a plugin registered, for many agents: lent to one, copied or made again for the others."""

import copy
import logging
import threading
import weakref
from typing import Any

from hermes_base.errors import STOPS
from hermes_cli.plugins.plugin_calls import call_beside
from hermes_cli.plugins.plugin_context import EngineProbe
from hermes_cli.plugins.plugin_loading import Register
from hermes_cli.plugins.plugin_records import PluginRecords
from tools.registry import registering_for

log = logging.getLogger("hermes_cli.plugins")

RESET_SECONDS = 10.0


class EngineHold:
    """An agent works with the registered context engine as long as it keeps this."""


class EngineKeeper(PluginRecords):
    """Records that can give each agent an engine."""

    def _begin(self) -> None:
        super()._begin()
        self._registrars: dict[str, Register] = {}
        self._engine_lock = threading.Lock()
        self._engine_copies: list[Any] = []  # of the registered engine before anybody used it; None in it: it has none
        self._engine_holder: weakref.ref[EngineHold] | None = None
        self._lent_hold: EngineHold | None = None  # until the agent that it was lent to takes it

    def make_context_engine(self, *, lend: bool = False) -> Any:
        """An engine for one agent, made from the one that a plugin registered; None when there is none.

        With `lend` it is that very one while no other agent holds it (`hold_engine`): the plugin's hooks and commands
        know it and no other.
        """
        engine = self._context_engine
        if engine is None:
            return None
        with self._engine_lock:
            if not self._engine_copies:  # as it was registered: what agents say to it is in no copy
                self._engine_copies.append(self._copy_engine(engine))
            if lend and (self._engine_holder is None or (self._engine_holder() is None and self._reset(engine))):
                self._lent_hold = EngineHold()
                self._engine_holder = weakref.ref(self._lent_hold)
                return engine
        copied = self._copy_engine(self._engine_copies[0]) if self._engine_copies[0] is not None else None
        if copied is not None:
            return copied
        again = self._register_engine_again()
        if again is None:
            log.warning("all agents share the one context engine of plugin %s", self._engine_owner)
        return engine if again is None else again

    def _reset(self, engine: Any) -> bool:
        """It worked in another conversation; False: it cannot leave that one, so it is not lent again."""
        try:
            call_beside(engine.on_session_reset, RESET_SECONDS)
            return True
        except STOPS:
            raise
        except BaseException:
            log.warning("context engine %s failed in on_session_reset", self._engine_owner, exc_info=True)
            return False

    def hold_engine(self, engine: Any) -> object:
        """What an agent keeps as long as it works with the engine that it was lent; None: that was another one."""
        with self._engine_lock:
            hold, self._lent_hold = (
                (self._lent_hold, None) if engine is self._context_engine else (None, self._lent_hold)
            )
        return hold

    def _copy_engine(self, engine: Any) -> Any:
        try:
            return copy.deepcopy(engine)
        except Exception as problem:  # noqa: BLE001 - engines with open files or locks cannot be copied
            log.info("context engine %s cannot be copied (%s); its plugin makes another", self._engine_owner, problem)
            return None

    def _register_engine_again(self) -> Any:
        register = self._registrars.get(self._engine_owner)
        if register is None:
            return None
        scratch = PluginRecords()
        try:
            with registering_for(self._engine_owner):
                register(EngineProbe(self._plugins[self._engine_owner].manifest, scratch))
        except STOPS:
            raise
        except BaseException:
            log.warning("plugin %s could not make a second context engine", self._engine_owner, exc_info=True)
        return scratch._context_engine
