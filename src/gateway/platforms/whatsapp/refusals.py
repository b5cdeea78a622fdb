"""What WhatsApp says instead of a result, in the words of the face of a platform. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from gateway.platforms.face import NeverTaken, NotNow
from hermes_base.errors import DeliveryFailure

OWNER_SECONDS = 300.0  # what the owner has to see to is tried again so seldom
UNREACHED_SECONDS = 3.0  # nothing was sent: a short pause
CALM_SECONDS = 3600.0  # where WhatsApp finds that people are written to too much
CALL_RATE_SECONDS = 60.0
RATE_SECONDS = 5.0
PAIR_SECONDS, LONGEST_PAIR = 4.0, 256.0  # the first pause for one person; each is four times the one before
HIDDEN = "<token>"
BAD_TOKEN = "WhatsApp does not take the access token: it is wrong, it has expired, or it was revoked."
BAD_TOKEN_FIX = "Make one for a system user, which does not expire, and run `hermes setup whatsapp`."
CLOSED_WINDOW = (
    "The person has not written for 24 hours, and WhatsApp lets nobody write to them before they do; the message waits "
    "until they write again."
)


class NoAnswer(StrEnum):
    """In place of a code. No number would do: WhatsApp may use each of them, also -1."""

    UNSENT = "unsent"  # no connection was made
    UNSURE = "unsure"  # it broke off, or what came back is no answer


class GraphTrouble(Exception):
    """A call that brought no result, with the code of WhatsApp's error. The text has no token in it."""

    def __init__(self, code: int | NoAnswer, text: str, *, status: int = 0, seconds: float = 0.0) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.status = status
        self.seconds = seconds  # that it asks for; 0: it names none


class RefusalKind(StrEnum):
    WAIT = "wait"  # later, by itself
    AWAY = "away"  # when the person writes
    NEVER = "never"
    UNSURE = "unsure"  # it may have arrived


@dataclass(frozen=True, slots=True)
class CodeMeaning:
    """What an error is for a message. `lasting`: it keeps the account from working until its owner has seen to it."""

    verdict: RefusalKind
    sentence: str
    seconds: float = 0.0
    whole_account: bool = False
    lasting: bool = False


def _owner(sentence: str) -> CodeMeaning:
    return CodeMeaning(RefusalKind.WAIT, sentence, OWNER_SECONDS, whole_account=True, lasting=True)


def _never(sentence: str) -> CodeMeaning:
    return CodeMeaning(RefusalKind.NEVER, sentence)


_TOKEN = _owner(f"{BAD_TOKEN} {BAD_TOKEN_FIX}")
_PERMISSION = _owner(
    "The access token may not speak for this number: it needs the permission whatsapp_business_messaging, and its "
    "system user the number."
)
_LOCKED = _owner("WhatsApp has locked the account: the Business Manager says why.")
_UNKNOWN = CodeMeaning(RefusalKind.UNSURE, "WhatsApp has a trouble of its own")
_CALLS = CodeMeaning(RefusalKind.WAIT, "WhatsApp asks for fewer calls", CALL_RATE_SECONDS, whole_account=True)
_PAIR = CodeMeaning(RefusalKind.WAIT, "WhatsApp asks for fewer messages to this person", PAIR_SECONDS)

