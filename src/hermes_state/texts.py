"""How text becomes words, for the search index, and how a found place is shown.

A word is a run of letters and digits, compared without case and accents. Scripts written without spaces are taken
letter by letter, and what the user typed without a space has to occur without one. What was typed may be the beginning
of a word, and in a title any part of one: people search while they type.
"""

import re
import unicodedata
from collections.abc import Callable

from hermes_base.text.whole_text import clean_text

EXCERPT = 160
PREVIEW = 80
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_LETTER = re.compile(f"[{_UNSPACED}]")
_WORD = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}](?:[^\\W_{_UNSPACED}]|[\u0300-\u036f])*")


def clean(text: str) -> str:
    """The text as valid Unicode without NUL: split pairs are joined, lone surrogates become U+FFFD."""
    if text.isascii() and "\0" not in text:  # as nearly all are that a turn stores
        return text
    return clean_text(text).replace("\0", "\ufffd")


def shorten(text: str) -> str:
    """The text on one line, cut to a preview."""
    line = " ".join(clean(text).split())
    return line if len(line) <= PREVIEW else line[: PREVIEW - 1] + "…"


def space_letters(text: str) -> str:
    """The text with spaces around the letters of scripts that have none, so that each is a word to the index."""
    return text if text.isascii() else _LETTER.sub(r" \g<0> ", text)


def split_words(text: str) -> list[str]:
    """The folded words of a text, in order."""
    # The unspaced ranges hold marks too, which the index does not take as words.
    return [_fold(word) for word in _WORD.findall(text) if word[0].isalnum()]


def split_query(words: str) -> list[list[str]]:
    """What has to occur: one run of words for each piece the user typed; signs that are no words are left out."""
    runs = (split_words(piece) for piece in clean(words).split())
    return [run for run in runs if run]


def match_title(runs: list[list[str]], title: str) -> bool:
    """Whether every run occurs in a title, also in the middle of its words."""
    line = " ".join(split_words(title))
    return all(" ".join(run) in line for run in runs)


def match_text(runs: list[list[str]], text: str) -> bool:
    """Whether every run occurs in a text, as the index finds it."""
    line = f" {' '.join(split_words(text))} "
    return all(f" {' '.join(run)}{'' if may_go_on(run) else ' '}" in line for run in runs)


def may_go_on(run: list[str]) -> bool:
    """One letter alone is a word: as a beginning it would mean half of all there is."""
    return len(run) > 1 or len(run[-1]) > 1


def cut_excerpt(runs: list[list[str]], text: str) -> str:
    """One line around the first found word, with the found words between « and »."""
    whole = {word for run in runs for word in run}
    begun = tuple(run[-1] for run in runs if may_go_on(run))
    return _cut_around(lambda word: word in whole or word.startswith(begun), text)


def mark_title(runs: list[list[str]], title: str) -> str:
    """A title with the words that hold what was looked for between « and »."""
    parts = [word for run in runs for word in run]
    return _cut_around(lambda word: any(part in word for part in parts), title)


def _cut_around(is_found: Callable[[str], bool], text: str) -> str:
    text = clean(text)
    found: list[tuple[int, int]] = []
    for match in _WORD.finditer(text):
        if is_found(_fold(match.group())):
            left, right = match.span()
            if found and found[-1][1] == left:  # letters of an unspaced script that stand together are one find
                left = found.pop()[0]
            found.append((left, right))
    start = max(0, found[0][0] - EXCERPT // 3) if found else 0
    end = min(len(text), start + EXCERPT)
    pieces, last = ["…" if start else ""], start
    for left, right in found:
        if right > end:
            break
        pieces += [text[last:left], "«", text[left:right], "»"]
        last = right
    pieces += [text[last:end], "…" if end < len(text) else ""]
    return " ".join("".join(pieces).split())


def _fold(word: str) -> str:
    if word.isascii():
        return word.lower()
    bare: list[str] = []
    for part in unicodedata.normalize("NFD", word.lower().replace("ς", "σ")):
        if not (unicodedata.combining(part) and bare and bare[-1].isascii()):  # elsewhere a mark makes another letter
            bare.append(part)
    return unicodedata.normalize("NFC", "".join(bare))
