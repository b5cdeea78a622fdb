"""The names that adapters and hooks of plugins import from the gateway, used the way plugins use them."""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from gateway.config import (
    GatewayConfig,
    HomeChannel,
    Platform,
    PlatformConfig,
    load_gateway_config,
    load_platform,
)
from gateway.platform_registry import PlatformEntry, platform_registry
from gateway.platforms import base
from gateway.platforms.base import (
    BasePlatformAdapter,
    EphemeralReply,
    MessageEvent,
    MessageType,
    ProcessingOutcome,
    SendResult,
)
from gateway.platforms.helpers import MessageDeduplicator
from gateway.session import SessionSource, SessionStore, build_session_key
from gateway.session_context import get_session_env
from gateway.slash_access import SlashAccessPolicy, policy_from_extra
from gateway.status import acquire_scoped_lock, release_scoped_lock
from gateway.whatsapp_identity import canonical_whatsapp_identifier, expand_whatsapp_aliases
from hermes_base.chat import Answer, Question
from hermes_base.inbound import Address, Inbound
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.plugin_asks import APPROVAL, OpenAsk, open_asks
from hermes_base.turn.turn_context import TurnContext, current_turn
from hermes_cli.commands import ACTIVE_SESSION_BYPASS_COMMANDS, COMMAND_REGISTRY, is_gateway_known_command
from tools import approval, clarify_gateway, slash_confirm

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


def make_entry(name: str = "toychat", **more: Any) -> PlatformEntry:
    return PlatformEntry(name, name.title(), ToyAdapter, lambda: True, **more)


@pytest.fixture
def register() -> Iterator[Callable[[PlatformEntry], PlatformEntry]]:
    known: list[str] = []

    def add(entry: PlatformEntry) -> PlatformEntry:
        platform_registry.register(entry)
        known.append(entry.name)
        return entry

    yield add
    for name in known:
        platform_registry.unregister(name)


class ToyAdapter(BasePlatformAdapter):
    def __init__(self, config: PlatformConfig) -> None:
        super().__init__(config, Platform("toychat"))
        self.sent: list[dict[str, Any]] = []
        self.results: list[SendResult] = []

    async def connect(self, *, is_reconnect: bool = False) -> bool:
        self._mark_connected()
        return True

    async def disconnect(self) -> None:
        self._mark_disconnected()

    async def send(
        self, chat_id: str, content: str, reply_to: str | None = None, metadata: dict[str, Any] | None = None
    ) -> SendResult:
        self.sent.append({"chat": chat_id, "text": content, "reply_to": reply_to, "metadata": metadata})
        return self.results.pop(0) if self.results else SendResult(True, message_id=str(len(self.sent)))

    async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
        return {"name": chat_id, "type": "dm"}


@pytest.fixture
def adapter(register: Callable[[PlatformEntry], PlatformEntry]) -> ToyAdapter:
    register(make_entry())
    return ToyAdapter(PlatformConfig(enabled=True, extra={"url": "x"}))


# --- gateway.config


def test_a_platform_is_named_on_demand(register: Callable[[PlatformEntry], PlatformEntry]) -> None:
    before = list(Platform)
    with pytest.raises(ValueError, match="new-name"):
        Platform("new-name")
    register(make_entry("new-name"))
    made = Platform(" New-Name ")
    assert made is Platform("new-name") is Platform["NEW_NAME"]
    assert (made.value, made.name) == ("new-name", "NEW_NAME")
    assert list(Platform) == before
    assert Platform("Telegram") is Platform.TELEGRAM
    assert {made: 1}[Platform("new-name")] == 1
    for wrong in ("", "nobody", None):
        with pytest.raises(ValueError):
            Platform(wrong)


