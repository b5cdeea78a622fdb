"""A prompt as blocks: what is counted, what a prefix cache compares, and where the client wants it cached.

A token is four bytes, rounded up for each block. A block is a tool, a system text, a message or a part of a message,
as compact JSON in UTF-8. An image counts `IMAGE_TOKENS` in place of its data or its address. A block's count does not
depend on what follows it, so the count of a prefix is the sum over its blocks.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from typing import NamedTuple

IMAGE_TOKENS = 1000
SHORT_LIFE = 300.0  # seconds that a cached prefix lives after its last use
LONG_LIFE = 3600.0


class Block(NamedTuple):
    data: bytes
    tokens: int
    life: float = 0.0  # of the prefix that ends here; 0: the client set no cache mark


@dataclass(frozen=True, slots=True)
class Prompt:
    """Tools and instructions (`head`), then the conversation (`body`)."""

    head: tuple[Block, ...]
    body: tuple[Block, ...]
    tokens: int
    marked: bool = False  # cached only at the client's marks
    settings: bytes = b""  # options that change how the body is read; not counted
    life: float = SHORT_LIFE  # of what is cached without marks


class Trail(NamedTuple):
    """The name and the size of each prefix of a prompt, and of each prefix of its conversation alone."""

    keys: list[bytes]
    totals: list[int]
    body_keys: list[bytes]


def count_tokens(part: bytes) -> int:
    return -(-len(part) // 4)


def make_block(data: bytes, life: float = 0.0, images: Sequence[str] = ()) -> Block:
    """A block; `images` are the data or addresses in it that are counted as images."""
    if not images:
        return Block(data, -(-len(data) // 4), life)
    pictured = sum(len(image.encode()) for image in images)
    return Block(data, -(-max(len(data) - pictured, 0) // 4) + IMAGE_TOKENS * len(images), life)


def sum_tokens(*parts: Iterable[Block]) -> int:
    return sum(block.tokens for part in parts for block in part)


def lay_trail(prompt: Prompt) -> Trail:
    """Hash each block once; equal names mean equal prefixes."""
    head_keys = _chain(prompt.head)
    start = blake2b(b"".join(head_keys[-1:]) + prompt.settings, digest_size=16).digest()
    body_keys = _chain(prompt.body)
    totals = list(accumulate(block.tokens for part in (prompt.head, prompt.body) for block in part))
    return Trail(head_keys + [start + key for key in body_keys], totals, body_keys)


def _chain(blocks: Iterable[Block]) -> list[bytes]:
    keys: list[bytes] = []
    key = b""
    for block in blocks:
        key = blake2b(key + block.data, digest_size=16).digest()
        keys.append(key)
    return keys
