"""Who may do what, and where what they leave behind belongs: pure decisions. What is not known is refused."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from gateway.platforms.platform_list import spec_of
from hermes_base.account_names import read_accounts
from hermes_base.command_table import Command, needed_role
from hermes_base.inbound import PEOPLE, Address
from hermes_base.settings import Settings

OWNER, ADMIN, MEMBER = "owner", "admin", "member"


@dataclass(frozen=True, slots=True)
class Role:
    """What a role may do beyond talking and stopping its own turns; a higher rank may all that a lower one may."""

    rank: int
    stops_others: bool = False
    approves: bool = False  # commands of any turn


ROLES: Mapping[str, Role] = MappingProxyType(
    {
        MEMBER: Role(1),
        ADMIN: Role(2, stops_others=True, approves=True),
        OWNER: Role(3, stops_others=True, approves=True),
    }
)
_STRANGER = Role(0)
#: Questions that nobody answers but the person of the turn: what is meant, and what is done in their name. Any other
#: kind needs somebody who approves.
_OWN_QUESTIONS = frozenset({"clarification", "confirmation"})


@dataclass(frozen=True, slots=True)
class GroupRules:
    """What a group chat is to us."""

    allowed: bool = True
    open: bool = False  # members may speak without a mention
    needs_mention: bool | None = None  # None: as the platform's spec says


@dataclass(frozen=True, slots=True)
class Scope:
    """To whom memory, search, sessions, usage and files of a turn belong; an empty id: to the owner."""

    person_id: str = ""
    folder: str = ""  # below the home; empty: the home itself


def find_role(role: str) -> Role:
    return ROLES.get(role, _STRANGER)


def may_talk(role: str) -> bool:
    return role in ROLES


def may_run(role: str, command: Command, args: str = "") -> bool:
    """Whether the role is high enough for the command with these arguments."""
    needed = ROLES.get(needed_role(command, args))
    return needed is not None and find_role(role).rank >= needed.rank


def may_stop(role: str, person: str, starter: str) -> bool:
    """C16: the turn's starter, or an admin."""
    return find_role(role).stops_others or (may_talk(role) and bool(person) and person == starter)


def is_own(role: str, person: str, asked: str, asked_role: str = "") -> bool:
    """Whether a turn of `asked` is one of this person, who may speak. The owner is one person, wherever they speak."""
    return may_talk(role) and bool(person) and (person == asked or role == asked_role == OWNER)


def may_answer(kind: str, role: str, person: str, asked: str, members_approve: bool, asked_role: str = "") -> bool:
    """G4: `asked` is the person whose turn asks; approvals of their own turns only where the owner lets members."""
    own = is_own(role, person, asked, asked_role)
    if kind in _OWN_QUESTIONS:
        return own
    return find_role(role).approves or (own and kind == "approval" and members_approve)


def may_keep(role: str) -> bool:
    """G4: an approval that is kept as a rule is given by owner or admin."""
    return find_role(role).approves


def group_rules(settings: Settings, platform: str, chat: str, account: str = "") -> GroupRules:
    """The rules of a group: `platforms.<name>.groups`, or `groups` of the account, is a list of chat ids, or a section
    by chat id with `open` and `mention`. Without it every group is heard; only known people are, in any of them."""
    section = _platform_section(settings, platform)
    own = read_accounts(section).get(account)
    groups = own["groups"] if isinstance(own, Mapping) and "groups" in own else section.get("groups")
    if groups is None:
        return GroupRules()
    ids = spec_of(platform).chat_ids
    chat = ids.bring(chat)
    if isinstance(groups, Mapping):
        known = {ids.bring(str(name)): rules for name, rules in groups.items()}
        rules = known.get(chat)
        rules = rules if isinstance(rules, Mapping) else {}
        mention = rules.get("mention")
        return GroupRules(chat in known, rules.get("open") is True, mention if isinstance(mention, bool) else None)
    return GroupRules(allowed=chat in ids.read(groups))


def is_left_out(settings: Settings, place: Address) -> bool:
    """Whether it is a group that the settings leave out: nothing is heard there, and nothing said."""
    return place.kind != "dm" and not group_rules(settings, place.platform, place.chat, place.account).allowed


def listed_role(settings: Settings, platform: str, sender: str) -> str:
    """The role that the settings give an identity: `platforms.<name>.owner` and `.allow`, there or in the section of an
    account; empty: none. Somebody is the same person to all accounts of a platform."""
    section = _platform_section(settings, platform)
    every = [section, *(own for own in read_accounts(section).values() if isinstance(own, Mapping))]
    if not sender:
        return ""
    ids = spec_of(platform).person_ids
    who = ids.bring(sender)
    if any(who in ids.read(one.get("owner")) for one in every):
        return OWNER
    if any(who in ids.read(one.get("allow")) for one in every):
        return MEMBER
    lets_in = spec_of(platform).lets_in
    return MEMBER if lets_in is not None and lets_in(who) else ""


def program_role(settings: Settings, platform: str, account: str) -> str:
    """The role of an account that is a program: whoever set it up let it in, as its `role` says, else as a member;
    empty: it is not set up any more."""
    section = _platform_section(settings, platform)
    accounts = read_accounts(section) or {str(section.get("account") or platform): {}}
    if section.get("enabled") is not True or account not in accounts:
        return ""
    own = accounts[account]
    wanted = (own.get("role") if isinstance(own, Mapping) else None) or section.get("role")
    return OWNER if wanted == OWNER else MEMBER


def scope_of(kind: str, role: str, person: str, conversation: str, shared: bool, *, belongs: str = "") -> Scope:
    """G12: a direct chat belongs to its person, a group to itself. Without `shared` all is the owner's.

    Whom a conversation belongs to already (`belongs`) keeps it: the owner who looks in from a terminal works there
    with that person's memory, not with their own. Nobody else gets what is another person's, wherever they speak.
    """
    if not shared:
        return Scope()
    if belongs and (kind != "dm" or role == OWNER or belongs == person):
        return _make_scope(belongs)
    if kind != "dm":
        return _make_scope("chat-" + hashlib.sha256(conversation.encode("utf-8", "replace")).hexdigest()[:16])
    if role == OWNER:
        return Scope()
    if not person:  # nobody we know has a turn; if it ever happened, it would not be the owner's data
        return _make_scope("nobody")
    return _make_scope(person)


def _make_scope(id: str) -> Scope:
    return Scope(id, f"{PEOPLE}/{id}")


def _platform_section(settings: Settings, platform: str) -> Mapping[str, Any]:
    section = settings.platforms.get(platform)
    return section if isinstance(section, Mapping) else {}
