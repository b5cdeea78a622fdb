"""How much a model of the Messages format may write in one answer, as documented by its maker, and how it is told how
long to think: a budget on older models, an effort on newer ones, as data.

A model refuses the form that is not its own, and some cannot stop thinking at all.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
_LIMITS = tuple((re.compile(pattern), limit) for pattern, limit in OUTPUT_LIMITS)


def plain_name(model: str) -> str:
    """A model's name as the tables write it: providers differ in case and in dots or dashes."""
    return model.lower().replace(".", "-")


def find_output_limit(model: str) -> int:
    """The most that the model can write in one answer, thinking included."""
    name = plain_name(model)
    return next((limit for pattern, limit in _LIMITS if pattern.search(name)), UNKNOWN_LIMIT)


def usual_output_limit(model: str) -> int:
    """What is asked for when nobody set a limit."""
    return min(find_output_limit(model), USUAL_LIMIT)


#: Tokens to think with, by effort, where a budget is asked for. The format takes none below the first one.
BUDGETS: Mapping[str, int] = {"minimal": 1_024, "low": 4_096, "medium": 10_240, "high": 24_576}
#: The efforts of the models that choose themselves how long to think.
EFFORTS: Mapping[str, str] = {"minimal": "low", "low": "low", "medium": "medium", "high": "high"}
#: Left for the answer itself beside the budget.
ANSWER_ROOM = 4_096

_DISABLED: Mapping[str, Any] = {"thinking": {"type": "disabled"}}
_BETWEEN_TOOLS: Mapping[str, Any] = {"thinking": {"type": "between_tools"}}
_LOW_EFFORT: Mapping[str, Any] = {"output_config": {"effort": "low"}}


@dataclass(frozen=True, slots=True)
class ThinkingWay:
    """What a family of models takes; `least` is what makes it think as little as it can."""

    least: Mapping[str, Any]
    takes_effort: bool = False
    takes_budget: bool = False


#: The first pattern that is found in the model's name wins. Source: the documentation of thinking and of each model,
#: platform.claude.com.
WAYS: tuple[tuple[str, ThinkingWay], ...] = (
    (r"claude-(fable|mythos|opus-5-5)", ThinkingWay(_LOW_EFFORT, takes_effort=True)),
    (r"claude-sonnet-5-5", ThinkingWay(_BETWEEN_TOOLS, takes_effort=True)),
    (r"claude-(opus|sonnet|haiku)-5", ThinkingWay(_DISABLED, takes_effort=True)),
    (r"claude-(opus|sonnet)-4-[678](?!\d)", ThinkingWay({}, takes_effort=True)),  # do not think unless told to
    (r"claude-(3-7|(opus|sonnet|haiku)-4)", ThinkingWay(_DISABLED, takes_budget=True)),
    (r"claude-(3|2|instant)", ThinkingWay({})),
    (r"claude", ThinkingWay(_LOW_EFFORT, takes_effort=True)),
)
_WAYS = tuple((re.compile(pattern), way) for pattern, way in WAYS)
#: Others who speak this format copied it when it had budgets only.
_OTHERS = ThinkingWay(_DISABLED, takes_budget=True)


def make_thinking(model: str, effort: str, max_tokens: int) -> dict[str, Any]:
    """The fields of a request that ask for this effort, `max_tokens` among them where it has to be raised."""
    name = plain_name(model)
    way = next((way for pattern, way in _WAYS if pattern.search(name)), _OTHERS)
    if effort == "none":
        return dict(way.least)
    if way.takes_effort and effort in EFFORTS:
        # Without a word on it, the newer models keep their thoughts to themselves.
        shown = {"type": "adaptive", "display": "summarized"}
        return {"thinking": shown, "output_config": {"effort": EFFORTS[effort]}}
    if way.takes_budget and effort in BUDGETS:
        # Thinking counts as output, so the limit grows with it as far as the model goes; then the budget gives way.
        budget = BUDGETS[effort]
        limit = max(max_tokens, min(find_output_limit(model), budget + ANSWER_ROOM))
        fitting = min(budget, max(BUDGETS["minimal"], limit - ANSWER_ROOM))
        return {"max_tokens": limit, "thinking": {"type": "enabled", "budget_tokens": fitting}}
    return {}
