"""Signatures of requests, on values: the documented examples of services, and what must never pass."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.platforms.signing import FORMS, OWN, check, is_near, is_same, is_signed, sign, write_signature

SECRET, NOW = "a secret of some length", 1_800_000_000.0
BODY = b'{"text": "hello"}'


def make_headers(form: str, body: bytes = BODY, secret: str = SECRET, now: float = NOW) -> dict[str, str]:
    """As each service writes them, made with nothing of ours."""
    when = str(int(now))
    prefix = {"hermes": f"{when}.", "stripe": f"{when}.", "slack": f"v0:{when}:"}.get(form, "")
    digest = hmac.new(secret.encode(), prefix.encode() + body, hashlib.sha256).hexdigest()
    return {
        "hermes": {"x-hermes-signature": f"t={when},v1={digest}"},
        "github": {"x-hub-signature-256": f"sha256={digest}"},
        "stripe": {"stripe-signature": f"t={when},v1={digest},v0=ignored"},
        "slack": {"x-slack-signature": f"v0={digest}", "x-slack-request-timestamp": when},
        "body": {"x-signature": digest},
        "token": {"authorization": f"Bearer {secret}"},
    }[form]


@pytest.mark.parametrize("form", FORMS)
def test_a_request_of_the_service_passes_and_no_other(form: str) -> None:
    headers = make_headers(form)
    assert check(FORMS[form], headers, BODY, [SECRET], NOW)
    assert check(
        FORMS[form], headers, BODY, ["another secret of ours", SECRET], NOW
    )  # while one takes the other's place
    assert not check(FORMS[form], headers, BODY, ["another secret of ours"], NOW)
    assert not check(FORMS[form], headers, BODY, [], NOW)
    assert not check(FORMS[form], {}, BODY, [SECRET], NOW)
    if form != "token":
        assert not check(FORMS[form], headers, BODY + b" ", [SECRET], NOW)


@pytest.mark.parametrize("form", [name for name, form in FORMS.items() if form.timed])
def test_a_signed_time_has_to_be_near_both_ways(form: str) -> None:
    headers = make_headers(form)
    for seconds in (-300, -1, 0, 299, 300):
        assert check(FORMS[form], headers, BODY, [SECRET], NOW + seconds)
    for seconds in (-100_000, -301, 301, 100_000):
        assert not check(FORMS[form], headers, BODY, [SECRET], NOW + seconds)


def test_the_time_itself_is_signed() -> None:
    headers = make_headers(OWN, now=NOW - 1000)
    fresh = headers["x-hermes-signature"].replace(f"t={int(NOW - 1000)}", f"t={int(NOW)}")
    assert not check(FORMS[OWN], {"x-hermes-signature": fresh}, BODY, [SECRET], NOW)


def test_the_documented_example_of_github() -> None:
    """https://docs.github.com/en/webhooks: secret, body and signature to test an implementation with."""
    digest = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    secret, body = "It's a Secret to Everybody", b"Hello, World!"
    assert sign(secret, body) == digest
    assert check(FORMS["github"], {"x-hub-signature-256": f"sha256={digest}"}, body, [secret], NOW)
    assert check(FORMS["github"], {"x-hub-signature-256": digest.upper()}, body, [secret], NOW)


def test_what_we_sign_passes_our_own_check() -> None:
    assert check(FORMS[OWN], write_signature(SECRET, BODY, NOW), BODY, [SECRET], NOW)


@given(st.text(), st.sampled_from(list(FORMS)), st.text())
def test_no_header_breaks_the_check_or_passes_by_chance(value: str, form: str, when: str) -> None:
    headers = {FORMS[form].header: value, "x-slack-request-timestamp": when}
    assert not check(FORMS[form], headers, BODY, [SECRET], NOW)


@given(st.lists(st.text(), max_size=30))
def test_every_signature_up_to_a_number_is_compared(others: list[str]) -> None:
    right = sign(SECRET, BODY)
    assert is_signed([right, *others], [SECRET], BODY)
    assert is_signed([*others[:9], right], [SECRET], BODY)
    assert not is_signed(["x"] * 10 + [right], [SECRET], BODY)


@pytest.mark.parametrize("when", ["", "-1", "1e9", "٣", "1800000000.0", "9" * 13, " 1800000000"])
def test_what_is_no_time_is_not_near(when: str) -> None:
    assert not is_near(when, NOW)


def test_plain_tokens_are_compared_whole() -> None:
    assert is_same("token", ["other", "token"])
    assert not is_same("", ["token"])
    assert not is_same("tok", ["token"])
    assert not is_same("tökén", ["token"])
