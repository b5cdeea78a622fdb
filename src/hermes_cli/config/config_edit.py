"""Changes one value in the text of `config.yaml` or `.env` and leaves every other character as it was."""

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, Event, ScalarEvent
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

_PLAIN = re.compile(r"[A-Za-z/][\w./-]*", re.ASCII)
_NOT_PLAIN = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_PLAIN_ENV = re.compile(r"[\w./:@%+,=-]*", re.ASCII)
_ENV_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
MOST_CHARS, MOST_LEVELS, MOST_THINGS = 1_000_000, 50, 10_000  # of one YAML text
ENV_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*", re.ASCII)


class CannotEdit(Exception):
    """The text has a shape in which this place cannot be changed alone."""


# --- YAML


def parse_yaml(text: str) -> Any:
    """The data of a text, small enough to be walked; raises YAMLError, or ValueError for a date or number that does not
    exist."""
    _check_size(text)
    return YAML(typ="safe", pure=True).load(text)


def _check_size(text: str) -> None:
    """Count what stands in a text, each alias as all that it stands for, before anything is made of it."""
    if len(text) > MOST_CHARS:
        raise YAMLError(f"it has more than {MOST_CHARS} characters")
    known: dict[str, tuple[int, int]] = {}  # anchor -> things, levels
    parts: list[tuple[str, int, int]] = [("", 0, 0)]  # what is open, from the outside in: anchor, things, levels
    for event in YAML(typ="safe", pure=True).parse(text):
        things, levels = int(isinstance(event, ScalarEvent)), 0
        anchor = str(getattr(event, "anchor", None) or "")
        if isinstance(event, AliasEvent):
            is_open = anchor in [part[0] for part in parts]  # then it holds itself
            things, levels = known.get(anchor, (1, MOST_LEVELS if is_open else 0))
        elif isinstance(event, CollectionStartEvent):
            parts.append((anchor, 1, 1))
        elif isinstance(event, CollectionEndEvent):
            anchor, things, levels = parts.pop()
        if anchor and not isinstance(event, CollectionStartEvent):
            known[anchor] = things, levels
        name, inside, deepest = parts[-1]
        parts[-1] = name, inside + things, max(deepest, levels + 1)
        if len(parts) - 1 + levels > MOST_LEVELS:
            raise _refuse("things stand too deep inside each other", event)
        if sum(part[1] for part in parts) > MOST_THINGS:
            raise _refuse(f"it holds more than {MOST_THINGS} things, with all that its aliases stand for", event)


def _refuse(why: str, event: Event) -> MarkedYAMLError:
    return MarkedYAMLError(problem=why, problem_mark=event.start_mark)


def set_in_yaml(text: str, keys: Sequence[str], value: Any) -> str:
    """The text with one value set; raises CannotEdit when that would change anything else."""
    before = parse_yaml(text)
    wanted = _with_value({} if before is None else before, keys, value)
    for edit in (_edit_text, _edit_round_trip):
        try:
            edited = edit(text, (keys, value))
            # Data and order must be what was asked for, whatever the edit met: anchors, odd indents, two documents.
            if repr(parse_yaml(edited)) == repr(wanted):
                return edited
        except (CannotEdit, YAMLError):
            continue
    raise CannotEdit


def set_by_names(text: str, names: Sequence[str], value: Any) -> str:
    """The same by names, which stand for numbers, too, where the file has such as keys."""
    return set_in_yaml(text, _find_keys(parse_yaml(text), names), value)


def drop_by_names(text: str, names: Sequence[str]) -> str:
    """The text without what stands there, and without the sections that it leaves empty."""
    before = parse_yaml(text) or {}
    return make_yaml_hold(text, _without(before, _find_keys(before, names)))


def _find_keys(tree: Any, names: Sequence[str]) -> list[Any]:
    """The keys that are called so: as the file has them, or as they would be written."""
    keys: list[Any] = []
    for name in names:
        known = tree if isinstance(tree, Mapping) else {}
        keys.append(next((key for key in known if str(key) == name), name))
        tree = known.get(keys[-1])
    return keys


def _with_value(tree: Any, keys: Sequence[str], value: Any) -> dict[Any, Any]:
    """A copy with one value set; shared parts (anchors) are left to their other users."""
    if not isinstance(tree, Mapping):
        if tree is not None:
            raise CannotEdit
        tree = {}
    inner = value if len(keys) == 1 else _with_value(tree.get(keys[0]), keys[1:], value)
    return {**tree, keys[0]: inner}


