"""What a homeserver says instead of a result, in the words of the face of a platform. Pure."""

from collections.abc import Mapping
from enum import StrEnum

from gateway.platforms.face import NeverTaken, NotNow
from hermes_base.errors import DeliveryFailure

TOKEN_SECONDS = 300.0  # a token that is refused is tried again so seldom
UNREACHED_SECONDS = 3.0  # nothing was sent: a short pause
UPLOAD_SECONDS = 30.0  # until a file is tried again
PENALTY_SECONDS = 5.0  # where the homeserver names none
LOGGED_OUT = "The homeserver has ended the session of Hermes: its access token was revoked, or it was logged out."
LOGGED_OUT_FIX = "Run `hermes setup matrix`, or start Hermes again to log in anew with the password."
NO_NETWORK = "The Matrix homeserver cannot be reached ({}). It is tried again; what people write meanwhile waits there."
NO_ENCRYPTION = (
    "The room is encrypted, and this Hermes cannot encrypt; the message waits. Install `matrix-nio[e2e]` and "
    "start Hermes again."
)


class MatrixKind(StrEnum):
    """What came of a call that brought no result."""

    PENALTY = "penalty"  # too many calls
    TOKEN = "token"  # the token is not known (any more)
    CLOSED = "closed"  # the account is locked, suspended or deactivated
    FORBIDDEN = "forbidden"  # not in the room, or without the right to write there
    MISSING = "missing"  # no such room, event or file
    TOO_LARGE = "too large"
    FULL = "full"  # the homeserver has reached a limit of its own
    REFUSED = "refused"  # all else that it will not take
    UNREADABLE = "unreadable"  # the room is encrypted, and we are not able to
    UNSENT = "unsent"  # no connection was made: nothing can have arrived
    UNSURE = "unsure"  # broke off, or the server failed: it may have arrived


class MatrixTrouble(Exception):
    """A call that brought no result. The text is free of tokens. `soft`: the device is still known, only its token is
    not."""

    def __init__(self, kind: MatrixKind, text: str, *, seconds: float = 0.0, soft: bool = False) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.seconds = seconds
        self.soft = soft


_BY_CODE: Mapping[str, MatrixKind] = {
    "M_LIMIT_EXCEEDED": MatrixKind.PENALTY,
    "M_UNKNOWN_TOKEN": MatrixKind.TOKEN,
    "M_MISSING_TOKEN": MatrixKind.TOKEN,
    "M_USER_DEACTIVATED": MatrixKind.CLOSED,
    "M_USER_LOCKED": MatrixKind.CLOSED,
    "M_USER_SUSPENDED": MatrixKind.CLOSED,
    "M_FORBIDDEN": MatrixKind.FORBIDDEN,
    "M_GUEST_ACCESS_FORBIDDEN": MatrixKind.FORBIDDEN,
    "M_NOT_FOUND": MatrixKind.MISSING,
    "M_TOO_LARGE": MatrixKind.TOO_LARGE,
    "M_RESOURCE_LIMIT_EXCEEDED": MatrixKind.FULL,
    "M_CONSENT_NOT_GIVEN": MatrixKind.FULL,
}


def read_trouble(
    status: int, code: str, text: str, *, retry_after_ms: int | None = None, soft: bool = False
) -> MatrixTrouble:
    """The trouble that an answer means. Without a code of Matrix somebody else has answered, and nothing is known."""
    if status == 429 or code == "M_LIMIT_EXCEEDED":
        return MatrixTrouble(MatrixKind.PENALTY, text, seconds=(retry_after_ms or 0) / 1000 or PENALTY_SECONDS)
    if not code or status >= 500:
        return MatrixTrouble(MatrixKind.UNSURE, f"status {status}" if status else text)
    return MatrixTrouble(_BY_CODE.get(code, MatrixKind.REFUSED), text.rstrip("."), soft=soft)


def as_failure(trouble: MatrixTrouble) -> DeliveryFailure:
    """What whoever sends has to know: wait, give up, or send again in doubt."""
    match trouble.kind:
        case MatrixKind.PENALTY:
            said = f"The homeserver asks for {trouble.seconds:.0f} s of patience."
            return NotNow(said, trouble.seconds, whole_account=True)
        case MatrixKind.TOKEN:
            return NotNow(f"{LOGGED_OUT} {LOGGED_OUT_FIX}", TOKEN_SECONDS, whole_account=True)
        case MatrixKind.CLOSED | MatrixKind.FULL:
            said = f"The homeserver takes nothing from the account: {trouble.text}."
            return NotNow(said, TOKEN_SECONDS, whole_account=True)
        case MatrixKind.FORBIDDEN:
            return NotNow(f"Hermes is not in the room, or may not write there; the message waits ({trouble.text}).")
        case MatrixKind.MISSING:
            return NotNow(f"The homeserver knows no such room; the message waits ({trouble.text}).")
        case MatrixKind.UNREADABLE:
            return NotNow(NO_ENCRYPTION)
        case MatrixKind.TOO_LARGE:
            return NeverTaken(f"It is larger than the homeserver takes: {trouble.text}.")
        case MatrixKind.REFUSED:
            return NeverTaken(f"The homeserver refused it: {trouble.text}.")
        case MatrixKind.UNSENT:
            said = f"The homeserver cannot be reached: {trouble.text}."
            return NotNow(said, UNREACHED_SECONDS, whole_account=True)
    return DeliveryFailure(f"The homeserver gave no answer: {trouble.text}.")


def as_file_failure(trouble: MatrixTrouble) -> DeliveryFailure:
    """The same of a file that is fetched: it belongs to no room that could be waited for."""
    match trouble.kind:
        case MatrixKind.MISSING:
            return NeverTaken("The homeserver does not have the file any more.")
        case MatrixKind.FORBIDDEN:
            return NeverTaken("The homeserver does not hand the file to Hermes.")
    return as_failure(trouble)


def as_upload_failure(trouble: MatrixTrouble, name: str) -> DeliveryFailure:
    """The same of a file that goes up: nobody has seen anything of it, and it says nothing about the room."""
    match trouble.kind:
        case MatrixKind.MISSING | MatrixKind.FORBIDDEN | MatrixKind.REFUSED:
            return NeverTaken(f"The homeserver does not take the file {name}: {trouble.text}.")
        case MatrixKind.UNSURE:
            return NotNow(f"The homeserver does not take the file {name} now: {trouble.text}.", UPLOAD_SECONDS)
    return as_failure(trouble)


def describe_outage(trouble: MatrixTrouble, failures: int) -> str | None:
    """What its owner reads when nothing could be heard for so many times in a row; None: as before."""
    match trouble.kind:
        case MatrixKind.PENALTY:
            return None
        case MatrixKind.TOKEN:
            return f"{LOGGED_OUT} {LOGGED_OUT_FIX}"
        case MatrixKind.CLOSED | MatrixKind.FULL:
            return str(as_failure(trouble))
    return NO_NETWORK.format(trouble.text) if failures > 1 else None


def find_pause(trouble: MatrixTrouble) -> float | None:
    """The seconds that a trouble asks for by itself; None: they grow with each failure."""
    if trouble.kind is MatrixKind.PENALTY:
        return trouble.seconds
    lasting = trouble.kind in (MatrixKind.TOKEN, MatrixKind.CLOSED, MatrixKind.FULL)
    return TOKEN_SECONDS if lasting else None
