"""One real call says whether a provider works (H5), and a choice is kept only after it did."""

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from agent import choosing, probing
from agent.auxiliary_client import find_runtime
from agent.providers.runtime import Runtime
from hermes_base.errors import ConfigProblem
from hermes_base.query_values import Probed, ProviderChoice
from hermes_cli import config
from hermes_lab.server import LabServer

KEY = "sk-or-v1-0123456789abcdef"
ECHO = f"Incorrect API key provided: {KEY}."


@pytest.fixture
def runtime(lab: LabServer) -> Runtime:
    return Runtime("openrouter", "lab-model", lab.base_url, KEY, "chat_completions", 8000)


def read_home(home: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in home.iterdir()} if home.exists() else {}


def dead_address() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


def fail(status: int, message: str = ECHO, **more: Any) -> list[dict[str, Any]]:
    return [{"fault": {"status": status, "message": message, **more}}]


@pytest.mark.parametrize("api_mode", ["chat_completions", "codex_responses", "anthropic_messages"])
def test_a_model_that_answers_works(lab: LabServer, api_mode: str) -> None:
    """H5, A8: one small call in each format, with a row for the ledger that equals the bill."""
    address = lab.address if api_mode == "anthropic_messages" else lab.base_url
    result = probing.probe(Runtime("custom", "lab-model", address, KEY, api_mode, 8000))
    assert result.probed.ok
    assert "lab-model" in result.probed.text
    assert len(lab.requests) == 1
    (row,) = result.usage
    bill = lab.bill[KEY]
    assert (row.kind, row.input_tokens, row.output_tokens) == ("probe", bill.prompt_tokens, bill.output_tokens)


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (fail(401), probing.WRONG_KEY),
        (fail(400, f"API key not valid: {KEY}"), probing.WRONG_KEY),
        (fail(402), probing.NO_CREDIT),
        (fail(429, "You exceeded your current quota, check billing"), probing.NO_CREDIT),
        (fail(403, f"Forbidden for {KEY}"), probing.NOT_ALLOWED),
        (fail(404), probing.NO_MODEL),
        (fail(400, "lab-model is not a valid model ID"), probing.NO_MODEL),
        (fail(429, "slow down"), probing.LIMITED),
        (fail(503), probing.BROKEN),
        ([{"text": "OK", "fault": {"cut_after_chunks": 1}}], probing.CUT),
    ],
)
def test_each_failure_has_its_sentence(
    lab: LabServer, runtime: Runtime, plan: list[dict[str, Any]], sentence: probing.Sentence
) -> None:
    """H5, H8: what is wrong and what to do; a key that the provider repeats is not told."""
    lab.set_plan(plan)
    probed = probing.probe(runtime).probed
    facts = {"who": "OpenRouter", "model": "lab-model", "address": lab.base_url}
    assert probed == Probed(False, " ".join(sentence).format_map(facts), "lab-model", probed.seconds)
    assert KEY not in probed.text


@pytest.mark.parametrize("key", [KEY, "short1"])
def test_words_of_the_provider_are_told_without_the_key(lab: LabServer, key: str) -> None:
    """G6: a key that is tried is not configured yet, and is hidden all the same."""
    lab.set_plan(fail(422, f"The tenant {key} is asleep."))
    probed = probing.probe(Runtime("custom", "m", lab.base_url, key, "chat_completions", 8000)).probed
    assert not probed.ok
    assert "is asleep" in probed.text
    assert key not in probed.text


def test_nobody_there() -> None:
    address = dead_address()
    probed = probing.probe(Runtime("custom", "m", address, "", "chat_completions", 8000)).probed
    assert not probed.ok
    assert probed.text.startswith(f"The server cannot be reached at {address}.")


def test_a_silent_server_is_given_up(lab: LabServer, runtime: Runtime) -> None:
    lab.set_plan([{"text": "OK", "stall_first": 60}])
    probed = probing.probe(runtime, seconds=0.2).probed
    assert not probed.ok
    assert probed.text.startswith("OpenRouter did not answer in time.")


def test_an_endless_answer_is_given_up(lab: LabServer, runtime: Runtime) -> None:
    """The limit holds for the whole call, not for each piece; what may have been billed is unsettled (A8)."""
    lab.set_plan([{"text": "OK " * 60, "chunks": 60, "stall_between": 0.2}])
    result = probing.probe(runtime, seconds=0.5)
    assert result.probed.text.startswith("OpenRouter did not answer in time.")
    assert [row.settled for row in result.usage] == [False]


# --- choices


