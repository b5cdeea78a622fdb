"""Asking the person: the answer comes back, silence is a word, an interrupt ends the wait."""

import json
import threading
from typing import Any

import pytest

from hermes_base.chat import Answer, Question
from hermes_base.text.redact import Redactor
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.tool_context import ToolContext
from tools.builtin import clarify_tool
from tools.registry import registry


class Person:
    def __init__(self, text: str, given: bool = True) -> None:
        self.reply = Answer(text, given)
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        return self.reply


class Silent:
    """Knows nothing of turns: it comes back when the test lets it."""

    def __init__(self) -> None:
        self.asked, self.release = threading.Event(), threading.Event()

    def __call__(self, question: Question) -> Answer:
        self.asked.set()
        self.release.wait()
        return Answer("too late")


class Broken:
    def __call__(self, question: Question) -> Answer:
        raise RuntimeError("the line is dead")


def call(args: dict[str, Any], **options: Any) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(registry.dispatch("clarify", args, context=ToolContext(**options)))
    return result


def test_the_answer_comes_back() -> None:
    person = Person("blue")
    asked = {"question": " Which colour? ", "choices": ["red", " blue", "", "red"]}
    assert call(asked, asker=person) == {"answer": "blue"}
    question = person.asked[0]
    assert (question.kind, question.text, question.choices) == ("clarification", "Which colour?", ("red", "blue"))


def test_each_question_has_an_id_of_its_own() -> None:
    person = Person("x")
    for _ in range(2):
        call({"question": "?"}, asker=person)
    assert person.asked[0].id != person.asked[1].id


@pytest.mark.parametrize("asker", [None, Person("", given=False), Person("late", given=False), Person("  ")])
def test_silence_means_go_on_with_a_guess(asker: Any) -> None:
    result = call({"question": "Which?"}, asker=asker)
    assert result["answer"] is None
    assert "best guess" in result["note"]


def test_an_expired_question_is_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clarify_tool, "EXPIRES_SECONDS", 0.05)
    person = Silent()
    assert call({"question": "Which?"}, asker=person)["answer"] is None
    person.release.set()


def test_an_interrupt_ends_the_wait() -> None:
    token, person, box = CancelToken(), Silent(), []
    thread = threading.Thread(target=lambda: box.append(call({"question": "Which?"}, asker=person, cancel=token)))
    thread.start()
    assert person.asked.wait(20)
    token.cancel()
    thread.join(20)
    assert "stopped" in box[0]["error"]
    person.release.set()


def test_a_stopped_turn_asks_nobody() -> None:
    token, person = CancelToken(), Person("x")
    token.cancel()
    assert "stopped" in call({"question": "Which?"}, asker=person, cancel=token)["error"]
    assert person.asked == []


def test_an_asker_that_fails_is_an_error() -> None:
    assert "the line is dead" in call({"question": "Which?"}, asker=Broken())["error"]


def test_secrets_are_neither_asked_nor_answered() -> None:
    """G6."""
    secret = "sk-canary-0123456789"
    person = Person(f"it is {secret}")
    result = call({"question": f"{secret}?", "choices": [secret]}, asker=person, redact=Redactor({"KEY": secret}))
    assert secret not in json.dumps(result) + person.asked[0].text + "".join(person.asked[0].choices)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, "no question"),
        ({"question": " "}, "no question"),
        ({"question": 3}, "no question"),
        ({"question": "x" * 2_001}, "at most 2000"),
        ({"question": "?", "choices": "a, b"}, "list of texts"),
        ({"question": "?", "choices": [1]}, "list of texts"),
        ({"question": "?", "choices": [str(n) for n in range(9)]}, "at most 8 choices"),
        ({"question": "?", "choices": ["x" * 201]}, "at most 8 choices"),
    ],
)
def test_mistakes_are_sentences(args: dict[str, Any], words: str) -> None:
    person = Person("x")
    assert words in call(args, asker=person)["error"]
    assert person.asked == []
