"""A tool's thread that fails ends its round: nobody waits for a result that never comes."""

import pytest

from agent.parallel import run_in_order
from hermes_base.cancel import CancelToken
from hermes_base.errors import Fenced


@pytest.mark.timeout(30)
def test_what_a_thread_of_a_round_raises_reaches_the_turn() -> None:
    """C4, H8: such as a store that is full, or that belongs to another process now."""

    def run(call: int) -> str:
        if call:
            raise Fenced("another process owns it")
        return "done"

    taken: list[str] = []
    with pytest.raises(Fenced, match="another process"):
        run_in_order([0, 1], run, lambda _, result: taken.append(result), CancelToken())
