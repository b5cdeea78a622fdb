"""What each slash command does and answers in a conversation; the table itself is in `hermes_base.command_table`.

A command runs on a thread, for one stored message. What it writes is fenced like a turn; its answer closes the message.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any

from agent import choosing
from agent.turn.conversation import Exchange
from gateway.core.bursts import Item
from gateway.core.people import may_run, may_stop
from gateway.core.usage_report import read_report, write_scopes
from gateway.platforms.platform_list import spec_of
from gateway.turns.agent_builder import AgentPlan, Choices, write_effort
from gateway.turns.commands import chat_command, person_commands, plugin_commands
from gateway.turns.endings import NEW
from gateway.turns.run_turn import Again, GatewayParts, Job, JobDone, LiveTurn, TurnPerformer, hold_agent
from gateway.turns.sessions import find_session, list_sessions
from hermes_base import command_table
from hermes_base.chat import Question
from hermes_base.errors import ConfigProblem, Fenced, HermesError, Interrupted
from hermes_base.inbound import NOTE, Outgoing, as_fields
from hermes_base.query_values import NotThere
from hermes_base.text.foreign import OTHERS
from hermes_base.turn.indirect import FIND_TOOLS
from hermes_base.turn.journal import TurnEnd
from hermes_cli import config as cli_config
from hermes_cli.config.logs import log_path, read_tail, write_line
from hermes_state.approval_store import describe_revoked, describe_rules
from hermes_state.people_records import pick_pairing, wrong_code
from hermes_state.people_store import MEMBER, OWNER
from hermes_state.store import SessionInfo
from hermes_state.store_journal import StoreJournal
from hermes_state.turns import BegunTurn
from run_agent import AIAgent
from tools import mcp
from tools.files import file_changes
from tools.mcp import mcp_prompts

log = logging.getLogger(__name__)

EFFORTS = ("none", "minimal", "low", "medium", "high")
LISTED = 15
NOT_YOUR_QUESTION = "Somebody else asked the last question: only they or an admin may take it back."
NOT_YOUR_FILES = "Somebody else's turn changed files last: only they or an admin may take that back."
COMPACTED_AWAY = (
    "There is nothing more to take back: what was said before was summarised. The whole conversation is kept; "
    "/resume finds it."
)
LOG_LINES, MOST_LOG_LINES = 20, 200
GREETING = (
    "Hello{comma}. This is Hermes, an AI agent. Write what you want to know or have done; files and pictures can come "
    "along. /new starts a new conversation, /stop stops what is under way, /help lists the commands."
)


@dataclass(frozen=True, slots=True)
class Result:
    """What a command has to say, and what goes along with it."""

    lines: Sequence[str] = ()
    level: str = "info"
    end_session: str = ""
    go_on_in: str = ""  # another session of the conversation
    again: Again | None = None
    moved: str = ""
    closed: tuple[int, ...] = ()  # the answer is stored already


@dataclass(frozen=True, slots=True)
class OperatorCalls:
    """What a command may ask of the whole gateway; called on the command's thread."""

    describe: Callable[[], Sequence[str]]  # its state in a few lines
    operate: Callable[[str, Mapping[str, Any]], Mapping[str, Any]]  # what an operator asks for, by name


@dataclass(frozen=True, slots=True)
class CommandScene:
    """A command at work: who asked what, where, and what it may use."""

    parts: GatewayParts
    performer: TurnPerformer
    job: Job
    live: LiveTurn
    args: str
    operator: OperatorCalls

    @property
    def key(self) -> str:
        return self.job.claim.conversation

    @property
    def item(self) -> Item:
        return self.job.first

    @property
    def person(self) -> str:
        return self.item.view.sender.person

    def plan(self, *, needs_model: bool = False) -> AgentPlan:
        """What the conversation's agent has to be; a command that needs no model does not fail for want of one."""
        plan = self.performer.make_plan(self.key, self.item, needs_model=needs_model)
        if plan.changed is not None:
            self.parts.store.turns.choose(self.key, plan.changed)
        return plan

    def look(self) -> AIAgent:
        """The conversation's agent, to read from: the warm one, or one that was just built."""
        agent: AIAgent | None = self.parts.runner.cached_agent(self.key)
        return agent if agent is not None else self.parts.builder.build(self.plan())

    @contextmanager
    def agent(self, answer: Callable[[TurnEnd], Sequence[Outgoing]] = lambda _: ()) -> Iterator[AIAgent]:
        """The conversation's agent for itself, its writes fenced by this command's message."""
        plan = self.plan()
        turn = BegunTurn(self.item.row.seq, self.job.seqs, 1, frozenset())
        with hold_agent(self.parts, plan, self.job, self.live, turn, answer) as agent:
            self.parts.builder.refresh(agent, plan, self.live.cancel)
            yield agent

    def note(self, text: str) -> Outgoing:
        return Outgoing(self.item.inbound.address, text, NOTE)

    def choose(self, **changes: str) -> None:
        turns = self.parts.store.turns
        turns.choose(self.key, replace(Choices.of(turns.choices(self.key)), **changes).as_stored())  # type: ignore[arg-type]

    def confirm(self, text: str, yes: str, no: str) -> bool:
        ask = self.live.begin_asking()
        try:
            answer = ask(Question("confirmation", text, (yes, no)))
            return answer.given and answer.text == yes
        finally:
            self.live.void_questions()


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


