"""Every tool the model can call: its schema, its toolset and what runs it. Errors are data for the model."""

import inspect
import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from hermes_base.call_forms import CallForm, read_call_form
from hermes_base.errors import STOPS, ToolFailure
from hermes_base.house_opening import TOOLS, open_house
from hermes_base.turn.tool_schemas import complete_schema, find_schema_fault

log = logging.getLogger(__name__)

CHECK_SECONDS = 30.0
_TAKES_NOTHING = CallForm(frozenset(), takes_all=False)
_owner: ContextVar[str] = ContextVar("owner of what is registered", default="")


@dataclass(frozen=True)
class ToolEntry:
    name: str
    toolset: str
    schema: Mapping[str, Any]
    handler: Callable[..., Any]
    check_fn: Callable[[], Any] | None = None
    requires_env: tuple[str, ...] = ()
    is_async: bool = False
    description: str = ""
    emoji: str = ""
    max_result_size_chars: int | None = None
    dynamic_schema_overrides: Callable[[], Mapping[str, Any]] | None = None
    origin: str = ""  # whose words its description is; empty: those of Hermes, or of somebody whom the owner trusts
    owner: str = ""  # the plugin that registered it; empty: Hermes did
    replaced: "ToolEntry | None" = None  # another one's tool of this name, which returns when this one goes


def tool_error(message: str, **extra: Any) -> str:
    """A result that tells the model what went wrong."""
    return json.dumps({"error": str(message), **extra}, ensure_ascii=False, default=str)


def tool_result(data: Any = None, **fields: Any) -> str:
    """A result as JSON text."""
    value = fields if data is None else ({**data, **fields} if isinstance(data, Mapping) else data)
    return json.dumps(value, ensure_ascii=False, default=str)


def make_schema(name: str, description: str, required: Sequence[str], /, **properties: Any) -> dict[str, Any]:
    """What the model is told of a tool: its parameters, and which of them it must give."""
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        parameters["required"] = list(required)
    return {"name": name, "description": description, "parameters": parameters}


@contextmanager
def registering_for(owner: str) -> Iterator[None]:
    """What is registered meanwhile, here in the registry or through a context, is this plugin's."""
    before = _owner.set(owner)
    try:
        yield
    finally:
        _owner.reset(before)


