"""What is said when a conversation goes on on another machine: what is there, and what is not. Pure."""

from collections.abc import Iterable, Iterator

from gateway.core.timeline import split_files
from hermes_base.turn.journal import Row, shown_text

ROWS_LOOKED_AT = 200  # of what was said before
MOST_NAMED = 50  # files of it that are laid out where the conversation goes on
TOLD_MODEL = (
    "[This conversation goes on on another machine ({here}); it was on {there} before. The working folder is {folder} "
    "now: files of the former one, processes, shells and browser tabs stayed there, and so did your list of what is to "
    "be done: give it anew, whole. Memory, skills and files that were sent along are here; a path of theirs that began "
    "with the former home begins with this one.]"
)
TOLD_PERSON = (
    "This conversation goes on on another machine ({here}). Files of the working folder on {there}, and what ran "
    "there, are not here; memory, skills and what you sent along are."
)
NO_FOLDER = "[The folder {folder} is not on this machine ({here}): the working folder is {instead}.]"


def describe_home(place: str) -> str:
    """A home as people are told of it; its first word is its name."""
    return place.partition(" ")[2]


def is_same_home(place: str, other: str) -> bool:
    """Whatever the machine and the folder are called today."""
    return place.partition(" ")[0] == other.partition(" ")[0]


def used_tools(rows: Iterable[Row]) -> bool:
    """Whether there may be something that stays behind."""
    return any(row.message.get("tool_calls") for row in rows)


def list_named(rows: Iterable[Row]) -> Iterator[str]:
    """The paths of files that came along with what was said, the newest first."""
    for row in reversed(list(rows)):
        if row.message.get("role") == "user":
            yield from (file.path for file in split_files(shown_text(row))[1])
