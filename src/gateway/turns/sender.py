"""Finds out what `route` has to know of a message: who sends it, what it is an edit of, and what plugins say to it.

A sender is known to the store, listed in the settings, or a stranger who gets a pairing code.
"""

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gateway.core.bursts import Item
from gateway.core.people import MEMBER, OWNER, GroupRules, Scope, group_rules, listed_role, may_talk, program_role
from gateway.core.route import ANSWERED, NOTHING_NEW, OPEN, ConversationView, Standing
from gateway.platforms.account_settings import is_on, name_accounts, read_section
from gateway.platforms.face import PlatformSpec
from gateway.platforms.platform_list import spec_of
from gateway.platforms.plugin_bridge.event_forms import take_changes, write_event
from gateway.platforms.plugin_bridge.runner_face import RunnerFace
from gateway.turns.commands import identity_links
from hermes_base import command_table
from hermes_base.conversation_key import parse_key
from hermes_base.errors import ConfigProblem, StoreFailure
from hermes_base.inbound import NOTE, NOTICE, PEOPLE, Address, Inbound, Outgoing, read_inbound, read_way
from hermes_base.settings import Settings
from hermes_base.text.foreign import OTHERS
from hermes_cli import config as cli_config
from hermes_cli.plugins import PluginHooks, get_plugin_manager, list_plugin_words
from hermes_state.people_records import name_pairing
from hermes_state.people_store import Identity, Person
from hermes_state.sql.people_sql import PeopleStore
from hermes_state.sql.store_sql import Store
from hermes_state.turns import Claim

log = logging.getLogger(__name__)

#: Whoever reaches a trusted platform (the socket of this user) is the owner of the machine.
LOCAL_OWNER = Standing(person="owner", role=OWNER)
STRANGER = Standing(person="", role="")
WORKSPACE = "workspace"

PAIRING_SENTENCE = (
    "I do not know you yet. Give this code to the owner of this Hermes; it is valid for an hour: {code}\n"
    "They let you in with: hermes people approve {code}"
)
#: While nobody is the owner in any app, it may well be the owner who writes.
OWNER_SENTENCE = "If that is you: hermes people approve {code} --role owner"

LOOKED_AT = 200  # new messages that one look sees
#: With less free space than this nothing is taken in: what is under way must still find room.
LEAST_FREE_BYTES = 64 * 1024 * 1024
DISK_FULL = (
    "Your message was not taken: the disk is nearly full. What was said before is safe. "
    "Free some space on the machine that runs Hermes, then send it again."
)
DISK_FULL_NOW = "The disk is nearly full: no message is taken until there is room."
BARRED = "Your message was not taken: the owner of this Hermes ended the access of this program. Nothing was kept."
CLOSING = "Your message was not taken: Hermes is shutting down. Send it again when it runs."
MOVING = "Your message was not taken: Hermes is moving its store. Send it again in a minute."


def measure_free(home: Path) -> int:
    """Bytes that are free on the disk of the home."""
    disk = os.statvfs(home)
    return disk.f_bavail * disk.f_frsize


