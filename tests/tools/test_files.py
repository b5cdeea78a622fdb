"""The file tools: reading by page, writing without loss, patching all or nothing, allowed folders checked at use."""

import base64
import json
import os
import shutil
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_base.chat import Answer, Question
from hermes_base.errors import ToolFailure
from hermes_base.setting_table import make_settings
from hermes_base.turn.tool_context import ToolContext
from tools.builtin import file_tools
from tools.files import roots as files_roots
from tools.files.encodings import decode
from tools.files.roots import FilePlace, read_bytes, replace_by_staged, stage_bytes
from tools.registry import registry

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


class Person:
    """Gives the same answer to every question and keeps what was asked."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.asked: list[str] = []

    def __call__(self, question: Question) -> Answer:
        self.asked.append(question.text)
        return Answer(self.word)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only allowed folder: the test's own folder lies in /tmp, which is allowed otherwise."""
    monkeypatch.setattr(files_roots, "list_roots", lambda context: (os.path.realpath(context.folder),))
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def context(folder: Path, **options: Any) -> ToolContext:
    return ToolContext(**{"task": str(folder), "folder": str(folder), "turn": "t1", **options})


def read(folder: Path, path: str, options: Any = None, **args: Any) -> str:
    result = file_tools.read_file({"path": path, **args}, context=context(folder, **(options or {})))
    assert isinstance(result, str)
    return result


def write(folder: Path, path: str, content: str, **args: Any) -> str:
    return file_tools.write_file({"path": path, "content": content, **args}, context=context(folder))


def patch(folder: Path, *edits: dict[str, Any], **options: Any) -> str:
    return file_tools.patch({"edits": list(edits)}, context=context(folder, **options))


def test_lines_are_numbered_and_come_by_page(work: Path) -> None:
    """E9: a page says where the rest is."""
    (work / "f").write_text("".join(f"line {n}\n" for n in range(1, 2501)))
    first = read(work, "f").splitlines()
    assert first[1] == "1| line 1"
    assert first[-1] == "[lines 1-1000 of 2500; go on with offset 1001]"
    assert read(work, "f", offset=2499).splitlines()[1:] == ["2499| line 2499", "2500| line 2500"]
    assert read(work, "f", offset=5, limit=1).splitlines()[1:] == [
        "5| line 5",
        "[lines 5-5 of 2500; go on with offset 6]",
    ]
    with pytest.raises(ToolFailure, match="past its end"):
        read(work, "f", offset=2501)


def test_no_page_is_larger_than_its_limit(work: Path) -> None:
    """E9: long lines are cut with a mark, long pages end early, small windows get small pages."""
    (work / "f").write_text(("x" * 5000 + "\n") * 100)
    page = read(work, "f")
    assert len(page) < 35_000
    assert "… [3000 characters left out]" in page
    assert "go on with offset" in page
    assert len(read(work, "f", {"window_tokens": 4000})) < 8000


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("é\n".encode(), "(1 lines)\n1| é"),
        (b"\xef\xbb\xbf" + "é\r\n".encode(), "(1 lines, utf-8 with BOM, CRLF)\n1| é"),
        ("\ufeffé\n".encode("utf-16-le"), "(1 lines, utf-16-le)\n1| é"),
        ("\ufeffé\n".encode("utf-16-be"), "(1 lines, utf-16-be)\n1| é"),
        (b"caf\xe9\n", "(1 lines, latin-1)\n1| café"),
        (b"a\0b", "is a binary file of 3 bytes; it is not shown."),
        (b"\xff\xfe\x00\x00a\0\0\0", "is a binary file of 8 bytes; it is not shown."),
        (b"", "(0 lines)"),
    ],
)
def test_encodings_are_detected(work: Path, data: bytes, shown: str) -> None:
    (work / "f").write_bytes(data)
    assert read(work, "f") == f"{work}/f {shown}"


def test_images_come_as_images_up_to_a_limit(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "a.png").write_bytes(PNG)
    result = json.loads(registry.dispatch("read_file", {"path": "a.png"}, context=context(work)))
    assert result["_multimodal"] is True
    assert result["content"][1]["image_url"]["url"] == "data:image/png;base64," + base64.b64encode(PNG).decode()
    monkeypatch.setattr(file_tools, "IMAGE_BYTES", 10)
    assert "is an image (image/png)" in read(work, "a.png")


def test_folders_are_listed_and_close_names_suggested(work: Path) -> None:
    (work / "sub").mkdir()
    (work / "readme.md").touch()
    (work / "link").symlink_to("readme.md")
    assert read(work, ".").splitlines()[1:] == ["link (link)", "readme.md", "sub/"]
    with pytest.raises(ToolFailure, match=r"Close to it: readme\.md"):
        read(work, "redme.md")


