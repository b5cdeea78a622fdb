"""Regular expressions that others wrote: of the model, or made of a line in a file. They cost what the text is long.

Python's own engine tries again and again where a pattern is ambiguous, for hours, and holds the interpreter meanwhile.
RE2 reads the text once and lets other threads work. What it cannot do that way it refuses.
"""

import re

import re2

from hermes_base.errors import ToolFailure

_NOT_LINEAR = re.compile(r"invalid perl operator: \(\?(P|<?[=!])|invalid escape sequence: \\[1-9gk]")


class LinearPattern:
    """A compiled pattern; raises ToolFailure for one that cannot be used."""

    def __init__(self, pattern: str) -> None:
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        try:
            self._expression = re2.compile(_encode(pattern), options)
        except re2.error as problem:
            said = problem.args[0] if problem.args else ""
            reason = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
            if _NOT_LINEAR.search(reason):
                raise ToolFailure(
                    "The pattern uses look-around or a back-reference, which searching does not know.",
                    fix="Search for the plain part of it, and look at the hits.",
                ) from None
            raise ToolFailure(
                f"The pattern is no regular expression: {reason}.", fix="Escape special letters."
            ) from None

    def finds(self, text: str) -> bool:
        """Whether it fits somewhere in the text."""
        return self._expression.search(_encode(text)) is not None

    def fits(self, text: str) -> bool:
        """Whether it fits the text as a whole."""
        return self._expression.fullmatch(_encode(text)) is not None


def _encode(text: str) -> bytes:
    """Names of files may hold bytes that are no UTF-8."""
    return text.encode("utf-8", "surrogatepass")
