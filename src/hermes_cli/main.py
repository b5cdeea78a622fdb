"""The command `hermes`: finds the command that was asked for, loads it alone, and turns failures into sentences.

Nothing heavy is imported here, so that `hermes --version` stays cheap.
"""

import difflib
import errno
import importlib
import importlib.util
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout, suppress
from typing import Any, TextIO, cast

from hermes_base.errors import ConfigProblem, HermesError
from hermes_base.text.harmless import HarmlessStream, clean_name, clean_shown
from hermes_cli.profiles import select_profile
from hermes_cli.terminal_commands import COMMANDS, OPTIONS, CommandEntry
from hermes_constants import VERSION, NoHome, get_hermes_home, is_set

OK, FAILED, WRONG_USE, CRASHED, SIGNALLED, PIPE_CLOSED = 0, 1, 2, 70, 128, 141


#: Options that belong to the entry point when they come first; everything else goes to the command.
_HELP = frozenset({"-h", "--help", "help"})
_VERSION = frozenset({"-V", "--version"})
_TAKE_TEXT = frozenset({"-q", "--query"})
_HELP_CHARS = 60  # of what a plugin says of its command
#: Faults of the disk that the owner can put right; any other OSError is ours.
_DISK_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO})


def main(argv: list[str] | None = None) -> int:
    """Run `hermes` with these arguments; the exit code."""
    code = _run_to_its_end(argv)
    if argv is None and "hermes_cli.plugins" in sys.modules:  # it is the whole program, and plugins may have run in it
        load("hermes_cli.plugins.left_threads:end_with")(code)
    return code


def _run_to_its_end(argv: list[str] | None) -> int:
    open_missing_streams()
    try:
        code = run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return code
    except SystemExit as leaving:  # argparse leaves this way
        return leaving.code if isinstance(leaving.code, int) else OK if leaving.code is None else FAILED
    except BrokenPipeError:
        _forget_output()  # whoever read it has gone
        return PIPE_CLOSED
    except KeyboardInterrupt as pressed:  # another signal than Ctrl-C gives its number
        return SIGNALLED + (pressed.args[0] if pressed.args else signal.SIGINT)
    except (HermesError, NoHome) as error:
        tell(str(error))
        return FAILED
    except Exception as error:  # noqa: BLE001 - the top of the program; the trace is kept
        return report_failure(error)


