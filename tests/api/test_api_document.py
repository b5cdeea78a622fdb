"""H11: the examples of the API's page run as they stand, but for the address and the key."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from api_house import ApiHouse

from gateway.http.api.routes import CALLS

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "api.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")
ADDRESS, KEY = "http://127.0.0.1:8642", "hk_..."


def find_blocks(language: str, text: str = TEXT) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


PYTHON = [*find_blocks("py"), *find_blocks("py", README)]


@pytest.mark.parametrize("block", PYTHON, ids=range(len(PYTHON)))
def test_python_examples_run(api: ApiHouse, block: str) -> None:
    """H11: with a key as the command makes it."""
    assert ADDRESS in block
    made: dict[str, Any] = {}
    exec(block.replace(ADDRESS, api.address).replace(KEY, api.make_key()), made)
    made["client"].close()
    assert api.http().get("/v1/sessions").json()["data"]


@pytest.mark.parametrize("block", find_blocks("bash"), ids=range(len(find_blocks("bash"))))
def test_shell_examples_run(api: ApiHouse, block: str) -> None:
    """H11."""
    done = subprocess.run(
        ["bash", "-euc", block.replace(ADDRESS, api.address)],
        env={"KEY": api.make_key(), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert '"object":"run"' in done.stdout, done.stderr


def test_the_page_names_every_call() -> None:
    assert [path for _, path in CALLS if path.replace(":path", "") not in TEXT] == []
