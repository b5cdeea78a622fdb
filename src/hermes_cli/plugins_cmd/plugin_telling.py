"""What became of plugins, in words and for programs: what each registered, what is not used, what went wrong."""

import difflib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hermes_base.text.harmless import clean_name
from hermes_cli import config
from hermes_cli import plugins as plugin_host
from hermes_cli.middleware import VALID_MIDDLEWARE
from hermes_cli.plugins import set_aside
from hermes_cli.plugins.plugin_clashes import list_clashes
from hermes_cli.plugins.plugin_loading import find_code
from hermes_cli.plugins.plugin_records import VALID_HOOKS, LoadedPlugin, PluginRecords, name_offer
from hermes_cli.plugins_cmd.plugin_looking import PluginLook, describe_kind, look
from hermes_constants import is_set

Note = tuple[str, str]  # a plugin, and what was said while it was loaded

#: Who speaks up while plugins are loaded.
_LOGGERS = ("hermes_cli.plugins", "tools.registry")
#: Hooks that are taken and never called: there is nothing here that they tell of.
_NEVER_CALLED = frozenset(
    {"kanban_task_claimed", "kanban_task_completed", "kanban_task_blocked", "subagent_start", "subagent_stop"}
)
#: What the list says of plugins that were not loaded, by the error they carry.
_STATES = {plugin_host.DISABLED: "disabled", plugin_host.NOT_ENABLED: "off"}
_STATUSES = {plugin_host.DISABLED: "disabled", plugin_host.NOT_ENABLED: "not enabled"}


@contextmanager
def hear() -> Iterator[list[Note]]:
    """Collect what the host says of plugins while they are loaded: the command tells it, instead of a log."""
    heard = _Heard()
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    were = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(heard)
        logger.propagate = is_set("HERMES_PLUGINS_DEBUG")
    try:
        yield heard.told
    finally:
        for logger, was in zip(loggers, were, strict=True):
            logger.removeHandler(heard)
            logger.propagate = was


class _Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.told: list[Note] = []

    def emit(self, record: logging.LogRecord) -> None:
        loading = next(reversed(plugin_host.get_plugin_manager()._plugins), "")  # one after the other: the last
        self.told.append((loading, record.getMessage()))


def load(force: bool = False) -> tuple[plugin_host.PluginManager, list[Note]]:
    """The manager with its plugins loaded, and what was said meanwhile."""
    with hear() as told:
        plugin_host.discover_plugins(force=force)
    records = plugin_host.get_plugin_manager()
    for name, why in set_aside.read().items():  # by the running Hermes
        if name in records._plugins:
            records._plugins[name].set_aside = why
    return records, told


# --- one plugin


def tell_look(seen: PluginLook) -> None:
    """What can be seen without running it."""
    print("As far as its files show, it registers:" if seen.registers else "Its files do not show what it registers.")
    for line in seen.describe():
        print(f"    {clean_name(line)}")
    if powers := seen.find_powers():
        print(f"    It also {', '.join(powers)}.")
    if seen.unread:
        print(f"    Not Python as we know it: {clean_name(', '.join(seen.unread))}")
    print("A plugin runs with all your rights once it is enabled: there are no walls around it.")


def list_registered(plugin: LoadedPlugin, records: PluginRecords) -> dict[str, list[str]]:
    """What a plugin registered, by kind; kinds that it has nothing of are left out."""
    name, key = plugin.manifest.name, plugin.manifest.id
    skills = [facts["bare_name"] for facts in records._plugin_skills.values() if facts["plugin"] == name]
    engine = getattr(records._context_engine, "name", "") if records._engine_owner == key else ""
    found = {
        "tool": plugin.tools_registered,
        "hook": plugin.hooks_registered,
        "middleware": plugin.middleware_registered,
        "command": [f"/{command}" for command in plugin.commands_registered],
        "cli command": [known for known, facts in records._cli_commands.items() if facts["plugin"] == name],
        "context engine": [str(engine)] if engine else [],
        "skill": [f"{name}:{skill}" for skill in skills],
        "auxiliary task": [known for known, facts in records._aux_tasks.items() if facts["plugin"] == name],
    }
    unused = set(plugin.kept)
    for kind, offer in plugin.offers:
        if (kind, name_offer(offer)) not in unused:
            found.setdefault(kind.replace("_", " "), []).append(name_offer(offer))
    return {kind: sorted(set(names)) for kind, names in found.items() if names}


