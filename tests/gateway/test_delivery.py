"""From the outbox to the chat: in order, once, within the budget, through every kind of trouble."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fresh_store import fresh_store
from hypothesis import given, settings
from hypothesis import strategies as st
from pretending import QUICK, HeardCore, Post, call_off_loop, place
from waiting import until

from gateway.core.delivery_rules import FileTries, GiveUp, Pace, SendAgain, judge, pause_after
from gateway.core.text.render import LONG_MARK
from gateway.platforms.face import NeverTaken, NotNow, Part
from gateway.platforms.pretend.adapter import PretendAdapter
from gateway.platforms.pretend.service import BAD_MARKUP, CLOSED_AFTER, CLOSED_BEFORE, REFUSED, PretendRules
from hermes_base.errors import DeliveryFailure, Fenced, StoreFailure
from hermes_base.inbound import FAILED, FILE, NOTE, QUESTION, SENT, FileRef, Outgoing
from hermes_state.sql.engines.engine import Sql
from hermes_state.sql.ownership import CLOCK
from hermes_state.sql.statements import SET_META
from hermes_state.sql.store_sql import Store
from hermes_state.sql.turns_sql import TurnStore
from hermes_state.turns import NodeInfo


@pytest.fixture
def turns(tmp_path: Path) -> Iterator[TurnStore]:
    store = Store(tmp_path / "state.db")
    yield store.turns
    store.close()


def run(steps: Coroutine[Any, Any, None]) -> None:
    asyncio.run(steps)


def test_stored_messages_arrive_in_order(turns: TurnStore) -> None:
    """C9: what waits in the outbox at the start is delivered, each chat in its order."""
    post = Post(turns)
    for n in range(5):
        post.put(f"one {n}", "c1")
        post.put(f"two {n}", "c2")

    async def steps() -> None:
        async with post.delivering():
            await until(lambda: post.waits() == 0)

    run(steps())
    assert post.service.seen("c1") == [f"one {n}" for n in range(5)]
    assert post.service.seen("c2") == [f"two {n}" for n in range(5)]


def test_a_penalty_and_what_waits_in_it_outlive_the_process(turns: TurnStore) -> None:
    """C8, C9: a process that is made anew sends nothing before the time is over, not the draft of a newer turn either;
    then all comes in order."""
    post = Post(turns, PretendRules(takes_keys=False))

    async def die() -> None:
        async with post.delivering():
            post.service.punish(4)
            post.put("first")
            await until(lambda: len(post.service.calls) > 0)
            await until(lambda: bool(turns.penalties("pretend:bot")))

    async def live_on() -> None:
        async with post.delivering() as delivery:
            await until(lambda: delivery.leases()["pretend:bot"] is not None)
            delivery.draft(place(), "sec", "talk#2")
            post.put("second", turn="talk#2")
            delivery.wake(place())
            await until(lambda: post.waits() == 0)

    run(die())
    refused = len(post.service.calls)
    run(live_on())
    assert [call.status for call in list(post.service.calls)[refused:] if call.status == 429] == []
    assert post.service.seen("c1") == ["first", "second"]


def test_what_waits_for_its_time_does_not_wait_for_a_clock_that_was_set_back(turns: TurnStore) -> None:
    """C9: the chat was looked at just after the clock was set, before the store had moved what waits along."""
    post = Post(turns)
    post.put("first")
    node = turns.join(NodeInfo("1", alone=True))
    epoch = turns.hold("pretend:bot", node, 30.0)
    row = turns.outbox_take("pretend:bot", "c1", epoch or 0)
    assert row is not None
    turns.outbox_back(row.id, epoch or 0, turns.now() + 3600.0, certain=True)
    post.put("second")

    async def steps() -> None:
        async with post.delivering() as delivery:
            await until(lambda: any(chat.is_parked for chat in delivery._senders["pretend:bot"].chats.values()))
            assert post.service.seen("c1") == []
            turns._db.run(Sql(SET_META, (CLOCK, repr(turns.now() + 3600.0))))
            turns.heartbeat(node)
            await until(lambda: post.waits() == 0)

    run(steps())
    assert post.service.seen("c1") == ["first", "second"]


def test_an_answer_below_a_draft_that_may_stand_there_is_marked(turns: TurnStore) -> None:
    """C7: the line broke off while the draft was sent, and no key tells whether it arrived."""
    post = Post(turns, PretendRules(takes_keys=False))

    async def steps() -> None:
        async with post.delivering() as delivery:
            await until(lambda: delivery.leases()["pretend:bot"] is not None)
            post.service.troubles.append(CLOSED_AFTER)
            delivery.draft(place(), "The ans", "talk#1")
            await until(lambda: bool(post.service.seen("c1")))
            post.put("The answer.", turn="talk#1")
            delivery.wake(place())
            await until(lambda: post.waits() == 0)

    run(steps())
    assert post.service.seen("c1")[1:] == [f"{LONG_MARK}\nThe answer."]


def test_a_fresh_message_is_sent_when_woken(turns: TurnStore) -> None:
    post = Post(turns)

    async def steps() -> None:
        async with post.delivering(replace(QUICK, poll=60.0)) as delivery:
            await until(lambda: delivery.leases()["pretend:bot"] is not None)
            post.put("hello")
            await asyncio.to_thread(delivery.wake, place())
            await until(lambda: post.waits() == 0)
            await until(lambda: delivery.counts["sent"] == 1)
            await until(lambda: delivery.at_work() == 0)

    run(steps())
    assert post.service.seen("c1") == ["hello"]


def test_a_long_message_goes_in_parts(turns: TurnStore) -> None:
    post = Post(turns, PretendRules(max_length=100, length_unit="utf16"))
    post.put("word 🙂 " * 100)

    async def steps() -> None:
        async with post.delivering():
            await until(lambda: post.waits() == 0)

    run(steps())
    assert "".join(post.service.seen("c1")).split() == ["word", "🙂"] * 100
    (row,) = turns.outbox_since(place().conversation("default"), 0)
    assert row.platform_ids == tuple(message.id for message in post.service.messages)


@pytest.mark.parametrize("takes_keys", [True, False])
def test_a_connection_that_closes_after_taking_the_message(turns: TurnStore, takes_keys: bool) -> None:
    """C7: with keys it shows once; without, the repetition says that it is one."""
    post = Post(turns, PretendRules(takes_keys=takes_keys))
    post.service.troubles.append(CLOSED_AFTER)
    post.put("hello")

    async def steps() -> None:
        async with post.delivering() as delivery:
            await until(lambda: post.waits() == 0)
            await until(lambda: delivery.counts["again"] == 1)

    run(steps())
    assert post.service.seen("c1") == ["hello"] + ([] if takes_keys else [f"{LONG_MARK}\nhello"])


def test_only_the_doubtful_part_is_marked(turns: TurnStore) -> None:
    """C7: parts that are known to have arrived are not sent again, later ones carry no mark."""
    post = Post(turns, PretendRules(takes_keys=False, max_length=200))
    post.service.troubles.extend(["", CLOSED_BEFORE])
    post.put("word " * 100)

    async def steps() -> None:
        async with post.delivering():
            await until(lambda: post.waits() == 0)

    run(steps())
    texts = post.service.seen("c1")
    assert [text.startswith(LONG_MARK) for text in texts] == [n == 1 for n in range(len(texts))]
    assert "".join(texts).replace(LONG_MARK, "").split() == ["word"] * 100


def test_a_platform_that_closes_each_connection_loses_nothing(turns: TurnStore) -> None:
    """C9: no number of failures drops a message, and the later ones wait behind it."""
    post = Post(turns)
    post.service.always = CLOSED_BEFORE
    for n in range(3):
        post.put(f"{n}")

    async def steps() -> None:
        async with post.delivering():
            await until(lambda: len(post.service.calls) >= 6)
            assert post.service.seen("c1") == []
            post.service.always = ""
            await until(lambda: post.waits() == 0)

    run(steps())
    assert post.service.seen("c1") == ["0", "1", "2"]


def test_nothing_is_sent_during_a_penalty(turns: TurnStore) -> None:
    """C8: one refused call, then silence until the time that the platform named, also by a new process."""
    post = Post(turns)
    post.service.punish(0.6)
    end = post.service.penalty_until
    post.put("hello")

    async def steps() -> None:
        async with post.delivering() as delivery:
            await until(lambda: delivery.counts["waiting"] == 1)
            delivery.typing(place(), "t")
            delivery.draft(place(), "text", "t")
            delivery.wake(place())
            await asyncio.sleep(0.2)
        async with post.delivering():
            await until(lambda: post.waits() == 0)

    run(steps())
    assert post.service.seen("c1") == ["hello"]
    refused = [call for call in post.service.calls if call.at < end]
    assert len(refused) == 1


def test_a_penalty_that_only_a_sign_has_met_is_told_once(turns: TurnStore, caplog: pytest.LogCaptureFixture) -> None:
    """C8: no message was refused that would tell of it, and for an hour nothing will be sent."""
    post = Post(turns, PretendRules(has_receipts=True))
    post.service.punish(3600)

    async def steps() -> None:
        async with post.delivering() as delivery:
            await until(lambda: delivery.leases()["pretend:bot"] is not None)
            assert delivery.waits() == {}
            delivery.typing(place(), "t")
            delivery.acknowledge(place(), "m1")
            delivery.acknowledge(place(), "m2")
            await until(lambda: bool(delivery.waits()))
            (wait,) = delivery.waits()["pretend:bot"]
            assert 3500 < wait.until - time.time() <= 3600
            assert (wait.chat, "asks for patience" in wait.reason) == (place().chat, True)
            await delivery.tell(place(), "a word")

    run(steps())
    told = [record.getMessage() for record in caplog.records if "Nothing is sent" in record.getMessage()]
    assert len(told) == 1
    assert "pretend:bot" in told[0]
    assert "asks for patience" in told[0]


def test_the_budget_of_the_platform_is_kept(turns: TurnStore) -> None:
    """C8: drafts, typing, notes and answers together never make the service refuse a call."""
    post = Post(turns, PretendRules(calls_per_second=20, burst_calls=3))

    async def steps() -> None:
        async with post.delivering() as delivery:
            for n in range(60):
                delivery.draft(place(), "text " * n, "t")
                if n % 6 == 0:
                    post.put(f"note {n}", kind=NOTE)
                    delivery.wake(place())
                await asyncio.sleep(0.02)
            draft = delivery.find_draft(place(), "t")
            post.put("final", draft=draft, turn="t")
            delivery.wake(place())
            await until(lambda: post.waits() == 0)

    run(steps())
    assert {call.status for call in post.service.calls} == {200}
    assert {call.kind for call in post.service.calls} == {"send", "edit", "typing"}
    assert post.service.seen("c1").count("final") == 1


def test_nothing_is_drafted_after_an_answer_was_stored(turns: TurnStore) -> None:
    """C7: a process after a kill would not know of what is drafted then, and send the answer beside it; and what stands
    there as an answer does not become a draft again."""
    post = Post(turns)

    async def steps() -> None:
        async with post.delivering() as delivery:
            assert delivery.close_draft(place(), "t1") == ""
            delivery.draft(place(), "The answer", "t1")
            assert delivery.find_draft(place(), "t1") == ""
            delivery.draft(place(), "Anoth", "t2")
            assert delivery.close_draft(place(), "t2") == ""  # it was not begun, and is not from here on
            post.put("The answer.", turn="t1")
            post.put("Another answer.", turn="t2")
            delivery.wake(place())
            await until(lambda: post.waits() == 0)
            for late in ("Anoth", "Another answ"):
                delivery.draft(place(), late, "t2")
                await asyncio.sleep(0.05)

    run(steps())
    assert post.service.seen("c1") == ["The answer.", "Another answer."]
    assert [call.kind for call in post.service.calls if call.kind == "edit"] == []


@pytest.mark.parametrize("known", [True, False])
def test_the_answer_takes_the_place_of_its_draft(turns: TurnStore, known: bool) -> None:
    """C7: one message, whether the turn noted the draft's id or delivery still knows it."""
    post = Post(turns)

    async def steps() -> None:
        async with post.delivering() as delivery:
            delivery.progress(place(), "⚙ terminal", "t1")
            delivery.draft(place(), "The ans", "t1")
            await until(lambda: post.service.seen("c1") == ["The ans\n\n⚙ terminal …"])
            draft = delivery.find_draft(place(), "t1") if known else ""
            assert bool(draft) == known
            post.put("The answer.", draft=draft, turn="t1")
            delivery.wake(place())
            await until(lambda: post.waits() == 0)

    run(steps())
    assert post.service.seen("c1") == ["The answer."]


