"""How the agent calls other people's code: hooks and middleware as one small protocol, and the host without plugins."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

TELEMETRY_SCHEMA_VERSION = "hermes.observer.v1"  # told with every call of a plugin


class Hooks(Protocol):
    """The plugin host as the turn sees it. Implementations never raise: a plugin's failure is theirs to log."""

    def has(self, name: str) -> bool: ...

    def invoke(self, name: str, **facts: Any) -> list[Any]:
        """Call a hook's callbacks in order; the results that are not None."""

    def refuse_tool(
        self, name: str, args: Mapping[str, Any], approve: Callable[[str], bool] | None, **facts: Any
    ) -> str | None:
        """Why plugins do not let a tool run; None when they do. `approve` asks a person where a plugin wants that."""

    def request(self, kind: str, payload: Mapping[str, Any], **facts: Any) -> Mapping[str, Any]:
        """Let request middleware (`llm_request`, `tool_request`) replace the payload."""

    def execute(self, kind: str, payload: Mapping[str, Any], call: Callable[[Any], Any], **facts: Any) -> Any:
        """Run `call(payload)` inside the execution middleware (`llm_execution`, `tool_execution`)."""


class NoHooks:
    """No plugin is loaded."""

    def has(self, name: str) -> bool:
        return False

    def invoke(self, name: str, **facts: Any) -> list[Any]:
        return []

    def refuse_tool(
        self, name: str, args: Mapping[str, Any], approve: Callable[[str], bool] | None, **facts: Any
    ) -> str | None:
        return None

    def request(self, kind: str, payload: Mapping[str, Any], **facts: Any) -> Mapping[str, Any]:
        return payload

    def execute(self, kind: str, payload: Mapping[str, Any], call: Callable[[Any], Any], **facts: Any) -> Any:
        return call(payload)


_find: Callable[[], Hooks] = NoHooks


def find_hooks() -> Hooks:
    """The plugins of this process, for whoever stands below their host and is given none."""
    return _find()


def offer_hooks(find: Callable[[], Hooks]) -> None:
    """The host says where its plugins are found."""
    global _find
    _find = find
