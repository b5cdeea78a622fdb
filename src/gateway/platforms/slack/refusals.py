"""What Slack says instead of a result, in the words of the face of a platform. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gateway.platforms.face import NeverTaken, NotNow
from hermes_base.errors import DeliveryFailure

TOKEN_SECONDS = 300.0  # a token that is refused, or may do too little, is tried again so seldom
UNREACHED_SECONDS = 3.0  # nothing was sent: a short pause
USUAL_PENALTY = 30.0  # where Slack names no time
HIDDEN = "<token>"
BAD_TOKEN = "Slack does not take the bot's token: it is wrong, or it was revoked."
BAD_TOKEN_FIX = "Copy the Bot User OAuth Token (xoxb-…) of the app's page and run `hermes setup slack`."
BAD_APP_TOKEN = "Slack does not take the app's token for Socket Mode: it is wrong, or it was revoked."
BAD_APP_TOKEN_FIX = (
    "Make one under Basic Information, App-Level Tokens, with the scope connections:write, and set it up with "
    "`hermes setup slack`."
)
SOCKET_OFF = "Socket Mode is switched off in the settings of the Slack app."
SOCKET_OFF_FIX = "Switch it on, on the app's page Socket Mode."
#: What the app needs to be of use, and what it can do without.
NEEDED_SCOPES = ("chat:write", "im:history")
WANTED_SCOPES: Mapping[str, str] = {
    "app_mentions:read": "hears its name in channels",
    "channels:history": "reads public channels",
    "groups:history": "reads private channels",
    "mpim:history": "reads group messages",
    "files:read": "reads files",
    "files:write": "sends files",
    "reactions:write": "shows that a message was taken",
    "users:read": "knows people's names",
    "commands": "has the command /hermes",
}


class SlackTroubleKind(StrEnum):
    PENALTY = "penalty"  # 429
    TOKEN = "token"
    SCOPE = "scope"
    REFUSED = "refused"  # by the name of its error
    UNSENT = "unsent"  # no connection was made: nothing can have arrived
    UNSURE = "unsure"  # broke off, or the service failed: it may have arrived


class SlackTrouble(Exception):
    """A call that brought no result. `error` is Slack's word for it, or our sentence; free of tokens."""

    def __init__(self, kind: SlackTroubleKind, error: str, *, seconds: float = 0.0, needed: str = "") -> None:
        super().__init__(error)
        self.kind = kind
        self.error = error
        self.seconds = seconds
        self.needed = needed


#: Errors of which nobody knows whether the call took effect.
_UNSURE = frozenset({"internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org"})
_TOKEN = frozenset(
    {"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "app_uninstalled"}
)
_PENALTY = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})
_SCOPE = frozenset({"missing_scope", "not_allowed_token_type", "no_permission"})


def read_error(error: str, seconds: float = 0.0, needed: str = "") -> SlackTrouble:
    """The trouble that Slack's word for it means."""
    if error in _PENALTY:
        return SlackTrouble(SlackTroubleKind.PENALTY, error, seconds=seconds or USUAL_PENALTY)
    kinds = ((_UNSURE, SlackTroubleKind.UNSURE), (_TOKEN, SlackTroubleKind.TOKEN), (_SCOPE, SlackTroubleKind.SCOPE))
    kind = next((kind for words, kind in kinds if error in words), SlackTroubleKind.REFUSED)
    return SlackTrouble(kind, error, needed=needed)


@dataclass(frozen=True, slots=True)
class _Sense:
    """What a word of Slack means for a message. `waits`: it is kept until somebody is there again."""

    sentence: str
    waits: bool = False
    markup: bool = False


