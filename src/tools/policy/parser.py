"""A strict parser for the everyday part of the shell's language: every simple command, wherever it hides.

It refuses (`Unparsable`) what it does not understand instead of guessing, so nothing is overlooked.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from tools.policy.lexer import DEEPEST, Lexer, WordPiece, check_characters
from tools.policy.words import ParseBudget, Redirect, Script, SimpleCommand, Unparsable, Word

ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
REDIRECT = re.compile(r"(?:[0-9]*(?=[<>]))(<<<|<<-|<<|<>|<&|>>|>\||>&|<|>)(?!\()|(&>>|&>)(?!\()")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Words that end a list of commands; met anywhere else at the start of a command they are a mistake.
CLOSERS = frozenset({"then", "elif", "else", "fi", "do", "done", "}", "esac", "in"})
REFUSED_WORDS = frozenset({"case", "select", "function", "coproc"})


def parse(source: str, budget: ParseBudget, depth: int = 0) -> Script:
    """All simple commands in the command line; raises `Unparsable`."""
    check_characters(source)
    parser = Parser(source, Script(), itertools.count(1), budget, depth)
    parser.read_all()
    return parser.script


class Parser(Lexer):
    def __init__(self, source: str, script: Script, chains: Iterator[int], budget: ParseBudget, depth: int = 0) -> None:
        super().__init__(source, budget, depth)
        self.script = script
        self.chains = chains
        self.pending: list[tuple[str, bool, bool]] = []  # here-documents: delimiter, quoted, tabs stripped

    def read_all(self) -> None:
        self.read_list(frozenset())
        if self.peek():
            raise Unparsable(f"{self.peek()!r} is out of place")
        if self.pending:
            raise Unparsable("a here-document has no text")

    # Lists and pipelines

    def read_list(self, stops: frozenset[str]) -> None:
        """Commands up to a word in `stops`, a closing parenthesis or the end."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unparsable("it is nested too deeply")
        while self.skip_separators() and self.peek() not in ("", ")") and self.peek_reserved() not in stops:
            self.read_chain()
            self.skip_blanks()
            if self.peek(2) == ";;" or self.peek() not in ("", ";", "&", "\n", ")"):
                raise Unparsable(f"{self.peek()!r} is out of place")
            if self.peek() in (";", "&"):
                self.at += 1
        self.depth -= 1

    def skip_separators(self) -> bool:
        self.skip_blanks()
        while self.peek() == "\n":
            self.at += 1
            self.read_here_documents()
            self.skip_blanks()
        return True

    def read_chain(self) -> None:
        """Pipelines joined by && and ||; numbered as one chain only when all are plain and joined by &&."""
        first = len(self.script.commands)
        single = True
        while True:
            single &= self.read_pipeline() is not None
            self.skip_blanks()
            joiner = self.peek(2)
            if joiner not in ("&&", "||"):
                break
            single &= joiner == "&&"
            self.at += 2
            self.skip_separators()
        number = next(self.chains)
        for command in self.script.commands[first:]:
            # Commands of substitutions have their number already.
            command.chain = command.chain or (number if single else next(self.chains))

    def read_pipeline(self) -> SimpleCommand | None:
        """The only simple command of the pipeline, or None when it is more than that."""
        self.skip_blanks()
        negated = False
        while self.peek_reserved() == "!":
            negated = True
            self.at += 1
            self.skip_blanks()
        command = self.read_command()
        if negated:
            command = None  # what follows && runs when it failed
        self.skip_blanks()
        while self.peek() == "|" and self.peek(2) != "||":
            self.at += 2 if self.peek(2) == "|&" else 1
            self.skip_separators()
            self.read_command()
            command = None
            self.skip_blanks()
        return command

    # Commands

    def peek_reserved(self) -> str:
        """The unquoted word at the position, without moving."""
        end = self.at
        while end < len(self.source) and self.source[end] not in " \t\n;&|<>()":
            end += 1
        return self.source[self.at : end].replace("\\\n", "")

    def read_command(self) -> SimpleCommand | None:
        word = self.peek_reserved()
        if self.peek() == "(":
            if self.peek(2) == "((":
                raise Unparsable("it has arithmetic commands")
            self.at += 1
            self.read_enclosed()
        elif word in COMPOUNDS:
            self.at += len(word)
            if self.source[self.at - len(word) : self.at] != word:
                raise Unparsable("a reserved word is split")
            COMPOUNDS[word](self)
        elif word in REFUSED_WORDS or word in CLOSERS:
            raise Unparsable(f"{word!r} is not understood here")
        else:
            return self.read_simple()
        redirected = SimpleCommand(chain=next(self.chains))
        self.skip_blanks()
        while self.read_redirect(redirected):
            self.skip_blanks()
        if redirected.redirects:
            self.script.commands.append(redirected)
        return None

    def read_enclosed(self) -> None:
        """Commands up to the closing parenthesis, and that."""
        self.read_list(frozenset())
        if self.peek() != ")":
            raise Unparsable("')' is missing")
        self.at += 1

    def expect(self, *words: str) -> str:
        """Read one of the reserved words."""
        self.skip_separators()
        word = self.peek_reserved()
        if word not in words:
            raise Unparsable(f"{words[-1]!r} is missing")
        self.at += len(word)
        return word

    def read_if(self) -> None:
        word = "if"
        while word != "fi":
            if word != "else":
                self.read_list(frozenset({"then"}))
                self.expect("then")
            self.read_list(frozenset({"elif", "else", "fi"}))
            word = self.expect("elif", "else", "fi")

    def read_while(self) -> None:
        self.read_list(frozenset({"do"}))
        self.read_body()

    def read_for(self) -> None:
        self.skip_blanks()
        name = NAME.match(self.source, self.at)
        if not name:
            raise Unparsable("the loop is not understood")
        self.script.commands.append(SimpleCommand(assignments=[(name[0], Word("\0"))], chain=next(self.chains)))
        self.at = name.end()
        self.expect("in")
        self.skip_blanks()
        while words := self.read_word():
            self.script.strays += words
            self.skip_blanks()
        if self.peek() not in (";", "\n"):
            raise Unparsable("the loop is not understood")
        self.at += self.peek() == ";"
        self.read_body()

    def read_body(self) -> None:
        self.expect("do")
        self.read_list(frozenset({"done"}))
        self.expect("done")

    def read_group(self) -> None:
        self.read_list(frozenset({"}"}))
        self.expect("}")

    def read_simple(self) -> SimpleCommand | None:
        command = SimpleCommand()
        while True:
            self.skip_blanks()
            if self.read_redirect(command):
                continue
            if self.peek() == "(" and len(command.words) == 1 and not command.assignments:
                self.read_function(command.words[0])
                return None
            words = self.read_word()
            if not words:
                break
            found = ASSIGNMENT.match(words[0].text)
            if found and not command.words and words[0].bare >= found.end():
                if len(words) > 1:
                    raise Unparsable("braces are assigned")
                value = replace(words[0], text=words[0].text[found.end() :], bare=words[0].bare - found.end())
                command.assignments.append((found[1], value))
            else:
                command.words += words
        if self.peek() == "(" or not (command.words or command.assignments or command.redirects):
            raise Unparsable(f"{self.peek() or 'the end'!r} is out of place")
        self.script.commands.append(command)
        return command

    def read_function(self, name: Word) -> None:
        """A definition; one that calls itself beside something else is a bomb."""
        self.at += 1
        self.skip_blanks()
        if self.peek() != ")":
            raise Unparsable("a parenthesis is out of place")
        self.at += 1
        self.skip_separators()
        start, first = self.at, len(self.script.commands)
        if self.peek() != "(" and self.peek_reserved() not in COMPOUNDS:
            raise Unparsable("the function has no body")
        self.read_command()
        self.script.functions.append(name.text)
        body = self.source[start : self.at]
        calls = any(c.words and c.words[0].text == name.text for c in self.script.commands[first:])
        if calls and ("|" in body or "&" in body):
            self.script.bombs.append(name.text)

    # Redirections, here-documents, substitutions

    def read_redirect(self, command: SimpleCommand) -> bool:
        found = REDIRECT.match(self.source, self.at)
        if not found:
            return False
        operator = found[1] or found[2]
        self.at = found.end()
        self.skip_blanks()
        start = self.at
        words = self.read_word()
        if len(words) != 1:
            raise Unparsable("a redirection has no single target")
        if operator in ("<<", "<<-"):
            if not words[0].known or "\n" in words[0].text:
                raise Unparsable("a here-document has no plain end")
            quoted = any(char in self.source[start : self.at] for char in "'\"\\")
            self.pending.append((words[0].text, quoted, operator == "<<-"))
        command.redirects.append(Redirect(operator, words[0]))
        return True

    def read_here_documents(self) -> None:
        """The texts of the here-documents that were named on the line before."""
        pending, self.pending = self.pending, []
        for delimiter, quoted, stripped in pending:
            lines = []
            while True:
                if self.at >= len(self.source):
                    raise Unparsable("a here-document does not end")
                end = self.source.find("\n", self.at)
                line = self.source[self.at : end if end >= 0 else len(self.source)]
                self.at = min(self.at + len(line) + 1, len(self.source))
                if (line.lstrip("\t") if stripped else line) == delimiter:
                    break
                lines.append(line)
            if not quoted:
                self.read_expansions("\n".join(lines))

    def read_expansions(self, text: str) -> None:
        if "\\\n" in text:
            raise Unparsable("a here-document joins lines")
        inner = Parser(text, self.script, self.chains, self.budget, self.depth + 1)
        piece = WordPiece()
        while inner.peek():
            inner.read_inside(piece, "")
        self.script.strays.append(Word("".join(piece.text), names=tuple(piece.names)))

    def read_substitution(self) -> None:
        pending, self.pending = self.pending, []
        start, first = self.at, len(self.script.commands)
        self.read_enclosed()
        if self.pending or (pending and "\n" in self.source[start : self.at]):
            raise Unparsable("a here-document crosses a substitution")
        self.pending = pending
        for command in self.script.commands[first:]:
            command.chain = command.chain or next(self.chains)

    def read_word(self) -> list[Word]:
        start = self.at
        words = super().read_word()
        if self.pending and "\n" in self.source[start : self.at]:
            raise Unparsable("a word crosses into a here-document")
        return words

    def parse_inner(self, source: str) -> None:
        Parser(source, self.script, self.chains, self.budget, self.depth + 1).read_all()


COMPOUNDS: dict[str, Callable[[Parser], None]] = {
    "if": Parser.read_if,
    "while": Parser.read_while,
    "until": Parser.read_while,
    "for": Parser.read_for,
    "{": Parser.read_group,
}