def _edit_text(text: str, change: tuple[Sequence[str], Any]) -> str:
    """Replace or insert just the characters of one value."""
    keys, value = change
    root = YAML(typ="safe", pure=True).compose(text)
    if root is None:
        gap = "" if not text or text.endswith("\n") else _line_break(text)
        return text + gap + _write_lines(text, keys, value, 0) + _line_break(text)
    mapping: Node = root
    for depth, name in enumerate(keys):
        if not isinstance(mapping, MappingNode) or not mapping.value:
            raise CannotEdit
        known = (pair for pair in mapping.value if isinstance(pair[0], ScalarNode) and pair[0].value == str(name))
        pair = next(known, None)
        if pair is None:
            if mapping.flow_style:
                raise CannotEdit
            indent = mapping.value[0][0].start_mark.column
            return _insert_after(text, _end_of(text, mapping), _write_lines(text, keys[depth:], value, indent))
        key_node, mapping = pair
        if depth + 1 < len(keys) and _is_empty(mapping):
            lines = _write_lines(text, keys[depth + 1 :], value, key_node.start_mark.column + 2)
            return _insert_after(text, _after_colon(text, key_node), lines)
    return _replace_value(text, key_node, mapping, value)


def _replace_value(text: str, key_node: Node, node: Node, value: Any) -> str:
    if _is_empty(node):
        place = _after_colon(text, key_node)
        return text[:place] + " " + write_value(value) + text[place:]
    start, end = node.start_mark.index, _end_of(text, node)
    if not isinstance(node, CollectionNode) or node.flow_style:
        return text[:start] + write_value(value) + text[end:]
    if isinstance(node, SequenceNode) and isinstance(value, list) and value:
        return _replace_items(text, node, value)
    place = _after_colon(text, key_node)
    comment = text[place:start].rstrip()  # what stands between the key and its lines
    return text[:place] + " " + write_value(value) + comment + text[end:]


def _replace_items(text: str, node: SequenceNode, items: list[Any]) -> str:
    """Write a list as the lines it had; an item that stays keeps its line, its comment and its look."""
    if any(map(_is_empty, node.value)):
        raise CannotEdit
    margin = " " * node.start_mark.column
    starts = [text.rindex("-", 0, item.start_mark.index) for item in node.value]
    end = _end_of(text, node)
    end += len(re.split(r"[\r\n]", text[end:], maxsplit=1)[0])
    chunks = [text[here:there].rstrip() for here, there in zip(starts, [*starts[1:], end], strict=True)]
    known = {repr(parse_yaml(margin + chunk)): chunk for chunk in chunks}
    lines = [known.get(repr([item]), "- " + write_value(item)) for item in items]
    between = _line_break(text) + margin
    return str(text[: starts[0]] + between.join(lines) + text[end:])


def _is_empty(node: Node) -> bool:
    """A key without a value: its mark stands wherever the next thing begins."""
    return isinstance(node, ScalarNode) and node.start_mark.index == node.end_mark.index


def _after_colon(text: str, key_node: Node) -> int:
    return text.index(":", key_node.end_mark.index) + 1


