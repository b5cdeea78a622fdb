"""The prefix cache and the bill: exact numbers for both styles, lifetimes, what could have been read, cut answers."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.cache import Found, LabClock, PrefixCache
from hermes_lab.prompt import Block, Prompt
from hermes_lab.server import LabServer

MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


def say(tokens: int, name: str = "", mark: dict[str, str] | None = None) -> dict[str, Any]:
    """A text part of exactly so many tokens."""
    room = tokens * 4 - len('{"type":"text","text":""}') - len(name)
    return {"type": "text", "text": name + "x" * room, **({"cache_control": mark} if mark else {})}


class Buyer:
    """Sends requests for an account and gives back the newest row of the bill."""

    def __init__(self, lab: LabServer, key: str = "k") -> None:
        self._lab = lab
        self._http = httpx2.Client(base_url=lab.address, headers={"x-api-key": key, "anthropic-version": "1"})

    def post(self, path: str, body: Any) -> Any:
        answer = self._http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return self._lab.bill_rows[-1]

    def claude(self, *blocks: Any, **options: Any) -> tuple[int, int, int, int]:
        """Uncached, read, written for 5 minutes, written for an hour."""
        body = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": list(blocks)}], **options}
        row = self.post("/v1/messages", body)
        return row.uncached_tokens, row.cache_read_tokens, row.cache_write_5m_tokens, row.cache_write_1h_tokens

    def chat(self, *sizes: int, **options: Any) -> tuple[int, int]:
        """Uncached and read, for messages of so many tokens."""
        frame = len('{"role":"user","content":""}')
        messages = [{"role": "user", "content": f"{n}".ljust(size * 4 - frame, "x")} for n, size in enumerate(sizes)]
        row = self.post("/v1/chat/completions", {"model": "m", "messages": messages, **options})
        return row.uncached_tokens, row.cache_read_tokens

    def respond(self, *sizes: int, **options: Any) -> tuple[int, int]:
        frame = len('{"role":"user","content":""}')
        items = [{"role": "user", "content": f"{n}".ljust(size * 4 - frame, "x")} for n, size in enumerate(sizes)]
        row = self.post("/v1/responses", {"model": "m", "input": items, **options})
        return row.uncached_tokens, row.cache_read_tokens

    def close(self) -> None:
        self._http.close()


@pytest.fixture
def lab() -> Iterator[LabServer]:
    with LabServer() as server:
        yield server


@pytest.fixture
def buyer(lab: LabServer) -> Iterator[Buyer]:
    made = Buyer(lab)
    yield made
    made.close()


# Automatic


@pytest.mark.parametrize("way", ["chat", "respond"])
def test_the_automatic_cache_reads_in_steps_from_a_minimum(buyer: Buyer, way: str) -> None:
    ask = getattr(buyer, way)
    assert ask(1000) == (1000, 0)
    assert ask(1000) == (1000, 0)  # under the minimum
    assert ask(1000, 100) == (1100, 0)
    assert ask(1000, 100, 50) == (1150 - 1024, 1024)  # 1100 are the same: eight steps of 128
    assert ask(1000, 100, 50) == (1150 - 1024, 1024)
    assert ask(1000, 100, 50, 400) == (1550 - 1024, 1024)
    assert ask(1000, 100, 50, 400, 10) == (1560 - 1536, 1536)


def test_the_automatic_cache_forgets_what_is_not_used(lab: LabServer, buyer: Buyer) -> None:
    assert buyer.chat(2000) == (2000, 0)
    lab.advance(300)
    assert buyer.chat(2000, 10) == (90, 1920)
    lab.advance(300)
    assert buyer.chat(2000, 10, 10) == (100, 1920)  # the read kept it alive
    lab.advance(301)
    assert buyer.chat(2000, 10, 10) == (2020, 0)
    assert lab.bill_rows[-1].readable_tokens == 1920  # it could have been read, had it come in time


def test_a_longer_life_can_be_asked_for(lab: LabServer, buyer: Buyer) -> None:
    buyer.chat(2000, prompt_cache_retention="24h")
    lab.advance(86_000)
    assert buyer.chat(2000) == (80, 1920)


def test_tools_and_instructions_stand_before_the_conversation(buyer: Buyer) -> None:
    tools = [{"type": "function", "name": "read", "description": "d" * 8000}]
    assert buyer.respond(500, tools=tools)[1] == 0
    assert buyer.respond(500, tools=tools, instructions="i")[1] == 1920
    assert buyer.respond(500, 10, tools=tools)[1] == 2432
    assert buyer.respond(500, 10)[1] == 0


def test_accounts_and_models_share_nothing(lab: LabServer, buyer: Buyer) -> None:
    other = Buyer(lab, "other")
    assert buyer.chat(2000)[1] == 0
    assert other.chat(2000)[1] == 0
    assert buyer.post("/v1/chat/completions", make_chat("n", 2000)).cache_read_tokens == 0
    assert buyer.chat(2000)[1] == 1920
    other.close()


def make_chat(model: str, size: int) -> dict[str, Any]:
    text = "0".ljust(size * 4 - len('{"role":"user","content":""}'), "x")
    return {"model": model, "messages": [{"role": "user", "content": text}]}


def test_a_mark_that_moves_does_not_change_a_chat_message(buyer: Buyer) -> None:
    def ask(*parts: Any) -> int:
        messages = [{"role": "user", "content": list(parts)}, {"role": "user", "content": "next"}]
        return int(buyer.post("/v1/chat/completions", {"model": "m", "messages": messages}).cache_read_tokens)

    assert ask(say(2000, mark=MARK)) == 0
    assert ask(say(2000)) > 1900


# At marks


def test_marks_write_once_and_read_then(buyer: Buyer) -> None:
    assert buyer.claude(say(2000, mark=MARK), say(50)) == (50, 0, 2000, 0)
    assert buyer.claude(say(2000, mark=MARK), say(60)) == (60, 2000, 0, 0)
    assert buyer.claude(say(2000), say(60)) == (2060, 0, 0, 0)  # without a mark nothing is read
    assert buyer.claude(say(2000), say(60, mark=MARK), say(15)) == (15, 2000, 60, 0)
    assert buyer.claude(say(2000), say(60, mark=MARK), say(15, "b")) == (15, 2060, 0, 0)
    assert buyer.claude(say(2000, "other"), say(60, mark=MARK)) == (0, 0, 2060, 0)


def test_short_prefixes_are_not_cached(buyer: Buyer) -> None:
    for _ in range(2):
        assert buyer.claude(say(1000, mark=MARK), say(23, mark=MARK)) == (1023, 0, 0, 0)
    assert buyer.claude(say(1000, mark=MARK), say(24, mark=MARK)) == (0, 0, 1024, 0)
    assert buyer.claude(say(1000, mark=MARK), say(24, mark=MARK)) == (0, 1024, 0, 0)


def test_tools_system_and_messages_in_this_order(buyer: Buyer) -> None:
    tools = [{"name": "read", "input_schema": {"type": "object"}, "description": "d" * 5000, "cache_control": HOUR}]
    system = [say(1500, "s", HOUR)]
    first = buyer.claude(say(200, mark=MARK), tools=tools, system=system)
    size = first[3]
    assert first == (0, 0, 200, size)
    assert size > 2500
    assert buyer.claude(say(200, mark=MARK), say(13), tools=tools, system=system) == (13, size + 200, 0, 0)
    assert buyer.claude(say(200, "b", mark=MARK), tools=tools, system=system) == (0, size, 200, 0)
    changed = buyer.claude(say(200, mark=MARK), tools=tools, system=[say(1500, "t", HOUR)])
    assert changed == (0, size - 1500, 200, 1500)


def test_both_lives_in_one_request(lab: LabServer, buyer: Buyer) -> None:
    blocks = say(1100, mark=HOUR), say(300, mark=MARK)
    assert buyer.claude(*blocks) == (0, 0, 300, 1100)
    lab.advance(301)
    assert buyer.claude(*blocks) == (0, 1100, 300, 0)
    lab.advance(3601)
    assert buyer.claude(*blocks) == (0, 0, 300, 1100)


def test_each_read_refreshes_the_life(lab: LabServer, buyer: Buyer) -> None:
    buyer.claude(say(1100, mark=MARK))
    for _ in range(5):
        lab.advance(300)
        assert buyer.claude(say(1100, mark=MARK)) == (0, 1100, 0, 0)
    lab.advance(301)
    assert buyer.claude(say(1100, mark=MARK)) == (0, 0, 1100, 0)


def test_a_mark_looks_back_twenty_blocks(lab: LabServer, buyer: Buyer) -> None:
    start = say(1100, mark=MARK)
    plain = say(1100)
    near = [say(10, str(n)) for n in range(18)]
    assert buyer.claude(start)[2] == 1100
    assert buyer.claude(plain, *near, say(10, "end", MARK)) == (0, 1100, 190, 0)
    lab.clear_bill()
    far = [say(10, f"far{n}") for n in range(19)]
    assert buyer.claude(plain, *far, say(10, "end", MARK)) == (0, 0, 1300, 0)
    assert lab.bill_rows[-1].readable_tokens == 1100  # the bill tells what the look back missed
    assert buyer.claude(start, *[say(10, f"third{n}") for n in range(19)], say(10, "end", MARK)) == (0, 1100, 200, 0)


def test_one_mark_for_all_stands_on_the_last_block(buyer: Buyer) -> None:
    assert buyer.claude(say(1100), say(100), cache_control=MARK) == (0, 0, 1200, 0)
    assert buyer.claude(say(1100), say(100), say(17), cache_control=HOUR) == (0, 1200, 0, 17)


def test_a_text_is_the_same_as_a_string_or_as_a_part(buyer: Buyer) -> None:
    text = say(1100)["text"]
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": text}], "cache_control": MARK}
    assert buyer.post("/v1/messages", body).cache_write_5m_tokens == 1100
    assert buyer.claude(say(1100, mark=MARK))[1] == 1100


def test_thinking_options_change_the_conversations_prefix_only(buyer: Buyer) -> None:
    options = {"system": [say(1100, "s", MARK)], "max_tokens": 2000}
    assert buyer.claude(say(500, mark=MARK), **options) == (0, 0, 1600, 0)
    thinking = {"type": "enabled", "budget_tokens": 1024}
    assert buyer.claude(say(500, mark=MARK), thinking=thinking, **options) == (0, 1100, 500, 0)


def test_the_answer_says_what_is_billed(lab: LabServer) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [say(2000, mark=HOUR), say(9)]}]}
    headers = {"x-api-key": "k", "anthropic-version": "1"}
    usages = [httpx2.post(f"{lab.base_url}/messages", json=body, headers=headers).json()["usage"] for _ in range(2)]
    assert [usage["cache_creation"]["ephemeral_1h_input_tokens"] for usage in usages] == [2000, 0]
    assert [usage["cache_creation_input_tokens"] for usage in usages] == [2000, 0]
    assert [usage["cache_read_input_tokens"] for usage in usages] == [0, 2000]
    assert [usage["input_tokens"] for usage in usages] == [9, 9]


# The bill


def test_the_bill_has_sums_and_rows(lab: LabServer, buyer: Buyer) -> None:
    buyer.claude(say(2000, "[[say 12345678]]", MARK))
    buyer.claude(say(2000, "[[say 12345678]]", MARK), say(11))
    buyer.chat(2000)
    sums = lab.bill["k"]
    assert asdict(sums) == {
        "calls": 3,
        "uncached_tokens": 2011,
        "cache_read_tokens": 2000,
        "cache_write_5m_tokens": 2000,
        "cache_write_1h_tokens": 0,
        "output_tokens": sum(row.output_tokens for row in lab.bill_rows),
        "reasoning_tokens": 0,
        "readable_tokens": 2000,
        "previous_tokens": 2000,
    }
    assert sums.prompt_tokens == 6011
    assert [row.format for row in lab.bill_rows] == ["messages", "messages", "chat_completions"]
    told = httpx2.get(f"{lab.address}/lab/bill").json()
    assert told["accounts"]["k"] == asdict(sums)
    assert told["requests"] == [asdict(row) for row in lab.bill_rows]
    httpx2.delete(f"{lab.address}/lab/bill")
    assert (lab.bill, lab.bill_rows) == ({}, ())


def test_usage_of_a_plan_is_what_is_billed(lab: LabServer, buyer: Buyer) -> None:
    lab.set_plan([{"usage": {"prompt_tokens": 1000, "cached_tokens": 700, "cache_write_tokens": 200}}])
    assert buyer.claude(say(20)) == (100, 700, 200, 0)


def test_what_could_be_read_tells_a_client_that_keeps_its_prefix_from_one_that_does_not(lab: LabServer) -> None:
    keeps, breaks = Buyer(lab, "keeps"), Buyer(lab, "breaks")
    blocks: list[Any] = []
    for turn in range(12):
        blocks.append(say(500, f"turn {turn}"))
        marked = [*blocks[:-1], {**blocks[-1], "cache_control": MARK}]
        keeps.claude(*marked, system="always the same")
        breaks.claude(*marked, system=f"it is now {turn} o'clock")
    kept, broken = lab.bill["keeps"], lab.bill["breaks"]
    assert kept.cache_read_tokens == kept.readable_tokens == kept.previous_tokens > 0
    assert broken.cache_read_tokens == broken.readable_tokens == 0
    assert broken.previous_tokens >= kept.previous_tokens  # the same conversation: it could have been read
    keeps.close()
    breaks.close()


def test_a_request_changed_in_the_middle_could_have_been_read_whole(lab: LabServer, buyer: Buyer) -> None:
    buyer.claude(say(1500, "a"), say(500, "b"), say(500, "c", MARK))
    buyer.claude(say(1500, "a"), say(500, "B"), say(500, "c", MARK))
    row = lab.bill_rows[-1]
    assert (row.cache_read_tokens, row.readable_tokens, row.previous_tokens) == (0, 1500, 2500)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses", "/v1/chat/completions"])
def test_a_cut_answer_is_charged_for_its_prompt(lab: LabServer, path: str) -> None:
    """Up to the event that tells the usage; from there on for the output too."""
    bodies: dict[str, dict[str, Any]] = {
        "/v1/messages": {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 100},
        "/v1/responses": {"input": "hello"},
        "/v1/chat/completions": {
            "messages": [{"role": "user", "content": "hello"}],
            "stream_options": {"include_usage": True},
        },
    }
    with httpx2.Client(base_url=lab.address, headers={"x-api-key": "k", "anthropic-version": "1"}) as http:
        body = {"model": "m", "stream": True, **bodies[path]}
        events = http.post(path, json=body).text.split("\n\n")[:-1]
        whole = lab.bill_rows[-1]
        telling = max(n for n, event in enumerate(events) if '"usage":{' in event)
        for count in range(len(events) + 1):
            lab.set_plan([{"fault": {"cut_after_chunks": count}}])
            with pytest.raises(httpx2.RemoteProtocolError):
                http.post(path, json=body)
            row = lab.bill_rows[-1]
            assert row.prompt_tokens == whole.prompt_tokens
            assert row.complete == (count > telling)
            assert row.output_tokens == (whole.output_tokens if row.complete else 0)
        lab.set_plan([{"fault": {"error_after_chunks": 1}}, {"fault": {"status": 500}}, {"fault": {"hang_up": True}}])
        calls = lab.bill["k"].calls
        http.post(path, json=body)
        assert lab.bill_rows[-1].complete is False
        assert http.post(path, json=body).status_code == 500
        with pytest.raises(httpx2.RemoteProtocolError):
            http.post(path, json=body)
        assert lab.bill["k"].calls == calls + 1  # what never began costs nothing


def test_the_clock_can_be_set_over_http(lab: LabServer) -> None:
    assert httpx2.post(f"{lab.address}/lab/clock", json={"advance": 60}).json() == {"now": 60}
    assert lab.now == 60
    assert httpx2.post(f"{lab.address}/lab/clock", content=b"[]").status_code == 400


def test_a_small_minimum_is_for_short_texts() -> None:
    with LabServer(cache_minimum=1) as lab, LabServer(cache_minimum=None) as bare:
        small, none = Buyer(lab), Buyer(bare)
        assert (small.chat(20), small.chat(20, 13), small.chat(20, 13, 9)) == ((20, 0), (13, 20), (9, 33))
        assert (small.claude(say(10, mark=MARK)), small.claude(say(10, mark=MARK))) == ((0, 0, 10, 0), (0, 10, 0, 0))
        assert [none.chat(5000), none.chat(5000)] == [(5000, 0), (5000, 0)]
        small.close()
        none.close()


# Properties


def make_prompt(names: list[int], marks: set[int], marked: bool) -> Prompt:
    body = tuple(Block(b"%d" % name, 10, 300.0 if n in marks else 0.0) for n, name in enumerate(names))
    return Prompt((), body, 10 * len(names), marked=marked)


CONVERSATIONS = st.lists(
    st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=8), st.sets(st.integers(0, 7), max_size=4)), max_size=12
)


def share(one: list[int], other: list[int]) -> int:
    return next(
        (n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), min(map(len, (one, other)))
    )


@settings(max_examples=200)
@given(sent=CONVERSATIONS)
def test_found_is_what_a_slow_comparison_finds(sent: list[tuple[list[int], set[int]]]) -> None:
    automatic, at_marks = PrefixCache(LabClock(), 1), PrefixCache(LabClock(), 1)
    stored: list[list[int]] = []
    for number, (names, marks) in enumerate(sent):
        common = 10 * max((share(names, earlier) for earlier, _ in sent[:number]), default=0)
        found = automatic.visit(("a", "f", "m"), make_prompt(names, marks, False))
        assert (found.read, found.readable, found.write_5m) == (common, common, 0)
        ends = sorted(mark + 1 for mark in marks if mark < len(names))
        read = max(
            (len(one) for one in stored if ends and len(one) <= ends[-1] and names[: len(one)] == one), default=0
        )
        expected = Found(read * 10, max(ends[-1] * 10 - read * 10, 0) if ends else 0, 0, common, found.previous)
        assert at_marks.visit(("a", "f", "m"), make_prompt(names, marks, True)) == expected
        stored += [names[:end] for end in ends]


def test_json_text_of_a_tool_decides_not_the_bytes_of_the_body(lab: LabServer) -> None:
    tools = [{"name": "read", "description": "d" * 5000, "input_schema": {"type": "object"}, "cache_control": MARK}]
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "tools": tools}
    headers = {"x-api-key": "k", "anthropic-version": "1"}
    for indent in (None, 1):
        httpx2.post(f"{lab.base_url}/messages", content=json.dumps(body, indent=indent), headers=headers)
    assert lab.bill_rows[1].cache_read_tokens == lab.bill_rows[0].cache_write_5m_tokens > 1250
