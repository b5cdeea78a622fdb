"""What is known of chats while the process lives: who cannot be written to, what they said last, and which messages of
ours arrived although the call broke off. WhatsApp says all of it again, or it is not needed."""

from hermes_base.inbound import Address

MOST_CHATS = 10_000
MOST_KEYS = 1_000
MOST_LOOKS = 3
TYPING_SECONDS = 20.0  # WhatsApp shows the sign for up to 25


class SentMemory:
    def __init__(self) -> None:
        #: By chat: what waits there, and for each the messages that did not arrive; "": one that was refused at once.
        self._away: dict[str, dict[Address, set[str]]] = {}
        self._heard: dict[str, tuple[str, float]] = {}  # by chat: the last message, and when it was written
        self._typed: dict[str, tuple[str, float]] = {}  # by chat: in answer to which message typing was shown, and when
        self._sent: dict[str, int] = {}  # ids of stored messages that were sent: how often one may be looked for again
        self._unsure: dict[str, str] = {}  # by key of what was sent and not answered: its id, once that is known

    def note_away(self, address: Address, message: str = "") -> bool:
        """Somebody is away, as this message shows; whether that is new."""
        shown = self._away.setdefault(address.chat, {}).setdefault(address, set())
        is_new = message not in shown
        shown.add(message)
        return is_new

    def take_away_back(self, address: Address, message: str) -> bool:
        """This message shows nothing of the kind; whether nobody is away by that."""
        self._away.get(address.chat, {}).get(address, set()).discard(message)
        return not self.is_away(address)

    def is_away(self, address: Address) -> bool:
        return bool(self._away.get(address.chat, {}).get(address))

    def come_back(self, chat: str) -> set[Address]:
        """Somebody has written: the addresses where something may wait."""
        return set(self._away.pop(chat, {}))

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
        self._keep_looks(message, MOST_LOOKS)

    def is_awaited(self, message: str, key: str) -> bool:
        """Whether a message that nobody finds in the store may be there a little later: it is one of ours, and was not
        looked for too often."""
        return self._sent.get(message, MOST_LOOKS if key in self._unsure else 0) > 0

    def note_look(self, message: str) -> None:
        """It was looked for in vain."""
        self._keep_looks(message, self._sent.get(message, MOST_LOOKS) - 1)

    def forget_sent(self, message: str) -> None:
        """What became of it is settled."""
        self._sent.pop(message, None)

    def _keep_looks(self, message: str, looks: int) -> None:
        self._sent[message] = looks
        while len(self._sent) > MOST_KEYS:
            del self._sent[next(iter(self._sent))]

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
