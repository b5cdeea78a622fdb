"""Providers of models that plugins bring: which of them run (G10), and what a turn through one sends."""

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import providers
from agent import auxiliary_client, choosing
from agent.providers.runtime import runtime_of_entry
from agent.providers.table import PROVIDERS, find_provider, provider_or_custom
from gateway.turns.commands.chat_command import read_choice
from hermes_base.errors import ConfigProblem
from hermes_base.query_values import ProviderChoice
from hermes_cli import plugins
from hermes_cli.auth import PROVIDER_REGISTRY
from hermes_cli.cmds import config_cmd
from hermes_cli.main import main
from hermes_cli.models import CANONICAL_PROVIDERS
from hermes_lab.server import LabServer
from providers.base import OMIT_TEMPERATURE, ProviderProfile, _profile_user_agent
from run_agent import AIAgent

EXAMPLE = Path(__file__).parents[2] / "examples/plugins/echo-models"
ACME = """
    from pathlib import Path
    from providers import register_provider
    from providers.base import ProviderProfile
    from .words import LABEL
    Path(__file__).with_name("ran").write_text("")
    register_provider(ProviderProfile(name="acme", aliases=("acme-cloud",), display_name=LABEL,
        base_url="http://127.0.0.1:9/v1", env_vars=("ACME_KEY", "ACME_BASE_URL"), fallback_models=("acme-1",)))
"""
LABEL = "LABEL = 'Acme'"


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    for profile in providers.list_registered():
        providers.forget_provider(profile)


@pytest.fixture
def acme(write_plugin: Callable[..., Path], home: Path) -> Path:
    """A folder among the model providers, without a manifest and under another name than its provider."""
    return write_plugin("vendor", ACME, manifest=False, root=home / "plugins" / "model-providers", words=LABEL)


@pytest.fixture
def lab_models(lab: LabServer, monkeypatch: pytest.MonkeyPatch) -> LabServer:
    monkeypatch.setenv("ECHO_MODELS_API_KEY", "lab-key-12345678")
    monkeypatch.setenv("ECHO_MODELS_BASE_URL", lab.base_url)
    return lab


def _ask(text: str = "Hello", times: int = 1, **options: Any) -> str:
    agent = AIAgent(skip_context_files=True, enabled_toolsets=[], **options)
    try:
        return [agent.run_conversation(text)["final_response"] for _ in range(times)][-1]
    finally:
        agent.close()


# --- what runs


@pytest.mark.parametrize("name", ["vendor", "acme", "acme-cloud", "ACME"])
def test_g10_a_provider_runs_once_the_settings_name_it(acme, configure, name):
    configure(model={"provider": name})
    found = plugins.get_plugin_manager()
    plugins.discover_plugins()
    assert (acme / "ran").exists()
    assert found._plugins["model-providers/vendor"].enabled
    assert find_provider("acme-cloud") is find_provider("ACME") is provider_or_custom("acme")
    assert find_provider("acme").label == "Acme"


def test_g10_a_folder_that_nobody_named_is_not_run(acme, configure, capsys):
    configure(model={"provider": "openai", "fallbacks": [{"provider": "groq"}]})
    with pytest.raises(ConfigProblem, match="no provider called 'acme'"):
        find_provider("acme")
    assert main(["plugins", "list"]) == 0
    assert "model-providers/vendor: chosen by its own setting" in capsys.readouterr().out
    assert not (acme / "ran").exists()


def test_g10_a_name_of_ours_lets_no_plugin_run(write_plugin, home, configure):
    code = ACME.replace('"acme-cloud"', '"openai"')
    folder = write_plugin("own", code, manifest=False, root=home / "plugins" / "model-providers", words=LABEL)
    configure(model={"provider": "openai"})
    plugins.discover_plugins()
    assert not (folder / "ran").exists()


def test_a_name_of_ours_stays_ours(write_plugin, enable, caplog):
    write_plugin("own", ACME.replace('"acme-cloud"', '"claude"').replace('name="acme"', 'name="openai"'), words=LABEL)
    enable("own")
    assert find_provider("openai") is PROVIDERS["openai"]
    assert find_provider("claude") is PROVIDERS["anthropic"]
    assert "which is built in" in caplog.text


def test_g10_changed_code_is_not_run(acme, configure):
    configure(model={"provider": "acme"})
    plugins.discover_plugins()
    (acme / "words.py").write_text("LABEL = 'Other'")
    plugins.discover_plugins(force=True)
    assert plugins.get_plugin_manager()._plugins["model-providers/vendor"].changed
    with pytest.raises(ConfigProblem, match="no provider called"):
        find_provider("acme")


