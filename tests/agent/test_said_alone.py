"""Hooks after a turn and memories hear what people said, without what the house told the model beside it."""

from agent.turn.conversation import said_alone
from hermes_base.turn.journal import Row

SENT = "Hello.\n\nIt is Friday; the folder is /work."


def test_the_text_of_a_person_stands_alone():
    row = Row({"role": "user", "content": SENT}, shown="Hello.")
    assert said_alone(row, dict(row.message)) == {"role": "user", "content": "Hello."}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}
    mixed = Row({"role": "user", "content": [{"type": "text", "text": SENT}, picture]}, shown="Hello.")
    assert said_alone(mixed, dict(mixed.message))["content"] == [{"type": "text", "text": "Hello."}, picture]


def test_every_other_message_is_the_live_one():
    answer, edited = (
        Row({"role": "assistant", "content": "Hi."}),
        Row({"role": "user", "content": SENT}, shown="Hello."),
    )
    for row, message in ((answer, dict(answer.message)), (edited, {"role": "user", "content": "by a plugin"})):
        assert said_alone(row, message) is message
