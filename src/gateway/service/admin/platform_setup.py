"""Sets up a platform from the facts in its folder: what to ask, what to install, and a probe before anything is
kept (H5)."""

import asyncio
import difflib
import importlib
import importlib.util
import inspect
import logging
import re
import shlex
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from gateway.platforms.account_settings import PRIVATE, name_variables, read_account
from gateway.platforms.face import PlatformSpec, ProbeAnswer, SetupQuestion
from gateway.platforms.id_forms import list_ids
from gateway.platforms.platform_list import all_specs, find_spec
from gateway.service.admin.people_faults import LetIn, find_owner_fault, look_around
from hermes_base.account_names import ACCOUNTS, read_accounts
from hermes_base.errors import ConfigProblem, HermesError, StoreFailure
from hermes_base.query_values import PlatformQuestion, PlatformView, Probed
from hermes_base.store_place import find_place, has_store
from hermes_cli import config as cli_config
from hermes_cli.config.lent_env import find_exported
from hermes_constants import get_hermes_home
from hermes_state.sql.engines.engine import Transaction
from hermes_state.sql.engines.opening import open_engine
from hermes_state.sql.schema import check_readable

log = logging.getLogger(__name__)

PROBE_SECONDS = 30.0
STORE_PATIENCE = 1.0
ACCOUNT, OWNER = "account", "owner"
_UNCHANGED = "Nothing was changed."
_OTHERS_WRITE = "Anybody else who writes gets a code, which you approve or not."
_OTHERS_INVITE = "Invitations of anybody else are not accepted before you let them in."
_NOBODY_WRITES = (
    "Nobody is let in yet. Write to it: the answer is a code, and `hermes people approve CODE --role owner` lets "
    "you in."
)
_NOBODY_INVITES = (
    "Nobody is let in yet, and invitations are accepted only from people who are: run `hermes setup {platform}` again "
    "and give your own id."
)
_SECOND_APP = (
    "Nobody is let in here yet. {name} is the owner: if that is you, `hermes people link {id} {platform} YOUR-ID-HERE` "
    "lets you in here, too."
)

T = TypeVar("T")
V = TypeVar("V")


def list_platforms() -> list[PlatformView]:
    """Every platform that can be set up by questions."""
    return [view_platform(spec) for spec in all_specs() if spec.setup]


def find_platform(name: str) -> PlatformSpec:
    """The platform of this name, if it can be set up; else a ConfigProblem that names those that can."""
    spec = next((spec for spec in all_specs() if spec.setup and name.lower() in (spec.name, spec.label.lower())), None)
    if spec is None:
        known = [*(view.name for view in list_platforms()), "web"]
        near = difflib.get_close_matches(name.lower(), known, n=1)
        names = f"Those that there are: {', '.join(known[:-1])}; web is the search."
        fix = f"Did you mean `hermes setup {near[0]}`? {names}" if near else names
        raise ConfigProblem(f"There is no platform '{name}' to set up.", fix=fix)
    return spec


def view_platform(spec: PlatformSpec) -> PlatformView:
    """What there is to ask. Where a hook or a bot has a name of its own, the answers make another one, or change the
    one of that name: `accounts` has what is set for each."""
    section, named = _read_section(spec), _find_name_question(spec)
    return PlatformView(
        spec.name,
        spec.label,
        enabled=section.get("enabled") is True,
        missing=is_missing(spec),
        install=name_install(spec),
        questions=_view_questions(spec, {}),
        accounts={name: _view_questions(spec, {ACCOUNT: name}) for name in read_accounts(section) if named},
        barred=_find_bar(spec),
    )


def _find_bar(spec: PlatformSpec) -> str:
    """Why no answers could be kept, whatever they are; empty: they could."""
    try:
        find_account(spec, {})
    except ConfigProblem as problem:
        return str(problem)
    return ""


def _view_questions(spec: PlatformSpec, answers: Mapping[str, str]) -> tuple[PlatformQuestion, ...]:
    return tuple(view_question(spec, question, answers) for question in spec.setup)


def view_question(spec: PlatformSpec, question: SetupQuestion, answers: Mapping[str, str]) -> PlatformQuestion:
    """A question with what holds after these answers, if there are no more of them: what was answered, else what is set
    for the account that they name."""
    answer, is_set = answers.get(question.key, ""), _write_answer(_read_set(spec, answers).get(question.key))
    keeps = question.key not in answers or bool(question.env and not answer)
    value = is_set if keeps else answer
    return PlatformQuestion(
        question.key,
        question.text,
        secret=bool(question.env),
        value="" if question.env else value,
        has_value=bool(value),
        default=question.default,
        choices=question.choices,
    )


def _read_set(spec: PlatformSpec, answers: Mapping[str, str]) -> Mapping[str, Any]:
    """What is set for the account that the answers name; while they name none, what all of them have."""
    section, named = _read_section(spec), _find_name_question(spec)
    shared = {name: value for name, value in section.items() if name != ACCOUNTS}
    try:
        if named is None:
            return read_account(spec, section, str(section.get(ACCOUNT) or spec.name), cli_config.env_value)
        name = answers.get(ACCOUNT, "")
        return read_account(spec, section if name else shared, name or spec.name, cli_config.env_value)
    except ConfigProblem:  # told when it is tried
        return {}


