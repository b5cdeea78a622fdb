"""A page of HTML as markdown: what it says, without what stands around it. Pure; runs in the reading process.

Headings, links, lists, tables and code are kept. The part that the page calls its main one is taken; where it names
none, the whole without navigation, and everything rather than nothing.
"""

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from html import unescape
from typing import Any
from urllib.parse import urldefrag

from lxml import etree, html

Element = Any  # lxml has no types
#: What is raised for text that is no page at all.
UNREADABLE = (ValueError, etree.LxmlError)

#: Never part of what a page says. The head may be: what a page begins with that does not name its body stands there.
_SILENT = frozenset(
    (
        *("script", "style", "template", "noscript", "svg", "canvas", "iframe", "object", "embed", "title", "link"),
        *(
            "input",
            "select",
            "button",
            "textarea",
            "datalist",
            "audio",
            "video",
            "map",
            "dialog",
            "meta",
            "base",
            "source",
        ),
    )
)
_SILENT_ROLES = frozenset(
    ("navigation", "banner", "contentinfo", "search", "dialog", "alertdialog", "menu", "menubar", "toolbar", "tooltip")
)
#: Stand around what a page says, unless they stand inside of it.
_AROUND = frozenset(("header", "footer", "aside"))
#: Words in class and id of blocks that lead elsewhere; only those that hold mostly links are left out.
_AROUND_NAMES = re.compile(
    r"(?:^|[\s_-])(?:nav|navbar|navigation|menu|sidebar|breadcrumbs?|footer|cookies?|share|sharing|social|related|"
    r"advert\w*|ads?|promo|newsletter|toc-?nav|skip-?link|pagination|pager)(?:$|[\s_-])",
    re.IGNORECASE,
)
_MAIN = (
    "//main",
    "//*[@role='main']",
    "//article",
    "//*[@id='content' or @id='main' or @id='main-content' or @id='bodyContent' or @id='readme']",
)
_ENOUGH = 0.4  # share of the text that the main part must hold to be believed
_LITTLE = 0.2  # share of the whole below which too much was left out
_LINKED = 0.6  # share of the text of a block in links that makes it one that leads elsewhere
_BLOCKS = frozenset(
    (
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "body",
            "center",
            "dd",
            "details",
            "div",
            "dl",
            "dt",
            "fieldset",
        ),
        *("figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hr", "html"),
        *("li", "main", "nav", "ol", "p", "pre", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead"),
        *("tr", "ul", "listing", "xmp", "caption"),
    )
)
_MARKS: Mapping[str, str] = {"b": "**", "strong": "**", "i": "*", "em": "*", "del": "~~", "s": "~~"}
_CODE = frozenset(("code", "kbd", "samp", "tt"))
_LANGUAGE = re.compile(r"(?:^|\s)(?:language-|lang-|highlight-source-|brush:\s*)([\w+#.-]+)")
_ANCHOR_SIGNS = frozenset(("", "#", "¶", "§", "🔗", "↩", "↑"))
_HIDING = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_SPACES = re.compile(r"[ \t\r\n\f\v]+")
_BREAK = "\n"
_WIDEST_TABLE = 30


def read_html(text: str, url: str) -> tuple[str, str]:
    """Title and markdown of a page; the markdown is empty when it says nothing."""
    tree = html.document_fromstring(_drop_declaration(text), parser=html.HTMLParser(recover=True, huge_tree=True))
    tree.make_links_absolute(_find_base(tree, url), handle_failures="ignore", resolve_base_href=False)
    title = _find_title(tree)
    _drop_silent(tree)
    whole = _count(tree)
    main = _find_main(tree)
    said = write_markdown(main, url)
    if len(said) < _LITTLE * whole:
        said = write_markdown(tree, url)
    return title, said


