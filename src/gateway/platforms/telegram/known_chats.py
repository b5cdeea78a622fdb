"""What is known of chats while the process lives: where nobody can be reached, which groups have another id by now, and
where no sign can be put on a message. Telegram says it again after a restart."""

from dataclasses import replace

from hermes_base.inbound import Address


class KnownChats:
    def __init__(self) -> None:
        self._away: dict[str, set[Address]] = {}  # by chat: what waits there
        self._moved: dict[str, str] = {}
        self._unsigned: set[str] = set()

    def follow(self, address: Address) -> Address:
        """The address as Telegram has it now."""
        chat, seen = address.chat, set()
        while chat in self._moved and chat not in seen:
            seen.add(chat)
            chat = self._moved[chat]
        return address if chat == address.chat else replace(address, chat=chat)

    def note_move(self, old: str, new: str) -> None:
        if old != new:
            self._moved[old] = new

    def note_away(self, address: Address) -> None:
        self._away.setdefault(self.follow(address).chat, set()).add(address)

    def is_away(self, address: Address) -> bool:
        return address in self._away.get(self.follow(address).chat, ())

    def come_back(self, chat: str) -> set[Address]:
        """Somebody is in this chat: the addresses where something may wait."""
        return self._away.pop(chat, set())

    def takes_signs(self, address: Address) -> bool:
        return address.chat not in self._unsigned

    def note_unsigned(self, address: Address) -> None:
        self._unsigned.add(address.chat)
