"""Runs: started and left, followed from anywhere, stopped, asked and answered, found again after a restart."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from api_house import ApiHouse, join_texts, read_events
from waiting import wait_until

from gateway.service import gateway
from hermes_base.errors import StoreFailure
from hermes_lab.server import LabServer

WORKS = '[[say I look.]][[tool terminal {"command": "echo hi"}]][[then]][[say Done.]]'


def start(http: httpx2.Client, text: str, **more: Any) -> dict[str, Any]:
    answer = http.post("/v1/runs", json={"input": text, **more})
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


def wait_status(http: httpx2.Client, run: str, *status: str) -> dict[str, Any]:
    wait_until(lambda: http.get(f"/v1/runs/{run}").json()["status"] in status)
    return dict(http.get(f"/v1/runs/{run}").json())


def test_a_run_is_followed_from_its_beginning(api: ApiHouse) -> None:
    http = api.http()
    run = start(http, WORKS)
    assert run["status"] in ("queued", "in_progress")
    events = read_events(http, run["id"])
    assert len({id for id, _ in events}) == len(events)
    assert [data["type"] for _, data in events] == [
        "run.started",
        "text",
        "text.ended",
        "tool.started",
        "tool.ended",
        "text",
        "run.ended",
    ]
    last = events[-1][1]["run"]
    assert (last["status"], last["output"]) == ("completed", "I look.\n\nDone.")
    assert join_texts(events) == last["output"]
    assert read_events(http, run["id"], events[3][0]) == events[4:]
    assert read_events(http, run["id"], events[-1][0]) == events[-1:]
    told = http.get(f"/v1/runs/{run['id']}").json()
    assert told["session"]
    assert told["usage"]["total_tokens"] > 0


def test_a_store_that_fails_once_does_not_break_a_run(api: ApiHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """C2: the turn is well, so its run is, too; what could not be read at its end is read a little later."""
    real, failed = api.gateway.turns.outbox_of, []

    def fail_once(*args: Any) -> Any:
        if not failed:
            failed.append(args)
            raise StoreFailure("The store is locked.")
        return real(*args)

    http = api.http()
    monkeypatch.setattr(api.gateway.turns, "outbox_of", fail_once)
    run = start(http, WORKS)
    ended = wait_status(http, run["id"], "completed", "failed", "cancelled")
    assert failed
    assert (ended["status"], ended["output"]) == ("completed", "I look.\n\nDone.")


def test_an_id_of_another_run_begins_anew(api: ApiHouse) -> None:
    """C7: what was read is taken back, and the end comes."""
    http = api.http()
    first = read_events(http, start(http, "[[say First.]]")["id"])
    for last in ("0", "40", "nonsense", first[0][0], first[-1][0]):
        told = read_events(http, start(http, "[[say Second.]]")["id"], last)
        assert told[-1][1]["type"] == "run.ended", last
        assert join_texts(first + told) == "Second.", last


def test_a_run_is_stopped(api: ApiHouse, lab: LabServer) -> None:
    """C4, C6."""
    http = api.http()
    run = start(http, "[[stall 30]]", conversation="one")["id"]
    wait_until(lambda: bool(lab.in_flight))
    waits = start(http, "[[say Next.]]", conversation="one")["id"]
    assert http.post(f"/v1/runs/{waits}/stop").json() == {"id": waits, "stopped": False, "status": "queued"}
    assert http.post(f"/v1/runs/{run}/stop").json()["stopped"] is True
    ended = wait_status(http, run, "stopped")
    assert "stopped by the user" in ended["hermes"]["reason"]
    assert wait_status(http, waits, "completed")["output"] == "Next."
    assert http.post(f"/v1/runs/{run}/stop").json()["stopped"] is False


@pytest.fixture
def asking(lab: LabServer, home: Path) -> Any:
    with ApiHouse(home, lab.base_url, approvals={"mode": "ask"}) as made:
        yield made


@pytest.mark.parametrize(("choice", "runs"), [("approve", True), ("deny", False)])
def test_a_question_is_answered(asking: ApiHouse, home: Path, choice: str, runs: bool) -> None:
    """G4: the question is an event and stands in the run's status; its answer decides."""
    http, mark = asking.http(), home / "workspace" / "mark"
    mark.mkdir(parents=True)
    command = json.dumps({"command": "rm -rf mark"})
    run = start(http, f"[[tool terminal {command}]][[then]][[say Done.]]")["id"]
    wait_until(lambda: http.get(f"/v1/runs/{run}").json()["question"] is not None)
    question = http.get(f"/v1/runs/{run}").json()["question"]
    assert question["kind"] == "approval"
    assert choice in question["choices"]
    refused = http.post(f"/v1/runs/{run}/approve", json={"choice": "maybe"})
    assert refused.status_code == 400
    closed = http.post(f"/v1/runs/{run}/approve", json={"choice": choice, "question": "another"})
    assert closed.status_code == 409
    member = asking.http(asking.make_key(asking.make_member("ann")))
    assert member.post(f"/v1/runs/{run}/approve", json={"choice": choice}).status_code in (403, 404)
    answered = http.post(f"/v1/runs/{run}/approve", json={"choice": choice, "question": question["id"]})
    assert answered.json()["answered"] == choice
    wait_status(http, run, "completed")
    assert mark.exists() is not runs
    asked = [data["question"] for _, data in read_events(http, run) if data["type"] == "question"]
    assert asked[0]["id"] == question["id"]
    assert asked[-1] is None


