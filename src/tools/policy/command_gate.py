"""The gate in front of the shell: a command starts when the policy allows it or a person agrees to exactly it.

What is judged, shown and started is one value. If the shell moved between the question and the answer, it is asked
again.
"""

import os
import re
import shlex
from dataclasses import replace

from hermes_base.errors import ToolFailure
from hermes_base.turn.consent import Deed
from hermes_base.turn.tool_context import ToolContext
from hermes_cli import config as cli_config
from hermes_constants import get_hermes_home
from tools import approval
from tools.approval import ask_approval, make_deed
from tools.files.roots import is_inside, list_homes
from tools.policy import Terms, Verdict, decide, judge
from tools.policy.judging import ask
from tools.policy.pinned import pin_command
from tools.shell.folder_scan import ScanResult
from tools.shell.sandbox import BUBBLEWRAP, LOCAL, Walls, choose_backend, find_filter_problem
from tools.shell.sandbox_view import check_root
from tools.shell.shell_state import ShellState
from tools.shell.shells import TASK_FOLDERS, ShellStart, find_state, identify, search_roots, shell_of

MOST_QUESTIONS = 3
MOST_SHOWN = 3
LONGEST_SHOWN = 4_000  # of all variables that earlier commands set; the longest are left out
#: Of the files that other programs obey, those that a project cannot have under version control.
NOT_VERSIONED = re.compile(r"(^|/)(\.git|\.?venv|node_modules)(/|$)|^\.\./")
BARE = "without a sandbox, with all of your rights on this machine"
MEANING = {
    Walls.LOOK: "",
    Walls.WORK: "in the sandbox (level work): it sees the folder with its secrets and can change it{network}",
    Walls.SETUP: "in the sandbox (level setup): it sees the folder with its secrets{network}, and may also change what "
    "later commands obey: settings and hooks of git, start files, installed programs",
    Walls.OUTSIDE: "OUTSIDE of the sandbox, with all of your rights on this machine",
}


def clear_command(context: ToolContext, command: str, wanted: Walls | None = None) -> ShellStart:
    """What may start now; raises with the sentence that says why nothing does."""
    shell = shell_of(context)
    walled, outside = choose_backend(context) == BUBBLEWRAP, wanted is Walls.OUTSIDE
    if walled and not outside:
        check_root(shell.root, list_homes(context))
    for _ in range(MOST_QUESTIONS):
        state = find_state(shell, context, outside=outside)
        place = identify(state.folder, shell, context, outside=outside)
        verdict, found = _judge(context, command, state, wanted)
        if verdict.decision == "deny":
            raise ToolFailure(f"The command was not run: {verdict.reason}.")
        bare = verdict.walls is Walls.OUTSIDE or not walled
        unasked = verdict.decision == "allow"
        given = state
        if bare or not unasked:  # it gets no variable that was not shown to its end; the longest are left out
            kept: dict[str, str | None] = {}
            chars_left = LONGEST_SHOWN
            for name, value in sorted(state.changes.items(), key=lambda pair: (len(pair[1] or ""), pair[0])):
                chars_left -= len(name) + len(value or "")
                if chars_left >= 0:
                    kept[name] = value
            given = ShellState(state.folder, kept)
        start = ShellStart(command, given, verdict.walls, place, unasked, verdict.blind and walled, found)
        if unasked:
            return start
        reason = explain(start, verdict.reason, context, walled=walled)
        asked_each_time = verdict.reaches and find_unfiltered(context)  # G5: no kept approval answers for it
        deed = None if asked_each_time else name_deed(start, context, shell.root, walled=walled)
        consent = ask_approval(context, show(start), reason, deed=deed)
        if not consent:
            raise ToolFailure(f"The command was not run: {consent.why} ({verdict.reason}).")
        now = find_state(shell, context, outside=outside)
        if now == state and identify(now.folder, shell, context, outside=outside) == place:
            return start
    raise ToolFailure("The command was not run: its folder or its variables changed each time while it was asked for.")


def find_unfiltered(context: ToolContext) -> str:
    """Why nothing judges what a command calls; empty: the proxy does, or it has no network."""
    terminal = context.settings.terminal
    if choose_backend(context) == BUBBLEWRAP and not terminal.network:
        return ""
    return find_filter_problem(terminal.backend)


