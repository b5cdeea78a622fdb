"""What goes on beside each other at one server: questions to a person, calls of others, and a change of the settings
(C11, C12, G4, H6, H8)."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_rig import McpHouse, hostile, script, stdio

from hermes_base.chat import Answer, Question
from hermes_base.setting_table import read_settings
from tools.mcp import mcp_host, mcp_loop, mcp_specs, mcp_tools
from tools.mcp.elicited_answers import describe_answer, read_answer
from tools.mcp.live import asking_session, live_servers

House = Callable[..., McpHouse]
PATIENCE = 60.0


class Thinker:
    """A person who takes their time."""

    def __init__(self, word: str = "green") -> None:
        self.word = word
        self.asked, self.go = threading.Event(), threading.Event()

    def __call__(self, question: Question) -> Answer:
        self.asked.set()
        assert self.go.wait(PATIENCE), question
        return Answer(self.word)


@contextmanager
def under_way(at: McpHouse, tool: str, args: dict[str, Any], thinker: Thinker, **facts: Any) -> Iterator[list[str]]:
    """A call that waits for a person; what it brought, at the end."""
    answers: list[str] = []
    call = threading.Thread(target=lambda: answers.append(at.call(tool, args, asker=thinker, **facts)))
    call.start()
    try:
        assert thinker.asked.wait(PATIENCE)
        yield answers
    finally:
        thinker.go.set()
        call.join(PATIENCE)


@pytest.mark.parametrize(
    ("tool", "args", "word", "came"),
    [("mcp_t_ask", {}, "green", "accept: green"), ("mcp_t_write", {"tokens": 9}, "approve", "the model wrote: a line")],
)
def test_calls_go_on_while_a_person_thinks(house: House, tool: str, args: dict[str, Any], word: str, came: str) -> None:
    """C12: a question of a server, or a text that it wants, holds up nobody else."""
    at, thinker = house({"t": stdio(sampling=100, timeout=5)}), Thinker(word)
    with under_way(at, tool, args, thinker, ask_model=lambda *_: "a line") as answers:
        assert at.call("mcp_t_add", {"a": 2, "b": 3}) == "[MCP server t]\n5"
        assert at.call("mcp_t_say", {"text": "x"}, person="bob", conversation="c2") == "[MCP server t]\nx"
        assert answers == []
    assert answers == [f"[MCP server t]\n{came}"]


FLOOD = """
def ask(number):
    fields = {"properties": {"a": {"type": "string"}}, "type": "object"}
    send({"jsonrpc": "2.0", "id": f"q{number}", "method": "elicitation/create",
          "params": {"message": f"question {number}", "requestedSchema": fields}})
def call(request):
    for number in range(30): ask(number)
    came = [json.loads(sys.stdin.readline()) for _ in range(30)]
    came.sort(key=lambda one: int(one["id"][1:]))
    said = ["error" if "error" in one else one["result"]["action"] for one in came]
    return {"content": [{"type": "text", "text": " ".join(said)}]}
ANSWERS["tools/call"] = call
"""


def test_a_flood_of_questions_is_bounded_and_one_is_asked_at_a_time(house: House) -> None:
    """G4: nobody is shown thirty questions at once; those beyond the limit are refused."""
    at = house({"x": hostile(FLOOD)})
    open_now, most = [0], [0]

    def answer(question: Question) -> Answer:
        open_now[0] += 1
        most[0] = max(most[0], open_now[0])
        at.questions.append(question)
        open_now[0] -= 1
        return Answer("fine")

    said = at.call("mcp_x_one", asker=answer).partition("\n")[2].split()
    assert said.count("accept") == len(at.questions) >= asking_session.MOST_OPEN
    assert set(said) <= {"accept", "error"}
    assert most == [1]


TAKES_BACK = """
def call(request):
    fields = {"properties": {"a": {"type": "string"}}, "type": "object"}
    send({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
          "params": {"message": "?", "requestedSchema": fields}})
    while not os.path.exists("go"): time.sleep(0.01)
    send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q"}})
    json.loads(sys.stdin.readline())
    return {"content": [{"type": "text", "text": "taken back"}]}