def test_the_section_of_a_platform_has_their_form() -> None:
    names = [one.name for one in fields(PlatformConfig)]
    assert names == [
        *("enabled", "token", "api_key", "home_channel", "reply_to_mode", "gateway_restart_notification"),
        *("typing_indicator", "typing_status_text", "channel_overrides", "extra"),
    ]
    plain = PlatformConfig()
    assert (plain.enabled, plain.reply_to_mode, plain.typing_indicator, plain.extra) == (False, "first", True, {})
    read = PlatformConfig.from_dict(
        {"enabled": "yes", "token": "t", "typing_indicator": "no", "room": 5, "extra": {"a": 1}}
    )
    assert (read.enabled, read.token, read.typing_indicator, read.extra) == (True, "t", False, {"room": 5, "a": 1})
    home = HomeChannel(Platform.TELEGRAM, "7", "Den", "3")
    again = PlatformConfig.from_dict(PlatformConfig(True, home_channel=home, extra={"a": 1}).to_dict())
    assert (again.home_channel, again.extra) == (home, {"a": 1})


def test_the_gateway_s_settings_have_their_form() -> None:
    """Groups are shared here, whatever a file says: a plugin that makes keys by the flags makes those that are used."""
    read = GatewayConfig.from_dict(
        {"platforms": {"telegram": {"enabled": True}, "slack": {}}, "group_sessions_per_user": True}
    )
    assert read.get_connected_platforms() == [Platform.TELEGRAM]
    assert (read.group_sessions_per_user, read.thread_sessions_per_user) == (False, False)
    assert read.get_unauthorized_dm_behavior(Platform.TELEGRAM) == "pair"
    assert GatewayConfig.from_dict(read.to_dict()).to_dict() == read.to_dict()
    assert read.get_home_channel(Platform.SLACK) is None


def test_settings_are_found_wherever_a_plugin_s_block_stands(
    configure: Callable[..., None], register: Callable[[PlatformEntry], PlatformEntry]
) -> None:
    configure(
        toychat={"extra": {"a": 1, "b": 1}},
        gateway={"platforms": {"toychat": {"extra": {"b": 2, "c": 2}}}},
        platforms={"toychat": {"enabled": True, "require_mention": True, "extra": {"c": 3}}},
    )
    register(
        make_entry(apply_yaml_config_fn=lambda whole, block: {"seen": block["enabled"], "whole": "model" in whole})
    )
    own = load_gateway_config().platforms[Platform("toychat")]
    assert own.enabled
    assert own.extra == {"a": 1, "b": 2, "c": 3, "require_mention": True, "seen": True, "whole": True}


def test_variables_alone_switch_a_platform_on(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = make_entry(
        env_enablement_fn=lambda: (
            {"url": os.environ["TOY_URL"], "home_channel": {"chat_id": 5, "name": "Den"}}
            if os.environ.get("TOY_URL")
            else None
        ),
        is_connected=lambda config: bool(config.extra.get("url")),
        cron_deliver_env_var="TOY_HOME",
    )
    assert not load_platform(entry, {}).enabled
    monkeypatch.setenv("TOY_URL", "here")
    on = load_platform(entry, {})
    assert on.enabled
    assert on.extra == {"url": "here"}
    assert on.home_channel == HomeChannel(Platform["TOYCHAT"], "5", "Den")
    assert not load_platform(entry, {"enabled": False}).enabled
    assert not load_platform(replace(entry, check_fn=lambda: False), {}).enabled
    assert not load_platform(replace(entry, is_connected=lambda _: 1 / 0), {}).enabled
    assert not load_platform(replace(entry, check_fn=sys.exit), {}).enabled
    monkeypatch.setenv("TOY_HOME", "9")
    bare = load_platform(make_entry(cron_deliver_env_var="TOY_HOME"), {"enabled": True})
    assert bare.home_channel is not None
    assert bare.home_channel.chat_id == "9"


def test_a_plugin_that_runs_is_no_platform_that_is_on() -> None:
    assert not load_platform(make_entry(), {}).enabled
    assert load_platform(make_entry(), {"enabled": "on"}).enabled


# --- gateway.session


def test_where_a_message_came_from(adapter: ToyAdapter) -> None:
    source = adapter.build_source(5, "Den", "group", 6, "Ann", 7, "  ", "alt", guild_id=8)
    assert source == SessionSource(
        Platform("toychat"), "5", "Den", "group", "6", "Ann", "7", None, "alt", scope_id="8", guild_id="8"
    )
    assert "is_bot" not in source.to_dict()
    assert SessionSource.from_dict(source.to_dict()) == source
    assert source.description
    assert SessionSource(Platform("toychat"), "c", scope_id="s").guild_id == "s"


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"chat_id": "c", "chat_type": "group", "user_id": "u"}, "agent:main:toychat:group:c"),
        ({"chat_id": "c", "chat_type": "group", "user_id": "u", "thread_id": "t"}, "agent:main:toychat:group:c:t"),
        ({"chat_id": "c"}, "agent:main:toychat:dm:c"),
        ({"chat_id": "", "user_id": "u"}, "agent:main:toychat:dm:u"),
        ({"chat_id": "", "user_id": "u", "user_id_alt": "v"}, "agent:main:toychat:dm:v"),
        ({"chat_id": ""}, "agent:main:toychat:dm"),
    ],
)
def test_keys_are_those_that_are_used(adapter: ToyAdapter, given: dict[str, Any], key: str) -> None:
    source = adapter.build_source(**given)
    assert build_session_key(source) == key == build_session_key(source, True, True)
    if source.chat_id:
        address = Address("toychat", "toychat", source.chat_id, source.chat_type, source.thread_id or "")
        assert address.conversation("default") == key
    assert build_session_key(source, profile="work").startswith("agent:work:")


