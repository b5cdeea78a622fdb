"""Stands before somebody else's context engine: its methods run beside the turn and within a limit. One that hangs, or
fails again and again, is set aside with a word, and the built-in engine takes its place in this conversation."""

import functools
import logging
from collections.abc import Callable
from typing import Any

from agent.context_compressor import ContextCompressor
from agent.context_engine import accepted_arguments
from agent.turn.compaction import read_engine_name
from hermes_base.errors import STOPS
from hermes_cli.plugins.plugin_calls import MOST_FAILURES, Late, call_beside

log = logging.getLogger(__name__)

#: A compaction may ask a model, which has as long as any step of a turn; everything else is to answer at once.
SECONDS, COMPRESS_SECONDS = 10.0, 300.0
SET_ASIDE = (
    "The context engine {name} {why}, so it is set aside in this conversation. Nothing was dropped, and the built-in "
    "engine goes on. Look into the log, or set context.engine to compressor."
)
_OWN = frozenset({"_engine", "_make_spare", "_tell", "_find_limit", "_failures", "_wrapped", "set_aside"})


def find_limit(method: str) -> float:
    return COMPRESS_SECONDS if method == "compress" else SECONDS


class GuardedEngine:
    """Looks like the engine that it stands before: what is read, written and called is the engine's."""

    _engine: Any
    set_aside: str

    def __init__(
        self,
        engine: Any,
        make_spare: Callable[[], ContextCompressor],
        tell: Callable[[str], None],
        find_limit: Callable[[str], float] = find_limit,
    ) -> None:
        self._engine, self._make_spare, self._tell, self._find_limit = engine, make_spare, tell, find_limit
        self._failures = 0  # in a row
        self._wrapped: dict[str, Any] = {}
        self.set_aside = ""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """Whoever asks what engine this is means the engine."""
        return type(self._engine)

    def __getattr__(self, name: str) -> Any:
        known = self._wrapped.get(name)
        if known is not None:
            return known
        value = getattr(self._engine, name)
        if not callable(value) or name.startswith("__") or self.set_aside:
            return value

        @functools.wraps(value)
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._call(name, value, args, kwargs)

        self._wrapped[name] = call
        return call

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self._engine, name, value)

    def _call(self, name: str, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if self.set_aside:
            return self._call_spare(name, args, kwargs)
        try:
            answer = call_beside(lambda: method(*args, **kwargs), self._find_limit(name))
        except STOPS:
            raise
        except Late:
            self._put_aside(f"did not come back from {name}")
            return self._call_spare(name, args, kwargs)
        except BaseException:
            self._failures += 1
            if self._failures >= MOST_FAILURES:
                self._put_aside(f"failed {self._failures} times in a row, last in {name}")
                log.exception("the context engine failed in %s", name)
                return self._call_spare(name, args, kwargs)
            raise
        self._failures = 0
        return answer

    def _call_spare(self, name: str, args: Any, kwargs: Any) -> Any:
        method = getattr(self._engine, name, None)
        return method(*args, **accepted_arguments(method, kwargs)) if method is not None else None

    def _put_aside(self, why: str) -> None:
        name = read_engine_name(self._engine)
        spare = self._make_spare()
        self._wrapped.clear()
        self._engine, self.set_aside = spare, why
        text = SET_ASIDE.format(name=name, why=why)
        log.warning("%s", text)
        self._tell(text)
