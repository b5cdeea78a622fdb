"""What a gateway tells the others of itself, by names and hashes alone, and in what they differ. Pure."""

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hermes_base.inbound import as_fields
from hermes_state.turns import NodeRow

#: How well a gateway can answer, by what the settings name: with nobody, with somebody who stands in, or as they say.
BY_NOBODY, BY_ANOTHER, AS_NAMED = 0, 1, 2
LACKS_KEY = {
    BY_ANOTHER: "{who} lacks {keys}: a fallback answers there, so other gateways take the conversations.",
    BY_NOBODY: "{who} lacks {keys}: nobody can answer there, so other gateways take the conversations.",
}


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Values of keys are not among them, nor hashes of such values."""

    serves: int = AS_NAMED
    providers: Sequence[str] = ()  # whose key is set
    model: str = ""  # who answers
    lacks: Sequence[str] = ()  # variables of keys that its model and the fallbacks need
    keys: Sequence[str] = ()  # names of the variables in `.env`, and of keys in the environment
    settings: Mapping[str, str] = field(default_factory=dict)  # what is not the default: key -> hash
    plugins: Mapping[str, str] = field(default_factory=dict)  # enabled ones: name -> hash of the code; empty: not there
    platforms: Sequence[str] = ()  # accounts of chat apps that could be made
    problem: str = ""  # with the settings

    def write(self) -> str:
        return json.dumps(as_fields(self), sort_keys=True)


def read_facts(text: str) -> NodeFacts | None:
    """None: a gateway of another version tells nothing that is understood here."""
    try:
        given: dict[str, Any] = json.loads(text)
        known = {name: value for name, value in given.items() if name in NodeFacts.__dataclass_fields__}
        return replace(NodeFacts(), **known)
    except (ValueError, TypeError, AttributeError):
        return None


def name_node(node: NodeRow) -> str:
    return node.address or f"node {node.id}"


def list_differences(nodes: Sequence[NodeRow]) -> list[str]:
    """A sentence for each, with the gateways by their addresses."""
    facts = {name_node(node): found for node in nodes if (found := read_facts(node.facts)) is not None}
    return list(_compare(facts))


def _compare(facts: Mapping[str, NodeFacts]) -> Iterator[str]:
    for who, own in facts.items():
        if own.problem:
            yield f"{who} has other settings than it was told: {own.problem}"
    yield from describe_lacks(facts)
    if len(facts) < 2:
        return
    told = {key for own in facts.values() for key in own.lacks}
    for name, (there, not_there) in _split({who: own.keys for who, own in facts.items()}):
        if name not in told:
            yield f"The key {name} is set at {there}, and not at {not_there}."
    for name, (there, not_there) in _split({who: own.platforms for who, own in facts.items()}):
        yield f"{name} is set up at {there}, and not at {not_there}."
    for name, (there, not_there) in _split({who: own.plugins for who, own in facts.items()}):
        yield f"The plugin {name} is enabled at {there}, and not at {not_there}."
    for name, kinds in _differ({who: own.plugins for who, own in facts.items()}, everywhere=True):
        missing = kinds.pop("", ())
        if missing:
            yield f"The plugin {name} is enabled at {_join(missing)} and not there."
        if len(kinds) > 1:
            yield f"The plugin {name} has other code at {_oppose(kinds.values())}."
    for name, kinds in _differ({who: own.settings for who, own in facts.items()}, everywhere=False):
        yield f"{name} is set otherwise at {_oppose(kinds.values())}."
    if not told:
        for _, kinds in _differ({who: {"model": own.model} for who, own in facts.items()}, everywhere=True):
            yield "Who answers differs: " + "; ".join(f"{model} at {_join(who)}" for model, who in kinds.items()) + "."


def describe_lacks(facts: Mapping[str, NodeFacts]) -> Iterator[str]:
    """Who lacks a key that the model or a fallback needs."""
    best = max((own.serves for own in facts.values()), default=AS_NAMED)
    for who, own in facts.items():
        if own.lacks and own.serves < best:
            yield LACKS_KEY[own.serves].format(who=who, keys=", ".join(own.lacks))
        elif own.lacks:
            yield f"{who} lacks {', '.join(own.lacks)}, which the model or a fallback needs."


# --- who has what


def _split(had: Mapping[str, Iterable[str]]) -> Iterator[tuple[str, tuple[str, str]]]:
    """What some have and some have not."""
    sets = {who: set(names) for who, names in had.items()}
    for name in sorted(set().union(*sets.values())):
        there = [who for who, names in sets.items() if name in names]
        if len(there) < len(sets):
            yield name, (_join(there), _join(who for who in sets if who not in there))


def _differ(had: Mapping[str, Mapping[str, str]], *, everywhere: bool) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """What is not the same: its values, each with who has it. With `everywhere`, of what all have."""
    for name in sorted(set().union(*had.values())):
        kinds = _group(had, lambda own, name=name: own.get(name))  # type: ignore[misc]
        if None in kinds and everywhere:
            continue
        if len(kinds) > 1:
            yield name, {str(value or ""): who for value, who in kinds.items()}


def _group(
    had: Mapping[str, Mapping[str, str]], find: Callable[[Mapping[str, str]], Hashable]
) -> dict[Hashable, list[str]]:
    kinds: dict[Hashable, list[str]] = {}
    for who, own in had.items():
        kinds.setdefault(find(own), []).append(who)
    return kinds


def _join(names: Iterable[str]) -> str:
    return ", ".join(names)


def _oppose(groups: Iterable[Sequence[str]]) -> str:
    return " than at ".join(map(_join, groups))
