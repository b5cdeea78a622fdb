"""C8, H6: who wrote what could not be stored is told so: once, in time, and not against the service's patience."""

import asyncio
from collections.abc import Callable

import pytest

from gateway.platforms.face import NeverTaken, NotNow, Part
from gateway.platforms.refusal_notes import LONGEST_PAUSE, RefusalNotes
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import Address

ANN, BOB = Address("toy", "bot", "ann"), Address("toy", "bot", "bob")
FULL, SLOW = "The disk is full.", "The store does not answer."


class Service:
    """Takes notes, or fails as it is told."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[tuple[str, str]] = []
        self.fails: list[Exception | None] = []
        self.notes = RefusalNotes(self._send, lambda: self.now)

    async def _send(self, part: Part) -> str:
        self.calls.append((part.address.chat, part.text))
        problem = self.fails.pop(0) if self.fails else None
        if problem is not None:
            raise problem
        return "1"

    def tell(self, address: Address, text: str = FULL) -> bool:
        return asyncio.run(self.notes.tell(Part(address, text)))

    def insist(self, address: Address, seconds: int) -> bool:
        """As a reception does: once a second until it is settled, at most for this time."""
        for _ in range(seconds):
            if self.tell(address):
                return True
            self.now += 1.0
        return False


def test_a_row_of_refusals_is_told_once_and_anew_after_a_message_was_taken() -> None:
    service = Service()
    assert [service.tell(ANN) for _ in range(3)] == [True] * 3
    assert service.tell(ANN, SLOW)
    assert service.tell(BOB)
    service.notes.note_taken(ANN.chat_key)
    assert service.tell(ANN)
    assert service.calls == [("ann", FULL), ("ann", SLOW), ("bob", FULL), ("ann", FULL)]


def test_nothing_is_sent_while_patience_is_asked_for() -> None:
    service = Service()
    service.fails = [NotNow("Wait.", 30.0)]
    assert service.insist(ANN, 100)
    assert (service.now, len(service.calls)) == (30.0, 2)


def test_the_patience_of_one_chat_is_not_that_of_another_but_for_the_whole_account() -> None:
    service = Service()
    service.fails = [NotNow("Wait.", 30.0)]
    assert not service.tell(ANN)
    assert service.tell(BOB)
    service = Service()
    service.fails = [NotNow("Log in.", 300.0, whole_account=True)]
    assert not service.tell(ANN)
    assert not service.tell(BOB)
    assert len(service.calls) == 1


@pytest.mark.parametrize("make", [lambda: NeverTaken("Gone."), lambda: NotNow("Nobody is there.")])
def test_where_nobody_can_be_told_nobody_waits(make: Callable[[], Exception]) -> None:
    service = Service()
    service.fails = [make()]
    assert service.tell(ANN)
    assert service.tell(ANN)
    assert len(service.calls) == 1


def test_what_may_have_arrived_is_tried_again_ever_less_often() -> None:
    service = Service()
    service.fails = [DeliveryFailure("No answer.") for _ in range(10_000)]
    assert not service.insist(ANN, 3600)
    assert 3600 / LONGEST_PAUSE <= len(service.calls) <= 2 * 3600 / LONGEST_PAUSE + 10
