"""A call that waits in the network is cut whatever it waits for, and sends nothing afterwards."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from moody_model import HEAD, Mood, MoodyModel, answer, drip, end, hang_up, keep_open, say, silent
from waiting import wait_until

from agent import probing
from agent.auxiliary_client import AuxiliaryCall, build_client, complete
from agent.formats.wire import dialect_of
from agent.http import transport
from agent.http.clients import StreamCall, release_client, stream
from agent.providers.runtime import Runtime
from hermes_base.errors import Concern, ModelFailure
from hermes_base.turn.cancel import CancelToken
from hermes_constants import get_hermes_home
from run_agent import AIAgent


@pytest.fixture
def model() -> Iterator[MoodyModel]:
    with MoodyModel() as server:
        yield server


def make_agent(address: str) -> AIAgent:
    get_hermes_home().mkdir(exist_ok=True)
    return AIAgent(model="m", provider="custom", base_url=address, api_key="k", enabled_toolsets=[])


def start(agent: AIAgent) -> tuple[threading.Thread, list[dict[str, object]]]:
    box: list[dict[str, object]] = []
    thread = threading.Thread(target=lambda: box.append(agent.run_conversation("hi")), daemon=True)
    thread.start()
    return thread, box


def test_a_stop_while_connecting_is_heard_and_nothing_is_sent(
    model: MoodyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C4, D13: the connection does not come about; it is left behind, and nothing is tried again."""
    monkeypatch.setattr("agent.http.clients.CONNECT_SECONDS", 60.0)
    agent = make_agent(model.deaf_url)
    thread, box = start(agent)
    wait_until(lambda: any(other.name == "connect" for other in threading.enumerate()))
    agent.interrupt()
    thread.join(20)
    assert box[0]["interrupted"] is True
    assert model.requests == []


def test_a_connection_that_does_not_come_about_is_no_silence_of_the_model(
    model: MoodyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D1, D2: it is about the address, it is tried a second time, and who sets it up is told to check the address."""
    monkeypatch.setattr("agent.http.clients.CONNECT_SECONDS", 0.2)
    runtime = Runtime("custom", "m", model.deaf_url, "k", "chat_completions", 8000)
    client = build_client(runtime)
    with pytest.raises(ModelFailure) as raised:
        complete(runtime, client, AuxiliaryCall([{"role": "user", "content": "hi"}], "test"), lambda _: None)
    release_client(client)
    assert (raised.value.concern, raised.value.stalled) == (Concern.ADDRESS, False)
    assert "cannot be reached" in probing.probe(runtime).probed.text


def test_a_stop_while_a_name_is_looked_up_is_heard(model: MoodyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """C4, D13: a resolver that does not answer cannot be ended, only left behind."""
    looking, found, before = threading.Event(), threading.Event(), set(threading.enumerate())
    real = transport.socket.getaddrinfo

    def look_up(*args: object, **more: object) -> object:
        looking.set()
        found.wait(60)
        return real(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(transport.socket, "getaddrinfo", look_up)
    agent = make_agent(model.base_url)
    thread, box = start(agent)
    assert looking.wait(20)
    agent.interrupt()
    thread.join(20)
    alive = thread.is_alive()
    found.set()
    thread.join(20)
    assert not alive
    assert box[0]["interrupted"] is True
    wait_until(lambda: all(other.name != "connect" for other in {*threading.enumerate()} - before))
    assert model.requests == []


def test_the_head_of_an_answer_has_one_deadline(model: MoodyModel) -> None:
    """D13: each letter of a dripping head is in time, the head as a whole is not."""
    model.mood = drip
    client = httpx2.Client(transport=transport.PooledTransport())
    with pytest.raises(httpx2.ReadTimeout):
        client.post(model.base_url, content=b"{}", timeout=httpx2.Timeout(1.0))


JSON_HEAD = HEAD.replace(b"text/event-stream", b"application/json")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "mood",
    [
        keep_open(HEAD),
        keep_open(HEAD + say("half of ")),
        keep_open(HEAD, with_words=b"event: wait\n\n"),
        keep_open(JSON_HEAD, with_words=b"\n"),
        keep_open(HEAD.replace(b"200 OK", b"503 X"), with_words=b"x"),
    ],
    ids=["comments first", "comments in the answer", "events without data", "white space", "a dripped error"],
)
def test_what_only_keeps_a_connection_open_is_no_answer(model: MoodyModel, mood: Mood) -> None:
    """D13: the limits count from the last data, and the first data has the limit of the first byte."""
    model.mood = mood
    runtime = Runtime("custom", "m", model.base_url, "k", "chat_completions", 8000)
    client = build_client(runtime)
    with pytest.raises(ModelFailure) as raised:
        complete(
            runtime, client, AuxiliaryCall([{"role": "user", "content": "hi"}], "test", timeout=0.5), lambda _: None
        )
    release_client(client)
    assert raised.value.stalled


def test_an_answer_may_take_longer_than_its_limits_while_data_comes(
    model: MoodyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D13: each piece of data begins the limit anew. The clock goes on when a piece was taken."""
    now, taken = [1000.0], threading.Semaphore(0)
    monkeypatch.setattr(transport, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def speak(request: bytes) -> Iterator[bytes | None]:
        del request
        yield HEAD
        for _ in range(12):
            yield say("a")
            taken.acquire(timeout=20)
            now[0] += 20.0
        yield end()

    model.mood = speak
    runtime = Runtime("custom", "m", model.base_url, "k", "chat_completions", 8000)
    dialect, client = dialect_of(runtime.api_mode, runtime.facts), build_client(runtime)
    call = StreamCall(dialect.format, b"{}", "it", 30.0, 30.0)
    reply = stream(client, call, dialect.format.read_answer(dialect.name), CancelToken(), taken.release)
    release_client(client)
    assert reply.text == "a" * 12


@pytest.mark.parametrize("mood", [silent(), drip], ids=["no head", "dripped head"])
def test_a_stop_while_waiting_for_the_head_is_heard(model: MoodyModel, mood: Mood) -> None:
    """C4, D13."""
    model.mood = mood
    agent = make_agent(model.base_url)
    thread, box = start(agent)
    wait_until(lambda: bool(model.requests))
    agent.interrupt()
    thread.join(20)
    assert box[0]["interrupted"] is True
    assert len(model.requests) == 1


def test_a_stop_in_the_pause_before_a_new_connection_is_heard(
    model: MoodyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C4: the pause waits on the turn's token, and the client that was there stays usable."""
    model.mood = hang_up
    for name in ("RECOVERY_PAUSE", "LONGEST_RECOVERY_PAUSE"):
        monkeypatch.setattr(f"run_agent.runtime_switch.{name}", 600)
    agent = make_agent(model.base_url)
    recovering = threading.Event()
    real = agent.recover

    def recover(failure: ModelFailure, pause: Any) -> bool:
        recovering.set()
        return real(failure, pause)

    monkeypatch.setattr(agent, "recover", recover)
    thread, box = start(agent)
    assert recovering.wait(20)
    asked = len(model.requests)
    agent.interrupt()
    thread.join(20)
    assert box[0]["interrupted"] is True
    assert len(model.requests) == asked
    model.mood = answer("hello")
    assert agent.run_conversation("again")["final_response"] == "hello"