def test_a_session_store_without_a_house_is_empty(adapter: ToyAdapter) -> None:
    store = SessionStore()
    store._ensure_loaded()
    assert store.get_or_create_session(adapter.build_source("c")).session_key == "agent:main:toychat:dm:c"
    assert store._entries == {}
    assert store.load_transcript("x") == []
    assert store.peek_session_id("k") is None
    assert store.lookup_by_session_id("x") is None


def test_ids_of_whatsapp() -> None:
    assert canonical_whatsapp_identifier("49151234:7@s.whatsapp.net") == "49151234"
    assert canonical_whatsapp_identifier("+49 (151) 234") == "49151234"
    assert canonical_whatsapp_identifier("abc@lid") == "abc"
    assert expand_whatsapp_aliases("+49151234") == {"+49151234", "49151234", "49151234@s.whatsapp.net"}
    assert expand_whatsapp_aliases("") == set()


# --- gateway.platform_registry, gateway.status, gateway.slash_access


def test_the_registry_makes_adapters(register: Callable[[PlatformEntry], PlatformEntry]) -> None:
    entry = register(make_entry())
    assert isinstance(platform_registry.create_adapter("toychat", PlatformConfig()), ToyAdapter)
    assert platform_registry.get("toychat") is entry
    assert entry in platform_registry.all_entries()
    assert entry in platform_registry.plugin_entries()
    assert (entry.emoji, entry.source, entry.max_message_length, entry.allow_update_command) == (
        "🔌",
        "plugin",
        0,
        True,
    )
    for odd in (
        {"check_fn": lambda: False},
        {"validate_config": lambda _: False},
        {"adapter_factory": lambda _: 1 / 0},
    ):
        register(replace(entry, **odd))
        assert platform_registry.create_adapter("toychat", PlatformConfig()) is None
    assert platform_registry.create_adapter("nobody", PlatformConfig()) is None
    assert platform_registry.unregister("toychat")
    assert not platform_registry.unregister("toychat")
    assert not platform_registry.is_registered("toychat")


