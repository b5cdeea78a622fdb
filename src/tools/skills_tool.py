"""Skills: folders with a SKILL.md that tell the model how to do something; it lists them and reads their files."""

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml.error import YAMLError

from hermes_base.conversation_key import parse_key
from hermes_base.errors import HermesError, ToolFailure
from hermes_base.settings import SkillSettings
from hermes_base.turn.tool_context import ToolContext
from hermes_base.turn.turn_context import current_turn
from hermes_cli import config as cli_config
from hermes_cli.config.config_edit import parse_yaml
from hermes_cli.skills_config import get_disabled_skills
from hermes_constants import get_hermes_home
from hermes_constants.ordinary_files import open_file
from tools.files.roots import open_folder
from tools.registry import make_schema, registry, tool_error, tool_result
from tools.skill_usage import note_use
from tools.toolsets import FOR_PLUGINS

log = logging.getLogger(__name__)

TOOLSET, LOCAL = "skills", "local"
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
    off = list_disabled(context.settings.skills, context.conversation)
    found = {name: _describe(head) for name, head in _find_heads(root) if name not in off and is_for_here(head)}
    if not found:
        return tool_result(skills={}, note=f"There are no skills in {root}.")
    names = sorted(found)[:MAX_SKILLS]
    more = {"left_out": len(found) - MAX_SKILLS} if len(found) > MAX_SKILLS else {}
    return tool_result(skills={name: context.redact(found[name]) for name in names}, **more)


def _find_heads(root: Path) -> Iterator[tuple[str, str]]:
    """Each skill, and how its main file begins."""
    for name in _names_in(root):
        try:
            yield name, _read_bytes(_find_path(root, name, MAIN_FILE), HEAD_BYTES).decode("utf-8", "replace")
        except ToolFailure:
            continue  # no skill, or one that leads elsewhere


def _describe(head: str) -> str:
    """What the front matter says it is for, else its first line of text."""
    named = _DESCRIPTION.search(head)
    plain = (line.strip() for line in head.splitlines() if line.strip() and not line.startswith(("#", "---")))
    return (named[1] if named else next(plain, "")).strip().strip("\"'")[:LINE_CHARS]


def is_for_here(head: str) -> bool:
    """Whether a skill is meant for this system; most say nothing of it, and are not parsed for it."""
    return "platforms:" not in head or skill_matches_platform(_parse_frontmatter(head)[0])


def list_disabled(section: SkillSettings, conversation: str = "") -> set[str]:
    """The skills that are turned off in a conversation."""
    try:
        platform = parse_key(conversation).platform
    except HermesError:  # no conversation of a gateway: the terminal
        platform = LOCAL
    named = "cli" if platform == LOCAL else platform
    whole = {"skills": {"disabled": section.disabled, "platform_disabled": section.platform_disabled}}
    return get_disabled_skills(whole, named)


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
    if name in list_disabled(context.settings.skills, context.conversation):
        raise ToolFailure(f"The skill '{name}' is turned off.", fix="Its owner turns it on: `skills.disabled`.")
    path = _find_path(root, name, file)
    raw = _read_bytes(path, MAX_BYTES + 1)
    if len(raw) > MAX_BYTES or b"\0" in raw[:HEAD_BYTES]:
        raise ToolFailure(f"'{file}' of skill '{name}' is no text, or too large to be read here: {path}")
    # Redacted as a whole before it is cut, so that no page edge can hide a secret (G6).
    whole = raw.decode("utf-8", "replace")
    text, offset = context.redact(whole), args.get("offset")
    start = min(max(offset, 0), len(text)) if isinstance(offset, int) else 0
    end = start + PAGE_CHARS
    more = {"next_offset": end, "of": len(text)} if end < len(text) else {}
    files: dict[str, Any] = {}
    if file == MAIN_FILE and start == 0:
        files["files"] = _list_files(root / name)
        if missing := _ask_for_missing(name, _parse_frontmatter(whole)[0]):
            files["missing_variables"] = missing
        note_use(root, name)
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


# --- what plugins call; the names and forms are theirs

#: Asks a person for the value of a variable and keeps it: name, question, what it is for.
SecretCapture = Callable[[str, str, Mapping[str, Any]], Any]
#: What skills call systems, and what Python does.
_SYSTEMS = {"macos": "darwin", "mac": "darwin", "osx": "darwin", "windows": "win32"}
_FRONT = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_secret_capture: SecretCapture | None = None