def test_a_draft_on_its_way_when_the_next_turn_begins_gets_its_answer(turns: TurnStore) -> None:
    """C7: the call that sends a draft lasts longer than its turn; the answer still takes its place."""
    post = Post(turns, PretendRules(takes_keys=False))

    async def steps() -> None:
        async with post.delivering() as delivery:
            await until(lambda: delivery.leases()["pretend:bot"] is not None)
            sent, answered, send = asyncio.Event(), asyncio.Event(), post.adapter.send

            async def send_slowly(part: Part) -> str:
                message = await send(part)
                sent.set()
                await answered.wait()
                return message

            post.adapter.send = send_slowly  # type: ignore[method-assign]
            delivery.draft(place(), "The ans", "talk#1")
            await sent.wait()
            post.put("The answer.", draft=delivery.find_draft(place(), "talk#1"), turn="talk#1")
            delivery.wake(place())
            delivery.draft(place(), "Anoth", "talk#2")
            answered.set()
            await until(lambda: post.waits() == 0)
            post.put("Another answer.", draft=delivery.find_draft(place(), "talk#2"), turn="talk#2")
            delivery.wake(place())
            await until(lambda: post.waits() == 0)
            await until(lambda: delivery.at_work() == 0)

    run(steps())
    assert post.service.seen("c1") == ["The answer.", "Another answer."]


