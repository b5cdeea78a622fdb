"""How each app writes what markdown says. A dialect is data; whoever adds one writes a row of the table below."""

import html
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

from gateway.core.markup.leaves import (
    BULLET,
    CODE,
    EMPHASIS,
    GRID,
    MONO,
    RULE,
    STRIKE,
    STRONG,
    Leaf,
    Link,
    Mark,
    Run,
    read_leaves,
    say_link,
)
from hermes_base.errors import ConfigProblem

MARKDOWN, PLAIN = "markdown", "plain"
_HIDDEN = "\u200b"  # between two signs that an app would take for markup
_TAGS = re.compile(r"<[^>]*>")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
#: Signs that no text has: a platform that is told styles beside a text takes them out, and counts where they stood.
STYLE_SIGNS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {STRONG: ("\x0e", "\x0f"), EMPHASIS: ("\x10", "\x11"), STRIKE: ("\x12", "\x13"), MONO: ("\x14", "\x15")}
)
_STYLES = re.compile("[\x0e-\x15]")
_SIGNS = re.compile(r"(?<![\w*~`])([*_~`])(?=\S)")


def _keep(text: str) -> str:
    return text


def _say_address(link: Link) -> tuple[str, str]:
    return "", say_link(link.text, link.url).removeprefix(link.text.strip())


@dataclass(frozen=True, slots=True)
class MarkupDialect:
    """What an app understands."""

    marks: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # signs around a mark; none: it is not shown
    escape: Callable[[str], str] = _keep  # a text, so that nothing in it is markup
    escape_code: Callable[[str], str] = _keep
    link: Callable[[Link], tuple[str, str]] = _say_address  # what stands before and after its text
    code: Callable[[str, str], str] = lambda code, language: code  # lines that keep their spaces
    quote: tuple[str, str] | None = None  # around a quote; None: a sign before each of its lines
    bullet: str = "-"
    rule: str = "---"
    by_line: bool = False  # a mark ends with its line
    needs_edges: bool = False  # a mark holds only around whole words
    shown: Callable[[str], str] = _keep  # what the app counts of a text
    most_marks: int = 0  # in one message: the app drops those beyond; 0: it takes them all


@dataclass(frozen=True, slots=True)
class WrittenText:
    """A text in an app's markup, the same without any, and what the app counts of it."""

    text: str
    plain: str
    shown: str
    too_many: bool = False  # more marks than the app takes in one message


NO_TEXT = WrittenText("", "", "")


def translate(text: str, name: str) -> WrittenText:
    """Markdown in this dialect. It always comes to something: what cannot be read stays as it is written."""
    dialect, leaves = find_dialect(name), read_leaves(text)
    plain = _write(leaves, DIALECTS[PLAIN]) or text
    if name == MARKDOWN:
        return WrittenText(text, plain, text)
    written = _write(leaves, dialect)
    if not dialect.shown(written).strip():
        written = dialect.escape(text)
    marks = sum(len(run.marks) for leaf in leaves for run in leaf.runs) + sum(
        leaf.kind in (CODE, GRID) for leaf in leaves
    )
    return WrittenText(written, plain, dialect.shown(written), too_many=0 < dialect.most_marks < marks)


def write_literally(text: str, name: str) -> WrittenText:
    """A text in which nothing is markup."""
    written = find_dialect(name).escape(text)
    return WrittenText(written, text, find_dialect(name).shown(written))


def find_dialect(name: str) -> MarkupDialect:
    if name not in DIALECTS:
        fix = f"Its PlatformSpec names one of: {', '.join(DIALECTS)}."
        raise ConfigProblem(f"A platform asks for the markup {name!r}, which nobody here can write.", fix=fix)
    return DIALECTS[name]


# --- the writer


def _write(leaves: Sequence[Leaf], dialect: MarkupDialect) -> str:
    bits: list[str] = []
    before: Leaf | None = None
    opening, closing = dialect.quote or ("", "")
    for leaf in leaves:
        if before is not None:
            bits += [closing if before.quotes and not leaf.quotes else "", "\n\n" if leaf.gap else "\n"]
        bits += [opening if leaf.quotes and not (before and before.quotes) else "", _write_leaf(leaf, dialect)]
        before = leaf
    return "".join([*bits, closing if before and before.quotes else ""]).strip("\n").rstrip()


