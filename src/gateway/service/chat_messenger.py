"""Messages that an agent sends to chats other than its own: who may be addressed, where they are, and what became of
it. Stored first, then delivered (C9); the model of the chat that gets one hears of it with the next message there, once
it has arrived."""

import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gateway.core.people import ADMIN, OWNER, find_role, is_left_out
from gateway.core.quiet_hours import zone_or_own
from gateway.core.route import Standing
from gateway.delivery.delivery import Delivery
from gateway.platforms.platform_list import spec_of
from gateway.service.announcer import keep_copy
from gateway.turns.agent_builder import Choices
from gateway.turns.sender import LOCAL_OWNER, find_standing
from gateway.turns.whereabouts import NOTE_CHARS, Whereabouts
from hermes_base.conversation_key import begin_keys
from hermes_base.errors import ToolFailure
from hermes_base.files.home_files import HomeFiles
from hermes_base.inbound import FAILED, FILE, NOTE, OUTBOX, SENT, Address, FileRef, Outgoing
from hermes_base.text.foreign import OTHERS, UPLOADED
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.messaging import MessageSent, MessageTarget
from hermes_cli import config as cli_config
from hermes_state.sql.store_sql import Store

HOME = "home"
MOST_CHATS = 2_000
PATIENCE = 5.0  # seconds in which most platforms have taken a message
LOOK_SECONDS = 0.05
FROM = "Message from {name} ({id}):\n{text}"
FROM_OWN = "From another conversation, in {where}, which holds {origins}:\n{text}"
SENT_HERE = "[{who} had Hermes send this message to this chat: {text}]"
NO_HOME = "You have no home channel in a chat app that runs here. Say /sethome in one."
ONLY_OWN = "Only the owner and admins may send messages to others; this person may send to their own chats and home."
NOBODY = "There is no {to!r} that a message could go to. Action 'list' shows who and what can be addressed."
NOT_MET = "{name} has no chat here yet: they have to write to Hermes in a chat app first."


def make_messenger(
    files: HomeFiles, store: Store, delivery: Delivery, whereabouts: Whereabouts, profile: str, conversation: str
) -> "ChatMessenger | None":
    """For the agent of a conversation; None while no chat app is on."""
    return ChatMessenger(files, store, delivery, whereabouts, profile, conversation) if delivery.platforms() else None


