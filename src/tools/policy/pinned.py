"""The one form of a command that a kept approval is bound to: its exact words, operators and redirections.

Two command lines with the same form are the same to the shell. Whatever the shell would fill in itself (variables,
substitutions, patterns, homes, braces), and whatever is more than simple commands in a row, has no such form.
"""

import json
import re

from tools.policy.lexer import Lexer, check_characters
from tools.policy.words import ParseBudget, Unparsable, Word

#: What stands between simple commands.
OPERATOR = re.compile(r"&&|\|\||\|&|;|&|\||\n")
REDIRECTION = re.compile(r"[0-9]*(?:<<<|<>|<&|>>|>\||>&|<|>)(?![<>(&|])|&>>?(?!\()")
#: Words that mean something else than themselves where a command begins, unless they are quoted, and quotes are gone
#: from a form: so none of them begins a command here.
RESERVED = frozenset(
    {"if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "in"}
    | {"function", "coproc", "time", "{", "}", "!", "[[", "]]"}
)
ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[.*\])?\+?=", re.DOTALL)
TILDE = re.compile(r"(^|[=:])~")


def pin_command(source: str) -> str:
    """The form; empty: there is none."""
    try:
        check_characters(source)
        if "\\\n" in source:  # the shell joins lines before it reads operators: `&\` and `>` on the next line are one
            return ""
        form = Pinner(source, ParseBudget()).read_form()
    except Unparsable:
        return ""
    return json.dumps(form) if any(isinstance(piece, str) for piece in form) else ""


class Pinner(Lexer):
    """Reads words as texts and what stands between them as lists of one."""

    def read_form(self) -> list[str | list[str]]:
        form: list[str | list[str]] = []
        begins = True  # a command, with its next word
        while True:
            self.skip_blanks()
            if not self.peek():
                break
            if found := REDIRECTION.match(self.source, self.at):
                self.at = found.end()
                self.skip_blanks()
                form += [[found[0]], self.read_known()]
            elif found := OPERATOR.match(self.source, self.at):
                self.at = found.end()
                form.append([found[0]])
                begins = True
            else:
                word = self.read_known()
                if begins and (word in RESERVED or ASSIGNMENT.match(word)):
                    raise Unparsable("it is more than a simple command")
                form.append(word)
                begins = False
        return form

    def read_known(self) -> str:
        """A word that is what it says, and nothing but blanks or an operator behind it."""
        words = self.read_word()
        if len(words) != 1 or not is_itself(words[0]) or self.peek() in ("<", ">", "(") or self.peek(2) == "&>":
            raise Unparsable("the shell would fill something in")
        return words[0].text

    def read_substitution(self) -> None:
        raise Unparsable("it has a substitution")

    def parse_inner(self, source: str) -> None:
        raise Unparsable("it has a substitution")


def is_itself(word: Word) -> bool:
    return word.known and not word.names and not TILDE.search(word.text)
