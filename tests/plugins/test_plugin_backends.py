"""Back ends of plugins: a search and a reader of pages are used by our tools, the others are kept and told of."""

import importlib
import json
import threading
from typing import Any

import pytest
from waiting import wait_until

from agent import provider_calls, web_search_registry
from agent.browser_provider import BrowserProvider
from gateway.turns.transcribing import find_transcriber, read_transcript
from hermes_base.errors import ToolFailure
from hermes_base.setting_table import read_settings
from hermes_base.turn.tool_context import ToolContext
from hermes_cli import plugins
from hermes_cli.plugins.plugin_backends import PluginBrowser
from tools.builtin import web_extract_tool, web_search_tool  # noqa: F401 - which registers them
from tools.registry import registry
from tools.web.search_services import search_services

SEARCH = """
    from agent.web_search_provider import WebSearchProvider

    class Looker(WebSearchProvider):
        name = "looker"
        def is_available(self): return True
        def supports_extract(self): return True
        def search(self, query, limit=5):
            if query == "fail":
                return {"success": False, "error": "used up"}
            if query == "raise":
                raise OSError("gone")
            hit = {"title": "T" * 9000, "url": "https://example.org/" + query, "description": "d", "position": 1}
            return {"success": True, "data": {"web": [hit, {"url": "javascript:alert(1)"}]}}
        async def extract(self, urls, **more):
            if "missing" in urls[0]:
                return [{"url": urls[0], "error": "not there"}]
            return [{"url": urls[0], "title": "A page", "content": "words of " + urls[0]}]

    def register(ctx):
        ctx.register_web_search_provider(Looker())
        ctx.register_web_search_provider("nothing")
"""


@pytest.fixture
def looker(write_plugin: Any, enable: Any) -> Any:
    write_plugin("looker", SEARCH)
    return enable("looker")


def context(**web: str) -> ToolContext:
    return ToolContext(settings=read_settings({"web": web}))


def test_a_search_of_a_plugin_is_asked_and_its_answer_is_read_as_any_other(looker: Any) -> None:
    """G9"""
    assert web_search_registry.get_provider("looker") is not None
    given = context(search_backend="looker")
    found = json.loads(registry.dispatch("web_search", {"query": "tea"}, context=given))["results"]
    assert [hit["url"] for hit in found] == ["https://example.org/tea"]
    assert len(found[0]["title"]) < 1000
    assert given.foreign.origins == ("search results of looker",)
    for query, told in (("fail", "used up"), ("raise", "OSError: gone")):
        assert told in registry.dispatch("web_search", {"query": query}, context=context(backend="looker"))
    assert looker._plugins["looker"].kept == []


def test_a_plugin_reads_pages_where_the_settings_name_it(looker: Any) -> None:
    given = context(extract_backend="looker")
    page = json.loads(registry.dispatch("web_extract", {"url": "https://example.org/a"}, context=given))
    assert (page["title"], page["text"]) == ("A page", "words of https://example.org/a")
    assert given.foreign.origins == ("a web page of example.org",)
    assert "not there" in registry.dispatch("web_extract", {"url": "https://example.org/missing"}, context=given)
    given = context(extract_backend="nobody")
    wrong = registry.dispatch("web_extract", {"url": "https://example.org/a"}, context=given)
    assert "no plugin of this name reads pages" in wrong


def test_it_goes_with_its_plugin_and_no_other_does(looker: Any, write_plugin: Any, enable: Any, configure: Any) -> None:
    write_plugin("finder", SEARCH.replace('"looker"', '"finder"'))
    manager = enable("looker", "finder")
    configure(plugins={"enabled": ["finder"]})
    manager.follow_settings()
    assert [provider.name for provider in web_search_registry.list_providers()] == ["finder"]
    assert search_services.find("looker") is None
    assert search_services.find("finder") is not None
    enable()
    assert web_search_registry.list_providers() == []
    assert search_services.find("finder") is None


OTHERS = """
    from agent.image_gen_provider import DEFAULT_ASPECT_RATIO, ImageGenProvider, error_response, resolve_aspect_ratio
    from agent.image_gen_provider import save_b64_image, save_url_image, success_response
    from agent.transcription_provider import TranscriptionProvider
    from agent.tts_provider import TTSProvider
    from agent.video_gen_provider import VideoGenProvider

    class Painter(ImageGenProvider):
        name = "painter"
        def list_models(self): return [{"id": "oil"}]
        def generate(self, prompt, aspect_ratio=DEFAULT_ASPECT_RATIO, **more):
            path = save_b64_image("aGVsbG8=", prefix="paint")
            asked = {"prompt": prompt, "aspect_ratio": resolve_aspect_ratio(aspect_ratio), "provider": self.name}
            return success_response(image=str(path), model=self.default_model(), **asked)

    class Speaker(TTSProvider):
        name = "speaker"
        def synthesize(self, text, output_path, **more): return output_path

    class Filmer(VideoGenProvider):
        name = "filmer"
        def generate(self, prompt, **more): return {}

    class Writer(TranscriptionProvider):
        name = "writer"
        def transcribe(self, file_path, **more): return {"success": True, "transcript": " said ", "provider": "writer"}

    def register(ctx):
        ctx.register_image_gen_provider(Painter())
        ctx.register_tts_provider(Speaker())
        ctx.register_video_gen_provider(Filmer())
        ctx.register_transcription_provider(Writer())
"""


def test_the_others_are_kept_and_told_of_and_transcripts_are_served(write_plugin: Any, enable: Any, home: Any) -> None:
    write_plugin("studio", OTHERS)
    manager = enable("studio")
    assert manager._plugins["studio"].error is None
    kept = [("image_gen_provider", "painter"), ("tts_provider", "speaker"), ("video_gen_provider", "filmer")]
    assert manager._plugins["studio"].kept == kept
    for kind, name in (*kept, ("transcription_provider", "writer")):
        listed = importlib.import_module(f"agent.{kind.removesuffix('_provider')}_registry").list_providers()
        assert [provider.name for provider in listed] == [name]
    painter = importlib.import_module("agent.image_gen_registry").get_provider("painter")
    made = painter.generate("a house", aspect_ratio="odd")
    assert (made["success"], made["aspect_ratio"], made["model"]) == (True, "landscape", "oil")
    assert (home / "cache" / "images").joinpath(made["image"].rpartition("/")[2]).read_bytes() == b"hello"
    transcribe = find_transcriber()
    assert transcribe is not None
    assert transcribe(home / "a.ogg") == "said"
    with pytest.raises(ValueError, match="no key"):
        read_transcript({"success": False, "error": "no key"})
    plugins.discover_plugins(force=True)


# --- browsers


class SlowLender(BrowserProvider):
    name = "slow"

    def __init__(self) -> None:
        self.gate, self.told = threading.Event(), list[str]()

    def is_available(self) -> bool:
        return True

    def create_session(self, task_id: str) -> dict[str, Any]:
        self.gate.wait()
        self.told.append("made")
        return {"bb_session_id": "b", "cdp_url": "ws://127.0.0.1:1/"}

    def close_session(self, session_id: str) -> bool:
        self.told.append(f"back {session_id}")
        return True

    def emergency_cleanup(self, session_id: str) -> None: ...


def test_a_browser_that_comes_when_nobody_waits_any_more_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever lends it counts the minutes."""
    monkeypatch.setitem(provider_calls.LIMITS, "create_session", 0.02)
    slow = SlowLender()
    with pytest.raises(ToolFailure):
        PluginBrowser(slow).lend("t")
    slow.gate.set()
    wait_until(lambda: slow.told == ["made", "back b"])
