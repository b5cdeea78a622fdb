"""The built-in context engine: keeps the head and the tail of a conversation and puts a summary in place of the middle.

A summary that fails drops nothing. It is marked as history, stands before the newest user message, and tool calls
stay with their results.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent.auxiliary_client import call_llm, extract_content_or_reasoning
from agent.context_engine import ContextEngine
from agent.model_metadata import MINIMUM_CONTEXT_LENGTH, estimate_messages_tokens_rough, get_model_context_length
from hermes_base.errors import HermesError
from hermes_base.text.wrappers import ASK_AGAIN, OUT_OF_STEPS
from hermes_base.turn.journal import text_of

log = logging.getLogger(__name__)

SUMMARY_MARK = "[Summary of the earlier conversation. It is history, not an instruction; the newest message governs.]"
_SHORT_WINDOW, _SHORT_WINDOW_SHARE = 512_000, 0.75
_NEARLY_FULL = 0.85
_KEPT_USER_MESSAGES = 3
_SUMMARY_SHARE_OF_WINDOW = 0.05
_RENDERED_MESSAGE_CHARS, _LEAST_RENDERED = 3000, 120
_CHARS_A_TOKEN = 3
_LEAST_REQUEST = 4000
_SHORT_RESULT = 300
_SHORTENED = "\n[… shortened to save room; the whole is kept: {where} …]"

_INSTRUCTIONS = """Summarise the conversation below for someone who has to go on with it without having read it.
Keep: what the person asked for and why, decisions and their reasons, names, paths, numbers and commands exactly,
what was done with its result, what failed, what is still open. Leave out greetings and repeated output.
Write plain prose and short lists. Do not address anyone and do not answer questions in it."""

Summarise = Callable[[str, int], str]
NOTES = frozenset({ASK_AGAIN, OUT_OF_STEPS})


class ContextCompressor(ContextEngine):
    """Compacts when the prompt passes a share of the window."""

    _last_compress_aborted = False
    _last_summary_error: str | None = None
    _session: str = "the earlier session"

    def __init__(
        self,
        model: str,
        threshold_percent: float = 0.50,
        protect_first_n: int = 3,
        protect_last_n: int = 20,
        summary_target_ratio: float = 0.20,
        quiet_mode: bool = False,
        summary_model_override: str | None = None,
        base_url: str = "",
        api_key: str = "",
        config_context_length: int | None = None,
        provider: str = "",
        api_mode: str = "",
        abort_on_summary_failure: bool = False,
        max_tokens: int | None = None,
        summarise: Summarise | None = None,
    ) -> None:
        self.threshold_percent = threshold_percent
        self.protect_first_n = protect_first_n
        self.protect_last_n = protect_last_n
        self.summary_target_ratio = summary_target_ratio
        self.quiet_mode = quiet_mode
        self.summary_model_override = summary_model_override
        self.abort_on_summary_failure = abort_on_summary_failure
        self.summarise = summarise
        self.last_real_prompt_tokens = 0
        window = get_model_context_length(model, base_url, api_key, config_context_length, provider)
        self.update_model(model, window, base_url, api_key, provider, api_mode, max_tokens)

    @property
    def name(self) -> str:
        return "compressor"

    def update_model(
        self,
        model: str,
        context_length: int,
        base_url: str = "",
        api_key: str = "",
        provider: str = "",
        api_mode: str = "",
        max_tokens: int | None = None,
        **facts: Any,
    ) -> None:
        del facts
        self.model, self.base_url, self.api_key = model, base_url, api_key
        self.provider, self.api_mode, self.max_tokens = provider, api_mode, max_tokens
        self.context_length = context_length
        self.threshold_tokens = threshold_of(context_length, self.threshold_percent, max_tokens)
        self.tail_token_budget = int(self.threshold_tokens * self.summary_target_ratio)

    def update_from_response(self, usage: dict[str, Any]) -> None:
        if not usage:
            return
        self.last_prompt_tokens = int(usage.get("prompt_tokens", 0))
        self.last_completion_tokens = int(usage.get("completion_tokens", 0))
        self.last_total_tokens = int(usage.get("total_tokens", 0))
        self.last_real_prompt_tokens = self.last_prompt_tokens

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return tokens >= self.threshold_tokens > 0

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:
        del kwargs
        self._session = session_id

    def has_content_to_compress(self, messages: list[dict[str, Any]]) -> bool:
        return bool(self._replaceable(messages)[1])

    def compress(
        self,
        messages: list[dict[str, Any]],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
        memory_context: str = "",
    ) -> list[dict[str, Any]]:
        """Head, summary, tail. Without a middle, or when the summary fails, old tool results are shortened instead;
        what was said stays, and the originals stay in the store (E1, E3)."""
        del current_tokens, force
        self._last_compress_aborted, self._last_summary_error = False, None
        start, replaced, kept, end = self._replaceable(messages)
        if not replaced:
            return shorten_results(messages, end, self._session)
        room = max(_LEAST_REQUEST, (self.context_length - self._summary_tokens()) * _CHARS_A_TOKEN)
        try:
            request = summary_request(replaced, focus_topic, memory_context, room)
            summary = (self.summarise or self._ask_model)(request, self._summary_tokens())
            if not summary.strip():
                raise HermesError("The model wrote an empty summary.")
        except HermesError as problem:
            log.info("the summary failed, nothing was dropped: %s", problem)
            self._last_summary_error = str(problem)
            return shorten_results(messages, end, self._session)
        self.compression_count += 1
        note = {"role": "user", "content": f"{SUMMARY_MARK}\n\n{summary.strip()}"}
        return [*messages[:start], note, *kept, *messages[end:]]

    def _replaceable(
        self, messages: list[dict[str, Any]]
    ) -> tuple[int, list[dict[str, Any]], list[dict[str, Any]], int]:
        """Where the middle starts, what of it a summary may replace, the user messages in it that stay, its end."""
        start, end = middle_of(messages, self.protect_first_n, self.protect_last_n, self.tail_token_budget)
        users = [place for place, message in enumerate(messages) if is_request(message)]
        stay = set(users[-_KEPT_USER_MESSAGES:])
        summaries = [place for place, message in enumerate(messages) if is_summary(message)]
        # A summary never stands behind the newest request, and takes an earlier one in.
        start = min([start, *stay, *summaries])
        replaced = [messages[place] for place in range(start, end) if place not in stay]
        kept = [messages[place] for place in range(start, end) if place in stay]
        return start, replaced if len(replaced) > 1 else [], kept, end

    def _ask_model(self, request: str, max_tokens: int) -> str:
        """The summary where no agent lends its model: one that a plugin made for itself."""
        said = [{"role": "user", "content": request}]
        try:
            answer = call_llm("compression", messages=said, max_tokens=max_tokens, model=self.summary_model_override)
        except RuntimeError as problem:
            raise HermesError(str(problem)) from problem
        return extract_content_or_reasoning(answer)

    def _summary_tokens(self) -> int:
        return max(256, int(self.context_length * _SUMMARY_SHARE_OF_WINDOW))


def threshold_of(window: int, share: float, max_tokens: int | None) -> int:
    """The prompt size at which compaction starts."""
    room = max(1, window - (max_tokens or 0))
    if window < MINIMUM_CONTEXT_LENGTH:
        return int(room * _SHORT_WINDOW_SHARE)
    if window < _SHORT_WINDOW:
        share = max(share, _SHORT_WINDOW_SHARE)
    threshold = max(int(room * share), MINIMUM_CONTEXT_LENGTH)
    return threshold if threshold < window else int(window * _NEARLY_FULL)


def middle_of(messages: Sequence[Mapping[str, Any]], first: int, last: int, tail_tokens: int) -> tuple[int, int]:
    """What lies between head and tail, cut so that no call is parted from its results."""
    start = min(first, len(messages))
    while start < len(messages) and messages[start].get("role") == "tool":
        start += 1
    end = _tail_start(messages, max(1, last), tail_tokens)
    while start < end < len(messages) and messages[end].get("role") == "tool":
        end -= 1
    return start, max(start, end)


def _tail_start(messages: Sequence[Mapping[str, Any]], last: int, tail_tokens: int) -> int:
    """The tail is the last messages by count, or fewer where they fill their share of the window."""
    start, tokens = len(messages), 0
    while start > 0 and len(messages) - start < last:
        tokens += estimate_messages_tokens_rough([messages[start - 1]])
        if tokens > tail_tokens and start < len(messages):
            break
        start -= 1
    return start


def is_summary(message: Mapping[str, Any]) -> bool:
    return text_of(message).startswith(SUMMARY_MARK)


def is_request(message: Mapping[str, Any]) -> bool:
    """Whether a person said it: a summary and a word of the rules stand in the user's place too."""
    return message.get("role") == "user" and not is_summary(message) and text_of(message) not in NOTES


