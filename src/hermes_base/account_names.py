"""Accounts of a platform in the settings (`platforms.<name>.accounts.<account>`), and variables of their secrets."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

ACCOUNTS = "accounts"


def write_variable(variable: str, account: str) -> str:
    """The variable of one account: `<VARIABLE>_<ACCOUNT>`, in capitals."""
    return f"{variable}_{re.sub(r'[^A-Z0-9]', '_', account.upper())}"


def read_accounts(section: Any) -> Mapping[str, Any]:
    """The sections of a platform's accounts by name; in a settings file a name may be a number."""
    accounts = section.get(ACCOUNTS) if isinstance(section, Mapping) else None
    return {str(name): own for name, own in accounts.items()} if isinstance(accounts, Mapping) else {}


def drop_account(section: Any, chat: str) -> str:
    """The chat of a conversation key as its platform names it: keys of named accounts begin with the account."""
    account, _, bare = chat.partition("/")
    named = {*read_accounts(section), str(section.get("account") or "") if isinstance(section, Mapping) else ""}
    return bare if bare and account in named else chat


def name_all_accounts(platforms: Any) -> Iterator[str]:
    """The name of every account that the settings set up."""
    for section in platforms.values() if isinstance(platforms, Mapping) else ():
        yield from read_accounts(section)
        if isinstance(section, Mapping) and section.get("account"):
            yield str(section["account"])
