"""Which tools go together, as data: a toolset names tools, and may take in other toolsets."""

from collections.abc import Iterable, Mapping

from tools.registry import ToolRegistry

EVERYDAY = (
    *("browser", "clarify", "memory", "messages", "process", "search", "skills", "terminal", "todo", "files", "web"),
)
#: These work through a gateway with a chat app; where there is none, the model does not hear of them.
GATEWAY_TOOLSETS = ("messages",)
#: Tools that plugins run by names of theirs; the model has them under another name.
FOR_PLUGINS = "for_plugins"
#: Offered by whoever builds an agent, where it is needed; nobody asks for them.
BUILT_IN_TOOLSETS = ("indirect", FOR_PLUGINS)
#: Sets that platforms ask for by name; anything else is a toolset that some tool belongs to.
PLATFORM_TOOLSETS: Mapping[str, tuple[str, ...]] = {
    "hermes-cli": EVERYDAY,
    "hermes-telegram": EVERYDAY,
    "hermes-discord": EVERYDAY,
    "hermes-api": EVERYDAY,
}


def tool_names(
    registry: ToolRegistry, enabled: Iterable[str] | None, disabled: Iterable[str] | None = None
) -> frozenset[str]:
    """The tools of the enabled toolsets (all of them when None) without those of the disabled ones."""
    wanted = registry.toolsets() if enabled is None else _expand(enabled)
    refused = {*_expand(disabled or ()), *BUILT_IN_TOOLSETS}
    return frozenset(name for toolset in wanted if toolset not in refused for name in registry.names(toolset))


def includes(toolset: str, enabled: Iterable[str] | None, disabled: Iterable[str] | None = None) -> bool:
    """Whether a toolset is among the enabled ones, and not among those that are not wanted."""
    return (enabled is None or toolset in _expand(enabled)) and toolset not in _expand(disabled or ())


def _expand(names: Iterable[str]) -> list[str]:
    return [toolset for name in names for toolset in PLATFORM_TOOLSETS.get(name, (name,))]