_NOT_IN = _Sense("The bot is not in the channel; the message waits until it is invited.", waits=True)
_UNKNOWN_CHAT = _Sense("Slack knows no such chat for this bot; the message waits for it.", waits=True)
_ARCHIVED = _Sense("The channel is archived; the message waits until it is opened again.", waits=True)
_NOT_ALLOWED = _Sense("The bot may not write in this channel; the message waits until it may.", waits=True)
_CLOSED = _Sense("The person's Slack account is closed; the message is kept.", waits=True)
_NO_THREAD = _Sense("The thread is not there any more.")
_NO_MESSAGE = _Sense("The message to edit is not there any more.")
_NO_EDIT = _Sense("The message cannot be edited any more.")
_TOO_LONG = _Sense("The text is longer than Slack takes.")
_BLOCKS = _Sense("Slack does not take the form of the message", markup=True)
_NO_FILE = _Sense("Slack does not have the file any more.")
_LARGE_FILE = _Sense("The file is larger than Slack takes from this app.")
_MEANT: Mapping[str, _Sense] = {
    "not_in_channel": _NOT_IN,
    "channel_not_found": _UNKNOWN_CHAT,
    "is_archived": _ARCHIVED,
    "restricted_action": _NOT_ALLOWED,
    "restricted_action_read_only_channel": _NOT_ALLOWED,
    "restricted_action_thread_only_channel": _NOT_ALLOWED,
    "restricted_action_thread_locked": _NOT_ALLOWED,
    "restricted_action_non_threadable_channel": _NOT_ALLOWED,
    "messages_tab_disabled": _Sense(
        "The app's Messages tab is switched off (App Home); the message waits until it is on.", waits=True
    ),
    "user_disabled": _CLOSED,
    "user_not_found": _CLOSED,
    "thread_not_found": _NO_THREAD,
    "cannot_reply_to_message": _NO_THREAD,
    "message_not_found": _NO_MESSAGE,
    "cant_update_message": _NO_EDIT,
    "edit_window_closed": _NO_EDIT,
    "msg_too_long": _TOO_LONG,
    "msg_blocks_too_long": _TOO_LONG,
    "invalid_blocks": _BLOCKS,
    "invalid_blocks_format": _BLOCKS,
    "file_not_found": _NO_FILE,
    "file_deleted": _NO_FILE,
    "file_upload_size_restricted": _LARGE_FILE,
    "blocked_file_type": _Sense("Files of this kind are not allowed in this workspace."),
    "malware_detected": _Sense("Slack takes the file for harmful."),
    "storage_limit_reached": _Sense("The workspace has no more room for files."),
}


def as_failure(trouble: SlackTrouble) -> DeliveryFailure:
    """What whoever sends has to know: wait, give up, or send again in doubt."""
    match trouble.kind:
        case SlackTroubleKind.PENALTY:
            return NotNow(f"Slack asks for {trouble.seconds:.0f} s of patience.", trouble.seconds)
        case SlackTroubleKind.TOKEN:
            return NotNow(f"{BAD_TOKEN} {BAD_TOKEN_FIX}", TOKEN_SECONDS, whole_account=True)
        case SlackTroubleKind.SCOPE:
            return NotNow(say_scope(trouble.needed), TOKEN_SECONDS)
        case SlackTroubleKind.UNSENT:
            return NotNow(f"Slack cannot be reached: {trouble.error}.", UNREACHED_SECONDS, whole_account=True)
        case SlackTroubleKind.UNSURE:
            return DeliveryFailure(f"Slack gave no answer: {trouble.error}.")
    sense = _MEANT.get(trouble.error)
    if sense is None:
        return NeverTaken(f"Slack refused it: {trouble.error}.")
    if sense.waits:
        return NotNow(sense.sentence)
    return NeverTaken(f"{sense.sentence}: {trouble.error}." if sense.markup else sense.sentence, markup=sense.markup)


def say_scope(needed: str) -> str:
    what = f"the scope {needed}" if needed else "a scope that it needs"
    return f"The Slack app lacks {what}. Add it under OAuth & Permissions, and install the app again."


def list_missing(scopes: Iterable[str]) -> tuple[list[str], list[str]]:
    """The scopes that the app has to have and those that it might have, as far as it has them not."""
    given = set(scopes)
    return (
        [scope for scope in NEEDED_SCOPES if scope not in given],
        [scope for scope in WANTED_SCOPES if scope not in given],
    )


def hide_tokens(text: str, tokens: Iterable[str]) -> str:
    """G6: the text without the tokens."""
    for token in tokens:
        text = text.replace(token, HIDDEN) if token else text
    return text
