"""A question as a chat reads it: what is asked, exactly; why; and how to answer."""

import re

from hermes_base.consent import WITH_A_WORD, describe_ways, find_language, is_consent
from hermes_base.inbound import Outgoing


def compose_question(asked: Outgoing, *, has_buttons: bool) -> str:
    """An approval binds to the letter (G4), so no markup may touch what is approved: it stands there as code."""
    kind, choices = asked.level, asked.choices
    lines = [fence(asked.text, find_language(asked.text)) if kind == "approval" else asked.text]
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