def test_one_process_of_the_machine_speaks_for_an_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I3: whichever home it has; a lock ends with its process."""
    monkeypatch.setenv("HERMES_GATEWAY_LOCK_DIR", str(tmp_path / "locks"))
    other = (
        "import sys; from gateway.status import acquire_scoped_lock as take; "
        "print(take('toy', 'secret-token')[0], flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", other], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as held:
        assert held.stdout is not None
        assert held.stdout.readline() == "True\n"
        ours, record = acquire_scoped_lock("toy", "secret-token")
        assert not ours
        assert record is not None
        assert record["pid"] == held.pid
        held.kill()
    assert acquire_scoped_lock("toy", "secret-token", {"a": 1}) == acquire_scoped_lock("toy", "secret-token")
    release_scoped_lock("toy", "secret-token")
    release_scoped_lock("toy", "secret-token")
    assert not any("secret" in path.name for path in (tmp_path / "locks").iterdir())


def test_an_adapter_that_finds_its_account_taken_says_so(
    adapter: ToyAdapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_GATEWAY_LOCK_DIR", str(tmp_path))
    assert adapter._acquire_platform_lock("toy", "t", "The bot")
    adapter._release_platform_lock()
    monkeypatch.setattr(base, "acquire_scoped_lock", lambda *_: (False, {"pid": 7}))
    assert not adapter._acquire_platform_lock("toy", "t", "The bot")
    assert (adapter.fatal_error_code, adapter.fatal_error_retryable, adapter.has_fatal_error) == (
        "toy_lock",
        True,
        True,
    )


def test_who_may_use_which_command() -> None:
    assert SlashAccessPolicy().can_run("u", "model")
    policy = policy_from_extra({"allow_admin_from": "1, 2", "user_allowed_commands": ["/usage"]}, "dm")
    assert policy.is_admin("1")
    assert not policy.is_admin("3")
    assert [policy.can_run("3", name) for name in ("usage", "help", "model")] == [True, True, False]
    assert not policy_from_extra({"allow_admin_from": "1"}, "group").enabled


# --- gateway.platforms.base: data


def test_an_event_has_their_form() -> None:
    event = MessageEvent("/Model@bot  gpt —fast", source=None)
    assert (event.message_type, event.media_urls, event.internal, event.metadata) == (MessageType.TEXT, [], False, {})
    assert event.is_command()
    assert (event.get_command(), event.get_command_args()) == ("model", "gpt --fast")
    assert MessageEvent("/usr/bin is a path").get_command() is None
    assert MessageEvent("hello").get_command_args() == "hello"
    event.anything = 1  # type: ignore[attr-defined]
    assert replace(event, text="x").text == "x"
    assert [one.value for one in ProcessingOutcome] == ["success", "failure", "cancelled"]
    assert SendResult(True) == SendResult(True, None, None, None, False, None, (), None)
    reply = EphemeralReply("gone soon", ttl_seconds=5)
    assert (reply, reply.ttl_seconds, isinstance(reply, str)) == ("gone soon", 5, True)


def test_events_that_wait_are_merged() -> None:
    pending: dict[str, MessageEvent] = {}
    merge = base.merge_pending_message_event
    merge(pending, "k", MessageEvent("one"))
    merge(pending, "k", MessageEvent("two"), merge_text=True)
    assert pending["k"].text == "one\ntwo"
    merge(pending, "k", MessageEvent("three"))
    assert pending["k"].text == "three"
    merge(pending, "k", MessageEvent("cap", MessageType.PHOTO, media_urls=["/a"], media_types=["image/png"]))
    assert (pending["k"].text, pending["k"].media_urls, pending["k"].message_type) == (
        "three\n\ncap",
        ["/a"],
        MessageType.PHOTO,
    )


def test_the_prompt_of_a_channel() -> None:
    extra = {"channel_prompts": {5: " Be short. ", "p": "Be kind."}}
    assert base.resolve_channel_prompt(extra, "5") == "Be short."
    assert base.resolve_channel_prompt(extra, "6", "p") == "Be kind."
    assert base.resolve_channel_prompt({}, "6") is None


def test_received_files_are_kept_below_the_home(home: Path) -> None:
    image = Path(base.cache_image_from_bytes(PNG, ".png"))
    assert image.parent == home / "cache" / "images"
    assert image.name.startswith("img_")
    assert image.read_bytes() == PNG
    assert image.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ValueError, match="no picture"):
        base.cache_image_from_bytes(b"<svg/>")
    assert Path(base.cache_audio_from_bytes(b"a", "../x")).suffix == ".ogg"
    assert Path(base.cache_video_from_bytes(b"v")).parent.name == "videos"
    document = Path(base.cache_document_from_bytes(b"d", "../../etc/pass\0wd"))
    assert (document.parent, document.name.endswith("_passwd")) == (home / "cache" / "documents", True)
    assert base.cache_document_from_bytes(b"d", "").endswith("_document")
    media = base.cache_media_bytes(PNG, filename="a.png")
    assert media is not None
    assert (media.kind, media.media_type, media.display_name) == ("image", "image/png", "a.png")
    assert media.path in media.context_note()
    assert base.cache_media_bytes(b"no", filename="a.png") is None
    voice = base.cache_media_bytes(b"v", mime_type="audio/ogg; codecs=opus")
    assert voice is not None
    assert voice.kind == "audio"
    bare = base.cache_media_bytes(b"v", default_kind="video")
    assert bare is not None
    assert bare.kind == "video"


def test_nothing_private_is_fetched() -> None:
    """G8."""
    with pytest.raises(ValueError, match="not called"):
        asyncio.run(base.cache_image_from_url("http://127.0.0.1:9/a.png"))


def test_texts_are_cut_and_looked_through(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = BasePlatformAdapter.truncate_message
    assert cut("short") == ["short"]
    pieces = cut("```py\n" + "x = 1\n" * 40 + "```", 100)
    assert all(len(piece) <= 100 and piece.count("```") == 2 for piece in pieces)
    assert pieces[0].endswith(f" (1/{len(pieces)})")
    assert base.utf16_len("a😀") == 3
    assert all(base.utf16_len(piece) <= 60 for piece in cut("😀" * 100, 60, base.utf16_len))
    media, rest = BasePlatformAdapter.extract_media('Here [[audio_as_voice]]\nMEDIA:/a/b.ogg and MEDIA:"/c d.pdf"')
    assert media == [("/a/b.ogg", True), ("/c d.pdf", True)]
    assert rest.startswith("Here")
    images, rest = BasePlatformAdapter.extract_images('a ![cat](https://x.y/c.png) b <img src="https://x.y/d.gif">')
    assert images == [("https://x.y/c.png", "cat"), ("https://x.y/d.gif", "")]
    kept = home / "cache" / "a.pdf"
    kept.parent.mkdir()
    kept.write_bytes(b"1")
    assert BasePlatformAdapter.extract_local_files(f"see {kept} and `{kept}` and /no/such.pdf")[0] == [str(kept)]
    validate = BasePlatformAdapter.validate_media_delivery_path
    assert validate(str(kept)) == str(kept.resolve())
    (home / ".env").write_text("A=1")
    (home / "cache" / "link").symlink_to(home / ".env")
    assert [validate(path) for path in ("/etc/passwd", str(home / "cache" / "link"), "/no/such")] == [None] * 3
    for name in (
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "ALL_PROXY",
        "https_proxy",
        "http_proxy",
        "all_proxy",
        "NO_PROXY",
        "no_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    assert base.resolve_proxy_url("TOY_PROXY") is None
    monkeypatch.setenv("HTTPS_PROXY", "http://p:1")
    monkeypatch.setenv("NO_PROXY", "toy.example")
    assert base.resolve_proxy_url(target_hosts="api.toy.example") is None
    assert base.resolve_proxy_url(target_hosts=["other"]) == "http://p:1"
    monkeypatch.setenv("TOY_PROXY", "socks5://q:2")
    assert base.resolve_proxy_url("TOY_PROXY") == "socks5://q:2"


def test_a_deduplicator_forgets_in_time() -> None:
    seen = MessageDeduplicator(max_size=2, ttl_seconds=100)
    assert [seen.is_duplicate(id) for id in ("a", "a", "", "", "b", "c", "a")] == [False, True, *[False] * 5]
    seen.discard("c")
    assert not seen.contains("c")
    seen.clear()
    assert not seen.contains("a")


# --- the adapter


def test_an_adapter_made_without_init_is_whole() -> None:
    bare = object.__new__(ToyAdapter)
    bare._active_sessions["k"] = asyncio.Event()
    bare._pending_messages["k"] = MessageEvent("x")
    assert not bare.has_pending_interrupt("k")
    bare._active_sessions["k"].set()
    assert bare.has_pending_interrupt("k")
    waiting = bare.get_pending_message("k")
    assert waiting is not None
    assert waiting.text == "x"
    assert (bare.is_connected, bare.has_fatal_error, bare._background_tasks) == (False, False, set())
    assert object.__new__(ToyAdapter)._active_sessions == {}


def test_what_an_adapter_does_not_have(adapter: ToyAdapter) -> None:
    async def steps() -> None:
        assert not (await adapter.edit_message("c", "1", "x")).success
        assert not await adapter.delete_message("c", "1")
        assert not (await adapter.send_slash_confirm("c", "t", "m", "k", "i")).success
        await adapter.send_typing("c")
        await adapter.stop_typing("c")
        await adapter.send_image("c", "https://x/a.png", "A cat")
        await adapter.send_image_file("c", "/secret/a.png", caption="A cat")
        await adapter.send_document("c", "/secret/b.pdf", file_name="b.pdf")
        await adapter.play_tts("c", "/secret/c.ogg")
        await adapter.send_multiple_images("c", [("file:///secret/d.png", ""), ("https://x/e.gif", "E")])
        await adapter.send_private_notice("c", "u", "psst")
        await adapter.send_clarify("c", "Which?", ["one", "two"], "id", "k")
        with pytest.raises(NotImplementedError):
            await adapter.send_draft("c", 1, "x")

    asyncio.run(steps())
    texts = [sent["text"] for sent in adapter.sent]
    assert texts[0] == "A cat\nhttps://x/a.png"
    assert not any("/secret" in text for text in texts)
    assert texts[-1] == "Which?\n1. one\n2. two"
    assert (adapter.name, adapter.message_len_fn, adapter.enforces_own_access_policy) == ("Toychat", len, False)
    assert adapter.format_message("*x*") == "*x*"
    assert not adapter.supports_draft_streaming("dm")
    assert adapter.format_tool_event("web_search") == "⚙️ web_search"


def test_a_message_is_handed_to_whoever_takes_them(adapter: ToyAdapter) -> None:
    """The handler's text is sent, in reply and in its thread; without a handler nothing happens."""
    heard: list[MessageEvent] = []

    async def take(event: MessageEvent) -> str:
        heard.append(event)
        return "Not now." if event.text == "x" else ""

    async def steps() -> None:
        await adapter.handle_message(MessageEvent("x", source=adapter.build_source("c")))
        adapter.set_message_handler(take)
        source = adapter.build_source("c", thread_id="t")
        await adapter.handle_message(MessageEvent("x", source=source, message_id="m"))
        await asyncio.gather(*adapter._background_tasks)
        key = build_session_key(source)
        adapter._stores_first = True  # as in a gateway
        adapter._active_sessions[key] = asyncio.Event()
        await adapter.cancel_session_processing(key)
        assert key not in adapter._active_sessions

    asyncio.run(steps())
    assert adapter.sent == [
        {"chat": "c", "text": "Not now.", "reply_to": "m", "metadata": {"thread_id": "t", "notify": True}}
    ]
    assert [event.text for event in heard] == ["x", "/stop"]