def shorten_results(messages: list[dict[str, Any]], end: int, where: str) -> list[dict[str, Any]]:
    """Tool results before `end` cut to their beginning, with a word on where they are whole; the same list when there
    is none to cut."""
    told = _SHORTENED.format(where=where)
    changed = list(messages)
    for place, message in enumerate(messages[:end]):
        content = message.get("content")
        if message.get("role") == "tool" and isinstance(content, str) and len(content) > 2 * _SHORT_RESULT:
            changed[place] = {**message, "content": content[:_SHORT_RESULT] + told}
    return changed if changed != messages else messages


def summary_request(messages: Sequence[Mapping[str, Any]], focus: str | None, memory: str, room: int) -> str:
    """What the summary model reads, at most `room` characters: long messages are cut harder where there are many."""
    parts = [_INSTRUCTIONS]
    if focus:
        parts.append(f"Pay most attention to: {focus}")
    if memory:
        parts.append(f"What is remembered about the person:\n{memory}")
    each = max(_LEAST_RENDERED, min(_RENDERED_MESSAGE_CHARS, (room - sum(map(len, parts))) // max(1, len(messages))))
    parts.append("\n\n".join(_render(message, each) for message in messages))
    return "\n\n".join(parts)


def _render(message: Mapping[str, Any], limit: int) -> str:
    text = text_of(message)
    calls = ", ".join(f"{c['function']['name']}({c['function']['arguments']})" for c in message.get("tool_calls") or ())
    body = "\n".join(part for part in (text, f"calls: {calls}" if calls else "") if part)
    if len(body) > limit:
        body = f"{body[: limit // 2]}\n[…]\n{body[-limit // 2 :]}"
    return f"{message.get('role')}: {body}"
