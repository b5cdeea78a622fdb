"""One classifier: what a failed call calls for, on bodies as providers send them."""

import json

import pytest

from agent.providers.failures import (
    classify,
    in_stream_failure,
    is_transport_error,
    parse_retry_after,
    transport_failure,
)
from hermes_base.errors import Concern, FailureKind

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
    (403, '{"message": "Forbidden"}', K.NEXT),
    (404, '{"message": "The model `x` does not exist"}', K.NEXT),
    (408, "timeout", K.RETRY),
    (413, "request_too_large", K.OVERFLOW),
    (418, "teapot", K.NEXT),
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


S = Concern
#: Status, body as it is sent, what it calls for, what it is about.
ABOUT = [
    (
        400,
        '{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access '
        'the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}',
        K.ROTATE,
        S.KEY,
    ),
    (
        400,
        '{"error":{"code":"Arrearage","message":"Access denied, please make sure your account is in good standing."}}',
        K.ROTATE,
        S.KEY,
    ),
    (
        400,
        '{"error":{"code":400,"message":"API key not valid. Please pass a valid API key."}}',
        K.ROTATE,
        S.KEY,
    ),
    (
        400,
        '{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***ey."}',
        K.ROTATE,
        S.KEY,
    ),
    (400, '{"error":{"message":"openai/gpt-9 is not a valid model ID","code":400}}', K.NEXT, S.MODEL),
    (400, '{"error":{"message":"Model Not Exist","type":"invalid_request_error"}}', K.NEXT, S.MODEL),
    (
        400,
        '{"error":{"message":"The model `llama3-70b-8192` has been decommissioned and is no longer supported.",'
        '"type":"invalid_request_error","code":"model_decommissioned"}}',
        K.NEXT,
        S.MODEL,
    ),
    (
        400,
        '{"object":"error","message":"Invalid model: mistral-huge","type":"invalid_model","code":"1500"}',
        K.NEXT,
        S.MODEL,
    ),
    (400, '{"message":"The provided model identifier is invalid."}', K.NEXT, S.MODEL),
    (
        400,
        '{"error":{"message":"Your request was rejected as a result of our safety system.",'
        '"code":"content_policy_violation"}}',
        K.NEXT,
        S.TEXT,
    ),
    (
        400,
        '{"error":{"message":"Invalid schema for function \'look\'","param":"tools[0].function.parameters"}}',
        K.FIX,
        S.REQUEST,
    ),
    (
        400,
        '{"error":{"message":"Unsupported value: \'temperature\' does not support 0.2 with this model."}}',
        K.FIX,
        S.REQUEST,
    ),
    (401, '{"error":{"message":"Incorrect API key provided: sk-***"}}', K.ROTATE, S.KEY),
    (402, '{"error":{"message":"Insufficient credits"}}', K.ROTATE, S.KEY),
    (
        403,
        '{"error":{"message":"openai/gpt-5 requires moderation. Your input was flagged for \\"violence\\"",'
        '"metadata":{"reasons":["violence"],"flagged_input":"..."}}}',
        K.NEXT,
        S.TEXT,
    ),
    (
        403,
        '{"error":{"message":"Project does not have access to model `gpt-5`","code":"model_not_found"}}',
        K.NEXT,
        S.MODEL,
    ),
    (403, '{"error":{"type":"permission_error","message":"Your API key does not have permission"}}', K.ROTATE, S.KEY),
    (403, '{"error":{"message":"Country, region, or territory not supported"}}', K.ROTATE, S.KEY),
    (404, '{"error":{"message":"The model `gpt-9` does not exist or you do not have access to it."}}', K.NEXT, S.MODEL),
    (425, "too early", K.RETRY, S.REQUEST),
    (429, '{"error":{"message":"Rate limit reached for gpt-5"}}', K.RETRY, S.MODEL),
    (429, '{"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}', K.ROTATE, S.KEY),
    (451, "Unavailable For Legal Reasons", K.NEXT, S.REQUEST),
    (499, "client closed request", K.RETRY, S.MODEL),
    (503, '{"error":{"message":"No instances available"}}', K.RETRY, S.MODEL),
]


