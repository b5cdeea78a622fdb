"""What a tool asks to learn whether its turn was told to stop."""

from hermes_base.turn.turn_context import current_turn


def is_interrupted() -> bool:
    """True once the turn that this thread works for was stopped; False outside of any turn."""
    turn = current_turn.get()
    return turn is not None and turn.cancel.cancelled
