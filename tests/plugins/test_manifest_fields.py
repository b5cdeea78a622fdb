"""H8: a field of a manifest in another form than it should have is read as it was meant, and that is said."""

import json

import pytest

from hermes_cli import plugins, plugins_cmd
from hermes_cli.plugins.manifest_fields import read_fields

#: What stands there, what is read, and a word of what is said (empty: nothing).
LISTS = [
    (["A"], ["A"], ""),
    ("A", ["A"], "is a text"),
    ("A, B", ["A", "B"], "is a text"),
    ({"name": "A", "secret": True}, [{"name": "A", "secret": True}], "is one entry"),
    (
        {"A": "What for", "B": None},
        [{"name": "A", "description": "What for"}, {"name": "B", "description": ""}],
        "mapping",
    ),
    ({"A": {"secret": False}}, [{"name": "A", "secret": False}], "mapping"),
    (7, [], "of another kind (int)"),
    ([7, "A"], ["A"], "holds 7"),
    ([{"key": "A"}, "B"], ["B"], "which is no name"),
    (["my key"], ["my key"], "no variable can be called"),
    (None, [], ""),
    ([], [], ""),
]


@pytest.mark.parametrize(("given", "wanted", "said"), LISTS)
def test_lists(given, wanted, said):
    read = read_fields({"requires_env": given})
    assert read.lists["requires_env"] == wanted
    assert (said in " ".join(read.faults)) if said else not read.faults


def test_names_in_a_mapping_are_the_names():
    read = read_fields({"provides_tools": {"dice": "Rolls dice."}, "provides_hooks": [{"name": "pre_llm_call"}]})
    assert (read.lists["provides_tools"], read.lists["provides_hooks"]) == (["dice"], ["pre_llm_call"])


@pytest.mark.parametrize(
    ("field", "given", "wanted", "said"),
    [
        ("version", 1.2, "1.2", ""),
        ("version", True, "True", ""),
        ("description", ["One", "two"], "One, two", "is a list"),
        ("author", {"name": "Ada"}, "Ada", "has fields"),
        ("author", {"mail": "Ada"}, "", "is no text"),
        ("name", ["p"], "", "is no text"),
    ],
)
def test_texts(field, given, wanted, said):
    read = read_fields({field: given})
    assert read.texts[field] == wanted
    assert (said in " ".join(read.faults)) if said else not read.faults


def test_it_works_and_everybody_is_told(write_plugin, enable, capsys):
    manifest = {"name": "p", "requires_env": "P_KEY", "provides_tools": "dice", "author": {"name": "Ada"}}
    write_plugin("p", "def register(ctx): pass", manifest)
    host = enable("p")
    assert host._plugins["p"].enabled
    assert host._plugins["p"].manifest.requires_env == ["P_KEY"]
    plugins_cmd.main(["info", "p"])
    told = capsys.readouterr().out
    assert "plugin.yaml: requires_env is a text and should be a list; it is read as one" in told
    assert "P_KEY (not set)" in told
    assert plugins_cmd.main(["enable", "p"]) == 0
    assert "plugin.yaml: provides_tools is a text" in capsys.readouterr().out
    plugins_cmd.main(["list", "--json"])
    assert len(json.loads(capsys.readouterr().out)[0]["manifest_faults"]) == 3


def test_install_asks_for_a_variable_that_stands_alone(write_plugin, tmp_path, capsys):
    manifest = {"name": "p", "requires_env": "P_KEY", "manifest_version": "1", "pip_dependencies": "pyyaml"}
    folder = write_plugin("p", "def register(ctx): pass", manifest, root=tmp_path / "made")
    assert plugins_cmd.main(["install", str(folder), "--enable"]) == 0
    told = capsys.readouterr().out
    assert "needs variables: P_KEY" in told
    assert "requires_env is a text" in told
    assert "p" in plugins.get_plugin_manager()._plugins
