"""What providers of images, videos, speech, transcripts, search and browsers have in common, and the list of each kind.

Plugins subclass the classes in the modules beside this one and register objects of them; the names are what other
people's plugins import.
"""

import base64
import logging
import threading
import time
import uuid
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Generic, TypeVar

from hermes_constants import get_hermes_home

log = logging.getLogger(__name__)


class BackendProvider(ABC):
    """A name that the settings may say, and what a person has to know to set it up."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The value of the setting that chooses it."""

    @property
    def display_name(self) -> str:
        return self.name.title()

    def is_available(self) -> bool:
        """Whether all that it needs is there; no network is touched."""
        return True

    def list_models(self) -> list[dict[str, Any]]:
        return []

    def default_model(self) -> str | None:
        models = self.list_models()
        return models[0].get("id") if models else None

    def get_setup_schema(self) -> dict[str, Any]:
        return {"name": self.display_name, "badge": "", "tag": "", "env_vars": []}


P = TypeVar("P", bound=BackendProvider)


class BackendRegistry(Generic[P]):
    """The providers of one kind, by name; of two with one name the later counts."""

    def __init__(self, kind: Any) -> None:  # the class, which is abstract
        self._kind = kind
        self._lock = threading.Lock()
        self._providers: dict[str, P] = {}

    def accepts(self, provider: Any) -> bool:
        return isinstance(provider, self._kind)

    def register_provider(self, provider: P) -> None:
        if not self.accepts(provider):
            log.warning("%r is no %s and is left out", type(provider).__name__, self._kind.__name__)
            return
        with self._lock:
            self._providers[provider.name] = provider

    def list_providers(self) -> list[P]:
        with self._lock:
            return [self._providers[name] for name in sorted(self._providers)]

    def get_provider(self, name: str) -> P | None:
        return self._providers.get(name.strip()) if isinstance(name, str) else None

    def forget(self, provider: P) -> None:
        """It goes with its plugin, if no other one has taken its name."""
        with self._lock:
            for name in [name for name, known in self._providers.items() if known is provider]:
                del self._providers[name]


def save_bytes(data: bytes, kind: str, prefix: str, extension: str) -> Path:
    """Keep what was made in the cache of the home, under a name that nobody has."""
    folder = get_hermes_home() / "cache" / kind
    folder.mkdir(parents=True, exist_ok=True)
    stamp = time.strftime("%Y%m%d_%H%M%S")
    path = folder / f"{prefix}_{stamp}_{uuid.uuid4().hex[:8]}.{extension.lstrip('.')}"
    path.write_bytes(data)
    return path


def save_base64(text: str, kind: str, prefix: str, extension: str) -> Path:
    return save_bytes(base64.b64decode(text), kind, prefix, extension)
