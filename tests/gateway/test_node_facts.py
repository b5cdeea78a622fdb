"""In what the gateways of a store differ, from what each tells of itself (I4)."""

import json

from gateway.core.shared.node_facts import AS_NAMED, BY_ANOTHER, BY_NOBODY, NodeFacts, list_differences, read_facts
from hermes_state.turns import NodeRow

KEY = "OPENROUTER_API_KEY"


def describe(*facts: NodeFacts | str) -> list[str]:
    """The gateways are at a, b, c, …"""
    texts = (one if isinstance(one, str) else one.write() for one in facts)
    rows = zip("abcdef", texts, strict=False)
    return list_differences([NodeRow(f"n-{who}", "1", who, False, 0.0, 0, 0, facts=text) for who, text in rows])


def test_alike_gateways_and_a_lone_one_have_no_differences() -> None:
    facts = NodeFacts(AS_NAMED, ["openrouter"], "m (OpenRouter)", [], [KEY], {"agent.max_iterations": "1"}, {"p": "2"})
    assert describe(facts) == describe(facts, facts, facts) == describe() == []


def test_a_key_that_is_missing_is_named_once_with_what_follows() -> None:
    has, lacks = NodeFacts(keys=[KEY], model="m"), NodeFacts(BY_NOBODY, lacks=[KEY], model="n")
    assert describe(has, lacks) == [
        f"b lacks {KEY}: nobody can answer there, so other gateways take the conversations."
    ]
    second = NodeFacts(BY_ANOTHER, lacks=[KEY])
    assert describe(has, second) == [
        f"b lacks {KEY}: a fallback answers there, so other gateways take the conversations."
    ]
    assert describe(lacks) == [f"a lacks {KEY}, which the model or a fallback needs."]
    assert describe(lacks, lacks)[1] == f"b lacks {KEY}, which the model or a fallback needs."


def test_other_keys_accounts_plugins_and_settings_are_named_with_who_has_them() -> None:
    one = NodeFacts(
        keys=["X_TOKEN"], settings={"terminal.backend": "1"}, plugins={"p": "1", "q": "1"}, platforms=["telegram:bot"]
    )
    two = NodeFacts(plugins={"q": "2"})
    three = NodeFacts(plugins={"q": ""}, settings={"terminal.backend": "2"})
    assert describe(one, two, three) == [
        "The key X_TOKEN is set at a, and not at b, c.",
        "telegram:bot is set up at a, and not at b, c.",
        "The plugin p is enabled at a, and not at b, c.",
        "The plugin q is enabled at c and not there.",
        "The plugin q has other code at a than at b.",
        "terminal.backend is set otherwise at a than at b than at c.",
    ]


def test_another_model_and_settings_that_are_broken_are_named() -> None:
    assert describe(NodeFacts(model="x"), NodeFacts(model="y", problem="log.level is 7.")) == [
        "b has other settings than it was told: log.level is 7.",
        "Who answers differs: x at a; y at b.",
    ]


def test_a_gateway_that_tells_nothing_that_is_understood_is_left_out() -> None:
    """I5: versions differ; what a newer one tells beside what is known is left out."""
    known = NodeFacts(model="x")
    for text in ("", "[]", "null", '{"serves": ', '"text"'):
        assert read_facts(text) is None or text == ""
        assert describe(known, text) == []
    assert read_facts(json.dumps({"model": "y", "moon": "full"})) == NodeFacts(model="y")
