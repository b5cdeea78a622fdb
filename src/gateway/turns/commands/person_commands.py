"""Slash commands with which a person says where, when and as whom they are spoken to. Each gives the lines of its
answer; what is refused is a sentence."""

import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from gateway.core.quiet_hours import find_zone, read_quiet, zone_or_own
from gateway.platforms.platform_list import spec_of
from gateway.turns.commands import identity_links
from gateway.turns.commands.command_scene import CommandScene
from gateway.turns.sender import may_speak
from hermes_base.errors import HermesError
from hermes_base.inbound import Address
from hermes_state.people_store import Habits

OFF = "off"
NO_HOME_HERE = "{label} can be nobody's home: when there is something to tell, nobody may be there to read it."
HOME_FIX = "Say /sethome in a chat app, or on the machine: hermes people home {person} PLATFORM CHAT"


def set_home(scene: CommandScene) -> Sequence[str]:
    """This chat is where its person hears what they did not ask for and of what belongs to no open conversation."""
    address, person = scene.item.inbound.address, scene.person
    word = scene.args.strip().lower()
    if word == OFF:
        scene.parts.store.habits.set_home(person, None)
        return ["You have no home channel any more. What you are told unasked waits in the conversation it belongs to."]
    if word:
        raise HermesError("That is no way to use it.", fix="Say /sethome in the chat, or /sethome off.")
    check_home(address, person)
    scene.parts.store.habits.set_home(person, address, scene.item.inbound.sender)
    others = "" if address.kind == "dm" else " Everybody in this group will read it."
    return [
        "This chat is your home channel now: ended background work of conversations that nobody looks at, and messages "
        f"to you, come here.{others} /sethome off takes it back."
    ]


def check_home(address: Address, person: str) -> None:
    """Raises why an address can be nobody's home."""
    spec = spec_of(address.platform)
    if spec.shows_events:
        what = NO_HOME_HERE.format(label=spec.label)
        raise HermesError(what, kept="Nothing was changed.", fix=HOME_FIX.format(person=person))


def set_timezone(scene: CommandScene) -> Sequence[str]:
    name = scene.args.strip()
    if name:
        scene.parts.store.habits.set_timezone(scene.person, "" if name.lower() == OFF else str(find_zone(name)))
        scene.parts.whereabouts.hold_anew(scene.person)
    zone = _habits(scene).timezone
    now = datetime.now(zone_or_own(zone)).strftime("%H:%M")
    if not zone:
        return [
            f"You have set no time zone: it is {now} by the clock of the machine. /timezone Europe/Berlin sets one."
        ]
    return [f"Your time zone is {zone}, where it is {now}."]


def set_quiet(scene: CommandScene) -> Sequence[str]:
    text = scene.args.strip()
    if text:
        scene.parts.store.habits.set_quiet(scene.person, "" if text.lower() == OFF else str(read_quiet(text)))
        scene.parts.whereabouts.hold_anew(scene.person)
    habits = _habits(scene)
    if not habits.quiet:
        return ["You have no quiet hours. /quiet 22:00-07:00 sets them."]
    where = habits.timezone or "the machine's time zone; /timezone sets yours"
    lines = [f"Your quiet hours are {habits.quiet} ({where}). What you ask is answered as ever; the rest waits."]
    count, until = scene.parts.store.turns.outbox_held(scene.parts.store.habits.key_of(scene.person))
    if count:
        ends = datetime.fromtimestamp(until, zone_or_own(habits.timezone)).strftime("%H:%M")
        lines.append(f"{count} message{'s wait' if count > 1 else ' waits'} for you until {ends}.")
    return lines


def make_link(scene: CommandScene) -> Sequence[str]:
    """A code that makes another identity this person, too. Somebody whom we do not know yet says it at the door; here
    it is said by somebody who is a person already."""
    address, code = scene.item.inbound.address, scene.args.strip()
    if address.kind != "dm" or spec_of(address.platform).shows_events:
        raise HermesError("A code is given and taken in a direct chat of an app.", fix="Say it there.")
    if code:
        store = scene.parts.store
        speaks = partial(may_speak, store.people)
        person, used = identity_links.join_person(store, scene.parts.home, code, scene.person, speaks)
        there = identity_links.make_word(used, person, address.platform, scene.item.inbound.sender)
        store.turns.post(there.address.conversation(scene.parts.profile), f"link:{used.code}", there)
        scene.parts.delivery.wake(there.address)
        return [identity_links.JOINED_HERE.format(name=person.name, id=person.id)]
    made = scene.parts.store.habits.make_code(scene.person, address)
    minutes = round((made.expires - time.time()) / 60)
    return [
        f"Say this to Hermes in a direct chat of the other app, within {minutes} minutes: /link {made.code}",
        "Whoever says it there is you from then on. Give it to nobody.",
    ]


def _habits(scene: CommandScene) -> Habits:
    return scene.parts.whereabouts.habits(scene.person)
