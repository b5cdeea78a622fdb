"""How much a model may write in one answer, as documented by its maker, and what is asked for unless told otherwise."""

import re

#: Enough for any answer of an agent; a larger limit only makes a runaway answer dearer.
USUAL_LIMIT = 32_000
#: Refused by nobody who is not in the table.
UNKNOWN_LIMIT = 8_192

#: The first pattern that is found in the model's name (dots written as dashes) wins.
OUTPUT_LIMITS: tuple[tuple[str, int], ...] = (
    (r"claude-(fable|mythos)", 128_000),
    (r"claude-(opus|sonnet|haiku)-[5-9]", 128_000),
    (r"claude-opus-4-[678](?!\d)", 128_000),
    (r"claude-(opus|sonnet|haiku)-4-[56](?!\d)", 64_000),
    (r"claude-opus-4", 32_000),
    (r"claude-sonnet-4", 64_000),
    (r"claude-3-7-sonnet", 64_000),
    (r"claude-3-5-(sonnet|haiku)", 8_192),
    (r"claude-(3|2|instant)", 4_096),
    (r"claude", 64_000),
    (r"glm-4-6", 128_000),
    (r"glm-4-5", 96_000),
    (r"deepseek-reasoner", 64_000),
    (r"deepseek", 8_192),
)
_COMPILED = tuple((re.compile(pattern), limit) for pattern, limit in OUTPUT_LIMITS)


def plain_name(model: str) -> str:
    """A model's name as the tables write it: providers differ in case and in dots or dashes."""
    return model.lower().replace(".", "-")


def find_output_limit(model: str) -> int:
    """The most that the model can write in one answer, thinking included."""
    name = plain_name(model)
    return next((limit for pattern, limit in _COMPILED if pattern.search(name)), UNKNOWN_LIMIT)


def usual_output_limit(model: str) -> int:
    """What is asked for when nobody set a limit."""
    return min(find_output_limit(model), USUAL_LIMIT)