def test_without_a_gateway_a_message_is_worked_on_beside_and_the_next_ones_wait(adapter: ToyAdapter) -> None:
    """As suites of adapters expect it: it returns at once, what comes meanwhile is merged, a failure is an outcome."""
    heard: list[str] = []
    outcomes: list[ProcessingOutcome] = []

    async def complete(event: MessageEvent, outcome: ProcessingOutcome) -> None:
        outcomes.append(outcome)

    async def steps() -> None:
        gate = asyncio.Event()

        async def take(event: MessageEvent) -> str:
            heard.append(event.text)
            await gate.wait()
            if event.text == "first":
                raise RuntimeError("no luck")
            return "Done."

        adapter.set_message_handler(take)
        adapter.on_processing_complete = complete  # type: ignore[method-assign]
        source = adapter.build_source("c", user_id="u")
        for text in ("first", "second", "third"):
            await adapter.handle_message(MessageEvent(text, source=source))
            await asyncio.sleep(0)
        assert heard == ["first"]
        gate.set()
        await asyncio.gather(*adapter._background_tasks)
        assert not adapter._active_sessions

    asyncio.run(steps())
    assert heard == ["first", "third"]
    assert outcomes == [ProcessingOutcome.FAILURE, ProcessingOutcome.SUCCESS]
    assert [sent["text"] for sent in adapter.sent] == ["Done."]


