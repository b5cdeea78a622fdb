"""Searches files by content or name: with ripgrep when it is installed, else with a walk of its own.

Neither follows links; both leave out what .gitignore names, binary files, the files of Hermes itself and the content of
what may hold secrets. Both run a pattern on an engine whose time grows with the text alone.
"""

import base64
import fnmatch
import itertools
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import IO, Any

from hermes_base.errors import ToolFailure
from hermes_base.turn.tool_context import ToolContext
from hermes_constants.ordinary_files import open_file
from tools.files.encodings import decode, printable
from tools.files.patterns import LinearPattern, Rule, is_ignored, read_rules
from tools.files.programs import CLEAN_ENVIRONMENT, find_program
from tools.files.roots import (
    READ,
    FilePlace,
    explain,
    find_home_around,
    find_place,
    is_foreign,
    is_inside,
    is_private,
    list_roots,
    note_upload,
    open_folder,
    open_roots,
    read_bytes,
)
from tools.files.sensitive import is_secret_name, is_secret_path

DEFAULT_LIMIT = 100
MOST = 1000
COUNTED = 10_000  # beyond this nothing is counted any more
SHOWN_CHARS = 300
PATTERN_CHARS = 2_000
RESULT_CHARS = 30_000
FILE_BYTES = 8 * 1024 * 1024
CONTENT, NAME = "content", "name"
_GLOB_SIGNS = re.compile(r"[*?\[{]")
RG_OPTIONS = (
    *("--no-config", "--no-messages", "--no-follow", "--hidden", "--crlf", "--max-filesize=8M", "--glob=!.git"),
    # .gitignore files below the folder count, and nothing else: both ways of searching find the same.
    *("--no-require-git", "--no-ignore-parent", "--no-ignore-dot", "--no-ignore-exclude", "--no-ignore-global"),
)


@dataclass(frozen=True, order=True, slots=True)
class FileHit:
    """One line of a file, or the file itself when `line` is 0."""

    path: str
    line: int = 0
    text: str = ""


class Sight:
    """Which files below a folder a search may show: none of another home, of Hermes itself or of other people."""

    def __init__(self, context: ToolContext, place: FilePlace) -> None:
        self._context = context
        self._place = place
        self._home = find_home_around(place.path, place.homes)
        self._roots = list_roots(context)
        self._secrets = context.settings.files.secrets
        self._folders: dict[str, tuple[bool, bool]] = {}

    def shows(self, path: str) -> bool:
        return self._judge_folder(os.path.dirname(path))[0] and not is_private(self._whole(path), self._place.homes)

    def is_secret(self, path: str) -> bool:
        """Whether its content is left out: it has to be asked for by name."""
        return self._judge_folder(os.path.dirname(path))[1] or is_secret_name(os.path.basename(path), self._secrets)

    def enters(self, path: str) -> bool:
        """Whether something below this folder may be shown."""
        whole = self._whole(path)
        return self._judge_folder(path)[0] or any(is_inside(root, whole) for root in self._roots)

    def list_starts(self) -> list[str]:
        """The folder itself, and what is open in homes below it: a search enters no home from above (G13)."""
        closed = self.list_closed()
        inner = {root for root in self._roots if os.path.isdir(root) and any(is_inside(root, home) for home in closed)}
        below = {root: os.path.relpath(root, self._place.path) for root in sorted(inner)}
        return [self._place.path, *(root for root, path in below.items() if self._judge_folder(path)[0])]

    def list_closed(self) -> list[str]:
        """The homes below the folder."""
        return [home for home in self._place.homes if home != self._place.path and is_inside(home, self._place.path)]

    def _whole(self, path: str) -> str:
        return os.path.join(self._place.path, path) if path else self._place.path

    def _judge_folder(self, folder: str) -> tuple[bool, bool]:
        """Whether files of a folder below may be shown, and whether they are secrets; each folder is judged once."""
        if folder not in self._folders:
            whole, homes = self._whole(folder), self._place.homes
            home = find_home_around(whole, homes)
            around = [root for root in open_roots(whole, self._roots, homes) if is_inside(whole, root)]
            shown = not home or home == self._home or bool(around)
            below = whole[len(max([self._place.path, *around], key=len)) :]
            self._folders[folder] = (
                shown and not is_foreign(self._context, whole, homes),
                is_secret_path(below, self._secrets),
            )
        return self._folders[folder]


