"""What a command made that would become a part of prompts, while foreign text is in sight (G9).

What is there already is held fast by mounts; nothing can be mounted where no file is yet. So it is looked for when the
command has ended: the person keeps it, having seen what it says, or it is set aside under a name that nobody reads.
"""

import logging
import os
import stat
from collections.abc import Iterator, Sequence

from hermes_base.errors import ToolFailure
from hermes_base.turn.tool_context import ToolContext
from hermes_constants.ordinary_files import open_file
from tools.approval import ask_approval
from tools.files.encodings import printable
from tools.files.roots import open_folder

log = logging.getLogger(__name__)

ASIDE = ".set-aside"
MOST_NAMES = 1_000  # of one file that is set aside again and again
SHOWN_BYTES, SHOWN_FILES = 20_000, 20  # in one question; what is longer is shown by its beginning
BEGINNING = 400

Stamp = tuple[int, ...]


def settle_new_prompts(paths: Sequence[str], context: ToolContext, *, may_ask: bool) -> list[str]:
    """Have the person decide; those that are set aside, by the names that they had."""
    before = {path: _stamp(path) for path in paths}
    files = [path for path, stamp in before.items() if stamp and not stat.S_ISDIR(stamp[0])]
    if not files or (may_ask and _ask(files, context)):
        # What was shown is what stays: something may still be running.
        files = [path for path in files if _stamp(path) != before[path]]
    return [path for path in files if _set_aside(path)]


def _ask(files: Sequence[str], context: ToolContext) -> bool:
    most = SHOWN_BYTES if len(files) == 1 else max(BEGINNING, SHOWN_BYTES // len(files))
    shown = [f"{printable(path)}\n{_read_beginning(path, most)}" for path in files[:SHOWN_FILES]]
    if len(files) > SHOWN_FILES:
        shown.append("and " + ", ".join(map(printable, files[SHOWN_FILES:])))
    what = "Keep what a command made, as a part of prompts:\n" + "\n\n".join(shown)
    reason = f"it becomes a part of prompts, and this conversation holds {' and '.join(context.foreign.origins)}"
    return bool(ask_approval(context, what, reason))


def _read_beginning(path: str, most: int) -> str:
    """What stands in it, or where it leads."""
    try:
        with open_folder(os.path.dirname(path)) as folder:
            name = os.path.basename(path)
            if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                return f"leads to {printable(os.readlink(name, dir_fd=folder))}"
            with open_file(name, folder=folder) as opened:
                data = opened.read(most + 1)
    except (OSError, ToolFailure):
        return "(it cannot be read)"
    text = data[:most].decode("utf-8", "replace")
    return text if len(data) <= most else f"{text}\n(it goes on)"


def _stamp(path: str) -> Stamp:
    """What changes when it does; empty: it is gone."""
    try:
        status = os.lstat(path)
    except OSError:
        return ()
    return status.st_mode, status.st_ino, status.st_size, status.st_ctime_ns


def _set_aside(path: str) -> bool:
    """Give it another name, in the folder in which it lies; False: it has gone."""
    try:
        with open_folder(os.path.dirname(path)) as folder:
            name = os.path.basename(path)
            try:
                _rename(name, folder)
            except PermissionError:  # a command may have closed its folder
                place = f"/proc/self/fd/{folder}"
                os.chmod(place, stat.S_IMODE(os.stat(place).st_mode) | stat.S_IRWXU)
                _rename(name, folder)
    except FileNotFoundError:
        return False
    except (OSError, ToolFailure) as problem:
        log.error("%s could not be set aside: %s", path, type(problem).__name__)
    return True


def _rename(name: str, folder: int) -> None:
    taken = set(os.listdir(f"/proc/self/fd/{folder}"))
    os.rename(name, next(_free_names(name, taken)), src_dir_fd=folder, dst_dir_fd=folder)


def _free_names(name: str, taken: set[str]) -> Iterator[str]:
    """Whatever it is called: no name of these is one that becomes a prompt."""
    for number in range(1, MOST_NAMES):
        free = f"{name}{ASIDE}{'' if number == 1 else f'-{number}'}"
        if free not in taken:
            yield free
    yield f"{name}{ASIDE}"