def _write_leaf(leaf: Leaf, dialect: MarkupDialect) -> str:
    marker = leaf.marker.replace(BULLET, dialect.bullet)
    first = "  " * (leaf.depth - 1) + (f"{marker} " if marker else "  " if leaf.depth else "")
    if leaf.kind in (CODE, GRID):
        body = dialect.code(dialect.escape_code(leaf.code), leaf.language)
        body = f"{first.rstrip()}\n{body}" if marker else body
    else:
        text = dialect.rule if leaf.kind == RULE else _write_runs(leaf.runs, dialect)
        body = first + text.replace("\n", "\n" + " " * len(first))
    if leaf.quotes and dialect.quote is None and (leaf.kind not in (CODE, GRID) or dialect.marks == {}):
        signs = "> " * leaf.quotes
        body = signs + body.replace("\n", f"\n{signs}")
    return body


def _write_runs(runs: Sequence[Run], dialect: MarkupDialect) -> str:
    bits: list[str] = []
    open_marks: list[Mark] = []
    shown = [Run(run.text, _choose_marks(run, dialect)) for run in runs]
    shown = list(_cut_at_lines(shown)) if dialect.by_line else shown
    shown = _fit_to_words(shown) if dialect.needs_edges else shown
    for run in [*shown, Run("")]:
        pairs = zip(open_marks, run.marks, strict=False)
        same = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))
        bits += [_signs(mark, dialect)[1] for mark in reversed(open_marks[same:])]
        bits += [_signs(mark, dialect)[0] for mark in run.marks[same:]]
        open_marks[same:] = run.marks[same:]
        bits.append((dialect.escape_code if MONO in run.marks else dialect.escape)(run.text))
    return "".join(bits)


def _choose_marks(run: Run, dialect: MarkupDialect) -> tuple[Mark, ...]:
    """The marks that are shown. Code has no other marks with it, but may be part of a link."""
    links = tuple(mark for mark in run.marks if isinstance(mark, Link))
    if MONO in run.marks:
        return links or ((MONO,) if MONO in dialect.marks else ())
    return tuple(mark for mark in run.marks if isinstance(mark, Link) or mark in dialect.marks)


def _signs(mark: Mark, dialect: MarkupDialect) -> tuple[str, str]:
    return dialect.link(mark) if isinstance(mark, Link) else dialect.marks[mark]


def _cut_at_lines(runs: Sequence[Run]) -> Iterator[Run]:
    for run in runs:
        for index, line in enumerate(run.text.split("\n")):
            if index:
                yield Run("\n")
            if line:
                yield replace(run, text=line)


def _fit_to_words(runs: Sequence[Run]) -> list[Run]:
    """The runs without what the app would show as signs: a mark that ends inside of a word, or beside a space."""
    for mark in (STRONG, EMPHASIS, STRIKE, MONO):
        stretches = [list(group) for _, group in itertools.groupby(runs, partial(_has_mark, mark))]
        texts = ["", *("".join(run.text for run in stretch) for stretch in stretches), ""]
        fitted: list[Run] = []
        for at, stretch in enumerate(stretches):
            before, text, after = texts[at : at + 3]
            joined = _goes_on(before[-1:], text[:1]) or _goes_on(after[:1], text[-1:]) or (mark == MONO and "`" in text)
            bare = [replace(run, marks=tuple(other for other in run.marks if other != mark)) for run in stretch]
            fitted += (bare if joined else _trim(stretch, bare)) if _has_mark(mark, stretch[0]) else stretch
        runs = fitted
    return list(runs)


def _has_mark(mark: str, run: Run) -> bool:
    return mark in run.marks


def _goes_on(outside: str, inside: str) -> bool:
    """Whether a word goes on beyond the edge of its mark."""
    return outside.isalnum() and not inside.isspace()


def _trim(marked: Sequence[Run], bare: Sequence[Run]) -> list[Run]:
    """The marked runs, with the spaces at both ends taken from the bare ones."""
    first, last = marked[0].text, marked[-1].text
    if not "".join(run.text for run in marked).strip():
        return list(bare)
    before = replace(bare[0], text=first[: len(first) - len(first.lstrip())])
    after = replace(bare[-1], text=last[len(last.rstrip()) :])
    inner = [replace(run, text=run.text.lstrip() if run is marked[0] else run.text) for run in marked]
    inner[-1] = replace(inner[-1], text=inner[-1].text.rstrip())
    return [run for run in (before, *inner, after) if run.text]


# --- the dialects


def _escape_html(text: str) -> str:
    return html.escape(text, quote=False)


def _show_html(text: str) -> str:
    return html.unescape(_TAGS.sub("", text))