def test_settings_that_name_one_later_are_followed_without_a_start(acme, configure):
    plugins.discover_plugins()
    assert not (acme / "ran").exists()
    configure(model={"provider": "openai", "fallbacks": [{"provider": "acme", "model": "acme-1"}]})
    assert find_provider("acme").name == "acme"


def test_any_enabled_plugin_may_bring_one_and_loses_it_when_disabled(write_plugin, enable, configure):
    code = "    def register(ctx):\n" + "".join(f"    {line}\n" for line in ACME.strip("\n").split("\n"))
    write_plugin("mixed", code, {"kind": "standalone"}, words=LABEL)
    manager = enable("mixed")
    assert find_provider("acme").label == "Acme"
    assert [kind for kind, _ in manager._plugins["mixed"].offers] == ["model_provider"]
    configure(plugins={"enabled": []})
    manager.follow_settings()
    with pytest.raises(ConfigProblem, match="no provider called"):
        find_provider("acme")


def test_one_that_fails_is_told_of_and_leaves_nothing(write_plugin, home, configure, capsys, caplog):
    write_plugin(
        "bad", ACME + "    raise RuntimeError('no luck')", root=home / "plugins" / "model-providers", words=LABEL
    )
    configure(model={"provider": "acme"})
    with caplog.at_level(logging.WARNING), pytest.raises(ConfigProblem, match="no provider called"):
        find_provider("acme")
    assert "no luck" in caplog.text
    assert main(["plugins", "info", "bad"]) == 0
    assert "Last error: no luck" in capsys.readouterr().out


def test_config_set_takes_its_name_as_consent_and_refuses_others(acme, home, capsys):
    assert config_cmd.main(["set", "model.provider", "acme"]) == 0
    assert (acme / "ran").exists()
    assert "acme" in (home / "config.yaml").read_text()
    with pytest.raises(ConfigProblem, match=r"no provider called 'acmee'.*Did you mean 'acme'"):
        config_cmd.main(["set", "model.provider", "acmee"])


def test_g10_what_is_installed_stays_off_until_a_yes_also_where_a_setting_names_it(configure, home):
    configure(model={"provider": "echo"})
    assert main(["plugins", "install", str(EXAMPLE), "--no-enable"]) == 0
    plugins.discover_plugins(force=True)
    assert plugins.get_plugin_manager()._plugins["echo-models"].error == plugins.DISABLED
    with pytest.raises(ConfigProblem, match="echo-models, which brings the provider echo, does not run"):
        config_cmd.main(["set", "model.provider", "echo"])
    assert main(["plugins", "enable", "echo-models"]) == 0
    assert find_provider("echo").label == "Echo"


# --- what is known of them


def test_they_stand_in_every_list(acme, configure, monkeypatch):
    monkeypatch.setattr(choosing, "probe_model_servers", lambda addresses: {})
    configure(model={"provider": "acme"})
    views = {view.name: view for view in choosing.list_providers()}
    assert (views["acme"].label, views["acme"].key_env, views["acme"].needs_key) == ("Acme", "ACME_KEY", True)
    assert views["acme"].default_model == "acme-1"
    entry = PROVIDER_REGISTRY["acme"]
    assert (entry.id, entry.name, entry.auth_type) == ("acme", "Acme", "api_key")
    assert (entry.api_key_env_vars, entry.base_url_env_var) == (("ACME_KEY",), "ACME_BASE_URL")
    assert entry.inference_base_url == "http://127.0.0.1:9/v1"
    assert "openrouter" in PROVIDER_REGISTRY
    assert [row.slug for row in CANONICAL_PROVIDERS][-1] == "acme"
    assert tuple(CANONICAL_PROVIDERS[0])[:2] == ("openrouter", "OpenRouter")
    assert read_choice(["acme-cloud"]) == ("", "acme-cloud")
    assert read_choice(["acme-9"]) == ("acme-9", "")


def test_key_and_address_come_from_the_first_variables_that_are_set():
    profile = ProviderProfile(name="two", base_url="http://one", env_vars=("A_KEY", "B_KEY", "A_BASE_URL", "B_URL"))
    providers.register_provider(profile)
    runtime = runtime_of_entry({"provider": "two", "model": "m"}, {"A_KEY": " ", "B_KEY": "b", "B_URL": "http://two"})
    assert (runtime.api_key, runtime.base_url) == ("b", "http://two")
    assert runtime_of_entry({"provider": "two", "model": "m"}, {"A_KEY": "a"}).base_url == "http://one"


