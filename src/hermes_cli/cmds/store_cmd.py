"""`hermes store`: tells where the store is and what it holds, and moves it to another place."""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hermes_base.errors import ConfigProblem, HermesError, StoreFailure
from hermes_base.store_place import StorePlace, describe_place, find_place, has_store, is_address
from hermes_base.text.store_address import put_password, read_store_address, take_password
from hermes_cli import config
from hermes_cli.chat.local_client import call_owner
from hermes_cli.config import config_edit
from hermes_cli.config.lent_env import find_exported
from hermes_cli.config.own_files import read_text, replace_file
from hermes_constants import STORE_FILE, get_hermes_home
from hermes_state.files.carrying import carry_files
from hermes_state.home_lock import HomeLock, holder
from hermes_state.sql.engines.opening import open_engine
from hermes_state.sql.schema import check_readable
from hermes_state.sql.store_sql import Store
from hermes_state.transfer.copying import TABLES, find_living
from hermes_state.transfer.loan import borrow
from hermes_state.transfer.moving import StoreMove, move_store, try_target

FILE = "file"
_PATIENCE = 5.0
_CALL_SECONDS = 10.0
_BACK_SECONDS = 60.0
_LOOK_SECONDS = 0.05
#: What is counted, and what it is called.
_COUNTED: Mapping[str, str] = MappingProxyType(
    {
        "conversations": "select count(*) from conversation",
        "sessions": "select count(*) from session where messages > 0",
        "messages": "select count(*) from message",
        "people": "select count(*) from person",
        "waiting to be answered": "select count(*) from inbox where done_epoch is null",
        "waiting to be delivered": "select count(*) from outbox where ended is null",
        "files": "select count(*) from kept_file",
    }
)


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("hermes store", description="Show where the store is, or move it.")
    actions = parser.add_subparsers(dest="action", metavar="status|move")
    status = actions.add_parser("status", help="where it is and what it holds (the default)")
    status.add_argument("--json", action="store_true", help="for programs")
    move = actions.add_parser("move", help="copy all of it, compare, and use the copy from then on")
    move.add_argument("target", metavar="PLACE", help="postgresql://USER@HOST/NAME, or `file`: one in the home")
    move.add_argument("--from", dest="source", metavar="PLACE", help="where it is taken from (where the store is now)")
    parsed = parser.parse_args(args or ["status"])
    return _ACTIONS[parsed.action](parsed, get_hermes_home())


# --- the setting, for `hermes config`


def try_setting(key: str, text: str) -> None:
    """StoreFailure when this address or password leads to no store that can be used; tables are made where there are
    none (H5)."""
    address = text
    if key == config.STORE_PASSWORD:
        former = find_former(config.STORE_ADDRESS)
        address = _name(former) if former is not None and is_address(former) else ""
    if not address or key not in (config.STORE_ADDRESS, config.STORE_PASSWORD):
        return
    bare, typed = take_password(address)
    given = text if key == config.STORE_PASSWORD else typed
    known = config.find_store_password(get_hermes_home())
    exported = known if find_exported(config.STORE_PASSWORD) else ""
    Store(put_password(bare, exported or given or known), busy_timeout=_PATIENCE).close()


def find_former(key: str) -> StorePlace | None:
    """Where the store is before this setting changes; None: it does not move, or that cannot be read."""
    try:
        return find_place(get_hermes_home()) if key == config.STORE_ADDRESS else None
    except ConfigProblem:  # which may be what is put right now
        return None


def find_notes(former: StorePlace | None) -> Iterator[str]:
    """What stays behind where the store was until now."""
    now = find_place(get_hermes_home())
    if former is None or _name(former) == _name(now) or not has_store(former):
        return
    try:
        with closing(open_engine(former, _PATIENCE, readonly=True)) as engine:
            count = int(engine.find(_COUNTED["sessions"])[0][0])
    except StoreFailure as problem:
        yield f"What stays in {describe_place(former)} cannot be told: {problem}"
        return
    if count:
        to, source = (_name(place) if is_address(place) else FILE for place in (now, former))
        sessions = "1 session stays" if count == 1 else f"{count} sessions stay"
        yield f"{sessions} in {describe_place(former)}. To bring them along: hermes store move {to} --from {source}"


def settle(text: str, home: Path) -> StorePlace:
    """Write into the settings of a home that nobody uses where its store is to be; the place."""
    place, password = _read_place(text, home)
    path, env = home / config.CONFIG_FILE, home / config.ENV_FILE
    before, key = read_text(path), config.STORE_ADDRESS
    try:
        after = (
            config_edit.set_in_yaml(before, key.split("."), _name(place))
            if is_address(place)
            else config_edit.drop_from_yaml(before, key)
        )
    except config_edit.CannotEdit as error:
        what = f"{key} cannot be changed in the settings of the back-up without changing others."
        raise ConfigProblem(what, kept="Nothing was changed.", fix="Restore it without --store.") from error
    if after != before:
        replace_file(path, after)
    if password:
        replace_file(env, config_edit.set_in_env(read_text(env), config.STORE_PASSWORD, password))
    return place


# --- status


