"""Stretches of a text between two marks. A pattern would look for the end again from each beginning: a text of
beginnings alone, which anybody can send, would take the square of its length. Pure."""


def drop_between(text: str, begin: str, end: str, *, blanks: bool = False) -> str:
    """The text without what stands from a beginning to the next end, and with `blanks` without those behind it; a
    beginning without an end stays."""
    kept, at = [], 0
    while (start := text.find(begin, at)) >= 0 and (stop := text.find(end, start + len(begin))) >= 0:
        kept.append(text[at:start])
        at = stop + len(end)
        while blanks and text[at : at + 1].isspace():
            at += 1
    return "".join([*kept, text[at:]])
