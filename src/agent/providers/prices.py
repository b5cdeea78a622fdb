"""What tokens cost: public list prices as data, the owner's own prices before them, and what a cache saved.

`prices.json` beside this module holds the list; a file of the same form and name in the home folder wins, entry by
entry. Both are read once, at the first call that needs a price.
"""

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from agent.providers.table import provider_or_custom
from hermes_base.errors import ConfigProblem
from hermes_constants import get_hermes_home

log = logging.getLogger(__name__)

PRICE_FILE = "prices.json"
_LISTED = Path(__file__).with_name(PRICE_FILE)
_MILLION = 1_000_000
#: A snapshot costs what its model costs.
_SNAPSHOT = re.compile(r"-(?:20\d{6}|20\d\d-\d\d-\d\d|latest)$")


@dataclass(frozen=True, slots=True)
class CanonicalUsage:
    """Uncached input, cache read, cache write and output add up to the total; reasoning is a part of output."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_long_tokens: int = 0  # the part of the cache write that is kept longer, and costs more
    cost: float | None = None  # dollars, where the answer itself tells them

    @property
    def prompt_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens

    def __add__(self, other: "CanonicalUsage") -> "CanonicalUsage":
        told = [cost for cost in (self.cost, other.cost) if cost is not None]
        return CanonicalUsage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cache_write_long_tokens + other.cache_write_long_tokens,
            sum(told) if told else None,
        )

    def as_engine_usage(self) -> dict[str, int]:
        """The buckets under the names that context engines read."""
        prompt = self.prompt_tokens
        return {
            "prompt_tokens": prompt,
            "completion_tokens": self.output_tokens,
            "total_tokens": prompt + self.output_tokens,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cache_read_tokens": self.cache_read_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            "reasoning_tokens": self.reasoning_tokens,
        }


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens of each bucket."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    cache_write_long: float  # for the longer lifetime, where the provider has two
    over: int = 0  # prompts of more tokens than this cost `long`; 0: all cost the same
    long: "Price | None" = None


@dataclass(frozen=True, slots=True)
class Maker:
    """The prices of one provider: by pattern of the model's name, and whose prices a `vendor/model` has."""

    models: Mapping[str, Price] = field(default_factory=dict)
    vendors: Mapping[str, str] = field(default_factory=dict)


Table = Mapping[str, Maker]
FREE = Price(0.0, 0.0, 0.0, 0.0, 0.0)


def apply_price(price: Price, usage: CanonicalUsage) -> float:
    """What a call costs in dollars."""
    price = _fit(price, usage)
    dollars = (
        usage.input_tokens * price.input
        + usage.cache_read_tokens * price.cache_read
        + (usage.cache_write_tokens - usage.cache_write_long_tokens) * price.cache_write
        + usage.cache_write_long_tokens * price.cache_write_long
        + usage.output_tokens * price.output
    )
    return dollars / _MILLION


def saved_by_cache(price: Price, usage: CanonicalUsage) -> float:
    """What a call would have cost more without the cache: cheaper reads minus the surcharge of writes."""
    price = _fit(price, usage)
    dollars = (
        usage.cache_read_tokens * (price.input - price.cache_read)
        - (usage.cache_write_tokens - usage.cache_write_long_tokens) * (price.cache_write - price.input)
        - usage.cache_write_long_tokens * (price.cache_write_long - price.input)
    )
    return dollars / _MILLION


def has_cache(provider: str, model: str) -> bool:
    """Whether the provider sells this model's cached input for less; True where nothing is known."""
    price = find_price(provider, model)
    return price is None or price.cache_read < price.input


def find_price(provider: str, model: str) -> Price | None:
    """The owner's price, else the list price, else nothing for a model on this machine; None: not known."""
    return _find_price(get_hermes_home(), provider.strip().lower(), model)


@lru_cache(maxsize=256)
def _find_price(home: Path, provider: str, model: str) -> Price | None:
    facts = provider_or_custom(provider)
    for table, name in ((_own_table(home), provider), (_listed_table(), facts.name)):
        found = _look_up(table, name, _fold(model))
        if found is not None:
            return found
    return FREE if facts.local or facts.name == "embedded" else None


def _look_up(table: Table, provider: str, model: str) -> Price | None:
    maker = table.get(provider)
    if maker is None:
        return None
    found = _match(maker.models, model) or _match(maker.models, _SNAPSHOT.sub("", model))
    vendor, _, name = model.partition("/")
    if found is None and name and vendor in maker.vendors:
        return _look_up(table, maker.vendors[vendor], name)
    return found


def _match(models: Mapping[str, Price], model: str) -> Price | None:
    """The price of the pattern that says most about the name."""
    fitting = [pattern for pattern in models if pattern == model or fnmatchcase(model, pattern)]
    return models[max(fitting, key=lambda pattern: (pattern == model, len(pattern)))] if fitting else None


def _fold(model: str) -> str:
    """Names differ in case and in dots: claude-sonnet-4.5 is claude-sonnet-4-5 elsewhere."""
    return model.strip().lower().replace(".", "-")


def _fit(price: Price, usage: CanonicalUsage) -> Price:
    return price.long if price.long is not None and usage.prompt_tokens > price.over else price


# --- the files


@lru_cache(maxsize=1)
def _listed_table() -> Table:
    return read_prices(_LISTED)


@lru_cache(maxsize=8)
def _own_table(home: Path) -> Table:
    path = home / PRICE_FILE
    try:
        return read_prices(path) if path.exists() else {}
    except ConfigProblem as problem:
        log.warning("The owner's prices are not used: %s", problem)  # a wrong price must not stop a turn
        return {}


def read_prices(path: Path) -> Table:
    """The prices in a file; ConfigProblem says what is wrong with it."""
    try:
        makers = json.loads(path.read_text(encoding="utf-8"))["providers"]
        found = {}
        for name, maker in makers.items():
            models = {_fold(pattern): _read_price(price) for pattern, price in maker.get("models", {}).items()}
            vendors = {str(vendor).lower(): str(of).lower() for vendor, of in maker.get("vendors", {}).items()}
            found[name.strip().lower()] = Maker(models, vendors)
        return found
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigProblem(
            f"The prices in {path} cannot be used ({type(error).__name__}: {error}).",
            fix="docs/usage.md shows the form; without the file the list prices are used.",
        ) from error


def _read_price(given: Mapping[str, Any]) -> Price:
    """What is not given costs as much as plain input, a long write as much as a short one."""
    plain = _dollars(given["input"])
    write = _dollars(given.get("cache_write", plain))
    long = given.get("long")
    return Price(
        input=plain,
        output=_dollars(given["output"]),
        cache_read=_dollars(given.get("cache_read", plain)),
        cache_write=write,
        cache_write_long=_dollars(given.get("cache_write_long", write)),
        over=int(long["over"]) if long else 0,
        long=_read_price(long) if long else None,
    )


def _dollars(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MILLION:
        raise ValueError(f"{value!r} is no price")
    return float(value)