def test_secrets_are_not_shown_and_not_lost(work: Path) -> None:
    """G6: file text passes redaction, in pages, errors and searches; a file shown in part is not written whole."""
    secret = {"redact": lambda text: text.replace("hunter2", "[hidden]")}
    (work / "f").write_text("x" * 1998 + "hunter2\nkey=hunter2\n")
    page = read(work, "f", secret)
    assert "hunter2" not in page
    assert "hu\n" not in page
    assert "2| key=[hidden]" in page
    with pytest.raises(ToolFailure) as failure:
        patch(work, {"path": "f", "old": "key=hunter3", "new": ""}, **secret)
    assert "[hidden]" in str(failure.value)
    assert "hunter2" not in str(failure.value)
    found = file_tools.search_files({"pattern": "key"}, context=context(work, **secret))
    assert found == "f:2: key=[hidden]"
    with pytest.raises(ToolFailure, match="Use patch"):
        file_tools.write_file({"path": "f", "content": "key=[hidden]\n"}, context=context(work, **secret))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\n", "é\r\nc\r\n".encode()),
        (b"\xef\xbb\xbfa\n", b"\xef\xbb\xbf" + "é\nc\n".encode()),
        ("\ufeffa\r\n".encode("utf-16-be"), "\ufeffé\r\nc\r\n".encode("utf-16-be")),
        (b"caf\xe9\n", b"\xe9\nc\n"),
    ],
)
def test_writing_keeps_encoding_line_ends_and_mode(work: Path, before: bytes, after: bytes) -> None:
    (work / "f").write_bytes(before)
    (work / "f").chmod(0o751)
    read(work, "f")
    write(work, "f", "é\nc\n")
    assert (work / "f").read_bytes() == after
    assert stat.S_IMODE((work / "f").stat().st_mode) == 0o751
    assert os.listdir(work) == ["f"]


def test_text_that_the_encoding_cannot_hold_is_refused(work: Path) -> None:
    (work / "f").write_bytes(b"caf\xe9\n")
    read(work, "f")
    with pytest.raises(ToolFailure, match="latin-1"):
        write(work, "f", "→")
    assert (work / "f").read_bytes() == b"caf\xe9\n"


def test_an_existing_file_is_read_before_it_is_written(work: Path) -> None:
    (work / "f").write_text("old")
    with pytest.raises(ToolFailure, match="was not read"):
        write(work, "f", "new")
    assert "Wrote" in write(work, "f", "new", overwrite=True)
    assert "Wrote" in write(work, "f", "newer")  # what this task wrote, it knows
    assert "Created" in write(work, "a/b/c", "x")


