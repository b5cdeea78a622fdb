"""Text as valid Unicode, whole or in pieces: the halves of a character are put together, wherever it was cut."""

import codecs


def clean_text(text: str) -> str:
    """The text with the halves of characters joined; a half without its other one becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def encode_text(text: str) -> bytes:
    """The text as UTF-8, which has no halves of characters."""
    return clean_text(text).encode()


def decode_whole(data: bytes, *, more: bool) -> tuple[str, int]:
    """Bytes of UTF-8 as text, and how many of them it is. With `more` to come, a character that is cut at the end
    waits for the rest of it."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data, final=not more)
    return text, len(data) - len(decoder.getstate()[0])


class PieceCleaner:
    """`clean_text` for a text that comes in pieces: the pieces given back are together what it makes of the whole."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-16-le")("replace")
        self._holds = False  # half a character waits for its other half

    def feed(self, piece: str) -> str:
        """What of the text is sure by now."""
        if not self._holds and piece.isascii():
            return piece
        text = self._decoder.decode(piece.encode("utf-16-le", "surrogatepass"))
        self._holds = bool(self._decoder.getstate()[0])
        return text

    def finish(self) -> str:
        """The rest, when nothing more comes."""
        self._holds = False
        return self._decoder.decode(b"", final=True)