def _write_answer(value: Any) -> str:
    """What is set, as one would answer it: a list has commas between its parts."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value or "")


def _read_section(spec: PlatformSpec) -> dict[str, Any]:
    section = cli_config.load_settings().platforms.get(spec.name)
    return dict(section) if isinstance(section, Mapping) else {}


def _find_name_question(spec: PlatformSpec) -> SetupQuestion | None:
    """The question for the name of an account, where each set-up makes one."""
    return next((question for question in spec.setup if question.key == ACCOUNT), None)


# --- what has to be installed


def is_missing(spec: PlatformSpec) -> bool:
    """Whether a module is not there that the platform needs."""
    importlib.invalidate_caches()  # it may have been installed a moment ago
    return any(importlib.util.find_spec(name) is None for name in spec.needs)


def name_install(spec: PlatformSpec) -> str:
    """The command that installs what it needs; empty: it needs nothing. It names the packages themselves, and never
    this program: under its name an index may have somebody else's."""
    return shlex.join(["pip", "install", *read_requirements(spec)]) if spec.extra else ""


def read_requirements(spec: PlatformSpec) -> list[str]:
    """What the platform's folder lists, as an installer takes it."""
    folder = importlib.import_module(spec.factory.partition(":")[0].rpartition(".")[0]).__file__
    path = Path(folder or "").with_name("requirements.txt")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [line for raw in lines if (line := raw.partition("#")[0].strip())]


# --- trying and keeping


def use_answers(name: str, answers: Mapping[str, str]) -> Probed:
    """Try the platform with these answers, over what is set, and keep them if it works; else nothing is written. An
    answer that is missing, and a secret that is empty, leave what was set; another empty answer takes it out."""
    try:
        spec = find_platform(name)
        answers = write_ids(spec, answers)
        account = find_account(spec, answers)
        found = probe_platform(spec, merge_answers(spec, account, answers))
        keep_answers(spec, account, answers)
    except HermesError as problem:
        return Probed(False, str(problem))
    return Probed(True, " ".join(filter(None, (found.told, found.worry, find_told(spec.name)))))


def write_ids(spec: PlatformSpec, answers: Mapping[str, str]) -> dict[str, str]:
    """The answers with the owner's id as the platform writes it; ConfigProblem for one that nobody can have."""
    owners = spec.person_ids.read(answers.get(OWNER))
    odd = next((id for id in owners if not spec.person_ids.fits(id)), "")
    if odd:
        raise ConfigProblem(
            f"'{odd}' will not do: {OWNER} {spec.person_ids.says}.",
            kept=_UNCHANGED,
            fix="" if spec.answers_invitations else "Leave it empty, and a code lets you in.",
        )
    return {**answers, OWNER: ", ".join(owners)} if OWNER in answers else dict(answers)


def find_account(spec: PlatformSpec, answers: Mapping[str, str]) -> str:
    """The account that is set up; asked for before the questions, since it may be that none can be. What is written for
    the platform as a whole would hold for all of its accounts, so where it has several, each is set up by its name."""
    section, named = _read_section(spec), _find_name_question(spec)
    if named is None and section.get(ACCOUNTS) is not None:
        raise ConfigProblem(
            f"{spec.label} has several accounts in the settings, and this sets up one without a name.",
            kept=_UNCHANGED,
            fix=f"Set it up as platforms.{spec.name}.{ACCOUNTS}.NAME with `hermes config set`.",
        )
    if named is None:
        return str(section.get(ACCOUNT) or spec.name)
    if section.get(ACCOUNTS) is None and section.get(ACCOUNT):
        raise ConfigProblem(
            f"platforms.{spec.name}.{ACCOUNT} names the only one that there can be.",
            kept=_UNCHANGED,
            fix=f"Move its settings below platforms.{spec.name}.{ACCOUNTS}.{section[ACCOUNT]}, then set up another.",
        )
    return answers.get(ACCOUNT, "").strip() or named.default


def merge_answers(spec: PlatformSpec, account: str, answers: Mapping[str, str]) -> dict[str, Any]:
    """The settings of the account with the answers in them; ConfigProblem for one that will not do."""
    for question in spec.setup:
        _check_answer(question, spec, account, answers.get(question.key, "").strip() or question.default)
    section = read_account(spec, _read_section(spec), account, cli_config.env_value)
    for question in spec.setup:
        given = answers.get(question.key)
        if given is not None and (given.strip() or not question.env):
            section[question.key] = given.strip()
        section[question.key] = section.get(question.key) or question.default
    return {key: value for key, value in section.items() if value != ""} | {ACCOUNT: account}


