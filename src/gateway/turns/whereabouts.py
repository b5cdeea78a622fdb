"""Where and when a person is told what they did not ask for: in the conversation that it belongs to, at home when they
are not there, and not during their quiet hours."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from gateway.core.people import is_left_out
from gateway.core.quiet_hours import hold_until
from gateway.delivery.delivery import Delivery
from gateway.turns.sender import is_let_in, list_accounts
from hermes_base.inbound import NOTE, Address, Outgoing
from hermes_cli import config as cli_config
from hermes_state.people_store import Habits, HeardNote
from hermes_state.sql.store_sql import Store

FROM_ELSEWHERE = "(This is about another conversation: {title}{way})"
WAY_BACK = " /resume {session} brings it here."
TOLD_HERE = "[Hermes told the person in this chat, without having been asked here: {text}]"
NOTE_CHARS = 2_000
MOST_NOTES, MOST_NOTE_CHARS = 20, 8_000  # that a model is told at once
LEFT_OUT = "[{count} earlier notes of this kind are left out.]"
ONE_LEFT_OUT = "[1 earlier note of this kind is left out.]"


def choose_place(own: Address, is_there: bool, home: Address | None) -> Address:
    """Where a notice for a person goes: to the conversation that it belongs to, unless nobody is there and they have a
    home. A group is no place of one person, so what belongs there stays there."""
    return home if home is not None and own.kind == "dm" and not is_there else own


def choose_reachable(home: Address, accounts: Sequence[str], knows: Callable[[Address], bool]) -> Address | None:
    """A home as it is reached today: by its account, else by the only one that there is or that has the chat; None: it
    is not known which of several could reach it, and it is never guessed."""
    if home.account in accounts:
        return home
    others = [replace(home, account=name) for name in accounts]
    possible = others if len(others) == 1 else [one for one in others if knows(one)]
    return possible[0] if len(possible) == 1 else None


def end_sentence(text: str) -> str:
    """With one sign at its end."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def choose_notes(notes: Sequence[HeardNote], task: str = "") -> tuple[Sequence[HeardNote], str]:
    """Those about the session of this task, and the newest of the others, as many as a model is told at once; a line on
    those that are left out; empty: none is. What is about another session is over."""
    own = [note for note in notes if note.task and note.task == task]
    told, left_out = _choose_newest([note for note in notes if not note.task])
    return sorted((*own, *told), key=lambda note: note.id), left_out


def _choose_newest(notes: Sequence[HeardNote]) -> tuple[Sequence[HeardNote], str]:
    room, first = MOST_NOTE_CHARS - len(LEFT_OUT.format(count=len(notes))), len(notes)
    while first and len(notes) - first < MOST_NOTES and len(notes[first - 1].text) <= room:
        first -= 1
        room -= len(notes[first].text)
    left_out = ONE_LEFT_OUT if first == 1 else LEFT_OUT.format(count=first) if first else ""
    return notes[first:], left_out


class Whereabouts:
    """Reads the store; called on threads that may wait for it."""

    def __init__(self, store: Store, delivery: Delivery, profile: str, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._delivery = delivery
        self._profile = profile
        self._now = now

    def habits(self, person: str) -> Habits:
        return self._store.habits.get(person) if person else Habits()

    def find_home(self, person: str) -> Address | None:
        """Their home, as long as whoever made it one is let in, the settings do not leave it out, and this gateway
        sends there."""
        habits, settings = self.habits(person), cli_config.load_last_good()
        if habits.home is None or is_left_out(settings, habits.home):
            return None
        platform = habits.home.platform
        if habits.sender and not is_let_in(self._store.people, settings, platform, habits.sender):
            return None
        # What is told while an account gets other settings waits for it in the outbox.
        coming = set(self._delivery.away(platform)).intersection(list_accounts(settings, platform))
        accounts = sorted({*self._delivery.accounts(platform), *coming})
        return choose_reachable(habits.home, accounts, self._knows)

    def _knows(self, address: Address) -> bool:
        return self._store.habits.knows(address.conversation(self._profile))

    def find_place(self, own: Address, person: str) -> Address:
        """Where a notice of a conversation that was last spoken to at `own` finds this person now."""
        is_there = self._delivery.is_there(own)
        return choose_place(own, is_there, None if is_there else self.find_home(person))

    def direct(self, notice: Outgoing, person: str) -> Outgoing:
        """A notice of the conversation that was last spoken to at its address, for where and when it finds its
        person."""
        place = self.find_place(notice.address, person)
        return self.quieten(notice if place == notice.address else self._move(notice, place), person)

    def _move(self, notice: Outgoing, place: Address) -> Outgoing:
        """The notice at home; the model there hears of it once it has arrived, and not before."""
        note = TOLD_HERE.format(text=notice.text[:NOTE_CHARS])
        return replace(notice, address=place, conversation=place.conversation(self._profile), note=note)

    def quieten(self, outgoing: Outgoing, person: str) -> Outgoing:
        """The same message, which waits if it is for one person and these are their quiet hours. It is not said any
        more when its reader has no access (G3); at home that is whoever made it one."""
        habits = self.habits(person)
        is_home = habits.home is not None and self.find_home(person) == outgoing.address
        reader = habits.set_by if is_home else person
        until = self.find_quiet(outgoing.address, person)
        held_for = self._store.habits.key_of(person) if until else ""
        return replace(outgoing, reader=reader, hold_until=until, held_for=held_for)

    def find_quiet(self, address: Address, person: str) -> float:
        """Until when a person wants to hear nothing there that they did not ask for; 0.0: they may be told now."""
        habits = self.habits(person)
        return hold_until(habits.quiet, habits.timezone, self._now()) if address.kind == "dm" and habits.quiet else 0.0

    def hold_anew(self, person: str) -> None:
        """Their habits have changed: what waits for them waits until the quiet hours of now are over."""
        habits = self.habits(person)
        until = hold_until(habits.quiet, habits.timezone, self._now())
        self._store.turns.hold_anew(self._store.habits.key_of(person), until)

    def tell_model(self, conversation: str, text: str) -> None:
        """The model hears it with the next message, also after a restart, as long as its session goes on; one that
        begins then knows it by itself."""
        current = self._store.current(conversation)
        if current is not None:
            self._store.habits.add_note(conversation, text, task=current.task)

    # --- the answer to a notice

    def spread(self, conversation: str, answer: Outgoing, person: str) -> list[Outgoing]:
        """An answer that nobody waits for: in its conversation, and at home if nobody is there."""
        own = answer if answer.draft else self.quieten(answer, person)
        place = self.find_place(answer.address, person)
        if place == answer.address or not answer.text:
            return [own]
        info = self._store.current(conversation)
        way = WAY_BACK.format(session=info.id) if info and place.kind == "dm" else ""
        title = end_sentence(((info.title or info.preview) if info else "") or "one without a name")
        text = f"{answer.text}\n\n{FROM_ELSEWHERE.format(title=title, way=way)}"
        copy = Outgoing(place, text, NOTE, answer.level, turn=answer.turn, origins=answer.origins)
        return [own, self.quieten(self._move(copy, place), person)]