@pytest.mark.parametrize(("status", "body", "kind", "concern"), ABOUT)
def test_each_failure_is_about_one_thing(status: int, body: str, kind: FailureKind, concern: Concern) -> None:
    """D1: the words of a body go before its status."""
    found = classify(status, body, None, "Somebody")
    assert (found.kind, found.concern) == (kind, concern)
    assert f"HTTP {status}" in str(found)


#: Status and words of a refusal, and what of the request is refused.
REFUSED_CONTENT = [
    (400, "Could not process image", S.PICTURE),
    (
        400,
        "messages.0.content.1.image.source.base64.data: The image was specified using the image/png media type, but "
        "the image appears to be a image/gif image",
        S.PICTURE,
    ),
    (400, "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 5816792 bytes > 5242880", S.PICTURE),
    (400, "At least one of the image dimensions exceed max allowed size: 8000 pixels", S.PICTURE),
    (400, "Invalid content type. image_url is only supported by certain models.", S.PICTURE),
    (400, "messages[0]: unknown variant `image_url`, expected `text` at line 1 column 90", S.PICTURE),
    (400, "This model is not supported for image input", S.PICTURE),
    (400, "You uploaded an unsupported image. Please make sure your image is valid.", S.PICTURE),
    (400, "At most 0 image(s) may be provided in one request.", S.PICTURE),
    (400, "Unable to process input image. Please retry or report in troubleshooting guide", S.PICTURE),
    (400, "this model is missing data required for image input", S.PICTURE),
    (400, "'messages.1.content' : content must be a string", S.PICTURE),
    (404, "No endpoints found that support image input", S.PICTURE),
    (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", S.PICTURE),
    (400, "Invalid prompt: your prompt was flagged as potentially violating our usage policy.", S.TEXT),
    (400, "Output blocked by content filtering policy", S.TEXT),
    (400, "The response was filtered due to the prompt triggering our content management policy.", S.TEXT),
    (400, "The request was rejected because it was considered high risk", S.TEXT),
    (403, "Content violates usage guidelines.", S.TEXT),
    (403, "Your account was suspended for violating our usage policies.", S.KEY),
    (404, "The model `gpt-image-1` does not exist", S.MODEL),
    (400, "The model `gpt-image-1` is not supported", S.MODEL),
    (500, "failed to pull image registry/model-server:3", S.MODEL),
]


@pytest.mark.parametrize(("status", "message", "concern"), REFUSED_CONTENT)
def test_what_is_refused_of_a_request_is_told_from_what_else_is_not_well(
    status: int, message: str, concern: Concern
) -> None:
    """D1, D3: a picture or a text that is not taken says nothing about the model, and others may take it."""
    found = classify(status, json.dumps({"error": {"message": message}}), None, "Somebody")
    assert found.concern is concern
    assert (found.kind is K.NEXT) == (concern in (S.PICTURE, S.TEXT) or status == 404 or "not supported" in message)


@pytest.mark.parametrize("code", ["invalid_image_format", "image_parse_error", "image_too_large"])
def test_a_picture_may_also_be_refused_in_mid_stream(code: str) -> None:
    """D1"""
    found = in_stream_failure({"code": code, "message": "It cannot be read."}, "Somebody")
    assert (found.kind, found.concern) == (K.NEXT, S.PICTURE)


def test_a_request_that_no_minute_has_room_for_is_too_long() -> None:
    """D3, D10: it says nothing about the model, and to wait would not help."""
    body = "Request too large for m1 on tokens per min (TPM): Limit 30000, Requested 41000."
    found = classify(429, json.dumps({"error": {"message": body}}), 2.0, "Somebody")
    assert (found.kind, found.concern) == (K.OVERFLOW, S.REQUEST)


def test_who_refuses_a_connection_is_gone_and_who_says_nothing_may_serve_another_model() -> None:
    """D2, D3"""
    refused = transport_failure(ConnectionRefusedError("refused"), "Somebody", "http://h/v1")
    assert (refused.concern, refused.stalled) == (S.ADDRESS, False)
    silent = transport_failure(TimeoutError("timed out"), "Somebody", "http://h/v1")
    assert (silent.concern, silent.stalled) == (S.MODEL, True)


def test_a_long_body_is_cut_in_the_sentence() -> None:
    assert len(str(classify(500, "x" * 10_000, None, "Somebody"))) < 600


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("3", 3.0), ("0.5", 0.5), ("0", 0.0), ("-5", None), ("nan", None), (None, None), ("Wed, 21 Oct", None)],
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
