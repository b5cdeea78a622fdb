"""C7, C9, C10: whatever happens to a turn, everybody who shows it shows what the transcript has, once.

A case is a turn: its model calls, each with the tries that break off before the good one, and what a person does in the
middle of it. It is played on a real gateway, and compared are the terminal (screen, letters, pipe), the page, the API
(streamed and whole), the chat with its draft, the outbox and the transcript.
"""

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from onlookers import EveryHouse, Terminals, check_page, squeeze
from openai import APIError
from waiting import wait_until

from agent.providers.health import health
from gateway.core.drafts import UNFINISHED
from gateway.platforms.pretend.service import CLOSED_AFTER, CLOSED_BEFORE
from hermes_lab.server import LabServer

CHAT, PAGE, TERMINAL, API = "chat", "page", "terminal", "api"
STOP, STEER = "stop", "steer"
CHUNKS = 8
TOOL = {"name": "todo", "arguments": {"action": "list"}}
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Try:
    """One try of a model call that breaks off: after so many pieces, or with an error in the stream, or at once."""

    kind: str
    pieces: int
    same: bool  # it began as the good one does

    @property
    def fault(self) -> dict[str, Any]:
        name = {"cut": "cut_after_chunks", "error": "error_after_chunks"}.get(self.kind)
        return {name: self.pieces} if name else {"status": 503}


@dataclass(frozen=True)
class Call:
    tries: tuple[Try, ...]
    words: tuple[str, ...]
    gap: str


@dataclass(frozen=True)
class Case:
    calls: tuple[Call, ...]  # all but the last one call a tool
    origin: str  # who asks
    act: str  # what is done while the first text comes
    dies: bool  # the last call fails for good
    troubles: tuple[str, ...]  # of the chat service


TRIES = st.builds(Try, st.sampled_from(["cut", "error", "status"]), st.integers(1, CHUNKS - 2), st.booleans())
WORDS = st.lists(st.sampled_from(["amber", "*bold*", "`code`", "😀", "e\u0301", "[x](y)", "# head", "<b>"]), min_size=4)
CALLS = st.builds(Call, st.lists(TRIES, max_size=2).map(tuple), WORDS.map(tuple), st.sampled_from([" ", " ", "\n"]))
CASES = st.builds(
    Case,
    st.lists(CALLS, min_size=1, max_size=3).map(tuple),
    st.sampled_from([CHAT, PAGE, TERMINAL, API]),
    st.sampled_from(["", "", "", STOP, STEER]),
    st.sampled_from([False, False, False, True]),
    st.lists(st.sampled_from(["", CLOSED_BEFORE, CLOSED_AFTER]), max_size=4).map(tuple),
)


def plan(case: Case, word: str) -> list[dict[str, Any]]:
    """The steps of the model server. Every text has an end of its own, so it is found where it stands."""
    steps: list[dict[str, Any]] = []
    slow = {"stall_between": 0.03} if case.act else {}
    for place, call in enumerate(case.calls):
        last = place == len(case.calls) - 1
        text = f"§{word}-{place}{call.gap}{call.gap.join(call.words)}{call.gap}end-{place}"
        for each in call.tries:
            begun = text if each.same else f"other {text[1:]}"
            steps.append({"text": begun, "chunks": CHUNKS, "fault": each.fault, **slow})
        fault = {"fault": {"cut_after_chunks": 3}} if last and case.dies else {}
        steps.append({"text": text, "chunks": CHUNKS, **slow, **fault, **({} if last else {"tool_calls": [TOOL]})})
    if case.dies:
        steps.append({"fault": {"status": 401}, "times": 4})
    steps.append({"text": f"§{word} steered, end-s", "chunks": CHUNKS, "times": 0})
    return [{**step, "contains": f"{word}?"} for step in steps]  # a case before may still be asking


class Program(threading.Thread):
    """A client of OpenAI that reads its answer as a stream, and then whole: the second request repeats the first."""

    def __init__(self, house: EveryHouse, key: str, text: str) -> None:
        super().__init__(daemon=True)
        headers = {"X-Hermes-Conversation": key, "Idempotency-Key": key}
        self._ask = {"model": "hermes", "messages": [{"role": "user", "content": text}], "extra_headers": headers}
        self._client = house.client(max_retries=0)
        self.streamed = ""
        self.whole = ""
        self.problems: list[str] = []

    def run(self) -> None:
        create = self._client.chat.completions.create
        try:
            for chunk in create(**self._ask, stream=True):
                self.streamed += chunk.choices[0].delta.content or ""
        except APIError as problem:
            self.problems.append(str(problem.code))
        try:
            self.whole = create(**self._ask).choices[0].message.content
        except APIError as problem:
            self.problems.append(str(problem.code))

    def check(self, texts: list[str], case: Case) -> None:
        """C7: an answer that came without an error is the transcript's; an error has a reason."""
        self.join(60)
        reasons = {"run_failed": case.dies, "interrupted": case.act == STOP, "begun_anew": _begins_anew(case)}
        assert all(reasons[problem] for problem in self.problems), self.problems
        said = squeeze(" ".join(texts))
        if "run_failed" not in self.problems and "interrupted" not in self.problems:
            assert said.startswith(squeeze(self.whole)), (said, self.whole)
            assert self.whole.split()[-1:] == texts[-1].split()[-1:] or case.act
        if not self.problems:
            assert self.streamed == self.whole


