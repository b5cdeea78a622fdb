"""The calls that one account has left, for each of its chats and for all of them together. Time is given."""

from dataclasses import dataclass

from gateway.core.budget import PROGRESS, Budget, PlaceInLine, open_account_budget, open_budget
from gateway.platforms.face import PlatformSpec
from hermes_base.inbound import Address

SAME_PENALTY_SECONDS = 600.0  # one that begins again within this time goes on


@dataclass(frozen=True, slots=True)
class AskedPatience:
    """The platform takes nothing until then, in this chat or (none named) at all, and why, in its words."""

    chat: str
    until: float
    reason: str


class Purse:
    """What is paid for a call is taken from the chat and from the account. Topics of a chat share its budget: the
    platform counts them as one."""

    def __init__(self, spec: PlatformSpec, now: float) -> None:
        self._spec = spec
        self._account = open_account_budget(spec, now)
        self._chats: dict[str, Budget] = {}
        self._asked: dict[str, AskedPatience] = {}  # by chat

    def pay(
        self, address: Address, kind: str, now: float, ticket: PlaceInLine | None = None
    ) -> tuple[float, PlaceInLine | None]:
        """0 when the call may be made, which counts as made. Else the seconds until one asks again, and the place in
        the account's line, to be shown then: progress has none and is dropped."""
        chat = self._find(address.chat, address.kind, now)
        pause = chat.may(kind, now)
        if kind == PROGRESS:
            pause = max(pause, self._account.may(kind, now))
        if pause:
            return pause, ticket
        if kind == PROGRESS:
            self._account = self._account.take(now)
        elif not self._account.honours(ticket, now):
            self._account, ticket = self._account.reserve(now)
        if ticket is not None and ticket.due > now:
            return ticket.due - now, ticket
        self._chats[address.chat] = chat.take(now)
        return 0.0, None

    def pause_for(self, address: Address, kind: str, now: float) -> float:
        """Seconds until a call might be made; nothing is paid."""
        return max(self._find(address.chat, address.kind, now).may(kind, now), self._account.may(kind, now))

    def close(self, chat: str, kind: str, now: float, seconds: float, reason: str = "") -> bool:
        """The platform asks for patience: nothing is sent until then, in this chat or (none named) at all. Whether that
        begins now: what is asked for again and again is one thing to tell."""
        if chat:
            self._chats[chat] = self._find(chat, kind, now).close(now, seconds)
        else:
            self._account = self._account.close(now, seconds)
        last, asked = self._asked.get(chat), AskedPatience(chat, now + seconds, reason)
        self._asked[chat] = asked if last is None or asked.until >= last.until else last
        return last is None or now > last.until + SAME_PENALTY_SECONDS

    def waits(self, now: float) -> list[AskedPatience]:
        """Where nothing may be sent now; chats only where the whole account would be free before them."""
        whole = self._asked.get("")
        until = max(now, whole.until if whole else now)
        chats = [one for one in self._asked.values() if one.until > until]
        return [whole, *chats] if whole is not None and whole.until > now else chats

    def penalty(self, address: Address, now: float) -> float:
        """Seconds for which nothing may be sent there."""
        chat = self._find(address.chat, address.kind, now)
        return max(0.0, chat.closed_until - now, self.account_penalty(now))

    def forget(self, now: float) -> None:
        """Chats that have all of their calls again."""
        self._chats = {chat: budget for chat, budget in self._chats.items() if not budget.is_fresh(now)}
        long_ago = now - SAME_PENALTY_SECONDS
        self._asked = {chat: asked for chat, asked in self._asked.items() if asked.until > long_ago}

    def account_penalty(self, now: float) -> float:
        """Seconds for which the account takes nothing at all."""
        return max(0.0, self._account.closed_until - now)

    def _find(self, chat: str, kind: str, now: float) -> Budget:
        return self._chats.get(chat) or open_budget(self._spec, now, kind)
