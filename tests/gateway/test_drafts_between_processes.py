"""C7: an answer and its draft when the account goes to another process, whatever has become of the draft by then: the
answer stands there once, in the draft's place, or marked as one that may stand there already."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from gateway_process import read_store
from house import House
from hypothesis import given
from hypothesis import strategies as st
from pretending import QUICK, Post, call_off_loop, place
from waiting import until

from gateway.core.drafts import UNFINISHED, Draft, begin_draft, read_place, settle_draft
from gateway.core.text.render import LONG_MARK
from gateway.delivery.accounts import Account
from gateway.delivery.delivery import Delivery
from gateway.platforms.face import Part
from gateway.platforms.pretend.adapter import PretendAdapter
from gateway.platforms.pretend.service import PretendRules
from hermes_lab.server import LabServer
from hermes_state.sql.store_sql import Store
from hermes_state.sql.turns_sql import TurnStore
from hermes_state.turns import NodeInfo

TALK, TURN = "talk", "talk#1"
NEVER, LEAVING, ARRIVED, KNOWN = "never", "leaving", "arrived", "known"
SUSPENDED, HANDED_OVER, KILLED = "suspended", "handed over", "killed"


@pytest.fixture
def turns(tmp_path: Path) -> Iterator[TurnStore]:
    store = Store(tmp_path / "state.db")
    yield store.turns
    store.close()


@dataclass
class SlowLine:
    """Holds up what an adapter sends: before it has arrived, and before its reply is heard."""

    adapter: PretendAdapter
    arrives: asyncio.Event = field(default_factory=asyncio.Event)
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    begun: bool = False
    arrived: bool = False

    def __post_init__(self) -> None:
        send = self.adapter.send

        async def send_slowly(part: Part) -> str:
            self.begun = True
            await self.arrives.wait()
            message = await send(part)
            self.arrived = True
            await self.answers.wait()
            return message

        self.adapter.send = send_slowly  # type: ignore[method-assign]

    async def bring(self, delivery: Delivery, how_far: str) -> None:
        """A draft as far as this."""
        if how_far == NEVER:
            return
        if how_far in (ARRIVED, KNOWN):
            self.arrives.set()
        if how_far == KNOWN:
            self.answers.set()
        delivery.draft(place(), "The ans", TURN)
        done = {
            LEAVING: lambda: self.begun,
            ARRIVED: lambda: self.arrived,
            KNOWN: lambda: delivery.find_draft(place(), TURN).startswith("m"),
        }
        await until(done[how_far])


async def lose(delivery: Delivery, adapter: PretendAdapter, way: str) -> None:
    """The process does not have its account any more."""
    (account,) = delivery._senders.values()
    if way == SUSPENDED:
        account.suspend()
    elif way == KILLED:
        await cut(account)
    else:
        handing = asyncio.create_task(delivery.swap([adapter], ()))
        await asyncio.sleep(0)
        assert not handing.done()


async def cut(account: Account) -> None:
    """As a killed process leaves it: nothing is said to anybody."""
    tasks = [one for one in (account._running, *(chat.task for chat in account.chats.values())) if one]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.parametrize("way", [SUSPENDED, HANDED_OVER, KILLED])
@pytest.mark.parametrize("how_far", [NEVER, LEAVING, ARRIVED, KNOWN])
@pytest.mark.parametrize("stored_first", [True, False])
def test_the_answer_of_another_process_stands_once(
    turns: TurnStore, how_far: str, way: str, stored_first: bool
) -> None:
    """I2, I5: the turn ends before its process loses the account, or while it does; another one sends the answer."""
    if way == KILLED and not stored_first:
        pytest.skip("a turn that was killed stores nothing")
    post = Post(turns, PretendRules(takes_keys=False))

    def store_answer(delivery: Delivery) -> None:
        post.put("The answer.", draft=delivery.close_draft(place(), TURN), turn=TURN)

    async def steps() -> None:
        first = post.new_delivery()
        line = SlowLine(post.adapter)
        await first.start()
        await until(lambda: first.leases()["pretend:bot"] is not None)
        await line.bring(first, how_far)
        if stored_first:
            store_answer(first)
        await lose(first, line.adapter, way)
        if not stored_first:
            store_answer(first)
        first.draft(place(), "The answ", TURN)
        line.arrives.set()  # what is on its way arrives now
        async with post.delivering():
            await until(lambda: post.waits() == 0)
        line.answers.set()
        await first.stop(grace=0.1)

    asyncio.run(steps())
    *drafts, answer = post.service.seen("c1")
    assert "The answer." in answer
    assert all(text.endswith(UNFINISHED) for text in drafts)
    if how_far in (NEVER, KNOWN):
        assert (drafts, answer) == ([], "The answer.")
    else:
        assert answer == f"{LONG_MARK}\nThe answer."


def test_an_answer_finds_what_arrives_while_its_process_gives_the_account_up(turns: TurnStore) -> None:
    """The reply is heard before the answer is stored: the draft has its id, though nobody waits for it any more."""
    post = Post(turns, PretendRules(takes_keys=False))

    async def steps() -> None:
        first = post.new_delivery()
        line = SlowLine(post.adapter)
        await first.start()
        await until(lambda: first.leases()["pretend:bot"] is not None)
        await line.bring(first, ARRIVED)
        first._senders["pretend:bot"].suspend()
        line.answers.set()
        await until(lambda: first.find_draft(place(), TURN).startswith("m"))
        post.put("The answer.", draft=first.close_draft(place(), TURN), turn=TURN)
        async with post.delivering():
            await until(lambda: post.waits() == 0)
        await first.stop(grace=0.1)

    asyncio.run(steps())
    assert post.service.seen("c1") == ["The answer."]


def test_an_answer_that_may_stand_there_is_marked_in_a_draft_that_its_sender_did_not_know(turns: TurnStore) -> None:
    """I2: one process drew it and stood still; another did the turn, and was killed between sending and noting it; then
    the first one has the account again."""
    post = Post(turns, PretendRules(takes_keys=False))

    async def steps() -> None:
        first = post.new_delivery()
        line = SlowLine(post.adapter)
        await first.start()
        await until(lambda: first.leases()["pretend:bot"] is not None)
        await line.bring(first, KNOWN)
        await lose(first, line.adapter, KILLED)
        post.put("The answer.", turn=TURN)
        second = post.new_delivery()
        other_line = SlowLine(post.adapter)
        other_line.arrives.set()
        await second.start()
        await until(lambda: other_line.arrived)
        await lose(second, other_line.adapter, KILLED)
        woken, (account,) = post.new_delivery(), first._senders.values()
        account.left = {chat.key: (place(), chat.drafts) for chat in account.chats.values()}
        next(iter(woken._senders.values())).take_over(account)
        await woken.start()
        await until(lambda: post.waits() == 0)
        await asyncio.gather(*(one.stop(grace=0.1) for one in (first, second, woken)))

    asyncio.run(steps())
    assert sorted(post.service.seen("c1")) == sorted(["The answer.", f"{LONG_MARK}\nThe answer."])


def test_what_is_being_sent_when_an_account_is_handed_over_is_not_cut_off(turns: TurnStore) -> None:
    """I5: the call ends while its line is there; only then others have the account. Nothing is sent again."""
    post = Post(turns, PretendRules(takes_keys=False))
    post.put("The answer.", turn=TURN)

    async def steps() -> None:
        first = post.new_delivery()
        line = SlowLine(post.adapter)
        await first.start()
        await until(lambda: line.begun)
        second = Delivery(turns, [post.new_adapter()], turns.join(NodeInfo("1", alone=False)), call_off_loop, QUICK)
        await second.start()
        await until(lambda: second.is_elsewhere(second._senders["pretend:bot"].adapter))
        resting = asyncio.create_task(first.rest([line.adapter]))
        line.arrives.set()
        await until(lambda: line.arrived)
        assert not resting.done()
        line.answers.set()
        await resting
        assert post.waits() == 0
        assert second.leases()["pretend:bot"] is None
        await first.swap([line.adapter], ())
        await until(lambda: second.leases()["pretend:bot"] is not None)
        await asyncio.gather(first.stop(), second.stop())

    asyncio.run(steps())
    assert post.service.seen("c1") == ["The answer."]


def test_an_account_is_given_up_when_it_is_disconnected(home: Path, lab: LabServer) -> None:
    """I3: at the end of a gateway nobody else hears for its bot while it still does."""
    with House(home, lab.base_url) as house:
        held: list[list[str]] = []
        parts = house.gateway.parts
        adapter = next(one for one in parts.adapters if one.spec.name == "pretend")
        disconnect = adapter.disconnect

        async def look_and_disconnect() -> None:
            held.append([lease.name for lease in await parts.call(parts.store.turns.leases)])
            await disconnect()

        adapter.disconnect = look_and_disconnect  # type: ignore[method-assign]
        ann = house.person("ann")
        ann.ask("[[say hello]]")
        house.stop()
    assert held
    assert "pretend:bot" in held[0]
    assert read_store(home, "select owner from lease where name = 'pretend:bot'") == [(None,)]


# --- the decision, on values


@given(st.data())
def test_whatever_happens_to_a_draft_its_answer_knows_whether_it_may_stand(data: st.DataObject) -> None:
    """What a process knows when it is over (it hears of arrival, of refusal, of neither, or is stopped before) and what
    the next one reads of it: an answer without a mark and without a place is only stored when nothing stands there."""
    draft = Draft(TURN, text="The ans")
    stands = False
    begins = data.draw(st.booleans())
    if begins:
        draft = begin_draft(draft, takes_keys=False)
        stands = data.draw(st.booleans())
        ends = data.draw(
            st.sampled_from(["heard", "refused", "unsure", "stopped"] if stands else ["unsure", "stopped"])
        )
        if ends == "heard":
            draft = settle_draft(draft, "m1")
        elif ends == "refused":
            draft, stands = settle_draft(draft, ""), False
        elif ends == "unsure":
            draft = settle_draft(draft, "", certain=False)
    found = read_place(draft.place, TURN)
    if stands:
        assert found is not None
        assert found.is_lost or found.message == "m1"
    if not begins:
        assert found is None
    assert (found is not None and found.is_lost) == draft.is_lost
