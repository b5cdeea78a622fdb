"""`hermes sessions`: lists, searches, shows, exports and deletes what was said before, and makes the search index anew.

Reading works while another process owns the home; deleting is done by the owner. The index is derived data that all
writers keep up by the same rule, so it is rebuilt here, beside the owner.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

from gateway.core.text.session_export import FORMS, dump, name_session, write_markdown
from hermes_base.errors import HermesError
from hermes_base.store_place import StorePlace, find_place, has_store
from hermes_cli import config
from hermes_cli.cmds import owner
from hermes_constants import get_hermes_home
from hermes_state.sql.store_sql import Store
from hermes_state.store import SessionInfo

_ALL = 1_000_000
_PATIENCE = 120.0  # seconds; SQLite gives a busy owner the turn again and again


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("hermes sessions", description="Look at what was said before.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|search|show|export|delete|reindex")
    listing = actions.add_parser("list", help="the newest first")
    search = actions.add_parser("search", help="find messages that hold these words")
    search.add_argument("words", metavar="WORDS", nargs="+")
    for action in (listing, search):
        action.add_argument("--limit", type=_read_count, default=20, metavar="N", help="at most N (20)")
        action.add_argument("--json", action="store_true", help="for programs")
    show = actions.add_parser("show", help="print a session")
    export = actions.add_parser("export", help="write a session to a file or to stdout")
    delete = actions.add_parser("delete", help="remove a session for good")
    for action in (show, export, delete):
        action.add_argument("session", metavar="ID", help="its id, or the beginning of it")
    export.add_argument("--format", choices=("json", "markdown"), default="json")
    export.add_argument("-o", "--output", type=Path, metavar="FILE")
    delete.add_argument("--yes", action="store_true", help="do not ask")
    actions.add_parser("reindex", help="make the search index anew; Hermes may run meanwhile")
    parsed = parser.parse_args(args)
    place = find_place(get_hermes_home())
    if not has_store(place):
        if "session" in parsed:
            raise _say_unknown(parsed.session)
        print("[]" if getattr(parsed, "json", False) else "There are no sessions yet. `hermes` starts one.")
        return 0
    if parsed.action in _WRITERS:
        return _WRITERS[parsed.action](parsed, place)
    with closing(Store.open_readonly(place)) as store:
        return _READERS[parsed.action](parsed, store)


def _read_count(text: str) -> int:
    if text.isdecimal() and 0 < int(text) <= _ALL:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")


# --- reading


def _list(parsed: argparse.Namespace, store: Store) -> int:
    found = store.sessions(limit=parsed.limit)
    if parsed.json:
        print(dump([asdict(info) for info in found]))
    elif not found:
        print("There are no sessions yet. `hermes` starts one.")
    for info in () if parsed.json else found:
        print(f"{info.id}  {_write_time(info.updated)}  {info.messages:>4} messages  {name_session(info)}")
    return 0


def _search(parsed: argparse.Namespace, store: Store) -> int:
    words = " ".join(parsed.words)
    found = store.search(words, limit=parsed.limit)
    if parsed.json:
        print(dump([asdict(hit) for hit in found]))
    elif not found:
        print(f"Nothing was found for: {words}")
    for hit in () if parsed.json else found:
        excerpt = " ".join(hit.excerpt.split())
        print(f"{hit.session}  {_write_time(hit.created)}  {hit.role}: {excerpt}")
    return 0


def _show(parsed: argparse.Namespace, store: Store) -> int:
    info = find_session(store, parsed.session)
    print(write_markdown(info, store.said(info.id)))
    return 0


def _export(parsed: argparse.Namespace, store: Store) -> int:
    info = find_session(store, parsed.session)
    # Transcripts are stored without secrets; one that was configured later may still stand in an old one.
    text = config.redactor()(FORMS[parsed.format](info, store.said(info.id))) + "\n"
    if parsed.output is None:
        sys.stdout.write(text)
        return 0
    try:
        parsed.output.write_text(text, encoding="utf-8")
    except OSError as error:
        fix = "Choose another file with -o."
        raise HermesError(f"{parsed.output} cannot be written: {error.strerror}.", fix=fix) from error
    print(f"{info.id} is in {parsed.output}.")
    return 0


def find_session(store: Store, wanted: str) -> SessionInfo:
    """The session with this id, or the only one whose id begins so."""
    exact = store.session(wanted)
    if exact is not None:
        return exact
    near = [info for info in store.sessions(limit=_ALL) if info.id.startswith(wanted)]
    if len(near) == 1:
        return near[0]
    if not near:
        raise _say_unknown(wanted)
    few = ", ".join(info.id for info in near[:5]) + (", …" if len(near) > 5 else "")
    raise HermesError(f"{len(near)} sessions begin with {wanted!r}: {few}.", fix="Type more of the id.")


def _say_unknown(wanted: str) -> HermesError:
    return HermesError(f"There is no session {wanted!r}.", fix="`hermes sessions list` shows the ids.")


# --- deleting


def _delete(parsed: argparse.Namespace, place: StorePlace) -> int:
    with closing(Store.open_readonly(place)) as store:
        info = find_session(store, parsed.session)
    what = f"{info.id} ({info.messages} messages, {name_session(info)})"
    if not parsed.yes and not owner.confirm("Deleting", f"Delete {what} for good?"):
        print("Nothing was deleted.")
        return 1
    owner.perform("sessions.delete", {"session": info.id})
    print(f"{info.id} is deleted.")
    return 0


# --- the search index


def _reindex(parsed: argparse.Namespace, place: StorePlace) -> int:
    del parsed
    with closing(Store(place, busy_timeout=_PATIENCE)) as store:
        count = store.rebuild_search()
    print(f"The search index is new: {count} messages went into it.")
    return 0


# --- writing


def _write_time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


_WRITERS: Mapping[str, Callable[[argparse.Namespace, StorePlace], int]] = MappingProxyType(
    {"delete": _delete, "reindex": _reindex}
)
_READERS: Mapping[str, Callable[[argparse.Namespace, Store], int]] = MappingProxyType(
    {"list": _list, "search": _search, "show": _show, "export": _export}
)
