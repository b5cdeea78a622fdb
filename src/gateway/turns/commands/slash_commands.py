"""What each slash command does and answers in a conversation; the table itself is in `hermes_base.command_table`.

A command runs on a thread, for one stored message. What it writes is fenced like a turn; its answer closes the message.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from agent import choosing
from gateway.core.people import may_run
from gateway.core.usage_report import read_report, write_scopes
from gateway.platforms.platform_list import spec_of
from gateway.turns.agent_builder import write_effort
from gateway.turns.commands import chat_command, person_commands, plugin_commands, session_commands
from gateway.turns.commands.command_scene import CommandScene, OperatorCalls, Result, tell_cost
from gateway.turns.run_turn import Again, GatewayParts, Job, JobDone, LiveTurn, TurnPerformer
from hermes_base import command_table
from hermes_base.errors import ConfigProblem, Fenced, HermesError, Interrupted
from hermes_base.inbound import NOTE, Outgoing
from hermes_base.query_values import NotThere
from hermes_base.turn.indirect import FIND_TOOLS
from hermes_cli import config as cli_config
from hermes_cli.config.logs import log_path, read_tail, write_line
from hermes_state.approval_store import describe_revoked, describe_rules
from hermes_state.people_records import pick_pairing, wrong_code
from hermes_state.people_store import MEMBER, OWNER
from hermes_state.store_journal import StoreJournal
from tools import mcp
from tools.mcp import mcp_prompts

log = logging.getLogger(__name__)

EFFORTS = ("none", "minimal", "low", "medium", "high")
LOG_LINES, MOST_LOG_LINES = 20, 200
GREETING = (
    "Hello{comma}. This is Hermes, an AI agent. Write what you want to know or have done; files and pictures can come "
    "along. /new starts a new conversation, /stop stops what is under way, /help lists the commands."
)


class CommandPerformer:
    def __init__(self, parts: GatewayParts, performer: TurnPerformer, operator: OperatorCalls) -> None:
        self._parts = parts
        self._performer = performer
        self._operator = operator

    def perform(self, job: Job, live: LiveTurn) -> JobDone:
        """Run the command of this message; whatever fails becomes its answer."""
        result = self._run(job, live)
        if result.again is not None or result.closed:
            return JobDone(result.closed, result.again, result.moved)
        text = "\n".join(result.lines)
        answers = [Outgoing(job.first.inbound.address, text, NOTE, result.level)] if text else []
        self._parts.store.turns.complete(job.claim, job.seqs, None, answers, (), result.end_session, result.go_on_in)
        return JobDone(job.seqs, moved=result.moved)

    def _run(self, job: Job, live: LiveTurn) -> Result:
        asked = command_table.parse(job.first.inbound.text)
        assert asked is not None
        command, args = asked
        scene = CommandScene(self._parts, self._performer, job, live, args, self._operator)
        try:
            if command is None:
                lines, level = plugin_commands.run_command(self._parts, job, live, scene.plan)
                return Result(lines, level)
            return HANDLERS[command.name](scene)
        except Interrupted as stop:
            return Result([f"The command was interrupted: {stop.what}."])
        except Fenced:  # its message is kept, and whoever owns the conversation now deals with it
            raise
        except HermesError as problem:
            return Result([str(problem)], "error")
        except BaseException as problem:  # the boundary to commands, plugins' among them: one may call `sys.exit()`
            log.exception("a command failed")
            return Result([f"The command failed inside Hermes ({type(problem).__name__}: {problem})."], "error")


# --- the commands


def show_help(scene: CommandScene) -> Result:
    """In columns where people type at a terminal; elsewhere in lines, with what this person may run."""
    if spec_of(scene.item.inbound.address.platform).always_on:
        return Result([*command_table.help_lines(), *plugin_commands.describe_commands()])
    role = scene.item.view.sender.role
    own = command_table.chat_lines(lambda command: may_run(role, command))
    return Result([*own, *plugin_commands.describe_commands()])


def greet(scene: CommandScene) -> Result:
    """What chat apps send when somebody opens the chat for the first time."""
    name = scene.item.inbound.sender_name.strip()
    return Result([GREETING.format(comma=f", {name}" if name else "")])


def model(scene: CommandScene) -> Result:
    words = [word for word in scene.args.split() if word != "--global"]
    for_all = "--global" in scene.args.split()
    lines: list[str] = []
    if words:
        name, provider = chat_command.read_choice(words)
        provider = provider or scene.plan().runtime.provider
        settings = cli_config.load_last_good()
        chosen = scene.parts.builder.find_runtime(settings, name, provider)  # raises what is wrong with it
        lines += tell_cost(scene)
        if for_all:
            choosing.keep(chosen)  # with its address: no key is left beside another's
            lines.append("This is now the model of every conversation that did not choose its own.")
        scene.choose(model="" if for_all else name, provider="" if for_all else provider)
    plan = scene.plan(needs_model=True)
    runtime, is_chosen = plan.runtime, plan.choices.model or plan.choices.provider
    usual = "set for this chat" if plan.chat.model or plan.chat.provider else runtime.source
    why = "chosen for this conversation, until /new" if is_chosen else usual
    lines.append(f"{runtime.model} ({runtime.label}), window {runtime.context_length:,} tokens; {why}")
    if not words:
        lines.append(
            "Change it for this conversation, until /new: /model NAME, or /model PROVIDER NAME; for all: add --global"
        )
    return Result(lines)


def chat(scene: CommandScene) -> Result:
    """Settings of the chat; another model costs what it costs (A12)."""
    is_another = scene.args.split()[:1] in (["model"], ["reset"])
    cost = tell_cost(scene) if is_another else []
    return Result([*cost, *chat_command.change_chat(scene)])


def reasoning(scene: CommandScene) -> Result:
    effort = scene.args.strip().lower()
    if effort:
        if effort not in EFFORTS:
            raise ConfigProblem(f"'{effort}' is no level of reasoning.", fix=f"Choose one of: {', '.join(EFFORTS)}.")
        scene.choose(effort=effort)
        agent = scene.parts.runner.cached_agent(scene.key)
        if agent is not None:
            agent.reasoning_config = write_effort(effort)
    else:
        effort = scene.plan().choices.effort
    return Result([f"Reasoning: {effort or 'as the model likes'} (levels: {', '.join(EFFORTS)})"])


def usage(scene: CommandScene) -> Result:
    agent, plan = scene.look(), scene.plan()
    current = scene.parts.store.current(scene.key)
    report = read_report(scene.parts.store, current.task if current else "", person=plan.scope.person_id or None)
    window = agent.context_compressor.get_status()
    size, last = f"{window['context_length']:,} tokens", window["last_prompt_tokens"]
    known, unknown = f"{last:,} of {size} in the last request", f"{size}; how full it is shows with the next request"
    full = f"Window: {known if last else unknown}"
    return Result([*write_scopes(report), full])


def tools(scene: CommandScene) -> Result:
    if not scene.plan(needs_model=True).runtime.facts.calls_tools:
        return Result(["This model has no tools."])
    agent = scene.look()
    lines = [f"{tool['function']['name']}: {tool['function'].get('description', '')}" for tool in agent.tools]
    finds = any(tool["function"]["name"] == FIND_TOOLS for tool in agent.tools)
    more = len(agent._indirect) if finds else 0
    return Result([*lines, *([f"And {more} more, which the model finds with find_tools."] if more else [])])


def use_prompt(scene: CommandScene) -> Result:
    """A prompt of a server as the turn of this message: words of the server, whoever asked for them (G9)."""
    plan = scene.plan()
    told = mcp_prompts.use_prompt(scene.args, plan.settings, scene.parts.home, scene.live.cancel)
    if isinstance(told, mcp_prompts.FilledPrompt):
        return Result(again=Again(told.text, (), (told.origin,)))
    return Result(told)


def reload_mcp(scene: CommandScene) -> Result:
    """The servers are asked anew; a changed array is paid for with the next request (A5, A12)."""
    told = [f"{name}: {what}" for name, what in mcp.reload_tools(cli_config.load_last_good()).items()]
    if not told:
        return Result(["No MCP servers are set. `hermes mcp add` adds one."])
    cost, said = tell_cost(scene), list(told)
    with scene.agent(lambda _: [scene.note("\n".join(said))]) as agent:
        said += cost  # before it is paid
        came, went, is_paid = agent.reload_tools()
        changes = f"New here: {len(came)} tools. Gone: {len(went)}."
        if not is_paid:
            return Result([*told, changes, "The prompt is what it was: nothing is paid anew."])
        journal = agent.journal
        assert isinstance(journal, StoreJournal)
        return Result(closed=journal.closed)


def show_log(scene: CommandScene) -> Result:
    """The last lines, as people read them; the file holds no secrets."""
    _require_direct(scene)
    count = scene.args.strip() or str(LOG_LINES)
    if not count.isdecimal() or not 0 < int(count) <= MOST_LOG_LINES:
        raise HermesError(f"{count!r} is no number of lines.", fix=f"Say for example: /logs {LOG_LINES}")
    found = read_tail(log_path(scene.parts.home), int(count))
    return Result([write_line(line) for line in found] or ["The log is empty."])


def manage_people(scene: CommandScene) -> Result:
    """H7: who may speak, from chat. A role beyond that of a member is given by a command of the machine only."""
    _require_direct(scene)
    action, _, named = scene.args.strip().partition(" ")
    field, write = PEOPLE_ACTIONS.get(action or "list", ("", None))
    if write is None or bool(field) != bool(named.strip()):
        raise HermesError("That is no way to use it.", fix="Say /people, /people approve CODE or /people remove ID.")
    if action == "approve" and not spec_of(scene.item.inbound.address.platform).trusted:
        if pick_pairing(named.strip(), scene.parts.store.people.pairings()) is None:
            raise wrong_code()
        # G1: whoever has taken over an account on a network must not let others in.
        raise HermesError(
            "Somebody is let in on the machine itself, not from a chat on a network.",
            kept="The request stays open.",
            fix=f"Use the web page, or there: hermes people approve {named.strip()}",
        )
    if action == "remove":
        found = scene.parts.store.people.get(named.strip())
        if found is not None and found.role != MEMBER and scene.item.view.sender.role != OWNER:
            raise HermesError("Only the owner can do this.", kept="Nothing was changed.")
    told = scene.operator.operate(f"people.{action or 'list'}", {field: named.strip()} if field else {})
    return Result(list(write(told)))


def manage_approvals(scene: CommandScene) -> Result:
    """G4: the rules that were made of approvals, from chat."""
    _require_direct(scene)
    action, _, named = scene.args.strip().partition(" ")
    id = named.strip()
    if (action, bool(id)) not in {("", False), ("list", False), ("revoke", True)}:
        raise HermesError("That is no way to use it.", fix="Say /approvals, or /approvals revoke with an ID or all.")
    if not id:
        return Result(list(describe_rules(scene.operator.operate("approvals.list", {}))))
    which: Mapping[str, Any] = {"all": True} if id == "all" else {"id": id}
    try:
        return Result(list(describe_revoked(scene.operator.operate("approvals.revoke", which))))
    except NotThere as missing:
        raise NotThere(missing.what, kept=missing.kept, fix="/approvals shows the ids.") from missing


def _require_direct(scene: CommandScene) -> None:
    """What is told about the gateway is not for everybody in a group."""
    if scene.item.inbound.address.kind != "dm":
        raise HermesError("This is not shown in a group.", fix="Ask for it in a direct chat.")


def _write_people(told: Mapping[str, Any]) -> Iterator[str]:
    for person in told["people"]:
        where = ", ".join(f"{one['platform']} {one['sender']}" for one in person["identities"])
        role = person["role"] if person["let_in"] else "out"
        yield f"{person['id']}  {role}  {person['name']}  {where}".rstrip()
    for request in told["pairings"]:
        yield f"Wants to speak: {request['name'] or request['sender']} on {request['platform']}, code {request['code']}"
    if not told["people"] and not told["pairings"]:
        yield "Nobody but the owner of the machine may speak."


def _write_person(word: str) -> Callable[[Mapping[str, Any]], Iterator[str]]:
    def write(told: Mapping[str, Any]) -> Iterator[str]:
        person = told["person"]
        yield f"{person['name'] or person['id']} ({person['id']}) {word}"

    return write


#: What `/people` takes: the word, what its argument is called, and the lines that tell what was done.
PEOPLE_ACTIONS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], Iterator[str]]]] = MappingProxyType(
    {
        "list": ("", _write_people),
        "approve": ("code", _write_person("may speak now, as a member.")),
        "remove": ("id", _write_person("may not speak any more. What was said is kept.")),
    }
)
HANDLERS: Mapping[str, Callable[[CommandScene], Result]] = MappingProxyType(
    {
        "help": show_help,
        "start": greet,
        "new": session_commands.start_new,
        "resume": session_commands.resume,
        "branch": session_commands.branch,
        "model": model,
        "reasoning": reasoning,
        "usage": usage,
        "compress": session_commands.compress,
        "tools": tools,
        "mcp": use_prompt,
        "reload-mcp": reload_mcp,
        "undo": session_commands.undo,
        "retry": session_commands.retry,
        "status": lambda scene: Result(scene.operator.describe()),
        "logs": show_log,
        "people": manage_people,
        "sethome": lambda scene: Result(person_commands.set_home(scene)),
        "timezone": lambda scene: Result(person_commands.set_timezone(scene)),
        "quiet": lambda scene: Result(person_commands.set_quiet(scene)),
        "link": lambda scene: Result(person_commands.make_link(scene)),
        "approvals": manage_approvals,
        "chat": chat,
        "quit": lambda scene: Result(),
    }
)