def approve_input(context: ToolContext, start: ShellStart, text: str) -> None:
    """What is typed into a running process: one that started unasked takes input unasked; else it is asked for."""
    if start.unasked:
        return
    consent = ask_approval(context, f"{show(start)}\n<<< {text}", "this is typed into a running program")
    if not consent:
        raise ToolFailure(f"The input was not sent: {consent.why}.")


def name_deed(start: ShellStart, context: ToolContext, root: str, *, walled: bool) -> Deed | None:
    """What a kept approval of this command is about: its exact words where they start, with the variables that were
    shown, behind the same walls around the same folder (G4). None: it is known only when it runs."""
    form, folder = pin_command(start.command), start.state.folder
    walled = walled and start.walls is not Walls.OUTSIDE
    own = walled and not is_inside(folder, root) and any(is_inside(folder, place) for place in TASK_FOLDERS)
    if not form or own:  # a folder of the task's own is another one in each conversation
        return None
    network = ", with the network" if walled and context.settings.terminal.network else ""
    if network and find_unfiltered(context):
        network = ", with the open network"  # a rule that was made where the proxy stands is another one
    words = [form, sorted(start.state.changes.items()), root]
    backend, level = BUBBLEWRAP if walled else LOCAL, f"{start.walls}{network}"
    return make_deed(context, "command", folder, words, start.command, backend=backend, level=level)


def show(start: ShellStart) -> str:
    """The command as a person approves it: where it starts, with which variables that earlier commands set."""
    lines = [f"cd {shlex.quote(start.state.folder)}", start.command]
    for name, value in sorted(start.state.changes.items()):
        lines.append(f"# without {name}" if value is None else f"# with {name}={shlex.quote(value)}")
    return "\n".join(lines)


def explain(start: ShellStart, reason: str, context: ToolContext, *, walled: bool) -> str:
    """Why it is asked, and what it can do where it runs."""
    network = ", with the network, through the proxy" if context.settings.terminal.network else ", without network"
    if walled and find_unfiltered(context):
        network = ", with the network of this machine and all that it reaches"
    meaning = MEANING[start.walls].format(network=network) if walled else BARE
    return f"{reason}; it runs {meaning}"


def _judge(
    context: ToolContext, command: str, state: ShellState, wanted: Walls | None
) -> tuple[Verdict, tuple[ScanResult, ...]]:
    """The verdict, and what was found in the folders if it depends on that."""
    shell = shell_of(context)
    walled, mode = choose_backend(context) == BUBBLEWRAP, context.settings.approvals.mode
    terms = Terms(
        folder=shell.root,
        at=state.folder,
        roots=(*context.added_roots(), *(TASK_FOLDERS if walled else ())),
        mode=mode,
        home=str(context.home) if context.home else "",
        secrets=context.settings.files.secrets,
        walled=walled,
        own_word=context.own is None and context.settings.terminal.backend == LOCAL,
        wanted=wanted,
    )
    verdict = judge(command, terms)
    if verdict.reaches and (why := find_unfiltered(context)):  # found out for what needs it
        verdict = judge(command, replace(terms, unfiltered=why))
    moves = verdict.moves and verdict.walls is Walls.WORK
    if not walled or verdict.decision == "deny" or (verdict.decision == "ask" and not moves):
        return verdict, ()  # while a person thinks, the folder may change: it is searched when the command starts
    found = search_roots(shell, context)
    if moves:
        obeyed = [os.path.relpath(path, shell.root) for one in found for path in one.obeyed]
        if own := [path for path in obeyed if not NOT_VERSIONED.search(path)]:
            shown = ", ".join(own[:MOST_SHOWN])
            moved = ask(f"other versions of files that other programs obey may come with it ({shown})")
            return replace(decide(moved, mode), walls=Walls.SETUP), ()
    if verdict.decision == "allow" and not all(one.complete for one in found):
        too_large = ask("the folder is too large, or has too many secrets, to hide these from it")
        return replace(decide(too_large, mode), walls=Walls.WORK, blind=verdict.blind), ()
    return verdict, found if verdict.decision == "allow" else ()


def judge_foreign(command: str) -> tuple[str, str]:
    """The decision about a command that a plugin runs by itself, with all rights and no walls, and the reason."""
    settings = cli_config.load_last_good()
    terms = Terms(
        folder=os.getcwd(),
        mode=settings.approvals.mode,
        home=str(get_hermes_home()),
        secrets=settings.files.secrets,
        walled=False,
    )
    verdict = judge(command, terms)
    return verdict.decision, verdict.reason


approval.judge_foreign = judge_foreign
