"""Our own name at the beginning of what is said in a group, where nobody says how it was written."""

from typing import Any

import pytest

from hermes_base.inbound import Address, Inbound
from hermes_base.text.own_name import drop_guessed_name

DM, ROOM = Address("app", "bot", "1"), Address("app", "bot", "2", "group")


def read(text: str, **more: Any) -> str:
    return drop_guessed_name(
        Inbound(**{"address": ROOM, "message": "1", "sender": "s", "mentioned": True, **more, "text": text})
    ).text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("@bot yes", "yes"),
        (" @bot: /stop", "/stop"),
        ("<@123> yes", "yes"),
        ("<@!123>, the red one of me@example.org", "the red one of me@example.org"),
        ("@bot", "@bot"),
        ("hello @bot", "hello @bot"),
        ("@ann yes, says @bot", "@ann yes, says @bot"),
        ("@bot ask @ann", "@bot ask @ann"),
        ("yes", "yes"),
        ("", ""),
    ],
)
def test_one_name_at_the_beginning_is_ours(text: str, told: str) -> None:
    """C3, G4: where two are named it is not sure who is meant, and nothing is dropped."""
    assert read(text) == told


@pytest.mark.parametrize("more", [{"address": DM}, {"mentioned": False}, {"reply_to": "7"}, {"forwarded": True}])
def test_where_another_may_be_named_nothing_is_dropped(more: dict[str, Any]) -> None:
    """G4: a reply speaks to us whomever it names, so its name may be somebody else's."""
    assert read("@ann yes", **more) == "@ann yes"
