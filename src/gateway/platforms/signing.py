"""Signatures of requests: HMAC-SHA256, compared in constant time, with several secrets while one takes the place of
another, and a time that has to be near. Pure."""

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

MOST_SKEW = 300.0  # seconds between the signed time and ours, both ways
MOST_SIGNATURES = 10  # in one header that are looked at
_TIME = re.compile(r"[0-9]{1,12}")
_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class SignedParts:
    """What a request says about its signature: when it was made, and what may be it."""

    time: str
    signatures: tuple[str, ...]  # in hexadecimal, small letters


@dataclass(frozen=True, slots=True)
class SignatureForm:
    """How a service signs: where the signature stands, and over what it is made."""

    header: str  # in small letters
    read: Callable[[Mapping[str, str], str], SignedParts]  # headers and the name of that one
    content: str = ""  # stands before the body in what is signed; with {time}, an old request is known to be one
    plain: bool = False  # nothing is signed: the secret itself stands there

    @property
    def timed(self) -> bool:
        return "{time}" in self.content


def sign(secret: str, content: bytes) -> str:
    return hmac.new(secret.encode(), content, hashlib.sha256).hexdigest()


def is_signed(signatures: Iterable[str], secrets: Sequence[str], content: bytes) -> bool:
    """Whether one of the signatures is that of one of the secrets. Every pair is compared, whatever was found: the time
    that it takes tells nothing."""
    given = list(signatures)[:MOST_SIGNATURES]
    found = False
    for secret in secrets:
        right = sign(secret, content).encode()
        for signature in given:
            found |= hmac.compare_digest(right, signature.encode("utf-8", "replace"))
    return found


def is_same(given: str, secrets: Iterable[str]) -> bool:
    """Whether a plain token is one of the secrets, for services that send it as it is."""
    every = [hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode()) for secret in secrets]
    return any(every)


def is_near(time: str, now: float) -> bool:
    """Whether a signed time is within five minutes of ours, both ways."""
    return bool(_TIME.fullmatch(time)) and abs(now - int(time)) <= MOST_SKEW


def check(form: SignatureForm, headers: Mapping[str, str], body: bytes, secrets: Sequence[str], now: float) -> bool:
    """Whether a request was signed by who has the secret, and now. The time counts only after the signature does."""
    parts = form.read(headers, form.header)
    if form.plain:
        return any([is_same(given, secrets) for given in parts.signatures])  # noqa: C419 - all of them are compared
    signed = is_signed(parts.signatures, secrets, form.content.format(time=parts.time).encode() + body)
    return signed and (not form.timed or is_near(parts.time, now))


def write_signature(secret: str, body: bytes, now: float) -> dict[str, str]:
    """The header of a request of ours, in our own form."""
    time, form = str(int(now)), FORMS[OWN]
    return {form.header: f"t={time},v1={sign(secret, form.content.format(time=time).encode() + body)}"}


# --- how signatures are written


def _read_pairs(headers: Mapping[str, str], header: str) -> SignedParts:
    """`t=TIME,v1=HEX[,v1=HEX]`"""
    pairs = [part.strip().partition("=") for part in headers.get(header, "").split(",")]
    time = next((value for name, _, value in pairs if name == "t"), "")
    return SignedParts(time, tuple(value.lower() for name, _, value in pairs if name == "v1"))


def _read_digest(headers: Mapping[str, str], header: str) -> SignedParts:
    """`sha256=HEX`, or the bare hexadecimal digits."""
    digest = headers.get(header, "").strip().lower().removeprefix("sha256=")
    return SignedParts("", (digest,) if _HEX.fullmatch(digest) else ())


def _read_slack(headers: Mapping[str, str], header: str) -> SignedParts:
    """`v0=HEX`, with the time in a header of its own."""
    digest = headers.get(header, "").strip().lower()
    time = headers.get("x-slack-request-timestamp", "")
    return SignedParts(time, (digest.removeprefix("v0="),) if digest.startswith("v0=") else ())


def _read_token(headers: Mapping[str, str], header: str) -> SignedParts:
    """The secret, with or without `Bearer` before it."""
    token = headers.get(header, "").strip()
    return SignedParts("", (token[7:].strip() if token[:7].lower() == "bearer " else token,))


OWN = "hermes"
#: By the name that settings call them.
FORMS: Mapping[str, SignatureForm] = {
    OWN: SignatureForm("x-hermes-signature", _read_pairs, "{time}."),
    "github": SignatureForm("x-hub-signature-256", _read_digest),
    "stripe": SignatureForm("stripe-signature", _read_pairs, "{time}."),
    "slack": SignatureForm("x-slack-signature", _read_slack, "v0:{time}:"),
    "body": SignatureForm("x-signature", _read_digest),
    "token": SignatureForm("authorization", _read_token, plain=True),
}
