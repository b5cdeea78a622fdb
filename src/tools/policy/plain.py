"""The few commands that run unasked without a sandbox, because they cannot be led astray.

They are programs of the system that read no configuration and start no others, with options that are known to do no
harm, and with files that lie, links followed, where they may be read.
"""

import os
import re
import stat
from dataclasses import dataclass

from hermes_constants.ordinary_files import expand_home
from tools.files.sensitive import names_secret
from tools.policy.parser import parse
from tools.policy.paths import CommandPlace, lies_under
from tools.policy.words import ParseBudget, Unparsable, Word

NONE, ANY = r"(?!)", r"[\s\S]*"


@dataclass(frozen=True, slots=True)
class Plain:
    options: str = NONE
    valued: str = NONE  # options whose value is the next word
    words: str = NONE  # words that are not paths
    texts: int = 0  # so many first words are texts
    paths: bool = False  # the other words are files to be read
    folders: bool = False  # or folders, of which it tells names only


READER = Plain(paths=True)
LINES = Plain(r"-n\d+|-c\d+|-\d+|--lines=\d+|--bytes=\d+|-q|-v", valued=r"-[nc]", paths=True)
PLAIN = {
    **dict.fromkeys(("true", "false", ":", "pwd", "whoami", "nproc", "arch", "rev", "tac"), Plain()),
    "echo": Plain(options=ANY, words=ANY),
    "printf": Plain(options=r"(?!-v)[\s\S]*", words=ANY),
    "id": Plain(r"-[ugnGr]+"),
    "uname": Plain(r"-[asnrvmpio]+"),
    "date": Plain(r"-u|-R|-I\w*|--utc", words=r"\+.*"),
    "uptime": Plain(r"-p|-s"),
    "free": Plain(r"-[bkmgh]+"),
    "seq": Plain(r"-w", words=r"-?\d+"),
    "sleep": Plain(words=r"[\d.]+[smh]?"),
    "basename": Plain(r"-a", words=ANY),
    "dirname": Plain(words=ANY),
    "tr": Plain(r"-[cdst]+", words=ANY),
    "cut": Plain(r"-[dfcb].+|-s|--complement", valued=r"-[dfcb]"),
    "sort": Plain(r"-[bdfghiMnrRVuz]+|-k[\d.,a-z]+|-t.", valued=r"-[kt]"),
    "uniq": Plain(r"-[cdDiu]+"),
    "ls": Plain(r"-[alhrtR1SFdipsoA]+|--all|--almost-all|--human-readable", paths=True, folders=True),
    "cat": Plain(r"-[nAbsEvT]+", paths=True),
    **dict.fromkeys(("head", "tail"), LINES),
    "wc": Plain(r"-[lwcmL]+", paths=True),
    "nl": Plain(r"-b[at]", paths=True),
    "cmp": Plain(r"-s|-l", paths=True),
    "diff": Plain(r"-[uqbBiw]+", paths=True),
    **dict.fromkeys(("md5sum", "sha1sum", "sha256sum", "sha512sum"), READER),
    "stat": Plain(paths=True, folders=True),
    "readlink": Plain(r"-[fe]", paths=True, folders=True),
    "realpath": Plain(r"-[es]", paths=True, folders=True),
    "grep": Plain(r"-[inwvclFEhHox]+|--line-number|--ignore-case|--count", texts=1, paths=True),
    "df": Plain(r"-h|-T|-i", paths=True, folders=True),
    "du": Plain(r"-[hsac]+", paths=True, folders=True),
}
SYSTEM_FOLDERS = frozenset({"", "/bin", "/usr/bin"})
#: Redirections that write nothing.
QUIET = frozenset({(">", "/dev/null"), (">&", "1"), (">&", "2")})


def is_plain(source: str, place: CommandPlace) -> bool:
    """Whether a command line holds nothing else; files are looked up on the disk."""
    try:
        script = parse(source, ParseBudget())
    except Unparsable:
        return False
    if script.functions or script.strays or not script.commands:
        return False
    for command in script.commands:
        if command.assignments or not command.words or not all(word.known for word in command.words):
            return False
        if not all((redirect.operator, redirect.target.text) in QUIET for redirect in command.redirects):
            return False
        folder, _, name = command.words[0].text.rpartition("/")
        plain = PLAIN.get(name)
        if plain is None or folder not in SYSTEM_FOLDERS or not _are_plain_words(plain, command.words[1:], place):
            return False
    return True


def _are_plain_words(plain: Plain, words: list[Word], place: CommandPlace) -> bool:
    texts, value = plain.texts, False
    for word in words:
        if value:
            value = False
        elif word.text.startswith("-") and word.text != "-":
            value = re.fullmatch(plain.valued, word.text) is not None
            if not value and not re.fullmatch(plain.options, word.text):
                return False
        elif re.fullmatch(plain.words, word.text):
            continue
        elif texts:
            texts -= 1
        elif not (plain.paths and may_be_read(word.text, place, folders=plain.folders)):
            return False
    return True


def may_be_read(text: str, place: CommandPlace, *, folders: bool) -> bool:
    """Whether a file, links followed, lies in a root, and is neither a secret nor another name of some file."""
    if "~" in text:
        return False  # where bash puts a home in its place is not for us to guess
    path = os.path.realpath(os.path.join(place.folders[0], text))
    roots = [real for root in place.roots if (real := os.path.realpath(root)) != "/" and lies_under(path, real)]
    own = os.path.realpath(place.home) if place.home else ""
    if own and lies_under(path, own):  # a root around the home of Hermes does not open it
        roots = [root for root in roots if root != own and lies_under(root, own)]
    if not roots:
        return False
    inner = os.path.relpath(path, roots[0])
    in_home = lies_under(os.path.realpath(expand_home("~")), roots[0])
    if names_secret(inner, place.secrets) or (in_home and re.search(r"(^|/)\.[^./]", inner)):
        return False
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return True  # nothing is there to be read
    if stat.S_ISDIR(status.st_mode):
        return folders
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1
