"""What suites of authors do with the host's names alone: no gateway, no page, no turn (H11)."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from agent.video_gen_provider import VideoGenProvider
from gateway.config import Platform, PlatformConfig
from gateway.platforms.base import (
    BasePlatformAdapter,
    MessageEvent,
    SendResult,
    cache_document_from_bytes,
    cache_image_from_bytes,
)
from gateway.run import GatewayRunner
from gateway.session import build_session_key
from hermes_base.call_forms import read_call_form
from hermes_state import SessionDB
from tools import approval, slash_confirm
from tools.registry import ToolRegistry


class Told(BasePlatformAdapter):
    """Writes down what it is asked to do."""

    def __init__(self, config: PlatformConfig, results: list[SendResult] | None = None) -> None:
        super().__init__(config, Platform.LOCAL)
        self.calls: list[tuple[str, Any]] = []
        self.results = results or []

    async def connect(self, *, is_reconnect: bool = False) -> bool:
        return True

    async def disconnect(self) -> None:
        pass

    async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
        return {"name": chat_id, "type": "dm"}

    async def send(self, chat_id: str, content: str, reply_to: Any = None, metadata: Any = None) -> SendResult:
        self.calls.append(("send", (chat_id, content, reply_to, metadata)))
        return self.results.pop(0) if self.results else SendResult(True, "m")

    async def send_typing(self, chat_id: str, metadata: Any = None) -> None:
        self.calls.append(("typing", metadata))

    async def stop_typing(self, chat_id: str) -> None:
        self.calls.append(("still", chat_id))

    async def on_processing_start(self, event: MessageEvent) -> None:
        self.calls.append(("start", event.text))

    async def on_processing_complete(self, event: MessageEvent, outcome: Any) -> None:
        self.calls.append(("done", outcome.value))

    async def send_multiple_images(self, **given: Any) -> None:  # type: ignore[override]
        self.calls.append(("images", given["images"]))

    async def send_voice(self, **given: Any) -> SendResult:  # type: ignore[override]
        self.calls.append(("voice", given["audio_path"]))
        return SendResult(True)

    async def send_video(self, **given: Any) -> SendResult:  # type: ignore[override]
        self.calls.append(("video", given["video_path"]))
        return SendResult(True)

    async def send_document(self, **given: Any) -> SendResult:  # type: ignore[override]
        self.calls.append(("document", given["file_path"]))
        return SendResult(True)


def answer(said: str, *, typing: bool = True) -> list[tuple[str, Any]]:
    """What an adapter does for one message whose handler says that."""
    adapter = Told(PlatformConfig(enabled=True, typing_indicator=typing))

    async def steps() -> None:
        async def handle(event: MessageEvent) -> str:
            await asyncio.sleep(0)
            return said

        adapter.set_message_handler(handle)
        adapter.register_post_delivery_callback(
            build_session_key(adapter.build_source("c", thread_id="t")), lambda: adapter.calls.append(("delivered", 1))
        )
        source = adapter.build_source("c", thread_id="t")
        await adapter.handle_message(MessageEvent("hello", source=source, message_id="m1"))
        (task,) = adapter._session_tasks.values()
        await task
        assert (adapter._session_tasks, adapter._background_tasks, adapter._active_sessions) == ({}, set(), {})

    asyncio.run(steps())
    return adapter.calls


def test_an_answer_goes_out_as_the_adapter_can_do_it(tmp_path: Path) -> None:
    names = ("pic.png", "talk.ogg", "film.mp4", "paper.pdf")
    paths = [str(tmp_path / name) for name in names]
    for path in paths:
        Path(path).write_bytes(b"x")
    marks = "".join(f"\nMEDIA:{path}" for path in paths)
    calls = answer(f"Here.\n![A cat](https://x.test/cat.png){marks}\nMEDIA:/etc/passwd")
    assert calls == [
        ("start", "hello"),
        ("typing", {"thread_id": "t"}),
        ("send", ("c", "Here.", "m1", {"thread_id": "t", "notify": True})),
        ("images", [("https://x.test/cat.png", "A cat"), (Path(paths[0]).as_uri(), "")]),
        *(("voice", paths[1]), ("video", paths[2]), ("document", paths[3])),
        *(("done", "success"), ("delivered", 1), ("still", "c")),
    ]
    as_files = answer(f"[[as_document]]{marks}", typing=False)
    assert as_files == [
        ("start", "hello"),
        *(("document", path) for path in paths),
        ("done", "success"),
        ("delivered", 1),
    ]


def test_a_busy_conversation_takes_commands_at_once_and_asks_who_was_put_there() -> None:
    adapter, heard, asked = Told(PlatformConfig(typing_indicator=False)), [], []

    async def steps() -> None:
        gate = asyncio.Event()

        async def handle(event: MessageEvent) -> str:
            heard.append(event.text)
            if event.text == "long":
                await gate.wait()
            return f"did {event.text}"

        async def is_taken(event: MessageEvent, key: str) -> bool:
            asked.append((event.text, key))
            return event.text == "mine"

        adapter.set_message_handler(handle)
        adapter.set_busy_session_handler(is_taken)
        source = adapter.build_source("c")
        for text in ("long", "/status", "mine", "/unknown", "later"):
            await adapter.handle_message(MessageEvent(text, source=source))
            await asyncio.sleep(0)
        assert heard == ["long", "/status"]
        gate.set()
        await asyncio.gather(*adapter._background_tasks)

    asyncio.run(steps())
    assert heard == ["long", "/status", "later"]
    assert [text for text, _ in asked] == ["mine", "/unknown", "later"]
    assert ("send", ("c", "did /status", None, {"notify": True})) in adapter.calls


def test_what_may_have_been_sent_is_not_sent_again() -> None:
    """A6"""
    for words in ("timed out", "timeout", "ReadTimeout"):
        adapter = Told(PlatformConfig(), [SendResult(False, error=words)])
        assert not asyncio.run(adapter._send_with_retry("c", "x", base_delay=0.01)).success
        assert len(adapter.calls) == 1, words


def test_what_a_source_is_made_of_stands_in_its_signature() -> None:
    form = read_call_form(Told(PlatformConfig()).build_source)
    assert form is not None
    assert not form.takes_all
    assert {"scope_id", "role_authorized", "auto_thread_initial_name"} <= form.named
    generate = read_call_form(VideoGenProvider.generate)
    assert generate is not None
    assert {"aspect_ratio", "resolution", "negative_prompt", "seed"} <= generate.named


def test_pictures_that_no_model_sees_are_pictures_too(home: Path) -> None:
    for start in (b"BM", b"II*\0", b"MM\0*", b"\0\0\0\x18ftypheic"):
        assert cache_image_from_bytes(start + bytes(20)).endswith(".jpg")
    assert cache_document_from_bytes(b"x", None).endswith("_document")  # type: ignore[arg-type]


# --- approvals


def test_a_command_that_only_looks_is_not_asked_for() -> None:
    asked: list[str] = []

    def ask(command: str, why: str) -> str:
        asked.append(command)
        return "once" if command.endswith("ask") else "deny"

    def check(command: str, env: str = "local", **more: Any) -> bool:
        return bool(approval.check_dangerous_command(command, env, approval_callback=ask, **more)["approved"])

    assert check("ls -la")
    assert asked == []
    assert not check("rm -rf /")  # denied, whoever would agree
    assert asked == []
    assert check("touch ask")
    assert not check("touch no")
    assert asked == ["touch ask", "touch no"]
    assert check("rm -rf /", "docker")
    assert not check("rm -rf /", "docker", has_host_access=True)


def test_a_question_of_a_plugin_that_breaks_off_means_no() -> None:
    """G4"""

    def break_off(*_: Any) -> str:
        raise RuntimeError("no terminal")

    refused = approval.request_tool_approval("pay", "it costs", approval_callback=break_off)
    assert refused["approved"] is False
    assert refused["message"]


def test_the_queues_of_approvals_are_a_dict_that_may_be_filled() -> None:
    queues = approval._gateway_queues
    assert isinstance(queues, dict)
    queues["k"] = ["first", "second", "third"]
    assert (queues.get("k"), "k" in queues, list(queues), len(queues)) == (["first", "second", "third"], True, ["k"], 1)
    assert approval.resolve_gateway_approval("k", "once") == 1
    assert queues["k"] == ["second", "third"]
    assert approval.resolve_gateway_approval("k", "deny", resolve_all=True) == 2
    assert (queues.pop("k", None), bool(queues), queues == {}) == (None, False, True)


def test_a_confirmation_may_be_looked_at_as_a_dict() -> None:
    async def handle(choice: str) -> str:
        return choice

    slash_confirm.register("k", "c1", "reset", handle)
    pending = slash_confirm.get_pending("k")
    assert pending is not None
    assert (pending["confirm_id"], pending.get("command"), pending.get("nothing")) == ("c1", "reset", None)
    slash_confirm.clear("k")


# --- the rest


def test_a_registry_of_its_own_runs_coroutines() -> None:
    async def late(args: dict[str, Any], **_: Any) -> str:
        await asyncio.sleep(0)
        return "came"

    own = ToolRegistry()
    own.register("late", "own", {"description": "d"}, late, is_async=True)

    async def inside() -> str:
        return own.dispatch("late", {})

    assert (own.dispatch("late", {}), asyncio.run(inside())) == ("came", "came")


def test_a_runner_without_init_has_its_lock() -> None:
    runner = object.__new__(GatewayRunner)
    with runner._agent_cache_lock:
        assert len(runner._agent_cache) == 0


def test_many_threads_write_into_one_session(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "own.db") as db:
        db.create_session("s", "cli")
        call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": json.dumps({})}}
        db.append_message("s", "assistant", "", tool_calls=[call])
        db.append_message("s", "tool", "seen", tool_call_id="c")
        failures: list[BaseException] = []

        def write() -> None:
            try:
                for number in range(15):
                    db.append_message("s", "user", str(number))
            except BaseException as problem:
                failures.append(problem)

        threads = [threading.Thread(target=write) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        messages, session = db.get_messages("s"), db.get_session("s")
        assert (len(messages), messages[1]["tool_name"]) == (92, "look")
        assert session is not None
        assert (session["tool_call_count"], session["input_tokens"], session["reasoning_tokens"]) == (1, 0, 0)


@pytest.fixture(autouse=True)
def _nothing_left() -> Any:
    yield
    approval._gateway_queues.clear()
