"""Skills: listed and read by page; nothing outside of a skill's folder is read (G7), nothing is run (G10)."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hermes_base.text.redact import Redactor
from hermes_base.turn.tool_context import ToolContext
from tools.registry import registry
from tools.skills_tool import PAGE_CHARS

SECRET = "outside-of-everything"


def call(home: Path, action: str, redact: Any = str, **args: Any) -> dict[str, Any]:
    context = ToolContext(home=home, redact=redact)
    result: dict[str, Any] = json.loads(registry.dispatch("skills", {"action": action, **args}, context=context))
    return result


def make_skill(home: Path, name: str = "bake", text: str = "# Bake\n\nHow to bake.\n") -> Path:
    folder = home / "skills" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text, "utf-8")
    return folder


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("---\nname: bake\ndescription: 'Bakes bread'\n---\n# Bake\n", "Bakes bread"),
        ("---\nDescription:   Bakes: cake\n---\n", "Bakes: cake"),
        ("---\ndescription: >-\n  Bakes over\n  two lines\n---\n", "Bakes over"),
        ("# Bake\n\nFirst line.\nSecond.\n", "First line."),
        ("# Bake\n", ""),
        ("", ""),
        ("x" * 500, "x" * 160),
    ],
)
def test_a_skill_is_listed_with_its_description(home: Path, text: str, description: str) -> None:
    make_skill(home, text=text)
    assert call(home, "list") == {"skills": {"bake": description}}


def test_listing_takes_folders_with_a_skill_only(home: Path) -> None:
    assert "no skills" in call(home, "list")["note"]
    for name in ("b", "a", ".hidden"):
        make_skill(home, name)
    (home / "skills" / "empty").mkdir()
    (home / "skills" / "file").write_text("x")
    (home / "skills" / "odd" / "SKILL.md").mkdir(parents=True)
    assert list(call(home, "list")["skills"]) == ["a", "b"]


def test_reading_names_the_other_files(home: Path) -> None:
    folder = make_skill(home)
    (folder / "parts").mkdir()
    (folder / "parts" / "oven.md").write_text("hot")
    result = call(home, "read", name="bake")
    assert result["text"] == "# Bake\n\nHow to bake.\n"
    assert (result["files"], result["folder"]) == (["parts/oven.md"], str(folder))
    assert call(home, "read", name="bake", file="parts/oven.md")["text"] == "hot"
    assert call(home, "read", name="bake", file="parts/../parts/oven.md")["text"] == "hot"


def test_long_files_come_in_pages(home: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(6_000))
    make_skill(home, text=text)
    pages, offset = [], 0
    while offset is not None:
        page = call(home, "read", name="bake", offset=offset)
        assert len(page["text"]) <= PAGE_CHARS
        pages.append(page["text"])
        offset = page.get("next_offset")
    assert "".join(pages) == text
    assert len(pages) > 3


@pytest.mark.parametrize(("offset", "text"), [(-5, "abc"), (99, ""), ("2", "abc"), (None, "abc"), (1, "bc")])
def test_odd_offsets_do_no_harm(home: Path, offset: Any, text: str) -> None:
    make_skill(home, text="abc")
    assert call(home, "read", name="bake", offset=offset)["text"] == text


@pytest.mark.parametrize(
    "file",
    [
        "../../secret",
        "../../../secret",
        "/etc/passwd",
        "parts/../../other/SKILL.md",
        "link",
        "linked-folder/secret",
        "far/secret",
        "other-link",
        "chain",
        "loop",
        "pipe",
        ".",
        "parts",
        "nul\0",
        "missing",
        "x" * 5_000,
    ],
)
def test_no_path_leads_out_of_the_skill(home: Path, tmp_path: Path, file: str) -> None:
    """G7: links are resolved first; absolute paths, `..`, links, chains, loops and pipes are refused."""
    folder = make_skill(home)
    make_skill(home, "other", SECRET)
    for place in (home / "secret", tmp_path / "secret", home / "skills" / "secret"):
        place.write_text(SECRET)
    (folder / "parts").mkdir()
    (folder / "link").symlink_to(home / "secret")
    (folder / "linked-folder").symlink_to(home)
    (folder / "far").symlink_to("../../..")
    (folder / "other-link").symlink_to("../other/SKILL.md")
    (folder / "chain").symlink_to("link")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    result = call(home, "read", name="bake", file=file)
    assert "error" in result
    assert SECRET not in json.dumps(result)


@pytest.mark.parametrize("name", ["..", ".", "/", "../skills/bake", "bake/", "", None, 3, "nul\0", "gone", "x" * 5_000])
def test_no_name_leads_out_of_the_skills(home: Path, name: Any) -> None:
    """G7."""
    make_skill(home)
    (home / "SKILL.md").write_text(SECRET)
    result = call(home, "read", name=name)
    assert "error" in result
    assert SECRET not in json.dumps(result)


def test_a_skill_that_is_a_link_to_elsewhere_is_neither_listed_nor_read(home: Path, tmp_path: Path) -> None:
    """G7."""
    make_skill(home)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "SKILL.md").write_text(SECRET)
    (home / "skills" / "linked").symlink_to(elsewhere)
    inner = home / "skills" / "inner"
    inner.mkdir()
    (inner / "SKILL.md").symlink_to(elsewhere / "SKILL.md")
    assert list(call(home, "list")["skills"]) == ["bake"]
    for name in ("linked", "inner"):
        assert "leads out" in call(home, "read", name=name)["error"]


def test_links_inside_of_a_skill_are_read(home: Path) -> None:
    folder = make_skill(home)
    (folder / "alias.md").symlink_to("SKILL.md")
    assert call(home, "read", name="bake", file="alias.md")["text"].startswith("# Bake")


@pytest.mark.parametrize("content", [b"\x00\x01binary", b"x" * 2_000_001])
def test_what_is_no_text_or_too_large_is_refused(home: Path, content: bytes) -> None:
    (make_skill(home) / "data").write_bytes(content)
    assert "no text, or too large" in call(home, "read", name="bake", file="data")["error"]


def test_a_secret_on_the_edge_of_a_page_is_redacted(home: Path) -> None:
    """G6: no page shows a half of it either."""
    secret = "sk-canary-0123456789"
    make_skill(home, text="x" * (PAGE_CHARS - 8) + secret + f"\ndescription: {secret}")
    redact = Redactor({"KEY": secret})
    pages = [call(home, "read", redact, name="bake", offset=offset)["text"] for offset in (0, PAGE_CHARS)]
    assert "canary" not in "".join(pages)
    make_skill(home, "second", f"description: {secret}")
    assert call(home, "list", redact)["skills"]["second"] == "[redacted KEY]"


def test_reading_leaves_no_descriptor_open(home: Path) -> None:
    make_skill(home)
    before = len(os.listdir("/proc/self/fd"))
    for file in ("SKILL.md", ".", "missing", "../.."):
        call(home, "read", name="bake", file=file)
    call(home, "list")
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_unknown_action_is_a_sentence(home: Path) -> None:
    assert "The action is" in call(home, "run", name="bake")["error"]
