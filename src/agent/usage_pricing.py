"""Token counts of a model call in disjoint buckets, whatever names a provider gives them; what they cost, what the
cache saved, and when they look wrong.

`providers/prices.json` holds the public list prices; a file of the same form and name in the home folder wins, entry by
entry. Both are read once, at the first call that needs a price.
"""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from agent.providers.table import provider_or_custom
from hermes_base.errors import ConfigProblem
from hermes_base.turn.journal import UsageRow
from hermes_constants import get_hermes_home

log = logging.getLogger(__name__)

PRICE_FILE = "prices.json"
_LISTED = Path(__file__).parent / "providers" / PRICE_FILE
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


#: Providers whose reasoning stands beside completion_tokens; a total, where there is one, tells it for all others.
_REASONING_BESIDE = frozenset({"xai"})
#: No call is this large; a count above it is nonsense, and the sums have to stay in the integers of a database.
_MOST = 10**12
_READ_NAMES = (
    ("prompt_tokens_details", "cached_tokens"),  # OpenAI and most others
    ("prompt_token_details", "cached_tokens"),  # Mistral has both spellings
    ("input_tokens_details", "cached_tokens"),  # Responses
    ("prompt_cache_hit_tokens",),  # DeepSeek
    ("num_cached_tokens",),  # Mistral
    ("cache_read_input_tokens",),  # Claude behind a gateway
    ("cached_tokens",),
)
_WRITE_NAMES = (
    ("prompt_tokens_details", "cache_write_tokens"),  # OpenAI, OpenRouter
    ("input_tokens_details", "cache_write_tokens"),
    ("prompt_tokens_details", "cache_creation_tokens"),
    ("cache_creation_input_tokens",),
)
_LONG_WRITE_NAMES = (
    ("input_tokens_details", "cache_write_tokens_details", "ttl_12h_tokens"),
    ("prompt_tokens_details", "cache_write_tokens_details", "ttl_12h_tokens"),
    ("cache_creation", "ephemeral_1h_input_tokens"),
)
_PROMPT_NAMES = (("prompt_tokens",), ("input_tokens",))
_OUTPUT_NAMES = (("completion_tokens",), ("output_tokens",))
_REASONING_NAMES = (
    ("completion_tokens_details", "reasoning_tokens"),
    ("output_tokens_details", "reasoning_tokens"),
    ("output_tokens_details", "thinking_tokens"),  # Anthropic
    ("reasoning_tokens",),
)
Names = Sequence[tuple[str, ...]]


def ledger_row(usage: CanonicalUsage | None, provider: str, model: str, kind: str = "turn", turn: str = "") -> UsageRow:
    """A call as the ledger keeps it, with its cost; without a count it stays unsettled and has no price."""
    counted = usage or CanonicalUsage()
    price = None if usage is None else find_price(provider, model)
    listed = None if price is None else apply_price(price, counted)
    return UsageRow(
        provider=provider,
        model=model,
        kind=kind,
        input_tokens=counted.input_tokens,
        cache_read_tokens=counted.cache_read_tokens,
        cache_write_tokens=counted.cache_write_tokens,
        output_tokens=counted.output_tokens,
        reasoning_tokens=counted.reasoning_tokens,
        cost=listed if counted.cost is None else counted.cost,
        settled=usage is not None,
        turn=turn,
        saved=None if price is None else saved_by_cache(price, counted),
    )


# --- dialects


def usage_from_chat_completions(usage: Mapping[str, Any] | None, dialect: str = "") -> CanonicalUsage | None:
    """Chat Completions counts cached tokens inside the prompt; here they are taken apart. `dialect` is the provider."""
    hit, missed = _find(usage, (("prompt_cache_hit_tokens",),)), _find(usage, (("prompt_cache_miss_tokens",),))
    return _split_inclusive(usage, (hit or 0) + (missed or 0), reasoning_beside=dialect in _REASONING_BESIDE)


def usage_from_responses(usage: Mapping[str, Any] | None) -> CanonicalUsage | None:
    """Responses counts cached tokens inside the input and reasoning inside the output."""
    return _split_inclusive(usage)


