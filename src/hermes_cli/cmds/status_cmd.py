"""`hermes status`: how this Hermes is, with or without a running gateway, a readable config or a free store (C13)."""

import argparse
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from agent.auxiliary_client import find_runtime
from gateway.core.usage_report import describe_sum
from hermes_base.errors import ConfigProblem, HermesError, StoreFailure
from hermes_base.settings import Settings
from hermes_base.store_place import describe_place, find_place, has_store
from hermes_cli import config
from hermes_cli.chat.local_client import call_owner
from hermes_cli.cmds.gateway.gateway_cmd import NOBODY, write_status, write_undelivered
from hermes_cli.profiles import get_active_profile_name
from hermes_constants import STORE_FILE, VERSION, get_hermes_home
from hermes_state.damage import describe_damage
from hermes_state.home_lock import holder
from hermes_state.sql.engines.sqlite import was_made
from hermes_state.sql.store_sql import Store
from hermes_state.store import UsageSum
from hermes_state.turns import REFUSED_SHOWN
from tools.mcp.mcp_memory import recall
from tools.mcp.mcp_specs import read_servers
from tools.shell.sandbox import describe_walls

_CALL_SECONDS = 5.0
_SHOWN_CHANGES = 5


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("hermes status", description="Show how this Hermes is.")
    parser.add_argument("--json", action="store_true", help="for programs")
    parsed = parser.parse_args(args)
    status = collect(get_hermes_home())
    if parsed.json:
        print(json.dumps(status, ensure_ascii=False, indent=2))
    else:
        print("\n".join(config.redactor()(line) for line in write_lines(status)))
    return 0


# --- what there is to tell


def collect(home: Path) -> dict[str, Any]:
    """What the running gateway tells; what it does not tell is looked up here."""
    here = {
        "running": False,
        "home": str(home),
        "profile": get_active_profile_name(),
        "version": VERSION,
        "config": {"problem": find_config_problem()},
        "disk_free": measure_free(home),
        "store_set": describe_set(home),
        "mcp": list_servers(home),
        **read_today(home),
    }
    told = ask_gateway(home)
    if "model" not in told:
        try:
            settings = config.load_settings()
            here["model"] = describe_model(settings)
        except ConfigProblem:
            settings = Settings()
            here["model"] = {"problem": "The settings are broken."}
        here["sandbox"], here["walls"] = describe_walls(settings)  # where the model's commands run (G5)
    return {**here, **told}


def ask_gateway(home: Path) -> dict[str, Any]:
    """The gateway's own words; why there are none, when it runs and does not answer."""
    owner = holder(home)
    if owner is None:
        return {}
    known = {"running": True, "pid": owner.pid, "since": owner.since}
    try:
        told = call_owner(home, "status", {}, _CALL_SECONDS)
        return {**known, **({"silent": "it does not listen: it is starting or ending"} if told is None else told)}
    except HermesError as problem:
        return {**known, "silent": str(problem) or "it does not answer"}


def describe_set(home: Path) -> str:
    """Where the settings say that the store is."""
    try:
        return describe_place(find_place(home))
    except ConfigProblem:
        return ""


def find_config_problem() -> str:
    try:
        problems = [problem for problem in config.find_problems() if not problem.warning]
    except ConfigProblem as problem:
        return str(problem)
    return str(problems[0]) if problems else ""


def describe_model(settings: Settings) -> dict[str, Any]:
    """Which model would answer, its window and where both come from (E11)."""
    try:
        runtime = find_runtime(settings)
    except HermesError as problem:
        return {"problem": str(problem)}
    return {
        "model": runtime.model,
        "provider": runtime.provider,
        "label": runtime.label,
        "source": runtime.source,
        "window": runtime.context_length,
        "problem": "",
    }


def list_servers(home: Path) -> list[dict[str, Any]]:
    """The MCP servers that are on, and how many tools each has for the model; None: not known yet."""
    try:
        section = config.load_settings().mcp_servers
    except ConfigProblem:
        return []
    specs = [spec for spec in read_servers(section)[0] if spec.enabled] if section else []
    known = {spec.name: recall(home, spec) for spec in specs}
    counts = {spec.name: len(found.offered(spec)) if (found := known[spec.name]) else None for spec in specs}
    return [{"name": name, "tools": count} for name, count in counts.items()]