def test_a_send_is_repeated_where_that_may_help(adapter: ToyAdapter) -> None:
    async def send(*results: SendResult) -> tuple[SendResult, int]:
        adapter.sent.clear()
        adapter.results = list(results)
        return await adapter._send_with_retry("c", "x" * 4000, base_delay=0.001), len(adapter.sent)

    async def steps() -> None:
        again = SendResult(False, error="Connection reset")
        assert (await send(again, again, SendResult(True)))[1] == 3
        assert (await send(again, again, again))[1] == 4  # and a notice
        assert (await send(SendResult(False, error="request timed out")))[1] == 1
        assert (await send(SendResult(False, error="cannot parse entities"), SendResult(True)))[1] == 2
        assert len(adapter.sent[1]["text"]) == 3500

    asyncio.run(steps())


def test_a_fatal_error_is_told(adapter: ToyAdapter) -> None:
    told: list[Any] = []

    async def steps() -> None:
        adapter._mark_connected()
        assert adapter.is_connected
        adapter._set_fatal_error("auth", "The token is wrong.", retryable=False)
        adapter.set_fatal_error_handler(told.append)
        await adapter._notify_fatal_error()
        adapter._mark_disconnected()

    asyncio.run(steps())
    assert told == [adapter]
    assert (adapter.is_connected, adapter.fatal_error_message, adapter.fatal_error_retryable) == (
        False,
        "The token is wrong.",
        False,
    )
    adapter._mark_connected()
    assert not adapter.has_fatal_error


