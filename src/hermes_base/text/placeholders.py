"""Words of an example that somebody copied as they stand: `NAME_API_KEY`, `KEY`, `<your-key>`, `sk-...`."""

import re

from hermes_base.errors import ConfigProblem

_ENDINGS = ("_API_KEY", "_TOKEN", "_SECRET", "_ACCESS_KEY")
_NAMES = frozenset({"NAME_API_KEY", "PROVIDER_API_KEY", "YOUR_API_KEY", "MY_API_KEY", "XXX_API_KEY"})
_VALUE = re.compile(
    r"""<.*> | \[.*\] | \{.*\} | \$\{?\w+\}?          # between brackets, or a variable that nobody filled in
    | .*(\.\.\.|…) | x{3,} | \*{3,}                   # the rest was left out
    | (your[-_ ] (\w+[-_ ])?)? (api[-_ ]?)? (key|token|secret|value) ([-_ ]here)?""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)


def refuse_placeholder(name: str, value: str) -> None:
    """ConfigProblem when the name or the value of a key is the word of an example, or the value can be no key."""
    key = value.strip()
    if name in _NAMES:
        raise ConfigProblem(
            f"{name} stands for the variable of your provider.",
            kept="Nothing was changed.",
            fix="Name it: OPENROUTER_API_KEY, OPENAI_API_KEY, ANTHROPIC_API_KEY; `hermes setup` asks for all of it.",
        )
    is_name = key.isupper() and key.isidentifier() and key.endswith(_ENDINGS)  # in the place of its value
    if name.endswith(_ENDINGS) and (_VALUE.fullmatch(key) or is_name):
        raise ConfigProblem(
            f"{key!r} stands for a key and is none.",
            kept="Nothing was changed.",
            fix=f"`hermes config set {name}` asks for the key itself and does not show it.",
        )
    # A key travels in a header of a request, and what was cut short for showing was cut.
    could_be_key = key.isascii() and key.isprintable() and " " not in key and bool(key)
    if name.endswith("_API_KEY") and value and not could_be_key:
        raise ConfigProblem(
            "A key is one word of plain letters, digits and signs; this one holds something else.",
            kept="Nothing was changed.",
            fix="Copy it anew: a space, a line's end or a letter with an accent may have come along.",
        )