def _end_of(text: str, node: Node) -> int:
    """Where a value's own characters end; the mark of a block stands behind the comments that follow it."""
    if getattr(node, "style", None) in ("|", ">"):
        raise CannotEdit
    if not isinstance(node, CollectionNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    if isinstance(node, SequenceNode):
        if _is_empty(node.value[-1]):
            raise CannotEdit
        return _end_of(text, node.value[-1])
    key_node, value_node = node.value[-1]
    return _after_colon(text, key_node) if _is_empty(value_node) else _end_of(text, value_node)


def _insert_after(text: str, place: int, lines: str) -> str:
    """Put lines below the line that holds `place`."""
    end = text.find("\n", place)
    if end < 0:
        return text + _line_break(text) + lines
    return text[: end + 1] + lines + _line_break(text) + text[end + 1 :]


def _write_lines(text: str, keys: Sequence[str], value: Any, indent: int) -> str:
    lines = [" " * (indent + 2 * depth) + _write_text(name) + ":" for depth, name in enumerate(keys)]
    return _line_break(text).join(lines) + " " + write_value(value)


def _line_break(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def write_value(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, str):
        return _write_text(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(write_value, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_write_text(str(name))}: {write_value(item)}" for name, item in value.items()) + "}"
    return json.dumps(value, default=str)


def _write_text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_PLAIN:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in quoted)


def _edit_round_trip(text: str, *changes: tuple[Sequence[Any], Any]) -> str:
    """Let the YAML library rewrite the file with its comments; it may change how other lines are laid out."""
    tree = load_round_trip(text)
    for keys, value in changes:
        _apply_change(tree, keys, value)
    out = io.StringIO()
    _round_tripper().dump(tree, out)
    return out.getvalue()


def load_round_trip(text: str) -> Any:
    """The data with its comments and line numbers."""
    tree = _round_tripper().load(text)
    return _round_tripper().map() if tree is None else tree


def _round_tripper() -> YAML:
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 1 << 20  # never fold a long line
    return yaml


def make_yaml_hold(text: str, wanted: Mapping[Any, Any]) -> str:
    """The text changed so that it holds the wanted data; raises CannotEdit when it does not come out so."""
    before = parse_yaml(text) or {}
    changes = list(_find_changes(before, wanted, ()))
    if any(value is _GONE for _, value in changes):
        text = _edit_round_trip(text, *changes)
    else:
        for keys, value in changes:
            text = set_in_yaml(text, keys, value)
    if changes and parse_yaml(text) != wanted:
        raise CannotEdit
    return text


def carry_over(tree: Mapping[Any, Any], before: Mapping[Any, Any], wanted: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """A copy with what differs between two states of it; what is the same in both, and not in the tree, stays out."""
    for keys, value in _find_changes(before, wanted, ()):
        tree = _without(tree, keys) if value is _GONE else _with_value(tree, keys, value)
    return tree


def drop_from_yaml(text: str, key: str) -> str:
    """The text without this key, and without the sections that it leaves empty; the same text when it has no such."""
    before = parse_yaml(text) or {}
    return make_yaml_hold(text, _without(before, key.split(".")))


def _without(tree: Any, keys: Sequence[str]) -> Any:
    if not isinstance(tree, Mapping) or keys[0] not in tree:
        return tree
    rest = _without(tree[keys[0]], keys[1:]) if keys[1:] else None
    others = {name: value for name, value in tree.items() if name != keys[0]}
    return {**tree, keys[0]: rest} if rest else others


_GONE = object()


def _find_changes(before: Any, wanted: Mapping[Any, Any], path: tuple[Any, ...]) -> Iterator[tuple[Sequence[Any], Any]]:
    """Keys and new values of what differs; `_GONE` for what is left out."""
    yield from ((((*path, name), _GONE)) for name in before if name not in wanted)
    for name, value in wanted.items():
        old = before.get(name)
        if isinstance(value, Mapping) and value and isinstance(old, Mapping | None):
            yield from _find_changes(old or {}, value, (*path, name))
        elif name not in before or repr(old) != repr(value):
            yield (*path, name), value


def _apply_change(tree: Any, keys: Sequence[Any], value: Any) -> None:
    for name in keys[:-1]:
        if tree.get(name) is None:
            tree[name] = {}
        tree = tree[name]
    if value is _GONE:
        del tree[keys[-1]]
    else:
        tree[keys[-1]] = _quote_unseen(value)


def _quote_unseen(value: Any) -> Any:
    """Signs that nobody sees are written out: one of them may be a line's end to whoever reads the file."""
    if isinstance(value, str):
        return value if value.isprintable() else DoubleQuotedScalarString(value)
    if isinstance(value, Mapping):
        return {name: _quote_unseen(item) for name, item in value.items()}
    return list(map(_quote_unseen, value)) if isinstance(value, list) else value


def find_line(tree: Any, keys: Sequence[str]) -> int | None:
    """The line of a key, counted from 1; None when the file does not have it."""
    for name in keys[:-1]:
        tree = tree.get(name) if isinstance(tree, Mapping) else None
    if not isinstance(tree, Mapping) or keys[-1] not in tree:
        return None
    places = tree.lc.data if hasattr(tree, "lc") else None
    return int(places[keys[-1]][0]) + 1 if places and keys[-1] in places else None


# --- .env


def read_env_value(raw: str) -> str:
    """What stands right of `=`: quotes taken off, a comment behind it dropped."""
    quote = raw[:1]
    if quote in ("'", '"'):
        body = re.match(r"'([^']*)'" if quote == "'" else r'"((?:[^"\\]|\\.)*)"', raw)
        if body is not None:
            if quote == "'":
                return body[1]
            return re.sub(r"\\(.)", lambda found: _ENV_ESCAPES.get(found[1], found[1]), body[1])
    return re.split(r"(?:^|\s)#", raw, maxsplit=1)[0].strip()


def write_env_value(value: str) -> str:
    if _PLAIN_ENV.fullmatch(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    for letter, char in _ENV_ESCAPES.items():
        escaped = escaped.replace(char, "\\" + letter)
    return f'"{escaped}"'


def drop_from_env(text: str, name: str) -> str:
    """The text without the lines that set NAME. Nothing at all would look like a file that somebody is writing."""
    lines = text.split("\n")
    left = "\n".join(line for line in lines if not ((found := ENV_LINE.fullmatch(line)) and found[1] == name))
    return left or (text and "\n")


def set_in_env(text: str, name: str, value: str) -> str:
    """The text with NAME set: in its last line of that name, else in a new one at the end."""
    lines = text.split("\n")  # and at no other sign that could count as the end of a line
    own = [number for number, line in enumerate(lines) if (found := ENV_LINE.fullmatch(line)) and found[1] == name]
    if not own:
        gap = "" if not text or text.endswith("\n") else "\n"
        return f"{text}{gap}{name}={write_env_value(value)}\n"
    line = lines[own[-1]]
    start = line.index("=") + 1
    lines[own[-1]] = line[:start] + write_env_value(value) + ("\r" if line.endswith("\r") else "")
    return "\n".join(lines)
