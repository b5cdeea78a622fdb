"""Calls for code that waits on a thread: the system's own resolver, loops that turn already, and stops (C4)."""

import asyncio
import threading
from collections.abc import Iterator, Sequence

import pytest
from loopback_site import LoopbackSite, hold, open_site

from hermes_base.errors import Interrupted
from hermes_base.turn.cancel import CancelToken
from hermes_net.address_rules import AddressRules, IpAddress, read_rules
from hermes_net.call_values import AddressRefused, CallFailed, HttpCall
from hermes_net.waited_call import call_and_wait

ALLOWED = read_rules(["localhost", "127.0.0.1", "::1"])


@pytest.fixture
def site() -> Iterator[LoopbackSite]:
    with open_site() as running:
        yield running


def test_the_systems_resolver_is_asked_and_its_answer_is_judged(site: LoopbackSite) -> None:
    """G8"""
    url = site.put("/x", "here", "text/plain").replace("site.test", "localhost")
    assert call_and_wait(HttpCall(url), ALLOWED, CancelToken()).body == b"here"
    with pytest.raises(AddressRefused, match="private"):
        call_and_wait(HttpCall(url), AddressRules(), CancelToken())
    assert len(site.asked) == 1


@pytest.mark.parametrize("host", ["name-that-nobody-has.invalid", "x" * 70 + ".test", "a..b"])
def test_a_name_that_leads_nowhere_is_told(host: str) -> None:
    with pytest.raises(CallFailed, match="cannot be called"):
        call_and_wait(HttpCall(f"http://{host}/"), ALLOWED, CancelToken())


def test_it_works_where_a_loop_turns_already(site: LoopbackSite) -> None:
    url = site.put("/x", "here", "text/plain").replace("site.test", "127.0.0.1")

    async def main() -> bytes:
        return call_and_wait(HttpCall(url), ALLOWED, CancelToken()).body

    assert asyncio.run(main()) == b"here"


def test_a_stop_frees_who_waits_for_a_name(site: LoopbackSite) -> None:
    """C4: a resolver that does not answer holds nobody."""
    asked, cancel = threading.Event(), CancelToken()

    async def silent(host: str, port: int) -> Sequence[IpAddress]:
        asked.set()
        await asyncio.Event().wait()
        return ()

    threading.Thread(target=lambda: asked.wait(30) and cancel.cancel("by Ann"), daemon=True).start()
    with pytest.raises(Interrupted, match="by Ann"):
        call_and_wait(HttpCall("http://slow.test/", seconds=100), ALLOWED, cancel, silent)


def test_a_stop_closes_the_connection(site: LoopbackSite) -> None:
    """C4, F1: the other side sees it go, and the thread of the call ends."""
    url = site.put("/x", stream=hold).replace("site.test", "127.0.0.1")
    cancel = CancelToken()
    threading.Thread(target=lambda: site.reached.wait(30) and cancel.cancel(), daemon=True).start()
    with pytest.raises(Interrupted):
        call_and_wait(HttpCall(url, seconds=100), ALLOWED, cancel)
    for thread in [one for one in threading.enumerate() if one.name == "web-call"]:
        thread.join(30)
        assert not thread.is_alive()


def test_a_turn_that_is_over_calls_nobody(site: LoopbackSite) -> None:
    cancel = CancelToken()
    cancel.cancel()
    with pytest.raises(Interrupted):
        call_and_wait(HttpCall(site.url("/", "127.0.0.1")), ALLOWED, cancel)
    assert site.asked == []
