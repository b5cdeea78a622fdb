"""The calls that one account has left, for each of its chats and for all of them together. Time is given."""

from gateway.core.budget import PROGRESS, Budget, PlaceInLine, open_account_budget, open_budget
from gateway.platforms.face import PlatformSpec
from hermes_base.inbound import Address


class Purse:
    """What is paid for a call is taken from the chat and from the account. Topics of a chat share its budget: the
    platform counts them as one."""

    def __init__(self, spec: PlatformSpec, now: float) -> None:
        self._spec = spec
        self._account = open_account_budget(spec, now)
        self._chats: dict[str, Budget] = {}

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

    def close(self, chat: str, kind: str, now: float, seconds: float) -> None:
        """The platform asks for patience: nothing is sent until then, in this chat or (none named) at all."""
        if chat:
            self._chats[chat] = self._find(chat, kind, now).close(now, seconds)
        else:
            self._account = self._account.close(now, seconds)

    def penalty(self, address: Address, now: float) -> float:
        """Seconds for which nothing may be sent there."""
        chat = self._find(address.chat, address.kind, now)
        return max(0.0, chat.closed_until - now, self.account_penalty(now))

    def forget(self, now: float) -> None:
        """Chats that have all of their calls again."""
        self._chats = {chat: budget for chat, budget in self._chats.items() if not budget.is_fresh(now)}

    def account_penalty(self, now: float) -> float:
        """Seconds for which the account takes nothing at all."""
        return max(0.0, self._account.closed_until - now)

    def _find(self, chat: str, kind: str, now: float) -> Budget:
        return self._chats.get(chat) or open_budget(self._spec, now, kind)