def list_unused(plugin: LoadedPlugin) -> list[str]:
    """What it registered that nobody here uses, and what it announced without registering it."""
    manifest = plugin.manifest
    hooks = {name for name in plugin.hooks_registered if name not in VALID_HOOKS or name in _NEVER_CALLED}
    kinds = set(plugin.middleware_registered) - VALID_MIDDLEWARE
    code = find_code(manifest) if plugin.enabled and manifest.path else None
    seen = look(code) if code is not None else PluginLook()
    lines = [
        *list_refused(plugin),
        *(["timed jobs: kept and not used yet"] if "cron" in seen.imports | seen.may_import else []),
        *(f"{describe_kind(kind, [name])}: kept and not used yet" for kind, name in plugin.kept),
        *(f"hook: {name}: nothing here calls it{_suggest(name)}" for name in sorted(hooks)),
        *(f"middleware: {kind}: nothing here calls it" for kind in sorted(kinds)),
    ]
    if plugin.enabled and plugin.module is not None:
        absent = [f"tool: {name}" for name in manifest.provides_tools if name not in plugin.tools_registered]
        absent += [f"hook: {name}" for name in manifest.provides_hooks if name not in plugin.hooks_registered]
        told = (line for line in absent if line not in plugin.refused)
        lines += [f"{line}: its manifest announces it, and it did not register it" for line in told]
    return lines


def list_to_know(plugin: LoadedPlugin, records: PluginRecords) -> list[str]:
    """What of it is not used, is shared with another plugin, or is written in another form than it should be."""
    return [*list_unused(plugin), *list_clashes(plugin, records), *plugin.manifest.faults]


def list_refused(plugin: LoadedPlugin) -> list[str]:
    """What it wanted to register and did not get."""
    return [f"{what}: refused: {why}" for what, why in plugin.refused.items()]


def _suggest(hook: str) -> str:
    near = [] if hook in VALID_HOOKS else difflib.get_close_matches(hook, sorted(VALID_HOOKS), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def list_notes(plugin: LoadedPlugin, told: list[Note]) -> list[str]:
    """What was said of this plugin while it was loaded, but for what its own error says."""
    known = ("could not be loaded", "registers the unknown hook", *plugin.refused.values())  # said already
    own = [line for key, line in told if key == plugin.manifest.id and not any(words in line for words in known)]
    return [] if plugin.changed else own


def tell_loaded(plugin: LoadedPlugin, records: PluginRecords, told: list[Note]) -> None:
    """Print what a plugin really registered, and what of it is of no use here."""
    registered = list_registered(plugin, records)
    kept = not registered and not plugin.kept
    print(
        "It registered nothing." if kept else "It registered:" if registered else "It registered nothing that is used."
    )
    for kind, names in registered.items():
        print(f"    {describe_kind(kind, names)}")
    for line in (*list_to_know(plugin, records), *list_notes(plugin, told)):
        print(f"    ! {line}")
    for name in registered.get("context engine", ()):
        print(f"To use the context engine: hermes config set context.engine {name}")


# --- states


def name_state(plugin: LoadedPlugin) -> str:
    if plugin.deferred:
        return "when needed"
    if plugin.enabled:
        return "set aside" if plugin.set_aside else "on"
    if plugin.changed:
        return "changed"
    if plugin.error is None:
        return "chosen by its own setting"
    return _STATES.get(plugin.error, "failed")


def find_failure(plugin: LoadedPlugin) -> str:
    """Why it was not loaded although it should have been; empty: it was, or it should not."""
    failed = plugin.error is not None and plugin.error not in _STATES
    return config.redactor()(str(plugin.error)) if failed else ""


def view(plugin: LoadedPlugin, records: PluginRecords) -> dict[str, Any]:
    """A plugin for programs: the five fields that they know, and what became of it."""
    manifest = plugin.manifest
    registered = list_registered(plugin, records)
    return {
        "name": manifest.name,
        "status": "enabled"
        if plugin.enabled or find_failure(plugin)
        else _STATUSES.get(plugin.error or "", "not enabled"),
        "version": manifest.version,
        "description": manifest.description,
        "source": manifest.source,
        "key": manifest.id,
        "kind": manifest.kind,
        "state": name_state(plugin),
        "error": find_failure(plugin) or None,
        "set_aside": plugin.set_aside or None,
        "registered": registered,
        "refused": list_refused(plugin),
        "clashes": list_clashes(plugin, records),
        "manifest_faults": list(manifest.faults),
        "not_used": [line for line in list_unused(plugin) if line not in list_refused(plugin)],
    }
