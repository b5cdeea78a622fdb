"""Names a conversation: the prompt of one short call, what becomes of its answer, and the first words where no call is
made. The call sees the first question and its answer, shortened, and nothing else of the transcript (A13)."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace

from agent.auxiliary_client import INLINE_THINKING, AuxiliaryCall, complete_once, connect_runtime, environment
from agent.model_metadata import get_model_context_length
from agent.providers.runtime import Runtime, runtime_of_entry
from hermes_base.errors import HermesError, Interrupted
from hermes_base.settings import Settings
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.journal import UsageRow
from hermes_cli import config as cli_config

KIND = "title"  # in the ledger, and the name of the section of `auxiliary`
LONGEST = 60
SECONDS = 30.0
MOST_TOKENS = 512  # a title takes a dozen; the rest is for models that think first
_QUESTION_CHARS, _ANSWER_CHARS = 1_000, 500
_SYSTEM = (
    "You name conversations. Answer with the name alone: three to six words in the language of the question, "
    "one line, without quotes and without a full stop."
)
_LABEL = re.compile(r"^(title|name|titel)\s*:\s*", re.IGNORECASE)
_AROUND = " \t*_`#\"'“”„‘’«»‹›"


@dataclass(frozen=True, slots=True)
class Named:
    """What a call came to; an empty title: nothing that could be used."""

    title: str
    usage: tuple[UsageRow, ...] = ()


# --- pure


def first_words(text: str) -> str:
    """The beginning of a text as a title, cut at a word."""
    return _cut(_one_line(text))


def clean_title(answer: str) -> str:
    """The title in a model's answer: one line, no quotes, no marks, at most 60 characters."""
    lines = (_one_line(line).strip(_AROUND) for line in INLINE_THINKING.sub("", answer).splitlines())
    line = next((line for line in lines if line), "")
    bare = _LABEL.sub("", line).strip(_AROUND)
    return _cut((bare[:-1] if bare.endswith(".") and not bare.endswith("..") else bare).rstrip())


def choose_runtime(settings: Settings, own: Runtime, env: Mapping[str, str]) -> Runtime:
    """The model that `auxiliary.title` names; a model alone is one of the conversation's own provider."""
    section = settings.auxiliary.get(KIND)
    given = section if isinstance(section, Mapping) else {}
    named = {str(name): value for name, value in given.items() if value and value != "auto"}
    if "provider" in named or "base_url" in named:
        return runtime_of_entry(named, env)
    if "model" in named:
        model = str(named["model"])
        return replace(own, model=model, context_length=get_model_context_length(model), max_tokens=None)
    return own


def _one_line(text: str) -> str:
    """Without line breaks, control characters and marks that turn the direction of writing."""
    return " ".join("".join(" " if unicodedata.category(sign)[0] == "C" else sign for sign in text).split())


def _cut(line: str) -> str:
    if len(line) <= LONGEST:
        return line
    head = line[: LONGEST - 1]
    if not line[LONGEST - 1].isspace():
        head = head.rpartition(" ")[0] or head
    return head.rstrip(" ,;:-–") + "…"


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "…"


# --- the call


def ask_title(
    settings: Settings,
    own: Runtime,
    question: str,
    answer: str,
    cancel: CancelToken | None = None,
    seconds: float = SECONDS,
) -> Named:
    """One short call; a failure is told by an empty title. The built-in model is not asked."""
    runtime = choose_runtime(settings, own, environment())
    if runtime.provider == "embedded":
        return Named("")
    spent: list[UsageRow] = []
    try:
        runtime = connect_runtime(runtime, cancel)
        said = f"Question:\n{_shorten(question, _QUESTION_CHARS)}\n\nAnswer:\n{_shorten(answer, _ANSWER_CHARS)}"
        messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": said}]
        call = AuxiliaryCall(messages, KIND, MOST_TOKENS, timeout=seconds)
        reply = complete_once(runtime, call, spent.append, cancel)
    except (Interrupted, HermesError):  # stopped, no answer, no SDK, no key
        return Named("", tuple(spent))
    return Named(clean_title(cli_config.redactor()(reply.text)), tuple(spent))
