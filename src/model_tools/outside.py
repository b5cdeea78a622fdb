"""What a tool is told when a plugin runs it outside of a turn: the owner's folder and settings, and nobody to ask.

Policy, sandbox and roots hold as in a turn; what would need an approval is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from hermes_base.store_place import find_place, has_store
from hermes_base.turn.tool_context import ToolContext
from hermes_base.turn.turn_context import current_turn
from hermes_cli import config as cli_config
from hermes_cli.config.folder import find_folder
from hermes_constants import get_hermes_home
from hermes_state.sql.store_sql import Store

TASK = "plugin"


def make_context(given: Mapping[str, Any]) -> ToolContext:
    """Inside a turn its own context, so that a plugin has the rights of the turn; outside of one the owner's."""
    turn = current_turn.get()
    if turn is not None and turn.tools is not None:
        return turn.tools
    return ToolContext(
        task=str(given.get("task_id") or TASK),
        session=str(given.get("session_id") or ""),
        folder=str(find_folder()),
        home=get_hermes_home(),
        settings=cli_config.load_last_good(),
        redact=cli_config.redactor(),
        search=search_own,
    )


def search_own(words: str, limit: int) -> Sequence[Mapping[str, Any]]:
    """What was said in the owner's conversations."""
    place = find_place(get_hermes_home())
    if not has_store(place):
        return []
    store = Store.open_readonly(place)
    try:
        return [asdict(hit) for hit in store.search(words, limit=limit, person="")]
    finally:
        store.close()