def _begins_anew(case: Case) -> bool:
    return case.dies or any(call.tries for call in case.calls)


class Scene:
    """One case on the gateway, with all who look at it."""

    def __init__(self, house: EveryHouse, lab: LabServer, case: Case) -> None:
        health.circuits.clear()
        self.house, self.case = house, case
        self.word = f"case{next(_numbers)}"
        lab.set_plan(plan(case, self.word))
        places = {
            CHAT: house.chat_key(self.word),
            TERMINAL: f"agent:main:local:dm:{self.word}",
            API: f"agent:main:api:dm:{self.word}",
        }
        self.visitor = house.visit()
        self.key = places.get(case.origin) or self.visitor.open()
        self.terminals = Terminals(house.home, self.word, self.key)
        self.page = self.visitor.watch(self.key)
        self.program = Program(house, self.key, f"Well, {self.word}?")

    def play(self) -> None:
        house, text = self.house, f"Well, {self.word}?"
        house.service.troubles.extend(self.case.troubles if self.case.origin == CHAT else ())
        ask = {
            CHAT: lambda: house.write_in_chat(self.word, text),
            PAGE: lambda: self.visitor.say(self.key, text),
            TERMINAL: lambda: self.terminals.client.submit(text),
            API: self.program.start,
        }
        ask[self.case.origin]()
        wait_until(lambda: bool(self.page.of("heard")), 60)
        self._act()
        house.wait_done(self.key)

    def _act(self) -> None:
        if not self.case.act:
            return
        wait_until(lambda: bool(self.page.state.live_text) or bool(self.page.of("settled")), 60)
        if self.case.act == STOP:
            self.visitor.post("/web/stop", conversation=self.key)
        else:
            self.visitor.say(self.key, f"And then, {self.word}?", mode="steer")

    # --- what everybody has at the end

    def check(self) -> None:
        house, case = self.house, self.case
        house.wait_quiet()
        texts, answers = house.transcript(self.key), house.answers(self.key)
        self.terminals.wait_ended(house.count_ends(self.key))
        if not case.act and not case.dies:
            assert [text.split()[-1] for text in texts] == [f"end-{n}" for n in range(len(case.calls))]
        for answer in answers:
            assert texts.count(answer) == 1
        self.terminals.check(texts, answers)
        check_page(self.page, texts, house.excuses(self.key))
        if case.origin == API:
            self.program.check(texts, case)
        if case.origin == CHAT:
            seen, answers = house.service.seen(self.word), house.answers(self.key, "pretend")
            assert not [text for text in seen if UNFINISHED in text], seen
            assert all(sum(answer in text for text in seen) == 1 for answer in answers), (seen, answers)

    def close(self) -> None:
        self.house.service.troubles.clear()
        self.terminals.close()
        self.visitor.close()


@pytest.fixture
def crowd(home: Path, lab: LabServer) -> Iterator[EveryHouse]:
    address = lab.base_url.replace("127.0.0.1", "localhost")  # the same server, and another provider to the rules
    second = {"provider": "custom", "model": "second", "base_url": address, "context_length": 100_000}
    model = {"base_url": lab.base_url, "default": "lab", "fallbacks": [second]}
    with EveryHouse(home, lab.base_url, model=model) as house:
        yield house


def play_cases(house: EveryHouse, lab: LabServer, count: int, *, always_the_same: bool) -> None:
    """Play so many cases on one gateway. The one that fails is told as it is: looking for a smaller one takes long."""

    @settings(max_examples=count, database=None, phases=[Phase.generate], print_blob=True, derandomize=always_the_same)
    @given(case=CASES)
    def play(case: Case) -> None:
        scene = Scene(house, lab, case)
        try:
            scene.play()
            scene.check()
        finally:
            scene.close()

    play()


@pytest.mark.slow
def test_c7_everybody_has_the_text_of_the_transcript_once(crowd: EveryHouse, lab: LabServer) -> None:
    play_cases(crowd, lab, 25, always_the_same=True)


@pytest.mark.soak
def test_c7_everybody_has_the_text_of_the_transcript_once_many_times(crowd: EveryHouse, lab: LabServer) -> None:
    play_cases(crowd, lab, 600, always_the_same=False)
