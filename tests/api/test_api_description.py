"""The description of the API: it names every call, and the API keeps to it."""

from collections.abc import Mapping
from typing import Any

import pytest
import schemathesis
from api_house import ApiHouse
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gateway.http.api.description import describe_api
from gateway.http.api.routes import CALLS

#: Chance alone hardly ever makes a question that can be answered.
BODIES: Mapping[str, Any] = {
    "/v1/chat/completions": {"model": "hermes", "messages": [{"role": "user", "content": "Hi"}]},
    "/v1/responses": {"input": "Hi"},
    "/v1/runs": {"input": "Hi"},
}


def test_the_description_is_whole() -> None:
    """Every name that it refers to is in it."""
    document = describe_api("1.0", CALLS)
    schema = schemathesis.openapi.from_dict(document)
    schema.validate()
    assert len(list(schema.get_all_operations())) == len(CALLS)
    for operation in schema.get_all_operations():
        assert operation.ok().definition.raw["responses"]


def test_it_is_served_without_a_key(api: ApiHouse) -> None:
    http = api.http("")
    assert http.get("/openapi.json").json()["openapi"] == "3.1.0"
    assert http.get("/health").json() == {"status": "ok"}
    assert http.get("/ready").json() == {"status": "ready"}


def test_readiness_tells_why_not(api: ApiHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """H10: a gateway that would take no message says so, and why."""
    api.gateway.host.closing = True
    try:
        answer = api.http("").get("/ready")
    finally:
        api.gateway.host.closing = False
    assert answer.status_code == 503
    assert answer.json()["reason"]


def find_ids(api: ApiHouse) -> dict[str, str]:
    """A session, a run, a response and a model that are there, by the beginning of their paths."""
    made = api.http().post("/v1/responses", json={"input": "[[say Hello.]]"})
    run = made.headers["x-hermes-run"]
    session = made.headers["x-hermes-session"]
    return {"sessions": session, "runs": run, "responses": made.json()["id"], "models": "hermes"}


def load_description(api: ApiHouse) -> schemathesis.BaseSchema:
    """As it is served, with a model that is there, so that most requests get as far as the agent."""
    document = api.http("").get("/openapi.json").json()
    for name in ("ChatRequest", "ResponseRequest", "RunRequest"):
        document["components"]["schemas"][name]["properties"]["model"] = {"enum": ["hermes", "lab"]}
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=api.address)
    return schema


def make_cases(operation: schemathesis.APIOperation, ids: dict[str, str]) -> st.SearchStrategy[schemathesis.Case]:
    """Right and wrong requests, with ids that are there and ids that are not."""
    real = {"id": ids[operation.path.split("/")[2]]} if "{id}" in operation.path else None
    body = BODIES.get(operation.path)
    places: list[dict[str, Any]] = [{}, *([{"path_parameters": real}] if real else ())]
    if body is not None:
        places.append({"body": body, "media_type": "application/json"})
    return st.one_of(
        operation.as_strategy(generation_mode=mode, **place) for mode in schemathesis.GenerationMode for place in places
    )


@pytest.mark.file_store  # threads of a pool of connections use `random`, which Hypothesis takes for the strategies'
@pytest.mark.slow
def test_no_call_breaks_the_server(api: ApiHouse) -> None:
    """Requests made from the description, right and wrong ones, never get a failure of ours."""
    headers, ids = {"Authorization": f"Bearer {api.token}"}, find_ids(api)
    seen: dict[str, set[int]] = {}
    for found in load_description(api).get_all_operations():
        operation = found.ok()
        seen[operation.label] = set()

        @settings(max_examples=12, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True)
        @given(make_cases(operation, ids))
        def call(case: schemathesis.Case) -> None:
            answer = case.call(headers=headers, timeout=20)
            seen[case.operation.label].add(answer.status_code)
            assert answer.status_code < 500, f"{case.as_curl_command()}\n{answer.text}"

        call()
    assert len(seen) == len(CALLS)
    assert 200 in seen["POST /v1/chat/completions"]
    assert 200 in seen["POST /v1/responses"]
    assert 200 in seen["GET /v1/runs/{id}/events"]