def write_markdown(node: Element, url: str = "") -> str:
    try:
        return "\n\n".join(_Writer(url).write_blocks(node))
    except RecursionError:  # nested deeper than anybody reads: its plain text
        return _SPACES.sub(" ", " ".join(node.itertext())).strip()


def strip_markup(text: str) -> str:
    """What is left of a page without its marks, for one that the parser finds nothing in."""
    silent = re.sub(r"<(script|style|template|title)\b.*?(</\1\s*>|$)|<!--.*?(-->|$)", " ", text, flags=re.I | re.S)
    return _SPACES.sub(" ", unescape(re.sub(r"<[^<>]*>", " ", silent))).strip()


# --- what belongs to it


def _drop_declaration(text: str) -> str:
    """lxml refuses text that says in which bytes it once was written."""
    return re.sub(r"^\s*<\?xml[^>]{0,200}\?>", "", text.removeprefix("\ufeff"), count=1)


def _find_base(tree: Element, url: str) -> str:
    named = tree.xpath("string(//base/@href)").strip()
    return named if named.startswith(("http://", "https://")) else url


def _find_title(tree: Element) -> str:
    found = tree.xpath("string(//title)") or tree.xpath("string(//meta[@property='og:title']/@content)")
    return _SPACES.sub(" ", found or tree.xpath("string(//h1)")).strip()[:300]


def _drop_silent(tree: Element) -> None:
    for node in list(tree.iter()):
        if not isinstance(node.tag, str) or _is_silent(node):
            _drop(node)


def _is_silent(node: Element) -> bool:
    if node.tag in ("html", "body"):
        return False
    if node.tag in _SILENT or node.get("role") in _SILENT_ROLES or node.get("hidden") is not None:
        return True
    return node.get("aria-hidden") == "true" or bool(_HIDING.search(node.get("style") or ""))


def _drop(node: Element) -> None:
    """Out of the tree, without what stands behind it."""
    if node.getparent() is not None:
        if isinstance(node, html.HtmlElement):
            node.drop_tree()
        else:
            _keep_tail(node)
            node.getparent().remove(node)


def _keep_tail(node: Element) -> None:
    before = node.getprevious()
    if before is not None:
        before.tail = (before.tail or "") + (node.tail or "")
    else:
        node.getparent().text = (node.getparent().text or "") + (node.tail or "")


def _find_main(tree: Element) -> Element:
    """The part that the page calls its main one, if that holds most of it; else a copy without what leads elsewhere."""
    whole = _count(tree)
    for path in _MAIN:
        found = max(tree.xpath(path), key=_count, default=None)
        if found is not None and _count(found) >= max(1.0, _ENOUGH * whole):
            return _without_around(found, inside=True)
    return _without_around(tree, inside=False)


def _without_around(part: Element, *, inside: bool) -> Element:
    copied = copy.deepcopy(part)
    copied.tail = None
    for node in list(copied.iter("nav", "div", "ul", "ol", "section", "table", *_AROUND)):
        if node is not copied and _leads_elsewhere(node, inside=inside):
            _drop(node)
    return copied


def _leads_elsewhere(node: Element, *, inside: bool) -> bool:
    if node.tag == "nav":
        return True
    if node.tag in _AROUND and not inside and node.find(".//h1") is None:
        return True
    names = f"{node.get('class') or ''} {node.get('id') or ''}"
    if not _AROUND_NAMES.search(names):
        return False
    linked = sum(_count(link) for link in node.iter("a"))
    return linked >= _LINKED * max(1, _count(node))


def _count(node: Element) -> int:
    """Letters that are said, blanks left out."""
    return len("".join("".join(node.itertext()).split()))


# --- how it is written


