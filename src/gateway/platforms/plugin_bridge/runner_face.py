"""The running gateway as plugins look at it (`gateway.run._gateway_runner_ref()`), and the way of messages to it."""

import weakref
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from types import MappingProxyType
from typing import Any

from gateway.config import GatewayConfig, Platform, find_profile, load_gateway_config
from gateway.platforms.plugin_bridge.messages import MessageEvent
from gateway.session import SessionSource, SessionStore, build_session_key

Taker = Callable[[MessageEvent], Awaitable[Any]]


class ModelOverrides(MutableMapping[str, dict[str, Any]]):
    """Which model was chosen for a conversation, by its key: what `/model` says there."""

    def __init__(self, read: Callable[[str], dict[str, Any]], write: Callable[[str, dict[str, Any]], None]) -> None:
        self._read, self._write = read, write
        self._written: dict[str, None] = {}

    def __getitem__(self, key: str) -> dict[str, Any]:
        chosen = self._read(key)
        if not chosen:
            raise KeyError(key)
        return chosen

    def __setitem__(self, key: str, chosen: dict[str, Any]) -> None:
        self._write(key, chosen)
        self._written[key] = None

    def __delitem__(self, key: str) -> None:
        self._write(key, {})
        self._written.pop(key, None)

    def __iter__(self) -> Iterator[str]:
        return iter([key for key in self._written if self._read(key)])

    def __len__(self) -> int:
        return sum(1 for _ in self)


class RunnerFace:
    """A part of `GatewayRunner`. Defaults on the class make an instance without `__init__` whole."""

    adapters: dict[Platform, Any] = MappingProxyType({})  # type: ignore[assignment]
    session_store: SessionStore = SessionStore()
    _takers: dict[str, Taker] = MappingProxyType({})  # type: ignore[assignment]
    _session_model_overrides: MutableMapping[str, dict[str, Any]] = MappingProxyType({})  # type: ignore[assignment]
    _knows: Callable[[str, str], bool] = staticmethod(lambda platform, sender: False)

    def open_to_plugins(
        self,
        session_store: SessionStore,
        overrides: MutableMapping[str, dict[str, Any]],
        knows: Callable[[str, str], bool],
    ) -> None:
        """From now on it is the runner that plugins find."""
        self.adapters, self._takers = {}, {}
        self.session_store, self._session_model_overrides = session_store, overrides
        self._knows = knows
        global _current
        _current = weakref.ref(self)

    def open_alone(self) -> None:
        """Without a gateway around it."""
        self.adapters, self._takers = {}, {}

    @property
    def profile(self) -> str:
        return find_profile()

    @property
    def config(self) -> GatewayConfig:
        return load_gateway_config()

    def _session_key_for_source(self, source: SessionSource) -> str:
        return build_session_key(source)

    def _is_user_authorized(self, source: SessionSource) -> bool:
        """Whether somebody was let in. It asks the store: not for the house's own event loop."""
        return bool(source.user_id) and self._knows(str(source.platform.value), str(source.user_id))

    async def _handle_message(self, event: MessageEvent) -> Any:
        """Take a message as from its platform; returns when it is stored. Its answer comes by itself."""
        platform = str(event.source.platform.value) if event.source is not None else ""
        taker = self._takers.get(platform)
        return await taker(event) if taker is not None else None


_current: Callable[[], RunnerFace | None] = lambda: None  # noqa: E731 - in the form of a weak reference


def find_runner() -> Any:
    """The runner of the gateway of this process; None while there is none."""
    return _current()