def test_an_answer_finds_its_draft_when_the_account_was_made_anew(turns: TurnStore) -> None:
    """C7: its settings changed in mid-turn; the draft goes on in its message, and the answer takes its place."""
    post = Post(turns, PretendRules(takes_keys=False))

    async def steps() -> None:
        async with post.delivering() as delivery:
            await until(lambda: delivery.leases()["pretend:bot"] is not None)
            for turn in ("talk#1", "talk#2"):
                delivery.draft(place(), "The ans", turn)
                await until(lambda turn=turn: delivery.find_draft(place(), turn).startswith("m"))
                gone, post.adapter = post.adapter, post.new_adapter()
                await delivery.swap([gone], [])
                is_off = turn == "talk#2"  # the turn ends before it is switched on again
                if is_off:
                    post.put("The answer.", draft=delivery.find_draft(place(), turn), turn=turn)
                await gone.disconnect()
                await delivery.swap([], [post.adapter])
                await post.adapter.connect(HeardCore(delivery))
                delivery.begin(post.adapter)
                if not is_off:
                    delivery.draft(place(), "The answ", turn)
                    await until(lambda: any("answ" in text for text in post.service.seen("c1")))
                    post.put("The answer.", turn=turn)
                delivery.wake(place())
                await until(lambda: post.waits() == 0)
            await until(lambda: delivery.at_work() == 0)

    run(steps())
    assert post.service.seen("c1") == ["The answer.", "The answer."]


def test_drafts_of_turns_that_never_answer_are_forgotten(turns: TurnStore) -> None:
    """C7: with the answer of a later turn of their conversation; another conversation of the chat keeps its own."""
    post = Post(turns, PretendRules(takes_keys=False))

    async def steps() -> None:
        async with post.delivering() as delivery:
            await until(lambda: delivery.leases()["pretend:bot"] is not None)
            delivery.draft(place(), "Other", "other#1")
            for number in range(1, 100):
                delivery.draft(place(), f"Text {number}", f"talk#{number}")
            account = delivery._senders["pretend:bot"]
            assert "talk#1" not in account.find_drafts("c1")
            delivery.draft(place(), "Other", "other#1")
            delivery.draft(place(), "Last", "talk#100")
            post.put("The answer.", turn="talk#100")
            delivery.wake(place())
            await until(lambda: post.waits() == 0)
            await until(lambda: set(account.find_drafts("c1")) == {"other#1"})
            await until(lambda: bool(delivery.find_draft(place(), "other#1")))

    run(steps())


def test_a_draft_that_was_deleted_is_no_obstacle(turns: TurnStore) -> None:
    post = Post(turns)
    post.put("The answer.", draft="gone")

    async def steps() -> None:
        async with post.delivering():
            await until(lambda: post.waits() == 0)

    run(steps())
    assert post.service.seen("c1") == ["The answer."]


def test_a_refused_message_is_kept_with_its_reason_and_the_next_one_goes(turns: TurnStore) -> None:
    """C2: what a platform never takes ends with a reason; it does not hold up the chat."""
    post = Post(turns)
    post.service.troubles.append(REFUSED)
    post.put("bad")
    post.put("good")

    async def steps() -> None:
        async with post.delivering() as delivery:
            await until(lambda: (delivery.counts["failed"], delivery.counts["sent"]) == (1, 2))

    run(steps())
    good, told = post.service.seen("c1")
    assert good == "good"
    kept = "It is kept; `hermes doctor` names it."
    assert told == f"Something that belongs here could not be shown: The service refused: refused. {kept}"
    rows = turns.outbox_since(place().conversation("default"), 0)
    assert [row.state for row in rows] == [FAILED, SENT, SENT]
    (refused,) = turns.list_refused(0.0)
    assert (refused.account, refused.chat, refused.reason) == ("pretend:bot", "c1", "The service refused: refused.")


