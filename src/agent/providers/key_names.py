"""The variables that hold keys of providers: which there are, and which one a misspelt name was meant to be."""

import difflib

from agent.providers.table import list_known
from hermes_base.settings import Settings

_LIKE = 0.85  # how alike two names are, for one to be a slip of the other


def find_key_names(settings: Settings) -> frozenset[str]:
    """Variables that are looked up for each message: those of the providers, and those that the settings name."""
    model = settings.model
    named = {model.key_env, *(entry.get("key_env") or "" for entry in model.fallbacks)} - {""}
    return frozenset({*named, *(name for facts in list_known().values() for name in (*facts.key_env, *facts.url_env))})


def find_meant(name: str, known: frozenset[str]) -> str:
    """The known name that an unknown one is a slip of; empty: it is known, or like none."""
    near = () if name in known else difflib.get_close_matches(name, sorted(known), 1, _LIKE)
    return next(iter(near), "")
