"""Questions of Hermes as an editor asks them: just the choices that were offered, and what each answers. Pure."""

from collections.abc import Mapping
from types import MappingProxyType

from acp import schema

from hermes_base.chat import Question
from hermes_base.turn.consent import ALWAYS, APPROVE, CONVERSATION, DENY, find_language, is_consent, label_choices
from hermes_cli.acp.tool_shapes import fence, make_text

_KINDS: Mapping[str, schema.PermissionOptionKind] = MappingProxyType(
    {APPROVE: "allow_once", DENY: "reject_once", CONVERSATION: "allow_always", ALWAYS: "allow_always"}
)
#: What is answered when the editor gave no choice: nobody has agreed.
NO_ANSWER = ""
NONE_OF_THEM = "none"


def is_typed(question: Question) -> bool:
    """Whether only a text answers it: an editor has no window for that, so the next prompt does."""
    return not question.choices


def list_options(question: Question) -> list[schema.PermissionOption]:
    """What is no consent has a way out, too."""
    consent = is_consent(question.kind, question.choices)
    labels = label_choices(question.kind, question.choices)
    options = [
        schema.PermissionOption(option_id=id, name=label, kind=_KINDS[choice] if consent else "allow_once")
        for (id, choice), label in zip(_name_choices(question).items(), labels, strict=True)
    ]
    if consent:
        return options
    return [*options, schema.PermissionOption(option_id=NONE_OF_THEM, name="None of these", kind="reject_once")]


def read_outcome(question: Question, answered: schema.RequestPermissionResponse) -> str:
    """The answer that was chosen; none for what was never offered."""
    outcome = answered.outcome
    chosen = outcome.option_id if isinstance(outcome, schema.AllowedOutcome) else NONE_OF_THEM
    return _name_choices(question).get(chosen, NO_ANSWER)


def _name_choices(question: Question) -> dict[str, str]:
    """The choices by their ids; those that a model made up by number, since their words may be anything."""
    consent = is_consent(question.kind, question.choices)
    return {choice if consent else str(number): choice for number, choice in enumerate(question.choices, 1)}


def describe(question: Question, call: str, *, known: bool) -> schema.ToolCallUpdate:
    """The question on the call of a tool, which is what editors show one on; `known`: they show that call already."""
    title, _, rest = question.text.partition("\n")
    shown = fence(question.text, find_language(question.text)) if question.kind == "approval" else question.text
    parts = [shown if rest or known or question.kind == "approval" else "", question.reason]
    return schema.ToolCallUpdate(
        tool_call_id=call,
        title=None if known else title,
        status="pending",
        content=[make_text(part) for part in parts if part],
    )


def begin(shown: schema.ToolCallUpdate) -> schema.ToolCallStart:
    """A question that belongs to no call that the editor shows, or to nobody knows which."""
    return schema.ToolCallStart(
        session_update="tool_call",
        tool_call_id=shown.tool_call_id,
        title=shown.title or "",
        kind="other",
        status="pending",
        content=shown.content,
    )


def end(call: str, *, known: bool, agreed: bool) -> schema.ToolCallProgress:
    """The call goes on, or what stood for the question is over."""
    status: schema.ToolCallStatus = "in_progress" if known else "completed" if agreed else "failed"
    return schema.ToolCallProgress(session_update="tool_call_update", tool_call_id=call, status=status)
