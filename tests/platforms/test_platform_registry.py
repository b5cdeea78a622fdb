"""A platform is a folder: one that is put there is found, and nothing else is edited."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from house import House

from gateway import platforms
from gateway.platforms import platform_list
from gateway.platforms.face import Adapter, Core, PlatformSpec
from gateway.platforms.pretend.adapter import PretendAdapter, describe
from gateway.platforms.pretend.service import PretendRules, PretendService
from hermes_base.errors import ConfigProblem
from hermes_lab.server import LabServer


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place for more platforms, beside those that ship."""
    monkeypatch.setattr(platforms, "__path__", [*platforms.__path__, str(tmp_path)])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("gateway.platforms."):
            del sys.modules[name]
            vars(platforms).pop(name.rpartition(".")[2], None)


def write_platform(folder: Path, name: str, init: str, adapter: str = "") -> None:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(init)
    (folder / name / "adapter.py").write_text(adapter)


SPEC = """
from gateway.platforms.face import PlatformSpec
SPEC = PlatformSpec("pigeon", "Pigeon", "gateway.platforms.pigeon.adapter:Pigeon", max_length=40)
"""
ADAPTER = """
from gateway.platforms.face import BaseAdapter
from gateway.platforms.pigeon import SPEC
class Pigeon(BaseAdapter):
    spec = SPEC
"""


def test_a_new_folder_is_a_new_platform(folder: Path) -> None:
    write_platform(folder, "pigeon", SPEC, ADAPTER)
    spec = platform_list.find_spec("pigeon")
    assert spec in platform_list.all_specs()
    adapter = platform_list.make_adapter(spec, "home", {"loft": 3}, folder)
    assert (adapter.account, adapter.spec) == ("home", spec)


def test_those_that_ship_are_found() -> None:
    names = [spec.name for spec in platform_list.all_specs()]
    assert names == sorted(names)
    assert "pretend" in names


def test_a_broken_folder_is_told_and_left_out(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_platform(folder, "broken", "raise RuntimeError('no wings')")
    write_platform(folder, "empty", "")
    names = [spec.name for spec in platform_list.all_specs()]
    assert "pretend" in names
    assert not {"broken", "empty"} & set(names)
    assert "no wings" in caplog.text
    assert "'empty' has no SPEC" in caplog.text


def test_an_unknown_name_is_a_problem_that_the_owner_can_fix() -> None:
    with pytest.raises(ConfigProblem, match=r"no platform 'nosuch'.*pretend"):
        platform_list.find_spec("nosuch")


def test_what_an_adapter_needs_may_be_missing(folder: Path) -> None:
    write_platform(folder, "pigeon", SPEC, "import a_library_that_is_not_there")
    with pytest.raises(ConfigProblem, match=r"Pigeon cannot be loaded.*a_library_that_is_not_there"):
        platform_list.make_adapter(platform_list.find_spec("pigeon"), "home", {}, folder)


def test_a_plugin_registers_one_at_run_time(tmp_path: Path) -> None:
    spec = PlatformSpec("smoke", "Smoke signals", "")
    platform_list.register(spec, PretendAdapter)
    try:
        assert platform_list.find_spec("smoke") is spec
        assert spec in platform_list.all_specs()
        assert platform_list.make_adapter(spec, "hill", {}, tmp_path).account == "hill"
    finally:
        platform_list.unregister("smoke")
    with pytest.raises(ConfigProblem):
        platform_list.find_spec("smoke")


def test_one_that_cannot_be_keeps_nobody_else(folder: Path, lab: LabServer, caplog: pytest.LogCaptureFixture) -> None:
    """C13: neither settings that break its maker nor a folder that cannot be made end the gateway."""

    class Breaking(PretendAdapter):
        async def connect(self, core: Core) -> None:
            raise FileNotFoundError("/proc/nope")

    def refuse(*_: object) -> Adapter:
        raise TypeError("5 is no folder")

    platform_list.register(replace(describe(PretendRules()), name="odd", label="Odd"), refuse)
    service = PretendService(PretendRules())
    shaky = replace(describe(PretendRules()), name="shaky", label="Shaky")
    platform_list.register(shaky, lambda account, given, home: Breaking(account, {**given, "service": service}, home))
    switched_on = {name: {"enabled": True} for name in ("odd", "shaky", "shakey")}
    try:
        with House(folder / "home", lab.base_url, pretend={"owner": "ann"}, platforms=switched_on) as house:
            assert house.person("ann").ask("hello")
    finally:
        platform_list.unregister("odd")
        platform_list.unregister("shaky")
    assert "Odd is left out: its settings do not do: 5 is no folder" in caplog.text
    assert "Pretend is not connected, and will be tried again" in caplog.text
    assert "There is no platform 'shakey'. Did you mean shaky?" in caplog.text


@pytest.mark.parametrize(("name", "loads"), [("webhook", False), ("telegram", True)])
def test_only_the_sdk_of_a_platform_that_is_on_is_loaded(tmp_path: Path, name: str, loads: bool) -> None:
    """Everything is installed here; what is off is not imported."""
    code = (
        "import sys; from pathlib import Path; from gateway.service.gateway import make_adapters; "
        "from hermes_base.setting_table import make_settings; "
        f"section = {{'enabled': True, 'token': '1:a', 'secret': 'a' * 40}}; "
        f"made = make_adapters(make_settings({{'platforms': {{{name!r}: section}}}}), Path({str(tmp_path)!r})); "
        f"print({name!r} in [adapter.spec.name for adapter in made], 'telegram' in sys.modules)"
    )
    environment = {**os.environ, "HERMES_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["True", str(loads)], done.stdout + done.stderr
