"""Who answers in a chat: chosen models, edited settings and keys, and what people are told, through a real gateway."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from house import House
from moody_model import MoodyModel, answer, refuse
from waiting import wait_until

import run_agent
from agent.providers.table import PROVIDERS
from gateway.core.agent_cache import CACHE_BUSTING_KEYS, pick_baked
from gateway.core.people import Scope
from gateway.turns.agent_builder import Choices
from hermes_cli import config as cli_config
from hermes_lab.server import LabServer
from run_agent import AIAgent

ROUTER_KEY = "sk-or-v1-a-key-of-the-router"
DOWN = [{"fault": {"status": 401}, "times": 0}]


@pytest.fixture
def second() -> Iterator[LabServer]:
    with LabServer() as server:
        yield server


@pytest.fixture
def router(second: LabServer, monkeypatch: pytest.MonkeyPatch) -> LabServer:
    """The second server is OpenRouter, and its key is set."""
    monkeypatch.setitem(PROVIDERS, "openrouter", replace(PROVIDERS["openrouter"], base_url=second.base_url))
    monkeypatch.setenv("OPENROUTER_API_KEY", ROUTER_KEY)
    return second


def section(lab: LabServer, **more: Any) -> dict[str, Any]:
    return {"base_url": lab.base_url, "default": "lab", **more}


def entry(server: LabServer, **more: Any) -> dict[str, Any]:
    return {"provider": "custom", "base_url": server.base_url, "model": "second", **more}


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with House(home, lab.base_url, pretend={"owner": "olga"}) as made:
        yield made


def keys_seen(server: LabServer) -> set[str]:
    return {request.header("authorization").removeprefix("Bearer ") for request in server.requests}


# --- keys and addresses (D6, G6)


@pytest.mark.parametrize("for_all", ["", " --global"])
def test_a_providers_key_goes_to_its_own_address(house: House, lab: LabServer, router: LabServer, for_all: str) -> None:
    """D6, G6: a model of another provider is asked for there, and its key is told to nobody else."""
    olga = house.person("olga")
    olga.ask(f"/model openrouter some/model{for_all}")
    assert olga.ask("[[say from the router]]") == ["from the router"]
    assert router.requests[-1].json()["model"] == "some/model"
    assert ROUTER_KEY in keys_seen(router)
    assert ROUTER_KEY not in keys_seen(lab)


def test_a_named_variable_belongs_to_the_provider_it_was_named_for(
    house: House, lab: LabServer, router: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D6, G6: the sibling: `model.key_env` is for the settings' own provider."""
    monkeypatch.setenv("MY_SERVERS_KEY", "the-key-of-my-server")
    house.write_settings(model=section(lab, key_env="MY_SERVERS_KEY"))
    olga = house.person("olga")
    olga.ask("hello")
    olga.ask("/model openrouter some/model")
    olga.ask("hello")
    assert keys_seen(lab) == {"the-key-of-my-server"}
    assert keys_seen(router) == {ROUTER_KEY}


# --- the chain (D4, D5)


def test_behind_a_chosen_model_stands_the_usual_one(house: House, lab: LabServer, router: LabServer) -> None:
    """D1, D5: it answers while the chosen one cannot, and the choice stays."""
    olga = house.person("olga")
    olga.ask("/model openrouter some/model")
    router.set_plan([{"fault": {"status": 401, "headers": {"Retry-After": "0"}}, "times": 0}])
    assert olga.ask("[[say from the usual one]]")[-1] == "from the usual one"
    assert lab.requests[-1].json()["model"] == "lab"
    router.set_plan([])
    assert "from the chosen one" in olga.ask("[[say from the chosen one]]")
    assert router.requests[-1].json()["model"] == "some/model"
    assert ROUTER_KEY not in keys_seen(lab)


# --- edits (H6, A4)


def test_an_edit_of_the_chain_reaches_a_warm_agent_without_a_new_one(
    house: House, lab: LabServer, second: LabServer
) -> None:
    """H6, A4"""
    olga = house.person("olga")
    olga.ask("hello")
    house.write_settings(model=section(lab, fallbacks=[entry(second)]))
    lab.set_plan(DOWN)
    assert olga.ask("[[say from the new one]]")[-1] == "from the new one"
    house.write_settings(model=section(lab, fallbacks=[]))
    assert "did not accept the key" in olga.ask("hello")[-1]
    assert house.gateway.runner.counters["build:settings"] == 0


def test_an_edit_of_the_cache_time_reaches_a_warm_agent(house: House, lab: LabServer) -> None:
    """H6"""
    olga = house.person("olga")
    olga.ask("hello")
    house.write_settings(model=section(lab, cache_ttl="1h"))
    olga.ask("hello")
    assert house.gateway.runner.cached_agent(olga.conversation)._settings.model.cache_ttl == "1h"
    assert house.gateway.runner.counters["build:settings"] == 0


