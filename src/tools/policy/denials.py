"""What is denied in every mode, whoever approves: it ends the machine, its disks or Hermes itself."""

import re

from tools.policy.paths import DISK, CommandPlace, fill_known, find_write_denial, is_critical
from tools.policy.tables import DISK_TOOLS, ENDERS, PATH_WRITERS, RECURSIVE_HARM, SYSTEMCTL_ENDERS
from tools.policy.words import Word

RECURSIVE = re.compile(r"-[A-Za-z]*[rR][A-Za-z]*|--recursive|--no-preserve-root")
EVERYONE = frozenset({"-1", "1"})


def find_denial(place: CommandPlace, name: str, rest: list[Word]) -> str:
    """Why this command is denied in every mode; empty: it is not."""
    texts = [word.text for word in rest]
    if name in ENDERS or (name in ("init", "telinit") and texts[:1] in (["0"], ["6"])):
        return "it shuts the machine down"
    if name == "systemctl" and SYSTEMCTL_ENDERS & set(texts):
        return "it shuts the machine down"
    if DISK_TOOLS.fullmatch(name) and any(DISK.fullmatch(text) for text in texts):
        return "it destroys what is on a disk"
    if name == "kill" and EVERYONE & set(texts[1:] or texts) and "-l" not in texts:
        return "it ends every process"
    return find_tree_denial(place, name, rest) or find_path_denial(place, name, rest)


def find_tree_denial(place: CommandPlace, name: str, rest: list[Word]) -> str:
    texts = [word.text for word in rest]
    critical = any(is_critical(place, word) for word in rest if not word.text.startswith("-"))
    recursive = any(RECURSIVE.fullmatch(text) for text in texts)
    destroys = critical and (
        (name in RECURSIVE_HARM and recursive)
        or name == "mv"
        or (name == "find" and {"-delete", "rm", "shred"} & set(texts))
        or (name == "rsync" and any(text.startswith("--del") for text in texts))
    )
    cleans = name == "git" and "clean" in texts and (critical or is_critical(place, Word(".")))
    return "it destroys the system or a person's files" if destroys or cleans else ""


def find_path_denial(place: CommandPlace, name: str, rest: list[Word]) -> str:
    if name not in PATH_WRITERS:
        return ""
    if name in ("cp", "install", "ln", "rsync") and len(rest) > 1:
        rest = rest[-1:]  # the others are only read
    if name == "dd":
        rest = [Word(fill_known(word).removeprefix("of=")) for word in rest if word.text.startswith("of=")]
    if name == "sed" and not any(word.text.startswith(("-i", "--in-place")) for word in rest):
        return ""
    for word in rest:
        if word.text and not word.text.startswith("-") and (denial := find_write_denial(place, word)):
            return denial
    return ""
