"""A slash command at work, as what performs it sees it, and what it has to say."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from gateway.core.bursts import Item
from gateway.turns.agent_builder import AgentPlan, Choices
from gateway.turns.run_turn import Again, GatewayParts, Job, LiveTurn, TurnPerformer, hold_agent
from hermes_base.chat import Question
from hermes_base.errors import ConfigProblem
from hermes_base.inbound import NOTE, Outgoing
from hermes_base.turn.journal import TurnEnd
from hermes_state.turns import BegunTurn
from run_agent import AIAgent


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


def tell_who_answers(scene: CommandScene) -> list[str]:
    """A choice ended: who answers now, or why nobody can, which is no reason to leave the rest undone."""
    ended = "What was chosen for the old one ended with it"
    try:
        return [f"{ended}; {scene.plan(needs_model=True).runtime.model} answers here."]
    except ConfigProblem as problem:
        return [f"{ended}. Nobody answers here now: {problem}"]


def tell_cost(scene: CommandScene) -> list[str]:
    """A12: what the next request costs because the cached prefix is given up."""
    agent = scene.parts.runner.cached_agent(scene.key)
    return tell_anew(max(0, agent.context_compressor.last_prompt_tokens) if agent is not None else 0)


def tell_anew(tokens: int) -> list[str]:
    return [f"The next request is read anew by the provider: about {tokens:,} tokens."] if tokens else []
