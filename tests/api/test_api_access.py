"""Who may use the API, and what they see: keys, people, scope."""

import json
import logging
from contextlib import closing
from pathlib import Path
from typing import Any

import openai
import pytest
from api_house import ApiHouse
from waiting import wait_until

from gateway.service.admin import key_admin
from gateway.service.queries import all_queries
from hermes_base.errors import HermesError
from hermes_base.store_place import find_place
from hermes_cli import main as entry
from hermes_cli.cmds import api_keys_cmd
from hermes_constants import get_hermes_home
from hermes_lab.server import LabServer
from hermes_state.people_store import MEMBER, OWNER
from hermes_state.sql.store_sql import Store

Output = pytest.CaptureFixture[str]
HELLO: Any = [{"role": "user", "content": "[[say Hello.]]"}]


def run(output: Output, *args: str) -> str:
    assert api_keys_cmd.main(list(args)) == 0
    return output.readouterr().out


def status(api: ApiHouse, key: str) -> int:
    return int(api.http(key).get("/v1/models").status_code)


# --- the command


@pytest.mark.file_store
def test_a_key_is_told_once_and_never_kept(capsys: Output) -> None:
    """G6: the store has a digest; the list shows no secret."""
    made = json.loads(run(capsys, "create", "--name", "phone\x1b[2J", "--json"))
    assert made["key"].startswith("hk_")
    assert len(made["key"]) == 46
    listed = run(capsys, "list")
    assert made["id"] in listed
    assert "never used" in listed
    assert "\x1b" not in listed
    assert made["key"] not in listed
    everything = b"".join(path.read_bytes() for path in get_hermes_home().rglob("*") if path.is_file())
    assert made["key"].encode() not in everything
    assert key_admin.digest_of(made["key"]).encode() in everything


def test_a_key_is_revoked_once(capsys: Output) -> None:
    made = json.loads(run(capsys, "create", "--json"))
    assert "does not hold any more" in run(capsys, "revoke", made["id"])
    assert "revoked" in run(capsys, "list")
    with pytest.raises(HermesError, match="no key"):
        api_keys_cmd.main(["revoke", made["id"]])


def test_a_key_belongs_to_somebody_who_is_there(capsys: Output) -> None:
    with pytest.raises(HermesError, match="nobody"):
        api_keys_cmd.main(["create", "--person", "p-none"])
    with closing(Store(find_place(get_hermes_home()))) as store:
        ann = store.people.add("Ann", MEMBER, "chat", "1")
    assert ann.id in run(capsys, "create", "--person", ann.id)
    with closing(Store(find_place(get_hermes_home()))) as store:
        store.people.remove(ann.id)
    assert "revoked" in run(capsys, "list")


def test_the_command_has_its_place(capsys: Output) -> None:
    assert entry.main(["api-keys", "list"]) == 0
    assert "There are no keys" in capsys.readouterr().out


def test_keys_are_made_through_a_running_gateway(api: ApiHouse, capsys: Output) -> None:
    key = run(capsys, "create").splitlines()[0]
    assert status(api, key) == 200


# --- at the door


def test_without_a_key_nothing_is_told(api: ApiHouse) -> None:
    """G1: closed by default, in the form that clients know."""
    for key in ("", "hk_wrong", "hk_" + "x" * 43, "é"):
        answer = api.http("").get("/v1/models", headers={"Authorization": f"Bearer {key}".encode()} if key else {})
        assert answer.status_code == 401
        assert answer.json()["error"]["type"] == "authentication_error"
        assert answer.headers["x-should-retry"] == "false"
    with pytest.raises(openai.AuthenticationError):
        api.client("hk_wrong").models.list()
    for path in ("/v1/sessions", "/metrics", "/v1/runs/x", "/v1/responses/x"):
        assert api.http("").get(path).status_code == 401


