"""Puts together what a turn is given: the agent's model, hands, journal, plugins and settings as its ports."""

from typing import TYPE_CHECKING

from agent.turn.conversation import Conversation
from agent.turn.ports import Ports, TurnFacts
from hermes_base.cancel import CancelToken
from hermes_base.journal import TOOLS
from hermes_base.text.foreign import ForeignText
from hermes_base.tool_context import ToolContext
from hermes_constants import get_hermes_home
from run_agent.hands import AgentHands, tool_names_in
from run_agent.model_port import AgentModel
from run_agent.options import find_own_folder

if TYPE_CHECKING:
    from run_agent import AIAgent


def make_ports(agent: "AIAgent", cancel: CancelToken, facts: TurnFacts, conversation: Conversation) -> Ports:
    settings = agent._settings
    options = agent._options
    redact = agent.redact
    foreign = ForeignText(conversation.marks.seen_by(facts.sender))
    for origin in agent._turn_options.foreign:
        foreign.note(origin)
    context = ToolContext(
        task=facts.task,
        session=facts.session,
        conversation=conversation.conversation,
        turn=facts.turn,
        folder=agent.folder,
        home=get_hermes_home(),
        own=find_own_folder(options),
        person=options.get("person") or "",
        cancel=cancel,
        asker=agent._asker,
        settings=settings,
        redact=redact,
        post_notice=options.get("post_notice"),
        search=options.get("search"),
        send_file=options.get("send_file"),
        tell_model=agent.tell_model,
        window_tokens=agent.context_length,
        foreign=foreign,
    )
    hands = AgentHands(
        hooks=agent._hooks,
        emit=lambda event: agent.emit_progress(event, lambda: agent._turn_id != facts.turn),
        allowed=lambda: tool_names_in(conversation.frozen.get((TOOLS, "neutral"), b"[]")),
        context=context,
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
        redact=redact,
        touch=agent._touch,
        render_part=agent._render_part,
        on_rotated=agent._session_rotated,
        tell_once=agent.tell_once,
        tell_again=agent.tell_again,
        make_spare_engine=agent._make_spare_engine,
        compression_enabled=settings.compression.enabled,
        compress_in_place=settings.compression.in_place,
        cancel=cancel,
        foreign=foreign,
    )
