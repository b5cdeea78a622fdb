"""Reads the words of a shell command: quotes, escapes, expansions, braces; refuses whatever it is not sure about."""

import itertools
import re
from collections.abc import Callable

from hermes_base.text.harmless import is_hidden
from tools.policy.words import UNKNOWN, ParseBudget, Unparsable, Word

#: Marks for unquoted braces and commas until they are expanded; such characters cannot be in a command.
OPEN, COMMA, CLOSE = "\x01", "\x02", "\x03"
BRACE_MARKS = {"{": OPEN, ",": COMMA, "}": CLOSE}
BRACE_GROUP = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
MOST_BRACED = 64
WORD_ENDS = frozenset(" \t\n;&|<>()")
PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
#: `${name}`, `${#name}`, `${name:-plain}` and the trimming forms; others can assign, run or look up indirectly.
BRACED_PARAMETER = re.compile(r"\{#?([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?])((:?[-+]|##?|%%?)[A-Za-z0-9_./* -]*)?\}")
#: Numbers only: a variable in arithmetic is evaluated again and can hold code.
ARITHMETIC = re.compile(r"\(\(([0-9 +\-*/%<>]*)\)\)")
ANSI_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
LONGEST, DEEPEST = 20_000, 24


def check_characters(source: str) -> None:
    """Refuse what a person who approves would not see as it is."""
    if len(source) > LONGEST:
        raise Unparsable(f"it is longer than {LONGEST} characters")
    if source.isascii() and source.replace("\n", "").replace("\t", "").isprintable():
        return
    hidden = next(filter(is_hidden, source), "")
    if hidden:
        raise Unparsable(f"it holds the hidden character U+{ord(hidden):04X}")


