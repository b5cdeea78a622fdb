"""The providers as data: where they are, how their key is called, what they answer with unless told otherwise."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field

import providers
from hermes_base.errors import ConfigProblem
from providers.base import ProviderProfile

CHAT_COMPLETIONS, ANTHROPIC_MESSAGES, CODEX_RESPONSES = "chat_completions", "anthropic_messages", "codex_responses"


@dataclass(frozen=True, slots=True)
class Provider:
    name: str
    label: str
    base_url: str = ""
    key_env: tuple[str, ...] = ()  # looked up in this order; empty: no key is needed
    default_model: str = ""  # empty: ask the server which models it has
    api_mode: str = CHAT_COMPLETIONS
    aggregator: bool = False  # has its own failover behind the address; a lost connection says nothing about a model
    local: bool = False  # a server on this machine: found by asking its port
    first_byte_seconds: float = 60.0
    between_chunks_seconds: float = 60.0
    output_limit_field: str = "max_tokens"
    calls_tools: bool = True
    dialect: str = ""  # a family with fields of its own inside the format
    asks_for_usage: bool = True  # False: refuses the field that asks for token counts, and sends them anyway
    reasoning_field: str = "reasoning_effort"  # how an effort is asked for; "reasoning" is OpenRouter's object
    url_env: tuple[str, ...] = ()  # variables that hold another address for it, in this order
    # What a plugin says of it, and the functions with which it has a say in each request.
    profile: ProviderProfile | None = field(default=None, compare=False)


_REASONING_SECONDS, _LOCAL_SECONDS = 300.0, 600.0

PROVIDERS: dict[str, Provider] = {
    provider.name: provider
    for provider in (
        Provider(
            "openrouter",
            "OpenRouter",
            "https://openrouter.ai/api/v1",
            ("OPENROUTER_API_KEY",),
            "anthropic/claude-sonnet-4.5",
            aggregator=True,
            first_byte_seconds=_REASONING_SECONDS,
            reasoning_field="reasoning",
            dialect="openrouter",
        ),
        Provider(
            "anthropic",
            "Anthropic",
            "https://api.anthropic.com",
            ("ANTHROPIC_API_KEY",),
            "claude-sonnet-4-5",
            ANTHROPIC_MESSAGES,
            first_byte_seconds=_REASONING_SECONDS,
        ),
        Provider(
            "openai",
            "OpenAI",
            "https://api.openai.com/v1",
            ("OPENAI_API_KEY",),
            "gpt-5-mini",
            CODEX_RESPONSES,
            first_byte_seconds=_REASONING_SECONDS,
            output_limit_field="max_completion_tokens",
        ),
        Provider(
            "gemini",
            "Google Gemini",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            "gemini-2.5-flash",
            first_byte_seconds=_REASONING_SECONDS,
            dialect="gemini",
        ),
        Provider(
            "deepseek",
            "DeepSeek",
            "https://api.deepseek.com/v1",
            ("DEEPSEEK_API_KEY",),
            "deepseek-chat",
            dialect="deepseek",
        ),
        Provider("groq", "Groq", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",), "llama-3.3-70b-versatile"),
        Provider(
            "mistral",
            "Mistral",
            "https://api.mistral.ai/v1",
            ("MISTRAL_API_KEY",),
            "mistral-large-latest",
            asks_for_usage=False,
            dialect="mistral",
        ),
        Provider(
            "xai",
            "xAI",
            "https://api.x.ai/v1",
            ("XAI_API_KEY",),
            "grok-4",
            first_byte_seconds=_REASONING_SECONDS,
            dialect="xai",
        ),
        Provider("zai", "Z.ai", "https://api.z.ai/api/paas/v4", ("ZAI_API_KEY", "GLM_API_KEY"), "glm-4.6"),
        Provider(
            "nous",
            "Nous Research",
            "https://inference-api.nousresearch.com/v1",
            ("NOUS_API_KEY",),
            "Hermes-4-405B",
            aggregator=True,
        ),
        Provider("ollama", "Ollama", "http://127.0.0.1:11434/v1", local=True, first_byte_seconds=_LOCAL_SECONDS),
        Provider("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1", local=True, first_byte_seconds=_LOCAL_SECONDS),
        Provider("vllm", "vLLM", "http://127.0.0.1:8000/v1", local=True, first_byte_seconds=_LOCAL_SECONDS),
        Provider("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1", local=True, first_byte_seconds=_LOCAL_SECONDS),
        Provider("custom", "your own address", key_env=("CUSTOM_API_KEY",), first_byte_seconds=_LOCAL_SECONDS),
        Provider(
            "embedded",
            "the built-in model",
            default_model="SmolLM2-135M-Instruct",
            first_byte_seconds=_LOCAL_SECONDS,
            calls_tools=False,
        ),
    )
}

_ALIASES = {
    "claude": "anthropic",
    "google": "gemini",
    "glm": "zai",
    "z.ai": "zai",
    "lm-studio": "lmstudio",
    "llama.cpp": "llamacpp",
    "grok": "xai",
    "x.ai": "xai",
}


def find_provider(name: str, *, kept: str = "") -> Provider:
    """The provider of that name; an unknown one gets a sentence that lists what there is."""
    found = lookup_provider(name)
    if found is None:
        key, known = name.strip().lower(), list_known()
        near = difflib.get_close_matches(key, [*known, *_ALIASES], 1)
        raise ConfigProblem(
            f"There is no provider called '{name}'.",
            kept=kept,
            fix=(f"Did you mean '{near[0]}'? " if near else "")
            + f"There are: {', '.join(known)}. Any other server is 'custom', with model.base_url.",
        )
    return found


def advise_key(provider: Provider) -> str:
    """How its key is set, with the name that it has; empty where none is needed."""
    return f"Set it with: hermes config set {provider.key_env[0]}" if provider.key_env else ""


def provider_or_custom(name: str) -> Provider:
    """The provider's facts; what is not in the table is somebody's own address."""
    return PROVIDERS.get(name) or (lookup_provider(name) if name else None) or PROVIDERS["custom"]


def lookup_provider(name: str) -> Provider | None:
    """The provider of this name or alias: one of ours, else one that a plugin brings."""
    key = name.strip().lower()
    found = PROVIDERS.get(_ALIASES.get(key, key))
    if found is not None:
        return found
    profile = providers.get_provider_profile(key)
    return _of_profile(profile) if profile is not None else None


def list_known() -> Mapping[str, Provider]:
    """All providers that there are now, ours first: a plugin takes none of our names. Loads no plugin."""
    brought = {facts.name: facts for facts in map(_of_profile, providers.list_registered())}
    return {**PROVIDERS, **{name: facts for name, facts in brought.items() if name not in PROVIDERS}}


def is_ours(name: str) -> bool:
    """Whether a name or an alias is taken by the table itself."""
    return (key := name.strip().lower()) in PROVIDERS or key in _ALIASES


_of_plugins: dict[int, Provider] = {}  # by the identity of the profile, which stays while its provider holds it


def _of_profile(profile: ProviderProfile) -> Provider:
    """What a plugin says of its provider, in our words; the same profile is always the same provider."""
    known = _of_plugins.get(id(profile))
    if known is not None:
        return known
    variables = tuple(map(str, profile.env_vars))
    made = _of_plugins[id(profile)] = Provider(
        profile.name.strip().lower(),
        profile.display_name or profile.name,
        profile.base_url,
        tuple(name for name in variables if not name.endswith("_URL")),
        next(iter(profile.fallback_models), ""),
        profile.api_mode,
        first_byte_seconds=_REASONING_SECONDS,
        url_env=tuple(name for name in variables if name.endswith("_URL")),
        profile=profile,
    )
    return made
