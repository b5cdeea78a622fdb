"""Formulas in the terminal's markdown: they stay as the model wrote them."""

import re

import pytest

from hermes_cli.chat.terminal_render import Renderer

CODES = re.compile(r"\x1b\[[0-9;]*m")


def draw(text: str) -> str:
    return CODES.sub("", Renderer(lambda: 200).draw_markdown(text)).strip()


@pytest.mark.parametrize(
    "text",
    [
        r"so \(x\) is small",
        r"\[ \frac{a_1}{b_2} \\ c\,d \{e\} \]",
        r"$$a_1 * b_2 * \_c$$",
        r"with $x_1 \{y\} z_2$ in it",
        "\\[\na \\\\\nb\n\\]",
    ],
)
def test_a_formula_keeps_its_backslashes_stars_and_underscores(text: str) -> None:
    assert draw(text) == text


def test_prices_and_escapes_are_no_formulas() -> None:
    assert draw(r"from $5 to $6, and \*no star\*") == "from $5 to $6, and *no star*"
    assert draw("costs $5 *now* and $7") == "costs $5 now and $7"
