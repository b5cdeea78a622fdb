"""How the lab's Telegram brings what people do: polling, webhooks, redelivery, and clients that die."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from telegram import Bot, Update
from telegram.error import Conflict, NetworkError, RetryAfter
from waiting import until, wait_until

from hermes_lab.chats.forms import Form
from hermes_lab.chats.record import ChatClock
from hermes_lab.chats.telegram.api_values import Parameters
from hermes_lab.chats.telegram.service import TelegramRates
from hermes_lab.chats.telegram.telegram_lab import TelegramLab, TelegramRemote
from hermes_lab.chats.telegram.updates import UpdateQueue
from hermes_lab.values import LabProblem

pytestmark = pytest.mark.filterwarnings("ignore::telegram.warnings.PTBUserWarning")
FREE = TelegramRates(None, None, None)
Steps = Callable[[TelegramLab, Bot, int], Awaitable[None]]


def run(steps: Steps, complaints: tuple[str, ...] = ()) -> None:
    async def all_steps() -> None:
        async with TelegramLab(rates=FREE, hook_pause=0.05) as lab:
            person = lab.add_person("Ann", "ann")
            async with Bot(lab.token, base_url=lab.base_url) as bot:
                await steps(lab, bot, person)
            assert tuple(complaint["kind"] for complaint in lab.complaints) == complaints

    asyncio.run(all_steps())


def texts(updates: tuple[Update, ...]) -> list[str | None]:
    return [update.message.text for update in updates if update.message]


def test_updates_stay_until_they_are_confirmed() -> None:
    """C1: an offset confirms what is below it, and nothing else does."""

    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        for n in range(3):
            lab.say(person, f"{n}")
        first = await bot.get_updates()
        assert texts(first) == ["0", "1", "2"]
        lab.advance(4)  # who asks the same in a circle gets one at a time
        assert texts(await bot.get_updates()) == ["0", "1", "2"]
        assert texts(await bot.get_updates(offset=first[1].update_id)) == ["1", "2"]
        lab.advance(4)
        assert texts(await bot.get_updates()) == ["1", "2"]
        assert texts(await bot.get_updates(offset=-1)) == ["2"]
        assert len(lab.pending()) == 1
        assert texts(await bot.get_updates(offset=first[2].update_id + 1)) == []
        assert lab.pending() == []

    run(steps)


@given(st.lists(st.one_of(st.just("say"), st.integers(0, 6), st.integers(-3, -1)), max_size=30))
def test_no_update_is_lost_and_none_comes_after_it_was_confirmed(steps: list[str | int]) -> None:
    """C1: whatever is said and however it is polled, what waits is what was said and not confirmed, in order."""
    clock = ChatClock()
    queue = UpdateQueue(clock)
    waiting: list[int] = []

    async def poll(offset: int) -> list[int]:
        clock.advance(4)
        form = Form({"offset": str(offset), "timeout": "0"})
        found = await queue.poll(Parameters(form), None, lambda kind, text: None)  # type: ignore[arg-type]  # nobody waits
        return [update["update_id"] for update in found or ()]

    async def all_steps() -> None:
        nonlocal waiting
        for step in steps:
            if step == "say":
                made = queue.add("message", {"text": "x"}, 1)
                assert made is not None
                waiting.append(made.id)
                continue
            assert isinstance(step, int)
            offset = step if step < 0 else 900_000 + step
            waiting = waiting[offset:] if offset < 0 else [number for number in waiting if number >= offset]
            assert await poll(offset) == waiting

    asyncio.run(all_steps())
    assert [update.id for update in queue.waiting] == waiting


def test_a_poll_waits_for_what_comes() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        waiting = asyncio.create_task(bot.get_updates(timeout=50, read_timeout=60))
        await until(lambda: bool(lab.calls("getUpdates")))
        lab.say(person, "hello")
        assert texts(await waiting) == ["hello"]

    run(steps)


def test_limits_are_clamped() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        for n in range(101):
            lab.say(person, f"{n}")
        assert len(await bot.get_updates(limit=1000)) == 100
        lab.advance(4)
        assert len(await bot.get_updates(limit=0)) == 1
        assert len(await bot.get_updates(offset=-50, limit=7)) == 7

    run(steps)


def test_two_pollers() -> None:
    """The older of two calls that wait is told that there is another."""

    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        older = asyncio.create_task(bot.get_updates(timeout=50, read_timeout=60))
        await until(lambda: len(lab.calls("getUpdates")) == 1)
        async with Bot(lab.token, base_url=lab.base_url) as second:
            newer = asyncio.create_task(second.get_updates(timeout=50, read_timeout=60))
            with pytest.raises(Conflict, match="make sure that only one bot instance is running"):
                await older
            lab.say(person, "hello")
            assert texts(await newer) == ["hello"]

    run(steps, ("pollers",))


def test_a_client_that_left_is_no_poller() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        with pytest.raises(NetworkError):
            await bot.get_updates(timeout=50, read_timeout=-49.5)
        waiting = asyncio.create_task(bot.get_updates(timeout=50, read_timeout=60))
        await until(lambda: len(lab.calls("getUpdates")) == 2)
        lab.say(person, "hello")
        assert texts(await waiting) == ["hello"]

    run(steps)


def test_all_connections_can_be_cut() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        waiting = asyncio.create_task(bot.get_updates(timeout=50, read_timeout=60))
        await until(lambda: bool(lab.calls("getUpdates")))
        assert lab.cut() == 1
        with pytest.raises(NetworkError):
            await waiting
        lab.say(person, "hello")
        assert texts(await bot.get_updates()) == ["hello"]

    run(steps)


def test_kinds_of_updates_are_chosen_when_they_are_made() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        number = lab.say(person, "hello")
        lab.react(person, number, "👍")
        lab.edit(person, number, "hello!")
        updates = await bot.get_updates(allowed_updates=["message", "message_reaction"])
        assert [update.edited_message is not None for update in updates] == [False, True]
        lab.edit(person, number, "hello?")
        lab.react(person, number, "👎")
        (reaction,) = await bot.get_updates(offset=updates[-1].update_id + 1)
        assert reaction.message_reaction is not None
        await bot.get_updates(offset=reaction.update_id + 1, allowed_updates=[])
        lab.react(person, number, "")
        lab.edit(person, number, "bye")
        (edit,) = await bot.get_updates(timeout=5)
        assert edit.edited_message is not None
        assert edit.edited_message.edit_date is not None

    run(steps)


def test_edits_of_one_second_are_told_apart() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        number = lab.say(person, "a")
        lab.edit(person, number, "b")
        lab.edit(person, number, "c")
        _, first, second = (update.effective_message for update in await bot.get_updates())
        assert first is not None
        assert second is not None
        assert first.edit_date != second.edit_date
        assert (first.text, second.text) == ("b", "c")

    run(steps)


def test_what_is_old_is_lost() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        lab.say(person, "yesterday")
        lab.advance(86_401)
        lab.say(person, "today")
        assert texts(await bot.get_updates()) == ["today"]

    run(steps)


def test_redelivery() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        lab.say(person, "one")
        lab.say(person, "two")
        seen = await bot.get_updates()
        assert lab.redeliver(2, backwards=True) == 2
        again = await bot.get_updates(offset=seen[-1].update_id + 1)
        assert texts(again) == ["two", "one"]
        assert [update.effective_message for update in again] == [update.effective_message for update in seen[::-1]]
        assert lab.redeliver(2, same_ids=True) == 2
        lab.advance(4)
        assert [update.update_id for update in await bot.get_updates()][:2] == [update.update_id for update in seen]

    run(steps)


def test_a_bot_has_its_own_updates() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        token = lab.add_bot("second_bot", privacy=False)
        async with Bot(token, base_url=lab.base_url) as second:
            lab.say(person, "to the second", bot=token)
            lab.say(person, "to the first")
            assert texts(await second.get_updates()) == ["to the second"]
            assert texts(await bot.get_updates()) == ["to the first"]
            group = lab.add_group("Both", [person])
            lab.say(person, "among us", chat=group)
            assert texts(await second.get_updates(offset=-1)) == ["among us"]
            assert lab.pending() == [lab.pending()[0]]

    run(steps)


class Receiver(BaseHTTPRequestHandler):
    """Answers as its server says, and keeps what it got."""

    server: Any

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.got.append((dict(self.headers.items()), body))
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        answer = json.dumps(self.server.answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def receiver() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.got, server.statuses, server.answer = [], [], {}
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_webhook_is_brought_each_chat_in_order_until_it_takes_it() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        with receiver() as house:
            house.statuses += [500, 503, 200]
            other = lab.add_person("Ben")
            lab.say(person, "before")
            await bot.set_webhook(f"http://127.0.0.1:{house.server_port}/hook", secret_token="s3cret_-")
            for n in range(5):
                lab.say(person, f"{n}")
                lab.say(other, f"{n}")
            await until(lambda: not lab.pending())
            taken = [row["update"] for row in lab.attempts() if row["status"] == 200]
            assert len(taken) == len(set(taken)) == 11
            # Two chats are brought theirs side by side: either may have met either of them.
            assert sorted(row["status"] for row in lab.attempts() if row["status"] != 200) == [500, 503]
            for who in (person, other):
                ids = [row["update"] for row in lab.attempts() if row["chat"] == who]
                assert ids == sorted(ids)
            headers, _ = house.got[0]
            assert headers["X-Telegram-Bot-Api-Secret-Token"] == "s3cret_-"
            assert headers["Content-Type"] == "application/json"
            with pytest.raises(Conflict, match="webhook is active"):
                await bot.get_updates()
            info = await bot.get_webhook_info()
            assert info.pending_update_count == 0
            assert info.last_error_message in [f"Wrong response from the webhook: {status}" for status in (500, 503)]
            lab.advance(2)
            await bot.set_webhook(info.url)
            with pytest.raises(RetryAfter):
                await bot.set_webhook(info.url)
            await bot.delete_webhook()
            lab.say(person, "after")
            assert texts(await bot.get_updates()) == ["after"]

    run(steps, ("pollers",))


def test_a_webhook_may_answer_with_a_call() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        with receiver() as house:
            house.answer = {"method": "sendMessage", "chat_id": person, "text": "at once"}
            await bot.set_webhook(f"http://127.0.0.1:{house.server_port}/hook")
            lab.say(person, "hello")
            await until(lambda: lab.seen(person) == ["at once"])
            await bot.delete_webhook()

    run(steps)


def test_set_webhook_ends_a_poll() -> None:
    async def steps(lab: TelegramLab, bot: Bot, person: int) -> None:
        waiting = asyncio.create_task(bot.get_updates(timeout=50, read_timeout=60))
        await until(lambda: bool(lab.calls("getUpdates")))
        await bot.set_webhook("http://127.0.0.1:9/hook")
        with pytest.raises(Conflict, match="terminated by setWebhook"):
            await waiting
        lab.say(person, "hello")
        await until(lambda: bool(lab.attempts()))
        assert lab.attempts()[0]["status"] == 0
        await bot.delete_webhook(drop_pending_updates=True)
        assert lab.pending() == []

    run(steps)


CLIENT = """
import asyncio, sys
from telegram import Bot

