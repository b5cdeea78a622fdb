"""Agents on the lab server."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hermes_base.chat import Answer, Question
from hermes_base.turn.hooks import NoHooks
from hermes_lab.server import LabServer
from run_agent import AIAgent
from tools.registry import registry

MakeAgent = Callable[..., AIAgent]


@pytest.fixture
def make_agent(lab: LabServer) -> Iterator[MakeAgent]:
    """Builds agents that speak with the lab server; closes them at the end."""
    made: list[AIAgent] = []

    def make(**options: Any) -> AIAgent:
        options = {
            "base_url": lab.base_url,
            "model": "lab-model",
            "api_key": "lab-key-12345678",
            "skip_context_files": True,
            "hooks": NoHooks(),
            "enabled_toolsets": ["lab-tools"],
            **options,
        }
        made.append(AIAgent(**options))
        return made[-1]

    yield make
    for agent in made:
        agent.close()


@pytest.fixture
def tool() -> Iterator[Callable[..., None]]:
    """Registers tools for one test: `tool("name", handler)`."""
    names: list[str] = []

    def register(name: str, handler: Callable[..., Any]) -> None:
        schema = {"description": name, "parameters": {"type": "object", "properties": {}}}
        registry.register(name, "lab-tools", schema, handler)
        names.append(name)

    yield register
    for name in names:
        registry.deregister(name)


class Person:
    """Answers every question with the same word and keeps what was asked."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer(self.word)
