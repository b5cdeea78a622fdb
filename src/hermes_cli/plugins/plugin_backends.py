"""Back ends that plugins bring, as our own tools use them: a search of the web, a reader of pages, a browser."""

import importlib
import inspect
import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import model_tools
from agent import (
    browser_registry,
    image_gen_registry,
    transcription_registry,
    tts_registry,
    video_gen_registry,
    web_search_registry,
)
from agent.backend_provider import BackendProvider, BackendRegistry
from agent.browser_provider import BrowserProvider
from agent.provider_calls import ProviderCalls
from agent.web_search_provider import WebSearchProvider
from hermes_base.errors import ToolFailure
from hermes_base.settings import Settings
from hermes_base.turn.cancel import CancelToken
from tools.browser.lending import LentBrowser, lent_browsers

log = logging.getLogger("hermes_cli.plugins")

#: The lists that plugins read, too, by what `ctx.register_…` calls them.
REGISTRIES: Mapping[str, BackendRegistry[Any]] = MappingProxyType(
    {
        "image_gen_provider": image_gen_registry.registry,
        "video_gen_provider": video_gen_registry.registry,
        "tts_provider": tts_registry.registry,
        "transcription_provider": transcription_registry.registry,
        "web_search_provider": web_search_registry.registry,
        "browser_provider": browser_registry.registry,
    }
)
KIND = "search provider"


class _AnswerForm(NamedTuple):
    """How a provider's answer is read: as that of any search service, with the same limits."""

    label: str
    hits: tuple[str, ...] = ("data", "web")
    title: str = "title"
    url: str = "url"
    snippets: tuple[str, ...] = ("description",)


class PluginSearch:
    """A provider of a plugin as a search service."""

    def __init__(self, provider: WebSearchProvider) -> None:
        self.name, self.label = provider.name, provider.display_name
        self._provider = provider

    def find_missing(self, settings: Settings) -> str:
        provider = self._provider
        ready = self._ask("is_available", lambda: bool(provider.supports_search() and provider.is_available()))
        return "" if ready else f"{self.label} says that it is not available"

    def search(self, query: str, limit: int, settings: Settings, cancel: CancelToken) -> Sequence[Any]:
        del settings, cancel  # a stop ends the wait: the turn of this thread is known to the call
        answer = self._get_answer("search", lambda: self._provider.search(query, limit))
        if isinstance(answer, Mapping) and answer.get("success") is False:
            raise ToolFailure(f"{self.label} did not search: {answer.get('error') or 'it does not say why'}")
        body = json.dumps(answer, default=str).encode()
        return _load_table().read_hits(_AnswerForm(self.label), body, limit)  # type: ignore[no-any-return]

    def read_page(self, url: str) -> tuple[str, str]:
        """Title and text of a page."""
        found = self._get_answer("extract", lambda: _finish(self._provider.extract([url])))
        page = found[0] if isinstance(found, Sequence) and found and isinstance(found[0], Mapping) else {}
        text = page.get("content") or page.get("raw_content")
        if page.get("error") or not isinstance(text, str) or not text:
            raise ToolFailure(f"{self.label} could not read the page: {page.get('error') or 'it gave nothing back'}")
        return str(page.get("title") or ""), text

    def reads_pages(self) -> bool:
        return bool(self._ask("supports_extract", self._provider.supports_extract))

    def _ask(self, what: str, work: Callable[[], Any]) -> Any:
        return ProviderCalls(self.name, lambda sentence: None, kind=KIND).ask(what, work, None)

    def _get_answer(self, what: str, work: Callable[[], Any]) -> Any:
        heard: list[str] = []
        answer = ProviderCalls(self.name, heard.append, kind=KIND).ask(what, work, None)
        if answer is None:
            raise ToolFailure(heard[-1] if heard else f"{self.label} gave no answer.", fix="Try it again later.")
        return answer


