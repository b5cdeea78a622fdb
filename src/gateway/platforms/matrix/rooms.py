"""What is known of rooms while the process lives. The homeserver tells all of it again at each start."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gateway.platforms.matrix.soundness import JsonObject
from gateway.platforms.matrix.wire import (
    CREATE,
    DIRECT,
    ENCRYPTION,
    GROUP,
    MEMBER,
    TOMBSTONE,
    RoomView,
    name_direct,
    read_redacted,
    split_chat,
)
from hermes_base.inbound import Address
from hermes_base.text.whole_text import clean_text

PRESENT = ("join", "invite")
MOST_GONE = 500  # of our messages that somebody has taken away


@dataclass(slots=True)
class _Room:
    people: int | None = None
    present: set[str] = field(default_factory=set)  # those whose coming was told
    names: dict[str, str] = field(default_factory=dict)
    encrypted: bool = False
    successor: tuple[str, str] = ("", "")  # the room in its place, and who said so
    predecessor: str = ""  # the room in whose place it is, as it says itself


class KnownRooms:
    def __init__(self) -> None:
        self._rooms: dict[str, _Room] = {}
        self._moved: dict[str, str] = {}
        self._away: dict[str, set[Address]] = {}  # by room: what waits there
        self._gone: dict[str, None] = {}

    # --- what syncs tell

    def note_news(self, room: str, events: Iterable[JsonObject], people: int | None) -> None:
        """State of a room, and what is said there, in order."""
        known = self._rooms.setdefault(room, _Room())
        known.people = known.people if people is None else people
        for event in events:
            content = event.get("content")
            content = content if isinstance(content, Mapping) else {}
            sender, about = str(event.get("sender") or ""), str(event.get("state_key") or "")
            kind = event.get("type") if "state_key" in event else ""
            if kind == MEMBER and about:
                (known.present.add if content.get("membership") in PRESENT else known.present.discard)(about)
                known.names[about] = clean_text(str(content.get("displayname") or ""))
            elif kind == ENCRYPTION:
                known.encrypted = True
            elif kind == TOMBSTONE:
                known.successor = (str(content.get("replacement_room") or ""), sender)
            elif kind == CREATE:
                before = content.get("predecessor")
                known.predecessor = str(before.get("room_id") or "") if isinstance(before, Mapping) else ""
            if gone := read_redacted(event):
                self._gone[gone] = None
                while len(self._gone) > MOST_GONE:
                    del self._gone[next(iter(self._gone))]

    def note_members(self, room: str, people: Iterable[str]) -> None:
        """Who is there, as the homeserver says when it is asked: it tells of members as they speak."""
        if room in self._rooms:
            self._rooms[room].present |= set(people)

    def note_left(self, room: str) -> None:
        self._rooms.pop(room, None)

    def view(self, room: str) -> RoomView:
        """A room of two is a direct chat; whoever comes as the third makes it a group."""
        known = self._rooms.get(room, _Room())
        people = len(known.present) if known.people is None else known.people
        return RoomView(room, DIRECT if people <= 2 else GROUP, known.names)

    def is_present(self, room: str, person: str) -> bool:
        """Whether it was told that this person is there."""
        return room in self._rooms and person in self._rooms[room].present

    def is_between(self, room: str, person: str) -> bool:
        """Whether nobody but this person reads what is said there."""
        return self.is_present(room, person) and self.view(room).kind == DIRECT

    def is_in(self, room: str) -> bool:
        return room in self._rooms

    def is_encrypted(self, room: str) -> bool:
        return room in self._rooms and self._rooms[room].encrypted

    def is_gone(self, message: str) -> bool:
        """Whether somebody took this message away: an edit of it would be seen by nobody."""
        return message in self._gone

    # --- rooms that are replaced by others

    def list_successors(self) -> list[tuple[str, str, str]]:
        """Rooms that ended, the room in the place of each, and who said so; without those that were followed."""
        ended = [(room, *known.successor) for room, known in self._rooms.items() if known.successor[0]]
        return [(room, new, sender) for room, new, sender in ended if room not in self._moved]

    def succeeds(self, old: str, new: str) -> bool:
        """Whether the new room says itself that it is in the place of the old one."""
        return new in self._rooms and self._rooms[new].predecessor == old != new

    def note_move(self, old: str, new: str) -> None:
        """The old room is followed to the new one; to itself: to none."""
        self._moved[old] = new

    def follow(self, address: Address) -> Address:
        """The address as it is now. A direct chat goes only where its person is, and nobody else: who ends a room says
        where it goes on, and must not lead to themselves what is meant for others. A thread stays behind in its
        room."""
        began, person = split_chat(address.chat)
        room, seen = began, {began}
        while room in self._moved and self._moved[room] not in seen:
            room = self._moved[room]
            seen.add(room)
        if room == began or (person and not self.is_between(room, person)):
            return address
        return replace(address, chat=name_direct(room, person) if person else room, thread="")

    # --- where nobody can be reached

    def note_away(self, address: Address) -> None:
        self._away.setdefault(self._find_room(address), set()).add(address)

    def is_away(self, address: Address) -> bool:
        return address in self._away.get(self._find_room(address), ())

    def _find_room(self, address: Address) -> str:
        return split_chat(self.follow(address).chat)[0]

    def come_back(self, room: str) -> set[Address]:
        """The room takes messages: the addresses where something may wait."""
        return self._away.pop(room, set())