import os, time
ANSWERS["tools/call"] = call
"""


def test_a_question_that_is_taken_back_leaves_the_server_usable(house: House) -> None:
    at, thinker = house({"x": hostile(TAKES_BACK)}), Thinker()
    with under_way(at, "mcp_x_one", {}, thinker) as answers:
        (at.home / "mcp" / "work" / "x" / "go").touch()
        while not answers:
            threading.Event().wait(0.02)
        second = Thinker()
        second.go.set()
        assert at.call("mcp_x_one", asker=second) == "[MCP server x]\ntaken back"
    assert answers == ["[MCP server x]\ntaken back"]


# --- a change of the settings


def starts(at: McpHouse) -> list[int]:
    lines = (at.home / "mcp" / "work" / "t" / "seen").read_text().splitlines()
    return [int(line.split()[1]) for line in lines if line.startswith("start")]


def has_ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def noting(tmp_path: Path, **fields: Any) -> dict[str, Any]:
    seen = str(tmp_path / "house" / "mcp" / "work" / "t" / "seen")
    return stdio(level="outside", **{**fields, "env": {"SEEN": seen, **fields.get("env", {})}})


@pytest.mark.parametrize(
    ("fields", "others", "anew"),
    [
        ({"env": {"MORE": "1"}}, {}, True),  # another program, as far as we know
        ({"timeout": 77}, {}, True),
        ({}, {"u": {"command": "nothing-there", "enabled": False}}, False),  # another server's entry
        ({}, {"u": {"url": "no address"}}, False),  # and a mistake in it
    ],
)
def test_a_change_of_the_settings_cuts_no_call(
    house: House, tmp_path: Path, fields: dict[str, Any], others: dict[str, Any], anew: bool
) -> None:
    """H6: calls under way have their answers; the next one goes to the server as it is set now."""
    at, thinker = house({"t": noting(tmp_path)}), Thinker()
    with under_way(at, "mcp_t_ask", {}, thinker) as answers:
        mcp_tools.offer_tools(read_settings({"mcp_servers": {"t": noting(tmp_path, **fields), **others}}), at.home)
        assert at.call("mcp_t_add", {"a": 1, "b": 1}) == "[MCP server t]\n2"
        assert answers == []
    assert answers == ["[MCP server t]\naccept: green"]
    old, *new = starts(at)
    assert bool(new) == anew
    while anew and not has_ended(old):
        threading.Event().wait(0.02)


def test_walls_that_are_set_anew_cut_no_call(house: House) -> None:
    at, thinker = house({"t": stdio()}), Thinker()
    with under_way(at, "mcp_t_ask", {}, thinker) as answers:
        changed = read_settings({"mcp_servers": dict(at.settings.mcp_servers), "terminal": {"network": False}})
        mcp_tools.offer_tools(changed, at.home)
        assert at.call("mcp_t_add", {"a": 1, "b": 1}).endswith("2")
    assert answers == ["[MCP server t]\naccept: green"]


def test_an_old_server_does_not_live_on_for_a_call_without_end(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_servers, "RETIRE_SECONDS", 0.05)
    at, thinker = house({"t": noting(tmp_path)}), Thinker()
    with under_way(at, "mcp_t_ask", {}, thinker) as answers:
        mcp_tools.offer_tools(read_settings({"mcp_servers": {"t": noting(tmp_path, timeout=77)}}), at.home)
        while not answers:
            threading.Event().wait(0.02)
    assert "The call was cut" in answers[0]


def test_a_server_that_is_taken_out_ends_at_once(house: House, tmp_path: Path) -> None:
    at, thinker = house({"t": noting(tmp_path)}), Thinker()
    with under_way(at, "mcp_t_ask", {}, thinker) as answers:
        mcp_tools.offer_tools(read_settings({}), at.home)
        while not answers:
            threading.Event().wait(0.02)
    assert "The call was cut" in answers[0]


def test_old_servers_end_with_hermes(house: House, tmp_path: Path) -> None:
    at, thinker = house({"t": noting(tmp_path)}), Thinker()
    with under_way(at, "mcp_t_ask", {}, thinker):
        mcp_tools.offer_tools(read_settings({"mcp_servers": {"t": noting(tmp_path, timeout=77)}}), at.home)
        mcp_host.close_all()
        assert all(map(has_ended, starts(at)))


# --- the clocks


def test_a_call_is_activity_until_its_own_time_is_over(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """C11, C12: the watchdog of the turn does not end it before; the sentence names the setting."""
    monkeypatch.setattr(mcp_loop, "SIGN_SECONDS", 0.02)
    at = house({"t": stdio(timeout=0.5)})
    before = at.moves
    assert "0.5 seconds (mcp_servers.t.timeout)" in at.fails("mcp_t_hang")
    assert at.moves > before + 3


def test_a_call_with_progress_is_told_of_the_longest_time(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """C11: it moved all the time, so that it did not answer in two minutes would be wrong."""
    at = house({"t": stdio(timeout=0.4)})
    monkeypatch.setattr("tools.mcp.live.server_link.MOST_SECONDS", 0.6)
    assert "the longest time of a call" in at.fails("mcp_t_work", {"steps": 1000, "seconds": 0.05})
    assert mcp_specs.MOST_SECONDS == 3600


# --- answers that are none


LIST = "a list, its parts separated by commas"
WISH = {"type": "object", "properties": {"count": {"type": "integer", "minimum": 1}}}
ASKS = f"""
def call(request):
    send({{"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
          "params": {{"message": "How many?", "requestedSchema": {WISH!r}}}}})
    return {{"content": [{{"type": "text", "text": json.dumps(json.loads(sys.stdin.readline())["result"])}}]}}
