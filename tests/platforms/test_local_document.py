"""H11: the client that docs/local-protocol.md shows runs, and the page names every call and event there is."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_house import HouseThread

from hermes_base import local_wire as wire

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "local-protocol.md").read_text("utf-8")


@pytest.fixture
def short_home() -> Iterator[Path]:
    """The example looks for the socket in the home itself, where it is unless the path is too long for one."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_the_client_of_the_page_gets_its_answer(short_home: Path) -> None:
    """H11"""
    (example,) = re.findall(r"^```py\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    home = short_home
    house = HouseThread(home)
    house.start()
    env = {**os.environ, "HERMES_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", example, "are", "you", "there?"], env=env, capture_output=True, text=True, timeout=60
    )
    house.stop()
    assert (done.stdout, done.returncode) == ("echo: are you there?\n", 0), done.stderr


def test_the_page_names_every_call(home: Path) -> None:
    """H11"""
    home.mkdir()
    house = HouseThread(home)
    house.start()
    served = {path for _, path in house.house.server._calls}
    house.stop()
    assert served == set(re.findall(r"^\| `(?:GET|POST) (\S+)` \|", PAGE, re.MULTILINE))


def test_the_page_names_every_event() -> None:
    """H11"""
    assert all(re.search(rf"`{kind}\b", PAGE) for kind in wire._READERS)
