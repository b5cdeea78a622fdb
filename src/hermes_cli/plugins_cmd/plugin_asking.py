"""Questions to the person at the terminal; where nobody sits there, the answer is the careful one."""

import getpass
import sys

from hermes_base.errors import HermesError

_YES = frozenset({"y", "yes"})


def is_person_there() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def agree(question: str, given: bool | None = None) -> bool:
    """Whether a person says yes; `given` on the command line answers for them, and silence is a no."""
    if given is not None:
        return given
    if not is_person_there():
        return False
    return (ask_text(f"{question} [y/N] ") or "").lower() in _YES


def require(deed: str, question: str, given: bool) -> bool:
    """The same for what cannot be taken back; HermesError where nobody can be asked."""
    if not given and not is_person_there():
        raise HermesError(f"{deed} needs your consent, and nobody can be asked here.", fix="Add --yes.")
    return agree(question, given or None)


def ask_text(prompt: str, secret: bool = False) -> str | None:
    """What was typed; None: nothing, or the input has ended."""
    try:
        return (getpass.getpass(prompt) if secret else input(prompt)).strip() or None
    except EOFError:
        print()
        return None
