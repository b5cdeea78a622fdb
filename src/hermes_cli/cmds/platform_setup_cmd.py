"""`hermes setup NAME`: the questions of one platform, each with what is set now; what it needs is installed first, and
nothing is kept before the service has answered (H5)."""

import getpass
import logging
import shlex
import subprocess

from gateway.platforms.face import PlatformSpec
from gateway.platforms.platform_list import all_specs
from gateway.service.admin import platform_setup
from hermes_base.query_values import PlatformQuestion
from hermes_cli import config
from hermes_cli.cmds.installer import find_installer
from hermes_cli.plugins import discover_plugins
from hermes_constants import get_hermes_home
from hermes_state.home_lock import holder

log = logging.getLogger(__name__)

OK, FAILED = 0, 1
TAKE_OUT = "-"


def main(name: str) -> int:
    theirs = _find_plugins(name)
    if theirs is not None:
        return _run_own(theirs)
    spec = platform_setup.find_platform(name)
    platform_setup.find_account(spec, {})
    if platform_setup.is_missing(spec) and not _install(spec):
        return FAILED
    print(f"{spec.label}. Enter keeps what stands in brackets, - takes it out; Ctrl-C leaves everything as it was.\n")
    answers: dict[str, str] = {}
    while True:
        for question in spec.setup:
            answer = _ask(platform_setup.view_question(spec, question, answers), bool(answers.get(question.key)))
            if answer:
                answers[question.key] = "" if answer == TAKE_OUT else answer
            elif question.key == platform_setup.ACCOUNT:
                answers.setdefault(question.key, question.default)
        print("\nTrying it …", flush=True)
        probed = platform_setup.use_answers(spec.name, answers)
        if probed.ok:
            break
        print(f"That did not work. {probed.text}\n")
    print(f"It works. {probed.text}\nKept in {config.get_config_path()}; secrets in {config.get_env_path()}.")
    is_running = holder(get_hermes_home()) is not None
    print("The gateway that runs connects it now." if is_running else "`hermes gateway run` brings it up.")
    return OK


def print_without_terminal(name: str) -> int:
    """What the questions would set, for somebody who cannot be asked."""
    theirs = _find_plugins(name)
    if theirs is not None:
        print(f"{theirs.label} comes from a plugin. Its own variables stand in .env; then it is switched on with:")
        print(f"  hermes config set platforms.{theirs.name}.enabled true")
        return FAILED
    spec = platform_setup.find_platform(name)
    platform_setup.find_account(spec, {})
    print("This asks questions, and there is no terminal to ask them in. What it would set, set like this:")
    if platform_setup.is_missing(spec):
        print(f"  {platform_setup.name_install(spec)}")
    for question in spec.setup:
        key = question.env or f"platforms.{spec.name}.{question.key} VALUE"
        print(f"  hermes config set {key:<40} {question.text}")
    print(f"  hermes config set platforms.{spec.name}.enabled true")
    return FAILED


def _find_plugins(name: str) -> PlatformSpec | None:
    """The platform of this name that a plugin brings."""
    discover_plugins()
    every = (spec for spec in all_specs() if spec.switched_on is not None)
    return next((spec for spec in every if name.lower() in (spec.name, spec.label.lower())), None)


def _run_own(spec: PlatformSpec) -> int:
    """The questions of the plugin itself; the owner's variables and settings are what it leaves behind."""
    if spec.set_up is None:
        return print_without_terminal(spec.name)
    try:
        spec.set_up()
    except KeyboardInterrupt:
        raise
    except (Exception, SystemExit) as problem:
        log.debug("the set-up of %s failed", spec.name, exc_info=True)
        print(f"The plugin of {spec.label} could not be set up: {problem or type(problem).__name__}")
        return FAILED
    print("`hermes gateway run` brings it up; one that runs takes another start.")
    return OK


def _ask(question: PlatformQuestion, was_typed: bool) -> str:
    """What is typed; `was_typed`: there was an answer at the last try."""
    if question.secret:
        usual = "the one that was typed" if was_typed else "the one that is there" if question.has_value else "none"
        return getpass.getpass(f"{question.text}, not shown [{usual}]: ").strip()
    usual = question.value or question.default or "none"
    choices = f" ({', '.join(question.choices)})" if question.choices else ""
    return input(f"{question.text}{choices} [{usual}]: ").strip()


# --- what has to be installed


def _install(spec: PlatformSpec) -> bool:
    """Offer it where it can be done; True: what is needed is there now."""
    installer = find_installer()
    command = [*installer, *platform_setup.read_requirements(spec)]
    shown = platform_setup.name_install(spec)
    if not installer:
        print(f"{spec.label} needs more than is installed, and this environment cannot be changed from here.")
        print(f"Install it where Hermes is installed: {shown}")
        return False
    print(f"{spec.label} needs more than is installed: {shown}")
    if input("Install it now? [yes]: ").strip().lower() not in ("", "y", "yes"):
        print("Nothing was changed.")
        return False
    done = subprocess.run(command, check=False)
    if done.returncode or platform_setup.is_missing(spec):
        print(f"That did not work. The command was: {shlex.join(command)}")
        return False
    return True
