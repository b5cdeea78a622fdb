"""Programs ask a load balancer, which sends each request to another gateway: runs, keys and repetitions hold on all."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest
from api_house import join_texts, read_events
from gateway_nodes import Node, Nodes
from openai import OpenAI
from postgres_server import get_server
from waiting import wait_until

from hermes_lab.server import LabServer

PATIENCE = 60.0


@pytest.fixture
def two(tmp_path: Path, lab: LabServer) -> Iterator[Nodes]:
    with Nodes(tmp_path, lab, get_server().make_database()) as nodes:
        nodes.serve_pages("a", "b")
        yield nodes


@pytest.fixture
def key(two: Nodes) -> str:
    """Made on one of them."""
    return str(two.nodes["a"].operate("keys.create", name="program")["key"])


@pytest.fixture
def clients(two: Nodes, key: str) -> Iterator[tuple[httpx2.Client, httpx2.Client]]:
    a, b = (make_client(node, key) for node in two.nodes.values())
    with closing(a), closing(b):
        yield a, b


def make_client(node: Node, key: str) -> httpx2.Client:
    bearer = {"Authorization": f"Bearer {key}"}
    return httpx2.Client(base_url=f"http://127.0.0.1:{node.port}", headers=bearer, timeout=PATIENCE)


def test_a_run_is_read_followed_and_stopped_on_the_other_gateway(
    two: Nodes, clients: tuple[httpx2.Client, httpx2.Client]
) -> None:
    """B8, C7: begun on one, it is seen as it grows on the other, which also stops it."""
    a, b = clients
    started = a.post("/v1/runs", json={"input": "[[chunks 9]] [[pause 1]] [[say one two three four five six]]"})
    assert started.status_code == 202
    run = started.json()["id"]
    followed = read_events(b, run, until=lambda told: "one two" in join_texts(told))
    assert "one two" in join_texts(followed)
    read = b.get(f"/v1/runs/{run}").json()
    assert (read["id"], read["status"]) == (run, "in_progress")
    assert b.post(f"/v1/runs/{run}/stop").json()["stopped"]
    for client in clients:
        wait_until(lambda client=client: client.get(f"/v1/runs/{run}").json()["status"] == "stopped")  # type: ignore[misc]
    assert len(two.read("select seq from inbox where done_epoch is not null")) == 1


def test_a_run_is_whole_on_both_and_asks_on_both(clients: tuple[httpx2.Client, httpx2.Client]) -> None:
    """B8, G4: its question is answered where it does not run; both have the same answer."""
    a, b = clients
    asked = '[[tool clarify {"question": "Which one?", "choices": ["red", "blue"]}]] [[then]] [[say done]]'
    run = a.post("/v1/runs", json={"input": asked}).json()["id"]
    wait_until(lambda: b.get(f"/v1/runs/{run}").json().get("question") is not None)
    question = b.get(f"/v1/runs/{run}").json()["question"]
    assert question["text"] == "Which one?"
    answered = b.post(f"/v1/runs/{run}/approve", json={"choice": "blue", "question": question["id"]})
    assert answered.status_code == 200, answered.text
    for client in clients:
        told = read_events(client, run)
        assert join_texts(told) == "done"
        read = client.get(f"/v1/runs/{run}").json()
        assert (read["status"], read["output"]) == ("completed", "done")


def test_a_repetition_on_the_other_gateway_begins_nothing(
    two: Nodes, lab: LabServer, clients: tuple[httpx2.Client, httpx2.Client]
) -> None:
    """C1: with a key of its own while the first still runs and after it, and with another question it is refused."""
    a, b = clients
    body = {"model": "hermes", "messages": [{"role": "user", "content": "[[stall 2]] [[say once]]"}]}
    again = {"Idempotency-Key": "order-7"}
    answers: list[httpx2.Response] = []

    def ask(client: httpx2.Client) -> None:
        answers.append(client.post("/v1/chat/completions", json=body, headers=again))

    threads = [threading.Thread(target=ask, args=(client,)) for client in (a, b, a, b)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    ask(b)
    assert [answer.status_code for answer in answers] == [200] * 5
    assert {answer.json()["choices"][0]["message"]["content"] for answer in answers} == {"once"}
    assert len({answer.headers["x-hermes-run"] for answer in answers}) == 1
    assert len(lab.requests) == 1
    assert two.read("select count(*) from inbox") == [(1,)]
    other = {**body, "messages": [{"role": "user", "content": "something else"}]}
    refused = b.post("/v1/chat/completions", json=other, headers=again)
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "idempotency_key_reused")


def test_a_client_whose_gateway_died_gets_the_answer_of_its_run_from_the_other(
    two: Nodes, lab: LabServer, key: str
) -> None:
    """C1, C10, I2: it heard nothing, and sends its question again, without a key, to whoever is there now."""
    lab.set_plan([{"text": "Cut.", "stall_first": 60}, {"text": "Survived."}])
    first, second = two.nodes.values()
    body = {"model": "hermes", "messages": [{"role": "user", "content": "Well?"}]}
    retry = "x-stainless-retry-count"

    def ask_first() -> None:
        with closing(make_client(first, key)) as client, pytest.raises(httpx2.TransportError):
            client.post("/v1/chat/completions", json=body, headers={retry: "0"})

    asking = threading.Thread(target=ask_first)
    asking.start()
    wait_until(lambda: lab.in_flight == 1)
    first.kill()
    asking.join(PATIENCE)
    with closing(make_client(second, key)) as client:
        answer = client.post("/v1/chat/completions", json=body, headers={retry: "1"})
    assert answer.json()["choices"][0]["message"]["content"] == "Survived."
    assert two.read("select count(*) from inbox") == [(1,)]


def test_a_stream_goes_on_growing_though_another_gateway_has_the_turn(two: Nodes, key: str) -> None:
    """C7: the conversation belongs to one gateway, and is spoken to through the other."""
    a, b = (
        OpenAI(base_url=f"http://127.0.0.1:{node.port}/v1", api_key=key, max_retries=0, timeout=PATIENCE)
        for node in two.nodes.values()
    )
    with a, b:
        place = {"conversation": "shared"}
        messages = [{"role": "user", "content": "[[say first]]"}]
        a.chat.completions.create(model="hermes", messages=messages, extra_body=place)  # type: ignore[arg-type]
        ((owner,),) = two.read("select owner from conversation where owner is not null")
        assert owner == two.nodes["a"].node
        messages = [{"role": "user", "content": "[[chunks 6]] [[pause 0.3]] [[say one two three four five]]"}]
        pieces = [
            piece.choices[0].delta.content or ""
            for piece in b.chat.completions.create(model="hermes", messages=messages, stream=True, extra_body=place)  # type: ignore[call-overload]
            if piece.choices
        ]
        assert "".join(pieces) == "one two three four five"
        assert len([piece for piece in pieces if piece]) > 2


def test_a_key_that_was_revoked_opens_nothing_anywhere(
    two: Nodes, clients: tuple[httpx2.Client, httpx2.Client]
) -> None:
    """I4: made and used on one, revoked on the other, it ends on both."""
    assert [client.get("/v1/models").status_code for client in clients] == [200, 200]
    (made,) = two.nodes["b"].operate("keys.list")["keys"]
    two.nodes["b"].operate("keys.revoke", id=made["id"])
    for client in clients:
        wait_until(lambda client=client: client.get("/v1/models").status_code == 401)  # type: ignore[misc]
