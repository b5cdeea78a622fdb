"""What is known of chats while the process lives: who cannot be written to, what they said last, and which messages of
ours arrived although the call broke off. WhatsApp says all of it again, or it is not needed."""

from hermes_base.inbound import Address

MOST_CHATS = 10_000
MOST_KEYS = 1_000
MOST_LOOKS = 3
TYPING_SECONDS = 20.0  # WhatsApp shows the sign for up to 25


class SentMemory:
    def __init__(self) -> None:
        self._away: dict[str, set[Address]] = {}  # by chat: what waits there
        self._heard: dict[str, tuple[str, float]] = {}  # by chat: the last message, and when it was written
        self._typed: dict[str, tuple[str, float]] = {}  # by chat: in answer to which message typing was shown, and when
        self._sent: dict[str, int] = {}  # ids of stored messages that were sent: how often one may be looked for again
        self._unsure: dict[str, str] = {}  # by key of what was sent and not answered: its id, once that is known

    def note_away(self, address: Address) -> None:
        self._away.setdefault(address.chat, set()).add(address)

    def is_away(self, address: Address) -> bool:
        return address in self._away.get(address.chat, ())

    def come_back(self, chat: str) -> set[Address]:
        """Somebody has written: the addresses where something may wait."""
        return self._away.pop(chat, set())

    def note_heard(self, chat: str, message: str, at: float) -> None:
        _put_last(self._heard, chat, (message, at))

    def has_written_since(self, chat: str, at: float) -> bool:
        return self._heard.get(chat, ("", 0.0))[1] >= at

    def choose_typing(self, chat: str, now: float) -> str:
        """The message in answer to which typing is to be shown now; empty: it is shown, or no message is known."""
        message, _ = self._heard.get(chat, ("", 0.0))
        before, at = self._typed.get(chat, ("", 0.0))
        if not message or (message == before and now - at < TYPING_SECONDS):
            return ""
        _put_last(self._typed, chat, (message, now))
        return message

    def note_sent(self, message: str) -> None:
        self._sent[message] = MOST_LOOKS
        while len(self._sent) > MOST_KEYS:
            del self._sent[next(iter(self._sent))]

    def may_be_noted_yet(self, message: str) -> bool:
        """Whether a message that nobody finds in the store may be there a little later; not for ever."""
        left = self._sent.get(message, 0) - 1
        if left < 0:
            return False
        self._sent[message] = left
        return True

    def begin(self, key: str) -> None:
        """A call is made. If it breaks off, its message may have arrived."""
        if key:
            self._unsure.setdefault(key, "")
            while len(self._unsure) > MOST_KEYS:
                del self._unsure[next(iter(self._unsure))]

    def end(self, key: str) -> None:
        """It was answered: nothing is in doubt."""
        self._unsure.pop(key, None)

    def note_arrived(self, key: str, message: str) -> None:
        """WhatsApp tells of a message that went with this key."""
        if key in self._unsure:
            self._unsure[key] = message

    def find_arrived(self, key: str) -> str:
        """The id of a message that arrived although nobody was told so; empty: none is known to have."""
        return self._unsure.pop(key, "") if self._unsure.get(key) else ""


def _put_last(kept: dict[str, tuple[str, float]], chat: str, value: tuple[str, float]) -> None:
    kept.pop(chat, None)
    kept[chat] = value
    while len(kept) > MOST_CHATS:
        del kept[next(iter(kept))]
