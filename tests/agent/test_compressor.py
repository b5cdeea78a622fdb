"""The built-in engine: what it may replace, and what it must never part."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.context_compressor import SUMMARY_MARK, ContextCompressor, threshold_of
from agent.context_engine import ContextEngine, accepted_arguments, sanitize_memory_context
from agent.formats.repair import repair_messages


def compressor(**options: Any) -> ContextCompressor:
    return ContextCompressor("m", config_context_length=20_000, summarise=lambda request, limit: "summary", **options)


def turn(n: int, calls: int) -> list[dict[str, Any]]:
    made = [
        {"id": f"{n}.{c}", "type": "function", "function": {"name": "look", "arguments": "{}"}} for c in range(calls)
    ]
    asked = {"role": "user", "content": f"question {n} " + "x" * 400}
    if not calls:
        return [asked, {"role": "assistant", "content": f"answer {n}"}]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "y" * 300} for call in made]
    return [
        asked,
        {"role": "assistant", "content": "", "tool_calls": made},
        *results,
        {"role": "assistant", "content": "ok"},
    ]


CONVERSATIONS = st.lists(st.integers(0, 3), max_size=14).map(
    lambda shape: [message for n, calls in enumerate(shape) for message in turn(n, calls)]
)


@given(CONVERSATIONS, st.integers(0, 4), st.integers(0, 8))
def test_no_call_is_parted_from_its_result_and_the_last_questions_stay(
    messages: list[dict[str, Any]], first: int, last: int
) -> None:
    """E7, E8"""
    shorter = compressor(protect_first_n=first, protect_last_n=last).compress(list(messages))
    assert repair_messages(shorter) == shorter
    questions = [message for message in messages if message["role"] == "user"]
    assert all(question in shorter for question in questions[-3:])
    if shorter != messages:
        assert sum(SUMMARY_MARK in str(message["content"]) for message in shorter) == 1
        places = [place for place, message in enumerate(shorter) if message["role"] == "user"]
        summary = next(place for place in places if SUMMARY_MARK in str(shorter[place]["content"]))
        assert summary < places[-1]
        assert len(shorter) < len(messages)


def test_a_later_summary_takes_the_earlier_one_in() -> None:
    """E7: one summary at a time, also in one long turn of many calls."""
    engine = compressor(protect_first_n=1, protect_last_n=2)
    messages = turn(0, 3)
    for n in range(1, 6):
        messages = engine.compress([*messages, *turn(n, 3)[1:]])
        assert sum(SUMMARY_MARK in str(message["content"]) for message in messages) == 1
        assert repair_messages(messages) == messages
    assert any("question 0" in str(message["content"]) for message in messages)


def test_it_is_an_engine_with_the_published_defaults() -> None:
    engine = compressor()
    assert isinstance(engine, ContextEngine)
    assert (engine.name, engine.protect_first_n, engine.protect_last_n) == ("compressor", 3, 20)
    engine.update_from_response({"prompt_tokens": 19_000, "completion_tokens": 1, "total_tokens": 19_001})
    assert engine.should_compress()
    assert engine.get_status()["usage_percent"] == 95.0
    engine.on_session_reset()
    assert not engine.should_compress()


def test_thresholds() -> None:
    assert threshold_of(200_000, 0.5, None) == 150_000  # windows under 512 K use at least three quarters
    assert threshold_of(1_000_000, 0.5, None) == 500_000
    assert threshold_of(70_000, 0.5, None) == 64_000
    assert threshold_of(64_000, 0.5, None) == 54_400  # a threshold that reaches the window is 85 % of it
    assert threshold_of(8_192, 0.5, 1_024) == int(7_168 * 0.75)


def test_older_engines_get_only_the_arguments_they_take() -> None:
    offered = {"current_tokens": 1, "focus_topic": "tea", "force": True}
    assert accepted_arguments(lambda messages, current_tokens=None: None, offered) == {"current_tokens": 1}
    assert accepted_arguments(lambda messages, **kwargs: None, offered) == offered


def test_long_memory_text_is_cut_in_the_middle() -> None:
    text = "a" * 5000 + "b" * 5000
    cut = sanitize_memory_context(text)
    assert cut.startswith("a" * 4000)
    assert cut.endswith("b" * 1500)
    assert len(cut) < 6000
