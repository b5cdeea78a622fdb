"""A question as a chat reads it: what is asked, exactly; why; and how to answer."""

import re

from hermes_base.consent import WITH_A_WORD, describe_ways, find_language, is_consent
from hermes_base.inbound import Outgoing

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
    elif is_consent(kind, choices):
        lines.append(f"(Typed: {WITH_A_WORD}.)")
    return "\n\n".join(line for line in lines if line)


def fence(code: str, language: str) -> str:
    """A block of code that nothing in the code ends."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}{language}\n{code}\n{marks}"