def start_new(scene: CommandScene) -> Result:
    """End the session and all that works for its task; the next message opens another one."""
    current = scene.parts.store.current(scene.key)
    if current is not None:
        scene.parts.endings.end_session(current, NEW)
    told = _tell_who_answers(scene) if scene.parts.endings.end_choice(scene.key) else []
    return Result(["A new conversation. The old one is kept; /resume finds it.", *told], end_session=NEW)


def resume(scene: CommandScene) -> Result:
    """Without an id: what there is; with one: go on there, which moves a client that can be moved, and brings over what
    the person said elsewhere to a chat that stays where it is. A group goes on with its own."""
    store, address, person = scene.parts.store, scene.item.inbound.address, scene.plan().scope.person_id
    joins = spec_of(address.platform).joins
    within = None if joins or address.kind == "dm" else scene.key
    if not scene.args:
        found = list_sessions(store, LISTED, conversation=within, person=person)
        if not found:
            return Result(["There is no earlier conversation yet."])
        ending = "Go on with one of them: /resume ID (the beginning of the id is enough)"
        return Result([*(_session_line(info, scene.key) for info in found), ending])
    info = find_session(store, scene.args, conversation=within, person=person)
    line = f"Going on with {info.id}: {info.title or info.preview} ({info.messages} messages)"
    if info.conversation != scene.key and joins:
        scene.parts.endings.resume(info)
        return Result([line], moved=info.conversation)
    current, wanted = store.current(scene.key), info.id
    if current is not None and current.id == info.id:
        return Result([line])
    if info.conversation != scene.key:
        wanted = store.branch(info.id, conversation=scene.key, current=False).id
        line = f"{line}, in a copy here, {wanted}. There it stays as it is."
    told = _tell_who_answers(scene) if scene.parts.endings.leave_session(scene.key, wanted) else []
    return Result([line, *told], go_on_in=wanted)


def branch(scene: CommandScene) -> Result:
    current = scene.parts.store.current(scene.key)
    if current is None or not current.version:
        return Result(["There is nothing to branch from yet."])
    new = scene.parts.store.branch(current.id, current=False)
    scene.parts.endings.let_agent_go(scene.key, new.id, "branched")
    line = f"Going on in a copy, {new.id}. The old conversation stays as it is: /resume {current.id}"
    return Result([line], go_on_in=new.id)


def model(scene: CommandScene) -> Result:
    words = [word for word in scene.args.split() if word != "--global"]
    for_all = "--global" in scene.args.split()
    lines: list[str] = []
    if words:
        name, provider = chat_command.read_choice(words)
        provider = provider or scene.plan().runtime.provider
        settings = cli_config.load_last_good()
        chosen = scene.parts.builder.find_runtime(settings, name, provider)  # raises what is wrong with it
        lines += _tell_cost(scene)
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
    cost = _tell_cost(scene) if is_another else []
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


def compress(scene: CommandScene) -> Result:
    lines = _tell_cost(scene)
    with scene.agent() as agent:
        try:
            changed = agent.compress_now(scene.args or None)
        except Interrupted as stop:
            return Result([f"Interrupted: {stop.what}. Nothing was compacted, and nothing was changed."])
    if changed is None:
        return Result(["There is nothing to compress."])
    said = f"Compacted from {changed[0]} to {changed[1]} messages. The whole conversation stays in the store."
    return Result([*lines, said])


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
    cost, said = _tell_cost(scene), list(told)
    with scene.agent(lambda _: [scene.note("\n".join(said))]) as agent:
        said += cost  # before it is paid
        came, went, is_paid = agent.reload_tools()
        changes = f"New here: {len(came)} tools. Gone: {len(went)}."
        if not is_paid:
            return Result([*told, changes, "The prompt is what it was: nothing is paid anew."])
        journal = agent.journal
        assert isinstance(journal, StoreJournal)
        return Result(closed=journal.closed)


def undo(scene: CommandScene) -> Result:
    """The row that takes back and the answer are one transaction, so that a crash cannot take back twice."""
    if scene.args.strip().lower() == "files":
        return undo_files(scene)
    said: list[str] = []
    origins: list[str] = []
    with scene.agent(lambda _: [replace(scene.note("\n".join(said)), origins=tuple(origins))]) as agent:
        exchange = agent.last_exchange()
        if exchange is None:
            return Result([describe_nothing(agent, "There is nothing to take back.")])
        _require_own(scene, {exchange.asked_by}, NOT_YOUR_QUESTION)
        last = agent.context_compressor.get_status()["last_prompt_tokens"]
        about = agent.estimate_tokens(exchange.place) if exchange.place else 0
        said += _tell_anew(min(about, last) if last else about)
        said.append(f"Taken back: {exchange.text[:200]}")
        origins += find_origins(scene, exchange)
        agent.take_back_last_turn(last=True)
        journal = agent.journal
        assert isinstance(journal, StoreJournal)
        return Result(closed=journal.closed)


