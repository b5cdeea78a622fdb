"""The system prompt: its parts, their limits, and what is left out."""

from datetime import datetime
from pathlib import Path

from agent.turn.prompt import CONTEXT_FILE_CHARS, DEFAULT_IDENTITY, PromptSources, build_system_prompt

NOW = datetime(2026, 11, 15, 12, 0)


def test_an_empty_home_gives_the_default_identity(tmp_path: Path) -> None:
    assert build_system_prompt(PromptSources(home=tmp_path / "none", folder=tmp_path)) == DEFAULT_IDENTITY


def test_parts_stand_in_a_fixed_order(tmp_path: Path) -> None:
    (tmp_path / "SOUL.md").write_text("I am the soul.")
    (tmp_path / "AGENTS.md").write_text("Rules of the folder.")
    (tmp_path / "memories").mkdir()
    (tmp_path / "memories" / "MEMORY.md").write_text("A fact.")
    (tmp_path / "memories" / "USER.md").write_text("A person.")
    for name, text in (
        ("tea", "---\nname: tea\ndescription: How to make tea\n---\n"),
        ("bare", "# Bare\n\nJust text.\n"),
    ):
        (tmp_path / "skills" / name).mkdir(parents=True)
        (tmp_path / "skills" / name / "SKILL.md").write_text(text)
    prompt = build_system_prompt(PromptSources(home=tmp_path, folder=tmp_path, extra="At the end."))
    parts = [
        "I am the soul.",
        "Rules of the folder.",
        "A fact.",
        "A person.",
        "bare: Just text.",
        "tea: How to",
        "At the end.",
    ]
    places = [prompt.index(part) for part in parts]
    assert places == sorted(places)
    assert prompt == build_system_prompt(PromptSources(home=tmp_path, folder=tmp_path, extra="At the end."))


def test_what_is_switched_off_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Rules of the folder.")
    (tmp_path / "memories").mkdir()
    (tmp_path / "memories" / "MEMORY.md").write_text("A fact.")
    prompt = build_system_prompt(PromptSources(home=tmp_path, folder=None, memory=False))
    assert prompt == DEFAULT_IDENTITY
    small = build_system_prompt(PromptSources(home=tmp_path, folder=tmp_path, small=True))
    assert len(small) < 200


def test_a_large_or_broken_file_is_cut_or_cleaned_never_fatal(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"\xff\xfe" + b"x" * 50_000)
    (tmp_path / "SOUL.md").mkdir()
    prompt = build_system_prompt(PromptSources(home=tmp_path, folder=tmp_path))
    assert "more characters in AGENTS.md" in prompt
    assert len(prompt) < CONTEXT_FILE_CHARS + 1_000