ANSWERS["tools/call"] = call
"""


def test_a_slip_is_asked_for_again_with_what_is_expected(house: House) -> None:
    """H8: a typing error is no refusal; after a few of them there is no answer."""
    at = house({"x": hostile(ASKS)})
    at.words = ["a dozen", "0", "12"]
    assert at.call("mcp_x_one").endswith('{"action": "accept", "content": {"count": 12}}')
    first, second, third = (question.text for question in at.questions)
    assert first.startswith("The MCP server x asks: How many?")
    assert second.startswith('"a dozen" is not what is asked for; it has to be a whole number of at least 1.\nThe MCP')
    assert third.startswith('"0" is not')
    at.words = ["x", "y", "z", "12"]
    assert at.call("mcp_x_one").endswith('{"action": "cancel"}')
    assert at.words == ["12"]


FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "mail": {"type": "string", "format": "email"},
        "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
        "count": {"type": "integer", "default": 2},
    },
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("words", "came"),
    [
        (["Ann", "skip", "l", "Skip"], {"action": "accept", "content": {"name": "Ann", "size": "l", "count": 2}}),
        (["Ann", "a@b.c", "skip", "5"], {"action": "accept", "content": {"name": "Ann", "mail": "a@b.c", "count": 5}}),
        (["skip", "decline"], {"action": "decline"}),  # its name has to be given, so that is one
        (["Ann", "nothing", "a b@c", "ann", "x"], {"action": "cancel"}),
    ],
)
def test_what_is_not_needed_is_left_out_and_a_form_can_be_declined(
    house: House, words: list[str], came: dict[str, Any]
) -> None:
    """H8: each question says how; a choice has it among its choices."""
    at = house({"x": hostile(ASKS.replace(repr(WISH), repr(FORM)))})
    at.words = list(words)
    assert json.loads(at.call("mcp_x_one").partition("\n")[2]) == came
    assert all('Say "decline" to answer nothing.' in question.text for question in at.questions)
    assert '"skip"' not in at.questions[0].text
    if len(words) == 4:
        assert at.questions[2].choices == ("s", "l", "skip", "decline")
        assert "s: Small, l: Large" in at.questions[2].text
        assert 'Say "skip" to leave it out: then it is 2.' in at.questions[3].text


def test_a_form_without_end_is_refused(house: House) -> None:
    """Half a form is no answer: the server is told, and nobody is asked."""
    form = {"type": "object", "properties": {f"f{number}": {"type": "string"} for number in range(9)}}
    asks = ASKS.replace(repr(WISH), repr(form)).replace('["result"]', '.get("error")')
    at = house({"x": hostile(asks)})
    assert "8 things at a time at most" in at.call("mcp_x_one")
    assert at.questions == []


def test_a_server_that_nobody_answers_asks_once_in_a_call(house: House) -> None:
    """C11: questions one after the other, each of which has to expire, would hold the turn for good."""
    asks = f"""
def call(request):
    for _ in range(3):
        send({{"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
              "params": {{"message": "How many?", "requestedSchema": {WISH!r}}}}})
        said = json.loads(sys.stdin.readline())["result"]
    return {{"content": [{{"type": "text", "text": json.dumps(said)}}]}}