# --- questions, commands, the turn


def test_a_button_answers_the_oldest_approval_of_its_conversation() -> None:
    """G4: an answer counts once."""
    told: list[tuple[str, str, str]] = []
    for id in ("1", "2"):
        open_asks.add(OpenAsk(id, "k", APPROVAL, settle=lambda answer, word, id=id: told.append((id, answer, word))))
    assert len(approval._gateway_queues["k"]) == 2
    assert approval.resolve_gateway_approval("k", "nonsense") == 0
    assert approval.resolve_gateway_approval("k", "session") == 1
    assert approval.resolve_gateway_approval("k", "deny", resolve_all=True, reason="no time") == 1
    assert approval.resolve_gateway_approval("k", "once") == 0
    assert told == [("1", "conversation", ""), ("2", "deny", "no time")]
    assert "k" not in approval._gateway_queues


def test_a_plugin_asks_for_consent_and_hears_no_where_nobody_is() -> None:
    assert approval.request_tool_approval("mail", "send it")["approved"] is False
    assert approval.check_dangerous_command("rm -rf /", "local")["approved"] is False
    assert approval.request_tool_approval("mail", "x", approval_callback=lambda *_: "once")["approved"] is True
    assert approval.get_current_session_key() == "default"
    assert approval._get_approval_mode() in ("manual", "smart", "off")
    asked: list[Question] = []

    def answer(question: Question) -> Answer:
        asked.append(question)
        return Answer("approve")

    token = current_turn.set(TurnContext(CancelToken(), conversation="agent:main:x:dm:c", asker=answer))
    try:
        assert approval.check_dangerous_command("make", "local") == {"approved": True, "message": None}
        assert approval.get_current_session_key() == "agent:main:x:dm:c"
    finally:
        current_turn.reset(token)
    assert asked[0].text == "make"


