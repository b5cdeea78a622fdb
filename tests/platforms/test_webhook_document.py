"""H11: the commands of the page on webhooks are run against a gateway, and its settings are the platform's."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hook_service import SECRET
from ruamel.yaml import YAML
from web_house import WebHouse

from gateway.platforms.account_settings import read_account
from gateway.platforms.signing import FORMS
from gateway.platforms.webhook import SPEC
from gateway.platforms.webhook.hook_settings import read_hook
from gateway.platforms.webhook.wire import HookReply
from hermes_lab.server import LabServer

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "platforms" / "webhook.md").read_text("utf-8")


def find_blocks(language: str) -> list[str]:
    found = re.finditer(rf"^( *)```{language}\n(.*?)^ *```$", PAGE, re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{block[1]}", "", block[2], flags=re.MULTILINE) for block in found]


def test_the_first_request_of_the_page_is_answered(tmp_path: Path, lab: LabServer) -> None:
    platforms = {"webhook": {"enabled": True, "account": "alarm", "role": "owner", "secret": SECRET}}
    (shell,), (python,) = find_blocks("bash"), find_blocks("py")
    with WebHouse(tmp_path / "home", lab.base_url, platforms=platforms) as house:
        given = {**os.environ, "SECRET": SECRET, "HOOK": f"{house.url}/hooks/webhook/alarm"}
        for command in (["bash", "-c", shell], [sys.executable, "-c", python]):
            done = subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=60)
            assert done.stdout.strip() == "Taken.", done.stderr
        house.wait_quiet()
        threads = house.visit().get("/web/threads")
        assert "disk of host seven" in json.dumps(threads)


@pytest.mark.parametrize("block", [block for block in find_blocks("yaml") if block.startswith("platforms:")])
def test_the_settings_of_the_page_make_hooks(block: str) -> None:
    section = YAML(typ="safe").load(block)["platforms"]["webhook"]
    for account in section["accounts"]:
        given = read_account(SPEC, section, account, lambda name: f"{SECRET} {name}" if "SECRET" in name else "")
        assert read_hook(given)


def test_the_page_names_every_setting_and_form() -> None:
    for name in [*SPEC.settings, *FORMS, *HookReply.__struct_fields__]:
        if name not in ("account", "secret"):
            assert f"`{name}`" in PAGE or f'"{name}"' in PAGE
