"""The system prompt: identity, context files, memory and the skills index, rendered once for a conversation.

Nothing that changes from turn to turn stands in it (no clock, no ids, no model name, no folder state); facts of the
turn travel in the newest user message.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes_base.prompt_files import CONTEXT_FILES

log = logging.getLogger(__name__)

CONTEXT_FILE_CHARS = 20_000
MEMORY_FILES = (("MEMORY.md", "What you remember", 4_000), ("USER.md", "What you know about the person", 3_000))
SKILL_LINE_CHARS = 160
MAX_SKILLS = 80

DEFAULT_IDENTITY = """You are Hermes, an AI agent that works for the person who runs you, on their own machine.
Be accurate, direct and brief. Do the work instead of describing it; use your tools when they help, and look before
you guess. Say plainly when you do not know something or could not do it. Never claim to have done what you did not."""

#: Worded close to what the built-in model was trained on: longer lists of what it cannot do make it answer worse.
SMALL_IDENTITY = "You are a helpful AI assistant named Hermes. You only write text: you have no tools."

DATE = "%A, %d %B %Y"  # as a message tells it, never the prompt


@dataclass(frozen=True, slots=True)
class PromptSources:
    """Where the parts of a prompt come from; None: that part is left out."""

    home: Path | None = None
    folder: Path | None = None  # the working folder, for context files
    memory: bool = True
    small: bool = False  # for a model with a small window: identity only
    extra: str = ""  # what the caller adds for the whole conversation
    own: Path | None = None  # a person's own folder, whose memory it is; None: the home itself


def build_system_prompt(sources: PromptSources) -> str:
    """The parts that exist, in a fixed order, separated by blank lines."""
    identity = _read_text(sources.home / "SOUL.md", CONTEXT_FILE_CHARS) if sources.home else ""
    if sources.small:
        return "\n\n".join(part for part in (identity or SMALL_IDENTITY, sources.extra) if part)
    parts = [identity or DEFAULT_IDENTITY]
    if sources.folder is not None:
        parts.append(_context_part(sources.folder))
    if sources.home is not None and sources.memory:
        memories = (sources.own or sources.home) / "memories"
        found = ((title, _read_text(memories / name, limit)) for name, title, limit in MEMORY_FILES)
        parts.extend(f"# {title}\n\n{text}" for title, text in found if text)
    skills = sources.home / "skills" if sources.home is not None else None
    lines = [f"- {name}: {line}" for name, line in list_skills(skills)] if skills else []
    if lines:
        told = f"# Skills\n\nEach is a folder with a SKILL.md in {skills}; read it before you use it."
        parts.append("\n".join([told, *lines]))
    parts.append(sources.extra)
    return "\n\n".join(part for part in parts if part)


def _context_part(folder: Path) -> str:
    """The first context file of the folder, as its owner's instructions for work in it.

    It is an ordinary file of the folder; a link may lead to another context file there and nowhere else (G7).
    """
    for name in CONTEXT_FILES:
        path = folder / name
        real = path.resolve()
        if not real.is_file():
            continue
        if real.name not in CONTEXT_FILES or not real.is_relative_to(folder.resolve()):
            log.warning("%s is left out of the prompt: it leads to %s", path, real)
            continue
        text = _read_text(path, CONTEXT_FILE_CHARS)
        if text:
            return f"# Instructions of this folder ({name})\n\n{text}"
    return ""


def list_skills(folder: Path) -> Sequence[tuple[str, str]]:
    """Name and one line of each skill, in order."""
    try:
        found = sorted(path for path in folder.glob("*/SKILL.md") if path.is_file())
    except OSError as problem:
        log.warning("skills are left out: %s", problem)
        return ()
    return [(path.parent.name, _description_of(path)) for path in found[:MAX_SKILLS]]


def _description_of(path: Path) -> str:
    """The front matter's description, else the first line of text."""
    lines = [line.strip() for line in _read_text(path, 4_000).splitlines()]
    for line in lines:
        if line.lower().startswith("description:"):
            return line.partition(":")[2].strip().strip("\"'")[:SKILL_LINE_CHARS]
    first = next((line for line in lines if line and not line.startswith(("#", "---"))), "")
    return first[:SKILL_LINE_CHARS]


def _read_text(path: Path, limit: int) -> str:
    """A file's text, cut where it is too long, with a word about it; an unreadable file is left out and logged."""
    try:
        raw = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as problem:
        log.warning("%s is left out of the prompt: %s", path, problem)
        return ""
    text = raw.decode("utf-8", "replace").strip()
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut here: {len(text) - limit} more characters in {path.name}]"
