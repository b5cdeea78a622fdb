"""The changelog: its newest version is this one, and names the layout that the store has."""

import re
from pathlib import Path

from hermes_constants import VERSION
from hermes_state.sql.schema import SCHEMA_VERSION

TEXT = (Path(__file__).resolve().parents[2] / "CHANGELOG.md").read_text("utf-8")
SECTIONS = re.findall(r"^## (\S+)[^\n]*\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)


def read_layouts(section: str) -> list[int]:
    return [int(number) for number in re.findall(r"\*\*Store: layout (\d+)\.\*\*", section)]


def test_the_newest_version_is_this_one() -> None:
    assert SECTIONS[0][0] == VERSION


def test_the_newest_version_names_the_layout_of_the_store() -> None:
    assert read_layouts(SECTIONS[0][1]) == [SCHEMA_VERSION]


def test_every_version_names_its_layout_once() -> None:
    for version, section in SECTIONS:
        assert len(read_layouts(section)) == 1, version
