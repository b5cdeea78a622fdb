"""A recorded request of a hook is known by what was signed, whatever id somebody writes beside it."""

import asyncio
import time
from pathlib import Path

import pytest
from hook_service import SECRET, sign, sign_github
from hypothesis import given
from hypothesis import strategies as st
from pretending import HeardCore

from gateway.platforms.face import Accepted, HookAnswer, HookRequest, Refused
from gateway.platforms.webhook.adapter import WebhookAdapter
from gateway.platforms.webhook.seen_requests import SEEN_SECONDS, SeenRequests
from hermes_base.inbound import Inbound

BODY = b'{"text": "Open the gate."}'


def make_request(key: str, signed: dict[str, str], body: bytes = BODY) -> HookRequest:
    headers = {name.lower(): value for name, value in {**signed, "Idempotency-Key": key}.items()}
    return HookRequest("POST", "", headers, {}, body)


async def connect(home: Path, core: HeardCore, **more: str) -> WebhookAdapter:
    adapter = WebhookAdapter("alarm", {"secret": SECRET, **more}, home)
    await adapter.connect(core)
    return adapter


def test_a_recorded_request_is_taken_under_one_id_only(tmp_path: Path) -> None:
    """C1, G2: the header with the id is not signed; the repetition is answered like one, and not stored."""

    async def scenario() -> None:
        core = HeardCore()
        adapter = await connect(tmp_path, core)
        signed = sign(BODY)
        for key in ("one", "two", "one", "three"):
            assert (await adapter.receive_hook(make_request(key, signed))) == HookAnswer(200, "Taken.")
        assert {inbound.message for inbound in core.taken} == {"one"}
        later = sign(BODY, now=time.time() + 1)  # the same words, said again
        assert (await adapter.receive_hook(make_request("four", later))).status == 200
        assert core.taken[-1].message == "four"

    asyncio.run(scenario())


def test_where_no_time_is_signed_the_id_tells_requests_apart(tmp_path: Path) -> None:
    async def scenario() -> None:
        core = HeardCore()
        adapter = await connect(tmp_path, core, signature="github", id="X-GitHub-Delivery")
        for key in ("one", "two"):
            assert (await adapter.receive_hook(make_request("", sign_github(BODY, key, "push")))).status == 200
        assert [inbound.message for inbound in core.taken] == ["one", "two"]

    asyncio.run(scenario())


def test_what_could_not_be_stored_may_come_under_another_id(tmp_path: Path) -> None:
    """C1: only what is stored is answered as a repetition."""

    async def scenario() -> None:
        core = HeardCore()
        adapter = await connect(tmp_path, core)
        signed = sign(BODY)
        core.failures = 1
        with pytest.raises(OSError, match="disk"):
            await adapter.receive_hook(make_request("one", signed))
        assert (await adapter.receive_hook(make_request("two", signed))).status == 200
        assert [inbound.message for inbound in core.taken] == ["two"]

    asyncio.run(scenario())


class SlowCore(HeardCore):
    """Stores when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def take(self, inbound: Inbound) -> Accepted | Refused:
        self.asked.set()
        await self.go.wait()
        return await super().take(inbound)


def test_two_at_once_are_one(tmp_path: Path) -> None:
    """C1: the second hears 200 when the first is stored, not before."""

    async def scenario() -> None:
        core = SlowCore()
        adapter = await connect(tmp_path, core)
        signed = sign(BODY)
        first = asyncio.create_task(adapter.receive_hook(make_request("one", signed)))
        await core.asked.wait()
        assert (await adapter.receive_hook(make_request("two", signed))).status == 503
        core.go.set()
        assert (await first).status == 200
        assert (await adapter.receive_hook(make_request("two", signed))).status == 200
        assert [inbound.message for inbound in core.taken] == ["one"]

    asyncio.run(scenario())


@given(steps=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.floats(0, 400)), max_size=40))
def test_what_is_seen_is_bounded_and_kept_while_its_signature_holds(steps: list[tuple[str, float]]) -> None:
    seen, now, most = SeenRequests(most=4), 1_000_000.0, 4
    for number, (signed, seconds) in enumerate(steps):
        now += seconds
        if not seen.find(signed, now):
            seen.note(signed, f"id{number}", now)
        assert seen.find(signed, now)
        assert len(seen._seen) <= most
    assert all(not seen.find(signed, now + SEEN_SECONDS + 1) for signed, _ in steps)
