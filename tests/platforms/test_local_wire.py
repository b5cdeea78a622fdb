"""The lines of the local socket: each value survives the wire, and whatever comes in is read or refused."""

import json
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_base import local_wire as wire

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
mappings = st.dictionaries(words, st.none() | st.booleans() | words | st.lists(st.integers(0, 9)), max_size=3)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: words,
    bool: st.booleans(),
    int: st.integers(-(2**62), 2**62),
    float: st.floats(allow_nan=False, allow_infinity=False),
    Mapping[str, Any]: mappings,
}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of this type."""
    if hint in SCALARS:
        return SCALARS[hint]
    if get_origin(hint) is tuple:
        return st.lists(values(get_args(hint)[0]), max_size=3).map(tuple)
    if is_dataclass(hint):
        return st.builds(hint, **{place.name: values(place.type) for place in fields(hint)})
    return st.one_of([st.none() if one is NoneType else values(one) for one in get_args(hint)])


@pytest.mark.parametrize("made", wire.FROM_CLIENT.values(), ids=lambda made: made.__name__)
@given(data=st.data())
def test_what_a_client_says_survives(made: type, data: st.DataObject) -> None:
    message = data.draw(values(made))
    line = wire.encode(message)
    assert line.count(b"\n") == 1
    assert wire.decode_from_client(line) == message


@pytest.mark.parametrize("made", wire.FROM_GATEWAY.values(), ids=lambda made: made.__name__)
@given(data=st.data())
def test_what_the_gateway_says_survives(made: type, data: st.DataObject) -> None:
    message = data.draw(values(made))
    line = wire.encode(message)
    assert line.count(b"\n") == 1
    assert wire.decode_from_gateway(line) == message


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
names = st.sampled_from(["id", "text", "files", "client", "after", "row", "args", "keys", "question", "name"])


@given(st.binary(max_size=60) | st.builds(lambda value: json.dumps(value).encode(), plain))
def test_any_bytes_are_read_or_refused(line: bytes) -> None:
    with pytest.raises(wire.WireProblem):
        wire.decode_from_client(line)


@given(st.sampled_from(sorted(wire.FROM_CLIENT)), st.dictionaries(names, plain, max_size=5))
def test_any_object_is_read_or_refused(word: str, given_fields: dict[str, Any]) -> None:
    line = json.dumps({**given_fields, "type": word}).encode()
    try:
        message = wire.decode_from_client(line)
    except wire.WireProblem:
        return
    assert wire.decode_from_client(wire.encode(message)) == message


def test_unknown_fields_are_left_out() -> None:
    """A newer side may say more."""
    assert wire.decode_from_client(b'{"type":"bye","more":{"x":1}}') == wire.Bye()


def test_a_lone_surrogate_is_no_text() -> None:
    """It could be stored by no database."""
    say = wire.decode_from_client(b'{"type":"say","id":"1","text":"a\\ud800b"}')
    assert isinstance(say, wire.Say)
    assert say.text == "a\ufffdb"


def test_a_line_has_a_limit() -> None:
    with pytest.raises(wire.WireProblem, match="limit of a line"):
        wire.encode(wire.Say("1", "x" * wire.MAX_LINE))


@given(st.integers(1, 300))
def test_every_home_has_a_socket_that_fits(length: int) -> None:
    path = wire.socket_path(Path("/" + "x" * length))
    assert len(os.fsencode(path)) <= 100
    assert path.suffix == ".sock"
