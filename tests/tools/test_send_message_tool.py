"""`send_message`: when a person is asked, what they are shown, and what the model is told."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hermes_base.chat import Answer, Question
from hermes_base.errors import ToolFailure
from hermes_base.inbound import Address, FileRef
from hermes_base.text.foreign import NETWORKED, ForeignText
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.messaging import MessageSent, MessageTarget
from hermes_base.turn.tool_context import ToolContext
from tools.builtin.send_message_tool import TOOLSET, send_message
from tools.registry import registry
from tools.toolsets import GATEWAY_TOOLSETS, tool_names

HOME = MessageTarget("home", Address("app", "bot", "1"), "p-1", "Ann", own=True)
OPEN_HOME = replace(HOME, address=Address("app", "bot", "2", "group"))
BEN = MessageTarget("p-2", Address("app", "bot", "3"), "p-2", "Ben")
ROOM = MessageTarget("app:4", Address("app", "bot", "4", "group"))
OWN_HOOK = replace(HOME, name="hook:main", address=Address("hook", "alarm", "main"), is_program=True)
HERE = replace(ROOM, here=True)
FOREIGN = (NETWORKED,)


@dataclass
class Postman:
    """A messenger that knows one target."""

    target: MessageTarget
    sent: list[tuple[str, str]] = field(default_factory=list)
    result: MessageSent = field(default_factory=lambda: MessageSent(True))

    def targets(self) -> Sequence[MessageTarget]:
        return [self.target]

    def find(self, to: str) -> MessageTarget:
        if to != self.target.name:
            raise ToolFailure("There is nobody of that name.")
        return self.target

    def compose(self, target: MessageTarget, text: str, origins: Sequence[str]) -> str:
        del origins
        return f"From Ann: {text}" if target.is_read_by_others else text

    def send(
        self,
        target: MessageTarget,
        text: str,
        file: tuple[FileRef, bytes] | None,
        origins: Sequence[str],
        cancel: CancelToken,
    ) -> MessageSent:
        del cancel, origins
        self.sent.append((target.name, text + (f" +{file[0].name}" if file else "")))
        return self.result


class Person:
    def __init__(self, says: str) -> None:
        self.says, self.asked = says, list[Question]()

    def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer(self.says)


def call(target: MessageTarget, foreign: Sequence[str] = (), says: str = "approve", **args: Any) -> Any:
    postman, person = Postman(target), Person(says)
    context = ToolContext(messenger=postman, asker=person, foreign=ForeignText(foreign), redact=lambda t: t)
    given = {"to": target.name, "message": "the cake is done", **args}
    return json.loads(registry.dispatch("send_message", given, context=context)), postman, person


@pytest.mark.parametrize(
    ("target", "foreign", "asks"),
    [
        (HOME, (), False),
        (HOME, FOREIGN, False),  # to oneself alone
        (OPEN_HOME, (), True),  # a group is others
        (OPEN_HOME, FOREIGN, True),
        (OWN_HOOK, (), False),
        (OWN_HOOK, FOREIGN, True),  # a program reads it, although it speaks as the person
        (BEN, (), True),
        (BEN, FOREIGN, True),
        (ROOM, (), True),
        (HERE, FOREIGN, False),  # it does not leave the conversation
    ],
)
def test_when_a_person_is_asked(target: MessageTarget, foreign: Sequence[str], asks: bool) -> None:
    """G9."""
    told, postman, person = call(target, foreign)
    assert bool(person.asked) is asks
    assert told["status"] == "delivered"
    assert len(postman.sent) == 1
    if asks:
        told, postman, person = call(target, foreign, says="deny")
        assert "did not agree" in told["error"]
        assert postman.sent == []


def test_what_is_shown_is_what_is_sent() -> None:
    """G4, G9: the id, the place and the whole text, and why it is asked."""
    _, postman, person = call(BEN, FOREIGN)
    (question,) = person.asked
    assert question.kind == "confirmation"
    assert question.text.startswith("Send a message to p-2 (Ben), in app 3:\n\n")
    assert postman.sent[0][1] in question.text
    assert NETWORKED in question.reason


def test_nobody_to_ask_is_a_no() -> None:
    postman = Postman(BEN)
    with pytest.raises(ToolFailure, match="did not agree"):
        send_message({"to": "p-2", "message": "x"}, context=ToolContext(messenger=postman))
    assert postman.sent == []


def test_a_file_is_shown_and_sent(tmp_path: Path) -> None:
    """G7: resolved and read before anybody is asked."""
    (tmp_path / "plan.txt").write_text("dig")
    postman, person = Postman(BEN), Person("approve")
    context = ToolContext(messenger=postman, asker=person, folder=str(tmp_path), home=tmp_path / "home")
    send_message({"to": "p-2", "file": "plan.txt"}, context=context)
    assert f"{tmp_path / 'plan.txt'} (3 bytes)" in person.asked[0].text
    assert postman.sent[0][1].endswith("+plan.txt")


def test_stored_is_not_called_delivered() -> None:
    postman = Postman(HOME, result=MessageSent(False, "It waits."))
    told = json.loads(send_message({"to": "home", "message": "x"}, context=ToolContext(messenger=postman)))
    assert (told["status"], told["note"]) == ("stored, not delivered yet", "It waits.")


def test_the_list_says_what_asks_first() -> None:
    for target, asks in ((HOME, False), (BEN, True)):
        told = json.loads(send_message({"action": "list"}, context=ToolContext(messenger=Postman(target))))
        assert ("asks_first" in told["targets"][0]) is asks


def test_without_a_gateway_there_is_no_such_tool() -> None:
    with pytest.raises(ToolFailure, match="no gateway"):
        send_message({"to": "home", "message": "x"}, context=ToolContext())
    assert TOOLSET in GATEWAY_TOOLSETS
    assert "send_message" in tool_names(registry, ["hermes-cli"])
    assert "send_message" not in tool_names(registry, ["hermes-cli"], GATEWAY_TOOLSETS)