class _BrowserOrder:
    """A browser that is being made: when it comes after nobody waits for it any more, it goes back at once."""

    def __init__(self, provider: BrowserProvider, task: str) -> None:
        self._provider, self._task = provider, task
        self._lock = threading.Lock()
        self._made: Any = None
        self._cancelled = False

    def make(self) -> Any:
        made = self._provider.create_session(self._task)
        with self._lock:
            self._made, too_late = made, self._cancelled
        if too_late and isinstance(made, Mapping):
            self._provider.close_session(_name_session(made, self._task))
        return made

    def cancel(self, take_back: Callable[[str], None]) -> None:
        with self._lock:
            self._cancelled, made = True, self._made
        if isinstance(made, Mapping):
            take_back(_name_session(made, self._task))


def _name_session(made: Mapping[str, Any], task: str) -> str:
    return str(made.get("bb_session_id") or made.get("session_name") or task)


class PluginBrowser:
    """A provider of a plugin as somebody who lends browsers."""

    def __init__(self, provider: BrowserProvider) -> None:
        self.name, self.label = provider.name, provider.display_name
        self._provider = provider
        self._heard: list[str] = []
        self._calls = ProviderCalls(self.name, self._heard.append, kind="browser provider")

    def find_missing(self) -> str:
        ready = self._calls.ask("is_available", lambda: bool(self._provider.is_available()), otherwise=False)
        return "" if ready else f"{self.label} says that it is not available"

    def lend(self, task: str) -> LentBrowser:
        self._heard.clear()
        order = _BrowserOrder(self._provider, task)
        made = self._calls.ask("create_session", order.make, None)
        if made is None:
            order.cancel(self.take_back)
        if not isinstance(made, Mapping):
            raise ToolFailure(self._heard[-1] if self._heard else f"{self.label} lends no browser now.")
        address = str(made.get("cdp_url") or "")
        session = _name_session(made, task)
        if not address.startswith(("ws://", "wss://", "http://", "https://")):
            self.take_back(session)
            raise ToolFailure(f"{self.label} did not say where its browser is.")
        return LentBrowser(session, address)

    def take_back(self, session: str) -> None:
        self._calls.queue("close_session", lambda: self._provider.close_session(session))

    def take_back_now(self, session: str) -> None:
        try:
            self._calls.ask("emergency_cleanup", lambda: self._provider.emergency_cleanup(session), None)
        except RuntimeError as problem:  # no thread begins any more
            log.warning("browser provider %s was not told of the end: %s", self.name, problem)


def _finish(result: Any) -> Any:
    return model_tools._run_async(result) if inspect.isawaitable(result) else result


def serve(kind: str, provider: Any) -> None:
    """Put a provider into the list of its kind; a search is offered to the model, and a browser lent to it."""
    REGISTRIES[kind].register_provider(provider)
    if isinstance(provider, BrowserProvider):
        lent_browsers.register(PluginBrowser(provider))
    if isinstance(provider, WebSearchProvider):
        services = _load_services()
        services.deregister(provider.name)  # of two plugins the later one counts, as for every kind
        services.register(PluginSearch(provider))


def serve_offer(kind: str, offer: Any) -> None:
    """The same for what a plugin offered before, if it is of a kind and a form that is served at all."""
    if kind in REGISTRIES and isinstance(offer, BackendProvider):
        serve(kind, offer)


def forget(offers: Sequence[tuple[str, Any]]) -> None:
    """The plugins are gone: so is what they brought."""
    for kind, provider in offers:
        if kind in REGISTRIES:
            REGISTRIES[kind].forget(provider)
        if isinstance(provider, BrowserProvider):
            lent_browsers.deregister(provider.name)
        if isinstance(provider, WebSearchProvider):
            _load_services().deregister(provider.name)


def _load_services() -> Any:
    """Late: only a plugin that searches pays for what searches."""
    return importlib.import_module("tools.web.search_services").search_services


def _load_table() -> Any:
    """Late, for the same reason."""
    return importlib.import_module("tools.web.search_table")
