"""The page's set-up on a running gateway: settings that are safe to change, what answers, and probes."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from local_gateway import LocalHouse
from waiting import wait_until

from gateway.service.queries.setup_queries import SAFE
from hermes_base import setting_table as table
from hermes_base.errors import ConfigProblem
from hermes_base.query_values import ProviderChoice
from hermes_base.settings import NEXT_MESSAGE
from hermes_cli import config
from hermes_lab.server import LabServer

T = TypeVar("T")


class CalledSetup:
    """The queries, called on the gateway's loop."""

    def __init__(self, house: LocalHouse) -> None:
        self.house = house
        self.setup = house.gateway.queries.setup

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        assert self.house.thread._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self.house.thread._loop).result(30)


@pytest.fixture
def called(house: LocalHouse) -> CalledSetup:
    return CalledSetup(house)


def test_a_setting_is_changed_and_its_comment_stays(called: CalledSetup, home: Path) -> None:
    """H6: the answer says where it takes effect."""
    path = home / "config.yaml"
    path.write_text(path.read_text() + "gateway:\n  busy: queue  # the children write a lot\n")
    view = called.run(called.setup.change("gateway.busy", "steer"))
    assert (view.value, view.changed, view.takes_effect) == ("steer", True, NEXT_MESSAGE)
    assert "busy: steer  # the children write a lot" in path.read_text()
    assert view in called.run(called.setup.settings())


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("gateway.busy", "never"),
        ("agent.max_iterations", "many"),
        ("model.base_url", "http://elsewhere/v1"),
        ("model.provider", "openai"),
        ("model.key_env", "HOME"),
        ("web.host", "0.0.0.0"),
        ("plugins.enabled", "evil"),
        ("terminal.backend", "local"),
        ("OPENROUTER_API_KEY", "sk-123456789"),
        ("platforms.telegram.enabled", "true"),
        ("no.such", "x"),
    ],
)
def test_what_must_not_be_changed_here_is_refused(called: CalledSetup, home: Path, key: str, text: str) -> None:
    before = {path: path.read_bytes() for path in home.glob("[.c]*") if path.is_file()}
    with pytest.raises(ConfigProblem):
        called.run(called.setup.change(key, text))
    assert {path: path.read_bytes() for path in home.glob("[.c]*") if path.is_file()} == before


def test_every_setting_of_the_list_is_known_and_no_secret() -> None:
    rows = [table.find(key) for key in SAFE]
    assert all(row is not None and not table.is_secret(row.key) for row in rows)
    assert len(set(SAFE)) == len(SAFE)


def test_what_answers_now(called: CalledSetup, lab: LabServer) -> None:
    view = called.run(called.setup.model())
    assert (view.model, view.provider, view.built_in, view.problem) == ("lab-model", "custom", False, "")
    fallbacks = '[{"provider": "custom", "model": "second"}, {"provider": "custom", "model": "lab-model"}]'
    config.set_value("model.fallbacks", fallbacks)
    assert called.run(called.setup.models()) == ["lab-model", "second"]


def test_no_model_at_all_is_said(called: CalledSetup) -> None:
    """H8: the page can say why, and offer the set-up."""
    config.set_value("model.provider", "nonsense")
    view = called.run(called.setup.model())
    assert view.model == ""
    assert "nonsense" in view.problem


def test_a_probe_keeps_nothing_and_is_in_the_ledger(called: CalledSetup, lab: LabServer, home: Path) -> None:
    """H5, A8: the ledger's sum is the lab's bill."""
    before = (home / "config.yaml").read_bytes()
    probed = called.run(called.setup.probe(ProviderChoice("custom", "sk-tried-key", "other", lab.base_url)))
    assert probed.ok
    assert ((home / "config.yaml").read_bytes(), (home / ".env").exists()) == (before, False)
    spent = called.house.gateway.store.usage()
    assert (spent.calls, spent.prompt_tokens) == (1, lab.bill["sk-tried-key"].prompt_tokens)


def test_use_keeps_what_went_through_and_only_that(called: CalledSetup, lab: LabServer) -> None:
    """H5"""
    lab.set_plan([{"fault": {"status": 401}}])
    refused = called.run(called.setup.use(ProviderChoice("custom", "sk-wrong-key", "new", lab.base_url)))
    assert not refused.ok
    assert called.run(called.setup.model()).model == "lab-model"
    assert not called.run(called.setup.use(ProviderChoice("openrouter"))).ok
    assert called.run(called.setup.use(ProviderChoice("custom", "sk-right-key", "new", lab.base_url))).ok
    assert called.run(called.setup.model()).model == "new"
    client = called.house.client()
    client.say("hello")
    wait_until(lambda: bool(client.answers()))
    assert lab.requests[-1].json()["model"] == "new"
    assert lab.requests[-1].header("authorization") == "Bearer sk-right-key"