@dataclass(frozen=True, slots=True)
class ChatMessenger:
    files: HomeFiles
    store: Store
    delivery: Delivery
    whereabouts: Whereabouts
    profile: str
    conversation: str

    # --- whom one can write to

    def targets(self) -> Sequence[MessageTarget]:
        sender = self._find_sender()
        chats = list(self._list_chats(sender))
        own = self.whereabouts.find_home(sender.person)
        home = [self._make(HOME, own, sender.person, "the own home channel", own=True)] if own else []
        found = [*home, *(chat for chat in chats if chat.own)]
        if _may_address_others(sender):
            found += [*self._list_people(sender, chats), *(chat for chat in chats if not chat.own)]
            found += self._list_home_chats(chats)
        return found

    def find(self, to: str) -> MessageTarget:
        wanted, targets = to.casefold(), self.targets()
        exact = next((target for target in targets if target.name.casefold() == wanted), None)
        if exact is not None:
            return exact
        if wanted == HOME:  # whoever else is called so
            raise ToolFailure(NO_HOME)
        called = [one for one in targets if one.name == one.person and one.label.casefold() == wanted]
        if len(called) == 1:
            return called[0]
        if called:
            ids = ", ".join(target.name for target in called)
            raise ToolFailure(f"{len(called)} people are called {to[:60]!r}: {ids}. Say which of these ids.")
        if not _may_address_others(self._find_sender()):
            raise ToolFailure(ONLY_OWN)
        known = next((one for one in self.store.people.people() if wanted in (one.id, one.name.casefold())), None)
        raise ToolFailure(NOT_MET.format(name=known.name) if known else NOBODY.format(to=to[:60]))

    def _find_sender(self) -> Standing:
        """Whose turn it is, as who they are today."""
        return self._find_standing(Choices.of(self.store.turns.choices(self.conversation)).person)

    def _find_standing(self, person: str) -> Standing:
        return find_standing(self.store.people, cli_config.load_last_good(), person)

    def _list_chats(self, sender: Standing) -> Iterator[MessageTarget]:
        """The chats of the apps that run here, the last ones that were spoken in first; a direct one only while its
        person may be spoken to (G3), a group while the settings do not leave it out."""
        settings = cli_config.load_last_good()
        names = {person.id: person.name for person in self.store.people.people()}
        known = {id: self._find_standing(id) for id in (*names, LOCAL_OWNER.person)}
        for platform in self.delivery.platforms():
            is_one = len(self.delivery.accounts(platform)) == 1
            for _, stored in self.store.habits.chats(begin_keys(self.profile, platform), MOST_CHATS):
                choices = Choices.of(stored)
                address = Address(**choices.address) if choices.address else None
                if address is None or address.platform != platform or not self.delivery.has(address):
                    continue
                if is_left_out(settings, address):
                    continue
                chat = address.chat_key if is_one else f"{address.account}/{address.chat_key}"
                name, person = f"{platform}:{chat}", known.get(choices.person)
                if address.kind != "dm":
                    yield self._make(name, address, "", f"a {address.kind}")
                elif person is not None and person.role:
                    own = _is_same(person, sender)
                    yield self._make(name, address, choices.person, names.get(choices.person, ""), own=own)

    def _list_people(self, sender: Standing, chats: Sequence[MessageTarget]) -> Iterator[MessageTarget]:
        """Everybody else, at home or where they spoke last."""
        for person in self.store.people.people():
            standing = self._find_standing(person.id)
            if not standing.role or _is_same(standing, sender):
                continue
            last = next((chat.address for chat in chats if chat.person == person.id), None)
            place = self.whereabouts.find_home(person.id) or last
            if place is not None:
                yield self._make(person.id, place, person.id, person.name)

    def _list_home_chats(self, chats: Sequence[MessageTarget]) -> Iterator[MessageTarget]:
        """The chat that the owner's variables name for a platform of a plugin, called by the platform alone."""
        for platform in self.delivery.platforms():
            find = spec_of(platform).home_chat
            chat = find() if find is not None else ""
            known = next((one for one in chats if (one.address.platform, one.address.chat) == (platform, chat)), None)
            if known is not None:
                yield self._make(platform, known.address, known.person, known.label, own=known.own)
            elif chat:
                yield self._make(platform, Address(platform, platform, chat), "", "its home channel")

    def _make(self, name: str, address: Address, person: str, label: str, *, own: bool = False) -> MessageTarget:
        here = address.conversation(self.profile) == self.conversation
        return MessageTarget(name, address, person, label, own, here, spec_of(address.platform).is_program)

    # --- sending

    def compose(self, target: MessageTarget, text: str, origins: Sequence[str]) -> str:
        if target.here:
            return text
        if target.is_read_by_others:
            name, id = self._describe_sender()
            return FROM.format(name=name, id=id, text=text)
        return (
            FROM_OWN.format(where=self._describe_here(), origins=" and ".join(origins), text=text) if origins else text
        )

    def _describe_here(self) -> str:
        """By names that nobody who writes there has chosen, as they choose a title."""
        given = Choices.of(self.store.turns.choices(self.conversation)).address
        here = Address(**given) if given else None
        if here is None:
            return "another place"
        words = (spec_of(here.platform).label, "" if here.account == here.platform else here.account)
        return " ".join(filter(None, (*words, "" if here.kind == "dm" else here.kind)))

    def _describe_sender(self) -> tuple[str, str]:
        sender = self._find_sender()
        known = self.store.people.get(sender.person)
        return (known.name, known.id) if known else ("the owner", LOCAL_OWNER.person)

    def send(
        self,
        target: MessageTarget,
        text: str,
        file: tuple[FileRef, bytes] | None,
        origins: Sequence[str],
        cancel: CancelToken,
    ) -> MessageSent:
        key, name = target.address.conversation(self.profile), f"message:{uuid.uuid4().hex[:16]}"
        # Whoever reads it elsewhere did not write it; nor does what the turn has read become theirs.
        seen = tuple(dict.fromkeys((*(() if target.own else (OTHERS,)), *origins)))
        outgoing = Outgoing(target.address, text, NOTE, turn=self.conversation, origins=seen)
        if file is not None:
            outgoing = Outgoing(target.address, text, FILE, file=self._copy(key, *file), origins=(*seen, UPLOADED))
        outgoing = self.whereabouts.quieten(outgoing, target.person)
        if not target.here:
            who = "The person of this chat, in another one," if target.own else " ".join(self._describe_sender())
            what = text[:NOTE_CHARS] or f"the file {file[0].name}" if file else text[:NOTE_CHARS]
            note = SENT_HERE.format(who=who, text=what)
            outgoing = replace(outgoing, note=note, note_origin=" and ".join(seen))
        self.store.turns.post(key, name, outgoing)
        if outgoing.hold_until:
            return MessageSent(False, self._describe_hold(outgoing, target))
        self.delivery.wake(target.address)
        return self._watch(key, name, cancel)

    def _copy(self, conversation: str, file: FileRef, data: bytes) -> FileRef:
        """The file as it was when it was checked, until it is sent."""
        return keep_copy(self.files, self.store.people.person_of(conversation), OUTBOX, file, data)

    def _describe_hold(self, outgoing: Outgoing, target: MessageTarget) -> str:
        zone = zone_or_own(self.whereabouts.habits(target.person).timezone)
        ends = datetime.fromtimestamp(outgoing.hold_until, zone).strftime("%H:%M")
        return f"These are quiet hours there; it is delivered when they end, at {ends}."

    def _watch(self, conversation: str, name: str, cancel: CancelToken) -> MessageSent:
        end = time.monotonic() + PATIENCE
        while True:
            state, reason = self.store.turns.outbox_fate(conversation, name) or (FAILED, "it is gone")
            if state == SENT:
                return MessageSent(True)
            if state == FAILED:
                raise ToolFailure(f"The chat app refused the message: {reason}")
            if time.monotonic() > end or cancel.wait(LOOK_SECONDS):
                return MessageSent(False, "It is sent as soon as the chat app takes it.")


def _is_same(one: Standing, other: Standing) -> bool:
    """Whether both are one person; the owner at the terminal is the owner in every app."""
    return one.person == other.person or one.role == other.role == OWNER


def _may_address_others(sender: Standing) -> bool:
    return find_role(sender.role).rank >= find_role(ADMIN).rank
