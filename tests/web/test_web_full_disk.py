"""A store that takes nothing any more in mid-turn: whoever looks on is told."""

from typing import Any

import pytest
from web_house import WebHouse

from gateway.turns import lane
from hermes_base.errors import StoreFailure


def test_who_looks_on_is_told_what_the_store_does_not_take(web: WebHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """F7, H8: the disk is full when the answer is to be stored, and a note on that does not fit either."""
    monkeypatch.setattr(lane, "LONGEST_BACK_OFF", 0.5)
    visitor, turns = web.visit(), web.gateway.turns
    conversation = visitor.open()
    page = visitor.watch(conversation)

    def refuse(*_: Any, **__: Any) -> None:
        raise StoreFailure("The store cannot grow: the disk is full.", kept="What was stored before is safe.")

    with monkeypatch.context() as full:
        full.setattr(turns, "complete", refuse)
        full.setattr(turns, "post", refuse)
        visitor.say(conversation, "[[say hello]]")
        told = page.wait_for("notice")["text"]
    assert "could not be answered" in told
    assert "the disk is full" in told
    page.wait_until(lambda state: "hello" in state.texts())
