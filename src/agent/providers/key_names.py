"""The variables that hold keys of providers: which there are, and which one a misspelt name was meant to be."""

import difflib
from collections.abc import Mapping
from typing import Any

from agent.providers.table import PROVIDERS

_LIKE = 0.85  # how alike two names are, for one to be a slip of the other


def find_key_names(settings: Mapping[str, Any]) -> frozenset[str]:
    """Variables that are looked up for each message: those of the providers, and those that the settings name."""
    section = settings.get("model")
    model = section if isinstance(section, Mapping) else {}
    entries = [model, *(entry for entry in model.get("fallbacks") or () if isinstance(entry, Mapping))]
    named = {str(entry.get("key_env") or "") for entry in entries} - {""}
    return frozenset({*named, *(name for facts in PROVIDERS.values() for name in facts.key_env)})


def find_meant(name: str, known: frozenset[str]) -> str:
    """The known name that an unknown one is a slip of; empty: it is known, or like none."""
    near = () if name in known else difflib.get_close_matches(name, sorted(known), 1, _LIKE)
    return next(iter(near), "")