def test_a_choice_is_kept_after_the_probe(lab: LabServer, home: Path) -> None:
    """H5: key in .env, the rest in config.yaml with its comments; the next look finds just that model."""
    home.mkdir()
    (home / "config.yaml").write_text("# mine\nmodel:\n  api_mode: codex_responses  # of the old one\n  key_env: OLD\n")
    result = choosing.use_choice(ProviderChoice("custom", KEY, "lab-model", lab.base_url))
    assert result.probed.ok
    found = find_runtime(config.load_settings())
    assert (found.provider, found.model, found.base_url, found.api_key, found.api_mode) == (
        *("custom", "lab-model", lab.base_url, KEY),
        "chat_completions",
    )
    written = read_home(home)
    assert written["config.yaml"].startswith("# mine\n")
    assert KEY not in written["config.yaml"]
    assert f"CUSTOM_API_KEY={KEY}" in written[".env"]


@pytest.mark.parametrize("plan", [fail(401), fail(404), fail(500)])
def test_nothing_is_kept_of_a_choice_that_fails(lab: LabServer, home: Path, plan: list[dict[str, Any]]) -> None:
    """H5"""
    config.set_value("model.default", "before")
    before = read_home(home)
    lab.set_plan(plan)
    assert not choosing.use_choice(ProviderChoice("custom", KEY, "lab-model", lab.base_url)).probed.ok
    assert read_home(home) == before


def test_the_first_model_of_a_server_is_taken_when_none_is_named(lab: LabServer) -> None:
    assert choosing.use_choice(ProviderChoice("ollama", base_url=lab.base_url)).probed.ok
    runtime = find_runtime(config.load_settings())
    assert (runtime.provider, runtime.base_url, runtime.model) == ("ollama", lab.base_url, "lab")


def test_another_model_of_the_same_provider_keeps_its_key(lab: LabServer) -> None:
    """The variable that the settings name for the key belongs to the provider, the window to the model."""
    config.set_value("MY_KEY", KEY)
    for name, value in {"provider": "custom", "base_url": lab.base_url, "default": "old", "key_env": "MY_KEY"}.items():
        config.set_value(f"model.{name}", value)
    config.set_value("model.context_length", "5000")
    assert choosing.use_choice(ProviderChoice("custom", model="new")).probed.ok
    section = config.load_config()["model"]
    assert (section["default"], section["key_env"], section["context_length"]) == ("new", "MY_KEY", None)
    assert list(lab.bill) == [KEY]


@pytest.mark.parametrize("address", ["", "ftp://host/v1", "/v1", "host:80", "http://", "http://me:secret@host/v1"])
def test_an_address_must_be_one(address: str, home: Path) -> None:
    with pytest.raises(ConfigProblem):
        choosing.runtime_of_choice(ProviderChoice("custom", base_url=address, model="m"))
    assert not home.exists()


def test_a_kept_key_is_not_sent_elsewhere(lab: LabServer) -> None:
    """G6: who can change an address must not get the key with it."""
    config.set_value("OPENROUTER_API_KEY", KEY)
    for provider in ("openrouter", "anthropic"):
        with pytest.raises(ConfigProblem, match="is not sent to another address"):
            choosing.use_choice(ProviderChoice(provider, model="m", base_url=lab.base_url))
    config.set_value("CUSTOM_API_KEY", KEY)
    with pytest.raises(ConfigProblem, match="is not sent to another address"):
        choosing.use_choice(ProviderChoice("custom", model="m", base_url=lab.base_url))
    assert lab.requests == ()


def test_a_key_of_the_environment_would_win(lab: LabServer, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """H5: what was probed is what answers from then on, or nothing is kept."""
    monkeypatch.setitem(os.environ, "CUSTOM_API_KEY", "another-key")
    with pytest.raises(ConfigProblem, match="set in the environment"):
        choosing.use_choice(ProviderChoice("custom", KEY, "m", lab.base_url))
    assert not home.exists()


def test_a_key_is_put_back_when_the_settings_cannot_be_written(
    lab: LabServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills up between the two files: the key that was there stays."""

    def refuse(settings: object) -> None:
        raise ConfigProblem("The disk is full.")

    config.set_value("CUSTOM_API_KEY", "the-old-key")
    before = read_home(home)
    monkeypatch.setattr(config, "save_config", refuse)
    with pytest.raises(ConfigProblem, match="full"):
        choosing.use_choice(ProviderChoice("custom", KEY, "m", lab.base_url))
    assert read_home(home) == before


def test_what_there_is_to_choose() -> None:
    config.set_value("GOOGLE_API_KEY", KEY)
    views = {view.name: view for view in choosing.list_providers()}
    assert "embedded" not in views
    assert (views["gemini"].has_key, views["gemini"].key_env) == (True, "GEMINI_API_KEY")
    assert (views["openrouter"].needs_key, views["openrouter"].has_key) == (True, False)
    assert (views["ollama"].local, views["ollama"].needs_key) == (True, False)
    assert (views["custom"].asks_address, views["custom"].needs_key) == (True, False)