class Senders:
    """Who writes to us, and what `route` has to know of it. Reads the store; called on its threads."""

    def __init__(self, store: Store, profile: str, runner: RunnerFace, *, fetches_all: bool) -> None:
        """With `fetches_all` every file of a message has to be brought here before its turn."""
        self._store = store
        self._fetches_all = fetches_all
        self._turns = store.turns
        self._people = store.people
        self._profile = profile
        self.hooks = PluginHooks(get_plugin_manager())
        self._runner = runner  # as plugins are given it

    def is_stranger(self, conversation: str, inbound: Inbound) -> bool:
        """Whether nobody let the sender in; a platform that knows people has asked for a key before, and `route` looks
        again."""
        spec = spec_of(inbound.address.platform)
        if spec.knows_people or spec.trusted:
            return False
        return not may_talk(self._find_sender(conversation, inbound, spec, cli_config.load_last_good()).role)

    def knows(self, platform: str, sender: str, name: str) -> bool:
        """Whether somebody was let in, whatever they are about to do."""
        who = spec_of(platform).person_ids.bring(sender)
        return may_talk(admit(self._people, cli_config.load_last_good(), platform, who, name).role)

    def may_be_told(self, conversation: str, inbound: Inbound) -> bool:
        """Whether its sender hears that a message was not taken: no stranger does, and in a group only who speaks to
        us (G1)."""
        if self.is_stranger(conversation, inbound):
            return False
        address, spec = inbound.address, spec_of(inbound.address.platform)
        if address.kind == "dm":
            return True
        rules = group_rules(cli_config.load_last_good(), address.platform, address.chat, address.account)
        needs_mention = spec.needs_mention if rules.needs_mention is None else rules.needs_mention
        speaks_to_us = inbound.mentioned or bool(inbound.question) or rules.open or not needs_mention
        return rules.allowed and speaks_to_us

    def greet_stranger(self, conversation: str, inbound: Inbound) -> list[Address]:
        """In a direct chat a stranger is told a code, once for each request however often they write (G1); there are
        few requests, and they pass. Who says the code of somebody we know is that person from now on. Where there is
        something to deliver."""
        address = inbound.address
        if address.kind != "dm" or spec_of(address.platform).is_program:  # no person is there to read a code
            return []
        asked = command_table.parse(inbound.text)
        if asked is not None and asked[0] is not None and asked[0].name == "link" and asked[1]:
            joined = self._join_stranger(conversation, inbound, asked[1])
            if joined:
                return joined
        made = self._people.pair(address.platform, inbound.sender, inbound.sender_name, address.chat, conversation)
        if made is None:
            return []
        has_owner = _find_owner(self._people, cli_config.load_last_good())
        lines = [PAIRING_SENTENCE] if has_owner else [PAIRING_SENTENCE, OWNER_SENTENCE]
        told = Outgoing(address, "\n".join(lines).format(code=made.code), NOTE)
        return [address] if self._turns.post(conversation, name_pairing(made.code), told) else []

    def _join_stranger(self, conversation: str, inbound: Inbound, code: str) -> list[Address]:
        joined = identity_links.join_stranger(
            self._store, code, inbound.address.platform, inbound.sender, partial(may_speak, self._people)
        )
        if joined is None:
            return []
        person, used = joined
        here = Outgoing(inbound.address, identity_links.JOINED_HERE.format(name=person.name, id=person.id), NOTE)
        there = identity_links.make_word(used, person, inbound.address.platform, inbound.sender)
        self._turns.post(conversation, f"link:{used.code}", here)
        self._turns.post(there.address.conversation(self._profile), f"link:{used.code}", there)
        return [here.address, there.address]

    def look(self, claim: Claim, known: frozenset[int], *, closing: bool) -> list[Item]:
        """The open messages of a conversation that its lane does not know yet, in order; however many it knows, up to
        LOOKED_AT of the others."""
        settings = cli_config.load_last_good()
        items = []
        for row in self._turns.waiting(claim, len(known) + LOOKED_AT, read_inbound):
            if row.seq in known:
                continue
            inbound: Inbound = row.body
            address, spec = inbound.address, spec_of(inbound.address.platform)
            is_group = address.kind != "dm"
            place = (address.platform, address.chat, address.account)
            rules = group_rules(settings, *place) if is_group else GroupRules()
            may_replace = spec.takes_edits and inbound.origin != NOTICE and not row.attempts
            replaced, earlier = self._find_earlier(claim.conversation, inbound, row.seq) if may_replace else ((), "")
            forwarded = (OTHERS,) if inbound.forwarded else ()
            quoted = self._find_quoted(claim.conversation, inbound) if inbound.quote else ()
            foreign, own = tuple(dict.fromkeys((*forwarded, *quoted))), name_beginner(inbound)
            view = ConversationView(
                self._find_sender(claim.conversation, inbound, spec, settings),
                # The direct chat of somebody else came to this sender, with a room or a name that changed hands (G12).
                anothers=bool(own) and str(self._turns.choices(claim.conversation).get("began") or own) != own,
                busy_mode=settings.gateway.busy,
                closing=closing,
                earlier=earlier,
                group_open=rules.open,
                group_allowed=rules.allowed,
                needs_mention=spec.needs_mention if rules.needs_mention is None else rules.needs_mention,
                members_approve=settings.people.members_approve,
                awaits_each=spec.awaits_each,
                names_seen=spec.names_seen,
                replied=self._turns.find_asked(claim.conversation, inbound.reply_to) if inbound.reply_to else "",
                plugin_commands=list_plugin_words() if "/" in inbound.text else frozenset(),
                # What goes into a turn under way is the sender's own words, and nothing that has to be fetched first.
                steerable=not foreign and not any(self._fetches_all or file.remote for file in inbound.files),
            )
            items.append(Item(row, inbound, view, replaced, foreign=foreign))
        return items

    def find_speaker(self, conversation: str, inbound: Inbound) -> str:
        """Whose message it is today; empty: nobody's who may speak."""
        spec, settings = spec_of(inbound.address.platform), cli_config.load_last_good()
        who = self._find_sender(conversation, inbound, spec, settings)
        return who.person if may_talk(who.role) else ""

    def _find_sender(self, conversation: str, inbound: Inbound, spec: PlatformSpec, settings: Settings) -> Standing:
        if inbound.origin == NOTICE:
            return self._find_last_speaker(conversation, settings)
        if spec.trusted or (spec.knows_people and inbound.sender == LOCAL_OWNER.person):
            return LOCAL_OWNER
        if spec.knows_people:
            return find_standing(self._people, settings, inbound.sender)
        return admit(self._people, settings, spec.name, inbound.sender, inbound.sender_name)

    def _find_last_speaker(self, conversation: str, settings: Settings) -> Standing:
        """Who spoke last, as who they are today: nothing is said to somebody who was removed (G3)."""
        return find_standing(self._people, settings, str(self._turns.choices(conversation).get("person", "")))

    def may_hear(self, conversation: str) -> bool:
        """Whether whoever spoke last there may still be spoken to."""
        return may_talk(self._find_last_speaker(conversation, cli_config.load_last_good()).role)

    def _find_earlier(self, conversation: str, inbound: Inbound, seq: int) -> tuple[tuple[int, ...], str]:
        """The rows that a message takes the place of, and what became of it before; see `judge_edit`."""
        found = self._turns.find_message(inbound.address.account_key, inbound.stem)
        if not found or found[0][0] >= seq:  # nothing of it came before
            return (), ""
        earlier = []
        for other, begun, done in found:
            bodies = self._read_one(conversation, other) if other < seq else ()
            earlier += [Revision(other, begun, done, said) for _, said in bodies]
        return judge_edit(inbound, earlier)

    def _find_quoted(self, conversation: str, inbound: Inbound) -> tuple[str, ...]:
        """Of what origins a message brings words by quoting them (G9): with a message of ours what was in sight when it
        was written; whatever else is not known to be the sender's own may be somebody else's."""
        if inbound.origin == NOTICE:
            return ()
        ours = self._turns.find_origins(conversation, inbound.reply_to) if inbound.reply_to else None
        return ours if ours is not None else () if self._quotes_oneself(conversation, inbound) else (OTHERS,)

    def _quotes_oneself(self, conversation: str, inbound: Inbound) -> bool:
        """Whether it replies to what the person of a direct chat wrote there."""
        if inbound.address.kind != "dm" or not inbound.reply_to:
            return False
        found = self._turns.find_message(inbound.address.account_key, replace(inbound, message=inbound.reply_to).stem)
        said = [one for seq, _, _ in found for _, one in self._read_one(conversation, seq)]
        return bool(said) and not any(one.forwarded for one in said)

    def _read_one(self, conversation: str, seq: int) -> Sequence[tuple[int, Inbound]]:
        return self._turns.inbox_since(conversation, seq - 1, 1, read_inbound)

    def ask_plugins(self, item: Item) -> Item:
        """Hook `pre_gateway_dispatch`: a plugin may drop a message or change what it says, by its answer or in the
        event itself. It may take its time: never on a thread of the store."""
        inbound = item.inbound
        if inbound.origin == NOTICE or not item.view.sender.role:
            return item
        event = write_event(inbound)
        facts = {"event": event, "gateway": self._runner, "session_store": self._runner.session_store}
        for answer in self.hooks.invoke("pre_gateway_dispatch", **facts):
            action = answer.get("action") if isinstance(answer, Mapping) else None
            if action == "skip":
                return replace(item, skip=True)
            if action == "rewrite":
                event.text = str(answer.get("text", event.text))
                break
            if action == "allow":
                break
        try:
            said = take_changes(inbound, write_event(inbound), event)
        except Exception:
            log.warning("a plugin left a message that cannot be read; it stays as it was written", exc_info=True)
            return item
        return item if said is inbound else replace(item, inbound=read_way(said))


