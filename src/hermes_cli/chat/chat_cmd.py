"""`hermes` and `hermes chat`: the chat in the terminal, the chat over a pipe, and `-q` for one question.

Each face talks to a `ChatHost` and to nothing else.
"""

import argparse
import io
import os
import sys
from contextlib import closing
from dataclasses import replace
from typing import TextIO

from hermes_base.local_wire import Hello
from hermes_cli import config
from hermes_cli.chat.joining import open_host
from hermes_cli.chat.local_client import LocalClient
from hermes_cli.chat.piped import STDIN, PipedQuestion, open_stdin, read_question
from hermes_cli.chat.terminal_plain import Lines, PlainChat, PlainView, Shows
from hermes_cli.chat.terminal_words import Display, clean_shown, is_answered_by_note

_QUERY = ("-q", "--query")
#: Terminals that can neither move the cursor nor colour.
_DUMB = frozenset({"dumb", "unknown"})


def main(args: list[str]) -> int:
    """Open the host and chat with it; the exit code."""
    args, question = take_question(args)
    parsed = _build_parser().parse_args(args)
    question = parsed.query if question is None else question
    display = config.load_settings().display
    display = replace(display, markdown=display.markdown and not parsed.no_markdown)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a character that the terminal lacks must not end the chat
    asking = None if question is None else read_question(question)
    wanted = Hello(
        model=parsed.model,
        provider=parsed.provider,
        resume=parsed.resume,
        continue_last=parsed.continue_last,
        once=asking is not None,
    )
    host = open_host(wanted)
    with closing(host):
        if asking is not None:
            return _answer(host, asking, display)
        can_draw = _is_terminal(sys.stdin) and _is_terminal(sys.stdout) and os.environ.get("TERM", "dumb") not in _DUMB
        return (_chat_on_screen if can_draw else _chat_in_lines)(host, display)


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("hermes chat", description="Chat in the terminal.", allow_abbrev=False)
    parser.add_argument(
        *_QUERY, nargs="?", const=STDIN, metavar="TEXT", help="answer one question on stdout and leave; - reads stdin"
    )
    parser.add_argument("-m", "--model", default="", metavar="NAME", help="the model that answers")
    parser.add_argument("--provider", default="", metavar="NAME", help="where the model is")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("-r", "--resume", default="", metavar="ID", help="go on with this session")
    which.add_argument(
        "-c", "--continue", dest="continue_last", action="store_true", help="go on with the last session"
    )
    parser.add_argument("--no-markdown", action="store_true", help="show answers as they are written")
    return parser


def take_question(args: list[str]) -> tuple[list[str], str | None]:
    """The arguments without a question that follows `-q`, and the question: it may look like an option."""
    known = {name for action in _build_parser()._actions for name in action.option_strings}
    for place, word in enumerate(args[:-1]):
        if word in _QUERY and args[place + 1] not in known:
            return [*args[:place], *args[place + 2 :]], args[place + 1]
    return args, None


def _answer(host: LocalClient, asking: PipedQuestion, display: Display) -> int:
    """`-q`: nothing but the answer goes to stdout."""
    if not sys.stderr.isatty():
        display = Display(display.markdown, "off", reasoning=False)  # progress is for eyes only
    shows = Shows.LETTERS if _is_terminal(sys.stdout) else Shows.ANSWER
    shows = Shows.NOTE if is_answered_by_note(asking.text) else shows
    view = PlainView(sys.stdout, sys.stderr, sys.stderr, display, shows)
    return PlainChat(host, view, _find_person()).answer_one(asking.text, asking.files)


def _find_person() -> Lines | None:
    """Where somebody can answer a question that they can read; when stdin is a pipe, on the terminal itself."""
    if _is_terminal(sys.stdin):
        return Lines(open_stdin())
    if not _is_terminal(sys.stderr):
        return None
    try:
        return Lines(open("/dev/tty", "rb"))  # open until the process ends
    except OSError:
        return None


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _chat_in_lines(host: LocalClient, display: Display) -> int:
    """Lines in, plain text out."""
    shows = Shows.LETTERS if _is_terminal(sys.stdout) else Shows.TEXTS
    view = PlainView(sys.stdout, sys.stdout, sys.stderr, display, shows)
    for line in host.banner:
        view.say(sys.stdout, clean_shown(line))
    lines = Lines(open_stdin(), _show_prompt if _is_terminal(sys.stdin) else lambda: None)
    return PlainChat(host, view, lines).answer_lines()


def _show_prompt() -> None:
    print("> ", end="", file=sys.stderr, flush=True)


def _chat_on_screen(host: LocalClient, display: Display) -> int:
    # Loaded here and not above: prompt_toolkit, rich and asyncio take 0.2 s that `-q` and a pipe need not pay.
    from hermes_cli.chat.terminal_chat import chat_on_screen  # noqa: PLC0415

    return chat_on_screen(host, host.banner, display, host.hint)