class _Writer:
    """Writes nodes as markdown; links within the page itself are only their text."""

    def __init__(self, url: str) -> None:
        self._here = urldefrag(url).url
        self._special: Mapping[str, Callable[[Element], list[str]]] = {
            **{f"h{level}": self._write_heading for level in range(1, 7)},
            **dict.fromkeys(("pre", "listing", "xmp"), self._write_code),
            **dict.fromkeys(("ul", "ol"), self._write_list),
            "blockquote": lambda node: self._write_indented(node, "> ", "> "),
            "table": self._write_table,
            "dt": lambda node: [f"**{said}**" for said in [self._say(node)] if said],
            "dd": lambda node: self._write_indented(node, "  ", ": "),
            "hr": lambda node: ["---"],
            "a": self._write_card,
        }

    def write_blocks(self, node: Element) -> list[str]:
        """The blocks below a node; text between them is a block, too."""
        blocks: list[str] = []
        run: list[str] = [_flat(node.text)]
        for child in node:
            if self._is_block(child):
                blocks += _close(run)
                special = self._special.get(child.tag)
                blocks += special(child) if special else self.write_blocks(child)
                run = []
            else:
                run.append(self._write_inline(child))
            run.append(_flat(child.tail))
        return [block for block in blocks + _close(run) if block.strip()]

    def _is_block(self, node: Element) -> bool:
        """What holds blocks is one, too: a link around a card, for example."""
        if node.tag in _BLOCKS:
            return True
        return node.tag not in _CODE and any(below.tag in _BLOCKS for below in node.iterdescendants())

    def _say(self, node: Element) -> str:
        """Everything below a node as one run of text, blocks in it included."""
        parts = [_flat(node.text)]
        for child in node:
            parts.append(f" {self._say(child)} " if child.tag in _BLOCKS else self._write_inline(child))
            parts.append(_flat(child.tail))
        return _tidy("".join(parts))

    def _write_inline(self, node: Element) -> str:
        if node.tag == "br":
            return _BREAK
        if node.tag == "img":
            alt = _tidy(_flat(node.get("alt")))
            return f"[image: {alt}]" if alt else ""
        if node.tag == "math" and node.get("alttext"):
            return f"${node.get('alttext')}$"
        if node.tag in _CODE:
            return _quote_code(_SPACES.sub(" ", "".join(node.itertext())))
        inner = _flat(node.text) + "".join(self._write_inline(child) + _flat(child.tail) for child in node)
        if node.tag == "a":
            return self._write_link(node, inner)
        mark = _MARKS.get(node.tag, "")
        said = inner.strip()
        if not mark or not said or said.startswith(mark):
            return inner
        return inner.replace(said, f"{mark}{said}{mark}", 1)

    def _write_link(self, node: Element, inner: str) -> str:
        said, target = _tidy(inner), _find_target(node)
        if not target:
            return inner
        if urldefrag(target).url == self._here:
            return "" if said in _ANCHOR_SIGNS else inner
        return f"[{said}]({target})" if said else ""

    def _write_card(self, node: Element) -> list[str]:
        """A link around blocks: the first of them that is one line and no link yet carries it."""
        blocks, target = self.write_blocks(node), _find_target(node)
        if target and urldefrag(target).url != self._here:
            for number, block in enumerate(blocks):
                if "\n" not in block and "](" not in block:
                    sign, said = re.fullmatch(r"(#+ |- |> )?(.*)", block).groups("")  # type: ignore[union-attr]
                    return [*blocks[:number], f"{sign}[{said}]({target})", *blocks[number + 1 :]]
        return blocks

    def _write_heading(self, node: Element) -> list[str]:
        said = self._say(node).replace(_BREAK, " ")
        return [f"{'#' * int(node.tag[1])} {said}"] if said else []

    def _write_code(self, node: Element) -> list[str]:
        for line in node.iter("br"):
            line.text = _BREAK
        code = "".join(node.itertext()).strip("\n")
        if not code.strip():
            return []
        named = " ".join(one.get("class") or "" for one in (node, *node.iter("code")))
        language = _LANGUAGE.search(named)
        longest = max((len(run) for run in re.findall(r"`{3,}", code)), default=2)
        fence = "`" * (longest + 1)
        return [f"{fence}{language[1] if language else ''}\n{code}\n{fence}"]

    def _write_indented(self, node: Element, margin: str, first: str) -> list[str]:
        blocks = self.write_blocks(node)
        return [_indent("\n\n".join(blocks), margin, first)] if blocks else []

    def _write_list(self, node: Element) -> list[str]:
        items: list[str] = []
        number = _read_start(node)
        for child in node:
            blocks = self.write_blocks(child) if child.tag == "li" else self._write_loose(child)
            if not blocks:
                continue
            if child.tag in ("ul", "ol") and items:  # a list that should stand in the item before it
                items.append(_indent("\n\n".join(blocks), "  ", "  "))
                continue
            marker = f"{number}. " if node.tag == "ol" else "- "
            number += 1
            items.append(_indent(_join_item(blocks), " " * len(marker), marker))
        return ["\n".join(items)] if items else []

    def _write_loose(self, child: Element) -> list[str]:
        """What stands in a list and is no item of it."""
        special = self._special.get(child.tag)
        return special(child) if special else self.write_blocks(child)

    def _write_table(self, node: Element) -> list[str]:
        rows = [[cell for cell in row if cell.tag in ("td", "th")] for row in _own_rows(node)]
        rows = [row for row in rows if row]
        widest = max(map(len, rows), default=0)
        is_layout = node.get("role") == "presentation" or node.find(".//table") is not None or widest < 2
        if is_layout or widest > _WIDEST_TABLE or any(cell.find(".//pre") is not None for row in rows for cell in row):
            return [block for row in rows for cell in row for block in self.write_blocks(cell)]
        lines = [[self._say(cell).replace(_BREAK, " ").replace("|", "\\|") for cell in row] for row in rows]
        if not any(any(line) for line in lines):
            return []
        padded = [[*line, *[""] * (widest - len(line))] for line in lines]
        written = [f"| {' | '.join(line)} |" for line in padded]
        caption = [self._say(one) for one in node.iter("caption")]
        return [*caption, "\n".join([written[0], "|" + "---|" * widest, *written[1:]])]


