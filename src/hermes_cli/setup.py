"""Questions and words at the terminal, for plugins that set themselves up."""

import getpass
import os
import sys
from collections.abc import Sequence

from hermes_base.text.harmless import clean_shown
from hermes_cli.config import get_env_value as get_env_value
from hermes_cli.config import save_env_value as save_env_value


def print_header(title: str) -> None:
    print(f"\n{clean_shown(title)}\n{'-' * len(title)}")


def print_info(text: str) -> None:
    print(clean_shown(text))


def print_success(text: str) -> None:
    print(f"✓ {clean_shown(text)}")


def print_warning(text: str) -> None:
    print(f"! {clean_shown(text)}")


def print_error(text: str) -> None:
    print(f"✗ {clean_shown(text)}", file=sys.stderr)


def prompt(question: str, default: str | None = None, password: bool = False) -> str:
    """What was typed; nothing means the default. Ctrl-C and the end of the input leave with 1."""
    shown = f"{question}{f' [{default}]' if default and not password else ''}: "
    try:
        answer = getpass.getpass(shown) if password else input(shown)
    except (KeyboardInterrupt, EOFError):
        print()
        raise SystemExit(1) from None
    return answer.strip() or default or ""


def prompt_yes_no(question: str, default: bool = True) -> bool:
    """Whether the answer is yes; the default where nobody answers."""
    if os.environ.get("HERMES_NONINTERACTIVE"):
        return default
    try:
        answer = input(f"{question} [{'Y/n' if default else 'y/N'}]: ").strip().lower()
    except EOFError:
        return default
    except KeyboardInterrupt:
        print()
        raise SystemExit(1) from None
    return answer.startswith("y") if answer else default


def prompt_choice(question: str, choices: Sequence[str], default: int = 0, description: str | None = None) -> int:
    """The place of the chosen one; the default where nothing, or none of them, is named."""
    print(question if description is None else f"{question}\n{description}")
    for number, choice in enumerate(choices, start=1):
        print(f"  {number}. {clean_shown(choice)}")
    answer = prompt("Number", str(default + 1))
    return int(answer) - 1 if answer.isdigit() and 1 <= int(answer) <= len(choices) else default
