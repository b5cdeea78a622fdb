"""C2, C10: a client whose gateway is killed in the middle of its question gets one answer, from the next."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from api_house import join_texts, read_events
from gateway_process import GatewayProcess
from openai import OpenAI
from waiting import wait_until
from web_house import find_free_port

from agent.turn.driver import NOT_APPROVED
from gateway.http import access
from hermes_base.store_place import find_place
from hermes_lab.server import LabServer
from hermes_state.sql.store_sql import Store


@pytest.mark.slow
def test_a_client_survives_a_killed_gateway(home: Path, lab: LabServer) -> None:
    """C1, C10: what the client sends again finds the turn that goes on, not a second one."""
    port = find_free_port()
    lab.set_plan([{"text": "Cut.", "stall_first": 30}, {"text": "Survived."}])
    with ExitStack() as closing:
        gateway = closing.enter_context(GatewayProcess(home, lab.base_url, web={"port": port}))
        token = access.read_token(home)
        gateway.start()
        address = f"http://127.0.0.1:{port}/v1"
        client = closing.enter_context(OpenAI(base_url=address, api_key=token, max_retries=20, timeout=30))
        answers: list[str | None] = []

        def ask() -> None:
            told = client.chat.completions.create(model="hermes", messages=[{"role": "user", "content": "Well?"}])
            answers.append(told.choices[0].message.content)

        asking = threading.Thread(target=ask)
        asking.start()
        wait_until(lambda: lab.in_flight == 1)
        gateway.kill()
        gateway.start()
        asking.join(60)
        assert answers == ["Survived."]
        assert gateway.terminate() == 0
    store = Store.open_readonly(find_place(home))
    (session,) = store.sessions()
    assert [row.message["role"] for row in store.load(session.id).rows] == ["user", "assistant"]
    store.close()


LOOKS = {"text": "I look.", "tool_calls": [{"name": "todo", "arguments": {"action": "list"}}]}
OLD, NEW = "AAAA BBBB CCCC DDDD EEEE FFFF", "1111 2222 3333 4444 5555 6666"


@pytest.mark.slow
@pytest.mark.parametrize("works", [False, True])
def test_who_follows_a_run_over_a_kill_has_one_text(home: Path, lab: LabServer, works: bool) -> None:
    """C7, C10: the ids of a life that is over begin anew, what was read before is taken back, and the end comes."""
    slow = {"text": OLD, "chunks": 10, "stall_between": 0.2}
    lab.set_plan([*([LOOKS] if works else []), slow, {"text": NEW, "chunks": 10, "stall_between": 0.1}])
    port = find_free_port()
    with GatewayProcess(home, lab.base_url, web={"port": port}) as gateway:
        bearer = {"Authorization": f"Bearer {access.read_token(home)}"}
        gateway.start()
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=bearer, timeout=60) as http:
            run = http.post("/v1/runs", json={"input": "Well?"}).json()["id"]
            before = read_events(http, run, until=lambda told: "BBBB" in join_texts(told))
            gateway.kill()
            gateway.start()
            after = read_events(http, run, before[-1][0])
            whole = "I look.\n\n" + NEW if works else NEW
            assert after[-1][1]["run"]["output"] == whole
            assert join_texts(before + after) == whole
            assert join_texts(after) == whole
            gateway.kill()
            gateway.start()
            for last in ("", "2", "40", "nonsense", before[0][0], *(id for id, _ in after)):
                again = read_events(http, run, last)
                assert again[-1][1]["type"] == "run.ended", last
                assert join_texts([*after, *again] if last else again) == whole, last


@pytest.mark.slow
@pytest.mark.parametrize("end", [GatewayProcess.kill, GatewayProcess.terminate])
def test_a_call_that_nobody_approved_was_not_run(
    home: Path, lab: LabServer, end: Callable[[GatewayProcess], object]
) -> None:
    """C10, G4: the model is told so, and may ask again; the answer to the new question runs the command once."""
    call = {"tool_calls": [{"name": "terminal", "arguments": {"command": "echo yes >> approved", "level": "work"}}]}
    lab.set_plan([call, call, {"text": "Done."}])
    port, mark = find_free_port(), home / "workspace" / "approved"
    with GatewayProcess(home, lab.base_url, web={"port": port}, approvals={"mode": "ask"}) as gateway:
        bearer = {"Authorization": f"Bearer {access.read_token(home)}"}
        gateway.start()
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=bearer, timeout=60) as http:
            run = http.post("/v1/runs", json={"input": "Well?"}).json()["id"]
            look = lambda: http.get(f"/v1/runs/{run}").json()  # noqa: E731
            wait_until(lambda: look()["question"] is not None)
            before = look()["question"]["id"]
            end(gateway)
            gateway.start()
            wait_until(lambda: (asked := look()["question"]) is not None and asked["id"] != before)
            told = [message["content"] for message in lab.requests[1].json()["messages"] if message["role"] == "tool"]
            assert told == [NOT_APPROVED]
            assert not mark.exists()
            answer = {"choice": "approve", "question": look()["question"]["id"]}
            assert http.post(f"/v1/runs/{run}/approve", json=answer).status_code == 200
            wait_until(lambda: look()["output"] == "Done.")
            assert mark.read_text() == "yes\n"