async def main(token, address, person):
    async with Bot(token, base_url=f"{address}/bot") as bot:
        updates = await bot.get_updates(timeout=20)
        await bot.send_message(person, f"got {len(updates)}")
        await asyncio.sleep(600)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_killed_client_loses_nothing_and_the_server_goes_on() -> None:
    """The server is a process of its own, steered over HTTP; a client that is killed has confirmed nothing."""
    serve = [sys.executable, "-m", "hermes_cli.main", "lab", "telegram"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            said = [server.stdout.readline().strip() for _ in range(6)]
            address, token, person = (
                said[0].split()[3].removesuffix("/bot"),
                said[1].split()[1],
                int(said[2].split()[1]),
            )
            lab = TelegramRemote(address, token)
            lab.say(person, "one")
            lab.say(person, "two")
            for life in range(2):
                lab.advance(60)  # who asks the same at once again is given less
                with subprocess.Popen([sys.executable, "-c", CLIENT, token, address, str(person)]) as client:
                    wait_until(lambda life=life: len(lab.seen(person)) == life + 1, 60)
                    client.kill()
            assert lab.seen(person) == ["got 2", "got 2"]
            assert [row["message"]["text"] for row in lab.pending()] == ["one", "two"]
            assert lab.complaints == []
            with pytest.raises(LabProblem, match="no verb"):
                lab.do("dance")
            with pytest.raises(LabProblem, match="no person 1"):
                lab.say(1, "hello")
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(20) == 0
