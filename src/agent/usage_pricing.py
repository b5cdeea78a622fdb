"""Token counts of a model call in disjoint buckets, whatever names a provider gives them, and when they look wrong."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.providers.prices import CanonicalUsage as CanonicalUsage
from agent.providers.prices import apply_price, find_price, saved_by_cache
from hermes_base.journal import UsageRow

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
    has_cache: bool = True  # `agent.providers.prices.has_cache` of provider and model


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
            turn.has_cache
            and not turn.broke
            and turn.pause <= CACHE_SECONDS
            and turn.usage.prompt_tokens > CACHE_MINIMUM * max(1, turn.calls)
        ):
            self._cold = self._cold + 1 if hit_rate(turn.usage) < WARM_RATE else 0
        if self._warned or self._cold < COLD_TURNS:
            return False
        self._warned = True
        return True