def test_the_last_of_a_name_counts_and_other_things_are_refused():
    first, last = ProviderProfile(name="same"), ProviderProfile(name="Same", aliases=("other",))
    providers.register_provider(first)
    providers.register_provider(last)
    assert providers.get_provider_profile("SAME") is providers.get_provider_profile("other") is last
    assert providers.list_providers() == [last]
    assert providers.get_provider_profile("nobody") is None
    with pytest.raises(TypeError):
        providers.register_provider({"name": "x"})  # type: ignore[arg-type]


def test_models_are_fetched_with_key_and_headers_or_not_at_all(lab):
    profile = ProviderProfile(name="lab", base_url=lab.base_url, default_headers={"X-Own": "1"})
    assert profile.fetch_models(api_key="lab-key-12345678")
    assert ProviderProfile(name="none", base_url="http://127.0.0.1:9/v1").fetch_models(timeout=1) is None
    assert ProviderProfile(name="none").fetch_models() is None
    assert ProviderProfile(name="none", base_url="https://models.example:1/v1").get_hostname() == "models.example"
    assert _profile_user_agent().startswith("hermes-cli/")


# --- turns


def test_a_turn_through_the_example(lab_models, home, configure):
    shutil.copytree(EXAMPLE, home / "plugins" / "echo-models")
    configure(model={"provider": "echo-models"})
    assert _ask("[[say Good morning.]]", times=2) == "Good morning."
    first, second = lab_models.requests
    sent, headers = first.json(), dict(first.headers)
    assert (sent["model"], sent["temperature"], sent["max_tokens"]) == ("echo-1", 0.2, 512)
    assert sent["user"]
    assert (headers["x-asked-by"], headers["authorization"]) == ("hermes", "Bearer lab-key-12345678")
    prefix = first.body[: first.body.rindex(b"],")]
    assert second.body.startswith(prefix)  # A1: what the plugin adds stands behind the messages


def test_the_picker_probes_and_keeps_one(lab_models, home, enable):
    shutil.copytree(EXAMPLE, home / "plugins" / "echo-models")
    enable("echo-models")
    assert choosing.use_choice(ProviderChoice("echo", "", "", "")).probed.ok
    kept = (home / "config.yaml").read_text()
    assert "echo-1" in kept
    assert lab_models.base_url not in kept  # the variable goes on saying where it is


class Picky(ProviderProfile):
    """Has a say in everything."""

    def prepare_messages(self, messages):
        return [{**message, "content": str(message["content"]).replace("tea", "TEA")} for message in messages]

    def build_extra_body(self, *, session_id=None, **context):
        raise RuntimeError("broken")

    def build_api_kwargs_extras(self, *, reasoning_config=None, **context):
        assert context["model"] == "m"
        return {"user": reasoning_config["effort"]}, {"top_p": 0.5, "messages": [], "extra_headers": {"a": "b"}}

    def get_max_tokens(self, model):
        return 77


@pytest.fixture
def picky(lab: LabServer) -> LabServer:
    providers.register_provider(Picky(name="picky", base_url=lab.base_url, fixed_temperature=OMIT_TEMPERATURE))
    return lab


def test_a_profile_has_its_say_and_what_fails_in_it_is_left_out(picky, caplog):
    _ask("[[say tea]] tea", provider="picky", model="m", reasoning_config={"enabled": True, "effort": "high"})
    sent = picky.requests[0].json()
    assert (sent["user"], sent["top_p"], sent["max_tokens"]) == ("high", 0.5, 77)
    assert "reasoning_effort" not in sent
    assert "TEA" in json.dumps(sent["messages"][-1])
    assert "failed in build_extra_body" in caplog.text


def test_calls_beside_the_conversation_keep_its_rules(picky):
    auxiliary_client.call_llm(
        provider="picky",
        model="m",
        messages=[{"role": "user", "content": "[[say hi]] tea"}],
        temperature=0.9,
        max_tokens=5,
        reasoning_config={"effort": "low"},
    )
    sent = picky.requests[0].json()
    assert "temperature" not in sent
    assert (sent["max_tokens"], sent["user"]) == (5, "low")
    assert "TEA" in sent["messages"][0]["content"]
