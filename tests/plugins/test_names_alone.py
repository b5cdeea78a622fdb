"""A name that a suite of a plugin imports alone, in a process that imported nothing else of ours, does what it does
anywhere: it has the settings, the plugins and the tools of the home."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from agent.auxiliary_client import extract_content_or_reasoning

MODELS = """
from providers import register_provider
from providers.base import ProviderProfile

made = ProviderProfile(name="acme", aliases=("ac",), base_url="http://127.0.0.1:9/v1", env_vars=("ACME_KEY",))
register_provider(made)
"""
ALONE = {
    "settings of platforms": """
        from gateway.config import Platform, load_gateway_config
        print(load_gateway_config().platforms[Platform("telegram")].extra["require_mention"])
    """,
    "a provider of a plugin": """
        from providers import get_provider_profile
        print(get_provider_profile("ac").name)
    """,
    "all providers": """
        import providers
        print([profile.name for profile in providers.list_providers()])
    """,
    "providers with keys": """
        from hermes_cli.auth import PROVIDER_REGISTRY
        print(PROVIDER_REGISTRY["acme"].inference_base_url)
    """,
    "providers to choose from": """
        from hermes_cli.models import CANONICAL_PROVIDERS
        print([slug for slug, *_ in CANONICAL_PROVIDERS if slug == "acme"])
    """,
    "who answers": """
        from hermes_cli.runtime_provider import resolve_runtime_provider
        print(resolve_runtime_provider()["base_url"])
    """,
    "a tool of ours": """
        from tools.registry import registry
        print("no tool called" in registry.dispatch("read_file", {"path": "absent"}))
    """,
    "a tool that is a coroutine": """
        from tools.registry import registry

        async def late(args, **_):
            return "came"

        registry.register("late", "own", {"description": "d"}, late, is_async=True)
        print(registry.dispatch("late", {}))
    """,
}
SAID = {
    "settings of platforms": "False",
    "a provider of a plugin": "acme",
    "all providers": "['acme']",
    "providers with keys": "http://127.0.0.1:9/v1",
    "providers to choose from": "['acme']",
    "who answers": "http://127.0.0.1:9/v1",
    "a tool of ours": "False",
    "a tool that is a coroutine": "came",
}


@pytest.mark.parametrize("what", ALONE)
def test_it_does_what_it_does_anywhere(what, write_plugin, configure, home, tmp_path):
    write_plugin("acme", MODELS, False, root=home / "plugins" / "model-providers")
    platforms = {"telegram": {"enabled": True, "require_mention": False}}
    configure(platforms=platforms, model={"provider": "acme", "default": "m"})
    code = "\n".join(line.removeprefix("        ") for line in ALONE[what].splitlines())
    command = [sys.executable, "-W", "ignore", "-c", code]
    environment = {**os.environ, "ACME_KEY": "any"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60, env=environment)
    assert (done.stdout.strip(), done.returncode) == (SAID[what], 0), done.stderr


def test_taking_the_last_variable_out_of_the_file_takes_it_out_of_the_environment(home):
    """Also at once, and one that is kept stands in place of one that was exported."""
    code = """
import json, os
from hermes_cli.config import get_env_value, remove_env_value, save_env_value
save_env_value("ACME_KEY", "kept")
seen = [os.environ["ACME_KEY"], get_env_value("ACME_KEY"), remove_env_value("ACME_KEY"), get_env_value("ACME_KEY")]
print(json.dumps([*seen, os.environ.get("ACME_KEY"), remove_env_value("ACME_KEY")]))
"""
    for before in ({}, {"ACME_KEY": "exported"}):
        environment = {**{name: value for name, value in os.environ.items() if name != "ACME_KEY"}, **before}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60)
        assert json.loads(done.stdout) == ["kept", "kept", True, None, None, False], done.stderr


def test_an_answer_without_a_choice_holds_no_text():
    for answer in (SimpleNamespace(choices=[]), SimpleNamespace(choices=None), None):
        assert extract_content_or_reasoning(answer) == ""