def test_a_message_that_did_not_arrive_after_all_waits_for_its_person(turns: TurnStore) -> None:
    """C9: some platforms take a message and tell later that nobody got it. It keeps its place before newer ones."""
    post = Post(turns, PretendRules(takes_keys=False))
    post.put("hello")

    async def steps() -> None:
        async with post.delivering() as delivery:
            await until(lambda: post.waits() == 0)
            (row,) = turns.outbox_since(place().conversation("default"), 0)
            core = HeardCore(delivery)
            assert await core.take_back(place(), row.platform_ids[0], NotNow("They are away."))
            await until(lambda: post.waits() == 0)
            assert not await core.take_back(place(), row.platform_ids[0], NotNow("They are away."))
            assert not await core.take_back(place("c2"), row.platform_ids[0], NotNow("They are away."))

    run(steps())
    assert post.service.seen("c1") == ["hello", "hello"]  # the service showed the first one all the same


def test_a_message_that_never_arrives_is_kept_and_told_of(turns: TurnStore) -> None:
    """C2: also when that is told later."""
    post = Post(turns)
    post.put("hello")

    async def steps() -> None:
        async with post.delivering() as delivery:
            await until(lambda: post.waits() == 0)
            (row,) = turns.outbox_since(place().conversation("default"), 0)
            assert await HeardCore(delivery).take_back(place(), row.platform_ids[0], NeverTaken("It is too loud."))
            await until(lambda: len(post.service.seen("c1")) == 2)
            assert delivery.counts["failed"] == 1

    run(steps())
    assert "It is too loud." in post.service.seen("c1")[-1]
    (refused,) = turns.list_refused(0.0)
    assert refused.reason == "It is too loud."


def test_a_refusal_in_a_thread_that_is_gone_is_told_beside_it(turns: TurnStore) -> None:
    """C2: somebody hears of what is missing."""
    post, there = Post(turns), place(thread="t9")
    assert turns.post(there.conversation("default"), "lost", Outgoing(there, "lost"))

    async def steps() -> None:
        async with post.delivering():
            send = post.adapter.send

            async def send_beside(part: Part) -> str:
                if part.address.thread:
                    raise NeverTaken("The thread is gone.")
                return await send(part)

            post.adapter.send = send_beside  # type: ignore[method-assign]
            await until(lambda: bool(post.service.messages))
            await until(lambda: post.waits() == 0)

    run(steps())
    kept = "It is kept; `hermes doctor` names it."
    assert post.service.seen("c1") == [f"Something that belongs here could not be shown: The thread is gone. {kept}"]


def test_where_nothing_is_taken_a_refusal_is_no_chain(turns: TurnStore) -> None:
    """C2: the word on a refused message is refused, too, and that is the end of it."""
    post = Post(turns)
    post.service.always = REFUSED
    post.put("bad")

    async def steps() -> None:
        async with post.delivering():
            await until(lambda: post.waits() == 0)
            await asyncio.sleep(4 * QUICK.poll)

    run(steps())
    assert len(turns.list_refused(0.0)) == 2
    assert len(post.service.calls) == 2


def test_markup_that_is_refused_goes_as_plain_text(turns: TurnStore) -> None:
    post = Post(turns)
    post.service.troubles.append(BAD_MARKUP)
    post.put("**bold** word")

    async def steps() -> None:
        async with post.delivering():
            await until(lambda: post.waits() == 0)

    run(steps())
    assert post.service.seen("c1") == ["bold word"]


def test_a_draft_whose_markup_is_refused_goes_on_as_plain_text(turns: TurnStore) -> None:
    """C7: it stays one message, and its answer is written in the app's markup again."""
    post = Post(turns, PretendRules(markup="telegram_html"))
    post.service.troubles.append(BAD_MARKUP)

    async def steps() -> None:
        async with post.delivering() as delivery:
            await until(lambda: delivery.leases()["pretend:bot"] is not None)
            delivery.draft(place(), "**bold** <", "t")
            await until(lambda: post.service.seen("c1") == ["bold < …"])
            delivery.draft(place(), "**bold** < & more", "t")
            await until(lambda: post.service.seen("c1") == ["bold < & more …"])
            post.put("**bold** < & more.", turn="t")
            delivery.wake(place())
            await until(lambda: post.waits() == 0)

    run(steps())
    assert post.service.seen("c1") == ["<b>bold</b> &lt; &amp; more."]


@pytest.mark.parametrize("whole", [True, False])
def test_a_penalty_that_a_draft_met_holds_for_its_answer(turns: TurnStore, whole: bool) -> None:
    """C8: nothing goes to the chat, or the account, while it lasts; then the answer comes by itself."""
    post = Post(turns)

    async def steps() -> None:
        async with post.delivering(replace(QUICK, poll=60.0)) as delivery:
            await until(lambda: delivery.leases()["pretend:bot"] is not None)
            send, met = post.adapter.send, []

            async def punish(part: Part) -> str:
                if not met:
                    met.append(time.monotonic())
                    raise NotNow("Later.", 0.4, whole_account=whole)
                return await send(part)

            post.adapter.send = punish  # type: ignore[method-assign]
            delivery.draft(place(), "half", "t")
            await until(lambda: bool(met))
            post.put("whole", turn="t")
            post.put("other", "c2")
            delivery.wake(place())
            delivery.wake(place("c2"))
            await until(lambda: post.waits() == 0)
            late = [call.chat for call in post.service.calls if call.at < met[0] + 0.4 and call.chat == "c1"]
            assert late == []
            others = [call.at for call in post.service.calls if call.chat == "c2"]
            assert not whole or min(others) >= met[0] + 0.4

    run(steps())
    assert post.service.seen("c1") == ["whole"]