# --- edits


@dataclass(frozen=True, slots=True)
class Revision:
    """What is stored of a message already."""

    seq: int
    begun: bool
    done: bool
    inbound: Inbound


def judge_edit(inbound: Inbound, earlier: Sequence[Revision]) -> tuple[tuple[int, ...], str]:
    """The rows that a message takes the place of, and what became of it before: "", or one of OPEN, ANSWERED and
    NOTHING_NEW. Platforms bring edits late, in any order, and also when nothing that people see was changed (C1)."""
    if not earlier:
        return (), ""
    # Only the newest tells what became of the message: an older edit that is done gave way to it, or came too late.
    newest = max(earlier, key=lambda one: (count_edits(one.inbound.revision), one.seq))
    known = newest.inbound
    is_old = count_edits(inbound.revision) < count_edits(known.revision)
    if is_old or (known.text, known.files) == (inbound.text, inbound.files):
        return (), NOTHING_NEW
    if not any(one.begun for one in earlier) and not newest.done:
        return tuple(one.seq for one in earlier if not one.done), OPEN
    if not inbound.text and not inbound.files:
        return (), NOTHING_NEW  # it was deleted: whoever did so expects no word on it
    spoke_to_us = inbound.address.kind == "dm" or any(one.begun or one.inbound.mentioned for one in earlier)
    return (), ANSWERED if spoke_to_us else ""  # somebody who forgot to name us does so now