def test_an_answer_without_an_id_is_for_the_first_question(asking: ApiHouse, home: Path) -> None:
    """G4: sent twice, it does not approve a second command that its sender has not read."""
    http, kept = asking.http(), home / "workspace" / "second"
    kept.mkdir(parents=True)
    first, second = (json.dumps({"command": f"rm -rf {name}"}) for name in ("first", "second"))
    run = start(http, f"[[tool terminal {first}]][[then]][[tool terminal {second}]][[then]][[say Done.]]")["id"]
    wait_until(lambda: http.get(f"/v1/runs/{run}").json()["question"] is not None)
    assert http.post(f"/v1/runs/{run}/approve", json={"choice": "approve"}).status_code == 200
    wait_until(lambda: "second" in ((http.get(f"/v1/runs/{run}").json()["question"] or {}).get("text") or ""))
    assert http.post(f"/v1/runs/{run}/approve", json={"choice": "approve"}).status_code == 409
    assert kept.exists()
    question = http.get(f"/v1/runs/{run}").json()["question"]["id"]
    assert http.post(f"/v1/runs/{run}/approve", json={"choice": "deny", "question": question}).status_code == 200
    wait_status(http, run, "completed")
    assert kept.exists()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that ends does not wait for turns."""
    monkeypatch.setattr(gateway, "GRACE_SECONDS", 0.1)


def test_a_run_is_found_after_a_restart(api: ApiHouse) -> None:
    """C1: the id holds all that is needed; the store has the rest."""
    run = start(api.http(), WORKS)["id"]
    before = wait_status(api.http(), run, "completed")
    api.stop()
    api.start()
    after = api.http().get(f"/v1/runs/{run}").json()
    assert (after["status"], after["output"], after["session"]) == ("completed", before["output"], before["session"])
    events = read_events(api.http(), run)
    assert events[-1][1]["run"]["output"] == before["output"]


def test_a_run_goes_on_after_a_restart(api: ApiHouse, lab: LabServer, hasty: None) -> None:
    """C1, C15: a turn that the gateway's end cut goes on, and its run tells the answer."""
    lab.set_plan([{"text": "Late.", "stall_first": 60}, {"text": "Late."}])
    run = start(api.http(), "Hello")["id"]
    wait_until(lambda: bool(lab.in_flight))
    api.stop()
    api.start()
    assert wait_status(api.http(), run, "completed")["output"] == "Late."


def test_a_stream_ends_when_the_gateway_does(api: ApiHouse, lab: LabServer, hasty: None) -> None:
    """C14: who follows a run is told that it goes on later."""
    http = api.http()
    run = start(http, "[[stall 60]]")["id"]
    wait_until(lambda: bool(lab.in_flight))
    with http.stream("GET", f"/v1/runs/{run}/events") as answer:
        api.loop.call_soon_threadsafe(api.gateway.shut_down, "the test")
        text = "".join(answer.iter_text())
    assert '"type":"closing"' in text
    assert "the run goes on when Hermes runs again" in text


def test_a_command_runs_beside_nothing(api: ApiHouse) -> None:
    http = api.http(**{"X-Hermes-Commands": "1"})
    run = start(http, "/help")["id"]
    assert "/stop" in wait_status(http, run, "completed")["output"]
