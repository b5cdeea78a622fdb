"""Puts together what a turn is given: the agent's model, hands, journal, plugins and settings as its ports."""

from typing import TYPE_CHECKING

from agent.conversation import Conversation
from agent.ports import Ports, TurnFacts
from hermes_base.cancel import CancelToken
from hermes_cli import config as cli_config
from run_agent.hands import AgentHands, tool_names_of
from run_agent.model_port import AgentModel

if TYPE_CHECKING:
    from run_agent import AIAgent


def make_ports(agent: "AIAgent", cancel: CancelToken, facts: TurnFacts, conversation: Conversation) -> Ports:
    settings = agent._settings
    hands = AgentHands(
        hooks=agent._hooks,
        emit=agent.emit,
        cancel=cancel,
        allowed=lambda: tool_names_of(conversation),
        session=facts.session,
        task=facts.task,
        folder=agent.folder,
        asker=agent._options.get("asker"),
        approvals=str(cli_config.cfg_get(settings, "approvals", "mode", default="ask")),
        timeout=float(cli_config.cfg_get(settings, "terminal", "timeout", default=120)),
        engine=agent.context_compressor,
        engine_tools=agent._engine_tool_names,
    )
    return Ports(
        model=AgentModel(agent),
        hands=hands,
        journal=agent._journal,
        hooks=agent._hooks,
        engine=agent.context_compressor,
        emit=agent.emit,
        on_text=agent.emit_text,
        on_reasoning=agent.emit_reasoning,
        on_chunk=agent._note_chunk,
        redact=agent._options.get("redact") or cli_config.redactor(),  # today's secrets
        touch=agent._touch,
        render_part=agent._render_part,
        on_rotated=agent._session_rotated,
        compression_enabled=bool(cli_config.cfg_get(settings, "compression", "enabled", default=True)),
        compress_in_place=bool(cli_config.cfg_get(settings, "compression", "in_place", default=False)),
        cancel=cancel,
    )
