"""`hermes plugins new`: a folder with a plugin that works and a test that passes, to be changed into one's own."""

import argparse
import importlib.util
import re
import sys
import tempfile
from pathlib import Path

from hermes_base.errors import ConfigProblem
from hermes_cli.config.folder import find_folder
from hermes_cli.plugins_cmd import plugin_placing
from hermes_cli.plugins_cmd.plugin_templates import MANIFEST, README, TEMPLATES, TEST_HEAD, PluginTemplate

KINDS = frozenset(TEMPLATES)
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}", re.ASCII)
_UNCHANGED = "Nothing was made."


def run_new(parsed: argparse.Namespace) -> int:
    template = TEMPLATES[parsed.kind]
    name = parsed.name
    if not _NAME.fullmatch(name) or name != plugin_placing.check_name(name):
        fix = "Small letters, digits, - and _, for example: word-count"
        raise ConfigProblem(f"{name!r} is no good name for a plugin.", kept=_UNCHANGED, fix=fix)
    if template.module and not _has_module(template.module):
        raise ConfigProblem(f"This Hermes cannot use plugins of the kind {parsed.kind}.", kept=_UNCHANGED)
    target = find_folder() / name
    if target.exists():
        raise ConfigProblem(f"{target} exists already.", kept=_UNCHANGED)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=target.parent) as scratch:
        made = Path(scratch, name)
        for place, text in write_files(name, template).items():
            (made / place).parent.mkdir(parents=True, exist_ok=True)
            (made / place).write_text(text, encoding="utf-8")
        made.rename(target)
    print(f"{target} is a plugin that works. What to do with it:")
    print(f"    change it         {target / '__init__.py'}")
    print(f"    test it           {sys.executable} -m pytest {target / 'tests'}")
    print(f"    install it        hermes plugins install ./{name}")
    print(f"    use it            {fill(template.use, name)}")
    return 0


def write_files(name: str, template: PluginTemplate) -> dict[str, str]:
    """The files of a new plugin: path and text."""
    files = {
        "plugin.yaml": MANIFEST + template.manifest,
        "__init__.py": template.code,
        "README.md": README,
        "tests/test_plugin.py": TEST_HEAD + template.test,
        # The tests are at home here: pytest would import the plugin's folder by its name, which may be no Python's.
        "tests/pytest.ini": "[pytest]\n",
        **template.more,
    }
    return {fill(place, name): fill(text, name) for place, text in files.items()}


def fill(text: str, name: str) -> str:
    slug = re.sub(r"\W", "_", name)
    label = "".join(part.capitalize() for part in re.split(r"[-_]", name))
    values = {"name": name, "slug": slug, "label": label, "upper": slug.upper()}
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], text)


def _has_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
