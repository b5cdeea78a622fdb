"""A summary of a conversation, by the model in use: tried again, and by others, as any call of a turn is."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent import auxiliary_client
from agent.formats.reply import Reply
from agent.turn import rules
from hermes_base.cancel import CancelToken
from hermes_base.errors import ModelFailure
from hermes_base.journal import UsageRow
from run_agent.model_port import AgentModel

if TYPE_CHECKING:
    from run_agent import AIAgent


def summarise(agent: "AIAgent", request: str, max_tokens: int, cancel: CancelToken) -> str:
    """The text that the model writes; raises ModelFailure when nobody could write it, and Interrupted."""
    call = auxiliary_client.AuxiliaryCall([{"role": "user", "content": request}], "compression", max_tokens)
    plan = rules.reach_model(rules.TurnLimits())
    outcome: Any = None
    while True:
        cancel.check()
        try:
            step = plan.send(outcome)
        except StopIteration as end:
            if isinstance(end.value, Reply):
                return end.value.text
            raise end.value.failure from None
        outcome = _perform(agent, step, call, cancel)


def _perform(agent: "AIAgent", step: rules.Step, call: auxiliary_client.AuxiliaryCall, cancel: CancelToken) -> Any:
    """The steps of the rules as far as a call beside the conversation has them."""
    match step:
        case rules.CallModel():
            patience = step.find_patience(time.monotonic(), AgentModel(agent).could_switch)
            return _ask(agent, replace(call, patience=patience), cancel)
        case rules.SwitchProvider(failure):
            return AgentModel(agent).switch(failure)
        case rules.RecoverTransport(failure):
            return AgentModel(agent).recover(failure, cancel)
        case rules.Pause(seconds):
            return cancel.pause(seconds)
    return False  # what is asked for a summary cannot be made shorter


def _ask(agent: "AIAgent", call: auxiliary_client.AuxiliaryCall, cancel: CancelToken) -> Reply | ModelFailure:
    """One try, charged to the conversation."""

    def charge(row: UsageRow) -> None:
        agent.journal.charge([replace(row, turn=agent._turn_id)])

    try:
        return auxiliary_client.complete(agent.runtime, agent.ensure_client(), call, charge, cancel)
    except ModelFailure as failure:
        return failure
