"""`/undo files`: the diff is shown first, and only consent takes the changes back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_base.chat import Asked, Event, Idle, Notice
from hermes_base.local_wire import Hello
from hermes_cli import config
from hermes_cli.chat.joining import open_host
from hermes_lab.server import LabServer


@pytest.fixture
def chat(lab: LabServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "poem.txt").write_text("roses are red\n")
    monkeypatch.chdir(folder)
    config.set_value("model.base_url", lab.base_url)
    config.set_value("model.default", "lab-model")
    host = open_host(Hello())
    yield host
    host.close()


def talk(host: object, text: str, answer: str = "") -> str:
    """What the person reads until the host is idle; a question gets the answer."""
    host.submit(text)  # type: ignore[attr-defined]
    words: list[str] = []
    for event in host.events():  # type: ignore[attr-defined]
        words.append(_words_of(event))
        if isinstance(event, Asked):
            host.answer(event.question.id, answer)  # type: ignore[attr-defined]
        if isinstance(event, Idle):
            return "\n".join(words)
    raise AssertionError("the chat ended")


def _words_of(event: Event) -> str:
    if isinstance(event, Asked):
        return event.question.text
    return event.text if isinstance(event, Notice) else ""


def test_what_a_turn_changed_is_shown_and_taken_back(chat: object, tmp_path: Path) -> None:
    poem = tmp_path / "project" / "poem.txt"
    assert "has changed files" in talk(chat, "/undo files")
    edit = '{"edits": [{"path": "poem.txt", "old": "red", "new": "blue"}]}'
    talk(chat, f"[[tool patch {edit}]]")
    assert poem.read_text() == "roses are blue\n"
    kept = talk(chat, "/undo files", "keep")
    assert "-roses are blue" in kept
    assert "+roses are red" in kept
    assert poem.read_text() == "roses are blue\n"
    assert "Restored" in talk(chat, "/undo files", "undo")
    assert poem.read_text() == "roses are red\n"


def test_a_file_that_changed_meanwhile_is_not_overwritten(chat: object, tmp_path: Path) -> None:
    poem = tmp_path / "project" / "poem.txt"
    edit = '{"edits": [{"path": "poem.txt", "old": "red", "new": "blue"}]}'
    talk(chat, f"[[tool patch {edit}]]")
    poem.write_text("my own words\n")
    assert "changed since" in talk(chat, "/undo files", "undo")
    assert poem.read_text() == "my own words\n"