@dataclass(frozen=True)
class Query:
    """What is looked for, where."""

    context: ToolContext
    place: FilePlace
    pattern: str
    kind: str
    glob: str
    expression: LinearPattern | None = None  # of a search by content
    hidden: set[str] = field(default_factory=set)  # files that may hold secrets, which were left out

    @cached_property
    def sight(self) -> Sight:
        return Sight(self.context, self.place)

    def wants(self, path: str) -> bool:
        """Whether a file below the folder is one to look at."""
        if (self.glob and not match_name(path, self.glob)) or not self.sight.shows(path):
            return False
        if self.kind == CONTENT and self.sight.is_secret(path):
            self.hidden.add(path)
            return False
        return True

    def hits_name(self, path: str) -> bool:
        if any(letter in self.pattern for letter in "*?["):
            return match_name(path, self.pattern)
        return self.pattern.lower() in os.path.basename(path).lower()


def search_files(args: Mapping[str, Any], *, context: ToolContext) -> str:
    """The hits as text, bounded, with the number of those left out (E9)."""
    pattern, kind, glob = args.get("pattern"), args.get("kind") or CONTENT, args.get("glob") or ""
    if not isinstance(pattern, str) or not pattern:
        raise ToolFailure("search_files needs a pattern.")
    if len(pattern) > PATTERN_CHARS:
        raise ToolFailure(f"The pattern has more than {PATTERN_CHARS:,} letters.", fix="Search for a part of it.")
    if "\0" in pattern + str(glob):
        raise ToolFailure("A pattern cannot hold a null character.")
    if kind not in (CONTENT, NAME):
        raise ToolFailure('kind must be "content" or "name".')
    place = find_place(context, args.get("path") or ".", READ)
    if not os.path.exists(place.path):
        raise ToolFailure(f"There is no {place.path}.", fix="Search in a folder that exists.")
    query = Query(context, place, pattern, kind, str(glob), LinearPattern(pattern) if kind == CONTENT else None)
    limit = args.get("limit")
    limit = min(limit, MOST) if isinstance(limit, int) and limit > 0 else DEFAULT_LIMIT
    try:
        hits = list(itertools.islice(_search(query), COUNTED + 1))
    except OSError as problem:
        raise explain(query.place.path, problem) from problem
    _stop_when_told(context)
    for folder in dict.fromkeys(os.path.dirname(hit.path) for hit in hits):
        note_upload(context, os.path.join(query.place.path, folder, ""))
    lines = [_format(context, sorted(hits), limit)]
    # Told whether or not these hold what was looked for: that would tell what they hold.
    if count := len(query.hidden):
        files = "1 file that may hold secrets was" if count == 1 else f"{count} files that may hold secrets were"
        lines.append(f"[{files} not searched; read_file asks the person]")
    return "\n".join(lines)


def match_name(path: str, pattern: str) -> bool:
    """A glob with a slash is compared with the path below the folder, one without with the name alone."""
    if "/" in pattern:
        return fnmatch.fnmatchcase(path, pattern.removeprefix("./").replace("**/", "*").lstrip("/"))
    return fnmatch.fnmatchcase(os.path.basename(path), pattern)


def search_with_rg(query: Query, rg: str) -> Iterator[FileHit]:
    """Hits by ripgrep, started inside the checked folders so that their paths are not looked up again (G7)."""
    starts = query.sight.list_starts()
    if query.kind == CONTENT:  # which files there are is told by their names alone
        for hit in itertools.chain.from_iterable(_run_rg(replace(query, kind=NAME), rg, start) for start in starts):
            query.wants(hit.path)
    # What ripgrep found is read again by us: it opens folders by name, so a link may have misled it (G7).
    known, lines = "", [""]
    for hit in itertools.chain.from_iterable(_run_rg(query, rg, start) for start in starts):
        if not query.wants(hit.path) or (query.kind == NAME and not query.hits_name(hit.path)):
            continue
        if hit.path != known:
            known, lines = hit.path, _read_lines(query, hit.path)
        if hit.line < len(lines):
            yield FileHit(hit.path, hit.line, lines[hit.line])


