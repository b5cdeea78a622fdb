"""Requests of a hook to messages, and answers to requests of ours. Pure."""

import base64
import hashlib
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qs

import msgspec

from gateway.platforms.face import HookAnswer, HookRequest, NeverTaken, NotNow, Part
from gateway.platforms.signing import check
from gateway.platforms.webhook import SPEC
from gateway.platforms.webhook.hook_settings import HookRules
from gateway.platforms.webhook.pointers import MISSING, read_source
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import QUEUE, Address, FileRef, Inbound
from hermes_net.checked_http import AnsweredCall

REPLY = "hermes.reply"  # the type of what we send: posted back to a hook, it would be answered again and again
MAIN = "main"  # the chat of a hook whose requests are one conversation
MOST_TEXT = 20_000  # characters of a message
MOST_NAME = 128  # characters of an id or of a conversation's name; a longer one is known by its hash
_HASHED = "%-"  # before a hash; no name that stands for itself begins so
MOST_PENALTY = 3600.0
_TEXT = read_source("/text")
_FORM = "application/x-www-form-urlencoded"
_SIGNED_TIME = re.compile(rb"\A[0-9]+\.")
_TOO_DEEP = "The body is nested too deeply."
_KEPT_NOT = "Nothing was kept."


class BadRequest(Exception):
    """A signed request that brings no message; the sentence says why."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


# --- in


class _Typed(msgspec.Struct):
    """What of a body says whose it is; the rest is not made into objects."""

    type: Any = None


def read_request(hook: HookRules, account: str, request: HookRequest, now: float) -> Inbound | HookAnswer:
    """The message that a request brings, or what to answer because it brings none. Nothing of it is looked at before
    its signature was."""
    if request.path:
        return HookAnswer(404)
    if request.method != "POST":
        return HookAnswer(405, "A hook is asked with POST.")
    if not check(hook.form, request.headers, request.body, hook.secrets, now):
        return HookAnswer(401)
    try:
        if is_reply(request.body):
            return HookAnswer(200, "An answer of ours; it is no message.")
        document = read_body(request)
        wanted = all(_as_text(source.find(document, request.headers)) in values for source, values in hook.events)
        return make_inbound(hook, account, request, document, now) if wanted else HookAnswer(200, "Not asked for.")
    except BadRequest as bad:
        return HookAnswer(bad.status, f"{bad} {_KEPT_NOT}")


def is_reply(body: bytes) -> bool:
    """Whether it is what we sent and signed: an answer, or all that its signature is made of, which is time, a dot and
    the answer. To a form that signs the body alone, the latter is signed, too."""
    try:
        document = msgspec.json.decode(_SIGNED_TIME.sub(b"", body, count=1), type=_Typed)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return bool(document.type == REPLY)


def read_body(request: HookRequest) -> Any:
    """JSON, or the fields of a form; what begins as JSON is JSON, whatever it is called."""
    called = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if called == _FORM and request.body.lstrip()[:1] not in (b"{", b"["):
        return _read_form(request.body)
    try:
        return msgspec.json.decode(request.body)
    except RecursionError as error:
        raise BadRequest(400, _TOO_DEEP) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(400, "The body is neither JSON in UTF-8 nor a form.") from error


def _read_form(body: bytes) -> dict[str, Any]:
    try:
        fields = parse_qs(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=1000)
    except ValueError as error:  # not UTF-8 is one, too
        raise BadRequest(400, "The form cannot be read: it is not UTF-8, or has too many fields.") from error
    return {name: values[0] if len(values) == 1 else values for name, values in fields.items()}


def make_inbound(hook: HookRules, account: str, request: HookRequest, document: Any, now: float) -> Inbound:
    """Who speaks is the hook itself; nothing in the request can say otherwise (G2). No slash in its text means
    anything, and it answers no question: it waits for its turn."""
    return Inbound(
        Address(SPEC.name, account, find_chat(hook, request, document)),
        find_id(hook, request, document),
        account,
        write_text(hook, request, document),
        sender_name=account,
        way=QUEUE,
        received=now,
    )


def find_chat(hook: HookRules, request: HookRequest, document: Any) -> str:
    if hook.conversation is None:
        return MAIN
    value = hook.conversation.find(document, request.headers)
    if not isinstance(value, str | int) or not (name := _as_text(value).strip()):
        raise BadRequest(422, f"{hook.conversation.written} has to name the conversation, and does not.")
    return _bound(name)


def find_id(hook: HookRules, request: HookRequest, document: Any) -> str:
    """What is the same when the request comes again: what the settings name or services usually send, else a hash of
    what was signed."""
    values = (source.find(document, request.headers) for source in hook.ids)
    named = next((value for value in values if isinstance(value, str | int) and _as_text(value).strip()), None)
    if named is not None:
        return _bound(_as_text(named).strip())
    return hash_signed(hook, request)


def hash_signed(hook: HookRules, request: HookRequest) -> str:
    """What was signed, the time with the body, is the same for a request that somebody recorded, and for no other."""
    signed = hook.form.read(request.headers, hook.form.header).time.encode() + b"." + request.body
    return hashlib.sha256(signed).hexdigest()


def write_text(hook: HookRules, request: HookRequest, document: Any) -> str:
    """The fields that the settings name, else `/text`, else all of it; a long one is cut, and says so."""
    if hook.texts:
        found = [(label, source.find(document, request.headers)) for label, source in hook.texts]
        lines = [
            f"{label}: {_as_text(value)}" if label else _as_text(value)
            for label, value in found
            if value is not MISSING
        ]
    else:
        said = _TEXT.find(document, request.headers)
        lines = [said if isinstance(said, str) and said.strip() else _as_text(document)]
    text = "\n".join(lines)
    if not text.strip():
        raise BadRequest(422, "None of the fields that make the message is there.")
    more = len(text) - MOST_TEXT
    return text if more <= 0 else f"{text[:MOST_TEXT]}\n… ({more} characters more were left out)"


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return "" if value is MISSING else msgspec.json.encode(value).decode()
    except RecursionError as error:  # what could just be read cannot always be written
        raise BadRequest(400, _TOO_DEEP) from error


def _bound(name: str) -> str:
    """Without a slash, which stands between the parts of keys: so no name imitates another account's chat, or a chat
    with a message. Two names never become one."""
    if len(name) > MOST_NAME:
        return f"{_HASHED}{hashlib.sha256(name.encode()).hexdigest()}"
    return name.replace("%", "%25").replace("/", "%2F")


def _unbound(name: str) -> str:
    """The name as it was given, for the other side; of a long one there is only the hash."""
    return name.removeprefix(_HASHED).replace("%2F", "/").replace("%25", "%")


# --- out


class SentFile(msgspec.Struct, frozen=True):
    name: str
    kind: str
    size: int
    content: str  # base64


class HookReply(msgspec.Struct, frozen=True):
    """What an answer is as JSON."""

    hook: str
    conversation: str
    id: str
    kind: str  # answer, note, question, file
    text: str
    level: str = "info"
    reply_to: str = ""
    question: str = ""
    choices: tuple[str, ...] = ()
    files: tuple[SentFile, ...] = ()
    type: str = REPLY


def write_reply(part: Part, id: str, file: FileRef | None = None, content: bytes = b"") -> bytes:
    said, files = part.outgoing, ()
    sent = (SentFile(file.name, file.kind, len(content), base64.b64encode(content).decode()),) if file else files
    return msgspec.json.encode(
        HookReply(
            part.address.account,
            _unbound(part.address.chat),
            id,
            said.kind if said else "note",
            part.text,
            said.level if said else "info",
            part.reply_to,
            part.question,
            part.choices,
            sent,
        )
    )


def judge_reply(answer: AnsweredCall, now: float) -> DeliveryFailure | None:
    """What an answer to a reply means: None when it was taken."""
    status = answer.status
    if 200 <= status < 300:
        return None
    seconds = read_retry_after(answer.headers, now)
    if status == 429 or (status == 503 and seconds):
        return NotNow(f"The reply_url asks to wait ({status}).", seconds or 30.0)
    if status in (408, 425) or status >= 500:
        return DeliveryFailure(f"The reply_url failed ({status}).")
    what = "leads elsewhere: put the new address there" if 300 <= status < 400 else "does not take it"
    return NeverTaken(f"The reply_url {what} ({status}).")


def read_retry_after(headers: Mapping[str, str], now: float) -> float:
    """Seconds to wait, given as such or as a date; 0: nothing is said."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), MOST_PENALTY)
    try:
        return min(max(0.0, parsedate_to_datetime(text).timestamp() - now), MOST_PENALTY)
    except ValueError:
        return 0.0
