"""Who is there: the business number, people with their chats, and the 24 hours after each of their messages."""

import base64
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hermes_lab.chats.record import ChatClock
from hermes_lab.chats.whatsapp.graph_values import UNDELIVERABLE, WINDOW_CLOSED, GraphError
from hermes_lab.values import LabProblem

WINDOW_SECONDS = 24 * 3600.0


@dataclass(slots=True)
class WhatsAppMessage:
    id: str
    ours: bool
    kind: str
    text: str
    at: float
    body: dict[str, Any] = field(default_factory=dict)  # as it was sent, or told
    file: str = ""
    read: bool = False
    failed: bool = False

    def describe(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class WhatsAppPerson:
    number: str
    user_id: str
    name: str
    said_at: float | None  # None: they never wrote
    hidden: bool = False  # shows no number
    gone: bool = False  # takes no messages
    typing: int = 0  # how often they saw that somebody types
    messages: list[WhatsAppMessage] = field(default_factory=list)


class NumberWorld:
    def __init__(self, clock: ChatClock, number: str, display: str) -> None:
        self.clock = clock
        self.number = number  # the id
        self.display = display
        self.people: dict[str, WhatsAppPerson] = {}
        self.late = False  # what cannot be brought is taken first, and told of later
        self._count = itertools.count(1)

    def add_person(self, name: str, number: str = "", wrote: bool = True, hidden: bool = False) -> str:
        """Somebody; their number, which names them here. They wrote just now, unless told otherwise."""
        n = next(self._count)
        number = number or f"49151{n:08d}"
        said_at = self.clock.date() if wrote else None
        self.people[number] = WhatsAppPerson(number, f"DE.{n:013d}", name, said_at, hidden)
        return number

    def find(self, person: str) -> WhatsAppPerson:
        if person not in self.people:
            raise LabProblem(f"There is nobody with the number {person}.")
        return self.people[person]

    def find_recipient(self, body: dict[str, Any]) -> WhatsAppPerson | None:
        to, user_id = str(body.get("to") or ""), str(body.get("recipient") or "")
        return next((one for one in self.people.values() if one.number == to or one.user_id == user_id), None)

    def find_fault(self, person: WhatsAppPerson) -> GraphError | None:
        """Why nothing can be brought to somebody now."""
        if person.gone:
            return GraphError(UNDELIVERABLE, "Message undeliverable.")
        if person.said_at is None or self.clock.date() - person.said_at > WINDOW_SECONDS:
            told = "Message failed to send because more than 24 hours have passed since the customer last replied."
            return GraphError(WINDOW_CLOSED, told)
        return None

    def make_id(self, person: WhatsAppPerson) -> str:
        return "wamid." + base64.urlsafe_b64encode(f"{person.number}.{next(self._count):09d}".encode()).decode()

    def find_message(self, id: str) -> tuple[WhatsAppPerson, WhatsAppMessage] | None:
        every = ((person, message) for person in self.people.values() for message in person.messages)
        return next(((person, message) for person, message in every if message.id == id), None)

    def seen(self, person: str) -> Iterator[str]:
        """What stands in the chat of ours; of a file its name."""
        for message in self.find(person).messages:
            if message.ours and not message.failed:
                yield message.file or message.text
