"""Other people's context engines: old and new ones, one that keeps a file open, ones that fail or hang."""

import sqlite3
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agent.context_compressor import SUMMARY_MARK, ContextCompressor
from agent.context_engine import ContextEngine
from hermes_cli import plugins
from hermes_cli.plugins import PluginContext, PluginManager, PluginManifest
from hermes_lab.server import LabServer
from run_agent import engine_guard
from run_agent.engine_guard import GuardedEngine

SETTINGS = {"context": {"engine": "theirs"}, "compression": {"protect_last_n": 2, "protect_first_n": 1}}


class Theirs(ContextEngine):
    """The oldest form of `compress`."""

    name = "theirs"

    def __init__(self) -> None:
        self.heard: list[str] = []

    def update_from_response(self, usage: dict[str, Any]) -> None:
        self.last_prompt_tokens = usage.get("prompt_tokens", 0)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return False

    def compress(self, messages: list[dict[str, Any]], current_tokens: int | None = None) -> list[dict[str, Any]]:  # type: ignore[override]
        self.heard.append("compress")
        return [{"role": "user", "content": f"{len(messages)} messages"}, *messages[-3:]]

    def on_session_start(self, session_id: str, **facts: Any) -> None:
        self.heard.append(f"start {facts.get('boundary_reason', '')}".strip())

    def on_session_reset(self) -> None:
        super().on_session_reset()
        self.heard.append("reset")


class Newest(Theirs):
    def compress(self, messages: list[dict[str, Any]], **options: Any) -> list[dict[str, Any]]:  # type: ignore[override]
        self.heard.append(",".join(sorted(options)))
        return super().compress(messages)


class WithFile(Theirs):
    """Keeps a connection open, so it cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.db = sqlite3.connect(":memory:", check_same_thread=False)


class Raising(ContextEngine):
    name = "theirs"

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if callable(value) and not name.startswith("_"):

            def fail(*args: Any, **kwargs: Any) -> Any:
                raise RuntimeError(f"no {name}")

            return fail
        return value

    def update_from_response(self, usage: dict[str, Any]) -> None: ...
    def should_compress(self, prompt_tokens: int | None = None) -> bool: ...  # type: ignore[empty-body]
    def compress(self, messages: list[dict[str, Any]], **options: Any) -> list[dict[str, Any]]: ...  # type: ignore[override, empty-body]


class Hanging(Theirs):
    gate = threading.Event()

    def compress(self, messages: list[dict[str, Any]], current_tokens: int | None = None) -> list[dict[str, Any]]:  # type: ignore[override]
        self.gate.wait()
        return []


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A plugin that registers this class of engine."""
    monkeypatch.setattr(plugins, "_plugin_manager", PluginManager())
    Hanging.gate = threading.Event()

    def register(kind: type[ContextEngine]) -> PluginManager:
        manager = plugins.get_plugin_manager()

        def run(ctx: PluginContext) -> None:
            ctx.register_context_engine(kind())

        manifest = PluginManifest("theirs")
        manager._plugins["theirs"] = plugins.LoadedPlugin(manifest, enabled=True)
        manager._registrars["theirs"] = run
        run(PluginContext(manifest, manager))
        manager._ready = manager._discovered = True
        return manager

    yield register
    Hanging.gate.set()


def fill(agent: Any, turns: int = 4) -> None:
    for turn in range(turns):
        agent.run_conversation(f"question {turn}")


@pytest.mark.parametrize("kind", [Theirs, Newest, WithFile])
def test_old_and_new_engines_compact(make_agent: Any, offer: Any, kind: type[ContextEngine]) -> None:
    """E1, E7, B4: what it makes is stored, what was asked last stays, and it hears of the session that follows."""
    offer(kind)
    agent = make_agent(settings=SETTINGS)
    fill(agent)
    before, after = agent.compress_now()
    assert (before, after) == (8, 4)
    assert agent.messages[0]["content"] == "8 messages"
    assert "question 3" in agent.messages[-2]["content"]
    heard = agent.context_compressor.heard
    assert heard[-1] == "start compression"
    if kind is Newest:
        assert "current_tokens,focus_topic,force" in heard


