"""Checks of what others wrote: plugins, context engines, memories, and the servers of MCP."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, cast

from cron.jobs import load_jobs
from hermes_base.errors import ConfigProblem
from hermes_base.settings import Settings
from hermes_cli import config
from hermes_cli.cmds.doctor.finding import FAIL, INFO, OK, WARN, DoctorFinding
from hermes_cli.plugins import plugin_seals, set_aside
from hermes_cli.plugins.plugin_loading import find_code
from hermes_cli.plugins.plugin_sources import find_manifests
from hermes_constants import get_hermes_home
from plugins import context_engine, memory
from tools.mcp import mcp_host
from tools.mcp.mcp_memory import recall
from tools.mcp.mcp_specs import LEVELS, STDIO, find_unfilled, read_servers

PLUGIN_PATIENCE = 60.0
RECENT = 3600.0


def check_plugins(settings: Settings) -> Iterator[DoctorFinding]:
    """Whether the code of enabled plugins is what the owner agreed to (G10); none of it is run."""
    names = set(settings.plugins.enabled)
    manifests = [manifest for manifest in find_manifests() if names & {manifest.id, manifest.name}]
    codes = [(manifest.id, code) for manifest in manifests if (code := find_code(manifest)) is not None]
    changes = [*(plugin_seals.find_change(name, code) for name, code in codes), context_engine.find_change()]
    changes.append(memory.find_change())
    for change in filter(None, changes):
        yield DoctorFinding(WARN, change.what, change.fix)
    for name, why in set_aside.read().items():
        what = f"The running Hermes has set the plugin {name} aside: {why}."
        yield DoctorFinding(WARN, what, f"Look into its log (hermes logs), then: hermes plugins enable {name}")
    if names and not any(changes):
        yield DoctorFinding(OK, "The enabled plugins are as they were enabled.")
    if manifests:
        yield from _try_plugins()
    try:
        jobs = load_jobs()
    except ConfigProblem as problem:
        yield DoctorFinding(WARN, problem.what, problem.fix)
    else:
        if jobs:
            what = f"Timed jobs of plugins: {len(jobs)}, kept and not used yet: nothing here runs them."
            yield DoctorFinding(INFO, what, "Run what they are for by other means.")


def _load_beside() -> list[dict[str, Any]]:
    command = [sys.executable, "-P", "-m", "hermes_cli.main", "plugins", "list", "--enabled", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PLUGIN_PATIENCE)
    return cast("list[dict[str, Any]]", json.loads(done.stdout))


def _try_plugins() -> Iterator[DoctorFinding]:
    """Load the enabled plugins in a process of its own, as the next start would: one that hangs stops nothing here."""
    try:
        plugins = _load_beside()
    except subprocess.TimeoutExpired:
        what = f"The enabled plugins were not loaded after {PLUGIN_PATIENCE:.0f} seconds."
        yield DoctorFinding(FAIL, what, "Disable them one by one (`hermes plugins disable NAME`) until it goes on.")
        return
    except ValueError:
        yield DoctorFinding(FAIL, "The enabled plugins could not be tried.", "`hermes plugins list` says why.")
        return
    for plugin in plugins:
        key = plugin["key"]
        if plugin["state"] == "failed":
            fix = f"`hermes plugins info {key}` shows where; `hermes plugins disable {key}` leaves it out."
            yield DoctorFinding(FAIL, f"The plugin {key} could not be loaded: {plugin['error']}", fix)
        for line in plugin["refused"]:
            fix = "It goes without that. Its author, or another plugin of the same name, is to give way."
            yield DoctorFinding(WARN, f"Of the plugin {key}: {line}.", fix)
        for line in plugin["clashes"]:
            fix = "If you need the other one, disable the plugin whose is used: hermes plugins disable NAME"
            yield DoctorFinding(WARN, f"Of the plugin {key}: {line}.", fix)
        for line in plugin["manifest_faults"]:
            yield DoctorFinding(INFO, f"Of the plugin {key}: {line}.", "It works; its author is to put it right.")
        for line in plugin["not_used"]:
            yield DoctorFinding(INFO, f"Of the plugin {key}: {line}.", "It may be meant for another version.")


def check_mcp(settings: Settings) -> Iterator[DoctorFinding]:
    """The servers of the settings; none of them is started."""
    specs, faults = read_servers(settings.mcp_servers)
    for fault in faults:
        yield DoctorFinding(FAIL if fault.fatal else WARN, config.redactor()(fault.what), "Correct it in the settings.")
    wanted = [spec for spec in specs if spec.enabled]
    if wanted and not mcp_host.is_installed():
        what = f"{len(wanted)} MCP servers are set, but the package that speaks to them is missing."
        yield DoctorFinding(FAIL, what, f"Install it: {mcp_host.INSTALL}")
        return
    for spec in wanted:
        known = recall(get_hermes_home(), spec)
        if unfilled := find_unfilled(spec, config.env_value):
            yield DoctorFinding(FAIL, unfilled.what, unfilled.fix)
        elif spec.transport == STDIO and "/" not in spec.command and not shutil.which(spec.command):
            what = f"The MCP server {spec.name} needs the program {spec.command}, which is not installed."
            yield DoctorFinding(WARN, what, "Install it, or change the command.")
        elif known is None:
            what = f"Nothing is known of the tools of the MCP server {spec.name} yet."
            yield DoctorFinding(INFO, what, f"`hermes mcp test {spec.name}` starts it and tells what is wrong.")
        else:
            yield DoctorFinding(OK, f"The MCP server {spec.name} has {len(known.offered(spec))} tools for the model.")
        if spec.transport == STDIO and spec.level == LEVELS[-1]:
            what = f"The MCP server {spec.name} runs outside of the sandbox, with your own rights."
            yield DoctorFinding(INFO, what, "That is your word; `level: work` puts it behind the walls.")


def check_engine(settings: Settings) -> Iterator[DoctorFinding]:
    """Whether the context engine that the settings name is there; a plugin that may bring it is run beside."""
    missing = context_engine.find_missing()
    if not missing:
        return
    brought = _list_brought_engines() if settings.plugins.enabled else []
    if missing in brought:
        yield DoctorFinding(OK, f"The context engine {missing} comes from a plugin.")
        return
    fix = f" The enabled plugins bring {', '.join(brought)}." if brought else ""
    yield DoctorFinding(WARN, context_engine.MISSING.format(name=missing), context_engine.MISSING_FIX + fix)


def _list_brought_engines() -> list[str]:
    """The context engines that the enabled plugins register, tried beside this process."""
    try:
        return [name for plugin in _load_beside() for name in plugin["registered"].get("context engine", ())]
    except (subprocess.TimeoutExpired, ValueError):  # told by _try_plugins
        return []


def check_memory(settings: Settings) -> Iterator[DoctorFinding]:
    """Whether the memory provider that the settings name can be used; it says so itself, without the network."""
    if settings.memory.provider in memory.NONE:
        return
    choice = memory.select_memory_provider(settings.memory.provider)
    last = memory.read_problem()
    if choice.provider is None:
        yield DoctorFinding(FAIL, choice.problem, choice.fix)
    else:
        yield DoctorFinding(OK, f"The memory provider {settings.memory.provider} is available.")
        if last.get("provider") == settings.memory.provider and time.time() - last["at"] < RECENT:
            yield DoctorFinding(WARN, f"{last['problem']} That was less than an hour ago.", "`hermes memory status`")
