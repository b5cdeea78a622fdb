"""Titles as pure decisions, and the one call that makes them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import titles
from agent.providers.runtime import Runtime
from hermes_base.settings import Settings
from hermes_lab.server import LabServer


def make_runtime(base_url: str = "", provider: str = "custom") -> Runtime:
    return Runtime(provider, "lab-model", base_url, "sk-own", "chat_completions", 8000)


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ('"A fine title."', "A fine title"),
        ("**Title:** “Plans for  May”", "Plans for May"),
        ("<think>Hmm.\nA title?</think>\n\n# Bread\nand more", "Bread"),
        ("<think>never ends", ""),
        ("What is love?", "What is love?"),
        ("And so on...", "And so on..."),
        ("a\u202eb\x1b[31mc", "a b [31mc"),
        ("   \n", ""),
        ("word " * 30, ("word " * 12).strip() + "…"),
    ],
)
def test_the_title_in_an_answer(answer: str, title: str) -> None:
    assert titles.clean_title(answer) == title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("How do I bake bread?", "How do I bake bread?"),
        ("one\n\n two\tthree", "one two three"),
        ("x" * 61, "x" * 59 + "…"),
        ("x" * 60, "x" * 60),
        (" ".join(["seven"] * 12), " ".join(["seven"] * 10) + "…"),
        ("", ""),
    ],
)
def test_the_first_words(text: str, title: str) -> None:
    assert titles.first_words(text) == title


@given(st.text())
def test_a_title_is_one_short_line(text: str) -> None:
    """Whatever a model or a person says."""
    for title in (titles.clean_title(text), titles.first_words(text)):
        assert len(title) <= titles.LONGEST
        assert title == " ".join(title.split())
        assert title.isprintable()
    assert not set(titles.clean_title(text)[:1]) & set("\"'“”`")


@given(st.lists(st.text(st.characters(categories=["L"]), min_size=1, max_size=59), min_size=1))
def test_the_first_words_are_whole_words(words: list[str]) -> None:
    title = titles.first_words(" ".join(words))
    kept = title.removesuffix("…").split()
    assert kept == words[: len(kept)]
    assert kept


def test_which_model_is_asked() -> None:
    own = make_runtime("http://own/v1")

    def choose(**section: Any) -> Runtime:
        return titles.choose_runtime(Settings(auxiliary={"title": section}), own, {"GROQ_API_KEY": "sk-groq"})

    assert choose() is own
    assert titles.choose_runtime(Settings(), own, {}) is own
    assert choose(provider="auto", model="") is own
    cheap = choose(model="small")
    assert (cheap.model, cheap.base_url, cheap.api_key) == ("small", "http://own/v1", "sk-own")
    other = choose(provider="groq", model="tiny")
    assert (other.provider, other.model, other.api_key) == ("groq", "tiny", "sk-groq")


def test_the_call_sees_the_first_exchange_alone(lab: LabServer) -> None:
    """A13: no transcript, no tools, shortened; A8: with its row for the ledger."""
    lab.set_plan([{"text": '"Bread at home"'}])
    named = titles.ask_title(Settings(), make_runtime(lab.base_url), "q" * 5000, "a" * 5000)
    assert named.title == "Bread at home"
    assert [row.kind for row in named.usage] == ["title"]
    assert named.usage[0].input_tokens == lab.bill["sk-own"].prompt_tokens
    body = lab.requests[0].json()
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert "tools" not in body
    assert len(body["messages"][1]["content"]) < 1600


@pytest.mark.parametrize(
    ("fault", "rows"), [({"status": 500}, 0), ({"cut_after_chunks": 1}, 1), ({"hang_up": True}, 0)]
)
def test_a_call_that_fails_is_no_title(lab: LabServer, fault: dict[str, Any], rows: int) -> None:
    """A8: what may have been billed is there, unsettled."""
    lab.set_plan([{"text": "Bread", "fault": fault}])
    named = titles.ask_title(Settings(), make_runtime(lab.base_url), "how", "so")
    assert named.title == ""
    assert [row.settled for row in named.usage] == [False] * rows


def test_the_built_in_model_is_not_asked() -> None:
    assert titles.ask_title(Settings(), make_runtime(provider="embedded"), "how", "so") == titles.Named("")
