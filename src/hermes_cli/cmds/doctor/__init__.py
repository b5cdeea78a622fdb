"""`hermes doctor`: looks at everything Hermes needs, and says for each fault how to put it right.

It changes nothing, and works with a broken config, without a network, or with a store that somebody else holds. It asks
the model that would answer for two letters, and each chat app for its account, since only that shows whether they
answer; `--offline` leaves that out.
"""

import argparse
import json
import logging
import platform
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TypeVar

from agent.auxiliary_client import find_runtime
from agent.probing import probe
from agent.providers.key_names import find_meant
from agent.providers.runtime import lacks_key
from gateway.core.chat_settings import find_faults
from gateway.core.delivery_rules import tell_wait
from gateway.platforms.account_settings import CONNECTED, is_on, plan_accounts, read_section
from gateway.platforms.platform_list import all_specs, find_misspelt
from gateway.platforms.section_faults import find_odd_settings
from gateway.service.admin.people_faults import find_homes, find_owners
from gateway.service.admin.platform_setup import find_lockout, probe_platform
from hermes_base.account_names import read_accounts
from hermes_base.errors import ConfigProblem, StoreFailure
from hermes_base.settings import Settings
from hermes_base.store_place import StorePlace, describe_place, find_place, has_store
from hermes_base.text.addresses import is_local
from hermes_cli import config
from hermes_cli.acp import acp_cmd
from hermes_cli.cmds import nodes_cmd
from hermes_cli.cmds.config_cmd import read_key_names
from hermes_cli.cmds.doctor.finding import FAIL, INFO, OK, WARN, DoctorFinding
from hermes_cli.cmds.doctor.plugin_checks import check_engine, check_mcp, check_memory, check_plugins
from hermes_cli.cmds.status_cmd import ask_gateway, measure_free
from hermes_cli.plugins import discover_plugins
from hermes_cli.profiles import get_active_profile_name
from hermes_constants import STORE_FILE, VERSION, get_hermes_home
from hermes_net.address_rules import read_rules
from hermes_state.damage import TABLES
from hermes_state.home_lock import holder
from hermes_state.sql.damage_sql import find_damaged, list_damaged
from hermes_state.sql.engines.engine import Transaction
from hermes_state.sql.engines.opening import open_engine
from hermes_state.sql.engines.sqlite import was_made
from hermes_state.sql.ownership import CLOCK
from hermes_state.sql.schema import SCHEMA_VERSION, check_readable
from hermes_state.sql.statements import GET_META
from hermes_state.sql.turn_statements import REFUSED, UNSENT_CHATS
from hermes_state.turn_rules import measure_setback
from hermes_state.turns import REFUSED_SHOWN
from tools.browser.launching import find_browser, find_missing
from tools.shell.sandbox import BUBBLEWRAP, describe_walls, is_bubblewrap_usable
from tools.web.search_services import search_services

log = logging.getLogger(__name__)

OLDEST_PYTHON = (3, 11)
LITTLE_SPACE, NO_SPACE = 1 << 30, 50 << 20
STORE_PATIENCE = 1.0
ANSWER_PATIENCE = 15.0
NAMED_ROWS = 10  # damaged rows that are named one by one
LATE_CLOCK = 60.0
LONG_WAIT = 3600.0
_RESTORE = "Check the disk; `hermes backup restore FILE` brings older data back."
_MEET = f"Start Hermes: it sets the row aside when it meets it, tells the person and goes on without it. {_RESTORE}"
_SET_ASIDE = f"Its bytes are kept in the table `damaged` of the store. {_RESTORE}"
SYSTEM_TOOLS = {
    "bash": "the model cannot run commands",
    "bwrap": "the model's commands run without a sandbox",
    "rg": "searching in files is slower",
}


T = TypeVar("T")
Check = Callable[[T], Iterator[DoctorFinding]]


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("hermes doctor", description="Find out what is wrong, and how to put it right.")
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--offline", action="store_true", help="ask neither the model nor chat apps")
    parsed = parser.parse_args(args)
    findings = examine(CHECKS, get_hermes_home())
    with suppress(ConfigProblem):
        settings = config.load_settings()
        checks = [check for check in SETTINGS_CHECKS if not (parsed.offline and check in NETWORK_CHECKS)]
        findings += [more for more in examine(checks, settings) if more not in findings]
    if parsed.json:
        print(json.dumps([asdict(finding) for finding in findings], ensure_ascii=False, indent=2))
    else:
        for finding in findings:
            print(f"{finding.level:<4}  {finding.what}" + (f"\n      {finding.fix}" if finding.fix else ""))
        faults, warnings = (sum(finding.level == level for finding in findings) for level in (FAIL, WARN))
        worries = f" Warnings: {warnings}." if warnings else ""
        print("\n" + (f"Faults found: {faults}." if faults else "No fault found.") + worries)
    return 1 if any(finding.level == FAIL for finding in findings) else 0