def test_questions_and_files_go_as_the_platform_can(turns: TurnStore) -> None:
    post = Post(turns)
    post.put("Run it?", kind=QUESTION, question="q1", choices=("yes", "no"))
    post.put("the plan", kind=FILE, file=FileRef("/x/plan.pdf", "plan.pdf"))

    async def steps() -> None:
        async with post.delivering():
            await until(lambda: post.waits() == 0)

    run(steps())
    asked, sent = post.service.messages
    assert (asked.question, asked.choices) == ("q1", ("yes", "no"))
    assert (sent.file, sent.text) == ("plan.pdf", "the plan")


def test_a_large_file_has_the_time_that_it_takes(turns: TurnStore) -> None:
    """C7: an upload that is slow is no failure; sent again it might stand there twice."""
    post = Post(turns, PretendRules(latency=0.5, takes_keys=False))
    post.put("the film", kind=FILE, file=FileRef("/x/film.mkv", "film.mkv", size=5_000_000))

    async def steps() -> None:
        async with post.delivering(replace(QUICK, call=0.1)) as delivery:
            await until(lambda: post.waits() == 0)
            assert delivery.counts["again"] == 0

    run(steps())
    assert post.service.seen("c1") == ["the film"]


def test_a_file_that_waits_for_its_place_loses_no_time(turns: TurnStore, tmp_path: Path) -> None:
    """C7: two files of an account go at once, and the others wait; each arrives once, however long that takes."""
    post = Post(turns, PretendRules(takes_keys=False))
    (tmp_path / "f.txt").write_text("hello")
    chats = [f"c{number}" for number in range(5)]
    for chat in chats:
        post.put("", chat, kind=FILE, file=FileRef(str(tmp_path / "f.txt"), "f.txt"))

    async def steps() -> None:
        pace = replace(QUICK, call=2.0)
        async with post.delivering(pace) as delivery:
            under_way, most, send_file = 0, 0, post.adapter.send_file

            async def send_slowly(part: Part, file: FileRef) -> str:
                nonlocal under_way, most
                under_way += 1
                most = max(most, under_way)
                try:
                    await asyncio.sleep(1.2)
                    return await send_file(part, file)
                finally:
                    under_way -= 1

            post.adapter.send_file = send_slowly  # type: ignore[method-assign]
            await until(lambda: post.waits() == 0)
            assert (most, delivery.counts["again"]) == (pace.uploads, 0)

    run(steps())
    assert sorted(message.chat for message in post.service.messages) == chats


PATIENT = replace(QUICK, file_tries=3, file_patience=0.3)


class StuckFiles:
    """An app that takes messages, and no file."""

    def __init__(self, post: Post, failure: Callable[[], Exception]) -> None:
        self.tries = 0
        self._failure = failure
        post.adapter.send_file = self._send_file  # type: ignore[method-assign]

    async def _send_file(self, part: Part, file: FileRef) -> str:
        self.tries += 1
        raise self._failure()


@pytest.mark.parametrize(
    "failure", [lambda: NotNow("Nobody answers there.", 0.1), lambda: DeliveryFailure("Nobody answers there.")]
)
def test_a_file_that_is_not_taken_for_long_goes_without_and_holds_up_nobody(
    turns: TurnStore, tmp_path: Path, failure: Callable[[], Exception]
) -> None:
    """C9: the chat hears in the place of the file that it could not be sent, and what comes after it arrives; the file
    is kept, and whoever looks after Hermes is told where."""
    post, path = Post(turns, PretendRules(takes_keys=True)), tmp_path / "plan.pdf"
    path.write_text("the plan")
    post.put("Here it is.", kind=FILE, file=FileRef(str(path), "plan.pdf", size=8))
    post.put("the next answer")

    async def steps() -> None:
        async with post.delivering(PATIENT) as delivery:
            files = StuckFiles(post, failure)
            await until(lambda: (delivery.counts["failed"], delivery.counts["sent"]) == (1, 1))
            assert files.tries >= PATIENT.file_tries
            assert post.waits() == 0

    run(steps())
    word = "The file plan.pdf could not be sent: Nobody answers there. It is kept; `hermes doctor` says where."
    assert post.service.seen("c1") == ["Here it is.", word, "the next answer"]
    (refused,) = turns.list_refused(0.0)
    assert refused.reason.endswith(f"It is kept: {path}")
    assert path.exists()


def test_the_word_stands_behind_what_went_ahead_of_the_file(turns: TurnStore) -> None:
    """A long caption goes ahead; nothing of it comes again, and the word is not lost."""
    post = Post(turns, PretendRules(max_length=200))
    words = [f"word{number}" for number in range(100)]
    post.put(" ".join(words), kind=FILE, file=FileRef("/x/plan.pdf", "plan.pdf", size=8))

    async def steps() -> None:
        async with post.delivering():
            StuckFiles(post, lambda: NeverTaken("No such files here."))
            await until(lambda: post.waits() == 0)

    run(steps())
    *said, told = post.service.seen("c1")
    assert " ".join(said).split() == words
    assert told.startswith("The file plan.pdf could not be sent: No such files here.")


def test_a_file_that_is_refused_has_a_word_in_its_place_at_once(turns: TurnStore) -> None:
    post = Post(turns)
    post.put("Here it is.", kind=FILE, file=FileRef("/x/plan.pdf", "plan.pdf", size=8))
    post.put("the next answer")

    async def steps() -> None:
        async with post.delivering():
            files = StuckFiles(post, lambda: NeverTaken("No such files here."))
            await until(lambda: post.waits() == 0)
            assert files.tries == 1

    run(steps())
    word = "The file plan.pdf could not be sent: No such files here. It is kept; `hermes doctor` says where."
    assert post.service.seen("c1") == ["Here it is.", word, "the next answer"]


