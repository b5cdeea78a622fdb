"""Counts tokens and adds up what each account was charged.

A token is four bytes, rounded up for each part. The parts of a prompt are its tools and its messages, each as
compact JSON in UTF-8; the parts of an answer are its text, its reasoning, and the name and arguments of each call.
A part's count does not depend on what follows it, so the count of a prefix is the sum over its parts.
"""

import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import astuple, replace
from typing import Protocol

from hermes_lab.values import Answer, Ask, Usage


class PromptCache(Protocol):
    """A prefix cache: which part of a prompt an account has sent before."""

    def look_up(self, account: str, ask: Ask) -> tuple[int, int]:
        """Tokens read from the cache and tokens written to it."""
        ...


class NoCache:
    """A provider without a prompt cache."""

    def look_up(self, account: str, ask: Ask) -> tuple[int, int]:
        return 0, 0


def count_tokens(part: bytes) -> int:
    return -(-len(part) // 4)


def measure_usage(ask: Ask, answer: Answer, cached: int = 0, written: int = 0) -> Usage:
    reasoning = count_tokens(answer.reasoning.encode())
    spoken = count_tokens(answer.text.encode())
    called = sum(count_tokens(f"{call.name}{call.arguments}".encode()) for call in answer.calls)
    return Usage(
        prompt_tokens=sum(map(count_tokens, ask.prompt)),
        cached_tokens=cached,
        cache_write_tokens=written,
        completion_tokens=reasoning + spoken + called,
        reasoning_tokens=reasoning,
    )


class Bill:
    """What each account was charged so far, for answers that began to leave."""

    def __init__(self, cache: PromptCache | None = None) -> None:
        self._cache = cache or NoCache()
        self._lock = threading.Lock()
        self._sums: dict[str, Usage] = defaultdict(Usage)

    def charge(self, account: str, ask: Ask, answer: Answer, override: Mapping[str, int]) -> Usage:
        """The usage of one answer, added to the account; `override` replaces single counts."""
        cached, written = self._cache.look_up(account, ask)
        usage = replace(measure_usage(ask, answer, cached, written), **override)
        with self._lock:
            self._sums[account] = add_usage(self._sums[account], usage)
        return usage

    def list_sums(self) -> dict[str, Usage]:
        with self._lock:
            return dict(self._sums)

    def clear(self) -> None:
        with self._lock:
            self._sums.clear()


def add_usage(one: Usage, other: Usage) -> Usage:
    return Usage(*(left + right for left, right in zip(astuple(one), astuple(other), strict=True)))