def _check_answer(question: SetupQuestion, spec: PlatformSpec, account: str, answer: str) -> None:
    if answer and question.choices and answer not in question.choices:
        raise ConfigProblem(
            f"{question.key} must be one of {', '.join(question.choices)}.", kept=_UNCHANGED, fix="Choose one."
        )
    if answer and question.pattern and not re.fullmatch(question.pattern, answer):
        raise ConfigProblem(f"'{answer}' will not do: {question.key} {question.says}.", kept=_UNCHANGED)
    variable = name_variables(question.env, spec, account)[0] if question.env else ""
    if variable and answer and find_exported(variable) not in ("", answer):
        raise ConfigProblem(
            f"{variable} is set in the environment of this program, and that wins over one kept here.",
            kept=_UNCHANGED,
            fix="Change it there, or take it out and start Hermes again.",
        )


def probe_platform(spec: PlatformSpec, section: Mapping[str, Any]) -> ProbeAnswer:
    """Ask the service with these settings, which account it is; ConfigProblem where that cannot be found out."""
    if is_missing(spec):
        raise ConfigProblem(f"{spec.label} needs more than is installed.", kept=_UNCHANGED, fix=name_install(spec))
    if not spec.probe:
        return ProbeAnswer(f"{spec.label} is set up.")
    module, _, name = spec.probe.partition(":")
    given = {**section, PRIVATE: cli_config.load_settings().network.private}
    told = vars(importlib.import_module(module))[name](given, get_hermes_home())
    found = asyncio.run(_wait(told, spec)) if inspect.isawaitable(told) else told
    return found if isinstance(found, ProbeAnswer) else ProbeAnswer(str(found))


async def _wait(told: Any, spec: PlatformSpec) -> Any:
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return await told
    except TimeoutError as late:
        raise ConfigProblem(
            f"{spec.label} did not answer within {PROBE_SECONDS:.0f} s.", kept=_UNCHANGED, fix="Check the network."
        ) from late


def keep_answers(spec: PlatformSpec, account: str, answers: Mapping[str, str]) -> None:
    """Secrets go to `.env`, the rest to the settings, and the platform is on; all of it, or nothing."""
    given = {one: answers[one.key].strip() for one in spec.setup if one.key in answers and one.key != ACCOUNT}
    secrets = {name_variables(one.env, spec, account)[0]: value for one, value in given.items() if one.env and value}
    settings = cli_config.load_config()  # noqa: TID251 - what is saved is a mapping
    section = _open_section(settings, "platforms", spec.name)
    section["enabled"] = True
    own = _open_section(section, ACCOUNTS, account) if _find_name_question(spec) else section
    for question, value in given.items():
        if question.env:
            continue
        own.pop(question.key, None)
        if value or question.default:
            own[question.key] = value or question.default
    cli_config.save_together(secrets, settings)


def _open_section(tree: dict[Any, Any], *names: str) -> dict[Any, Any]:
    """The section under these names. One that holds nothing, or no section (`telegram: true`), becomes one; a name may
    be a number in the file."""
    for name in names:
        key = next((key for key in tree if str(key) == name), name)
        inner = tree.get(key)
        section = inner if isinstance(inner, dict) else {}
        tree[key] = section
        tree = section
    return tree


# --- who is let in


def find_told(name: str) -> str:
    """Who is let in on this platform, in a sentence for whoever has set it up."""
    spec = find_spec(name)
    if spec.trusted or spec.knows_people or spec.is_program:
        return ""
    named = next(iter(spec.person_ids.read(_read_section(spec).get(OWNER))), "")
    others = _OTHERS_INVITE if spec.answers_invitations else _OTHERS_WRITE
    fault, found = _ask_store(lambda db: (named and find_owner_fault(db, spec.name, named), look_around(db, spec.name)))
    if fault:
        return " ".join(fault)
    if named:
        return f"{named} is let in as the owner. {others}"
    return f"Whom you let in before is let in. {others}" if found and found.known else _say_nobody(spec, found)


def find_lockout(spec: PlatformSpec) -> str:
    """Why nobody at all can reach a platform that accepts invitations of people who are let in; empty: somebody can."""
    section = _read_section(spec)
    every = [one for one in (section, *read_accounts(section).values()) if isinstance(one, Mapping)]
    if not spec.answers_invitations or any(list_ids(one.get(name)) for one in every for name in (OWNER, "allow")):
        return ""
    _, found = _ask_store(lambda db: (None, look_around(db, spec.name)))
    return "" if found and found.known else f"{spec.label}: {_say_nobody(spec, found)}"


def _say_nobody(spec: PlatformSpec, found: LetIn | None) -> str:
    """That nobody is let in, and the command that works now: a second owner there cannot be."""
    if found and found.owner:
        return _SECOND_APP.format(id=found.owner, name=found.owner_name, platform=spec.name)
    return _NOBODY_INVITES.format(platform=spec.name) if spec.answers_invitations else _NOBODY_WRITES


def _ask_store(ask: Callable[[Transaction], tuple[T | None, V | None]]) -> tuple[T | None, V | None]:
    """What the store says, where there is one that can be read."""
    place = find_place(get_hermes_home())
    if not has_store(place):
        return None, None
    try:
        with closing(open_engine(place, STORE_PATIENCE, readonly=True)) as store:
            return store.read(ask) if store.read(check_readable) else (None, None)
    except StoreFailure as problem:  # what was set up is kept all the same
        log.warning("It cannot be looked up who is let in: %s", problem)
        return None, None