def open_missing_streams() -> None:
    """Give a process that was started without stdin, stdout or stderr (`>&-`) empty ones: what it writes goes nowhere,
    and no file that it opens takes their place."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            empty = os.open(os.devnull, os.O_RDWR)
            if empty != number:
                os.dup2(empty, number)
                os.close(empty)
            stream = os.fdopen(number, mode, encoding="utf-8", closefd=False)  # noqa: TID251 - it is no folder
            setattr(sys, name, stream)


def tell(text: str) -> None:
    """Say it on stderr, if there is somebody to read it."""
    with suppress(OSError):
        print(f"hermes: {clean_shown(text)}", file=sys.stderr, flush=True)


def run(args: list[str]) -> int:
    """Do what the arguments ask for; raises whatever the command raises."""
    args, profile = take_profile(args)
    first = args[0] if args else ""
    if first in _VERSION:
        print(f"hermes {VERSION}")
        return OK
    if first in _HELP:
        print(write_help())
        return OK
    if profile:
        select_profile(profile)
    if first and not first.startswith("-"):
        return _run_command(first, args[1:])
    return _run_command("chat", args)


def take_profile(args: list[str]) -> tuple[list[str], str]:
    """The arguments without `--profile NAME`, and the name: from there, else from `HERMES_PROFILE`."""
    rest: list[str] = []
    name = os.environ.get("HERMES_PROFILE", "").strip()
    waiting = list(args)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            return [*rest, word, *waiting], name
        if word == "--profile" or word.startswith("--profile="):
            name = word.partition("=")[2] or (waiting.pop(0) if word == "--profile" and waiting else "")
            if not name:
                raise ConfigProblem("--profile needs a name.", fix="For example: hermes --profile work")
            continue
        rest.append(word)
        if word in _TAKE_TEXT and waiting:
            rest.append(waiting.pop(0))  # a question may look like an option
    return rest, name


def _run_command(name: str, args: list[str]) -> int:
    entry = COMMANDS.get(name)
    if entry is None and (code := load("hermes_cli.plugins.subcommands:run")(name, args, _keep_trace)) is not None:
        return int(code)
    if entry is None:
        run_provided = load("hermes_cli.cmds.memory_cmd:run_provider_command")
        code = run_provided(name, args, _keep_trace) if name.isprintable() else None
        if code is not None:
            return int(code)
        print(f"hermes: there is no command {name!r}. {suggest(name, args)}", file=sys.stderr)
        return WRONG_USE
    with ExitStack() as clean:
        if not entry.draws:
            clean.enter_context(redirect_stdout(cast(TextIO, HarmlessStream(sys.stdout))))
            clean.enter_context(redirect_stderr(cast(TextIO, HarmlessStream(sys.stderr))))
        load("hermes_cli.config:start_logging")()
        return int(load(entry.target)(args))


def find_offered() -> dict[str, CommandEntry]:
    """The commands whose package is installed."""
    return {
        name: entry
        for name, entry in COMMANDS.items()
        if not entry.package or importlib.util.find_spec(entry.package) is not None
    }


def find_brought() -> dict[str, str]:
    """The commands of plugins, with what each does, as they were when plugins were loaded last, and of the chosen
    memory; none of them is run."""
    if is_set("HERMES_SAFE_MODE"):
        return {}
    brought = {one.name: one for one in load("hermes_cli.brought_commands:read_all")()}
    shown = ((name, one) for name, one in sorted(brought.items()) if name not in COMMANDS)
    return {
        clean_name(name): f"{clean_name(one.help)[:_HELP_CHARS] or 'A command'} ({clean_name(one.plugin)})"
        for name, one in shown
    }


def suggest(name: str, args: list[str]) -> str:
    """What may have been meant by a command that there is not: a question has words, a command is one."""
    words = " ".join((name, *args))
    is_word = len(name.split()) < 2
    known = [*find_offered(), *find_brought()]
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5) if is_word else []
    return " ".join(
        [
            *(f"Did you mean `hermes {command}`?" for command in near),
            *([f"To ask something: hermes -q {shlex.quote(words)}"] if len(words.split()) > 1 else []),
        ]
        or ["`hermes --help` lists the commands."]
    )


def load(target: str) -> Callable[..., Any]:
    """The function that `module:function` names: the one place where modules are imported on demand."""
    module, _, function = target.partition(":")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError as error:
        fix = "Install it, or run `make chat` in the project's folder, which installs all it needs."
        raise HermesError(f"The Python package {error.name!r} is missing.", fix=fix) from error
    return found


def write_help() -> str:
    """The help text, from the tables above."""
    commands, brought = find_offered(), find_brought()
    rows = {**{name: entry.summary for name, entry in commands.items()}, **brought, **OPTIONS}
    width = max(map(len, rows))
    lines = {name: f"  {name:<{width}}  {summary}" for name, summary in rows.items()}
    return "\n".join(
        [
            "Usage: hermes [--profile NAME] [COMMAND] [ARGUMENTS]",
            "",
            "Without a command, hermes opens a chat in the terminal.",
            "",
            "Commands:",
            *(lines[name] for name in commands),
            *(["", "Commands of plugins:", *(lines[name] for name in brought)] if brought else []),
            "",
            "Options:",
            *(lines[name] for name in OPTIONS),
            "",
            f"Settings and sessions are kept in {get_hermes_home()} (set HERMES_HOME to change that).",
        ]
    )


def report_failure(error: Exception) -> int:
    """Say what broke; the exit code. Of a crash the whole trace, without secrets, is kept in a file."""
    if isinstance(error, OSError) and error.errno in _DISK_FAULTS:
        place = f" ({error.filename})" if error.filename else ""
        tell(f"{error.strerror}{place}. Check the disk's space and permissions.")
        _forget_output()
        return FAILED
    redact = load("hermes_cli.config:redactor")()
    trace = redact("".join(load("traceback:format_exception")(error)))
    what = redact(f"{type(error).__name__}: {error}".partition("\n")[0])
    tell(f"this should not have happened ({what}). {_keep_trace(trace)}")
    return CRASHED


def _forget_output() -> None:
    """Output that could not be written must not raise again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _keep_trace(trace: str) -> str:
    """Write a trace to the home's logs; the sentence that says where it is."""
    folder = get_hermes_home() / "logs"
    path = folder / time.strftime(f"crash-%Y%m%d-%H%M%S-{os.getpid()}.txt")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(trace, encoding="utf-8", errors="replace")
        path.chmod(0o600)
    except OSError as error:
        return f"The trace could not be written to {path} ({error.strerror}):\n{trace}"
    return f"The whole trace is in {path}"


if __name__ == "__main__":
    sys.exit(main())