class WordPiece:
    """Collects one word while it is read."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.names: list[str] = []
        self.bare = 0
        self.quoted = self.globbed = self.started = False

    def add_bare(self, char: str) -> None:
        self.started = True
        self.globbed |= char in "*?["
        self.text.append(BRACE_MARKS.get(char, char))
        self.bare += not self.quoted

    def add_quoted(self, text: str) -> None:
        self.started = self.quoted = True
        self.text.append(text)

    def add_unknown(self, name: str = "") -> None:
        self.add_quoted(UNKNOWN)
        if name:
            self.names.append(name)

    def finish(self) -> list[Word]:
        """The words it stands for: several when it has braces."""
        texts = expand_braces("".join(self.text))
        globbed = self.globbed and texts not in (["["], ["[["])  # the test commands are no patterns
        return [Word(text, globbed, self.bare, tuple(self.names)) for text in texts]


def expand_braces(text: str) -> list[str]:
    """Every word that a word with marked braces becomes; braces without a comma stay as they are."""
    if OPEN not in text:
        return [restore_marks(text)]
    pieces: list[list[str]] = []
    at = 0
    for group in BRACE_GROUP.finditer(text):
        if ".." in group[1]:
            raise Unparsable("it has a brace sequence")
        inner = group[1].split(COMMA)
        pieces += [[text[at : group.start()]], inner if len(inner) > 1 else ["{" + group[1] + "}"]]
        at = group.end()
    pieces.append([text[at:]])
    if any(OPEN in choice for piece in pieces for choice in piece):
        raise Unparsable("its braces are nested or open")
    words = ["".join(choice) for choice in itertools.islice(itertools.product(*pieces), MOST_BRACED + 1)]
    if len(words) > MOST_BRACED:
        raise Unparsable("its braces make too many words")
    return [restore_marks(word) for word in words]


def restore_marks(text: str) -> str:
    return text.replace(OPEN, "{").replace(COMMA, ",").replace(CLOSE, "}")


class Lexer:
    """A position in the source and the reading of words; the parser on top of it reads commands."""

    def __init__(self, source: str, budget: ParseBudget, depth: int = 0) -> None:
        if depth > DEEPEST:
            raise Unparsable("it is nested too deeply")
        budget.spend(1 + len(source) // 8)
        self.budget = budget
        self.source = source
        self.at = 0
        self.depth = depth

    def peek(self, count: int = 1) -> str:
        return self.source[self.at : self.at + count]

    def skip_blanks(self) -> None:
        while True:
            if self.peek() in (" ", "\t"):
                self.at += 1
            elif self.peek(2) == "\\\n":
                self.at += 2
            elif self.peek() == "#":
                end = self.source.find("\n", self.at)
                self.at = end if end >= 0 else len(self.source)
            else:
                return

    def read_word(self) -> list[Word]:
        """The word at the position; empty when there is none."""
        piece = WordPiece()
        self.budget.spend()
        while (char := self.peek()) and (char not in WORD_ENDS or self.peek(2) in ("<(", ">(")):
            reader = self.READERS.get(char)
            if reader is not None:
                reader(self, piece)
            elif char in "<>":
                if piece.started:
                    raise Unparsable("a process substitution is part of a word")
                self.at += 2
                self.read_substitution()
                piece.add_unknown()
            else:
                piece.add_bare(char)
                self.at += 1
        words = piece.finish() if piece.started else []
        self.budget.spend(len(words))
        return words

    def read_escape(self, piece: WordPiece) -> None:
        escaped = self.peek(2)[1:]
        if not escaped:
            raise Unparsable("it ends in a backslash")
        if escaped != "\n":
            piece.add_quoted(escaped)
        self.at += 2

    def read_single(self, piece: WordPiece) -> None:
        end = self.source.find("'", self.at + 1)
        if end < 0:
            raise Unparsable("a quote is open")
        piece.add_quoted(self.source[self.at + 1 : end])
        self.at = end + 1

    def read_double(self, piece: WordPiece) -> None:
        self.at += 1
        piece.add_quoted("")
        while self.peek() != '"':
            self.read_inside(piece, '"')
        self.at += 1

    def read_inside(self, piece: WordPiece, quote: str) -> None:
        """One step inside double quotes or a here-document."""
        char = self.peek()
        if not char:
            raise Unparsable("a quote is open")
        if char == "\\":
            escaped = self.peek(2)[1:]
            piece.add_quoted("" if escaped == "\n" else escaped if escaped in f"$`\\{quote}" else char + escaped)
            self.at += 2
        elif char == "$":
            self.read_dollar(piece, inside=True)
        elif char == "`":
            self.read_backticks(piece, quote)
        else:
            piece.add_quoted(char)
            self.at += 1

    def read_dollar(self, piece: WordPiece, inside: bool = False) -> None:
        following = self.peek(2)[1:]
        if self.peek(3) == "$((":
            found = ARITHMETIC.match(self.source, self.at + 1)
            if not found:
                raise Unparsable("it has arithmetic that is not understood")
            self.at = found.end()
            piece.add_unknown()
        elif following == "(":
            self.at += 2
            self.read_substitution()
            piece.add_unknown()
        elif following == "{":
            found = BRACED_PARAMETER.match(self.source, self.at + 1)
            if not found:
                raise Unparsable("it has an expansion that is not understood")
            piece.add_unknown(found[1])
            self.at = found.end()
        elif following in ("'", '"') and not inside:
            self.read_ansi(piece)
        elif following in ("[", "\\"):
            raise Unparsable("it has an expansion that is not understood")
        elif name := PARAMETER.match(self.source, self.at + 1):
            piece.add_unknown(name[0])
            self.at = name.end()
        else:
            piece.add_quoted("$")
            self.at += 1

    def read_ansi(self, piece: WordPiece) -> None:
        """`$'...'` with the plain escapes only: the others spell what a person cannot read."""
        if self.peek(2) != "$'":
            raise Unparsable("it has a translated string")
        self.at += 2
        while (char := self.peek()) != "'":
            if not char or (char == "\\" and self.peek(2)[1:] not in ANSI_ESCAPES):
                raise Unparsable("it spells characters as codes")
            piece.add_quoted(ANSI_ESCAPES.get(self.peek(2)[1:], "") if char == "\\" else char)
            self.at += 2 if char == "\\" else 1
        piece.add_quoted("")
        self.at += 1

    def read_backticks(self, piece: WordPiece, quote: str = "") -> None:
        self.at += 1
        inner = []
        while (char := self.peek()) != "`":
            if not char:
                raise Unparsable("a backtick is open")
            escaped = self.peek(2)[1:] if char == "\\" else ""
            strip = bool(escaped) and escaped in f"$`\\{quote}"
            inner.append(escaped if strip else char + escaped)
            self.at += 1 + len(escaped)
        self.at += 1
        self.parse_inner("".join(inner))
        piece.add_unknown()

    def read_substitution(self) -> None:
        """Read commands up to the closing parenthesis."""
        raise NotImplementedError

    def parse_inner(self, source: str) -> None:
        """Read commands of a text of their own."""
        raise NotImplementedError

    READERS: dict[str, Callable[["Lexer", WordPiece], None]] = {
        "\\": read_escape,
        "'": read_single,
        '"': read_double,
        "$": read_dollar,
        "`": read_backticks,
    }