@pytest.mark.parametrize("kind", [Theirs, WithFile])
def test_the_plugin_and_the_first_agent_share_the_engine_and_others_have_their_own(
    make_agent: Any, offer: Any, kind: type[ContextEngine]
) -> None:
    registered = offer(kind)._context_engine
    first, second = make_agent(settings=SETTINGS), make_agent(settings=SETTINGS)
    assert first.context_compressor._engine is registered
    assert second.context_compressor._engine is not registered
    assert second.context_compressor.heard == ["start"]  # nothing of what the first one heard
    assert isinstance(second.context_compressor, kind)
    others = make_agent(settings=SETTINGS, person="anna")
    assert others.context_compressor._engine is not registered  # G12


def test_the_engine_is_lent_again_and_reset_first(make_agent: Any, offer: Any) -> None:
    registered = offer(Theirs)._context_engine
    manager = plugins.get_plugin_manager()
    hold = [manager.make_context_engine(lend=True), manager.hold_engine(registered)]
    assert hold[0] is registered
    assert manager.make_context_engine(lend=True) is not registered
    del hold
    assert manager.make_context_engine(lend=True) is registered
    assert registered.heard == ["reset"]


def test_one_that_fails_in_everything_is_set_aside_with_a_word(make_agent: Any, offer: Any, lab: LabServer) -> None:
    """E3: the built-in one goes on, and nothing was dropped."""
    offer(Raising)
    told: list[str] = []
    agent = make_agent(settings=SETTINGS, status_callback=lambda notice: told.append(notice.text))
    fill(agent)
    assert type(agent.context_compressor._engine) is ContextCompressor
    assert "times in a row" in agent.context_compressor.set_aside
    assert len(agent.messages) == 8
    fill(agent, 2)
    before, after = agent.compress_now()
    assert after < before
    assert any(message["content"].startswith(SUMMARY_MARK) for message in agent.messages)


def test_one_that_hangs_is_left_behind_and_the_built_in_one_compacts(
    make_agent: Any, offer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E3, E10"""
    offer(Hanging)
    told: list[str] = []
    agent = make_agent(settings=SETTINGS, status_callback=lambda notice: told.append(notice.text))
    fill(agent, 6)
    object.__setattr__(agent.context_compressor, "_find_limit", lambda method: 0.05)
    before, after = agent.compress_now()
    assert after < before
    assert "did not come back from compress" in agent.context_compressor.set_aside
    assert any("is set aside in this conversation" in text for text in told)
    assert any("question 5" in message["content"] for message in agent.messages)


class Deaf(Theirs):
    def update_model(self, model: str, context_length: int) -> None:  # type: ignore[override]
        raise TypeError("no such keyword")


def test_one_that_cannot_take_the_window_is_told_of_with_what_follows(
    make_agent: Any, offer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """E3"""
    offer(Deaf)
    told: list[str] = []
    fill(make_agent(settings=SETTINGS, status_callback=lambda notice: told.append(notice.text)), 1)
    words = "The context engine theirs failed in update_model (TypeError: no such keyword)"
    assert any(text.startswith(words) and "may not make the conversation shorter in time" in text for text in told)
    assert words in caplog.text


def test_limits_leave_a_compaction_the_time_of_a_model_step() -> None:
    assert engine_guard.find_limit("compress") == 300.0
    assert engine_guard.find_limit("should_compress") < 60.0


def test_a_guarded_engine_is_read_and_written_like_the_engine() -> None:
    engine = Theirs()
    guarded = GuardedEngine(engine, lambda: ContextCompressor("m"), lambda text: None)
    guarded.last_prompt_tokens = 7
    assert (engine.last_prompt_tokens, guarded.name) == (7, "theirs")


def test_a_compressor_that_a_plugin_made_can_summarise(lab: LabServer, home: Any) -> None:
    """E1: with the owner's model, as any helper call."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(f"model:\n  base_url: {lab.base_url}\n  default: lab\n  provider: custom\n")
    said = [{"role": role, "content": f"{role} {n}"} for n in range(8) for role in ("user", "assistant")]
    made = ContextCompressor("lab", protect_first_n=1, protect_last_n=2).compress(said)
    assert len(made) < len(said)
    assert any(message["content"].startswith(SUMMARY_MARK) for message in made)