@pytest.mark.parametrize("failure", [lambda: NotNow("Nobody answers there.", 0.1), lambda: NeverTaken("No files.")])
def test_an_answer_that_was_to_be_a_file_is_said_when_the_file_is_not_taken(
    turns: TurnStore, failure: Callable[[], Exception]
) -> None:
    """C9: nothing of it is lost, however many messages it is."""
    post = Post(turns, PretendRules(max_length=100, most_parts=2))
    words = [f"word{number}" for number in range(100)]
    post.put(" ".join(words))
    post.put("the next answer")

    async def steps() -> None:
        async with post.delivering(PATIENT):
            StuckFiles(post, failure)
            await until(lambda: post.waits() == 0)

    run(steps())
    *said, after = post.service.seen("c1")
    assert " ".join(said).split() == words
    assert after == "the next answer"
    assert not turns.list_refused(0.0)


@pytest.mark.parametrize(
    "failure", [lambda: NotNow("Nobody answers.", 0.05, whole_account=True), lambda: DeliveryFailure("Nobody answers.")]
)
def test_while_the_app_itself_is_away_its_files_wait(turns: TurnStore, failure: Callable[[], Exception]) -> None:
    """C9: a network that is down is no reason to leave a file out."""
    post = Post(turns)
    post.put("", kind=FILE, file=FileRef("/x/plan.pdf", "plan.pdf", size=8))

    async def steps() -> None:
        async with post.delivering(replace(PATIENT, file_patience=0.0)):
            send, files = post.adapter.send_file, StuckFiles(post, failure)
            post.adapter.last_seen = time.time() - 120
            await until(lambda: files.tries > 5)
            post.adapter.send_file = send  # type: ignore[method-assign]
            await until(lambda: post.waits() == 0)

    run(steps())
    assert [message.file for message in post.service.messages] == ["plan.pdf"]


def test_when_a_file_is_left_out() -> None:
    pace, failure = Pace(file_tries=3, file_patience=600.0), NotNow("Nobody answers there.", 30.0)
    tries = FileTries()
    for now in range(0, 600, 30):
        tries = tries.note_failure(7, failure, float(now), pace)
        assert not tries.why_without(7)
    for patient in (NotNow("Away."), NotNow("Down.", 3.0, whole_account=True)):
        assert tries.note_failure(7, patient, 6000.0, pace) == tries
    assert not tries.note_failure(8, failure, 600.0, pace).why_without(8)
    over = tries.note_failure(7, failure, 600.0, pace)
    assert (over.why_without(7), over.why_without(8)) == ("Nobody answers there.", "")
    seldom = FileTries().note_failure(7, failure, 0.0, pace).note_failure(7, failure, 3600.0, pace)
    assert not seldom.why_without(7)


def test_who_is_away_gets_it_when_back(turns: TurnStore) -> None:
    """C9: an answer that finds nobody waits, costs nothing meanwhile, and arrives once."""
    post = Post(turns)
    post.put("hello")

    async def steps() -> None:
        delivery = post.new_delivery()
        post.adapter.leave(place())
        await post.adapter.connect(HeardCore(delivery))
        await delivery.start()
        await until(lambda: delivery.counts["waiting"] == 1)
        await until(lambda: delivery.at_work() == 0)
        await asyncio.sleep(0.3)
        assert delivery.counts["waiting"] == 1
        assert not post.service.calls
        post.adapter.come_back(place())
        await until(lambda: post.waits() == 0)
        await delivery.stop()
        await post.adapter.disconnect()

    run(steps())
    assert post.service.seen("c1") == ["hello"]


def test_fresh_chats_do_not_wait_for_old_ones(turns: TurnStore) -> None:
    """C15: a chat that is woken overtakes hundreds with old messages."""
    post = Post(turns, PretendRules(latency=0.02))
    for n in range(100):
        post.put("old", f"old{n}")

    async def steps() -> None:
        async with post.delivering(replace(QUICK, recovering=2, poll=5.0)) as delivery:
            await until(lambda: len(post.service.messages) > 2)
            post.put("fresh", "new")
            delivery.wake(place("new"))
            await until(lambda: post.service.seen("new") == ["fresh"])
            assert len(post.service.messages) < 50
            assert delivery.at_work() < 20
            await until(lambda: post.waits() == 0)

    run(steps())
    assert len(post.service.messages) == 101


def test_only_the_holder_of_the_lease_sends(turns: TurnStore) -> None:
    """C7: a sender whose account went to another sends nothing more, and the other one goes on."""
    post = Post(turns)

    async def steps() -> None:
        first = post.new_delivery(replace(QUICK, poll=60.0))
        await first.start()
        await until(lambda: first.leases()["pretend:bot"] is not None)
        async with post.delivering() as second:
            await until(lambda: second.leases()["pretend:bot"] is not None)
            for n in range(5):
                post.put(f"{n}")
                first.wake(place())
            await until(lambda: post.waits() == 0)
            assert first.counts["sent"] == 0
            await first.stop()

    run(steps())
    assert post.service.seen("c1") == [f"{n}" for n in range(5)]


def test_a_lease_that_cannot_be_renewed_stops_the_sending(turns: TurnStore) -> None:
    """C7: sending ends one call-time before the lease does."""
    post = Post(turns)
    locked = False

    async def call(fn: Any, *args: Any) -> Any:
        if locked and fn == turns.hold:
            raise StoreFailure("The store is locked.")
        return await call_off_loop(fn, *args)

    async def steps() -> None:
        nonlocal locked
        delivery = post.new_delivery(replace(QUICK, lease=1.0, call=0.7), call)
        await delivery.start()
        account = delivery._senders["pretend:bot"]
        await until(account.may_call)
        locked = True
        await until(lambda: not account.may_call())
        post.put("hello")
        delivery.wake(place())
        await asyncio.sleep(0.1)
        assert not post.service.calls
        locked = False
        await until(lambda: post.waits() == 0)
        await delivery.stop()

    run(steps())
    assert post.service.seen("c1") == ["hello"]


