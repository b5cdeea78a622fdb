"""What is known of channels while the process lives: which are threads of which, where nobody can be reached, and where
no sign can be put on a message. Discord says it again after a restart."""

from collections.abc import Iterable

from gateway.platforms.discord.wire import ChannelPlace, find_channel
from hermes_base.inbound import Address


class ChannelBook:
    def __init__(self) -> None:
        self._places: dict[str, ChannelPlace] = {}
        self._away: dict[str, set[Address]] = {}  # by channel: what waits there
        self._unsigned: set[str] = set()

    def find(self, channel: str) -> ChannelPlace | None:
        return self._places.get(channel)

    def note(self, places: Iterable[ChannelPlace]) -> None:
        self._places |= {place.channel: place for place in places}

    def note_away(self, address: Address) -> None:
        self._away.setdefault(find_channel(address), set()).add(address)

    def is_away(self, address: Address) -> bool:
        return address in self._away.get(find_channel(address), ())

    def come_back(self, channel: str) -> set[Address]:
        """Somebody is in this channel, or it has changed: the addresses where something may wait. What is above a
        thread decides on it, too."""
        below = [other for other in self._away if other != channel and self._is_below(other, channel)]
        return set().union(*(self._away.pop(one, set()) for one in (channel, *below)))

    def _is_below(self, channel: str, above: str) -> bool:
        place = self._places.get(channel)
        return place is not None and place.parent == above

    def list_away(self, guild: str) -> list[str]:
        """The channels of a server where something may wait."""
        return self.pick(self._away, guild)

    def pick(self, channels: Iterable[str], guild: str) -> list[str]:
        """Those that are on a server; also those of which nobody knows where they are."""
        places = ((channel, self._places.get(channel)) for channel in channels)
        return [
            channel for channel, place in places if place is None or (place.guild in ("", guild) and not place.is_dm)
        ]

    def takes_signs(self, address: Address) -> bool:
        return find_channel(address) not in self._unsigned

    def note_unsigned(self, address: Address) -> None:
        self._unsigned.add(find_channel(address))