def _parse_frontmatter(text: str) -> tuple[dict[str, Any], str]:
    """What stands between the lines `---` at the top, and the text below it. Of what is no YAML: lines `a: b`."""
    front = _FRONT.match(text)
    if front is None:
        return {}, text
    try:
        found = parse_yaml(front[1])
    except (YAMLError, ValueError):
        pairs = (line.partition(":") for line in front[1].splitlines() if not line.startswith((" ", "#")))
        found = {name.strip(): value.strip() for name, sign, value in pairs if sign}
    fields = {str(name): value for name, value in found.items()} if isinstance(found, Mapping) else {}
    return fields, text[front.end() :]


def _find_all_skills(*, skip_disabled: bool = False) -> list[dict[str, Any]]:
    """The skills of the home for this system, each with `name`, `description`, `category`. Those that are turned off
    are left out, unless that check is skipped."""
    turn = current_turn.get()
    conversation = turn.conversation if turn is not None else ""
    off = set() if skip_disabled else list_disabled(cli_config.load_last_good().skills, conversation)
    return [
        {"name": name, "description": _describe(head), "category": _parse_frontmatter(head)[0].get("category")}
        for name, head in _find_heads(Path(os.path.realpath(get_hermes_home() / "skills")))
        if name not in off and is_for_here(head)
    ]


def skill_matches_platform(frontmatter: Mapping[str, Any]) -> bool:
    """Whether `platforms` names this system (linux, macos, windows), or none."""
    wanted = frontmatter.get("platforms")
    named = [wanted] if isinstance(wanted, str) else wanted if isinstance(wanted, list) else []
    systems = [_SYSTEMS.get(word, word) for word in (str(one).strip().lower() for one in named)]
    return not systems or any(sys.platform.startswith(system) for system in systems)


def _get_required_environment_variables(
    frontmatter: Mapping[str, Any], legacy: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """The variables that a skill needs, each with `name` and `prompt`; names of the older form come last."""
    given = frontmatter.get("required_environment_variables")
    entries = [*(given if isinstance(given, list) else [given] if given else []), *(legacy or ())]
    found: dict[str, dict[str, Any]] = {}
    for entry in entries:
        facts = dict(entry) if isinstance(entry, Mapping) else {"name": entry}
        name = str(facts.get("name") or facts.get("env_var") or "").strip()
        if cli_config.is_env_name(name):
            found.setdefault(name, {**facts, "name": name, "prompt": str(facts.get("prompt") or f"Value of {name}")})
    return list(found.values())


def set_secret_capture_callback(callback: SecretCapture | None) -> None:
    """Who is asked for a variable that a skill needs and nobody has set, when the model reads the skill."""
    global _secret_capture
    _secret_capture = callback


def _ask_for_missing(skill: str, frontmatter: Mapping[str, Any]) -> list[str]:
    """The variables that are still missing after the plugin that asks for them, if any, was told."""
    missing = [one for one in _get_required_environment_variables(frontmatter) if not cli_config.env_value(one["name"])]
    capture = _secret_capture or (lambda name, question, facts: None)
    for one in missing:
        try:
            capture(one["name"], one["prompt"], {**one, "skill_name": skill})
        except Exception:  # the boundary to a plugin
            log.exception("A plugin could not ask for %s.", one["name"])
    return [one["name"] for one in missing if not cli_config.env_value(one["name"])]


def __getattr__(name: str) -> Path:
    """Where skills are, in the home of the moment."""
    if name == "SKILLS_DIR":
        return get_hermes_home() / "skills"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def list_for_plugins(args: Mapping[str, Any]) -> str:
    """The tool `skills_list`, which plugins run by this name; the model has `skills`."""
    wanted = args.get("category")
    found = [skill for skill in _find_all_skills() if not wanted or skill["category"] == wanted]
    return tool_result(success=True, skills=found, count=len(found))


registry.register("skills", TOOLSET, SCHEMA, use_skills, emoji="📚")
registry.register("skills_list", FOR_PLUGINS, make_schema("skills_list", "List the skills.", ()), list_for_plugins)
