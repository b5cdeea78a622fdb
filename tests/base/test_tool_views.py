"""Calls and results of tools in the words of people: each tool by its table, everything else by its shape."""

import json

from hypothesis import given
from hypothesis import strategies as st

from hermes_base.text.tool_views import (
    ToolPart,
    cut_parts,
    show_call,
    view_call,
    view_outcome,
    view_result,
    write_plain,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def plain(name: str, **fields: object) -> str:
    return write_plain(view_result(name, json.dumps(fields)), 10_000)


def test_a_call_is_one_line_of_what_says_most() -> None:
    assert show_call("terminal", {"command": "ls -l"}) == "ls -l"
    assert show_call("clarify", {"question": "Which one?", "choices": ["a", "b"]}) == "Which one?"
    assert show_call("patch", {"edits": [{"path": "a"}, {"path": "b"}, {"path": "a"}]}) == "a, b"
    assert show_call("odd", {"a": 1, "b": "x"}) == "a: 1, b: x"
    assert show_call("odd", {}) == ""


def test_results_are_read_as_people_read_them() -> None:
    assert plain("terminal", output="one\ntwo\n", exit_code=0, folder="/x") == "one\ntwo"
    assert plain("terminal", output="one\n", exit_code=2, folder="/x") == "exit code 2\none"
    assert plain("terminal", output="", exit_code=0, folder="/x") == "(no output)"
    assert plain("terminal", output="", exit_code=1, folder="/x") == "exit code 1"
    assert plain("todo", items=[{"text": "a", "status": "done"}, {"text": "b", "status": "pending"}]) == "☑ a\n☐ b"
    assert plain("clarify", answer="blue") == "blue"
    assert plain("clarify", answer=None, note="…") == "Nobody answered."
    assert plain("terminal", error="It was not run.") == "It was not run."
    assert plain("web_extract", url="https://a.test", title="On a", offset=0, of=9, text="# A\n\nb") == "On a\n# A\n\nb"
    hits = [{"title": "A", "url": "https://a.test", "snippet": "a"}, {"title": "B", "url": "https://b.test"}]
    assert plain("web_search", results=hits) == "A: https://a.test\nB: https://b.test"
    assert plain("web_search", results=[], note="Brave found nothing.") == "Brave found nothing."
    assert view_result("read_file", "a.py (1 line)\n1| x") == (ToolPart("code", "a.py (1 line)\n1| x"),)


def test_a_patch_tells_what_it_changed() -> None:
    args = {"edits": [{"path": "a.py", "old": "x = 1", "new": "x = 2\ny"}]}
    assert (
        write_plain(view_outcome("patch", args, "changed a.py (+2 -1)"), 999)
        == "changed a.py (+2 -1)\na.py\n-x = 1\n+x = 2\n+y"
    )


def test_json_is_the_last_resort_and_pretty() -> None:
    parts = view_result("unknown", json.dumps({"name": "n", "deep": {"er": [{"a": 1}]}}))
    assert [(part.kind, part.label) for part in parts] == [("list", ""), ("json", "deep")]
    assert parts[1].text.splitlines()[1] == '  "er": ['


@given(st.text(), VALUES, VALUES)
def test_no_value_breaks_a_view_and_the_limit_holds(name: str, args: object, result: object) -> None:
    for tool in (name, "terminal", "process", "todo", "clarify", "session_search", "memory", "skills", "patch"):
        called = args if isinstance(args, dict) else {"edits": args, "command": result, "choices": args}
        keys = ("items", "sessions", "said", "processes", "skills", "output", "exit_code", "answer", "notes", "error")
        text = json.dumps({key: [{"said": result}, result] for key in keys} if isinstance(args, list) else result)
        show_call(tool, called)
        parts = (*view_call(tool, called), *view_outcome(tool, called, text))
        assert len(write_plain(parts, 100)) <= 100
        assert sum(len(part.text) for part in cut_parts(parts, 100)) <= 100