ANSWERS["tools/call"] = call
"""
    at = house({"x": hostile(asks)})
    at.words = ["(silence)"] * 3
    assert at.call("mcp_x_one").endswith('{"action": "cancel"}')
    assert len(at.questions) == 1


@pytest.mark.parametrize(
    ("schema", "said", "value", "expected"),
    [
        ({"type": "boolean"}, " YES ", True, "one of yes, no"),
        ({"type": "boolean"}, "false", False, "one of yes, no"),
        ({"type": "boolean"}, "perhaps", None, "one of yes, no"),
        ({"type": "integer"}, "1.5", None, "a whole number"),
        ({"type": "integer"}, "9" * 400, None, "a whole number"),
        ({"type": "number"}, "nan", None, "a number"),
        ({"type": "number", "maximum": 2}, "2.5", None, "a number of at most 2"),
        ({"type": "string", "enum": ["Red", "Blue"]}, "red", "Red", "one of Red, Blue"),
        ({"type": "string", "enum": ["Red", "Blue"]}, "pink", None, "one of Red, Blue"),
        ({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}, "b", None, "one of a"),
        ({"type": "string", "minLength": 3}, "ab", None, "a text of at least 3 characters"),
        ({"type": "string", "minLength": "x"}, "ab", "ab", "a text"),
        (
            {"type": "array", "items": {"enum": ["a", "b"]}},
            "a, c",
            None,
            f"{LIST}, each one of a, b",
        ),
        ({"type": "array"}, "a, c", ["a", "c"], LIST),
        ({"type": "array", "minItems": 2}, "a", None, f"{LIST} of at least 2"),
        ({"type": "string", "format": "uri"}, "example", None, "an address like https://example.org"),
        ({"type": "string", "format": "uri"}, "https://a.b/c", "https://a.b/c", "an address like https://example.org"),
        ({"type": "string", "format": "date"}, "2026-02-30", None, "a date like 2026-11-19"),
        (
            {"type": "string", "format": "date-time"},
            "2026-02-03T04:05:06Z",
            "2026-02-03T04:05:06Z",
            "a date and a time like 2026-11-19T08:30:00Z",
        ),
        ({"type": "string", "format": "made-up"}, "x", "x", "a text"),
    ],
)
def test_what_an_answer_means_to_a_field(schema: dict[str, Any], said: str, value: Any, expected: str) -> None:
    assert read_answer(said, schema) == value
    assert describe_answer(schema) == expected


# --- commands that are none


@pytest.mark.parametrize(
    ("entry", "happened", "said"),
    [
        ({"command": "no-such-program"}, "it is not found", "no-such-program"),
        ({"command": "/etc/passwd"}, "it cannot be run: it is no program, or not executable", "ermission denied"),
        (script("import sys; sys.exit('no key is set')"), "it ended with exit code 1", "no key is set"),
        (script("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"), "it was ended by SIGSEGV", ""),
        (script("print('Usage: server [stdio]')"), "it ended with exit code 0", "Usage: server [stdio]"),
        (
            script("print('Listening on port 3000', flush=True); input(); input(); input()", connect_timeout=2),
            "it did not answer within 2 seconds, and what it writes is no MCP",
            "Listening on port 3000",
        ),
    ],
)
def test_a_wrong_command_is_explained(house: House, entry: dict[str, Any], happened: str, said: str) -> None:
    """H8: which server, which command, what happened, its last words, and what to do; never an error of our own."""
    told = house({"t": entry}).missing["t"]
    assert told.startswith(f"The MCP server t is not there: {happened}")
    assert f"Its command: {entry['command']}" in told
    assert "It said: " in told or not said
    assert said in told
    assert "`hermes mcp test t`" in told
    assert "Error)" not in told


def test_a_wrong_command_is_explained_each_time(house: House) -> None:
    """It may end before, while or after it is spoken to: the sentence is the same."""
    end = "import sys; sys.stderr.write('gone'); sys.exit(3)"
    waits = f"import time; time.sleep(0.0{{}}); {end}"
    servers = {f"t{number}": script(waits.format(number)) for number in range(9)}
    told = house({**servers, "t9": script(f"input(); {end}")}).missing
    assert {words.partition(": ")[2].partition(".")[0] for words in told.values()} == {"it ended with exit code 3"}
    assert len(told) == 10
