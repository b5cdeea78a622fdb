"""Sets up a platform from the facts in its folder: what to ask, what to install, and a probe before anything is
kept (H5)."""

import asyncio
import importlib
import importlib.util
import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.platforms.account_settings import PRIVATE
from gateway.platforms.face import PlatformSpec, SetupQuestion
from gateway.platforms.platform_list import all_specs, find_spec
from hermes_base.errors import ConfigProblem, HermesError
from hermes_base.query_values import PlatformQuestion, PlatformView, Probed
from hermes_cli import config as cli_config
from hermes_constants import get_hermes_home

PROBE_SECONDS = 30.0
_UNCHANGED = "Nothing was changed."


def list_platforms() -> list[PlatformView]:
    """Every platform that can be set up by questions."""
    return [view_platform(spec) for spec in all_specs() if spec.setup]


def find_platform(name: str) -> PlatformSpec:
    """The platform of this name, if it can be set up; else a ConfigProblem that names those that can."""
    spec = next((spec for spec in all_specs() if spec.setup and name.lower() in (spec.name, spec.label.lower())), None)
    if spec is None:
        names = ", ".join(view.name for view in list_platforms())
        raise ConfigProblem(f"There is no platform '{name}' to set up.", fix=f"Those that there are: {names}.")
    return spec


def view_platform(spec: PlatformSpec) -> PlatformView:
    section = read_section(spec)
    return PlatformView(
        spec.name,
        spec.label,
        enabled=section.get("enabled") is True,
        missing=is_missing(spec),
        install=name_install(spec),
        questions=tuple(_view_question(question, section) for question in spec.setup),
    )


def _view_question(question: SetupQuestion, section: Mapping[str, Any]) -> PlatformQuestion:
    value = str(section.get(question.key) or "")
    return PlatformQuestion(
        question.key,
        question.text,
        secret=bool(question.env),
        value="" if question.env else value,
        has_value=bool(value),
        default=question.default,
        choices=question.choices,
    )


def read_section(spec: PlatformSpec) -> dict[str, Any]:
    """What is set for the platform now, its secrets among it."""
    section = cli_config.load_settings().platforms.get(spec.name)
    known = dict(section) if isinstance(section, Mapping) else {}
    secrets = {one.key: cli_config.env_value(one.env) for one in spec.setup if one.env}
    return known | {key: value for key, value in secrets.items() if value}


# --- what has to be installed


def is_missing(spec: PlatformSpec) -> bool:
    """Whether a module is not there that the platform needs."""
    importlib.invalidate_caches()  # it may have been installed a moment ago
    return any(importlib.util.find_spec(name) is None for name in spec.needs)


def name_install(spec: PlatformSpec) -> str:
    """The command that installs what it needs; empty: it needs nothing."""
    return f"pip install 'hermes-agent[{spec.extra}]'" if spec.extra else ""


# --- trying and keeping


def use_answers(name: str, answers: Mapping[str, str]) -> Probed:
    """Try the platform with these answers, over what is set, and keep them if it works; else nothing is written."""
    try:
        spec = find_platform(name)
        told = probe_platform(spec, merge_answers(spec, answers))
        keep_answers(spec, answers)
    except HermesError as problem:
        return Probed(False, str(problem))
    return Probed(True, told)


def merge_answers(spec: PlatformSpec, answers: Mapping[str, str]) -> dict[str, Any]:
    """The settings with the answers in them. An answer that is missing leaves what was set; else the default holds."""
    section = read_section(spec)
    for question in spec.setup:
        given = answers.get(question.key, "").strip()
        value = given or section.get(question.key) or question.default
        if question.choices and value not in question.choices:
            raise ConfigProblem(
                f"{question.key} must be one of {', '.join(question.choices)}.", kept=_UNCHANGED, fix="Choose one."
            )
        if question.env and given and os.environ.get(question.env, given) not in ("", given):
            raise ConfigProblem(
                f"{question.env} is set in the environment of this program, and that wins over one kept here.",
                kept=_UNCHANGED,
                fix="Change it there, or take it out and start Hermes again.",
            )
        if value:
            section[question.key] = value
    return section


def probe_platform(spec: PlatformSpec, section: Mapping[str, Any]) -> str:
    """Ask the service with these settings; a sentence that says which account it is, or a ConfigProblem."""
    if is_missing(spec):
        raise ConfigProblem(f"{spec.label} needs more than is installed.", kept=_UNCHANGED, fix=name_install(spec))
    if not spec.probe:
        return f"{spec.label} is set up."
    module, _, name = spec.probe.partition(":")
    given = {**section, PRIVATE: cli_config.load_settings().network.private}
    told = vars(importlib.import_module(module))[name](given, get_hermes_home())
    return asyncio.run(_wait(told, spec)) if inspect.isawaitable(told) else str(told)


async def _wait(told: Any, spec: PlatformSpec) -> str:
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            return str(await told)
    except TimeoutError as late:
        raise ConfigProblem(
            f"{spec.label} did not answer within {PROBE_SECONDS:.0f} s.", kept=_UNCHANGED, fix="Check the network."
        ) from late


def keep_answers(spec: PlatformSpec, answers: Mapping[str, str]) -> None:
    """Secrets go to `.env`, the rest to the settings, and the platform is on; all of it, or nothing."""
    given = {one: answers.get(one.key, "").strip() for one in spec.setup}
    secrets = {one.env: value for one, value in given.items() if one.env and value}
    before = {env: cli_config.load_env().get(env, "") for env in secrets}
    settings = cli_config.load_config()  # noqa: TID251 - what is saved is a mapping
    section = settings.setdefault("platforms", {}).setdefault(spec.name, {})
    for question, value in given.items():
        if not question.env and (kept := value or section.get(question.key) or question.default):
            section[question.key] = kept
    section["enabled"] = True
    try:
        for env, value in secrets.items():
            cli_config.set_value(env, value)
        cli_config.save_config(settings)
    except ConfigProblem:
        for env, value in before.items():
            cli_config.set_value(env, value)
        raise


def read_requirements(spec: PlatformSpec) -> list[str]:
    """What the platform's folder lists, as an installer takes it."""
    folder = importlib.import_module(spec.factory.partition(":")[0].rpartition(".")[0]).__file__
    path = Path(folder or "").with_name("requirements.txt")
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [line for raw in lines if (line := raw.partition("#")[0].strip())]


def find_told(name: str) -> str:
    """Who is let in on this platform, in a sentence for whoever has set it up."""
    spec = find_spec(name)
    owner = read_section(spec).get("owner")
    if spec.trusted or spec.knows_people or spec.is_program:
        return ""
    if owner:
        return f"{owner} is let in as the owner. Anybody else who writes gets a code, which you approve or not."
    return (
        "Nobody is let in yet. Write to it: the answer is a code, and `hermes people approve CODE --role owner` lets "
        "you in."
    )