def examine(checks: Sequence[Check[T]], subject: T) -> list[DoctorFinding]:
    """All findings; what a check could not read, and a check that breaks, become findings themselves."""
    findings: list[DoctorFinding] = []
    for check in checks:
        try:
            findings += list(check(subject))
        except (ConfigProblem, StoreFailure) as error:
            findings.append(DoctorFinding(FAIL, error.what, error.fix))
        except Exception as error:
            log.debug("a check broke", exc_info=True)
            name = check.__name__.lstrip("_").removeprefix("check_").replace("_", " ")
            what = config.redactor()(f"The check of {name} broke: {type(error).__name__}: {error}")
            findings.append(DoctorFinding(FAIL, what, "Please report this line."))
    return findings


# --- the checks


def _check_python(home: Path) -> Iterator[DoctorFinding]:  # noqa: ARG001 - all checks are called alike
    found = f"hermes {VERSION} on Python {platform.python_version()}"
    if sys.version_info >= OLDEST_PYTHON:
        yield DoctorFinding(OK, f"{found}.")
    else:
        yield DoctorFinding(FAIL, f"{found} is too old.", "Install Python 3.11 or newer and set Hermes up with it.")


def _check_home(home: Path) -> Iterator[DoctorFinding]:
    profile = get_active_profile_name()
    if not home.exists():
        what = f"The home {home} (profile {profile}) does not exist yet."
        yield DoctorFinding(INFO, what, "It is made at the first chat.")
        return
    try:
        with tempfile.TemporaryFile(dir=home):
            yield DoctorFinding(OK, f"The home is {home} (profile {profile}).")
    except OSError as error:
        fix = "Make it a folder that you may write to, or set HERMES_HOME to another one."
        yield DoctorFinding(FAIL, f"The home {home} cannot be written to: {error.strerror}.", fix)


def _check_disk(home: Path) -> Iterator[DoctorFinding]:
    free = measure_free(home)
    what = f"{free / 1e9:.1f} GB are free on the disk of the home."
    levels = ((NO_SPACE, FAIL), (LITTLE_SPACE, WARN))
    level = next((level for limit, level in levels if free < limit), OK)
    yield DoctorFinding(level, what, "" if level == OK else "Free some space: without it nothing can be stored.")


def _check_config(home: Path) -> Iterator[DoctorFinding]:
    path = config.get_config_path()
    problems = config.find_problems()
    for problem in problems:
        yield DoctorFinding(WARN if problem.warning else FAIL, problem.what, problem.fix)
    if problems:
        return
    try:
        find_place(home)
    except ConfigProblem as problem:  # the address of the store is none
        yield DoctorFinding(FAIL, f"{path}: {problem.what}", problem.fix)
        return
    what = f"{path} is in order." if path.exists() else f"There is no {path}: the defaults are used."
    yield DoctorFinding(OK, what)


def _check_env(home: Path) -> Iterator[DoctorFinding]:  # noqa: ARG001
    path = config.get_env_path()
    if not path.exists():
        return
    bad = config.find_bad_env_lines()
    known = read_key_names()
    for name in config.load_env():
        meant = find_meant(name, known)
        if meant:
            what = f"{path}: no provider's key is called {name}; it is kept and not used."
            yield DoctorFinding(WARN, what, f"Did you mean {meant}? A name of your own is named by model.key_env.")
    for line in bad:
        what = f"{path}, line {line}: this is not NAME=VALUE and is ignored."
        yield DoctorFinding(WARN, what, "Correct or remove it.")
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        what = f"Other users of this machine may read the secrets in {path}."
        yield DoctorFinding(WARN, what, f"Run: chmod 600 {path}")
    elif not bad:
        yield DoctorFinding(OK, f"{path} is in order.")


def _find_readable_place(home: Path) -> StorePlace:
    """While the settings cannot be read, which is told already, a file that is there is looked at all the same."""
    try:
        return find_place(home)
    except ConfigProblem:
        return home / STORE_FILE


