"""One classifier: what a failed call calls for, on bodies as providers send them."""

import pytest

from agent.failures import classify, is_transport_error, parse_retry_after, transport_failure
from hermes_base.errors import FailureKind

K = FailureKind
BODIES = [
    (
        400,
        '{"message": "This model\'s maximum context length is 128000 tokens", "code": "context_length_exceeded"}',
        K.OVERFLOW,
    ),
    (400, '{"message": "prompt is too long: 201000 tokens > 200000 maximum"}', K.OVERFLOW),
    (400, '{"message": "the request exceeds the available context size, try increasing it"}', K.OVERFLOW),
    (400, '{"message": "max_tokens: 99999 > 64000, which is the maximum allowed number of output tokens"}', K.FIX),
    (400, '{"message": "Unrecognized request argument supplied: foo"}', K.FIX),
    (401, '{"message": "Incorrect API key provided"}', K.ROTATE),
    (402, '{"message": "Insufficient Balance"}', K.ROTATE),
    (403, '{"message": "Forbidden"}', K.ROTATE),
    (404, '{"message": "The model `x` does not exist"}', K.NEXT),
    (408, "timeout", K.RETRY),
    (413, "request_too_large", K.OVERFLOW),
    (418, "teapot", K.FIX),
    (422, "unprocessable", K.FIX),
    (429, '{"message": "Rate limit reached"}', K.RETRY),
    (429, '{"message": "You exceeded your current quota, please check your plan and billing details"}', K.ROTATE),
    (500, "", K.RETRY),
    (502, "<html>bad gateway</html>", K.RETRY),
    (503, "overloaded", K.RETRY),
    (529, '{"type": "overloaded_error"}', K.RETRY),
]


@pytest.mark.parametrize(("status", "body", "kind"), BODIES)
def test_each_failure_calls_for_one_thing(status: int, body: str, kind: FailureKind) -> None:
    found = classify(status, body, None, "Somebody")
    assert (found.kind, found.status) == (kind, 402 if "quota" in body else status)
    assert "Somebody" in str(found)


def test_a_long_body_is_cut_in_the_sentence() -> None:
    assert len(str(classify(500, "x" * 10_000, None, "Somebody"))) < 600


@pytest.mark.parametrize(
    ("value", "seconds"), [("3", 3.0), ("0.5", 0.5), ("-1", 0.0), (None, None), ("Wed, 21 Oct", None)]
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value) == seconds


def test_a_lost_connection_is_a_transport_failure_with_its_cause() -> None:
    error = RuntimeError("outer")
    error.__cause__ = ConnectionRefusedError("[Errno 111] Connection refused")
    found = transport_failure(error, "Somebody", "http://h/v1")
    assert "Connection refused" in str(found)
    assert is_transport_error(found)
    assert is_transport_error(ConnectionResetError())
    assert not is_transport_error(ValueError())
