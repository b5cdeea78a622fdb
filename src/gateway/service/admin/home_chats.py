"""Which chat an operator means when they make it somebody's home, by what the store and the settings know of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gateway.platforms.account_settings import is_on, name_accounts, read_account, read_section
from gateway.platforms.face import PlatformSpec
from gateway.platforms.platform_list import find_spec, spec_of
from gateway.turns.sender import list_accounts
from gateway.turns.whereabouts import choose_reachable
from hermes_base.conversation_key import begin_keys
from hermes_base.errors import HermesError
from hermes_base.inbound import Address
from hermes_base.settings import Settings
from hermes_cli import config as cli_config
from hermes_cli.profiles import get_active_profile_name
from hermes_state.sql.store_sql import Store

MOST_CHATS = 10_000
KINDS = ("dm", "group", "channel")
_KEPT = "Nothing was changed."


def choose_home(store: Store, platform: str, chat: str, account: str) -> tuple[Address, str]:
    """The chat, and what keeps it from being told anything now, as a sentence; empty: nothing does. HermesError for one
    that can be nobody's home. `account` is empty if none was named."""
    spec, platforms = find_spec(platform), cli_config.load_last_good().platforms
    if spec.shows_events:
        raise HermesError(
            f"{spec.label} can be nobody's home: when there is something to tell, nobody may be there.", kept=_KEPT
        )
    section = read_section(platforms, spec)
    chat = spec.chat_ids.bring(chat)
    known, accounts = find_known(store, platform, chat), name_accounts(spec, section)
    name = account or choose_account(spec, known, accounts)
    if spec.reply_setting and not read_account(spec, section, name, cli_config.env_value).get(spec.reply_setting):
        raise HermesError(
            f"{spec.label} {name} can be nobody's home: nobody reads what is sent to it.",
            kept=_KEPT,
            fix=f"Give it a {spec.reply_setting}, or choose another chat.",
        )
    known = known or find_unspoken(store, Address(platform, name, chat))
    return choose_address(platform, chat, name, known), find_warning(spec, is_on(spec, section), name, accounts)


def find_known(store: Store, platform: str, chat: str) -> list[Address]:
    """Where a chat of this id was spoken in, the last one first."""
    found, bring = [], spec_of(platform).chat_ids.bring
    for _, choices in store.habits.chats(begin_keys(get_active_profile_name(), platform), MOST_CHATS):
        address = choices.get("address")
        if isinstance(address, Mapping) and bring(str(address.get("chat"))) == chat:
            found.append(Address(**address))
    return found


def find_unspoken(store: Store, direct: Address) -> list[Address]:
    """The same for a chat in which nobody has had a turn, only commands: its conversation is there."""
    every = [replace(direct, kind=kind) for kind in KINDS]
    return [one for one in every if store.habits.knows(one.conversation(get_active_profile_name()))]


def choose_account(spec: PlatformSpec, known: Sequence[Address], accounts: Sequence[str]) -> str:
    """The account that has the chat, or the only one that there is. Which of several is meant is never guessed."""
    having = list(dict.fromkeys(address.account for address in known))
    possible = [name for name in having if name in accounts] or having or list(accounts)
    if len(possible) == 1:
        return possible[0]
    what = "has this chat in several accounts" if having else "has several accounts, and none of them knows this chat"
    fix = f"Add --account with one of: {', '.join(possible)}."
    raise HermesError(f"{spec.label} {what}.", kept=_KEPT, fix=fix)


def choose_address(platform: str, chat: str, account: str, known: Sequence[Address]) -> Address:
    """The chat as it was last spoken in there. One that only another account knows is of the same kind here; one that
    nobody has spoken in is a direct chat."""
    there = next((address for address in known if address.account == account), None)
    if there is not None:
        return there
    return replace(known[0], account=account, thread="") if known else Address(platform, account, chat)


def find_trouble(settings: Settings, home: Address, knows: Callable[[str], bool]) -> str:
    """Why nothing can be told at a home, as a sentence; empty: something can. `knows` says whether anything was said in
    a conversation."""
    spec, accounts = spec_of(home.platform), list_accounts(settings, home.platform)
    profile = get_active_profile_name()
    if choose_reachable(home, accounts, lambda one: knows(one.conversation(profile))) is not None:
        return ""
    if not accounts:
        return f"{spec.label} is not switched on."
    return (
        f"{spec.label} has no account {home.account} any more, and which of {', '.join(accounts)} has it is not known."
    )


def find_warning(spec: PlatformSpec, on: bool, account: str, accounts: Sequence[str]) -> str:
    if not on:
        return f"{spec.label} is not switched on: nothing is told there until it is (`hermes setup {spec.name}`)."
    if account not in accounts:
        return f"{spec.label} has no account {account} that is on: nothing is told there until it has."
    return ""
