"""Decides what the model answers: a plan step first, then the script in the user's text, then an echo."""

import hashlib

from hermes_lab.plan import Plan, PlannedCall, Step
from hermes_lab.script import read_script
from hermes_lab.values import DEFAULT_CHUNK_SIZE, Answer, Ask, Call, Finish

_SHOWN = 200  # characters of a message or tool result that the default answer repeats


def choose_step(ask: Ask, plan: Plan) -> Step:
    return plan.take(ask) or read_script(ask) or Step()


def compose_answer(ask: Ask, step: Step, call_prefix: str) -> Answer:
    """The whole answer of a step; it depends on the request and the step only."""
    calls = tuple(_make_call(ask, number, call, call_prefix) for number, call in enumerate(step.tool_calls))
    return Answer(
        text=_choose_text(ask, step),
        reasoning=step.reasoning if ask.thinks else "",
        hides_reasoning=step.hide_reasoning,
        calls=calls,
        finish=step.finish_reason or (Finish.TOOL_CALLS if calls else Finish.STOP),
        chunks=step.chunks,
        chunk_size=step.chunk_size or DEFAULT_CHUNK_SIZE,
    )


def _choose_text(ask: Ask, step: Step) -> str:
    if step.text is not None:
        return step.text
    if step.tool_calls:
        return ""
    if step.chunks is not None:
        return " ".join(str(number) for number in range(1, step.chunks + 1))
    return _echo(ask)


def _echo(ask: Ask) -> str:
    if ask.results:
        return "\n".join(f"{result.name} returned: {_shorten(result.text)}" for result in ask.results)
    return f"You said: {_shorten(ask.user_text)}"


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def _make_call(ask: Ask, number: int, call: PlannedCall, prefix: str) -> Call:
    made_id = hashlib.sha256(f"{ask.seed} {number}".encode()).hexdigest()[:24]
    return Call(call.id if call.id is not None else f"{prefix}{made_id}", call.name, call.arguments)