def _write_pre(code: str, language: str) -> str:
    if not language:
        return f"<pre>{code}</pre>"
    return f'<pre><code class="language-{html.escape(language)}">{code}</code></pre>'


def _hide_signs(text: str) -> str:
    """Signs that stand in pairs are no markup when they were typed as signs."""
    return _SIGNS.sub(lambda sign: sign[1] + (_HIDDEN if text.count(sign[1]) > 1 else ""), text)


def _escape_slack(text: str) -> str:
    return _escape_html(_hide_signs(text))


def _write_fence(code: str, language: str) -> str:
    del language
    return "```\n" + code.replace("```", f"``{_HIDDEN}`") + "\n```"


def _link_slack(link: Link) -> tuple[str, str]:
    url = _escape_html(link.url).replace("|", "%7C")
    return f"<{url}|", ">"


def _escape_discord(text: str) -> str:
    """As above, and two bars would hide what stands between them."""
    return _hide_signs(text).replace("||", f"|{_HIDDEN}|")


def _write_marked_fence(code: str, language: str) -> str:
    return _write_fence(code, "").replace("```\n", f"```{language}\n", 1)


def _link_discord(link: Link) -> tuple[str, str]:
    """An address that is its own text is a link by itself."""
    bare = link.url.removeprefix("mailto:") in ("", link.text.strip())
    return ("", "") if bare else ("[", f"]({link.url})")


def _drop_control(text: str) -> str:
    return _CONTROL.sub("", text)


def _drop_styles(text: str) -> str:
    return _STYLES.sub("", text)


def _style_code(code: str, language: str) -> str:
    del language
    return code.join(STYLE_SIGNS[MONO])


#: Signs around words, and the text reads well where they are not understood.
_STYLING = MarkupDialect(
    marks={STRONG: ("*", "*"), EMPHASIS: ("_", "_"), STRIKE: ("~", "~"), MONO: ("`", "`")},
    escape=_hide_signs,
    code=_write_fence,
    bullet="•",
    rule="———",
    by_line=True,
    needs_edges=True,
)
_HTML = MarkupDialect(
    marks={
        STRONG: ("<strong>", "</strong>"),
        EMPHASIS: ("<em>", "</em>"),
        STRIKE: ("<del>", "</del>"),
        MONO: ("<code>", "</code>"),
    },
    escape=_escape_html,
    escape_code=_escape_html,
    link=lambda link: (f'<a href="{html.escape(link.url)}">', "</a>"),
    code=_write_pre,
    quote=("<blockquote>", "</blockquote>"),
    bullet="•",
    rule="———",
    shown=_show_html,
)
DIALECTS: Mapping[str, MarkupDialect] = MappingProxyType(
    {
        MARKDOWN: MarkupDialect(),
        PLAIN: MarkupDialect(),
        "telegram_html": replace(
            _HTML,
            marks={**_HTML.marks, STRONG: ("<b>", "</b>"), EMPHASIS: ("<i>", "</i>"), STRIKE: ("<s>", "</s>")},
            most_marks=100,
        ),
        "html": _HTML,
        "discord": MarkupDialect(
            marks={STRONG: ("**", "**"), EMPHASIS: ("*", "*"), STRIKE: ("~~", "~~"), MONO: ("`", "`")},
            escape=_escape_discord,
            link=_link_discord,
            code=_write_marked_fence,
            rule="———",
            by_line=True,
            needs_edges=True,
        ),
        "slack": MarkupDialect(
            marks={STRONG: ("*", "*"), EMPHASIS: ("_", "_"), STRIKE: ("~", "~"), MONO: ("`", "`")},
            escape=_escape_slack,
            escape_code=_escape_html,
            link=_link_slack,
            code=_write_fence,
            bullet="•",
            rule="———",
            by_line=True,
            needs_edges=True,
        ),
        "whatsapp": _STYLING,
        "styling": _STYLING,  # of XMPP (XEP-0393)
        "irc": MarkupDialect(
            marks={STRONG: ("\x02", "\x02"), EMPHASIS: ("\x1d", "\x1d"), STRIKE: ("\x1e", "\x1e")},
            escape=_drop_control,
            escape_code=_drop_control,
            by_line=True,
        ),
        "styles": MarkupDialect(
            marks=STYLE_SIGNS,
            escape=_drop_control,
            escape_code=_drop_control,
            code=_style_code,
            bullet="•",
            rule="———",
            shown=_drop_styles,
        ),
    }
)
