"""Slash commands that plugins brought: what is said of them, and how one is run."""

import logging
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from gateway.turns.agent_builder import AgentPlan
from gateway.turns.run_turn import GatewayParts, Job, LiveTurn
from hermes_base.errors import STOPS, HermesError
from hermes_base.plugin_words import name_platform
from hermes_base.turn.tool_context import ToolContext
from hermes_base.turn.turn_context import TurnContext, current_turn
from hermes_cli import config as cli_config
from hermes_cli.config.folder import find_folder
from hermes_cli.plugins import (
    find_command_owner,
    get_plugin_command_handler,
    get_plugin_commands,
    resolve_plugin_command_result,
)
from hermes_constants import get_hermes_home

log = logging.getLogger(__name__)


def describe_commands() -> list[str]:
    """A line for each of them."""
    rows = {
        f"/{name} {facts.get('args_hint') or ''}".strip(): str(facts.get("description") or "")
        for name, facts in sorted(get_plugin_commands().items())
    }
    return [f"{usage} – {summary}".rstrip(" –") for usage, summary in rows.items()]


def run_command(
    parts: GatewayParts, job: Job, live: LiveTurn, make_plan: Callable[[], AgentPlan]
) -> tuple[list[str], str]:
    """What the plugin's function answers, and how it is shown. What it asks of Hermes, it asks for this
    conversation."""
    name, _, args = job.first.inbound.text.strip().removeprefix("/").partition(" ")
    handler, owner = get_plugin_command_handler(name), find_command_owner(name)
    if handler is None:
        return [f"There is no command /{name} any more."], "warning"
    tools = _describe(parts, job, live, make_plan())
    platform = name_platform(job.first.inbound.address.platform)
    context = TurnContext(
        live.cancel,
        tools.session,
        tools.task,
        platform,
        charge=lambda row: parts.store.charge(tools.session, [row]) if tools.session else None,
        asked=job.first.inbound,
        conversation=tools.conversation,
        tools=tools,
    )
    token = current_turn.set(context)
    try:
        answer = resolve_plugin_command_result(handler(args.strip()))
    except (HermesError, *STOPS):
        raise
    except BaseException as problem:  # the boundary to a plugin, which may call `sys.exit()`
        log.exception("the command /%s of %s failed", name, owner)
        what = f"{type(problem).__name__}: {problem}".rstrip(": ")
        return [f"The command /{name} of {owner} failed ({what}). The log has the trace."], "error"
    finally:
        current_turn.reset(token)
    return [str(answer)] if answer else [], "info"


def _describe(parts: GatewayParts, job: Job, live: LiveTurn, plan: AgentPlan) -> ToolContext:
    """What a tool is told that the command runs: whose conversation it is (G12), and that nobody is asked."""
    store, person, key = parts.store, plan.scope.person_id, job.claim.conversation
    current, home = store.current(key), get_hermes_home()
    return ToolContext(
        task=current.task if current else f"command {key}",
        session=current.id if current else "",
        conversation=key,
        folder=plan.choices.folder or str(find_folder()),
        home=home,
        own=Path(home / plan.scope.folder) if plan.scope.folder else None,
        person=person,
        cancel=live.cancel,
        settings=plan.settings,
        redact=cli_config.redactor(),
        search=lambda words, limit: [asdict(hit) for hit in store.search(words, limit=limit, person=person)],
    )
