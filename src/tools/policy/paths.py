"""Which paths a command may read or write: inside the roots, and never quietly a secret or a start-up file.

The check is on the names alone; links are the sandbox's business.
"""

import posixpath
import re
from dataclasses import dataclass

from hermes_base.secret_files import SECRET_FILES
from tools.files.sensitive import names_secret, names_startup
from tools.policy.words import UNKNOWN, Word

#: The part of the Hermes home that says how Hermes behaves and what it remembers.
HERMES_FILE = re.compile(
    r"(profiles/[^/]+/)?(config\.ya?ml|\.env|auth[^/]*|web-token[^/]*|[^/]*\.(db|sqlite3?)(-\w+)?)(/.*)?|\*.*|\.?"
)
DISK = re.compile(r"/dev/((sd|hd|vd|xvd|nvme|mmcblk|disk|dm-|md|mapper|loop|sr|mem|kmem|port)\S*)")
SYSTEM_FOLDERS = "bin|boot|dev|etc|home|lib|lib64|opt|proc|root|sbin|srv|sys|usr|var|mnt|media|run"
SYSTEM_FOLDERS += "|Applications|Library|System|Users"
CRITICAL = re.compile(rf"/?\*?|/?(\.\*)|/({SYSTEM_FOLDERS})(/\*)?|~[\w-]*(/\*|/\.\*)?|/(home|Users)/[^/]+(/\*)?")
PUBLIC_READS = "/usr /bin /lib /opt /proc/cpuinfo /proc/meminfo /proc/version /proc/loadavg /etc/os-release"
PUBLIC_READS += " /etc/hostname /etc/lsb-release /etc/debian_version /dev/null"
LONGEST_PATH = 1024
HARMLESS_DEVICES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
KNOWN_VARIABLES = {"HOME": "~", "HERMES_HOME": "~/.hermes", "PWD": "."}


@dataclass(frozen=True, slots=True)
class CommandPlace:
    """Where a command may be at work: every folder it can be in, and the roots it may use."""

    folders: tuple[str, ...]
    roots: tuple[str, ...]
    home: str = ""  # the Hermes home
    secrets: tuple[str, ...] = SECRET_FILES  # names that hold secrets

    def resolve(self, text: str) -> list[str]:
        if text.startswith("~"):
            return [posixpath.normpath(text)]
        return [tidy(posixpath.join(folder, text)) for folder in self.folders]


def tidy(path: str) -> str:
    """Normal form; POSIX lets two leading slashes stand, they are one here."""
    return re.sub(r"^//+", "/", posixpath.normpath(path))


def lies_under(path: str, root: str) -> bool:
    if root == ".":
        return not path.startswith(("/", "~")) and path.split("/")[0] != ".."
    return path == root or path.startswith(root.rstrip("/") + "/")


def lies_inside(place: CommandPlace, text: str) -> bool:
    """In a root from every folder the command may be in; the whole disk is no root."""
    roots = [root for root in place.roots if root != "/"]
    return all(any(lies_under(path, root) for root in roots) for path in place.resolve(text))


def show_word(word: Word) -> str:
    return word.text.replace(UNKNOWN, "…")


def find_read_problem(place: CommandPlace, word: Word) -> str:
    """Why reading this needs a person; empty: it does not."""
    if len(word.text) > LONGEST_PATH:
        return "what it reads is not known beforehand"
    if names_secret(word.text, place.secrets) or any(
        names_secret(path.removeprefix(place.roots[0]), place.secrets) for path in place.resolve(word.text)
    ):
        return f"{show_word(word)} may hold secrets"
    if UNKNOWN in word.text or lies_inside(place, word.text):
        return ""  # what it turns out to be, the walls decide whether it is in sight
    public = all(any(lies_under(path, known) for known in PUBLIC_READS.split()) for path in place.resolve(word.text))
    return "" if public else f"{show_word(word)} is outside of the working folder"


def find_write_problem(place: CommandPlace, word: Word) -> str:
    """Why writing this needs a person; empty: it does not."""
    if word.text in HARMLESS_DEVICES:
        return ""
    if UNKNOWN in word.text or len(word.text) > LONGEST_PATH:
        return "what it writes is not known beforehand"
    if not lies_inside(place, word.text):
        return f"{show_word(word)} is outside of the working folder"
    inner = [path.removeprefix(place.roots[0]) for path in place.resolve(word.text)] + [word.text]
    if any(names_startup(path) or names_secret(path, place.secrets) for path in inner):
        return f"{show_word(word)} is a file that other programs trust"
    return ""


def fill_known(word: Word) -> str:
    """The text with the variables filled in whose meaning is fixed."""
    text = word.text
    if text.count(UNKNOWN) == len(word.names):
        for name in word.names:
            text = text.replace(UNKNOWN, KNOWN_VARIABLES.get(name, "\x04"), 1)
    return text.replace("\x04", UNKNOWN)


def find_write_denial(place: CommandPlace, word: Word) -> str:
    """Why nobody may write this, whatever the mode."""
    for path in place.resolve(fill_known(word)):
        if DISK.fullmatch(path):
            return f"it writes to the disk {path}"
        _, found, inner = path.rpartition("/.hermes")
        if not found or (inner and not inner.startswith("/")):
            if not place.home or not lies_under(path, place.home):
                continue
            inner = path.removeprefix(place.home)
        if HERMES_FILE.fullmatch(inner.lstrip("/")):
            return "it changes the settings or the store of Hermes itself"
    return ""


def is_critical(place: CommandPlace, word: Word) -> bool:
    """Whether losing it loses the machine or a person's files."""
    text = fill_known(word)
    if not text:
        return False
    return any(CRITICAL.fullmatch(path) for path in place.resolve(text) if path.startswith(("/", "~")))
