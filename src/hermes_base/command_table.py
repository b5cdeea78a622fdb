"""The slash commands as one table that the terminal and every other chat share."""

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

# What happens to a command while a turn is under way.
NOW = "now"  # it runs beside the turn
AFTER = "after"  # it takes its place in the order: after the turn under way, before what is said next


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    aliases: tuple[str, ...]
    summary: str
    args: str = ""
    when_busy: str = NOW
    breaks_prefix: bool = False  # the next request is paid in full: say so before acting
    asks_model: bool = False  # it takes as long as a turn, so it can be stopped like one
    begins_turn: bool = False  # its answer is that of a turn; all others answer with a note
    in_menu: bool = True  # chat apps show it to their people
    role: str = "member"  # the lowest role that may use it
    option_roles: tuple[tuple[str, str], ...] = ()  # options that need a higher role, each with it


COMMANDS: tuple[Command, ...] = (
    Command("help", (), "Show the commands."),
    Command("start", (), "Say who this is and what to do.", in_menu=False),
    Command("new", ("reset", "clear"), "Start a new conversation.", when_busy=AFTER),
    Command("resume", (), "Go back to an earlier conversation; without ID: list them.", "[ID]", when_busy=AFTER),
    Command(
        "model",
        (),
        "Show or change the model of this conversation, until /new; --global: of all.",
        "[NAME] [--global]",
        when_busy=AFTER,
        breaks_prefix=True,
        option_roles=(("--global", "admin"),),
    ),
    Command("reasoning", (), "Show or change how long the model thinks.", "[LEVEL]", when_busy=AFTER),
    Command("usage", (), "Show tokens, cache hits and cost."),
    Command(
        "compress",
        (),
        "Summarise the older part of the conversation.",
        when_busy=AFTER,
        breaks_prefix=True,
        asks_model=True,
    ),
    Command("tools", (), "List the tools the model has."),
    Command(
        "mcp",
        (),
        "List the prompts of the MCP servers, or begin a turn with one.",
        "[SERVER [PROMPT [NAME=VALUE ...]]]",
        when_busy=AFTER,
        asks_model=True,
        begins_turn=True,
        role="admin",
    ),
    Command(
        "reload-mcp",
        (),
        "Ask the MCP servers for their tools, and offer them here.",
        when_busy=AFTER,
        breaks_prefix=True,
        role="admin",
    ),
    Command(
        "retry",
        (),
        "Ask the last question again.",
        when_busy=AFTER,
        breaks_prefix=True,
        asks_model=True,
        begins_turn=True,
    ),
    Command(
        "undo",
        (),
        "Take back the last question and its answer, or what it changed in files.",
        "[files]",
        when_busy=AFTER,
        breaks_prefix=True,
    ),
    Command("branch", (), "Go on in a copy of this conversation; the old one stays as it is.", when_busy=AFTER),
    Command("queue", (), "Ask this when the turn under way has ended.", "TEXT", begins_turn=True),
    Command("steer", (), "Put this into the turn under way, at its next step.", "TEXT", begins_turn=True),
    Command("status", (), "Show what runs, what waits and who is connected.", role="admin"),
    Command("logs", (), "Show the last lines of the log.", "[N]", role="admin"),
    Command(
        "people",
        (),
        "Show who may speak; let somebody in, or end their access.",
        "[approve CODE | remove ID]",
        role="admin",
    ),
    Command("sethome", (), "Make this chat the place for what you did not ask for; off: have none.", "[off]"),
    Command("timezone", (), "Show or set your time zone.", "[ZONE | off]"),
    Command("quiet", (), "Show or set the hours in which you are told nothing unasked.", "[22:00-07:00 | off]"),
    Command("link", (), "Be the same person in another app: get a code here, and say it there.", "[CODE]"),
    Command(
        "approvals",
        (),
        "Show which approvals are kept as rules; end one, or all.",
        "[revoke ID | revoke all]",
        role="admin",
    ),
    Command(
        "chat",
        (),
        "Show or set model, instructions and tools of this chat.",
        "[model NAME | instructions TEXT | toolsets A,B | reset]",
        when_busy=AFTER,
        breaks_prefix=True,
        role="admin",
    ),
    Command("stop", (), "Stop the turn under way."),
    Command("quit", ("exit", "q"), "Leave the chat.", in_menu=False),
)
#: What adapters of plugins hand on while a turn is under way: the names that they know, and what we have beside them.
NOT_HELD_UP = frozenset(
    {
        *("stop", "new", "reset", "approve", "deny", "status", "restart", "help", "background", "steer", "queue"),
        *("agents", "commands", "profile", "update", "version"),
        *(name for command in COMMANDS if command.when_busy == NOW for name in (command.name, *command.aliases)),
    }
)

_BY_NAME: Mapping[str, Command] = MappingProxyType(
    {name: command for command in COMMANDS for name in (command.name, *command.aliases)}
)
#: A second slash in the first word makes it a path, which people paste all the time.
_TYPED = re.compile(r"\s*/([A-Za-z][\w-]*)(?:\s+(.*))?\s*", re.DOTALL)


def find_command(name: str) -> Command | None:
    """The command of this name or alias, in any case, with or without its slash."""
    return _BY_NAME.get(name.strip().removeprefix("/").lower())


def parse(text: str) -> tuple[Command | None, str] | None:
    """The command that a text asks for (None: no such command) and its arguments; None when it is a message."""
    typed = _TYPED.fullmatch(text)
    if typed is None:
        return None
    return find_command(typed[1]), (typed[2] or "").strip()


def needed_role(command: Command, args: str) -> str:
    """The role that a call of the command needs; its options may need a higher one than the command itself."""
    given = args.split()
    return next((role for option, role in command.option_roles if option in given), command.role)


def close_matches(name: str, others: Collection[str] = ()) -> list[str]:
    """Names that were probably meant, with their slash, the best first; takes what was typed, arguments and all.
    `others`: names that are no commands of ours."""
    words = name.strip().removeprefix("/").lower().split()
    near = difflib.get_close_matches(words[0], [*_BY_NAME, *others], n=3, cutoff=0.5) if words else []
    return list(dict.fromkeys("/" + (_BY_NAME[match].name if match in _BY_NAME else match) for match in near))


def chat_lines(may_run: Callable[[Command], bool]) -> list[str]:
    """What a chat app shows of the commands that somebody may run: no columns, which a narrow screen would break."""
    return [
        f"{f'/{command.name} {command.args}'.strip()} – {command.summary}"
        for command in COMMANDS
        if command.in_menu and may_run(command)
    ]


def help_lines() -> list[str]:
    """One line a command, in columns."""
    usages = {command: f"/{command.name} {command.args}".strip() for command in COMMANDS}
    width = max(map(len, usages.values()))
    lines = []
    for command, usage in usages.items():
        also = ", ".join(f"/{alias}" for alias in command.aliases)
        lines.append(f"{usage:<{width}}  {command.summary}{f' (also {also})' if also else ''}")
    return lines