def _check_store(home: Path) -> Iterator[DoctorFinding]:
    place = _find_readable_place(home)
    if not has_store(place) and not was_made(home / STORE_FILE):
        with suppress(ConfigProblem):
            find_place(home)  # else it is told already what is wrong
            yield DoctorFinding(OK, "There is no store yet: it is made with the first conversation.")
        return
    with closing(open_engine(place, STORE_PATIENCE, readonly=True)) as store:
        version = store.read(check_readable)
        faults = store.find_faults()
        if faults:
            fix = "Stop Hermes, keep a copy of the file, and restore a backup with `hermes backup restore FILE`."
            yield DoctorFinding(FAIL, f"The store {describe_place(place)} is damaged: {'; '.join(faults)}.", fix)
            return
        worries = [DoctorFinding(WARN, what, fix) for what, fix in store.describe().worries]
        findings = [*worries, *store.read(_find_damage), *store.read(_check_clock)]
        undelivered = store.read(_find_undelivered)
    yield from (*findings, *undelivered)
    if not findings:
        what = f"The store {describe_place(place)} is sound"
        yield DoctorFinding(OK, f"{what} (layout {version}, this program's is {SCHEMA_VERSION}).")


def _find_damage(db: Transaction) -> list[DoctorFinding]:
    """Rows that cannot be read: those that nobody has met yet, and those that were set aside."""
    found = [DoctorFinding(FAIL, row.what, _MEET) for row in islice(find_damaged(db), NAMED_ROWS)]
    for row in list_damaged(db, NAMED_ROWS):
        at = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.found))
        where = f" of {row.conversation}" if row.conversation else ""
        what = f"A stored {TABLES[row.table]}{where} ({row.key}) could not be read and was set aside on {at}"
        found.append(DoctorFinding(WARN, f"{what}: {row.problem}.", _SET_ASIDE))
    return found


def _find_undelivered(db: Transaction) -> list[DoctorFinding]:
    """What has not reached people for an hour, and what never will."""
    now = time.time()
    found = []
    for account, chat, count, since, _ in db.execute(UNSENT_CHATS, {"limit": NAMED_ROWS}).rows:
        if since < now - LONG_WAIT:
            at = time.strftime("%Y-%m-%d %H:%M", time.localtime(since))
            what = f"{count} messages have been waiting for chat {chat} of {account} since {at}."
            found.append(DoctorFinding(INFO, what, "They are sent when the chat can be reached; see `hermes status`."))
    for account, chat, at, reason in db.execute(REFUSED, {"since": now - REFUSED_SHOWN, "limit": NAMED_ROWS}).rows:
        day = time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
        what = f"A message to chat {chat} of {account} was refused on {day}: {reason}"
        found.append(DoctorFinding(WARN, what, "What it says stands in the conversation: `hermes sessions`."))
    return found


def _check_clock(db: Transaction) -> list[DoctorFinding]:
    known = db.execute(GET_META, (CLOCK,)).first
    behind = measure_setback("" if known is None else str(known[0]), db.now())
    if behind < LATE_CLOCK:
        return []
    what = f"The clock of this machine is {behind / 60:.0f} min behind the time at which the store was last used."
    return [DoctorFinding(WARN, what, "Set the clock. Hermes moves what waits for its time along at its next start.")]


def _check_owner(home: Path) -> Iterator[DoctorFinding]:
    owner = holder(home)
    if owner is None:
        yield DoctorFinding(OK, "No other process uses this home.")
        return
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(owner.since))
    who = f"The process {owner.pid}, running since {since}," if owner.pid else "Another process"
    yield DoctorFinding(INFO, f"{who} owns this home; chats join it.", "`hermes gateway stop` ends it.")


def _check_nodes(home: Path) -> Iterator[DoctorFinding]:
    """In what the gateways of one store differ (I4)."""
    yield from (DoctorFinding(WARN, what, nodes_cmd.ALIKE) for what in nodes_cmd.find_differences(home))


def _check_model(settings: Settings) -> Iterator[DoctorFinding]:
    """Which model would answer, found in the way the chat finds it; nothing is asked of a provider."""
    found = find_runtime(settings)
    if lacks_key(found):
        name = found.facts.key_env[0]
        yield DoctorFinding(FAIL, f"No key for {found.facts.label} is set.", f"Set it with: hermes config set {name}")
        return
    yield DoctorFinding(OK, f"Answers: {found.model} ({found.label}); {found.source}.")