def find_origins(scene: CommandScene, exchange: Exchange) -> tuple[str, ...]:
    """What of a question is foreign to whoever takes it back or has it asked again: all of it, if somebody else asked
    it (G9)."""
    others = () if exchange.asked_by == scene.person else (OTHERS,)
    return tuple(dict.fromkeys((*exchange.foreign, *others)))


def describe_nothing(agent: AIAgent, nothing: str) -> str:
    """Why there is no question any more: there was none, or it was summarised."""
    return COMPACTED_AWAY if agent.is_compacted else nothing


def _require_own(scene: CommandScene, people: Collection[str], refusal: str) -> None:
    """C16: in a group only whoever's turn did something, or an admin, takes it back or has it done again."""
    sender = scene.item.view.sender
    is_own = all(may_stop(sender.role, sender.person, person) for person in people)
    if scene.item.inbound.address.kind != "dm" and not is_own:
        raise HermesError(refusal, kept="It stands as it was.")


def undo_files(scene: CommandScene) -> Result:
    """What the last turn that changed files did to them, taken back after a look at the diff."""
    current = scene.parts.store.current(scene.key)
    task = current.task if current else ""
    plan = scene.plan()
    home, secrets = scene.parts.home / plan.scope.folder, plan.settings.files.secrets
    diff = file_changes.describe(home, task, secrets) if task else ""
    if not diff:
        return Result(["No turn of this conversation has changed files."])
    _require_own(scene, file_changes.find_people(home, task), NOT_YOUR_FILES)
    if not scene.confirm(f"This would be undone:\n\n{diff}", "undo", "keep"):
        return Result(["The files stay as they are."])
    restored = file_changes.undo_last_turn(home, task)
    scene.parts.whereabouts.tell_model(scene.key, "[The person took back your last changes to files.]")
    return Result([f"Restored: {path}" for path in restored])


def retry(scene: CommandScene) -> Result:
    """Take the last question back and ask it again, as the turn of this message.

    What is about to be done is noted first, with the version it is done to: after a crash it is done once.
    """
    steps = scene.parts.store.turns.steps(scene.key, scene.item.row.seq)
    noted = [step.body for step in steps if step.kind == "takes_back"]
    with scene.agent() as agent:
        standing = list(agent.journal.standing())
        if noted and noted[0]["standing"] != standing:
            return Result(again=Again(noted[0]["text"], tuple(noted[0]["parts"]), tuple(noted[0]["foreign"])))
        exchange = agent.last_exchange()
        if exchange is None:
            return Result([describe_nothing(agent, "There is no question to ask again.")])
        _require_own(scene, {exchange.asked_by}, NOT_YOUR_QUESTION)
        again = Again(exchange.text, exchange.parts, find_origins(scene, exchange))
        agent.journal.step("takes_back", {**as_fields(again), "standing": standing})
        agent.take_back_last_turn()
    return Result(again=again)


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


def _tell_who_answers(scene: CommandScene) -> list[str]:
    """A choice ended: who answers now, or why nobody can, which is no reason to leave the rest undone."""
    ended = "What was chosen for the old one ended with it"
    try:
        return [f"{ended}; {scene.plan(needs_model=True).runtime.model} answers here."]
    except ConfigProblem as problem:
        return [f"{ended}. Nobody answers here now: {problem}"]


def _tell_cost(scene: CommandScene) -> list[str]:
    """A12: what the next request costs because the cached prefix is given up."""
    agent = scene.parts.runner.cached_agent(scene.key)
    return _tell_anew(max(0, agent.context_compressor.last_prompt_tokens) if agent is not None else 0)


def _tell_anew(tokens: int) -> list[str]:
    return [f"The next request is read anew by the provider: about {tokens:,} tokens."] if tokens else []


def _session_line(info: SessionInfo, here: str) -> str:
    moment = datetime.fromtimestamp(info.updated).strftime("%Y-%m-%d %H:%M")
    elsewhere = "" if info.conversation == here else f" ({spec_of(info.platform).label})"
    return f"{info.id}  {moment}  {info.title or info.preview}{elsewhere}"


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
        "new": start_new,
        "resume": resume,
        "branch": branch,
        "model": model,
        "reasoning": reasoning,
        "usage": usage,
        "compress": compress,
        "tools": tools,
        "mcp": use_prompt,
        "reload-mcp": reload_mcp,
        "undo": undo,
        "retry": retry,
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