def usage_from_anthropic(
    usage: Mapping[str, Any] | None, delta: Mapping[str, Any] | None = None
) -> CanonicalUsage | None:
    """Messages counts cached tokens beside the input; `delta` is the usage of a stream's last message_delta.

    The counts of a stream are cumulative, so the larger one is the newer one, and what the delta leaves out stands.
    """
    told = usage, delta
    if all(_find(part, (*_PROMPT_NAMES, *_OUTPUT_NAMES)) is None for part in told):
        return None

    def newest(names: Names) -> int:
        return max(_find(part, names) or 0 for part in told)

    long, output = newest(_LONG_WRITE_NAMES), newest(_OUTPUT_NAMES)
    written = newest(_WRITE_NAMES) or newest((("cache_creation", "ephemeral_5m_input_tokens"),)) + long
    return CanonicalUsage(
        input_tokens=newest((("input_tokens",),)),
        output_tokens=output,
        cache_read_tokens=newest(_READ_NAMES),
        cache_write_tokens=written,
        reasoning_tokens=min(output, newest(_REASONING_NAMES)),
        cache_write_long_tokens=min(long, written),
    )


def _split_inclusive(
    counts: Mapping[str, Any] | None, least_prompt: int = 0, *, reasoning_beside: bool = False
) -> CanonicalUsage | None:
    """The buckets of a format that counts cached tokens inside the prompt; None: it told no count."""
    if not isinstance(counts, Mapping):
        return None
    told_prompt, told_output = _find(counts, _PROMPT_NAMES), _find(counts, _OUTPUT_NAMES)
    if not least_prompt and told_prompt is None and told_output is None:
        return None
    prompt, output = max(told_prompt or 0, least_prompt), told_output or 0
    reasoning = _find(counts, _REASONING_NAMES) or 0
    total = _find(counts, (("total_tokens",),))
    # What a total holds beside prompt and completion was thought and is billed as output (xAI, Gemini).
    beside = max(0, total - prompt - output) if total else reasoning if reasoning_beside else 0
    read = min(_find(counts, _READ_NAMES) or 0, prompt)
    written = min(_find(counts, _WRITE_NAMES) or 0, prompt - read)
    cost = _amount(counts.get("cost"))  # what the answer says it cost (OpenRouter)
    if cost is not None and counts.get("is_byok") is True:  # with the owner's own key the maker's bill comes on top
        details = counts.get("cost_details")
        cost += _amount(details.get("upstream_inference_cost") if isinstance(details, Mapping) else None) or 0.0
    return CanonicalUsage(
        input_tokens=prompt - read - written,
        output_tokens=output + beside,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=min(max(reasoning, beside), output + beside),
        cache_write_long_tokens=min(_find(counts, _LONG_WRITE_NAMES) or 0, written),
        cost=cost,
    )


def _find(counts: Any, names: Names) -> int | None:
    """The first count above zero that stands under one of the names; 0: only zeros do; None: no count does."""
    told = None
    for path in names:
        value = counts
        try:
            for name in path:
                value = value[name]
        except (LookupError, TypeError):
            continue
        amount = _amount(value)
        if amount:
            return int(amount)
        told = told if amount is None else 0
    return told


def _amount(value: Any) -> float | None:
    """A number that can be an amount; nonsense is None."""
    if type(value) not in (int, float):  # a bool is no amount
        return None
    amount: float = value
    return amount if 0 <= amount <= _MOST else None


# --- a cold cache

COLD_TURNS = 5
WARM_RATE = 0.5
#: Shorter prompts are not cached; the smallest prompt that most providers take.
CACHE_MINIMUM = 1024
#: Nobody promises to keep a prefix for longer than this.
CACHE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class TurnUse:
    """What one turn of a conversation used, as far as it says something about the cache."""

    model: str
    usage: CanonicalUsage
    calls: int = 1
    broke: bool = False  # the prefix broke in this turn, for a named reason
    pause: float = 0.0  # seconds since the turn before it
    provider: str = ""


def hit_rate(usage: CanonicalUsage) -> float:
    """The share of the prompt that was read from the cache."""
    prompt = usage.prompt_tokens
    return usage.cache_read_tokens / prompt if prompt else 0.0


class CacheWatch:
    """Counts the turns of a conversation that should have hit the cache and did so for less than half of their prompt.
    A turn that could not hit is left out; another model starts anew."""

    def __init__(self) -> None:
        self._model = ""
        self._cold = 0
        self._warned = False

    def note(self, turn: TurnUse) -> bool:
        """Whether this turn is the one to warn at: once, when it makes it five in a row (A10)."""
        if self._model != turn.model:
            self._model, self._cold = turn.model, 0
        elif (
            not turn.broke
            and turn.pause <= CACHE_SECONDS
            and turn.usage.prompt_tokens > CACHE_MINIMUM * max(1, turn.calls)
        ):
            if turn.usage.cache_read_tokens >= WARM_RATE * turn.usage.prompt_tokens:
                self._cold = 0
            elif has_cache(turn.provider, turn.model):
                self._cold += 1
        if self._warned or self._cold < COLD_TURNS:
            return False
        self._warned = True
        return True