def _check_answer(settings: Settings) -> Iterator[DoctorFinding]:
    """Whether it does answer: a key that is refused and a name that is not known show nowhere else."""
    try:
        found = find_runtime(settings)
    except ConfigProblem:
        return  # reported by the check before
    if lacks_key(found) or found.provider == "embedded":
        return  # the built-in model is there or not; to load it would take longer than all the rest
    result = probe(found, ANSWER_PATIENCE)
    if result.probed.ok:
        yield DoctorFinding(OK, result.probed.text)
    elif result.passing and not is_local(found.base_url):
        yield DoctorFinding(WARN, result.probed.text, "Without a network this can be left out: hermes doctor --offline")
    else:  # a server on this machine needs no network
        fix = "Look at model.provider, model.default, model.base_url and the key; `hermes setup` asks for them."
        yield DoctorFinding(FAIL, result.probed.text, fix)


def _check_tools(home: Path) -> Iterator[DoctorFinding]:  # noqa: ARG001
    for tool, without in SYSTEM_TOOLS.items():
        if shutil.which(tool):
            yield DoctorFinding(OK, f"{tool} is installed.")
        else:
            yield DoctorFinding(INFO, f"{tool} is not installed: {without}.", "Your system's packages have it.")


def _check_editors(home: Path) -> Iterator[DoctorFinding]:  # noqa: ARG001
    if acp_cmd.is_installed():
        yield DoctorFinding(OK, "Editors can speak with Hermes: `hermes acp`.")
    else:
        yield DoctorFinding(INFO, acp_cmd.MISSING, acp_cmd.name_install())


def _check_sandbox(settings: Settings) -> Iterator[DoctorFinding]:
    """Which boundary the model's commands run in (G5)."""
    active, walls = describe_walls(settings)
    if active == BUBBLEWRAP:
        yield DoctorFinding(OK, walls)
    elif is_bubblewrap_usable():
        yield DoctorFinding(WARN, walls, "`hermes config set terminal.backend auto` puts commands into the sandbox.")
    else:
        fix = "Install bubblewrap and set terminal.backend to auto: then there is a sandbox."
        yield DoctorFinding(WARN, walls, fix)
    left_out = [name for name in (".env", "*.pem", ".ssh") if name not in settings.files.secrets]
    if left_out:
        what = f"files.secrets does not name {', '.join(left_out)}: commands that run unasked see such files."
        fix = "Name them too, if that is not meant: the list that you set takes the place of the usual one."
        yield DoctorFinding(WARN, what, fix)


def _check_search(settings: Settings) -> Iterator[DoctorFinding]:
    """Whether the model can search the web; no search is made, since each may cost."""
    fix = "`hermes setup web` asks for a service: SearXNG, Brave, Tavily, Exa, Serper or Firecrawl."
    try:
        service = search_services.choose(settings)
    except ConfigProblem as problem:
        if settings.web.search_backend:
            yield DoctorFinding(WARN, problem.what, problem.fix)
        else:
            yield DoctorFinding(INFO, "The model reads web pages, but cannot search: no search service is set up.", fix)
        return
    if missing := service.find_missing(settings):
        yield DoctorFinding(WARN, f"The model cannot search the web: {missing}.", fix)
    else:
        yield DoctorFinding(OK, f"The web is searched with {service.label}.")


def _check_platforms(settings: Settings) -> Iterator[DoctorFinding]:
    if settings.plugins.enabled:
        discover_plugins()  # the owner lets them run, and some of them bring platforms
    for problem in find_misspelt(map(str, settings.platforms)):
        yield DoctorFinding(WARN, problem, "`hermes config unset platforms.NAME` takes a mistake back.")
    for odd in find_odd_settings(settings.platforms):
        yield DoctorFinding(WARN, config.redactor()(odd.what), odd.fix)
    for fault in find_faults(settings.platforms):
        yield DoctorFinding(WARN, fault, "Correct it in the settings.")
    gateway = ask_gateway(get_hermes_home())
    for wait in gateway.get("waits", ()):
        yield DoctorFinding(
            WARN, config.redactor()(tell_wait(wait)), "What is to be said there is kept, and sent then."
        )
    for told in gateway.get("platforms", ()):
        if told.get("problem"):
            state = "is connected, but not all of it works" if told.get("hears") else "is not connected"
            what = config.redactor()(f"{told['label']} {state}: {told['problem']}")
            yield DoctorFinding(WARN, what, _find_platform_fix(settings, str(told["name"]), str(told["account"])))
    if len(gateway.get("nodes", ())) > 1:
        for lease in gateway["leases"]:
            yield DoctorFinding(INFO, f"{lease['name']} is with the gateway at {lease['address']}.")
        if gateway.get("hints"):
            yield DoctorFinding(WARN, gateway["hints"], "Name the database itself in store.url, not its pooler.")
    reached = [
        spec.label for spec in all_specs() if spec.is_program and is_on(spec, read_section(settings.platforms, spec))
    ]
    if reached and not settings.web.enabled:
        what = f"{' and '.join(reached)} is on, but nobody can reach it: the HTTP server is off."
        yield DoctorFinding(WARN, what, "`hermes config set web.enabled true` serves it.")


