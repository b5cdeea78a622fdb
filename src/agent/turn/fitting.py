"""Text that is too long for the window: its beginning and its end are sent, with a word on where the whole is."""

LEAST_KEPT = 400


def fit_text(text: str, limit: int, where: str) -> str:
    """The text, or two thirds of the room for its beginning and a third for its end; the same input, the same cut."""
    if len(text) <= limit and len(text.encode("utf-8", "replace")) <= limit:
        return text
    room = _characters_in(text, limit)
    head, tail = room * 2 // 3, room // 3
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[… {left_out:,} characters are left out here; the whole is kept: {where} …]\n{text[-tail:]}"


def _characters_in(text: str, limit: int) -> int:
    """How many characters of this text fit into so many bytes, roughly: scripts differ by a factor of four."""
    share = len(text) / len(text.encode("utf-8", "replace"))
    return max(LEAST_KEPT, int(limit * share))
