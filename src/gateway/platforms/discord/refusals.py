"""What Discord says instead of a result, in the words of the face of a platform. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gateway.platforms.face import NeverTaken, NotNow
from hermes_base.errors import DeliveryFailure

UNREACHED_SECONDS = 3.0  # nothing was sent: a short pause
TOKEN_SECONDS = 300.0  # a token that is refused is tried again so seldom
HIDDEN = "<token>"
BAD_TOKEN = "Discord does not know the bot's token: it is wrong, or it was reset."
BAD_TOKEN_FIX = "Copy the token from the bot's page in the developer portal and run `hermes setup discord`."
NO_INTENT = "Discord does not let the bot read messages: its message content intent is switched off."
NO_INTENT_FIX = (
    "Switch on `Message Content Intent` on the bot's page in the developer portal, or set "
    "`platforms.discord.message_content` to false: then it reads direct messages and what names it."
)


class Trouble(StrEnum):
    PENALTY = "penalty"  # 429
    FORBIDDEN = "forbidden"  # 403, 404, any other 4xx, each with a code of Discord's own
    MISSING = "missing"
    REFUSED = "refused"
    TOKEN = "token"  # 401
    UNSENT = "unsent"  # no connection was made: nothing can have arrived
    UNSURE = "unsure"  # broke off, the server failed, or somebody in between answered: it may have arrived


class DiscordTrouble(Exception):
    """A call that brought no result. The text is free of the token."""

    def __init__(
        self, kind: Trouble, text: str, *, code: int = 0, seconds: float = 0.0, whole_account: bool = False
    ) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.code = code
        self.seconds = seconds
        self.whole_account = whole_account


@dataclass(frozen=True, slots=True)
class _Code:
    """What one of Discord's own codes means for a message. `waits`: it is kept until somebody is there again."""

    sentence: str
    waits: bool = True


_CLOSED_DM = _Code("The person takes no direct messages of the bot; the message waits until they write to it again.")
_CLOSED_THREAD = _Code("The thread is closed; the message waits until it is opened again.")
_FILTERED = _Code("The rules of the server (AutoMod) do not let the text through.", waits=False)
_CODES: Mapping[int, _Code] = {
    10003: _Code("There is no such channel for the bot any more; the message is kept."),
    10004: _Code("The bot is not on the server any more; the message waits until it is added again."),
    10008: _Code("The message is not there any more.", waits=False),
    40005: _Code("The file is larger than Discord takes.", waits=False),
    50001: _Code("The bot cannot see the channel, or was removed from the server; the message waits until it is back."),
    50005: _Code("The message is not the bot's own.", waits=False),
    50006: _Code("Discord takes no empty message.", waits=False),
    50007: _CLOSED_DM,
    50013: _Code("The bot may not write in this channel; the message waits until it may."),
    50083: _CLOSED_THREAD,
    50278: _CLOSED_DM,
    160005: _CLOSED_THREAD,
    200000: _FILTERED,
    200001: _FILTERED,
}
_UNKNOWN_CHANNEL, _GONE_THREAD = 10003, "The thread is not there any more."


_LOWEST_CODE = 10_000  # of Discord's own: what is lower is a status that somebody repeats
_TOO_LARGE, _TOO_LARGE_CODE = 413, 40005  # whoever says so, it was not taken
_KINDS = {401: Trouble.TOKEN, 403: Trouble.FORBIDDEN, 404: Trouble.MISSING, 429: Trouble.PENALTY}
_WITHOUT_CODE = (Trouble.TOKEN, Trouble.PENALTY)


def judge_answer(status: int, code: object, text: str) -> DiscordTrouble:
    """What an answer that is an error says. Discord gives a code with its word on a call; without one it may be anybody
    on the way, for this once, and nobody knows whether the call was carried out."""
    kind = _KINDS.get(status, Trouble.REFUSED)
    own = _TOO_LARGE_CODE if status == _TOO_LARGE else code
    if not isinstance(own, int) or own < _LOWEST_CODE:
        own, kind = 0, kind if kind in _WITHOUT_CODE else Trouble.UNSURE
    return DiscordTrouble(kind, text or f"status {status}", code=own)


def doubt_token(trouble: DiscordTrouble) -> DiscordTrouble:
    """The same where Discord knows the token all the same."""
    return DiscordTrouble(Trouble.REFUSED if trouble.code else Trouble.UNSURE, trouble.text, code=trouble.code)


def as_failure(trouble: DiscordTrouble, *, in_thread: bool = False) -> DeliveryFailure:
    """What whoever sends has to know: wait, give up, or send again in doubt."""
    match trouble.kind:
        case Trouble.PENALTY:
            what = f"Discord asks for {trouble.seconds:.1f} s of patience."
            return NotNow(what, trouble.seconds, whole_account=trouble.whole_account)
        case Trouble.TOKEN:
            return NotNow(f"{BAD_TOKEN} {BAD_TOKEN_FIX}", TOKEN_SECONDS, whole_account=True)
        case Trouble.UNSENT:
            return NotNow(f"Discord cannot be reached: {trouble.text}.", UNREACHED_SECONDS, whole_account=True)
        case Trouble.UNSURE:
            return DeliveryFailure(f"Discord gave no answer: {trouble.text}.")
    if trouble.code == _UNKNOWN_CHANNEL and in_thread:
        return NeverTaken(_GONE_THREAD)
    known = _CODES.get(trouble.code)
    if known is not None:
        return NotNow(known.sentence) if known.waits else NeverTaken(known.sentence)
    if trouble.kind is Trouble.FORBIDDEN:
        return NotNow(f"Discord does not let the bot write there: {trouble.text}.")
    return NeverTaken(f"Discord refused it: {trouble.text}.")


def hide_token(text: str, token: str) -> str:
    """G6: the text without the token, and without the part of it that is the secret."""
    for secret in (token, token.rpartition(".")[2]):
        text = text.replace(secret, HIDDEN) if secret else text
    return text