def _find_target(node: Element) -> str:
    """Where a link leads, as it can stand in markdown; empty: to nothing that can be read."""
    target = (node.get("href") or "").strip()
    is_read = target.startswith(("http://", "https://", "mailto:"))
    return target.replace(" ", "%20").replace(")", "%29") if is_read else ""


def _own_rows(node: Element) -> Iterator[Element]:
    for child in node:
        if child.tag == "tr":
            yield child
        elif child.tag in ("thead", "tbody", "tfoot"):
            yield from (row for row in child if row.tag == "tr")


def _read_start(node: Element) -> int:
    start = node.get("start") or "1"
    return int(start) if start.isdecimal() and len(start) < 7 else 1


def _join_item(blocks: list[str]) -> str:
    """A list inside of an item stands close to its words, a paragraph apart."""
    joined = blocks[0]
    for block in blocks[1:]:
        joined += ("\n" if re.match(r"- |\d+\. ", block) else "\n\n") + block
    return joined


def _indent(text: str, margin: str, first: str) -> str:
    lines = text.split("\n")
    rest = [f"{margin}{line}".rstrip() for line in lines[1:]]
    return "\n".join([f"{first}{lines[0]}", *rest])


def _close(run: list[str]) -> list[str]:
    said = "".join(run)
    return [_tidy(said)] if said.strip() else []


def _flat(text: str | None) -> str:
    return _SPACES.sub(" ", text or "")


def _tidy(text: str) -> str:
    """One blank between words, none at the ends of lines; line ends that were meant stay."""
    lines = (re.sub(r" {2,}", " ", line).strip() for line in text.split(_BREAK))
    return _BREAK.join(lines).strip()


def _quote_code(code: str) -> str:
    if not code.strip():
        return code
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence, pad = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{pad}{code}{pad}{fence}"
