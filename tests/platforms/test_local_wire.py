"""What is told over the socket is what comes out at its other end."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.calls import write_events
from gateway.http.page.files import FileShelf
from gateway.http.page.views import describe_event
from gateway.platforms.face import Begun, Titled
from hermes_base import local_wire as wire
from hermes_base.chat import Event, Notice, ReasoningDelta, TextDelta, TextEnded, ToolEnded, ToolStarted

_TEXT = st.text(max_size=20)
_EVENTS = st.one_of(
    st.builds(TextDelta, _TEXT),
    st.builds(ReasoningDelta, _TEXT),
    st.builds(TextEnded, st.booleans()),
    st.builds(ToolStarted, _TEXT, _TEXT, _TEXT),
    st.builds(ToolEnded, _TEXT, _TEXT, st.booleans(), st.floats(0, 1e6), _TEXT),
    st.builds(Notice, _TEXT, _TEXT),
)


@given(_EVENTS)
def test_what_happens_is_read_as_it_was(event: Event) -> None:
    """C7: one vocabulary, which the terminal reads back into the events of a turn."""
    written = write_events(describe_event(event, FileShelf(Path("/nowhere"), lambda: 0)))
    assert written.startswith(b"data: ")
    assert written.endswith(b"\n\n")
    assert written.count(b"\n") == 2
    assert wire.read_told(json.loads(written[len(b"data: ") :])) == wire.Happened(event)


@pytest.mark.parametrize("event", [Begun((1,)), Titled("s", "title")])
def test_what_is_for_pages_alone_is_left_out(event: Begun | Titled) -> None:
    (told,) = describe_event(event, FileShelf(Path("/nowhere"), lambda: 0))
    assert wire.read_told(told) is None


@given(st.integers(1, 300))
def test_every_home_has_a_socket_that_fits(length: int) -> None:
    path = wire.socket_path(Path("/" + "x" * length))
    assert len(os.fsencode(path)) <= 100
    assert path.suffix == ".sock"
