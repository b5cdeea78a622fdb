"""`hermes gateway`: runs the gateway in the foreground, in the background or as a service of systemd, ends it, and
tells how it is."""

import argparse
import gc
import json
import logging
import os
import pwd
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gateway.core.delivery_rules import tell_wait
from gateway.http.access import word_address
from hermes_base.errors import HermesError
from hermes_cli import config as cli_config
from hermes_cli.chat.local_client import Gone, call_owner
from hermes_cli.cmds.gateway.crash_guard import REFUSED, CrashGuard, write_refusal
from hermes_cli.cmds.gateway.drain_cmd import drain
from hermes_cli.cmds.gateway.service_unit import ARGUMENTS, MARK, Unit, describe_unit, is_in_unit, write_unit
from hermes_cli.cmds.web_cmd import END_CHAT, find_address, is_chat
from hermes_cli.config.lent_env import exported_environment
from hermes_cli.config.logs import keep_log, log_path
from hermes_constants import VERSION, get_hermes_home
from hermes_constants.ordinary_files import open_private
from hermes_state.home_lock import Holder, holder

log = logging.getLogger(__name__)

OK, NOT_RUNNING, TERMINATED = 0, 1, 143
NOBODY = "No gateway runs in {home}. `hermes gateway run` starts one."
_CALL_SECONDS = 10.0
_STOP_SECONDS = 30.0
_START_SECONDS = 60.0
_SYSTEMD_SECONDS = 90.0
_LAST_LINES = 10
OUTPUT = "gateway.out"  # what one in the background prints; its log is beside it
_LOOK_SECONDS = 0.05
_FRESH_SECONDS = 90.0  # a platform with a sign of life in this time is connected
_SYSTEMD_RUNS = Path("/run/systemd/system")  # exists where systemd is the first process
_INSTEAD = (
    "Let what keeps programs running here (a container, another service manager) run `hermes gateway run`, which stays "
    "in the foreground; or use `hermes gateway start`."
)


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("hermes gateway", description="Run the gateway: chats and platforms of one home.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    run = actions.add_parser("run", help="run it in the foreground until Ctrl-C")
    run.add_argument("--anyway", action="store_true", help="start it although it crashed again and again")
    actions.add_parser("start", help="run it in the background")
    actions.add_parser("stop", help="end it and wait until it has ended")
    actions.add_parser("restart", help="end it if it runs, and start it in the background")
    status = actions.add_parser("status", help="what it does now")
    status.add_argument("--json", action="store_true", help="for programs")
    drained = actions.add_parser("drain", help="hand over what it has to the other gateways on its store")
    drained.add_argument("--wait", action="store_true", help="wait until it is empty, and end it")
    install = actions.add_parser("install", help="make it a service of systemd, for this home")
    install.add_argument("--enable", action="store_true", help="also start it, now and with the machine")
    for action in (install, actions.add_parser("uninstall", help="remove that service")):
        action.add_argument("--system", action="store_true", help="a service of the machine, not of the user (as root)")
    parsed = parser.parse_args(args)
    return _ACTIONS[parsed.action](parsed, get_hermes_home())


def _run(parsed: argparse.Namespace, home: Path) -> int:
    owner = holder(home)
    if owner is not None:
        raise HermesError(f"Hermes runs already in {home}: {_name(owner)}.", fix=_tell_page(home))
    guard = CrashGuard(home)
    verdict = guard.admit(anyway=parsed.anyway)
    if verdict.refused:
        print(f"hermes: {write_refusal(verdict, guard.find_trace(verdict.began))}", file=sys.stderr)
        return REFUSED
    if verdict.crashes:
        times = f"{verdict.crashes} time{'' if verdict.crashes == 1 else 's'}"
        when = f"in {verdict.pause:.0f} s" if verdict.pause else "now"
        said = f"The gateway crashed {times} lately ({verdict.reason.rstrip('.')}); it starts {when}."
        print(said, file=sys.stderr, flush=True)
        time.sleep(verdict.pause)
    signal.signal(signal.SIGTERM, _leave)
    with keep_log(home), guard.watch() as note_ready:
        log.info("the gateway %s starts, process %d", VERSION, os.getpid())
        return _load_gateway()(home, note_ready)


def _tell_page(home: Path) -> str:
    """Where the page of the one that runs is; else how to get one."""
    try:
        return f"Its page: {word_address(find_address(home))}"
    except HermesError:  # a chat in a terminal serves none
        return "`hermes` joins it. End it to start one with a page, or set HERMES_HOME to another folder."


def _load_gateway() -> Callable[[Path, Callable[[], None]], int]:
    """Loaded here and not above: `stop` and `status` need no agent. What is loaded stays, so nobody looks for garbage
    among it meanwhile: that is a tenth of the time."""
    gc.disable()
    from gateway.app.foreground import run_gateway  # noqa: PLC0415

    gc.freeze()
    gc.enable()
    return run_gateway


def _leave(number: int, frame: object) -> None:
    """Told to end before it is ready: that is no crash. Once it is ready, it ends in order."""
    del number, frame
    sys.exit(TERMINATED)


# --- start


def _start(parsed: argparse.Namespace, home: Path) -> int:
    del parsed
    owner = holder(home)
    if owner is not None:
        raise _say_owned(home, owner, fix="`hermes gateway restart` starts it anew.")
    path = log_path(home).with_name(OUTPUT)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(path, "ab", opener=open_private) as said:
        begin = said.tell()
        process = subprocess.Popen(
            [sys.executable, *ARGUMENTS],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            env={**exported_environment(), "HERMES_HOME": str(home.absolute())},
            start_new_session=True,  # closing this terminal does not reach it
        )
    _wait_for_start(home, process, path, begin)
    print(f"The gateway of {home} runs (process {process.pid}). Its log: {log_path(home)}")
    if cli_config.load_last_good().web.enabled:
        print(f"The page: {word_address(find_address(home))}")
    return OK


def _wait_for_start(home: Path, process: subprocess.Popen[bytes], path: Path, begin: int) -> None:
    end = time.monotonic() + _START_SECONDS
    while not _answers(home, process.pid):
        if process.poll() is not None:
            lines = path.read_bytes()[begin:].decode(errors="replace").splitlines()
            said = "\n".join(lines[-_LAST_LINES:]) or "nothing"
            raise HermesError(
                f"The gateway ended while it started. It said:\n{said}", fix=f"\nIts log: {log_path(home)}"
            )
        if time.monotonic() > end:
            raise HermesError(
                f"The gateway (process {process.pid}) does not answer yet.",
                kept="It goes on starting.",
                fix=f"Look at `hermes gateway status`, and into its log: {log_path(home)}",
            )
        time.sleep(_LOOK_SECONDS)


def _answers(home: Path, pid: int) -> bool:
    owner = holder(home)
    if owner is None or owner.pid != pid:
        return False
    try:
        return call_owner(home, "status", {}, _CALL_SECONDS) is not None
    except Gone:
        return False


def _restart(parsed: argparse.Namespace, home: Path) -> int:
    owner = holder(home)
    unit = _find_unit(home, owner) if owner is not None else None
    if unit is not None:
        raise HermesError(
            f"systemd runs this gateway, as {unit.name}.",
            kept="Nothing was done.",
            fix=f"Restart it with: {shlex.join(unit.call('restart', unit.name))}",
        )
    _stop(parsed, home)
    return _start(parsed, home)


def _say_owned(home: Path, owner: Holder, *, kept: str = "", fix: str) -> HermesError:
    """That another one is there. `fix` is for a gateway; a chat that hosts is ended by who chats."""
    if is_chat(home):
        return HermesError(f"A chat in a terminal hosts Hermes in {home}: {_name(owner)}.", kept=kept, fix=END_CHAT)
    return HermesError(f"A gateway runs already in {home}: {_name(owner)}.", kept=kept, fix=fix)


def _name(owner: Holder) -> str:
    return f"process {owner.pid}, since {_write_time(owner.since)}" if owner.pid else "another process"


# --- stop


def _stop(parsed: argparse.Namespace, home: Path) -> int:
    del parsed
    owner = holder(home)
    if owner is None:
        print(NOBODY.format(home=home))
        return OK
    _ask(home, owner, "shutdown")
    end = time.monotonic() + _STOP_SECONDS
    while (now := holder(home)) is not None and (now == owner or not now.pid):  # without a name it comes or goes
        if time.monotonic() > end:
            raise HermesError(
                f"The gateway (process {owner.pid}) was told to stop and has not ended yet.",
                fix=f"Wait, or end it: kill {owner.pid}",
            )
        time.sleep(_LOOK_SECONDS)
    print(f"The gateway (process {owner.pid}) has stopped.")
    if now is not None and now.pid:
        print(f"A terminal that was joined to it hosts now (process {now.pid}).")
    return OK


def _ask(home: Path, owner: Holder, name: str) -> dict[str, Any]:
    try:
        told = call_owner(home, name, {}, _CALL_SECONDS)
    except Gone as gone:
        if name == "shutdown":
            return {}  # it left before it could say so
        fix = f"If it stays so: kill {owner.pid}"
        raise HermesError(f"The gateway (process {owner.pid}) does not answer.", fix=fix) from gone
    if told is None:
        what = f"Process {owner.pid} owns the home {home} and does not listen: it is starting or ending."
        raise HermesError(what, fix="Try again in a moment.")
    return told


# --- a service of systemd


def _install(parsed: argparse.Namespace, home: Path) -> int:
    _check_rights(system=parsed.system)
    unit = _describe(home, system=parsed.system)
    text = write_unit(unit)
    if shutil.which("systemctl") is None:
        raise HermesError("There is no systemd on this machine.", kept="Nothing was written.", fix=_INSTEAD)
    old = _read_own(unit)
    if old == text:
        print(f"The service is installed already, and nothing was changed: {unit.path}")
    else:
        unit.folder.mkdir(parents=True, exist_ok=True)
        making = unit.path.with_name(f".{unit.name}.{os.getpid()}")
        making.write_text(text, "utf-8")
        making.replace(unit.path)
        print(f"The service was {'written' if old is None else 'changed'}: {unit.path}")
    if parsed.enable:
        return _enable(unit)
    print("To start it, now and with the machine:")
    print("\n".join(f"  {shlex.join(command)}" for command in unit.enabling))
    if not unit.user:
        print("To keep it when you log out:\n  loginctl enable-linger")
    if not _SYSTEMD_RUNS.is_dir():
        print(f"systemd does not run here now. {_INSTEAD}")
    return OK


def _check_rights(*, system: bool) -> None:
    if system and os.geteuid() != 0:
        raise HermesError(
            "Only root can change the services of the machine.",
            kept="Nothing was changed.",
            fix="Do it as root, or leave out --system for a service of your own.",
        )


def _describe(home: Path, *, system: bool) -> Unit:
    python = Path(sys.executable)
    if not system:
        return describe_unit(home, python, exported_environment())
    # As the user whose the home is: a service must not make files there that its owner cannot read.
    uid = home.stat().st_uid if home.exists() else os.geteuid()
    try:
        found = pwd.getpwuid(uid)
    except KeyError:  # a user without a name here; systemd takes the number, too
        return describe_unit(home, python, {"HOME": "/"}, str(uid))
    return describe_unit(home, python, {"HOME": found.pw_dir}, found.pw_name)


def _read_own(unit: Unit) -> str | None:
    """The text that was installed before; None: there is none."""
    if not unit.path.exists():
        return None
    text = unit.path.read_text("utf-8", errors="replace")
    if not text.startswith(MARK):
        raise HermesError(
            f"{unit.path} was not written by Hermes.", kept="It was left as it is.", fix="Move it away, then try again."
        )
    return text


def _enable(unit: Unit) -> int:
    owner = holder(unit.home)
    if owner is not None and _find_unit(unit.home, owner) is None:
        fix = "Stop that one with `hermes gateway stop`, then try again."
        raise _say_owned(unit.home, owner, kept="The service is installed and not enabled.", fix=fix)
    for command in unit.enabling:
        problem = _run_systemctl(command)
        if problem:
            raise HermesError(
                f"`{shlex.join(command)}` failed: {problem.rstrip('.')}.",
                kept="The service is installed.",
                fix=_INSTEAD,
            )
    print(f"It is enabled and started. Its log: journalctl {'-u' if unit.user else '--user -u'} {unit.name}")
    return OK


def _uninstall(parsed: argparse.Namespace, home: Path) -> int:
    _check_rights(system=parsed.system)
    unit = _describe(home, system=parsed.system)
    if _read_own(unit) is None:
        print(f"No service is installed for {home}: there is no {unit.path}")
        return OK
    _tell_systemd(unit.call("disable", "--now", unit.name))
    unit.link.unlink(missing_ok=True)
    unit.path.unlink()
    _tell_systemd(unit.call("daemon-reload"))
    print(f"The service was removed: {unit.path}")
    return OK


def _tell_systemd(command: tuple[str, ...]) -> None:
    """Where systemd runs; a failure is told, and does not keep the file there."""
    problem = _run_systemctl(command) if _SYSTEMD_RUNS.is_dir() else ""
    if problem:
        print(f"`{shlex.join(command)}` failed: {problem}", file=sys.stderr)


def _run_systemctl(command: tuple[str, ...]) -> str:
    """Why it failed; empty when it did not."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SYSTEMD_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"


def _find_unit(home: Path, owner: Holder) -> Unit | None:
    """The service that the owner of the home belongs to; None: it was started by hand."""
    try:
        cgroups = Path(f"/proc/{owner.pid}/cgroup").read_text()
    except OSError:
        return None
    both = (_describe(home, system=system) for system in (False, True))
    return next((unit for unit in both if is_in_unit(cgroups, unit)), None)


# --- status


def _status(parsed: argparse.Namespace, home: Path) -> int:
    owner = holder(home)
    if owner is None:
        print(json.dumps({"running": False}) if parsed.json else NOBODY.format(home=home))
        return NOT_RUNNING
    status = {"running": True, "pid": owner.pid, "since": owner.since, **_ask(home, owner, "status")}
    print(json.dumps(status, ensure_ascii=False, indent=2) if parsed.json else "\n".join(write_status(status)))
    return OK


def write_status(status: Mapping[str, Any], now: float | None = None) -> Iterator[str]:
    """The status in lines; what the gateway does not tell is left out."""
    now = time.time() if now is None else now
    yield f"Running: process {status['pid']}, since {_write_time(status['since'])} (node {status.get('node', '?')})"
    working = status.get("working", [])
    yield f"At work: {len(working)} conversation{'' if len(working) == 1 else 's'}"
    for turn in working:
        if isinstance(turn, str):  # the key alone is what a gateway of an earlier version tells
            yield f"  {turn}"
        else:
            title = f": {turn['title']}" if turn.get("title") else ""
            spent = max(0.0, now - float(turn.get("since", now)))
            yield f"  {turn['conversation']}, for {spent:.0f} s{title}"
    queue = status.get("queue", {})
    held = f", {queue['held']} of them after quiet hours" if queue.get("held") else ""
    yield f"Waiting: {queue.get('inbox', 0)} messages to deal with, {queue.get('outbox', 0)} to deliver{held}"
    yield from write_undelivered(status, now)
    yield from (f"  {tell_wait(wait)}" for wait in status.get("waits", []))
    yield "Platforms:"
    yield from (f"  {_write_platform(platform, now)}" for platform in status.get("platforms", []))
    held = status.get("leases", [])
    if held:
        yield "Held:"
    for lease in held:
        alive = "" if lease.get("live", True) else ", dead"  # so an earlier version tells
        where = f" ({lease['address']})" if lease.get("address") else ""
        yield f"  {lease['name']}: {lease.get('owner') or 'nobody'}{where}{alive}, generation {lease.get('epoch', 0)}"
    others = [node for node in status.get("nodes", []) if node["id"] != status.get("node")]
    yield from (f"Beside it: node {node['id']} ({node['address']}, version {node['version']})" for node in others)
    yield from status.get("differences", ())
    if status.get("hints"):
        yield status["hints"]


def write_undelivered(status: Mapping[str, Any], now: float) -> Iterator[str]:
    """Whom messages wait for, and what was refused for good."""
    for chat in status.get("undelivered", []):
        waited, tried = max(0.0, now - chat["since"]), ", tried in vain" if chat["tried"] else ""
        yield f"  Waiting for {chat['account']}, chat {chat['chat']}: {chat['count']}, for {waited:.0f} s{tried}"
    for row in status.get("refused", []):
        yield f"  Refused by {row['account']}, chat {row['chat']}, on {_write_time(row['at'])}: {row['reason']}"


def _write_platform(platform: Mapping[str, Any], now: float) -> str:
    """C13: connected means a sign of life in the last 90 seconds."""
    seen = float(platform.get("last_seen", 0.0))
    name = f"{platform['name']} ({platform.get('account', '')})"
    problem = platform.get("problem") or ""
    if platform.get("elsewhere"):
        return f"{name}: another gateway has it"
    if problem and not platform.get("hears"):
        return f"{name}: not connected. {problem}"
    if not seen:
        return f"{name}: never connected"
    state = "connected" if now - seen <= _FRESH_SECONDS else "not connected"
    trouble = f". But: {problem}" if problem else ""
    return f"{name}: {state}, last sign of life {max(0.0, now - seen):.0f} s ago{trouble}"


def _write_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


_ACTIONS: Mapping[str, Callable[[argparse.Namespace, Path], int]] = MappingProxyType(
    {
        "run": _run,
        "start": _start,
        "stop": _stop,
        "restart": _restart,
        "status": _status,
        "drain": drain,
        "install": _install,
        "uninstall": _uninstall,
    }
)
