"""What the shell parser hands to the policy: the simple commands of a command line, flat, with their words."""

from dataclasses import dataclass, field

#: Stands in a word for a piece only the shell knows (a variable, a substitution). NUL cannot be in a command.
UNKNOWN = "\0"


class Unparsable(Exception):
    """The command line holds something the parser does not understand; the message says what."""


@dataclass(slots=True)
class ParseBudget:
    """The steps that the judgement of one command may take; what needs more is asked for."""

    left: int = 60_000

    def spend(self, steps: int = 1) -> None:
        self.left -= steps
        if self.left < 0:
            raise Unparsable("it takes too long to judge")


@dataclass(frozen=True, slots=True)
class Word:
    text: str  # quotes removed, unknown pieces as UNKNOWN
    globbed: bool = False  # holds * ? or [ outside of quotes
    bare: int = 0  # how many leading characters were not quoted
    names: tuple[str, ...] = ()  # variables that are expanded in it

    @property
    def known(self) -> bool:
        return UNKNOWN not in self.text and not self.globbed


@dataclass(frozen=True, slots=True)
class Redirect:
    operator: str  # < > >> >| <> &> &>> >& <& << <<<
    target: Word


@dataclass(slots=True)
class SimpleCommand:
    """One simple command; without words it is only assignments or the redirections of a compound command."""

    words: list[Word] = field(default_factory=list)
    assignments: list[tuple[str, Word]] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    chain: int = 0  # commands with the same number are joined by && alone


@dataclass(slots=True)
class Script:
    commands: list[SimpleCommand] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)  # names that are defined
    bombs: list[str] = field(default_factory=list)  # functions that start copies of themselves
    strays: list[Word] = field(default_factory=list)  # words outside of commands: loop lists, here-documents
