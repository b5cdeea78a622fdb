"""Files on their way from a homeserver to the disk, piece by piece: what a sender says of a file's size need not be
true, and whoever fetches it watches how much of it is there."""

import asyncio
import base64
import binascii
import hashlib
import hmac
from collections.abc import AsyncIterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from Crypto.Cipher import AES
from Crypto.Util import Counter

from gateway.platforms.matrix.refusals import MatrixKind, MatrixTrouble

NOT_DECRYPTED = "the file cannot be decrypted"


class FileSeal:
    """What an event says of an encrypted file: how it is opened, and how one knows that it is the one."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        try:
            key, start = _decode(described["key"]["k"]), _decode(described["iv"])
            self._expected = _decode(described["hashes"]["sha256"])
            counter = Counter.new(64, prefix=start[:8], initial_value=int.from_bytes(start[8:], "big"))
            self._cipher = AES.new(key, AES.MODE_CTR, counter=counter)
        except (KeyError, TypeError, ValueError, OverflowError, binascii.Error):
            raise MatrixTrouble(MatrixKind.REFUSED, NOT_DECRYPTED) from None
        self._seen = hashlib.sha256()

    def open(self, piece: bytes) -> bytes:
        self._seen.update(piece)
        return bytes(self._cipher.decrypt(piece))

    def check(self) -> None:
        """All of it was opened: was it what the event speaks of?"""
        if not hmac.compare_digest(self._seen.digest(), self._expected):
            raise MatrixTrouble(MatrixKind.REFUSED, NOT_DECRYPTED)


async def write_pieces(pieces: AsyncIterable[bytes], path: Path, seal: FileSeal | None) -> None:
    """Write what comes to a path, opened where it is sealed."""
    file = await asyncio.to_thread(path.open, "wb")
    try:
        async for piece in pieces:
            await asyncio.to_thread(_write, file, piece, seal)
    finally:
        await asyncio.to_thread(file.close)
    if seal is not None:
        seal.check()


def _write(file: BinaryIO, piece: bytes, seal: FileSeal | None) -> None:
    file.write(seal.open(piece) if seal else piece)


def _decode(text: str) -> bytes:
    """Base 64 of either alphabet; Matrix leaves the padding out."""
    plain = text.replace("-", "+").replace("_", "/").rstrip("=")
    return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