def test_a_key_that_is_put_right_is_used_with_the_next_message(
    house: House, lab: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H6, D4: a model that was found a moment ago is not found again with the key of then."""
    monkeypatch.setenv("CUSTOM_API_KEY", "wrong-key-1")
    olga = house.person("olga")
    olga.ask("hello")
    monkeypatch.setenv("CUSTOM_API_KEY", "right-key-1")
    olga.ask("hello")
    assert [request.header("authorization") for request in lab.requests if b'"stream":true' in request.body] == [
        "Bearer wrong-key-1",
        "Bearer right-key-1",
    ]


class Recorded:
    """Settings that note what was read of them."""

    def __init__(self, settings: Any, read: set[tuple[str, str]], name: str = "") -> None:
        self._settings, self._read, self._name = settings, read, name

    def __bool__(self) -> bool:
        return bool(self._settings)  # a section that is empty is none

    def __getattr__(self, key: str) -> Any:
        value = getattr(self._settings, key)
        if not self._name:
            return Recorded(value, self._read, key)
        self._read.add((self._name, key))
        return value


def test_an_agent_is_built_from_what_its_signature_stands_for(
    house: House, lab: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H6: whatever else the constructor reads is not there, so nothing can be baked in unnoticed."""
    olga = house.person("olga")
    olga.ask("hello")
    settings = cli_config.load_last_good()
    read: set[tuple[str, str]] = set()
    with monkeypatch.context() as patch:
        patch.setattr(run_agent, "read_settings", lambda given: Recorded(settings, read))
        AIAgent(base_url=lab.base_url, model="lab", settings={"log": {}}).close()
    assert read
    assert read <= set(CACHE_BUSTING_KEYS)
    picked = pick_baked(settings)
    assert {(section, key) for section, keys in picked.items() for key in keys} <= set(CACHE_BUSTING_KEYS)
    plan = house.gateway.builder.plan(olga.conversation, settings, Choices(), Scope())
    assert house.gateway.builder.build(plan)._settings is plan.settings


# --- what a provider refuses (D11, E1)


def test_a_refused_text_blocks_nobody_and_can_be_sent_again(house: House) -> None:
    """D11, B9: the next message is answered, and `/retry` sends what was said."""
    with MoodyModel() as model:
        house.write_settings(model={"base_url": model.base_url, "default": "lab"})
        olga = house.person("olga")
        model.mood = refuse(b"secret plan", 400, "Your prompt was flagged.", answer("well"))
        assert "left out" in olga.ask("the secret plan")[-1]
        assert olga.ask("hello") == ["well"]
        olga.ask("/undo")
        model.mood = answer("a fine plan")
        assert olga.ask("/retry") == ["a fine plan"]
        assert b"the secret plan" in next(body for body in model.requests[::-1] if b'"tools"' in body)


# --- who is told (D12)


def test_a_chat_reads_of_a_switch_and_of_the_return_once(house: House, lab: LabServer, second: LabServer) -> None:
    """D12: in a chat that shows no events, and in its order: before the answer that it is about."""
    house.write_settings(model=section(lab, fallbacks=[entry(second)]))
    olga = house.person("olga")
    lab.set_plan([{"fault": {"status": 401, "headers": {"Retry-After": "0"}}, "times": 0}])
    told, answer = olga.ask("[[say one]]")
    assert "did not accept the key" in told
    assert "second at" in told
    assert answer == "one"
    assert olga.ask("[[say two]]") == ["two"]
    lab.set_plan([])
    assert sorted(olga.ask("[[say three]]")) == sorted(["three", f"lab at {lab.base_url} answers again."])
    assert olga.ask("[[say four]]") == ["four"]


def test_the_words_on_models_can_be_silenced(house: House, lab: LabServer, second: LabServer) -> None:
    """D12"""
    house.write_settings(model=section(lab, fallbacks=[entry(second)]), gateway={"model_notices": False})
    lab.set_plan(DOWN)
    assert house.person("olga").ask("[[say one]]") == ["one"]


def test_a_chat_reads_of_a_summary_that_failed_once(house: House, lab: LabServer) -> None:
    """E3: nothing is dropped, and the person is told."""
    house.write_settings(model=section(lab, context_length=8000))
    lab.set_plan([{"contains": "Summarise the conversation below", "fault": {"status": 400}, "times": 0}])
    olga = house.person("olga")
    for _ in range(8):
        olga.ask("[[say well]] " + "word " * 800)
    assert olga.count("could not be summarised; nothing was dropped") == 1
    assert olga.count("well") == 8


def test_a_chat_is_told_that_an_answer_was_cut(house: House) -> None:
    """C7: a chat that shows no events reads below an answer that it stopped before its end."""
    olga = house.person("olga")
    olga.say("[[say Half an]][[length]]")
    wait_until(lambda: olga.seen[-2:] == ["Half an", "The answer was cut at the model's output limit."])
