"""Which keywords somebody else's function takes: those that it names, or, with `**anything`, all of them."""

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

_PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class CallForm(NamedTuple):
    """The name of a catch-all (`*args`, `**context`) is no parameter that could be given."""

    named: frozenset[str]
    takes_all: bool
    positional: float = 0  # how many values it takes without a name; with `*args` any number

    def choose(self, offered: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the offered keywords that the function takes."""
        return {name: value for name, value in offered.items() if self.takes_all or name in self.named}


def read_call_form(call: Callable[..., Any]) -> CallForm | None:
    """None: it does not say what it takes."""
    try:
        parameters = inspect.signature(call).parameters
    except (TypeError, ValueError):
        return None
    named = frozenset(name for name, parameter in parameters.items() if parameter.kind in _NAMED)
    kinds = [parameter.kind for parameter in parameters.values()]
    positional = math.inf if inspect.Parameter.VAR_POSITIONAL in kinds else sum(kind in _PLACED for kind in kinds)
    return CallForm(named, inspect.Parameter.VAR_KEYWORD in kinds, positional)