def test_a_revoked_key_is_refused_within_seconds(api: ApiHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    assert all_queries.FRESH_SECONDS <= 5
    monkeypatch.setattr(all_queries, "FRESH_SECONDS", 0.2)
    key = api.make_key(name="phone")
    assert status(api, key) == 200
    (row,) = api.gateway.store.keys.keys()
    assert row.last_used is not None
    api.run(api.gateway.operations.perform("keys.revoke", {"id": row.id}))
    wait_until(lambda: status(api, key) == 401, 5)


def test_a_removed_person_is_refused(api: ApiHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """G3: the keys of somebody who was removed do not hold any more."""
    monkeypatch.setattr(all_queries, "FRESH_SECONDS", 0.2)
    ann = api.make_member("ann")
    key = api.make_key(ann)
    assert status(api, key) == 200
    api.run(api.gateway.operations.perform("people.remove", {"id": ann}))
    wait_until(lambda: status(api, key) == 401, 5)


def test_who_was_taken_out_of_the_settings_is_refused(
    lab: LabServer, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """G3: the key of somebody who may not speak today does nothing, says why, and is told of in the list; it holds
    again with them."""
    monkeypatch.setattr(all_queries, "FRESH_SECONDS", 0.0)
    listed: dict[str, Any] = {"chat": {"allow": ["ann"]}}
    with ApiHouse(home, lab.base_url, platforms=listed) as api:
        ann = api.gateway.people.add("Ann", MEMBER, "chat", "ann", listed=True).id
        key = api.make_key(ann)
        assert status(api, key) == 200
        assert "refused" not in run(capsys, "list")
        api.write_settings(platforms={"chat": {"allow": []}})
        calls = len(lab.requests)
        said = api.http(key).post("/v1/chat/completions", json={"model": "hermes", "messages": HELLO})
        assert said.status_code == 401
        assert "may not speak" in said.json()["error"]["message"]
        assert len(lab.requests) == calls
        assert "its person may not speak now" in run(capsys, "list")
        api.write_settings(platforms=listed)
        assert status(api, key) == 200


def test_a_key_of_who_was_the_owner_is_no_owners(lab: LabServer, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G3: a key goes with its person, whatever they were when it was made."""
    monkeypatch.setattr(all_queries, "FRESH_SECONDS", 0.0)
    with ApiHouse(home, lab.base_url, platforms={"chat": {"owner": "olga"}}) as api:
        olga = api.gateway.people.add("Olga", OWNER, "chat", "olga", listed=True).id
        key = api.make_key(olga)
        assert api.http(key).get("/metrics").status_code == 200
        api.write_settings(platforms={"chat": {"owner": "ben", "allow": ["olga"]}})
        assert api.http(key).get("/metrics").status_code == 403
        assert status(api, key) == 200


@pytest.mark.parametrize("query", ["api_key=KEY", "key=KEY", "token=KEY", "words=KEY", "x=y&words=a%20KEY"])
def test_a_key_in_the_address_is_refused(api: ApiHouse, caplog: pytest.LogCaptureFixture, query: str) -> None:
    """G6: with a sentence that says to revoke it; it stands in no answer and no log."""
    key = api.make_key()
    with caplog.at_level(logging.DEBUG, "gateway"):
        for http in (api.http(), api.http("")):
            answer = http.get(f"/v1/sessions?{query.replace('KEY', key)}")
            assert answer.status_code == 400
            assert answer.json()["error"]["code"] == "key_in_url"
            assert "revoke" in answer.json()["error"]["message"]
            assert key not in answer.text
    assert api.http("").get(f"/v1/sessions/{key}").status_code == 400
    assert key not in caplog.text


# --- whose is what


@pytest.fixture
def shared(lab: LabServer, home: Path) -> Any:
    with ApiHouse(home, lab.base_url, people={"shared": True}) as made:
        yield made


def test_a_member_sees_their_own_alone(shared: ApiHouse) -> None:
    """G12: sessions, messages, runs and responses of others are not there."""
    ann, bob = (shared.make_key(shared.make_member(name)) for name in ("ann", "bob"))
    raw = shared.client(ann).chat.completions.with_raw_response.create(
        model="hermes", messages=[{"role": "user", "content": "[[say Secret of Ann.]]"}]
    )
    session, run_id = raw.headers["x-hermes-session"], raw.headers["x-hermes-run"]
    conversation = raw.headers["x-hermes-conversation"]
    response = "resp_" + run_id.removeprefix("run_")
    own, other = shared.http(ann), shared.http(bob)
    paths = [
        f"/v1/sessions/{session}",
        f"/v1/sessions/{session}/messages",
        f"/v1/runs/{run_id}",
        f"/v1/runs/{run_id}/events",
        f"/v1/responses/{response}",
    ]
    assert [own.get(path).status_code for path in paths] == [200] * 5
    assert [other.get(path).status_code for path in paths] == [404] * 5
    assert [one["id"] for one in own.get("/v1/sessions").json()["data"]] == [session]
    assert other.get("/v1/sessions").json()["data"] == []
    assert other.get("/v1/sessions?words=Secret").json()["data"] == []
    assert own.get("/v1/sessions?words=Secret").json()["data"]
    changes = [
        other.patch(f"/v1/sessions/{session}", json={"title": "Mine"}),
        other.delete(f"/v1/sessions/{session}"),
        other.post(f"/v1/sessions/{session}/fork"),
        other.post(f"/v1/runs/{run_id}/stop"),
        other.post(f"/v1/runs/{run_id}/approve", json={"choice": "x"}),
        other.post(f"/v1/responses/{response}/cancel"),
        other.post("/v1/responses", json={"input": "Hi", "previous_response_id": response}),
        other.post("/v1/runs", json={"input": "Hi", "conversation": session}),
        other.post("/v1/runs", json={"input": "Hi", "conversation": conversation}),
    ]
    assert [answer.status_code for answer in changes] == [404] * len(changes)
    assert own.get(f"/v1/sessions/{session}").json()["title"] != "Mine"


def test_a_name_belongs_to_its_person(shared: ApiHouse) -> None:
    """G12: the same name is another conversation for somebody else."""
    keys = [shared.make_key(shared.make_member(name)) for name in ("ann", "bob")]
    places = set()
    for key in keys:
        raw = shared.client(key).chat.completions.with_raw_response.create(
            model="hermes", messages=HELLO, extra_headers={"X-Hermes-Conversation": "work"}
        )
        places.add(raw.headers["x-hermes-conversation"])
    assert len(places) == 2


def test_metrics_are_the_owners(api: ApiHouse) -> None:
    """H9: in the text format of Prometheus, for the owner's keys and the page's token."""
    for http in (api.http(), api.http(api.make_key())):
        answer = http.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert "# TYPE hermes_" in answer.text
    assert api.http(api.make_key(api.make_member("ann"))).get("/metrics").status_code == 403


# --- sessions


def test_sessions_are_listed_in_pages(api: ApiHouse) -> None:
    client, http = api.client(), api.http()
    for number in range(5):
        client.chat.completions.create(model="hermes", messages=[{"role": "user", "content": f"Number {number}"}])
    seen: list[str] = []
    page: dict[str, Any] = {"has_more": True}
    while page["has_more"]:
        before = f"&before={page['before']}" if seen else ""
        page = http.get(f"/v1/sessions?limit=2{before}").json()
        seen += [session["preview"] for session in page["data"]]
    assert seen == [f"Number {number}" for number in reversed(range(5))]


def test_a_session_is_read_changed_copied_and_deleted(api: ApiHouse, lab: LabServer) -> None:
    http = api.http()
    raw = api.client().chat.completions.with_raw_response.create(model="hermes", messages=HELLO)
    session = raw.headers["x-hermes-session"]
    entries = http.get(f"/v1/sessions/{session}/messages").json()["data"]
    assert [(entry["kind"], entry["text"]) for entry in entries] == [
        ("user", "[[say Hello.]]"),
        ("assistant", "Hello."),
    ]
    assert http.patch(f"/v1/sessions/{session}", json={"title": "Greeting"}).json()["title"] == "Greeting"
    fork = http.post(f"/v1/sessions/{session}/fork")
    assert fork.status_code == 201
    assert fork.json()["conversation"] != raw.headers["x-hermes-conversation"]
    ran = http.post("/v1/responses", json={"input": "And?", "conversation": fork.json()["id"]})
    assert ran.status_code == 200
    assert len(lab.requests[-1].json()["messages"]) == 4
    assert http.delete(f"/v1/sessions/{session}").json()["deleted"] is True
    assert http.get(f"/v1/sessions/{session}").status_code == 404
    assert http.delete(f"/v1/sessions/{session}").status_code == 404


def test_a_session_at_work_is_not_deleted(api: ApiHouse, lab: LabServer) -> None:
    http = api.http()
    first = http.post("/v1/responses", json={"input": "Hi", "conversation": "one"}).headers["x-hermes-session"]
    http.post("/v1/runs", json={"input": "[[stall 1]]", "conversation": "one"})
    wait_until(lambda: bool(lab.in_flight))
    assert http.delete(f"/v1/sessions/{first}").status_code == 409


def test_a_name_of_a_key_is_short(home: Path) -> None:
    """F7: what is kept of a key has a bound."""
    assert entry.main(["api-keys", "create", "--name", "x" * 1_000]) == entry.FAILED
    assert entry.main(["api-keys", "create", "--name", "x" * 200]) == 0
