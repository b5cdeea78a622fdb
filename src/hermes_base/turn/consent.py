"""The answers to an approval as one table: what they are called, how people say them, and which of them are kept.

An answer is the id of a choice; a refusal may carry a word to the model (`deny: use the test database`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

APPROVE, DENY, CONVERSATION, ALWAYS = "approve", "deny", "conversation", "always"
LONGEST_WORD = 2_000  # characters of what goes to the model with a refusal


@dataclass(frozen=True, slots=True)
class ConsentChoice:
    id: str  # what is stored and sent; it never changes
    label: str  # on a button
    words: frozenset[str]  # what people type
    keeps: bool = False  # a rule is made of it


#: In the order in which they are offered, so that a number means the same whether the last two are there or not.
TABLE: Mapping[str, ConsentChoice] = MappingProxyType(
    {
        choice.id: choice
        for choice in (
            ConsentChoice(
                APPROVE,
                "Yes, once",
                frozenset({"y", "yes", "ok", "okay", "once", "yes once", "allow", "approve", "approved", "accept"}),
            ),
            ConsentChoice(
                DENY,
                "No",
                frozenset({"n", "no", "deny", "denied", "refuse", "reject", "decline", "cancel", "abort"}),
            ),
            ConsentChoice(
                CONVERSATION,
                "Yes, in this conversation",
                frozenset(
                    {"conversation", "for this conversation", "in this conversation", "yes for this conversation"}
                ),
                keeps=True,
            ),
            ConsentChoice(ALWAYS, "Always", frozenset({"always", "yes always"}), keeps=True),
        )
    }
)
ONCE = (APPROVE, DENY)  # what is always offered
KEPT = tuple(choice.id for choice in TABLE.values() if choice.keeps)
WITH_A_WORD = "no: WORDS tells the model why"
NAME_LENGTH = 4  # of a question, as people type it
_TYPED_WORDS: Mapping[str, str] = MappingProxyType({APPROVE: "yes", DENY: "no"})
_REFUSAL = re.compile(
    rf"({'|'.join(sorted(TABLE[DENY].words))})(?:\s*[:,;.–—]\s*|\s+-\s+)(\S.*)", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Deed:
    """What a kept approval is about. It holds for a deed of which all but `shown` and `task` is the same."""

    kind: str  # command, change, read
    folder: str  # where it is done, without links
    backend: str  # of commands: what walls there are
    level: str  # and how far it reaches
    words: str  # the deed itself, in the one form that it has however it was written
    shown: str  # as people read it in a list
    task: str = ""  # the conversation's name that a compaction does not change: where "in this conversation" holds


def is_consent(kind: str, choices: Sequence[str]) -> bool:
    """Whether a question of this kind is answered by this table; what a model asks is not, whatever its choices are."""
    return kind != "clarification" and set(ONCE) <= set(choices) <= TABLE.keys()


def label_choices(kind: str, choices: Sequence[str]) -> tuple[str, ...]:
    """What stands on the buttons; choices that somebody made up are their own labels."""
    return tuple(TABLE[choice].label for choice in choices) if is_consent(kind, choices) else tuple(choices)


def describe_ways(kind: str, choices: Sequence[str]) -> str:
    """How a person answers by typing."""
    if not is_consent(kind, choices):
        return f"Answer with one of: {', '.join(choices)}"
    typed = ", ".join(_TYPED_WORDS.get(choice, choice) for choice in choices)
    return f"Answer with one of: {typed} ({WITH_A_WORD})"


def name_briefly(question: str) -> str:
    """What people call a question of this id when they say which one they answer."""
    return question[:NAME_LENGTH].upper()


def describe_named(question: str, kind: str, choices: Sequence[str]) -> str:
    """How a person answers a question by typing where a word alone is not enough."""
    words = choices[: len(ONCE)] if is_consent(kind, choices) else choices
    return " or ".join(f"`{_TYPED_WORDS.get(choice, choice)} {name_briefly(question)}`" for choice in words)


def cut_name(question: str, text: str) -> tuple[str, str] | None:
    """What stands before and after the name of a question in a text, without the signs around it; None: it is not
    there."""
    found = re.search(rf"(?<!\w)#?{re.escape(name_briefly(question))}(?!\w)", text, re.IGNORECASE)
    return (text[: found.start()].strip(), text[found.end() :].strip(" \t\n:,;.–—-")) if found else None


def read_consent(choices: Sequence[str], text: str) -> str:
    """The answer that a text gives, by id, label, number or word; empty: none. What it gives back it reads again as the
    same."""
    said = _normalise(text)
    named = {name: choice for choice in choices for name in (choice, _normalise(TABLE[choice].label))}
    numbered = {str(number): choice for number, choice in enumerate(choices, 1)}
    worded = {word: choice for choice in choices for word in TABLE[choice].words}
    chosen = named.get(said) or numbered.get(said) or worded.get(said)
    if chosen:
        return chosen
    refusal = _REFUSAL.fullmatch(text.strip())
    return f"{DENY}: {refusal[2].strip()[:LONGEST_WORD].strip()}" if refusal else ""


def split_answer(answer: str) -> tuple[str, str]:
    """The choice of an answer, and the word to the model that goes with it."""
    choice, _, word = answer.partition(":")
    return (choice, word.strip()) if choice == DENY else (answer, "")


def is_kept(kind: str, choices: Sequence[str], answer: str) -> bool:
    """Whether a rule is made of this answer to such a question."""
    return answer in KEPT and is_consent(kind, choices)


def find_language(text: str) -> str:
    """What the code of an approval is, for whoever draws it: a diff or a command."""
    return "diff" if re.search(r"^@@ ", text, re.MULTILINE) else "sh"


def _normalise(text: str) -> str:
    return re.sub(r"[\s,]+", " ", text.strip().rstrip(".!")).strip().casefold()