def _find_platform_fix(settings: Settings, name: str, account: str) -> str:
    """Where several accounts stand in the settings, each is changed there."""
    if read_accounts(settings.platforms.get(name)):
        return f"Look at platforms.{name}.accounts.{account} in the settings, and at its secrets in .env."
    return f"`hermes setup {name}` asks for what it needs."


def _check_accounts(settings: Settings) -> Iterator[DoctorFinding]:
    """Each account that is switched on, asked who it is."""
    told = ask_gateway(get_hermes_home()).get("platforms", ())
    connected = {(one["name"], one["account"]) for one in told if one.get("connected")}
    for spec in all_specs():
        section = read_section(settings.platforms, spec)
        if spec.always_on or not is_on(spec, section):
            continue
        for planned in plan_accounts(spec, section, config.env_value):
            name = spec.label if planned.name in ("", spec.name) else f"{spec.label}, account {planned.name}"
            try:
                is_connected = (spec.name, planned.name) in connected
                own = {**planned.read(), "account": planned.name, CONNECTED: is_connected}
                found = probe_platform(spec, own)
                yield DoctorFinding(OK, f"{name}: {found.told}")
                if found.worry:
                    yield DoctorFinding(WARN, f"{name}: {found.worry}")
            except ConfigProblem as problem:
                yield DoctorFinding(FAIL, f"{name}: {problem.what}", problem.fix)


def _check_people(settings: Settings) -> Iterator[DoctorFinding]:
    """What the settings and the store say of people, where it does not fit together."""
    on = [spec for spec in all_specs() if is_on(spec, read_section(settings.platforms, spec))]
    yield from (DoctorFinding(WARN, told) for told in map(find_lockout, on) if told)
    place = _find_readable_place(get_hermes_home())
    if not has_store(place):
        return
    with closing(open_engine(place, STORE_PATIENCE, readonly=True)) as store:
        if store.read(check_readable) < SCHEMA_VERSION:  # it is brought up at the next start
            return
        found = store.read(lambda db: [*find_homes(db, settings), *find_owners(db, settings)])
    yield from (DoctorFinding(WARN, config.redactor()(what), fix) for what, fix in found)


def _check_addresses(settings: Settings) -> Iterator[DoctorFinding]:
    """With an entry that cannot be read nothing is called at all."""
    try:
        read_rules(settings.network.private)
    except ConfigProblem as problem:
        yield DoctorFinding(FAIL, problem.what, problem.fix)


def _check_browser(settings: Settings) -> Iterator[DoctorFinding]:
    """Whether the model can use a browser; none is started."""
    if not settings.browser.enabled:
        return
    missing = find_missing(settings.browser)
    if missing is not None:
        yield DoctorFinding(INFO, f"The model has no browser. {missing.what}", missing.fix)
        return
    place = "one that runs already" if settings.browser.cdp_url else find_browser(settings.browser)
    yield DoctorFinding(OK, f"The model's browser is {place}.")


CHECKS: tuple[Check[Path], ...] = (
    _check_python,
    _check_home,
    _check_disk,
    _check_config,
    _check_env,
    _check_store,
    _check_owner,
    _check_nodes,
    _check_tools,
    _check_editors,
)
#: Of settings that can be read; those that cannot are a finding of the check above.
SETTINGS_CHECKS: tuple[Check[Settings], ...] = (
    _check_model,
    _check_answer,
    _check_sandbox,
    _check_addresses,
    _check_browser,
    _check_search,
    check_plugins,
    check_mcp,
    _check_platforms,
    _check_accounts,
    _check_people,
    check_engine,
    check_memory,
)
#: Of these, those that ask somebody else.
NETWORK_CHECKS = frozenset({_check_answer, _check_accounts})
