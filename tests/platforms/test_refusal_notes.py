"""C8, H6: who wrote what could not be stored is told so: once, in time, and not against the service's patience."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway.platforms.face import NeverTaken, NotNow, Part
from gateway.platforms.refusal_notes import LATE_SECONDS, LONGEST_PAUSE, MOST_LATE, TOLD_SECONDS, RefusalNotes
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import Address

ANN, BOB = Address("toy", "bot", "ann"), Address("toy", "bot", "bob")
FULL, SLOW = "The disk is full.", "The store does not answer."


class Service:
    """Takes notes, or fails as it is told. Its time passes when somebody rests."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[tuple[str, str, float]] = []
        self.fails: list[Exception | None] = []
        self.notes = RefusalNotes(self._send, lambda: self.now, self._rest)

    async def _send(self, part: Part) -> str:
        self.calls.append((part.address.chat, part.text, self.now))
        problem = self.fails.pop(0) if self.fails else None
        if problem is not None:
            raise problem
        return "1"

    async def _rest(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.now += seconds

    async def tell(self, address: Address, text: str = FULL) -> bool:
        return await self.notes.tell(Part(address, text))

    async def end_late(self) -> None:
        """Until nothing waits to be told."""
        while self.notes._telling:
            await asyncio.gather(*self.notes._telling)

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(chat, text) for chat, text, _ in self.calls]


def run(steps: Callable[[Service], Awaitable[None]]) -> Service:
    service = Service()

    async def go() -> None:
        await steps(service)

    asyncio.run(go())
    return service


def test_a_row_of_refusals_is_told_once_and_anew_after_a_message_was_taken() -> None:
    async def steps(service: Service) -> None:
        assert [await service.tell(ANN) for _ in range(3)] == [True] * 3
        assert await service.tell(ANN, SLOW)
        assert await service.tell(BOB)
        service.notes.note_taken(ANN.chat_key)
        assert await service.tell(ANN)

    assert run(steps).told == [("ann", FULL), ("ann", SLOW), ("bob", FULL), ("ann", FULL)]


def test_who_goes_on_writing_is_told_again_after_a_while() -> None:
    async def steps(service: Service) -> None:
        for _ in range(3):
            assert await service.tell(ANN)
            service.now += TOLD_SECONDS / 2

    assert run(steps).told == [("ann", FULL)] * 2


def test_a_word_that_one_chat_does_not_take_holds_up_nobody_and_is_told_in_time() -> None:
    """C2, C8: the message is settled at once; its sender hears of it when the patience that was asked for is over."""

    async def steps(service: Service) -> None:
        service.fails = [NotNow("Wait.", 30.0)]
        assert await service.tell(ANN)
        assert await service.tell(ANN)
        assert await service.tell(BOB)
        assert service.told == [("ann", FULL), ("bob", FULL)]
        await service.end_late()

    assert run(steps).calls[2:] == [("ann", FULL, 30.0)]


def test_of_what_one_chat_could_not_be_told_the_last_is_told() -> None:
    async def steps(service: Service) -> None:
        service.fails = [NotNow("Wait.", 30.0)]
        assert await service.tell(ANN)
        assert await service.tell(ANN, SLOW)
        await service.end_late()

    assert run(steps).told == [("ann", FULL), ("ann", SLOW)]


def test_while_the_whole_account_is_closed_nothing_is_sent_and_nothing_settled() -> None:
    async def steps(service: Service) -> None:
        service.fails = [NotNow("Log in.", 300.0, whole_account=True)]
        assert not await service.tell(ANN)
        service.now = 299.0
        assert not await service.tell(BOB)
        assert len(service.calls) == 1
        service.now = 300.0
        assert await service.tell(BOB)

    run(steps)


def test_a_late_word_heeds_the_patience_of_the_whole_account() -> None:
    """C8."""

    async def steps(service: Service) -> None:
        service.fails = [NotNow("Wait.", 30.0), NotNow("Log in.", 300.0, whole_account=True)]
        assert await service.tell(ANN)
        assert not await service.tell(BOB)
        await service.end_late()

    assert run(steps).calls[2:] == [("ann", FULL, 300.0)]


@pytest.mark.parametrize("make", [lambda: NeverTaken("Gone."), lambda: NotNow("Nobody is there.")])
def test_where_nobody_can_be_told_nobody_waits(make: Callable[[], Exception]) -> None:
    async def steps(service: Service) -> None:
        service.fails = [make()]
        assert await service.tell(ANN)
        assert await service.tell(ANN)
        await service.end_late()

    assert len(run(steps).calls) == 1


@pytest.mark.parametrize("make", [lambda: DeliveryFailure("No answer."), lambda: KeyError("of the adapter")])
def test_what_may_have_arrived_is_tried_again_ever_less_often_and_then_no_more(make: Callable[[], Exception]) -> None:
    async def steps(service: Service) -> None:
        service.fails = [make() for _ in range(10_000)]
        assert await service.tell(ANN)
        await service.end_late()

    service = run(steps)
    assert LATE_SECONDS <= service.now <= LATE_SECONDS + LONGEST_PAUSE
    assert LATE_SECONDS / LONGEST_PAUSE <= len(service.calls) <= 2 * LATE_SECONDS / LONGEST_PAUSE + 10


def test_late_words_are_few_and_end_with_the_account() -> None:
    """F1."""

    async def steps(service: Service) -> None:
        service.fails = [NotNow("Wait.", 30.0) for _ in range(2 * MOST_LATE)]
        for number in range(2 * MOST_LATE):
            assert await service.tell(Address("toy", "bot", str(number)))
        assert len(service.notes._telling) == MOST_LATE
        service.notes.close()
        await asyncio.gather(*service.notes._telling, return_exceptions=True)
        assert not service.notes._late

    run(steps)
