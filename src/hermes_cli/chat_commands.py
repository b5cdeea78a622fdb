"""What each slash command answers in the terminal chat; the table itself is in `hermes_base.commands`."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from hermes_base.commands import help_lines
from hermes_cli.chat_session import EFFORTS, ChatSession, parse_choice
from hermes_cli.usage_cmd import write_scopes
from hermes_state.interface import SessionInfo

Lines = Iterator[str]


def show_help(session: ChatSession, args: str) -> Lines:
    del session, args
    yield from help_lines()


def start_new(session: ChatSession, args: str) -> Lines:
    del args
    session.start_new()
    yield "A new conversation. The old one is kept; /resume finds it."


def resume(session: ChatSession, args: str) -> Lines:
    if args:
        info = session.resume(args)
        yield f"Going on with {info.id}: {info.title or info.preview} ({info.messages} messages)"
        return
    found = session.list_sessions()
    if not found:
        yield "There is no earlier conversation yet."
        return
    yield from (_session_line(info) for info in found)
    yield "Go on with one of them: /resume ID (the beginning of the id is enough)"


def _session_line(info: SessionInfo) -> str:
    moment = datetime.fromtimestamp(info.updated).strftime("%Y-%m-%d %H:%M")
    return f"{info.id}  {moment}  {info.title or info.preview}"


def model(session: ChatSession, args: str) -> Lines:
    if args:
        session.change_model(parse_choice(args))
    runtime = session.runtime
    yield f"{runtime.model} ({runtime.facts.label}), window {runtime.context_length:,} tokens; {runtime.source}"
    if not args:
        yield "Change it for this conversation: /model NAME, or /model PROVIDER NAME"
        yield "Change it for good: hermes config set model.provider NAME, hermes config set model.default NAME"


def reasoning(session: ChatSession, args: str) -> Lines:
    if args:
        session.change_effort(args.strip().lower())
    yield f"Reasoning: {session.effort or 'as the model likes'} (levels: {', '.join(EFFORTS)})"


def usage(session: ChatSession, args: str) -> Lines:
    del args
    report, window = session.usage()
    yield from write_scopes(report)
    yield f"Window: {window['last_prompt_tokens']:,} of {window['context_length']:,} tokens in the last request"


def compress(session: ChatSession, args: str) -> Lines:
    changed = session.compress(args)
    if changed is None:
        yield "There is nothing to compress."
    else:
        yield f"Compacted from {changed[0]} to {changed[1]} messages. The whole conversation stays in the store."


def tools(session: ChatSession, args: str) -> Lines:
    del args
    found = session.tools()
    if not found:
        yield "This model has no tools."
    yield from (f"{name}: {description}" for name, description in found)


def undo(session: ChatSession, args: str) -> Lines:
    if args.strip().lower() == "files":
        yield from undo_files(session)
        return
    text = session.take_back()
    yield "There is nothing to take back." if text is None else f"Taken back: {text[:200]}"


def undo_files(session: ChatSession) -> Lines:
    """What the last turn that changed files did to them, taken back after a look at the diff."""
    diff = session.describe_file_changes()
    if not diff:
        yield "No turn of this conversation has changed files."
        return
    if not session.confirm(f"This would be undone:\n\n{diff}", "undo", "keep"):
        yield "The files stay as they are."
        return
    yield from (f"Restored: {path}" for path in session.undo_file_changes())


HANDLERS: Mapping[str, Callable[[ChatSession, str], Lines]] = {
    "help": show_help,
    "new": start_new,
    "resume": resume,
    "model": model,
    "reasoning": reasoning,
    "usage": usage,
    "compress": compress,
    "tools": tools,
    "undo": undo,
}