def search_by_walk(query: Query) -> Iterator[FileHit]:
    """Hits without ripgrep: every folder and file is opened relative to the one before, links are not followed."""
    with open_folder(query.place.path) as folder:
        rules: dict[str, list[Rule]] = {}
        for root, folders, names, descriptor in os.fwalk(".", dir_fd=folder, follow_symlinks=False):
            _stop_when_told(query.context)
            base = "" if root == "." else root[2:] + "/"
            here = [*rules.get(os.path.dirname(base[:-1]), ()), *read_rules(base, descriptor)]
            rules[base[:-1]] = here
            folders[:] = sorted(
                name
                for name in folders
                if name != ".git" and query.sight.enters(base + name) and not is_ignored(here, base + name, folder=True)
            )
            for name in sorted(names):
                path = base + name
                if name == ".git" or is_ignored(here, path, folder=False) or _is_link(name, descriptor):
                    continue
                _stop_when_told(query.context)
                if not query.wants(path):
                    continue
                if query.expression is not None:
                    yield from _search_text(query, path, _read_at(name, descriptor, query), query.expression)
                elif query.hits_name(path):
                    yield FileHit(path)


def _stop_when_told(context: ToolContext) -> None:
    if context.cancel.cancelled:
        raise ToolFailure("The search was interrupted.")


def _search(query: Query) -> Iterator[FileHit]:
    rg = find_program("rg")
    if os.path.isdir(query.place.path):
        return search_with_rg(query, rg) if rg else search_by_walk(query)
    if query.expression is None:
        raise ToolFailure(f"{query.place.path} is a file.", fix="Search names in a folder.")
    file = read_bytes(query.place, FILE_BYTES)
    data = file.data if file else b""
    if rg is None:
        return _search_text(query, query.place.name, data, query.expression)
    return _pipe_through_rg(query, rg, data)


def _search_text(query: Query, path: str, data: bytes, expression: LinearPattern) -> Iterator[FileHit]:
    for number, line in enumerate(_split_lines(data), 1):
        _stop_when_told(query.context)
        if expression.finds(line):
            yield FileHit(path, number, line)


def _split_lines(data: bytes) -> list[str]:
    """The lines of a file; none when it holds no text."""
    text = decode(data)
    return [line.removesuffix("\r") for line in text.text.split("\n")] if text else []


def _pipe_through_rg(query: Query, rg: str, data: bytes) -> Iterator[FileHit]:
    """What we read of a file is handed to ripgrep as it is, so that no path is looked up again (G7)."""
    lines = _split_lines(data)
    with tempfile.TemporaryFile() as text:
        text.write("\n".join(lines).encode("utf-8", "replace"))
        text.seek(0)
        command = [rg, *RG_OPTIONS, "--text", "--encoding=none"]
        for hit in _read_rg(query, command, inside="/", where="-", given=text):
            if hit.line <= len(lines):
                yield FileHit(query.place.name, hit.line, lines[hit.line - 1])


def _is_link(name: str, descriptor: int) -> bool:
    try:
        os.readlink(name, dir_fd=descriptor)
    except OSError:
        return False
    return True


def _read_at(name: str, parent: int, query: Query) -> bytes:
    """A file's bytes; empty for what is no ordinary file, too large, private or gone."""
    try:
        opened = open_file(name, folder=parent)
    except OSError:
        return b""
    with opened as file:
        status = os.fstat(file.fileno())
        known, inode = query.place.known, (status.st_dev, status.st_ino)
        # A hard link may be another name of a private or secret file.
        linked = status.st_nlink > 1 and known is not None and (inode in known.private or inode in known.secret)
        return file.read(FILE_BYTES) if status.st_size <= FILE_BYTES and not linked else b""


