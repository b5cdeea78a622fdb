"""Where the turn of this thread was asked, for plugins that want to know: the interface they are written against."""

from hermes_base.turn.turn_context import current_turn

PLATFORM, CHAT, THREAD = "HERMES_SESSION_PLATFORM", "HERMES_SESSION_CHAT_ID", "HERMES_SESSION_THREAD_ID"


def get_session_env(name: str, default: str = "") -> str:
    """One of the names above, for the turn under way; `default` outside of turns."""
    turn = current_turn.get()
    return turn.env.get(name, default) if turn is not None else default
