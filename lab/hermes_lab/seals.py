"""Signatures and sealed texts for reasoning: the server can tell its own from changed ones without remembering them."""

import base64
import binascii
import hashlib

_KEY = b"hermes lab"
_SUM = 32  # bytes


def sign(text: str) -> str:
    """The signature of a reasoning text."""
    return base64.b64encode(hashlib.blake2b(text.encode(), key=_KEY, digest_size=48).digest()).decode()


def is_signed(text: str, signature: str) -> bool:
    """True for the text's own signature; a text that was left out has a sealed one."""
    return signature == sign(text) or (not text and is_sealed(signature))


def seal(text: str) -> str:
    """An opaque text about as long as `text`; equal texts give equal ones."""
    body = hashlib.shake_256(_KEY + text.encode()).digest(max(len(text.encode()), 16))
    return base64.b64encode(body + _digest(body)).decode()


def is_sealed(sealed: str) -> bool:
    try:
        data = base64.b64decode(sealed, validate=True)
    except (binascii.Error, ValueError):
        return False
    return len(data) > _SUM and data[-_SUM:] == _digest(data[:-_SUM])


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, key=_KEY, digest_size=_SUM).digest()
