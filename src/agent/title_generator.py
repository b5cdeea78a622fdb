"""`generate_title`: names a conversation for a plugin, as Hermes names its own."""

from agent import titles
from agent.auxiliary_client import find_runtime
from hermes_base.errors import HermesError
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.turn_context import TurnContext, current_turn
from hermes_cli import config as cli_config


def generate_title(user: str, assistant: str, timeout: float | None = None) -> str | None:
    """A short name by one call of the model for titles; None when there is no usable answer. Inside a turn it is
    charged to the turn's conversation, and ends with it."""
    settings, turn = cli_config.load_last_good(), current_turn.get() or TurnContext(CancelToken())
    try:
        own = find_runtime(settings)
    except HermesError:
        return None
    named = titles.ask_title(settings, own, user, assistant, turn.cancel, timeout or titles.SECONDS)
    for row in named.usage:
        turn.charge(row)
    return named.title or None