class ToolRegistry:
    """Tools by name. The generation counts every change, so that who cached a rendering knows it is old."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tools: dict[str, ToolEntry] = {}
        self._generation = 0
        self._checks: dict[str, tuple[float, bool]] = {}
        self.run_async: Callable[[Any], Any] | None = None  # set by model_tools: the bridge for coroutines
        self.make_context: Callable[[Mapping[str, Any]], Any] | None = None  # the same: for a tool outside of a turn

    @property
    def generation(self) -> int:
        return self._generation

    def register(
        self,
        name: str,
        toolset: str,
        schema: Mapping[str, Any],
        handler: Callable[..., Any],
        check_fn: Callable[[], Any] | None = None,
        requires_env: Collection[str] | None = None,
        is_async: bool = False,
        description: str = "",
        emoji: str = "",
        max_result_size_chars: int | None = None,
        dynamic_schema_overrides: Callable[[], Mapping[str, Any]] | None = None,
        override: bool = False,
        origin: str = "",
    ) -> bool:
        """Add a tool; what no model can be offered is refused (and logged), and so is a name that another toolset owns,
        unless `override`."""
        if fault := find_schema_fault(name, schema):
            log.warning(
                "a tool of toolset '%s' is refused: %s%s", toolset, "" if repr(name) in fault else f"{name}: ", fault
            )
            return False
        entry = ToolEntry(
            name,
            toolset,
            schema,
            handler,
            check_fn,
            tuple(requires_env or ()),
            is_async,
            description or str(schema.get("description", "")),
            emoji,
            max_result_size_chars,
            dynamic_schema_overrides,
            origin,
            owner=_owner.get(),
        )
        with self._lock:
            known = self._tools.get(name)
            if known is not None and known.toolset != toolset and not override:
                log.warning("tool '%s' of toolset '%s' is refused: '%s' owns the name", name, toolset, known.toolset)
                return False
            self._tools[name] = entry if known is None else replace(entry, replaced=_find_covered(entry, known))
            self._checks.pop(name, None)
            self._generation += 1
        return True

    def take_back(self, owner: str, module: str = "") -> list[str]:
        """Remove what a plugin registered, also without a word of whose it is if its code stands in this module; the
        names. What stood there before returns."""
        with self._lock:
            left = {name: _without(entry, owner, module) for name, entry in self._tools.items()}
            changed = [name for name, entry in left.items() if entry is not self._tools[name]]
            self._tools = {name: entry for name, entry in left.items() if entry is not None}
            for name in changed:
                self._checks.pop(name, None)
            self._generation += bool(changed)
        return changed

    def list_owned(self, owner: str) -> list[str]:
        with self._lock:
            return [name for name, entry in self._tools.items() if owner and entry.owner == owner]

    def deregister(self, name: str) -> bool:
        with self._lock:
            if self._tools.pop(name, None) is None:
                return False
            self._checks.pop(name, None)
            self._generation += 1
        return True

    def get_entry(self, name: str) -> ToolEntry | None:
        return self._tools.get(name)

    def names(self, toolset: str | None = None) -> list[str]:
        with self._lock:
            return sorted(entry.name for entry in self._tools.values() if toolset in (None, entry.toolset))

    def toolsets(self) -> list[str]:
        with self._lock:
            return sorted({entry.toolset for entry in self._tools.values()})

    def get_definitions(self, names: Collection[str], quiet: bool = False) -> list[dict[str, Any]]:
        """Schemas in the form of the API, sorted by name; tools whose check fails are left out."""
        definitions: list[dict[str, Any]] = []
        for name in sorted(names):
            entry = self._tools.get(name)
            if entry is not None and self._is_usable(entry, quiet=quiet):
                overrides = entry.dynamic_schema_overrides() if entry.dynamic_schema_overrides is not None else {}
                told = complete_schema({**entry.schema, **overrides, "name": name})
                definitions.append({"type": "function", "function": told})
        return definitions

    def find_origins(self, names: Iterable[str]) -> tuple[str, ...]:
        """Whose words stand in the descriptions of these tools: foreign text to whoever reads them (G9)."""
        entries = (self._tools.get(name) for name in sorted(names))
        return tuple(dict.fromkeys(entry.origin for entry in entries if entry is not None and entry.origin))

    def dispatch(self, name: str, args: Mapping[str, Any], **kwargs: Any) -> str:
        """Run a tool; whatever goes wrong comes back as a JSON error, never as an exception."""
        if self is registry and self.run_async is None:  # somebody imported the registry alone
            open_house(TOOLS)
        entry = self._tools.get(name)
        if entry is None:
            # Names that others chose are others' words (G9).
            ours = [known for known, tool in sorted(self._tools.items()) if not tool.origin]
            return tool_error(f"There is no tool called '{name}'.", available=ours)
        try:
            result = self._call(entry, args, kwargs)
        except ToolFailure as failure:
            return tool_error(str(failure))
        except STOPS:
            raise
        except BaseException as problem:
            log.exception("tool %s failed", name)
            return tool_error(f"{name} failed: {type(problem).__name__}: {problem}")
        return _checked(name, result)

    def is_available(self, name: str) -> bool:
        entry = self._tools.get(name)
        return entry is not None and self._is_usable(entry, quiet=True)

    def _call(self, entry: ToolEntry, args: Mapping[str, Any], kwargs: Mapping[str, Any]) -> Any:
        """A handler need not list extras that it does not want."""
        form = read_call_form(entry.handler) or _TAKES_NOTHING
        if "context" in form.named and "context" not in kwargs and self.make_context is not None:
            kwargs = {**kwargs, "context": self.make_context(kwargs)}
        # `context` is for whoever names it: plugins hand all that they are given on to functions of their own.
        given = {name: value for name, value in form.choose(kwargs).items() if name in form.named or name != "context"}
        result = entry.handler(dict(args), **given)
        if inspect.isawaitable(result):
            run_async = self.run_async or registry.run_async
            if run_async is None:  # somebody imported this alone, or made a registry of their own
                open_house(TOOLS)
                run_async = registry.run_async
            assert run_async is not None  # it is set when the tools are there
            return run_async(result)
        return result

    def _is_usable(self, entry: ToolEntry, *, quiet: bool) -> bool:
        if entry.check_fn is None:
            return True
        now = time.monotonic()
        known = self._checks.get(entry.name)
        if known is not None and now - known[0] < CHECK_SECONDS:
            return known[1]
        usable = _passes(entry)
        if not usable and not quiet:
            log.info("tool %s is left out: its requirements are not met", entry.name)
        self._checks[entry.name] = (now, usable)
        return usable


def _find_covered(entry: ToolEntry, known: ToolEntry) -> ToolEntry | None:
    """What returns when a tool goes that takes the place of this one: nobody's own earlier one."""
    same = entry.owner == known.owner and name_code(entry.handler) == name_code(known.handler)
    return known.replaced if same or (entry.owner and entry.owner == known.owner) else known


def name_code(handler: Callable[..., Any]) -> str:
    """The module that a function stands in."""
    code = getattr(handler, "func", handler)  # of a partial
    return str(getattr(inspect.unwrap(code), "__module__", None) or "")


def _without(entry: ToolEntry | None, owner: str, module: str) -> ToolEntry | None:
    """The tool, or what it replaced, as if this plugin had registered none."""
    if entry is None:
        return None
    below = _without(entry.replaced, owner, module)
    is_late = bool(module) and not entry.owner and f"{name_code(entry.handler)}.".startswith(f"{module}.")
    if is_late or (owner and entry.owner == owner):
        return below
    return entry if below is entry.replaced else replace(entry, replaced=below)


def _passes(entry: ToolEntry) -> bool:
    try:
        return bool(entry.check_fn and entry.check_fn())
    except STOPS:
        raise
    except BaseException:
        log.exception("the check of tool %s failed", entry.name)
        return False


def _checked(name: str, result: Any) -> str:
    """Results are text, or a multimodal dict, which travels as its JSON."""
    if isinstance(result, str):
        return result
    if isinstance(result, Mapping) and result.get("_multimodal") is True and isinstance(result.get("content"), list):
        return json.dumps(dict(result), ensure_ascii=False, default=str)
    return tool_error(f"{name} gave back {type(result).__name__} instead of text.", error_type="tool_result_contract")


registry = ToolRegistry()
