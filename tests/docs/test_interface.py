"""docs/interface.md is what the code offers: nothing that is fixed goes, changes or comes without being seen there."""

import importlib
from types import ModuleType

import pytest
from script_loading import load_script

interface = load_script("interface")


def test_the_page_is_current() -> None:
    """`python scripts/interface.py` writes it anew; look at what changed before you do."""
    assert interface.PAGE.read_text("utf-8") == interface.write_page()


@pytest.mark.parametrize("name", interface.FIXED)
def test_what_is_fixed_is_there(name: str) -> None:
    module = importlib.import_module(name)
    assert [each for each in interface.FIXED[name] if not hasattr(module, each)] == []


@pytest.mark.parametrize("name", interface.FIXED_MEMBERS)
def test_the_members_that_are_fixed_are_there(name: str) -> None:
    module = next(module for module, names in interface.FIXED.items() if name in names)
    owner = getattr(importlib.import_module(module), name)
    assert [each for each in interface.FIXED_MEMBERS[name] if not hasattr(owner, each)] == []


def sample(monkeypatch: pytest.MonkeyPatch, code: str) -> str:
    """The page of one module with this code, in which `call` is fixed."""
    module = ModuleType("sample")
    exec(code, module.__dict__)
    monkeypatch.setattr(interface, "FIXED", {"sample": ("call",)})
    monkeypatch.setattr(interface.importlib, "import_module", lambda name: module)
    return str(interface.write_page())


def test_a_change_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another parameter, another default, another way to give it, a new public name."""
    codes = [
        "def call(a, b=1): ...",
        "def call(a): ...",
        "def call(a, b=2): ...",
        "def call(a, *, b=1): ...",
        "def call(a, b=1): ...\ndef another(): ...",
    ]
    assert len({sample(monkeypatch, code) for code in codes}) == len(codes)


def test_a_name_that_has_gone_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AttributeError, match="call"):
        sample(monkeypatch, "def another(): ...")


def test_types_and_addresses_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """They differ from Python to Python, and from run to run."""
    page = sample(monkeypatch, "def call(a: int | None = None, b=object()) -> str: ...")
    assert "`call(a=None, b=…)`" in page