PAIR_LIMIT, WINDOW_CLOSED, FILE_GONE = 131056, 131047, 131052
NO_SUCH_NUMBER = 33  # it comes as the second half of 100
TOKEN_CODES = frozenset({0, 190})
TOO_MANY = 429  # a status
_CODES: Mapping[int | NoAnswer, CodeMeaning] = {
    NoAnswer.UNSENT: CodeMeaning(RefusalKind.WAIT, "WhatsApp cannot be reached", UNREACHED_SECONDS, whole_account=True),
    -1: _UNKNOWN,
    0: _TOKEN,
    1: _UNKNOWN,
    2: _UNKNOWN,
    3: _PERMISSION,
    4: _CALLS,
    10: _PERMISSION,
    17: _CALLS,
    32: _CALLS,
    NO_SUCH_NUMBER: _owner("WhatsApp knows no number with this phone number ID, or the access token may not see it."),
    190: _TOKEN,
    **dict.fromkeys(range(200, 300), _PERMISSION),
    341: _CALLS,
    368: _LOCKED,
    613: _CALLS,
    **dict.fromkeys(range(80000, 80015), _CALLS),  # one for each kind of business
    130429: CodeMeaning(RefusalKind.WAIT, "WhatsApp asks for fewer messages", RATE_SECONDS, whole_account=True),
    131000: _UNKNOWN,
    131005: _PERMISSION,
    131016: _UNKNOWN,
    131021: _never("A number cannot write to itself on WhatsApp."),
    131026: _never("WhatsApp cannot bring it to this number: it is not on WhatsApp, or it takes no such messages."),
    131030: CodeMeaning(
        RefusalKind.WAIT,
        "The number is not among those that a test number may write to: add it on the page `API Setup`.",
        OWNER_SECONDS,
    ),
    131031: _LOCKED,
    131037: _owner("WhatsApp has not approved the display name of the number yet."),
    131042: _owner("WhatsApp has no valid way of payment for the account."),
    WINDOW_CLOSED: CodeMeaning(RefusalKind.AWAY, CLOSED_WINDOW),
    131048: CodeMeaning(
        RefusalKind.WAIT,
        "WhatsApp holds messages back because people have blocked or reported the number.",
        CALM_SECONDS,
        whole_account=True,
    ),
    131049: CodeMeaning(RefusalKind.WAIT, "WhatsApp holds messages to this person back for a while.", CALM_SECONDS),
    131051: _never("WhatsApp does not know messages of this kind."),
    FILE_GONE: _never("WhatsApp does not have the file any more."),
    131053: _never(
        "WhatsApp does not take the file: it is not what its name says, or of a form that is not known there."
    ),
    PAIR_LIMIT: _PAIR,
    131057: _UNKNOWN,
    133010: _owner("The number is not registered with the Cloud API: do so on the page of the number."),
}


def find_meaning(trouble: GraphTrouble) -> CodeMeaning:
    known = _CODES.get(trouble.code)
    if known is not None:
        return known
    if trouble.status == TOO_MANY:  # with a code that is not known here, or none
        return _CALLS
    if trouble.code is NoAnswer.UNSURE or trouble.status >= 500:
        return replace(_UNKNOWN, sentence="WhatsApp gave no answer")
    return _never("WhatsApp refused it")


def as_failure(trouble: GraphTrouble, pauses: int = 0) -> DeliveryFailure:
    """What whoever sends has to know: wait, give up, or send again in doubt. `pauses`: how often in a row WhatsApp has
    asked for fewer messages to this person."""
    meaning = find_meaning(trouble)
    sentence = _finish(meaning.sentence, trouble.text)
    match meaning.verdict:
        case RefusalKind.AWAY:
            return NotNow(sentence)
        case RefusalKind.NEVER:
            return NeverTaken(sentence)
        case RefusalKind.UNSURE:
            return DeliveryFailure(sentence)
    seconds = trouble.seconds or meaning.seconds
    if meaning is _PAIR and not trouble.seconds:
        seconds = min(LONGEST_PAIR, PAIR_SECONDS * 4.0 ** min(pauses, 10))
    return NotNow(sentence, seconds, whole_account=meaning.whole_account)


def as_late_failure(trouble: GraphTrouble) -> DeliveryFailure:
    """The same for a message that was taken and did not arrive: what waits for its person waits, all else is kept with
    the reason. Nothing is sent again by itself, since that might never end."""
    meaning = find_meaning(trouble)
    sentence = _finish(meaning.sentence, trouble.text)
    return NotNow(sentence) if meaning.verdict is RefusalKind.AWAY else NeverTaken(sentence)


def _finish(sentence: str, told: str) -> str:
    """A sentence of ours, with what WhatsApp says where ours does not say enough."""
    if sentence.endswith("."):
        return sentence
    return f"{sentence}: {told.rstrip('.')}." if told else f"{sentence}."


def hide(text: str, secrets: Iterable[str]) -> str:
    """G6: the text without the secrets."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN) if secret else text
    return text
