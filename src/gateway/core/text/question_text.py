"""A question as a chat reads it: what is asked, exactly; why; and how to answer."""

import re

from hermes_base.inbound import Outgoing
from hermes_base.turn.consent import describe_named, describe_ways, find_language, is_consent, name_briefly

_TO_THE_LETTER = frozenset({"approval", "confirmation"})


def compose_question(asked: Outgoing, *, has_buttons: bool) -> str:
    """Consent binds to the letter (G4), so no markup may touch what is agreed to: it stands there as code. What a
    model merely wants to know is text."""
    kind, choices = asked.level, asked.choices
    language = find_language(asked.text) if kind == "approval" else ""
    lines = [fence(asked.text, language) if kind in _TO_THE_LETTER else asked.text]
    lines += [f"Why: {asked.reason}"] if asked.reason else []
    if choices and not has_buttons:
        lines.append(describe_ways(kind, choices))
    if is_consent(kind, choices):
        lines.append(_describe_name(asked, has_buttons=has_buttons))
    return "\n\n".join(line for line in lines if line)


def _describe_name(asked: Outgoing, *, has_buttons: bool) -> str:
    """How it is answered by who may mean something else with a word alone (G4)."""
    with_a_word = f"`no {name_briefly(asked.question)}: WORDS` tells the model why"
    if has_buttons:
        return f"(Typed: {with_a_word}.)"
    named = describe_named(asked.question, asked.level, asked.choices)
    return f"If somebody else's turn asks, or more was said since, say which one: {named}; {with_a_word}."


def fence(code: str, language: str) -> str:
    """A block of code that nothing in the code ends."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}{language}\n{code}\n{marks}"
