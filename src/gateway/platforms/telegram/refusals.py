"""What Telegram says instead of a result, in the words of the face of a platform. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gateway.platforms.face import NeverTaken, NotNow
from hermes_base.account_names import write_variable
from hermes_base.errors import DeliveryFailure

TOKEN_SECONDS = 300.0  # a token that is refused is tried again so seldom
UNREACHED_SECONDS = 3.0  # nothing was sent: a short pause
HIDDEN = "<token>"
LARGEST_FETCH = "20 MB"
BAD_TOKEN = "Telegram does not know the bot's token: it is wrong, or it was revoked."
VARIABLE = "TELEGRAM_BOT_TOKEN"
ASK_FOR_TOKEN = "Ask @BotFather for the token and run "
BAD_TOKEN_FIX = f"{ASK_FOR_TOKEN}`hermes setup telegram`."


def fix_token(account: str) -> str:
    """How a token is set anew; what is set up without questions has a variable of its own."""
    named = account not in ("", "telegram")
    return f"{ASK_FOR_TOKEN}`hermes config set {write_variable(VARIABLE, account)}`." if named else BAD_TOKEN_FIX


class TroubleKind(StrEnum):
    PENALTY = "penalty"  # 429
    MOVED = "moved"  # the group has another id by now
    FORBIDDEN = "forbidden"  # 403
    REFUSED = "refused"  # 400
    TOKEN = "token"  # 401
    CONFLICT = "conflict"  # 409
    UNSENT = "unsent"  # no connection was made: nothing can have arrived
    UNSURE = "unsure"  # broke off, or the server failed: it may have arrived


class BotTrouble(Exception):
    """A call that brought no result. The text is free of the token."""

    def __init__(
        self, kind: TroubleKind, text: str, *, seconds: float = 0.0, moved_to: str = "", fix: str = BAD_TOKEN_FIX
    ) -> None:
        """`fix`: what helps if it is the token."""
        super().__init__(text)
        self.fix = fix
        self.kind = kind
        self.text = text
        self.seconds = seconds
        self.moved_to = moved_to

    def says(self, words: str) -> bool:
        return words in self.text.lower()


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What words of Telegram mean for a message. `waits`: it is kept until somebody is there again."""

    sentence: str
    waits: bool = False
    markup: bool = False


#: By words in what Telegram says; the first that fits holds.
_FORBIDDEN: Mapping[str, str] = {
    "blocked by the user": "The person has blocked the bot; the message waits until they write to it again.",
    "user is deactivated": "The person's Telegram account is closed; the message is kept.",
    "can't initiate conversation": "The person has not written to the bot yet; the message waits until they do.",
    "was kicked": "The bot was removed from the chat; the message waits until it is added again.",
    "not a member": "The bot is not in the chat; the message waits until it is added.",
    "chat was deleted": "The group was deleted; the message is kept.",
}
_NOT_ALLOWED = _Meaning("The bot may not write in this chat; the message waits until it may.", waits=True)
_REFUSED: Mapping[str, _Meaning] = {
    "can't parse entities": _Meaning("Telegram does not take the markup", markup=True),
    "chat not found": _Meaning("Telegram knows no such chat for this bot; the message waits for it.", waits=True),
    "not enough rights": _NOT_ALLOWED,
    "have no rights": _NOT_ALLOWED,
    "administrator rights": _NOT_ALLOWED,
    "chat_write_forbidden": _NOT_ALLOWED,
    "chat_restricted": _NOT_ALLOWED,
    "topic_closed": _Meaning("The topic is closed; the message waits until it is opened again.", waits=True),
    "message thread not found": _Meaning("The topic is not there any more."),
    "message to edit not found": _Meaning("The message to edit is not there any more."),
    "message can't be edited": _Meaning("The message cannot be edited any more."),
    "no text in the message to edit": _Meaning("The message to edit has no text."),
    "file is too big": _Meaning(f"The file is larger than the {LARGEST_FETCH} that Telegram hands to bots."),
    "temporarily unavailable": _Meaning("Telegram does not have the file any more."),
}
_TOO_LARGE = "request entity too large"


def as_failure(trouble: BotTrouble) -> DeliveryFailure:
    """What whoever sends has to know: wait, give up, or send again in doubt."""
    match trouble.kind:
        case TroubleKind.PENALTY:
            return NotNow(f"Telegram asks for {trouble.seconds:.0f} s of patience.", trouble.seconds)
        case TroubleKind.FORBIDDEN:
            known = (sentence for words, sentence in _FORBIDDEN.items() if trouble.says(words))
            return NotNow(next(known, f"Telegram does not let the bot write there: {trouble.text}."))
        case TroubleKind.REFUSED:
            return _read_refusal(trouble)
        case TroubleKind.TOKEN:
            return NotNow(f"{BAD_TOKEN} {trouble.fix}", TOKEN_SECONDS, whole_account=True)
        case TroubleKind.UNSENT:
            return NotNow(f"Telegram cannot be reached: {trouble.text}.", UNREACHED_SECONDS, whole_account=True)
    if trouble.says(_TOO_LARGE):
        return NeverTaken("The file is larger than Telegram takes from bots.")
    return DeliveryFailure(f"Telegram gave no answer: {trouble.text}.")


def _read_refusal(trouble: BotTrouble) -> DeliveryFailure:
    meaning = next((meaning for words, meaning in _REFUSED.items() if trouble.says(words)), None)
    if meaning is None:
        return NeverTaken(f"Telegram refused it: {trouble.text}.")
    if meaning.waits:
        return NotNow(meaning.sentence)
    return NeverTaken(
        f"{meaning.sentence}: {trouble.text}." if meaning.markup else meaning.sentence, markup=meaning.markup
    )


def is_unmodified(trouble: BotTrouble) -> bool:
    """An edit to what stands there already: as good as done."""
    return trouble.kind is TroubleKind.REFUSED and trouble.says("message is not modified")


def is_bad_photo(trouble: BotTrouble) -> bool:
    """The file is no photo for Telegram (its form, its sides), and may still be a document."""
    return trouble.kind is TroubleKind.REFUSED and (trouble.says("photo_") or trouble.says("image_process_failed"))


def is_webhook_set(trouble: BotTrouble) -> bool:
    return trouble.kind is TroubleKind.CONFLICT and trouble.says("webhook")


def hide_token(text: str, token: str) -> str:
    """G6: the text without the token; addresses hold it, and the second half alone is the secret."""
    for secret in (token, token.partition(":")[2]):
        text = text.replace(secret, HIDDEN) if secret else text
    return text
