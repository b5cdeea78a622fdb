"""The task's list: kept by task in a file, replaced or merged, bounded, without secrets (G6)."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from hermes_base.text.redact import Redactor
from hermes_base.turn.tool_context import ToolContext
from tools.builtin.todo_tool import MAX_ITEMS
from tools.registry import registry


def call(home: Path, items: Any = None, task: str = "a-task", redact: Any = str, **args: Any) -> dict[str, Any]:
    context = ToolContext(home=home, task=task, redact=redact)
    result: dict[str, Any] = json.loads(registry.dispatch("todo", {"items": items, **args}, context=context))
    return result


def item(id: str, text: str, status: str = "pending") -> dict[str, str]:
    return {"id": id, "text": text, "status": status}


def test_an_empty_list_says_so(home: Path) -> None:
    assert call(home) == {"items": [], "note": "The list is empty."}
    assert not home.exists()


def test_items_replace_the_list_and_are_kept_by_task(home: Path) -> None:
    call(home, [item("a", "old")])
    call(home, [item("b", "new", "in_progress"), item("c", "newer", "done")])
    call(home, [item("x", "other")], task="another")
    assert call(home) == {"items": [item("b", "new", "in_progress"), item("c", "newer", "done")], "open": 1}
    assert call(home, task="another")["items"] == [item("x", "other")]
    assert call(home, task="nobody")["items"] == []
    assert sorted(os.listdir(home / "todos")) == ["a-task.json", "another.json"]
    assert (home / "todos" / "a-task.json").stat().st_mode & 0o777 == 0o600


def test_merge_changes_items_by_id_and_adds_the_rest(home: Path) -> None:
    call(home, [item("a", "one"), item("b", "two")])
    merged = call(home, [{"id": "b", "status": "done"}, {"text": "three"}, item("d", "four")], merge=True)
    assert merged["items"] == [item("a", "one"), item("b", "two", "done"), item("1", "three"), item("d", "four")]


def test_ids_and_status_may_be_left_out_and_items_may_come_as_text(home: Path) -> None:
    result = call(home, json.dumps([{"text": "one"}, {"id": 1, "text": "two"}, {"text": "three", "id": ""}]))
    assert result["items"] == [item("2", "one"), item("1", "two"), item("3", "three")]


def test_an_empty_array_clears_the_list(home: Path) -> None:
    call(home, [item("a", "one")])
    assert call(home, [])["items"] == []
    assert call(home)["items"] == []


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ("not json", "list of objects"),
        ({"id": "a"}, "list of objects"),
        (["a"], "list of objects"),
        ([{"id": "a"}], "Item 'a' has no text"),
        ([item("a", "x", "later")], "'later' is no status"),
        ([{"text": "x", "status": ["done"]}], "is no status"),
        ([item("a", "x"), item("a", "y")], "same id"),
        ([item("a", "x" * 301)], "at most 300 characters"),
        ([item("a" * 41, "x")], "at most 40 characters"),
        ([{"text": "x"}] * (MAX_ITEMS + 1), f"at most {MAX_ITEMS} items"),
    ],
)
def test_mistakes_are_sentences_and_keep_the_list(home: Path, items: Any, words: str) -> None:
    call(home, [item("a", "kept")])
    assert words in call(home, items)["error"]
    assert call(home)["items"] == [item("a", "kept")]


def test_merging_cannot_pass_the_bound(home: Path) -> None:
    call(home, [{"text": "x"}] * MAX_ITEMS)
    assert "these would be 51" in call(home, [{"text": "y"}], merge=True)["error"]


@pytest.mark.parametrize(
    "task", ["", "../../etc/passwd", "a/b", ".hidden", "..", "x" * 300, "sp ace", "nul\0", "\ud800"]
)
def test_no_task_id_leads_out_of_the_folder(home: Path, task: str) -> None:
    """G7: an id that is no plain name is kept under its hash."""
    call(home, [item("a", "x")], task=task)
    assert call(home, task=task)["items"] == [item("a", "x")]
    assert len(os.listdir(home / "todos")) == 1
    assert os.listdir(home) == ["todos"]


@pytest.mark.parametrize("damage", ["", "[{", '{"a": 1}', "[1]", '[{"id": "a"}]'])
def test_a_damaged_file_is_a_sentence_and_a_new_list_heals_it(home: Path, damage: str) -> None:
    call(home, [item("a", "x")])
    (home / "todos" / "a-task.json").write_text(damage)
    assert "Give the whole list anew" in call(home)["error"]
    assert "Give the whole list anew" in call(home, [item("b", "y")], merge=True)["error"]
    call(home, [item("b", "y")])
    assert call(home)["items"] == [item("b", "y")]


def test_secrets_are_not_kept(home: Path) -> None:
    """G6: neither in the file nor in the result."""
    result = call(home, [item("a", "use sk-canary-0123456789")], redact=Redactor({"KEY": "sk-canary-0123456789"}))
    assert result["items"][0]["text"] == "use [redacted KEY]"
    assert "canary" not in (home / "todos" / "a-task.json").read_text()


def test_merges_at_the_same_time_are_all_kept(home: Path) -> None:
    threads = [
        threading.Thread(target=call, args=(home, [item(f"t{n}", "x")]), kwargs={"merge": True}) for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one["id"] for one in call(home)["items"]} == {f"t{n}" for n in range(20)}