def test_a_question_of_a_plugin_waits_for_its_button() -> None:
    clarify_gateway.register("q", "k", "Which?", ["one"])
    assert clarify_gateway.get_pending_for_session("k") is None
    assert clarify_gateway.mark_awaiting_text("q")
    pending = clarify_gateway.get_pending_for_session("k")
    assert pending is not None
    assert pending.clarify_id == "q"
    press = threading.Thread(target=clarify_gateway.resolve_gateway_clarify, args=("q", "one"))
    press.start()
    assert clarify_gateway.wait_for_response("q", 30) in ("one", None)
    press.join()
    assert not clarify_gateway.resolve_gateway_clarify("q", "two")
    clarify_gateway.register("r", "k", "Why?", None)
    assert clarify_gateway.clear_session("k") == 1
    assert clarify_gateway.wait_for_response("r", 0.01) is None
    assert clarify_gateway.get_clarify_timeout() > 0


def test_a_slash_command_is_confirmed_once() -> None:
    async def run(choice: str) -> str:
        return f"did it {choice}"

    async def steps() -> None:
        slash_confirm.register("k", "1", "/model", run)
        assert slash_confirm.get_pending("k") is not None
        assert await slash_confirm.resolve("k", "0", "once") is None
        assert await slash_confirm.resolve("k", "1", "once") == "did it once"
        assert await slash_confirm.resolve("k", "1", "once") is None
        slash_confirm.register("k", "2", "/model", lambda _: 1 / 0)
        assert await slash_confirm.resolve("k", "2", "always") is None
        slash_confirm.register("k", "3", "/model", run)
        slash_confirm.clear("k")
        assert slash_confirm.get_pending("k") is None

    asyncio.run(steps())


def test_commands_are_listed() -> None:
    by_name = {command.name: command for command in COMMAND_REGISTRY}
    assert by_name["new"].aliases == ("reset", "clear")
    assert by_name["model"].description
    assert by_name["quit"].cli_only
    assert {"stop", "approve", "deny", "status", "queue"} <= ACTIVE_SESSION_BYPASS_COMMANDS
    assert [is_gateway_known_command(name) for name in ("reset", "/stop", "quit", "nosuch", None)] == [
        *(True, True),
        *(False, False, False),
    ]


def test_a_turn_knows_where_it_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    address = Address("toychat", "toychat", "c", "group", "t")
    asked = Inbound(address, "m1", "u1", "hi", sender_name="Ann")
    turn = TurnContext(CancelToken(), "s1", asked=asked, conversation=address.conversation("work"))
    token = current_turn.set(turn)
    try:
        names = (
            "PLATFORM",
            "SOURCE",
            "CHAT_ID",
            "THREAD_ID",
            "USER_ID",
            "USER_NAME",
            "KEY",
            "ID",
            "MESSAGE_ID",
            "PROFILE",
        )
        assert [get_session_env(f"HERMES_SESSION_{name}") for name in names] == [
            *("toychat", "toychat", "c", "t", "u1", "Ann"),
            *("agent:work:toychat:group:c:t", "s1", "m1", "work"),
        ]
        assert get_session_env("HERMES_SESSION_CHAT_NAME", "none") == "none"
    finally:
        current_turn.reset(token)
    monkeypatch.setenv("HERMES_SESSION_CHAT_ID", "from outside")
    assert get_session_env("HERMES_SESSION_CHAT_ID") == "from outside"
    assert get_session_env("HERMES_SESSION_KEY", "none") == "none"


def test_a_section_can_be_written_as_json(adapter: ToyAdapter) -> None:
    assert json.loads(json.dumps(adapter.config.to_dict()))["extra"] == {"url": "x"}
