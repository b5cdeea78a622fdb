"""Middleware of plugins: callbacks that may replace a request, and callbacks that stand around an execution.

A callback that fails is logged and left out; a failure of the execution itself passes through all of them.
"""

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hermes_base.errors import STOPS
from hermes_base.turn.hooks import TELEMETRY_SCHEMA_VERSION

log = logging.getLogger(__name__)

Callback = Callable[..., Any]

TOOL_REQUEST, TOOL_EXECUTION = "tool_request", "tool_execution"
LLM_REQUEST, LLM_EXECUTION = "llm_request", "llm_execution"
MIDDLEWARE_SCHEMA_VERSION = "hermes.middleware.v1"
#: What every callback is told beside the facts.
_VERSIONS: Mapping[str, str] = MappingProxyType(
    {
        "middleware_schema_version": MIDDLEWARE_SCHEMA_VERSION,
        "telemetry_schema_version": TELEMETRY_SCHEMA_VERSION,
    }
)
#: The keyword under which a callback gets the payload, and the key under which it gives back a new one.
PAYLOAD_NAMES: Mapping[str, str] = MappingProxyType(
    {TOOL_REQUEST: "args", TOOL_EXECUTION: "args", LLM_REQUEST: "request", LLM_EXECUTION: "request"}
)
VALID_MIDDLEWARE = frozenset(PAYLOAD_NAMES)


def apply_request(
    kind: str, payload: Mapping[str, Any], callbacks: Sequence[Callback], /, **facts: Any
) -> Mapping[str, Any]:
    """The payload after each callback in turn could replace it; the very same object when none did."""
    if not callbacks:
        return payload
    name = PAYLOAD_NAMES.get(kind, "payload")
    original = copy.deepcopy(dict(payload))
    current = payload
    for callback in tuple(callbacks):
        # A copy: a callback that edits what it was given, and then fails, must not leave half an edit behind.
        offered = {name: copy.deepcopy(dict(current)), f"original_{name}": original}
        answer = call_isolated(kind, callback, {**facts, **offered})
        replacement = answer.get(name) if isinstance(answer, Mapping) else None
        current = replacement if isinstance(replacement, dict) else current
    return current


def invoke_all(kind: str, callbacks: Sequence[Callback], /, **facts: Any) -> list[Any]:
    """What the callbacks answer, in order, without the Nones."""
    answers = [call_isolated(kind, callback, facts) for callback in tuple(callbacks)]
    return [answer for answer in answers if answer is not None]


def call_isolated(kind: str, callback: Callback, facts: Mapping[str, Any]) -> Any:
    """One callback's answer; None when it fails."""
    try:
        return callback(**{**_VERSIONS, **facts})
    except STOPS:
        raise
    except BaseException:
        log.warning("%s middleware %s failed and is left out", kind, describe(callback), exc_info=True)
        return None


def run_execution(
    kind: str, payload: Any, callbacks: Sequence[Callback], call: Callable[[Any], Any], /, **facts: Any
) -> Any:
    """Run `call(payload)` inside the callbacks, the first one outermost."""
    if not callbacks:
        return call(payload)
    first, *rest = callbacks
    name = PAYLOAD_NAMES.get(kind, "payload")
    facts.setdefault(f"original_{name}", copy.deepcopy(payload))
    step = NextCall(lambda given: run_execution(kind, given, rest, call, **facts), payload)
    # A copy: `next_call()` without a payload goes on with what this callback was given, not with its edits.
    offered = {name: copy.deepcopy(payload), "next_call": step}
    try:
        return first(**{**_VERSIONS, **facts, **offered})
    except BaseException as problem:
        if problem is step.failure or isinstance(problem, STOPS):
            raise
        log.warning("%s middleware %s failed", kind, describe(first), exc_info=True)
        return step.settle()


class NextCall:
    """The rest of a chain as a callback gets it; usable once."""

    def __init__(self, run: Callable[[Any], Any], payload: Any) -> None:
        self._run = run
        self._payload = payload
        self._used = False
        self._result: Any = None
        self.failure: BaseException | None = None

    def __call__(self, payload: Any = None) -> Any:
        if self._used:
            raise RuntimeError("next_call can be used once; it has run already.")
        self._used = True
        try:
            self._result = self._run(self._payload if payload is None else payload)
        except BaseException as failure:
            self.failure = failure
            raise
        return self._result

    def settle(self) -> Any:
        """The outcome when the callback itself broke: the result it had, the failure it met, or the rest without it."""
        if self.failure is not None:
            raise self.failure
        return self._result if self._used else self()


def describe(callback: Callback) -> str:
    """A callback's name with its module, which names its plugin."""
    module = getattr(callback, "__module__", None) or type(callback).__module__
    name = getattr(callback, "__qualname__", None) or type(callback).__qualname__
    return f"{module}.{name}"
