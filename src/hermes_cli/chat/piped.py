"""What comes over the pipe with `-q`: a short text goes into the message, a long one along as a file."""

import io
import os
import re
import secrets
import select
import stat
import sys
from dataclasses import dataclass
from typing import BinaryIO

from hermes_base.errors import ConfigProblem
from hermes_base.inbound import UPLOADS, FileRef
from hermes_cli.chat.terminal_words import clean_typed, read_command
from hermes_constants import get_hermes_home

STDIN = "-"
MOST_INLINE = 32 * 1024  # bytes that stand in the message itself
MOST_PIPED = 20 * 1024 * 1024
FILE_NAME = "piped.txt"
_QUIET_SECONDS = 2.0
_WAITING = "hermes: reading what is piped in, until its end; `< /dev/null` says that there is nothing."
_FENCES = re.compile(r"^`{3,}", re.MULTILINE)
#: What can hold a text for us. A terminal is typed on, and other devices hold nothing.
_HOLDS_TEXT = (stat.S_ISFIFO, stat.S_ISREG, stat.S_ISSOCK)


@dataclass(frozen=True, slots=True)
class PipedQuestion:
    """One question as it is submitted."""

    text: str
    files: tuple[FileRef, ...] = ()


def read_question(given: str) -> PipedQuestion:
    """The question with what was piped; `-`, or no word beside what was piped, means that this is the question."""
    if given == STDIN or (not given.strip() and _holds_text()):
        if sys.stdin is not None and sys.stdin.isatty():
            raise ConfigProblem("-q needs a question.", fix='For example: hermes -q "What time is it in Lima?"')
        return PipedQuestion(_check(_decode(_read_to_end(open_stdin()))))
    question = _check(clean_typed(given))
    if read_command(question) is not None:
        return PipedQuestion(question)
    piped = _decode(_read_to_end(open_stdin())) if _holds_text() else ""
    if not piped.strip():
        return PipedQuestion(question)
    if len(piped.encode()) <= MOST_INLINE:
        fence = "`" * max([3, *(len(found) + 1 for found in _FENCES.findall(piped))])  # one that the text does not have
        return PipedQuestion(f"{question}\n\n{fence}\n{piped.rstrip()}\n{fence}")
    folder = get_hermes_home() / UPLOADS / secrets.token_hex(16)  # where the agent can read it
    folder.mkdir(parents=True, mode=0o700)
    path = folder / FILE_NAME
    path.write_text(piped, encoding="utf-8")
    path.chmod(0o600)
    return PipedQuestion(question, (FileRef(str(path), FILE_NAME, "file", path.stat().st_size),))


def open_stdin() -> BinaryIO:
    """Stdin as bytes, so that no input can fail to decode; empty when the process was started without one."""
    return sys.stdin.buffer if sys.stdin is not None else io.BytesIO()


def _check(question: str) -> str:
    question = question.strip()
    if not question:
        raise ConfigProblem("The question is empty.", fix="Write it after -q, or pipe it in.")
    return question


def _holds_text() -> bool:
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # there is none, or it is no file of the system
        return False
    return any(holds(mode) for holds in _HOLDS_TEXT)


def _read_to_end(stream: BinaryIO) -> bytes:
    """All of it; who waits for a text that does not come is told for what."""
    try:
        looking = select.poll()
        looking.register(stream, select.POLLIN)
        ready = bool(looking.poll(_QUIET_SECONDS * 1000))
    except (OSError, ValueError):  # no file of the system: it is there at once
        ready = True
    if not ready:
        print(_WAITING, file=sys.stderr, flush=True)
    data = stream.read(MOST_PIPED + 1)
    if len(data) > MOST_PIPED:
        raise ConfigProblem(
            f"More than {MOST_PIPED // 1024**2} MB were piped in.",
            kept="Nothing was sent.",
            fix="Name the file in the question instead, or pipe a part of it.",
        )
    return data


def _decode(data: bytes) -> str:
    """The text; single bytes that are no UTF-8 are replaced, and what is no text at all is refused."""
    text = data.decode("utf-8", "replace")
    if b"\0" in data or text.count("\ufffd") > len(text) // 4 + 1:
        raise ConfigProblem(
            f"What was piped in is no text ({len(data):,} bytes).",
            kept="Nothing was sent.",
            fix="Name the file in the question instead.",
        )
    return text