def count_edits(revision: str) -> int:
    """The number that a revision begins with, which grows with each edit; -1: the message as it was first sent."""
    digits = re.match(r"\d*", revision)
    return int(digits[0]) if digits and digits[0] else 0 if revision else -1


def name_beginner(inbound: Inbound) -> str:
    """Whose a direct chat is that begins with this message: an account of a platform, whoever that is to us today;
    empty: nobody's. Who joins conversations by their key is asked there whether they may."""
    spec = spec_of(inbound.address.platform)
    joins = spec.trusted or spec.knows_people or spec.is_program
    return "" if inbound.address.kind != "dm" or inbound.origin == NOTICE or joins else inbound.sender


# --- who somebody is


def list_accounts(settings: Settings, platform: str) -> list[str]:
    """Accounts of a platform that the settings switch on."""
    spec = spec_of(platform)
    section = read_section(settings.platforms, spec)
    try:
        return name_accounts(spec, section) if is_on(spec, section) else []
    except ConfigProblem:  # they are no section: whoever makes adapters of them says so
        return []


def standing(person: Person | None) -> Standing:
    return STRANGER if person is None else Standing(person.id, person.role)


def admit(people: PeopleStore, settings: Settings, platform: str, sender: str, name: str = "") -> Standing:
    """Who the sender is. Whom the settings list becomes a person at first contact, unless they were removed.

    An identity from the settings holds as long as it stands there, and so does the owner's role. Names decide nothing
    (G2).
    """
    if spec_of(platform).is_program:
        return _admit_program(people, settings, platform, sender, name)
    role = role_in_settings(settings, platform, sender)
    person = people.find(platform, sender)
    if person is None:
        return standing(_let_in(people, settings, role, platform, sender, name) if role else None)
    if role == OWNER:
        is_free = person.role != OWNER and _find_owner(people, settings) is None
        return standing(people.set_role(person.id, OWNER, by_settings=True) if is_free else person)
    if role and person.role != OWNER:
        return standing(person)
    identities = people.identities(person.id)
    own = next((one for one in identities if (one.platform, one.sender) == (platform, sender)), None)
    if own is None or not opens_door(own, identities, settings):  # it was taken from them this moment
        return STRANGER
    if role_today(person, identities, settings) != person.role:
        return standing(_step_down(people, person))
    # The owner goes on by another identity: of this one the settings say that it is somebody else now.
    is_another = role and person.role == OWNER and person.by_settings and own.listed and not own.by_code
    return standing(people.part(own, name, role) if is_another else person)


def _admit_program(people: PeopleStore, settings: Settings, platform: str, sender: str, name: str) -> Standing:
    """Who a program speaks as, while it is set up: the person it was linked to, as what they are today; else the owner
    of the machine, if its settings say so, without being anybody; else a member of its own. Its settings make nobody
    the owner (G2)."""
    role = role_in_settings(settings, platform, sender)
    if not role:
        return STRANGER
    person = people.find(platform, sender)
    if person is not None:
        identities = people.identities(person.id)
        is_listed = any(one.listed for one in identities if (one.platform, one.sender) == (platform, sender))
        if role != OWNER or not is_listed:
            return standing(person)
    if role == OWNER:
        return STRANGER if people.is_removed(platform, sender) else LOCAL_OWNER
    return standing(_let_in(people, settings, role, platform, sender, name))


