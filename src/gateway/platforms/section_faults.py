"""What stands in the sections of platforms and cannot be meant so: names that nobody reads, and values of another kind.
Pure, from the facts of each platform; nothing of it keeps a platform from running."""

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from gateway.platforms.account_settings import as_switch
from gateway.platforms.face import PlatformSpec
from gateway.platforms.id_forms import IdForm
from gateway.platforms.platform_list import all_specs
from hermes_base.account_names import ACCOUNTS, read_accounts
from hermes_base.errors import ConfigProblem
from hermes_base.setting_table import Problem
from hermes_base.setting_values import read_bool

ENABLED = "enabled"
#: What every platform may hold beside its own settings.
SHARED = frozenset(
    {ENABLED, "account", ACCOUNTS, "owner", "allow", "groups", "chats", "model", "provider", "instructions", "toolsets"}
)
_IDS, _GROUPS = ("owner", "allow"), "groups"


def find_odd_settings(platforms: Mapping[str, Any]) -> Iterator[Problem]:
    """Each such setting of the platforms that there are, as a warning."""
    for spec in all_specs():
        section, place = platforms.get(spec.name), f"platforms.{spec.name}"
        if isinstance(section, Mapping):
            yield from _check_section(spec, section, place)
            for account, own in read_accounts(section).items():
                yield from _check_section(spec, own, f"{place}.{ACCOUNTS}.{account}")
        elif section is not None:
            what = f"{place} holds no settings, but a value of its own: nothing of it is used."
            yield _warn(place, what, f"`hermes config set {place}.{ENABLED} true` switches {spec.label} on.")


def _check_section(spec: PlatformSpec, section: Any, place: str) -> Iterator[Problem]:
    known = SHARED | spec.settings.keys() | {question.key for question in spec.setup}
    for name, value in section.items() if isinstance(section, Mapping) else ():
        key = f"{place}.{name}"
        if name not in known and spec.settings:  # a platform that names none may have any
            near = difflib.get_close_matches(str(name), sorted(known), n=1)
            fix = f"Did you mean {near[0]}?" if near else f"{spec.label} takes {', '.join(sorted(known))}."
            yield _warn(key, f"{key} is not known; it is kept and ignored.", fix)
        elif is_switch(spec, str(name)) and not isinstance(value if name == ENABLED else as_switch(value), bool | None):
            off = ", so it is off" if name == ENABLED else ""
            what = f"{key} is {_show(value)}, but it must be true or false{off}."
            yield _warn(key, what, f"`hermes config set {key} true` puts it right, or false.")
        elif name in _IDS and not _is_ids(value):
            yield _warn(key, f"{key} is {_show(value)}, but it must be an id or a list of ids.", "Correct it.")
        elif name in _IDS:
            yield from _check_ids(spec.person_ids, key, value, f"nobody on {spec.label} is called so: an id")
            yield from _check_own(spec, section, key)
        elif name == _GROUPS:
            named = list(map(str, value)) if isinstance(value, Mapping) else value
            yield from _check_ids(spec.chat_ids, key, named, f"no group on {spec.label} is: an id")


def _check_ids(form: IdForm, key: str, value: Any, why: str) -> Iterator[Problem]:
    """Each that is none in the platform's own form: it would match nobody, for ever."""
    for id in form.read(value):
        if not form.fits(id):
            yield _warn(key, f"{key} names {_show(id)}, and {why} {form.says}.", "Correct it, or take it out.")


def _check_own(spec: PlatformSpec, section: Mapping[str, Any], key: str) -> Iterator[Problem]:
    """Where the settings say who we are there: nobody but ourselves is let in by that."""
    ours = [section.get(question.key) for question in spec.setup if question.names_account and not question.env]
    same = set(spec.person_ids.read(section.get("owner"))) & {spec.person_ids.bring(str(own)) for own in ours if own}
    for id in same if key.endswith(".owner") else ():
        yield _warn(key, f"{key} is {_show(id)}, the account of Hermes itself.", "Give the id of your own account.")


def is_switch(spec: PlatformSpec, name: str) -> bool:
    return name == ENABLED or name in spec.switches


def read_switch(key: str, text: str, kept: str = "") -> str:
    """A text for the setting of this name: what stands for yes or no is true or false where the setting is a switch.
    ConfigProblem for anything else in its place."""
    parts = key.split(".")
    spec = next((spec for spec in all_specs() if parts[:2] == ["platforms", spec.name]), None)
    own = parts[4:] if parts[2:3] == [ACCOUNTS] else parts[2:]
    if spec is None or len(own) != 1 or not is_switch(spec, own[0]):
        return text
    value = read_bool(text)
    if not isinstance(value, bool):
        raise ConfigProblem(f"{key} is a switch.", kept=kept, fix="It is true or false.")
    return json.dumps(value)


def _is_ids(value: Any) -> bool:
    every = value if isinstance(value, list | tuple) else [value]
    return value is None or all(isinstance(id, str | int) and not isinstance(id, bool) for id in every)


def _show(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _warn(key: str, what: str, fix: str) -> Problem:
    return Problem(key, what, fix, warning=True)
