"""What two plugins bring under one name, and whose is used: mostly that of the one that is loaded later."""

from collections.abc import Iterator

from hermes_cli.plugins.plugin_records import LoadedPlugin, PluginRecords, name_offer
from hermes_cli.terminal_commands import COMMANDS
from tools.registry import registry

_OURS = "{what}: Hermes has one, and that one runs"
_THEIRS = "{what}: the plugin {other} has one, too; that one is used, since it is loaded {when}"
_OWN = "{what}: the plugin {other} has one, too; this one is used, since it is loaded {when}"
#: Where whoever comes first is used; of all other kinds it is the last one.
_FIRST_WINS = frozenset({"memory_provider"})


def list_clashes(plugin: LoadedPlugin, records: PluginRecords) -> list[str]:
    """A line for each name that this plugin does not have for itself, with whose is used."""
    return [*_list_named(plugin, records), *_list_tools(plugin), *_list_offers(plugin, records)]


def _list_named(plugin: LoadedPlugin, records: PluginRecords) -> Iterator[str]:
    name = plugin.manifest.name
    for command, facts in records._cli_commands.items():
        if facts["plugin"] == name and command in COMMANDS:
            yield _OURS.format(what=f"cli command: {command}")
    for kept, key, facts in records._displaced:
        kind = "command: /" if kept is records._plugin_commands else "cli command: "
        told, winner = f"{kind}{key}", kept.get(key, {}).get("plugin")
        if winner in (None, facts["plugin"]):
            continue  # the other one is gone, and this one is back
        if facts["plugin"] == name:
            yield _THEIRS.format(what=told, other=winner, when="later")
        elif winner == name:
            yield _OWN.format(what=told, other=facts["plugin"], when="later")


def _list_tools(plugin: LoadedPlugin) -> Iterator[str]:
    """Tools of one toolset replace each other; one of another toolset is refused, and told so."""
    for name in plugin.tools_registered:
        tool, key = registry.get_entry(name), plugin.manifest.id
        below = tool.replaced if tool is not None else None
        if tool is not None and tool.owner != key:
            other = tool.owner or "that registered it late"
            yield _THEIRS.format(what=f"tool: {name}", other=other, when="later")
        elif below is not None and below.owner:
            yield _OWN.format(what=f"tool: {name}", other=below.owner, when="later")


def _list_offers(plugin: LoadedPlugin, records: PluginRecords) -> Iterator[str]:
    order = list(records._plugins)
    for kind, offer in plugin.offers:
        own, what = (kind, name_offer(offer)), f"{kind.replace('_', ' ')}: {name_offer(offer)}"
        if own in plugin.kept:
            continue
        for key, other in records._plugins.items():
            if other is plugin or own not in {(theirs, name_offer(each)) for theirs, each in other.offers}:
                continue
            is_later, first = order.index(key) > order.index(plugin.manifest.id), kind in _FIRST_WINS
            form, when = _THEIRS if is_later != first else _OWN, "first" if first else "later"
            yield form.format(what=what, other=key, when=when)