def is_let_in(people: PeopleStore, settings: Settings, platform: str, sender: str) -> bool:
    """Whether an identity is somebody's today; nothing is stored."""
    person = people.find(platform, sender)
    identities = people.identities(person.id) if person is not None else []
    own = next((one for one in identities if (one.platform, one.sender) == (platform, sender)), None)
    return own is not None and opens_door(own, identities, settings)


def opens_door(identity: Identity, identities: Sequence[Identity], settings: Settings) -> bool:
    """Whether an identity opens the door today: one of the settings while it stands there, one that a code joined while
    another one of its person does (G3). No program speaks for a person's others."""
    if identity.listed:
        return bool(role_in_settings(settings, identity.platform, identity.sender))
    others = (one for one in identities if not one.by_code and not spec_of(one.platform).is_program)
    return not identity.by_code or any(opens_door(one, (), settings) for one in others)


def role_today(person: Person, identities: Sequence[Identity], settings: Settings) -> str:
    """The role of a person: whom the settings made the owner is it while they say so."""
    if person.role != OWNER or not person.by_settings:
        return person.role
    own = (one for one in identities if not spec_of(one.platform).is_program)
    still = any(listed_role(settings, one.platform, one.sender) == OWNER for one in own)
    return OWNER if still else MEMBER


def role_in_settings(settings: Settings, platform: str, sender: str) -> str:
    """The role that the settings give a sender; empty: none. A program is let in by being set up."""
    find_role = program_role if spec_of(platform).is_program else listed_role
    return find_role(settings, platform, sender)


def find_standing(people: PeopleStore, settings: Settings, person: str) -> Standing:
    """Who somebody we know by id is today: a stranger once they were removed, or when only the settings let them in
    and do so no more."""
    if person == LOCAL_OWNER.person:
        return LOCAL_OWNER
    known = people.get(person) if person else None
    if known is None:
        return STRANGER
    identities = people.identities(person)
    if identities and not any(opens_door(one, identities, settings) for one in identities):
        return STRANGER
    return Standing(known.id, role_today(known, identities, settings))


def may_speak(people: PeopleStore, person: str) -> bool:
    """Whether somebody we know by id may speak today."""
    return may_talk(find_standing(people, cli_config.load_last_good(), person).role)


def open_folder(home: Path, scope: Scope) -> Path | None:
    """The own folder of a person or group, with its workspace; None for the owner, who has the home itself."""
    if not scope.folder:
        return None
    own = home / scope.folder
    make_folders(home / PEOPLE, own, own / WORKSPACE)
    return own


def make_folders(*folders: Path) -> Path:
    """Folders of ours that may be there already; the last of them."""
    for folder in folders:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as problem:
            fix = "Check the disk's space and permissions."
            raise ConfigProblem(f"{folder} cannot be made: {problem.strerror}.", fix=fix) from problem
    return folders[-1]


def _let_in(people: PeopleStore, settings: Settings, role: str, platform: str, sender: str, name: str) -> Person | None:
    if people.is_removed(platform, sender):
        return None
    owner = _find_owner(people, settings) if role == OWNER else None
    try:
        if owner is not None:
            return people.link(owner.id, platform, sender, listed=True)
        return people.add(name, role, platform, sender, listed=True)
    except StoreFailure:
        known = people.find(platform, sender)  # another message of theirs was faster
        if known is None:
            raise
        return known


def _find_owner(people: PeopleStore, settings: Settings) -> Person | None:
    """Who is the owner today; whom the settings made it, and do no more, is it no more."""
    owner = next((person for person in people.people() if person.role == OWNER), None)
    if owner is None or role_today(owner, people.identities(owner.id), settings) == OWNER:
        return owner
    _step_down(people, owner)
    return None


def _step_down(people: PeopleStore, owner: Person) -> Person:
    """The settings name them the owner no more. Their direct chats stay theirs; the home is the owner's."""
    for conversation in people.spoken_last_by(owner.id):
        if parse_key(conversation).kind == "dm":
            people.assign(conversation, owner.id)
    return people.set_role(owner.id, MEMBER, by_settings=True)