def test_a_store_that_is_locked_for_a_while_delays_and_doubles_nothing(turns: TurnStore) -> None:
    """C7: a message that was sent but could not be noted is noted later, not sent again."""
    post = Post(turns, PretendRules(takes_keys=False))
    failures = 4

    async def call(fn: Any, *args: Any) -> Any:
        nonlocal failures
        if failures and fn in (turns.outbox_sent, turns.outbox_take):
            failures -= 1
            raise StoreFailure("The store is locked.")
        return await call_off_loop(fn, *args)

    async def steps() -> None:
        post.put("hello")
        delivery = post.new_delivery(call=call)
        await delivery.start()
        await until(lambda: post.waits() == 0)
        await delivery.stop()

    run(steps())
    assert post.service.seen("c1") == ["hello"]
    assert failures == 0


@pytest.mark.parametrize("kept", [True, False])
def test_a_store_that_fails_once_at_taking_a_message_holds_up_nothing(turns: TurnStore, kept: bool) -> None:
    """C9: also when the message was marked as being sent and only the reply of the store was lost."""
    post = Post(turns)
    failures = 1

    async def call(fn: Any, *args: Any) -> Any:
        nonlocal failures
        if failures and fn == turns.outbox_take:
            failures -= 1
            if kept:
                await call_off_loop(fn, *args)
            raise StoreFailure("The store is locked.")
        return await call_off_loop(fn, *args)

    async def steps() -> None:
        post.put("hello")
        delivery = post.new_delivery(call=call)
        await delivery.start()
        await until(lambda: post.waits() == 0)
        await delivery.stop()

    run(steps())
    assert post.service.seen("c1") == ["hello"]


@pytest.mark.parametrize("problem", [StoreFailure("The store is locked."), Fenced("It was moved on.")])
def test_a_store_that_an_adapter_cannot_read_is_a_failed_call(turns: TurnStore, problem: StoreFailure) -> None:
    """C9: what an adapter meets says nothing about the lease or the row; the message goes again, however often."""
    post = Post(turns)
    post.put("hello")
    post.put("there")
    failures = 5

    async def steps() -> None:
        delivery = post.new_delivery(replace(QUICK, strange_attempts=3))
        real = post.adapter.send

        async def send(part: Part) -> str:
            nonlocal failures
            if failures:
                failures -= 1
                raise problem
            return await real(part)

        post.adapter.send = send  # type: ignore[method-assign]
        await delivery.start()
        await until(lambda: post.waits() == 0)
        assert set(delivery.leases().values()) == {1}
        await delivery.stop()

    run(steps())
    assert post.service.seen("c1") == ["hello", "there"]


def test_stopping_ends_the_call_under_way_and_gives_the_rest_back(turns: TurnStore) -> None:
    """C14: nothing is doubtful after an orderly stop."""
    post = Post(turns, PretendRules(latency=0.05, takes_keys=False, max_length=200))
    post.put("word " * 400)

    async def steps() -> None:
        async with post.delivering():
            await until(lambda: len(post.service.messages) == 2)
        (row,) = turns.outbox_since(place().conversation("default"), 0)
        assert (row.parts_sent, row.unsure, row.state) == (len(post.service.messages), False, "waiting")
        async with post.delivering():
            await until(lambda: post.waits() == 0)

    run(steps())
    assert "".join(post.service.seen("c1")).split() == ["word"] * 400


def test_an_adapter_that_fails_in_its_own_way_is_given_up_after_some_attempts(turns: TurnStore) -> None:
    """C2: a bug in an adapter does not hold up a chat for ever; the message is kept with the reason."""
    post = Post(turns)
    post.put("poison")
    post.put("good")

    async def steps() -> None:
        delivery = post.new_delivery(replace(QUICK, strange_attempts=3))
        real = post.adapter.send

        async def send(part: Part) -> str:
            if part.text == "poison":
                raise KeyError("surprise")
            return await real(part)

        post.adapter.send = send  # type: ignore[method-assign]
        await delivery.start()
        await until(lambda: post.waits() == 0)
        await delivery.stop()

    run(steps())
    assert [row.state for row in turns.outbox_since(place().conversation("default"), 0)] == [FAILED, SENT, SENT]
    (refused,) = turns.list_refused(0.0)
    assert "surprise" not in refused.reason, "words of an SDK may hold a token (G6)"


