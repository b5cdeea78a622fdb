"""Skills: folders with a SKILL.md that tell the model how to do something; it lists them and reads their files."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes_base.errors import ToolFailure
from hermes_base.turn.tool_context import ToolContext
from hermes_constants import get_hermes_home
from hermes_constants.ordinary_files import open_file
from tools.files.roots import open_folder
from tools.registry import make_schema, registry, tool_error, tool_result

TOOLSET = "skills"
MAIN_FILE = "SKILL.md"
MAX_SKILLS = 200
MAX_FILES = 60
PAGE_CHARS = 16_000
MAX_BYTES = 2_000_000
HEAD_BYTES = 4_000
LINE_CHARS = 160
#: On the line itself, or on the next one where YAML's block signs stand instead.
_DESCRIPTION = re.compile(r"^description:[ \t]*(?:[>|][+-]?[ \t]*\n\s*)?(\S.*)$", re.IGNORECASE | re.MULTILINE)

SCHEMA = make_schema(
    "skills",
    "List the skills, or read one before you use it: its SKILL.md or another file of its folder.",
    ("action",),
    action={"type": "string", "enum": ["list", "read"]},
    name={"type": "string"},
    file={"type": "string"},
    offset={"type": "integer", "description": "Go on from this character."},
)


def use_skills(args: Mapping[str, Any], *, context: ToolContext) -> str:
    """Names with descriptions, or a page of a file. Nothing of a skill is run (G10)."""
    action = args.get("action")
    root = Path(os.path.realpath((context.home or get_hermes_home()) / "skills"))
    if action == "list":
        return _list(root, context)
    if action == "read":
        return _read(root, args, context)
    raise ToolFailure("The action is 'list' or 'read'.")


# --- listing


def _list(root: Path, context: ToolContext) -> str:
    found: dict[str, str] = {}
    for name in _names_in(root):
        try:
            head = _read_bytes(_find_path(root, name, MAIN_FILE), HEAD_BYTES).decode("utf-8", "replace")
        except ToolFailure:
            continue  # no skill, or one that leads elsewhere
        # What the front matter says it is for, else its first line of text.
        named = _DESCRIPTION.search(head)
        plain = (line.strip() for line in head.splitlines() if line.strip() and not line.startswith(("#", "---")))
        found[name] = (named[1] if named else next(plain, "")).strip().strip("\"'")[:LINE_CHARS]
    if not found:
        return tool_result(skills={}, note=f"There are no skills in {root}.")
    names = sorted(found)[:MAX_SKILLS]
    more = {"left_out": len(found) - MAX_SKILLS} if len(found) > MAX_SKILLS else {}
    return tool_result(skills={name: context.redact(found[name]) for name in names}, **more)


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as problem:
        raise ToolFailure(f"The skills in {folder} cannot be listed: {problem.strerror}.") from problem


# --- reading


def _read(root: Path, args: Mapping[str, Any], context: ToolContext) -> str:
    name, file = args.get("name"), args.get("file") or MAIN_FILE
    if not isinstance(name, str) or not isinstance(file, str) or not name:
        raise ToolFailure("To read a skill, give its name (and a file of it, if it is not SKILL.md).")
    if ":" in name:
        return _read_added(name, args.get("file"), context)
    path = _find_path(root, name, file)
    raw = _read_bytes(path, MAX_BYTES + 1)
    if len(raw) > MAX_BYTES or b"\0" in raw[:HEAD_BYTES]:
        raise ToolFailure(f"'{file}' of skill '{name}' is no text, or too large to be read here: {path}")
    # Redacted as a whole before it is cut, so that no page edge can hide a secret (G6).
    text, offset = context.redact(raw.decode("utf-8", "replace")), args.get("offset")
    start = min(max(offset, 0), len(text)) if isinstance(offset, int) else 0
    end = start + PAGE_CHARS
    more = {"next_offset": end, "of": len(text)} if end < len(text) else {}
    files = {"files": _list_files(root / name)} if file == MAIN_FILE and start == 0 else {}
    page = {"offset": start, **more, "text": text[start:end]}
    return tool_result(skill=name, file=file, folder=str(root / name), **page, **files)


def _read_added(name: str, file: Any, context: ToolContext) -> str:
    """A skill of a plugin, as `plugin:name`: its text, and the other files of its folder."""
    added, plugin = find_added(), name.partition(":")[0]
    skill = added.get(name)
    if skill is None:
        known = sorted(one for one in added if one.partition(":")[0] == plugin)
        return tool_error(f"There is no skill called '{name}'.", **({"available_skills": known} if known else {}))
    place = Path(os.path.realpath(skill["path"]))
    folder = place if place.is_dir() else place.parent
    path = Path(os.path.realpath(folder / file)) if file else place / MAIN_FILE if place.is_dir() else place
    if not path.is_relative_to(folder):
        raise ToolFailure(f"'{file}' of skill '{name}' leads out of the skill's folder, so it is not read.")
    text = context.redact(_read_bytes(path, MAX_BYTES).decode("utf-8", "replace"))
    return tool_result(
        success=True,
        name=name,
        content=text,
        description=skill["description"],
        linked_files=_list_files(folder) if place.name == MAIN_FILE or place.is_dir() else [],
        readiness_status="available",
    )


def find_added() -> Mapping[str, Mapping[str, Any]]:
    """The skills of plugins by `plugin:name`; the host, which stands above, puts itself in this place."""
    return {}


def _list_files(folder: Path) -> list[str]:
    """The other files of a skill, without following links."""
    found: list[str] = []
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found.extend(os.path.relpath(os.path.join(parent, name), folder) for name in sorted(files))
        if len(found) > MAX_FILES:
            break
    return [name for name in found if name != MAIN_FILE][:MAX_FILES]


def _find_path(root: Path, name: str, file: str) -> Path:
    """Where a file of a skill really is; it must be inside the skill's folder, and that inside the skills (G7)."""
    unknown = ToolFailure(f"There is no skill called '{name}'.", fix="List them to see their names.")
    if name in ("", ".", "..") or "/" in name or "\0" in name + file:
        raise unknown
    folder = Path(os.path.realpath(root / name))
    if not os.path.isdir(folder):
        raise unknown
    path = Path(os.path.realpath(folder / file))
    if folder.parent != root or not path.is_relative_to(folder):
        raise ToolFailure(f"'{file}' of skill '{name}' leads out of the skill's folder, so it is not read.")
    return path


def _read_bytes(path: Path, limit: int) -> bytes:
    """Opened step by step without following links: one put there after the check leads nowhere (G7)."""
    try:
        with open_folder(str(path.parent)) as folder, open_file(path.name, folder=folder) as file:
            return file.read(limit)
    except OSError as problem:
        raise ToolFailure(f"{path} cannot be read: {problem.strerror}.") from problem


registry.register("skills", TOOLSET, SCHEMA, use_skills, emoji="📚")