def test_a_file_that_changed_since_it_was_read_is_not_overwritten(work: Path) -> None:
    (work / "f").write_text("old")
    read(work, "f")
    status = (work / "f").stat()
    (work / "f").write_text("odd")
    os.utime(work / "f", ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(ToolFailure, match="changed since it was read"):
        write(work, "f", "new")
    assert (work / "f").read_text() == "odd"
    read(work, "f")
    write(work, "f", "new")


def test_a_patch_changes_several_files_and_creates_deletes_and_renames(work: Path) -> None:
    for name in ("a", "b", "c"):
        (work / name).write_bytes(f"{name}1\r\n{name}2\r\n".encode())
    (work / "c").chmod(0o700)
    diff = (
        "--- /dev/null\n+++ b/sub/new\n@@ -0,0 +1,2 @@\n+x\n+y\n"
        "--- a/b\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-b1\n-b2\n"
        "diff --git a/c b/d\nrename from c\nrename to d\n--- a/c\n+++ b/d\n@@ -1,2 +1,2 @@\n-c1\n+d1\n c2\n"
    )
    said = patch(
        work, {"path": "a", "old": "a1", "new": "A1"}, {"path": "a", "old": "A1\na2", "new": "A"}, {"diff": diff}
    )
    assert set(said.splitlines()) == {
        "changed a (+1 -2)",
        "created sub/new (+2 -0)",
        "deleted b",
        "deleted c",
        "created d (+2 -0)",
    }
    assert (work / "a").read_bytes() == b"A\r\n"
    assert (work / "sub/new").read_bytes() == b"x\ny\n"
    assert (work / "d").read_bytes() == b"d1\r\nc2\r\n"
    assert stat.S_IMODE((work / "d").stat().st_mode) == 0o700
    assert sorted(os.listdir(work)) == ["a", "d", "sub"]


@pytest.mark.parametrize(
    "bad",
    [
        {"path": "b", "old": "missing", "new": "x"},
        {"path": "nothing", "old": "a", "new": "x"},
        {"path": "../outside", "old": "", "new": "x"},
        {"diff": "--- /dev/null\n+++ b/b\n@@ -0,0 +1 @@\n+x\n"},
        {"diff": "--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-b1\n"},
        {"diff": "diff --git a/b b/a\nrename from b\nrename to a\n"},
        {"path": "binary", "old": "a", "new": "b"},
        {"path": "b"},
    ],
)
def test_one_edit_that_fails_means_that_nothing_is_changed(work: Path, bad: dict[str, Any]) -> None:
    (work / "a").write_text("a1\n")
    (work / "b").write_text("b1\nb2\n")
    (work / "binary").write_bytes(b"a\0")
    with pytest.raises(ToolFailure):
        patch(work, {"path": "a", "old": "a1", "new": "x"}, {"path": "sub/n", "old": "", "new": "x"}, bad)
    assert {path.name: path.read_bytes() for path in work.iterdir()} == {
        "a": b"a1\n",
        "b": b"b1\nb2\n",
        "binary": b"a\0",
    }


def test_a_write_that_fails_in_the_middle_is_taken_back(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All or nothing holds for the disk too: the third file fails, the first two are as before."""
    for name in "abc":
        (work / name).write_text(name)
    calls = []

    def fail_third(place: FilePlace, staged: str) -> None:
        calls.append(place.name)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        replace_by_staged(place, staged)

    monkeypatch.setattr("tools.files.file_changes.replace_by_staged", fail_third)
    with pytest.raises(ToolFailure, match="No space left"):
        patch(work, *({"path": n, "old": n, "new": n + "2"} for n in "abc"), {"path": "s/d", "old": "", "new": "d"})
    assert {path.name: path.read_text() for path in work.iterdir()} == {"a": "a", "b": "b", "c": "c"}


@given(
    st.lists(st.text("abé \t", max_size=5), min_size=1, max_size=8),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"]),
    st.data(),
)
def test_a_patch_changes_the_named_line_and_no_other_byte(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], end: str, encoding: str, data: st.DataObject
) -> None:
    """What is not named does not change; encodings and line ends are kept."""
    folder = tmp_path_factory.mktemp("given")
    at = data.draw(st.integers(0, len(lines)))
    before = [*lines[:at], "<named>", *lines[at:]]
    (folder / "f").write_bytes(end.join(before).encode(encoding))
    patch(folder, {"path": "f", "old": "<named>", "new": "<x>\n<y>"}, home=folder / "home")
    # Without a line end in the file there is none to keep.
    used = end if len(before) > 1 else "\n"
    after = end.join([*lines[:at], f"<x>{used}<y>", *lines[at:]])
    assert (folder / "f").read_bytes() == after.encode(encoding)


def test_decoding_and_encoding_gives_the_same_bytes() -> None:
    for data in (b"", b"\xef\xbb\xbf", b"\xff\xfea\0", b"\xfe\xff\0a", "é→".encode(), b"\xe9\xe8\r\n", b"\r\r\n"):
        text = decode(data)
        assert text is not None
        assert text.encode(text.text, "f") == data
    assert decode(b"\xff\xfea") is None


# Allowed folders.


@pytest.mark.parametrize("path", ["../secret", "link", "linked/secret", "/etc/hostname", "sub/../../secret"])
def test_what_resolves_to_outside_is_asked_for(work: Path, path: str) -> None:
    """G7: links and dots are resolved first; nobody to ask means no."""
    outside = work.parent / "secret"
    outside.write_text("hidden words")
    (work / "link").symlink_to(outside)
    (work / "linked").symlink_to(work.parent)
    (work / "sub").mkdir()
    real = os.path.realpath(work / path)
    for asker in (None, Person("deny")):
        with pytest.raises(ToolFailure, match="outside of the allowed folders"):
            read(work, path, {"asker": asker})
        with pytest.raises(ToolFailure, match="outside"):
            file_tools.write_file({"path": path, "content": "x", "overwrite": True}, context=context(work, asker=asker))
    assert outside.read_text() == "hidden words"
    person = Person("approve")
    assert read(work, path, {"asker": person}).startswith(real)
    assert person.asked[0] == f"read {real}"


def test_the_roots_are_the_folder_the_workspace_tmp_and_the_setting(tmp_path: Path, home: Path) -> None:
    """G7."""
    (home / "workspace").mkdir(parents=True)
    (tmp_path / "more").mkdir()
    here = ToolContext(folder=str(tmp_path), settings=make_settings({"files": {"roots": [str(tmp_path / "more")]}}))
    roots = files_roots.list_roots(here)
    own = {str(home / "workspace"), str(home / "uploads")}
    assert set(roots) == {str(tmp_path), *own, "/tmp", str(tmp_path / "more")}
    assert files_roots.is_inside_roots(str(home / "workspace/x"), roots, (str(home),))
    assert not files_roots.is_inside_roots(
        str(home / "memories/x"), roots, (str(home),)
    )  # /tmp around it does not count
    assert not files_roots.is_inside("/tmpfile", "/tmp")


@pytest.mark.parametrize(
    "name", [".env", "config.yaml", "hermes.db", "hermes.db-wal", "hermes.lock", "file-changes/x", "web-token"]
)
def test_the_files_of_hermes_itself_are_never_touched(home: Path, tmp_path: Path, name: str) -> None:
    """G7, G13: not inside a root, not with consent, not by another name, not through a search, of no profile."""
    for path in (home / name, home / "profiles" / "other" / name):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("the key\n")
    (tmp_path / "soft").symlink_to(home / name)
    paths = [f"home/{name}", "soft", f"home/profiles/other/{name}"]
    if "/" not in name:
        os.link(home / name, tmp_path / "hard")
        os.link(home / "profiles" / "other" / name, tmp_path / "harder")
        paths += ["hard", "harder"]
    for path in paths:
        for options in ({}, {"asker": Person("approve")}):
            with pytest.raises(ToolFailure, match=r"(of|to) Hermes itself"):
                read(tmp_path, path, options)
            with pytest.raises(ToolFailure, match=r"(of|to) Hermes itself"):
                file_tools.patch(
                    {"edits": [{"path": path, "old": "key", "new": "x"}]}, context=context(tmp_path, **options)
                )
    assert file_tools.search_files({"pattern": "key"}, context=context(tmp_path)) == "Nothing was found."


def test_devices_and_pipes_are_refused(work: Path) -> None:
    """G7."""
    os.mkfifo(work / "pipe")
    with pytest.raises(ToolFailure, match="device, pipe or socket"):
        read(work, "pipe")
    for path in ("/dev/zero", "/proc/self/environ"):
        with pytest.raises(ToolFailure, match="no ordinary file"):
            read(work, path, {"asker": Person("approve")})


def test_a_link_put_in_after_the_check_leads_nowhere(work: Path) -> None:
    """G7: the resolved path is opened part by part without following links."""
    (work.parent / "out").mkdir()
    (work.parent / "out" / "f").write_text("hidden")
    place = FilePlace(str(work / "sub" / "f"), ())
    (work / "sub").symlink_to(work.parent / "out")
    with pytest.raises(ToolFailure, match="became a link"):
        read_bytes(place, 100)
    with pytest.raises(ToolFailure, match="became a link"):
        stage_bytes(place, b"x", None)
    (work / "sub").unlink()
    (work / "sub").mkdir()
    (work / "sub" / "f").symlink_to(work.parent / "out" / "f")
    with pytest.raises(ToolFailure, match="became a link"):
        read_bytes(place, 100)


def test_swapping_links_meanwhile_never_reaches_outside(work: Path) -> None:
    """G7: a thread turns a folder into a link and back while files are read and written through it."""
    outside = work.parent / "out"
    outside.mkdir()
    (outside / "f").write_text("hidden")
    (work / "real").mkdir()
    (work / "real" / "f").write_text("open")
    (work / "sub").mkdir()
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            try:
                os.rename(work / "sub", work / "aside")
                (work / "sub").symlink_to(outside)
                (work / "sub").unlink()
                os.rename(work / "aside", work / "sub")
            except OSError:  # a write made the folder anew in between, or took it away
                shutil.rmtree(work / "aside", ignore_errors=True)
                (work / "sub").mkdir(exist_ok=True)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for turn in range(300):
            for call in (lambda: read(work, "sub/f"), lambda n=turn: write(work, "sub/f", f"open {n}", overwrite=True)):
                try:
                    assert "hidden" not in call()
                except ToolFailure:
                    pass
    finally:
        stop.set()
        swapper.join()
    assert (outside / "f").read_text() == "hidden"
    assert os.listdir(outside) == ["f"]


def test_schemas_are_short() -> None:
    assert all(len(json.dumps(d)) < 550 for d in registry.get_definitions(registry.names("files")))