@given(
    st.lists(st.sampled_from(["", "", CLOSED_BEFORE, CLOSED_AFTER]), max_size=12),
    st.lists(st.integers(1, 400), min_size=1, max_size=4),
    st.booleans(),
)
@settings(max_examples=40)
def test_any_mix_of_broken_connections_shows_each_text_once(
    troubles: list[str], lengths: list[int], takes_keys: bool
) -> None:
    """C7: once with keys; without them each text at most once unmarked, and in order."""
    post = Post(fresh_store().turns, PretendRules(max_length=150, takes_keys=takes_keys))
    post.service.troubles.extend(troubles)
    texts = [" ".join(f"{n}-{word}" for word in range(length // 4 + 1)) for n, length in enumerate(lengths)]
    for text in texts:
        post.put(text)

    async def steps() -> None:
        async with post.delivering(replace(QUICK, first_pause=0.001, longest_pause=0.002, poll=0.01)):
            await until(lambda: post.waits() == 0)

    run(steps())
    seen = post.service.seen("c1")
    bare = list(dict.fromkeys(text.removeprefix(f"{LONG_MARK}\n") for text in seen))
    assert " ".join(bare).split() == " ".join(texts).split()
    unmarked = [text for text in seen if not text.startswith(LONG_MARK)]
    assert len(unmarked) == len(set(unmarked))
    if takes_keys:
        assert seen == bare


@pytest.mark.parametrize("whole", [True, False])
def test_a_penalty_for_the_whole_account_closes_every_chat(turns: TurnStore, whole: bool) -> None:
    """C8: the other chats are silent too while the account is punished, and only then."""
    post = Post(turns)
    end = 0.0

    async def steps() -> None:
        async with post.delivering() as delivery:
            real = post.adapter.send

            async def send(part: Part) -> str:
                nonlocal end
                post.adapter.send = real  # type: ignore[method-assign]
                end = time.monotonic() + 0.5
                raise NotNow("slow down", 0.5, whole_account=whole)

            post.adapter.send = send  # type: ignore[method-assign]
            post.put("one", "c1")
            delivery.wake(place("c1"))
            await until(lambda: delivery.counts["waiting"] == 1)
            post.put("two", "c2")
            delivery.wake(place("c2"))
            await until(lambda: post.waits() == 0)

    run(steps())
    assert len(post.service.messages) == 2
    assert [call.chat for call in post.service.calls if call.at < end] == ([] if whole else ["c2"])


def test_a_platform_that_names_no_time_is_asked_again_when_it_wakes_us(turns: TurnStore) -> None:
    post = Post(turns)

    async def steps() -> None:
        async with post.delivering() as delivery:
            real = post.adapter.send

            async def send(part: Part) -> str:
                post.adapter.send = real  # type: ignore[method-assign]
                raise NotNow("nobody confirmed")

            post.adapter.send = send  # type: ignore[method-assign]
            post.put("one")
            delivery.wake(place())
            await until(lambda: delivery.counts["waiting"] == 1)
            await asyncio.sleep(0.2)
            assert post.waits() == 1
            delivery.wake(place())
            await until(lambda: post.waits() == 0)

    run(steps())
    assert post.service.seen("c1") == ["one"]


def test_what_waits_for_somebody_is_tried_once_by_the_next_process(turns: TurnStore) -> None:
    """C9: nobody tells a new process that somebody is back; it asks once, and the store says who is waited for."""
    post, tries, real = Post(turns), [], Post.new_adapter
    post.put("one")

    async def refuse(part: Part) -> str:
        tries.append(part.text)
        raise NotNow("They blocked us.")

    def block() -> PretendAdapter:
        adapter = real(post)
        adapter.send = refuse  # type: ignore[method-assign]
        return adapter

    async def steps() -> None:
        post.new_adapter = block  # type: ignore[method-assign]
        for life in (1, 2):
            async with post.delivering():
                await until(lambda: len(tries) == life)  # noqa: B023 - it is awaited here
                await asyncio.sleep(4 * QUICK.poll)
                assert len(tries) == life
        post.new_adapter = lambda: real(post)  # type: ignore[method-assign]
        assert [(chat.chat, chat.count, chat.tried) for chat in turns.list_unsent()] == [("c1", 1, True)]
        async with post.delivering():
            await until(lambda: post.waits() == 0)

    run(steps())
    assert post.service.seen("c1") == ["one"]
    assert turns.list_unsent() == []


def test_memory_is_bounded_by_the_chats_at_work(turns: TurnStore) -> None:
    """F1: hundreds of chats leave nothing behind."""
    post = Post(turns)
    for n in range(300):
        post.put("hello", f"c{n}")

    async def steps() -> None:
        async with post.delivering() as delivery:
            most = 0
            while post.waits():
                most = max(most, delivery.at_work())
                await asyncio.sleep(0.002)
            await until(lambda: delivery.at_work() == 0)
            assert most <= 40

    run(steps())
    assert len(post.service.messages) == 300


def test_the_event_loop_is_never_held_up(turns: TurnStore) -> None:
    """F5: very long answers and many chats, and no callback takes 50 ms of its thread's time."""
    post = Post(turns, PretendRules(max_length=100_000))
    post.put("some words and `code` and [a link](https://example.org/x) here\n" * 30_000, "long")
    for n in range(100):
        post.put("hello", f"c{n}")
    slowest = 0.0

    async def steps() -> None:
        async with post.delivering():
            await until(lambda: post.waits() == 0, 60)

    real = asyncio.Handle._run

    def timed(self: asyncio.Handle) -> None:
        nonlocal slowest
        began = time.thread_time()
        real(self)
        slowest = max(slowest, time.thread_time() - began)

    asyncio.Handle._run = timed  # type: ignore[method-assign]
    try:
        run(steps())
    finally:
        asyncio.Handle._run = real  # type: ignore[method-assign]
    assert 0 < slowest < 0.05


@pytest.mark.parametrize(
    ("error", "attempts", "verdict"),
    [
        (NotNow("x", 30.0), 1, SendAgain(30.0, certain=True, penalty=True)),
        (NotNow("x", 3.0, whole_account=True), 1, SendAgain(3.0, certain=True, penalty=True, whole_account=True)),
        (NotNow("x"), 1, SendAgain(float("inf"), certain=True)),
        (NeverTaken("no"), 1, GiveUp("no")),
        (DeliveryFailure("x"), 1000, SendAgain(60.0, certain=False)),
        (KeyError("x"), 9, SendAgain(60.0, certain=False)),
        (KeyError("x"), 10, GiveUp("The adapter failed (KeyError); the log says how.")),
    ],
)
def test_the_verdict_on_a_failure(error: Exception, attempts: int, verdict: SendAgain | GiveUp) -> None:
    """C9: only what the platform refuses for good is given up."""
    assert judge(error, 20, attempts, Pace(), 0.0) == verdict


def test_pauses_grow_to_a_minute_with_chance_in_them() -> None:
    assert [pause_after(n, Pace(), 0.0) for n in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert pause_after(1000, Pace(), 1.0) == 30