def _run_rg(query: Query, rg: str, start: str) -> Iterator[FileHit]:
    """What ripgrep finds below a start, as paths below the folder that is searched."""
    prefix = os.path.relpath(start, query.place.path) + "/" if start != query.place.path else ""
    options = [*RG_OPTIONS]
    # A file type of our own: unlike --glob, it does not bring back what .gitignore leaves out.
    if query.glob and not set(query.glob) & set("/:{}!"):
        options += [f"--type-add=wanted:{query.glob}", "--type=wanted"]
    # Homes are not entered; what their names cannot say here is taken out of the hits.
    for home in () if prefix else query.sight.list_closed():
        path = os.path.relpath(home, query.place.path)
        if path.isprintable():
            options.append("--glob=!/" + _GLOB_SIGNS.sub(r"[\g<0>]", path))
    with open_folder(start) as folder:
        inside = f"/proc/self/fd/{folder}" if os.path.isdir("/proc/self/fd") else start
        for hit in _read_rg(query, [rg, *options], inside):
            yield replace(hit, path=prefix + hit.path)


def _read_rg(
    query: Query, command: Sequence[str], inside: str, where: str = "./", given: IO[bytes] | int = subprocess.DEVNULL
) -> Iterator[FileHit]:
    """What ripgrep prints, as hits; it ends with the search and with the turn."""
    what = ["--json", f"--regexp={query.pattern}"] if query.kind == CONTENT else ["--files"]
    try:
        process = subprocess.Popen(
            [*command, *what, "--", where],
            cwd=inside,
            env=CLEAN_ENVIRONMENT,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as problem:
        raise explain(command[0], problem) from problem
    forget = query.context.cancel.on_cancel(process.kill)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        read = _read_match if query.kind == CONTENT else _read_name
        for line in process.stdout:
            yield from read(line)
        said = process.stderr.read().decode("utf-8", "replace").strip() if process.wait() == 2 else ""
        if said:
            raise ToolFailure(f"ripgrep cannot search for this: {said[-300:]}", fix="Escape special letters.")
    finally:
        forget()
        process.kill()
        process.communicate()


def _read_name(line: bytes) -> Iterator[FileHit]:
    yield FileHit(os.fsdecode(line.rstrip(b"\n")).removeprefix("./"))


def _read_match(line: bytes) -> Iterator[FileHit]:
    event = json.loads(line)
    if event.get("type") == "match":
        path = event["data"]["path"]
        raw = path["text"].encode() if "text" in path else base64.b64decode(path["bytes"])  # what is not UTF-8
        yield FileHit(os.fsdecode(raw).removeprefix("./"), event["data"]["line_number"])


def _read_lines(query: Query, path: str) -> list[str]:
    """The lines of a file below the folder from 1 on (0 stands for the file); none when it is not to be read."""
    place = replace(query.place, path=os.path.join(query.place.path, path), reasons=())
    try:
        if query.kind == NAME:
            with open_folder(place.folder) as folder:
                return [] if _is_link(place.name, folder) else [""]
        file = read_bytes(place, FILE_BYTES)
    except (OSError, ToolFailure):
        return []
    lines = _split_lines(file.data) if file else []
    return ["", *lines] if lines else []


def _format(context: ToolContext, hits: Sequence[FileHit], limit: int) -> str:
    if not hits:
        return "Nothing was found."
    lines: list[str] = []
    chars_left = RESULT_CHARS
    for hit in hits[:limit]:
        if hit.line:
            text = context.redact(hit.text)  # secrets go before the line is cut (G6)
            cut = text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
            line = f"{printable(hit.path)}:{hit.line}: {cut}"
        else:
            line = context.redact(printable(hit.path))
        chars_left -= len(line) + 1
        if chars_left < 0:
            break
        lines.append(line)
    left_out = len(hits) - len(lines)
    if left_out:
        many = f"more than {COUNTED - len(lines)}" if len(hits) > COUNTED else str(left_out)
        lines.append(f"[{many} left out; narrow the search or raise limit]")
    return "\n".join(lines)