def _status(parsed: argparse.Namespace, home: Path) -> int:
    told = describe_store(find_place(home))
    print(json.dumps(told, ensure_ascii=False, indent=2) if parsed.json else "\n".join(_write_status(told)))
    return 0


def describe_store(place: StorePlace) -> dict[str, Any]:
    if not has_store(place):
        return {"place": describe_place(place), "made": False}
    with closing(open_engine(place, _PATIENCE, readonly=True)) as engine:
        facts = engine.describe()
        return {
            "place": describe_place(place),
            "made": True,
            "engine": facts.engine,
            "layout": engine.read(check_readable),
            "bytes": facts.size,
            "counts": {name: int(engine.find(query)[0][0]) for name, query in _COUNTED.items()},
            "gateways": find_living(engine),
            "worries": [{"what": what, "fix": fix} for what, fix in facts.worries],
        }


def _write_status(told: Mapping[str, Any]) -> Iterator[str]:
    yield f"Store: {told['place']}"
    if not told["made"]:
        yield "There is none yet: it is made with the first conversation."
        return
    yield f"Kept by: {told['engine']}, layout {told['layout']}, {told['bytes'] / 1e6:,.1f} MB"
    yield f"It holds: {', '.join(f'{name} {count:,}' for name, count in told['counts'].items())}"
    yield f"Gateways at work on it: {', '.join(told['gateways']) or 'none'}"
    yield from (f"{worry['what']} {worry['fix']}" for worry in told["worries"])


# --- move


def _move(parsed: argparse.Namespace, home: Path) -> int:
    target, password = _read_place(parsed.target, home)
    source = find_place(home) if parsed.source is None else _read_place(parsed.source, home)[0]
    if _name(source) == _name(target):
        print(f"The store is there already: {describe_place(target)}")
        return 0
    if not has_store(source):
        raise StoreFailure(
            f"There is no store at {describe_place(source)} yet.",
            kept="Nothing was changed.",
            fix=f"To begin in a database: hermes config set {config.STORE_ADDRESS} {describe_place(target)}",
        )
    try_target(target)
    owner = holder(home)
    begun = time.monotonic()
    with _hold_store(home):
        moved = move_store(source, target)
        carried = carry_files(home, source, target)
        _switch(target, password)
    for line in _tell_moved(moved, source, target, time.monotonic() - begun):
        print(line)
    for word in (*([f"Files of people that went along: {carried.count:,}"] if carried.count else ()), *carried.words):
        print(word)
    if owner is not None:
        print(_wait_for_gateway(home, begun))
    return 0


def _read_place(text: str, home: Path) -> tuple[StorePlace, str]:
    """A place as it is typed, with its password; and the password that it brought."""
    if text == FILE:
        return home / STORE_FILE, ""
    given = read_store_address(text).password
    return put_password(text, config.find_store_password(home)), given


def _name(place: StorePlace) -> str:
    return take_password(str(place))[0] if is_address(place) else str(place)


@contextmanager
def _hold_store(home: Path) -> Iterator[None]:
    """Nobody of this home works on the store meanwhile; a gateway that runs lends it."""
    if holder(home) is None:
        with HomeLock(home):
            yield
        return
    print("The gateway ends what it is at, and waits until the store has moved.", flush=True)
    with borrow(home, lambda: _ask_gateway(home)):
        yield


def _ask_gateway(home: Path) -> None:
    if call_owner(home, "store.lend", {}, _CALL_SECONDS) is None:
        raise HermesError(
            "Another Hermes owns this home and does not listen: it is starting or ending.",
            kept="Nothing was changed.",
            fix="Try again in a moment, or stop it first.",
        )


def _switch(target: StorePlace, password: str) -> None:
    """The one step after which the new place counts."""
    if is_address(target):
        config.set_value(config.STORE_ADDRESS, put_password(_name(target), password))
    elif config.load_settings().store.url:
        config.unset_value(config.STORE_ADDRESS)


def _tell_moved(moved: StoreMove, source: StorePlace, target: StorePlace, seconds: float) -> Iterator[str]:
    rows = sum(tally.rows for tally in moved.tallies.values())
    yield f"Moved and compared: {rows:,} rows of {len(TABLES)} tables in {seconds:.0f} s."
    if moved.damaged:
        yield f"Rows that could not be read and were set aside: {moved.damaged}; see `hermes doctor`."
    yield f"The store is now {describe_place(target)}"
    yield f"What was in {describe_place(source)} is still there, and not used any more."
    if moved.aside is not None:
        yield f"A file that had the name before is kept as {moved.aside}"


def _wait_for_gateway(home: Path, begun: float) -> str:
    end = time.monotonic() + _BACK_SECONDS
    while time.monotonic() < end:
        try:
            told = call_owner(home, "status", {}, _CALL_SECONDS)
        except HermesError:  # it begins to listen, or ends
            told = None
        if told is not None:
            silence = f"It took no messages for {time.monotonic() - begun:.0f} s."
            return f"The gateway goes on with it (process {told['pid']}). {silence}"
        time.sleep(_LOOK_SECONDS)
    return "The gateway does not answer yet: look at `hermes gateway status`."


_ACTIONS: Mapping[str, Callable[[argparse.Namespace, Path], int]] = MappingProxyType({"status": _status, "move": _move})
