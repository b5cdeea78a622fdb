"""Keys of conversations: what is made can be read, and no two conversations share one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_base.conversation_key import ConversationKey, parse_key
from hermes_base.errors import HermesError

PARTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12).filter(lambda part: part != "main")
KEYS = st.builds(ConversationKey, PARTS, PARTS, PARTS, PARTS, st.none() | PARTS)


@given(KEYS)
def test_a_key_is_read_back_as_it_was_made(key: ConversationKey) -> None:
    assert parse_key(str(key)) == key


@given(KEYS, KEYS)
def test_different_conversations_have_different_keys(one: ConversationKey, other: ConversationKey) -> None:
    assert (str(one) == str(other)) == (one == other)


def test_the_default_profile_is_written_main() -> None:
    assert str(ConversationKey("default", "telegram", "dm", "42")) == "agent:main:telegram:dm:42"
    assert str(ConversationKey("work", "slack", "channel", "C1", "1.2")) == "agent:work:slack:channel:C1:1.2"


@pytest.mark.parametrize("text", ["", "agent", "agent:a:b:c", "robot:a:b:c:d", "agent:a:b:c:d:e:f"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(HermesError, match="not the key"):
        parse_key(text)
