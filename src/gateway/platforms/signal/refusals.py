"""What the daemon says instead of a result, in the words of the face of a platform. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gateway.platforms.face import NeverTaken, NotNow
from gateway.platforms.signal.signal_settings import is_account_id
from hermes_base.errors import DeliveryFailure

UNREACHED_SECONDS = 3.0
IDENTITY_SECONDS = 300.0  # after which one looks whether somebody has trusted a new key
OWNER_SECONDS = 300.0  # what only the owner can put right is tried again so seldom
PENALTY_SECONDS = 60.0  # where none are named
LONGEST_PENALTY = 24 * 3600.0
MOST_SAID = 200  # signs of what the daemon says
CAPTCHA_PAGE = "https://signalcaptchas.org/challenge/generate.html"
NOT_CONNECTED = "signal-cli's daemon is not connected."
CUT = "The line to signal-cli's daemon broke off."
FOREIGN = "What answers does not speak as signal-cli's daemon does."
NO_ANSWER = "signal-cli's daemon gave no answer."
NO_ID = "signal-cli's daemon did not tell the id of the message."
UNLINKED = (
    "Signal does not know the account any more: it was unlinked, or registered elsewhere. What is to be said is kept. "
    "Link or register it anew with signal-cli."
)
_AGAIN = re.compile(r"retry after ([0-9]{1,6}) s", re.IGNORECASE)

# --- codes of errors
USER, IO, UNTRUSTED, RATE, CAPTCHA = -1, -3, -4, -5, -6
NO_METHOD, BAD_PARAMS = -32601, -32602
# --- types of results
SUCCESS = "SUCCESS"
NETWORK, UNREGISTERED, IDENTITY, RATE_LIMIT = (
    "NETWORK_FAILURE",
    "UNREGISTERED_FAILURE",
    "IDENTITY_FAILURE",
    "RATE_LIMIT_FAILURE",
)


class LineTrouble(StrEnum):
    UNSENT = "unsent"  # no line: nothing can have arrived
    UNSURE = "unsure"  # broke off, or no answer: it may have arrived
    REFUSED = "refused"  # the daemon answered with an error


class RpcTrouble(Exception):
    """A call that brought no result."""

    def __init__(self, kind: LineTrouble, text: str, *, code: int = 0, data: Any = None) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = " ".join(text.split())[:MOST_SAID]
        self.code = code
        self.data = data

    def says(self, words: str) -> bool:
        return words in self.text.lower()


@dataclass(frozen=True, slots=True)
class PersonResult:
    """What became of a message for one person."""

    kind: str
    person: str  # their id, else their number
    seconds: float = 0.0  # of patience that are asked for
    token: str = ""  # of a captcha that is asked for

    @property
    def sentence(self) -> str:
        """Why it did not arrive."""
        match self.kind:
            case "IDENTITY_FAILURE":
                return (
                    f"The safety number of {self.person} has changed, so nothing is sent to them: it may be a new "
                    "phone, or somebody in between. Compare it with them; if it is theirs, end the daemon, run "
                    f"`signal-cli -a BOT trust -v SAFETY-NUMBER {self.person}`, and start it again."
                )
            case "UNREGISTERED_FAILURE":
                return f"{self.person} is not on Signal any more."
            case "RATE_LIMIT_FAILURE":
                return f"Signal asks for {self.seconds:.0f} s of patience.{_ask_captcha(self.token)}"
            case "NETWORK_FAILURE":
                return f"Signal could not be reached for {self.person}."
        return f"Signal did not take it for {self.person} ({_clean(self.kind)})."


def read_results(answer: Any) -> list[PersonResult]:
    """What became of a message for each who was to get it."""
    results = answer.get("results") if isinstance(answer, Mapping) else None
    return list(_read_persons(results)) if isinstance(results, list) else []


def _read_persons(results: list[Any]) -> Iterator[PersonResult]:
    for one in results:
        if not isinstance(one, Mapping):
            continue
        address = one.get("recipientAddress")
        address = address if isinstance(address, Mapping) else {}
        person = next((str(address[key]) for key in ("uuid", "number", "username") if address.get(key)), "somebody")
        seconds, token = one.get("retryAfterSeconds"), one.get("token")
        is_told = isinstance(seconds, int | float) and seconds > 0
        patience = min(float(seconds or 0), LONGEST_PENALTY) if is_told else PENALTY_SECONDS
        yield PersonResult(
            str(one.get("type") or ""), _clean(person), patience, token if isinstance(token, str) else ""
        )


def judge_results(results: list[PersonResult]) -> DeliveryFailure | None:
    """The failure of a message that arrived nowhere; None: somebody has it, or nobody else was there to get it."""
    if not results or any(one.kind == SUCCESS for one in results):
        return None
    by_kind = {one.kind: one for one in results}
    if NETWORK in by_kind:  # for that one it may have arrived
        return DeliveryFailure(by_kind[NETWORK].sentence)
    limited = [one for one in results if one.kind == RATE_LIMIT]
    if limited:
        longest = max(limited, key=lambda one: one.seconds)
        return NotNow(f"{longest.sentence} The message waits.", longest.seconds, whole_account=True)
    if IDENTITY in by_kind:
        return NotNow(f"{by_kind[IDENTITY].sentence} The message waits.", IDENTITY_SECONDS)
    if UNREGISTERED in by_kind:
        return NotNow(f"{by_kind[UNREGISTERED].sentence} The message waits until they write.")
    return DeliveryFailure(results[0].sentence)


#: By words of the daemon: it waits until somebody writes there again.
_WAITS: Mapping[str, str] = {
    "group not found": "signal-cli knows no such group; the message waits until somebody writes there.",
    "not a member": "The account is not in the group any more; the message waits until it is added again.",
    "not allowed to send": "Only admins may write in the group; the message waits until others may, and one writes.",
    "is not registered": "The person is not on Signal any more; the message waits until they write.",
    "unregistered user": "The person is not on Signal any more; the message waits until they write.",
}
_LOST_ACCOUNT = ("authorizationfailed", "authorization failed", "[401]", "[403]", "not registered on signal")
#: Words of the daemon on too many messages. Signal's server says it with 413, too, as others say that it is too large.
_LIMITED = ("rate limit", "ratelimit", "[429]", "retrylater")
_WANTS_PROOF = ("[428]", "proof required", "proofrequired")
_TOO_LARGE = ("[413]", "too large", "exceeds the maximum")


def as_failure(trouble: RpcTrouble, what: str = "it", person: str = "the person") -> DeliveryFailure:
    """What whoever sends has to know: wait, give up, or send again in doubt. `person`: to whom, where it is one."""
    if trouble.kind is LineTrouble.UNSENT:
        return NotNow(trouble.text, UNREACHED_SECONDS, whole_account=True)
    if trouble.kind is LineTrouble.UNSURE:
        return DeliveryFailure(trouble.text)
    told = judge_results(read_results(_find_response(trouble)))
    if told is not None:
        return told
    return _read_code(trouble, person) or _read_words(trouble, what)


def _find_response(trouble: RpcTrouble) -> Any:
    return trouble.data.get("response") if isinstance(trouble.data, Mapping) else None


def _read_code(trouble: RpcTrouble, person: str) -> DeliveryFailure | None:
    match trouble.code:
        case -4:
            return NotNow(f"{PersonResult(IDENTITY, person).sentence} The message waits.", IDENTITY_SECONDS)
        case -5 | -6:
            return _read_patience(trouble, wants_captcha=trouble.code == CAPTCHA)
        case -32601:
            return NeverTaken(f"This signal-cli is too old: {_clean(trouble.text)}.")
        case -32602:
            return NotNow(NO_ACCOUNT, OWNER_SECONDS, whole_account=True)
    return None


NO_ACCOUNT = "signal-cli's daemon does not know the account. The message waits; `hermes setup signal` names another."


def _read_words(trouble: RpcTrouble, what: str) -> DeliveryFailure:
    if any(map(trouble.says, _LOST_ACCOUNT)):
        return NotNow(UNLINKED, OWNER_SECONDS, whole_account=True)
    if _AGAIN.search(trouble.text) or any(map(trouble.says, (*_LIMITED, *_WANTS_PROOF))):
        return _read_patience(trouble, wants_captcha=any(map(trouble.says, _WANTS_PROOF)))
    if any(map(trouble.says, _TOO_LARGE)):
        return NeverTaken(f"Signal does not take {what}: it is too large.")
    waits = next((sentence for words, sentence in _WAITS.items() if trouble.says(words)), "")
    if waits:
        return NotNow(waits)
    if trouble.code == USER or trouble.says("attachmentinvalid"):
        return NeverTaken(f"Signal does not take {what}: {_clean(trouble.text)}.")
    return DeliveryFailure(f"signal-cli could not send it: {_clean(trouble.text) or trouble.code}.")


def _read_patience(trouble: RpcTrouble, *, wants_captcha: bool) -> NotNow:
    """Signal counts what an account sends, to whomever: every chat waits."""
    again = _AGAIN.search(trouble.text)
    seconds = min(max(1.0, float(again[1])), LONGEST_PENALTY) if again else PENALTY_SECONDS
    what = f"Signal asks for {seconds:.0f} s of patience.{_ask_captcha('CHALLENGE' if wants_captcha else '')}"
    return NotNow(f"{what} The message waits.", seconds, whole_account=True)


def is_account_lost(failure: DeliveryFailure) -> bool:
    """Whether only the owner can put it right, for every chat."""
    return failure.what in (UNLINKED, NO_ACCOUNT)


def is_captcha(failure: DeliveryFailure) -> bool:
    """Whether it is over only when the owner has solved one."""
    return CAPTCHA_PAGE in failure.what


def _ask_captcha(token: str) -> str:
    if not token:
        return ""
    return (
        f" It wants a captcha: solve the one at {CAPTCHA_PAGE}, copy the link behind `Open Signal`, and run "
        f"`signal-cli submitRateLimitChallenge --challenge {_clean(token)} --captcha LINK`."
    )


def _clean(text: str) -> str:
    """What somebody else wrote, as part of a sentence."""
    if is_account_id(text):
        return text
    return " ".join(text.split())[:MOST_SAID].rstrip(".")