def measure_free(home: Path) -> int:
    """Bytes on the disk that the home is on, or will be."""
    existing = next((folder for folder in (home, *home.parents) if folder.exists()), Path("/"))
    return shutil.disk_usage(existing).free


def read_today(home: Path) -> dict[str, Any]:
    """What was used today and what is not delivered, read beside the owner of the store; why not, when it cannot be
    read now."""
    try:
        place = find_place(home)
    except ConfigProblem as problem:
        return {"today": None, "store_problem": str(problem), "warning": ""}
    if not has_store(place) and not was_made(home / STORE_FILE):
        return {"today": asdict(UsageSum()), "store_problem": "", "warning": ""}
    midnight = datetime.now().replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    try:
        with closing(Store.open_readonly(place)) as store:
            warning = describe_damage(store.count_damaged())
            late, refused = store.turns.list_unsent(), store.turns.list_refused(time.time() - REFUSED_SHOWN)
            return {
                "today": asdict(store.usage(since=midnight)),
                "store_problem": "",
                "warning": warning,
                "undelivered": [asdict(chat) for chat in late],
                "refused": [asdict(row) for row in refused],
            }
    except StoreFailure as problem:
        return {"today": None, "store_problem": str(problem), "warning": ""}


# --- in lines


def write_lines(status: Mapping[str, Any], now: float | None = None) -> Iterator[str]:
    now = time.time() if now is None else now
    yield f"Hermes {status['version']}, home {status['home']} (profile {status['profile']})"
    if not status["running"]:
        yield NOBODY.format(home=status["home"])
        yield from write_undelivered(status, now)
    elif "silent" in status:
        yield f"A gateway owns the home (process {status['pid']}), but {status['silent']}."
    else:
        yield from write_status(status, now)
        web, cache = status.get("web") or {}, status.get("cache") or {}
        yield (
            f"Page: {web['address']} (`hermes web` prints a link that lets you in)"
            if web.get("address")
            else "Page: not served"
        )
        builds = _write_reasons("builds", cache.get("builds") or {})
        evictions = _write_reasons("evictions", cache.get("evictions") or {})
        yield f"Warm agents: {cache.get('agents', 0)} ({cache.get('hits', 0)} hits, {builds}, {evictions})"
    model = status["model"]
    if model.get("problem"):
        yield f"Model: none. {model['problem']}"
    else:
        window = f"window {model['window']:,} tokens; {model['source']}"
        yield f"Model: {model['model']} ({model['label']}), {window}"
    yield status.get("walls") or f"Commands run in: {status['sandbox']}."
    if status.get("mcp"):
        counts = ((one["name"], "not known yet" if one["tools"] is None else one["tools"]) for one in status["mcp"])
        yield f"Tools of MCP servers: {', '.join(f'{name} ({count})' for name, count in counts)}"
    store = status.get("store") or status["store_set"]
    later = status["store_set"]
    yield f"Store: {store or 'not known'}" + (f" (from the next start on: {later})" if later not in ("", store) else "")
    if status["today"] is None:
        yield f"Today: the store cannot be read now. {status['store_problem']}"
    else:
        yield f"Today: {describe_sum(UsageSum(**status['today']))}"
    if status["config"]["problem"]:
        yield f"Settings: an edit is not used. {status['config']['problem']}"
    for change in (status["config"].get("changes") or [])[-_SHOWN_CHANGES:]:
        at = time.strftime("%H:%M:%S", time.localtime(change["at"]))
        yield f"Settings: {change['key']} changed at {at}, takes effect {change['takes_effect']}"
    yield f"Free on the disk: {status['disk_free'] / 1e9:.1f} GB"
    yield from (f"Store: {said}" for said in (status.get("trouble"), status["warning"]) if said)


def _write_reasons(word: str, counts: Mapping[str, int]) -> str:
    named = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
    return f"{sum(counts.values())} {word}: {named}" if counts else f"no {word}"
