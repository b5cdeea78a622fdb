"""Which accounts the settings of a platform make, and what each of them is given: its own section over the platform's,
and its secrets from the environment. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.platforms.face import PlatformSpec
from hermes_base.account_names import ACCOUNTS, read_accounts, write_variable
from hermes_base.errors import ConfigProblem
from hermes_base.setting_values import read_bool
from hermes_base.text.addresses import check_address

#: Under this name an adapter is given the setting of the same name: what it may call although it is private.
PRIVATE = "network.private"
#: Under this one a probe is told that the gateway is connected with the account at this moment.
CONNECTED = "gateway.connected"
#: And under this one, of a platform whose accounts are programs, what the others of them are given.
SIBLINGS = "siblings"
#: Where a platform may be told to find its service.
ADDRESS = "base_url"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")  # it stands in addresses, in variables and in the store


def read_section(platforms: Mapping[str, Any], spec: PlatformSpec) -> Mapping[str, Any]:
    section = platforms.get(spec.name)
    return section if isinstance(section, Mapping) else {}


def is_on(spec: PlatformSpec, section: Mapping[str, Any]) -> bool:
    if section.get("enabled") is None and spec.switched_on is not None:
        return spec.switched_on()
    return spec.always_on or section.get("enabled") is True


@dataclass(frozen=True, slots=True)
class PlannedAccount:
    """One account that the settings make: what it is given, or why it is left out."""

    name: str
    given: Mapping[str, Any]
    problem: ConfigProblem | None = None

    def read(self) -> Mapping[str, Any]:
        """What it is given; the problem is raised."""
        if self.problem is not None:
            raise self.problem
        return self.given


def plan_accounts(
    spec: PlatformSpec, section: Mapping[str, Any], env: Callable[[str], str]
) -> Iterator[PlannedAccount]:
    """Every account of a platform, in order, with those that are left out: the gateway makes them by this, and whoever
    tells how they are tells it by this. Where the accounts cannot be named, one without a name says why."""
    others: dict[str, Mapping[str, Any]] = {}
    try:
        names = name_accounts(spec, section)
    except ConfigProblem as problem:
        yield PlannedAccount("", {}, problem)
        return
    for name in names:
        try:
            given = read_account(spec, section, name, env)
            check_unlike(spec, name, given, others)
        except ConfigProblem as problem:
            yield PlannedAccount(name, {}, problem)
        else:
            others[name] = given
            yield PlannedAccount(name, given)


def name_accounts(spec: PlatformSpec, section: Mapping[str, Any]) -> list[str]:
    """The accounts of a platform; without `accounts` there is one. ConfigProblem when they are no section."""
    accounts = read_accounts(section)
    if section.get(ACCOUNTS) is None:
        return [str(section.get("account") or spec.name)]
    if not accounts:
        raise ConfigProblem(
            f"platforms.{spec.name}.{ACCOUNTS} must hold a section for each account.",
            fix=f"Write it like platforms.{spec.name}.{ACCOUNTS}.NAME, with the settings of the account below.",
        )
    return [name for name, own in accounts.items() if not (isinstance(own, Mapping) and own.get("enabled") is False)]


def read_account(
    spec: PlatformSpec, section: Mapping[str, Any], account: str, env: Callable[[str], str]
) -> dict[str, Any]:
    """What one account is given; `env` looks a variable up. ConfigProblem for a name or a section that will not do."""
    if not _NAME.fullmatch(account):
        raise ConfigProblem(
            f"'{account}' cannot be the name of an account of {spec.label}.",
            fix="It has 1 to 64 letters, digits, `.`, `-` or `_`.",
        )
    given = _read_given(spec, section, account, env)
    if given.get(ADDRESS):
        check_address(str(given[ADDRESS]), place=f"platforms.{spec.name}.{ADDRESS}")
    if not spec.is_program:
        return given
    accounts = read_accounts(section)
    fit = [name for name in name_accounts(spec, section) if isinstance(accounts.get(name), Mapping | None)]
    others = [name for name in fit if name != account]
    return {**given, SIBLINGS: [_read_given(spec, section, name, env) for name in others]}


def check_unlike(
    spec: PlatformSpec, account: str, given: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]
) -> None:
    """ConfigProblem when one of the others is the same account over there: both would hear half of what is said."""
    for question in spec.setup:
        own = given.get(question.key) if question.names_account else None
        same = next((name for name, other in others.items() if own and other.get(question.key) == own), "")
        if same:
            where = f" ({write_variable(question.env, account)} in .env)" if question.env else ""
            raise ConfigProblem(
                f"The accounts {same} and {account} of {spec.label} have the same {question.key}.",
                kept=f"{same} runs, {account} does not.",
                fix=f"Give {account} one of its own{where}.",
            )


def name_variables(variable: str, spec: PlatformSpec, account: str) -> tuple[str, ...]:
    """Where the secret of an account may stand, the nearest first: `<VARIABLE>_<ACCOUNT>`, then `<VARIABLE>`."""
    return (variable,) if account == spec.name else (write_variable(variable, account), variable)


def _read_given(
    spec: PlatformSpec, section: Mapping[str, Any], account: str, env: Callable[[str], str]
) -> dict[str, Any]:
    own = _find_own(spec, section, account)
    shared = {name: value for name, value in section.items() if name != ACCOUNTS}
    given = {**shared, **own, **dict(_find_secrets(spec, own, account, env))}
    return {name: as_switch(value) if name in spec.switches else value for name, value in given.items()}


def as_switch(value: Any) -> Any:
    """What people write for yes and no is True or False for every platform; anything else stays, and is told of."""
    return read_bool(str(value)) if isinstance(value, str | int) else value


def _find_own(spec: PlatformSpec, section: Mapping[str, Any], account: str) -> Mapping[str, Any]:
    own = read_accounts(section).get(account)
    if own is None:
        return {}
    if not isinstance(own, Mapping):
        raise ConfigProblem(
            f"platforms.{spec.name}.{ACCOUNTS}.{account} is no section.",
            fix="Put the settings of the account below it.",
        )
    return own


def _find_secrets(
    spec: PlatformSpec, own: Mapping[str, Any], account: str, env: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """What variables say, over what the settings say; a variable for all accounts gives way to an account's own
    setting."""
    for question in spec.setup:
        if not question.env:
            continue
        *nearest, shared = name_variables(question.env, spec, account)
        found = next(filter(None, map(env, nearest)), "")
        if not found and own.get(question.key) is None:
            found = env(shared)
        if found:
            yield question.key, found
