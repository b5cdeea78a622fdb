"""What an editor is shown, decided on values: texts in their order, questions, tools, prompts."""

import base64
import os
from collections.abc import Iterable
from pathlib import Path

import acp
import pytest
from acp import schema

from hermes_base.chat import (
    FileSent,
    Notice,
    Question,
    ReasoningDelta,
    Said,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from hermes_base.errors import ConfigProblem
from hermes_base.turn.consent import ALWAYS, APPROVE, CONVERSATION, DENY
from hermes_base.turn.journal import CUT
from hermes_cli.acp import acp_cmd
from hermes_cli.acp import permission_asking as asking
from hermes_cli.acp import tool_shapes as shapes
from hermes_cli.acp.prompt_blocks import UnfitPrompt, keep_files, name_place, read_prompt
from hermes_cli.acp.turn_telling import RunningCall, TurnTelling, begin_call, end_call
from hermes_cli.chat.terminal_words import BEGINS_ANEW
from tools.files.file_changes import FileChange, Rewrite, find_change, record, replace_all
from tools.files.roots import FilePlace, read_bytes


def read(telling: TurnTelling, events: Iterable[object]) -> str:
    """All that an editor shows as the agent's words."""
    updates = [update for event in events for update in telling.tell(event)]  # type: ignore[arg-type]
    return "".join(
        update.content.text if update.content.type == "text" else f"<{update.content.uri}>"
        for update in updates
        if isinstance(update, schema.AgentMessageChunk)
    )


@pytest.mark.parametrize(
    ("events", "shown"),
    [
        ([TextDelta("Good "), TextDelta("day."), TurnEnded("Good day.", True)], "Good day."),
        ([TurnEnded("All at once.", True)], "All at once."),
        ([TextDelta("Half"), TurnEnded("Half and half.", True)], "Half and half."),
        ([TextDelta("One."), TextEnded(True), TextDelta("Two."), TurnEnded("Two.", True)], "One.\n\nTwo."),
        (
            [TextDelta("Wro"), TextEnded(False), TextDelta("Right."), TurnEnded("Right.", True)],
            f"Wro\n\n{BEGINS_ANEW}\n\nRight.",
        ),
        ([TextDelta("Other"), TurnEnded("Right.", True)], f"Other\n\n{BEGINS_ANEW}\n\nRight."),
        ([Notice("Line one\nline two"), TurnEnded("Yes.", True)], "Line one  \nline two\n\nYes."),
        ([FileSent("/tmp/a b.txt", "a b.txt", "Here.")], "Here.<file:///tmp/a%20b.txt>"),
        ([TextDelta("So far"), TurnEnded("So far", False, True, "Interrupted: x.")], "So far\n\nInterrupted: x."),
    ],
)
def test_texts_come_in_their_order_and_once(events: list[object], shown: str) -> None:
    assert read(TurnTelling(), events) == shown


def test_thoughts_and_what_others_say_are_told_apart() -> None:
    telling = TurnTelling()
    (thought,) = telling.tell(ReasoningDelta("Hm."))
    (said,) = telling.tell(Said("Hello", "page"))
    assert (thought.session_update, said.session_update) == ("agent_thought_chunk", "user_message_chunk")


def test_an_error_is_the_prompts_failure_unless_there_is_an_answer() -> None:
    telling = TurnTelling()
    assert read(telling, [Notice("It broke.", "error"), TurnEnded("", False)]) == ""
    assert telling.failure == "It broke."
    telling.begin()
    assert read(telling, [Notice("A file is missing.", "error"), TurnEnded("Done.", True)]) == "Done."
    assert telling.failure == ""
    assert [update.content.text for update in telling.tell_late()][-1] == "A file is missing."


@pytest.mark.parametrize(
    ("ended", "cancelled", "reason"),
    [
        (TurnEnded("a", True), False, "end_turn"),
        (TurnEnded("a", True, reason=CUT), False, "max_tokens"),
        (TurnEnded("a", False, True, "who"), False, "cancelled"),
        (TurnEnded("a", True), True, "cancelled"),
        (None, False, "end_turn"),
    ],
)
def test_why_it_stopped(ended: TurnEnded | None, cancelled: bool, reason: str) -> None:
    telling = TurnTelling()
    telling.ended, telling.cancelled = ended, cancelled
    assert telling.stop_reason == reason


# --- questions


def answer(question: Question, option: str) -> str:
    chosen = schema.AllowedOutcome(outcome="selected", option_id=option)
    return asking.read_outcome(question, schema.RequestPermissionResponse(outcome=chosen))


def test_only_what_is_offered_can_be_chosen() -> None:
    """G4: a question that may not be kept has no way to keep it, whatever the editor says."""
    once = Question("approval", "rm x", (APPROVE, DENY))
    assert [option.kind for option in asking.list_options(once)] == ["allow_once", "reject_once"]
    assert answer(once, APPROVE) == APPROVE
    assert answer(once, DENY) == DENY
    for unoffered in (ALWAYS, CONVERSATION, "", "1", "yes"):
        assert answer(once, unoffered) == ""
    cancelled = schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
    assert asking.read_outcome(once, cancelled) == ""


def test_choices_that_a_model_made_up_are_numbered() -> None:
    question = Question("clarification", "Which?", ("approve", "no way"))
    assert [(option.option_id, option.name) for option in asking.list_options(question)] == [
        ("1", "approve"),
        ("2", "no way"),
        ("none", "None of these"),
    ]
    assert answer(question, "2") == "no way"
    assert answer(question, "none") == ""
    assert asking.is_typed(Question("clarification", "What?"))


def test_a_question_shows_what_it_is_about() -> None:
    question = Question("approval", "change /w/a\n@@ -1 +1 @@\n-a\n+b", (APPROVE, DENY), reason="outside")
    shown = asking.describe(question, "call-1", known=False)
    assert shown.title == "change /w/a"
    assert [part.content.text for part in shown.content] == [f"```diff\n{question.text}\n```", "outside"]
    assert asking.describe(question, "call-1", known=True).title is None
    assert asking.begin(shown).status == "pending"
    assert [asking.end("c", known=known, agreed=True).status for known in (True, False)] == ["in_progress", "completed"]


# --- tools


@pytest.mark.parametrize(
    ("name", "kind"),
    [("read_file", "read"), ("patch", "edit"), ("terminal", "execute"), ("browser_click", "fetch"), ("x", "other")],
)
def test_kinds(name: str, kind: str) -> None:
    assert shapes.find_kind(name) == kind


def test_the_files_of_a_call_are_whole_paths() -> None:
    diff = "--- a/old.py\n+++ b/new.py\n@@ -1 +1 @@\n-a\n+b\n"
    edits = [{"path": "a.txt", "old": "x", "new": "y"}, {"diff": diff}, "nonsense", {"diff": "--- /dev/null\n+++ n"}]
    found = shapes.list_files("patch", {"edits": edits}, "/w")
    assert found == ["/w/a.txt", "/w/old.py", "/w/new.py", "/w/n"]
    assert shapes.list_files("read_file", {"path": "../up"}, "/w/x") == ["/w/up"]
    assert shapes.list_files("terminal", {"command": "ls"}, "/w") == []
    (place,) = shapes.list_places("read_file", {"path": "a", "offset": 7}, "/w")
    assert (place.path, place.line) == ("/w/a", 7)
    (edit,) = shapes.list_edits("patch", {"edits": edits}, "/w")
    assert (edit.path, edit.old_text, edit.new_text) == ("/w/a.txt", "x", "y")


def test_a_call_is_told_from_its_start_to_its_end() -> None:
    begun = begin_call(ToolStarted("c", "todo", '{"items": 1}'), RunningCall("todo", {"items": []}), "/w")
    assert (begun.title, begun.kind, begun.status) == ("todo", "think", "in_progress")
    failed = end_call(ToolEnded("c", "terminal", False, 0.1, "a ```b"), [])
    assert (failed.status, failed.content[0].content.text) == ("failed", "```\na ```b\n```")
    diff = shapes.make_diff("/w/a", "", "new")
    assert end_call(ToolEnded("c", "patch", True, 0.1, "changed"), [diff]).content == [diff]


def test_a_fence_is_longer_than_those_inside() -> None:
    assert shapes.fence("````\nx\n````") == "`````\n````\nx\n````\n`````"


def test_the_plan_is_what_was_given_or_what_came_back() -> None:
    given = shapes.find_plan({"items": [{"text": "a", "status": "done"}]}, "☐ other")
    merged = shapes.find_plan({"items": [{"id": "1"}], "merge": True}, "☑ a\n▶ b\n☒ c\n☐ d")
    assert given is not None
    assert merged is not None
    assert [(entry.content, entry.status) for entry in given.entries] == [("a", "completed")]
    assert [entry.status for entry in merged.entries] == ["completed", "in_progress", "completed", "pending"]
    assert shapes.find_plan({}, "The list is empty.") is None


def test_what_a_file_was_before_its_last_change(tmp_path: Path) -> None:
    """The newest change of a task, as long as the file is what it became; not of one that may hold secrets."""
    home = tmp_path / "home"

    def write(name: str, text: str) -> str:
        path = str(tmp_path / name)
        place = FilePlace(path, ())
        rewrite = Rewrite(place, read_bytes(place, 1000), text.encode())
        record(home, "task", "turn", rewrite)
        replace_all([rewrite])
        return path

    path = write("a.txt", "one")
    assert find_change(home, "task", path) == ("", "one")
    write("a.txt", "two")
    assert find_change(home, "task", path) == ("one", "two")
    assert find_change(home, "other", path) is None
    Path(path).write_text("somebody else's")
    assert find_change(home, "task", path) is None
    assert find_change(home, "task", write(".env", "KEY=1")) is None
    assert find_change(home, "task", write("b.bin", "\0\0")) is None
    assert FileChange.__slots__


# --- prompts


def test_a_prompt_that_holds_nothing_or_broken_data_is_refused() -> None:
    for blocks in (
        [],
        [acp.text_block("  \n")],
        [acp.image_block("%%", "image/png")],
        [acp.image_block("", "image/png")],
    ):
        with pytest.raises(UnfitPrompt):
            read_prompt(blocks, "/w")
    pixel = acp.image_block(base64.b64encode(b"x").decode(), "image/png")
    with pytest.raises(UnfitPrompt, match="at most"):
        read_prompt([pixel] * 21, "/w")


def test_files_of_a_prompt_have_safe_names_and_are_for_the_owner_alone(tmp_path: Path) -> None:
    """G6"""
    blob = acp.embedded_blob_resource("file:///x/../../evil.bin", base64.b64encode(b"data").decode())
    audio = acp.audio_block(base64.b64encode(b"a").decode(), "audio/mpeg")
    said = read_prompt([acp.resource_block(blob), audio], "/w")
    files = keep_files(said.files, tmp_path)
    assert [(file.name, file.kind, file.size) for file in files] == [
        ("evil.bin", "file", 4),
        ("audio.mp3", "audio", 1),
    ]
    for file in files:
        assert Path(file.path).is_relative_to(tmp_path)
        assert os.stat(file.path).st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("uri", "own"),
    [
        ("file:///w/a%20b.py", True),
        ("file://localhost/w/sub/a.py#L3", True),
        ("file:///w/../etc/x", False),
        ("file:///w/%2e%2e/x", False),
        ("file:///work/x", False),
        ("file://host/w/x", False),
        ("https://example.org/w/x", False),
        ("zed:///agent/thread", False),
    ],
)
def test_only_texts_of_the_folder_are_words_of_the_person(uri: str, own: bool) -> None:
    """G9: an editor sends pages that it fetched in the same block; they come as files, which are foreign text."""
    block = acp.resource_block(acp.embedded_text_resource(uri, "obey"))
    said = read_prompt([acp.text_block("Look."), block], "/w")
    assert ("obey" in said.text) is own
    assert [file.data for file in said.files] == ([] if own else [b"obey"])


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("file:///a%20b/c.py#L3", "/a b/c.py#L3"),
        ("https://example.org/x", "https://example.org/x"),
        ("file://host/x", "file://host/x"),
    ],
)
def test_places(uri: str, place: str) -> None:
    assert name_place(uri) == place


def test_without_its_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """H8"""
    monkeypatch.setattr(acp_cmd, "is_installed", lambda: False)
    with pytest.raises(ConfigProblem, match=r"pip install 'agent-client-protocol>=0\.12'"):
        acp_cmd.main([])
