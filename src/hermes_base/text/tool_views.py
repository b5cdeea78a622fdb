"""A tool's call and what came back, as people read them: one table by the tool's name, then by the shape of the value.

Pure. The page draws the parts, the terminal and chats read them as plain text. Raw JSON is the last resort.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

TEXT, OUTPUT, CODE, DIFF, LIST, JSON = "text", "output", "code", "diff", "list", "json"
CALL, RESULT = "call", "result"
#: Tools whose parts hold a patch.
PATCHES = frozenset({"patch"})
_MARKS = {"done": "☑", "completed": "☑", "in_progress": "▶", "cancelled": "☒"}
#: The argument that says most, for one line on a call.
_MAIN = ("command", "path", "url", "query", "question", "pattern", "words", "code", "name", "action")
_SCALARS = (str, int, float, bool)

Fields = Mapping[str, Any]
Viewer = Callable[[Fields], "Iterator[ToolPart]"]


@dataclass(frozen=True, slots=True)
class ToolPart:
    """A piece of a call or of its result; lines of a list stand one below the other in `text`."""

    kind: str  # text, output, code, diff, list, json
    text: str
    label: str = ""
    of: str = RESULT  # call, result


# --- calls


def show_call(name: str, args: Fields) -> str:
    """What a tool was called with, in the words that say most; one line is for whoever shows it to cut."""
    if name in PATCHES:
        return ", ".join(dict.fromkeys(str(edit.get("path") or "") for edit in _rows(args, "edits"))).strip(", ")
    main = next((args[key] for key in _MAIN if isinstance(args.get(key), str) and args[key].strip()), None)
    if main is not None:
        return str(main)
    plain = [f"{key}: {value}" for key, value in args.items() if isinstance(value, _SCALARS)]
    return ", ".join(plain) if len(plain) == len(args) else _dump(args)


def view_call(name: str, args: Fields) -> tuple[ToolPart, ...]:
    viewer = _CALLS.get(name, _view_fields)
    return tuple(replace(part, of=CALL) for part in viewer(args) if part.text)


def _view_command(args: Fields) -> Iterator[ToolPart]:
    yield ToolPart(CODE, str(args.get("command") or ""), str(args.get("action") or ""))


def _view_written(args: Fields) -> Iterator[ToolPart]:
    yield ToolPart(CODE, str(args.get("content") or ""), str(args.get("path") or ""))


def _view_patch(args: Fields) -> Iterator[ToolPart]:
    for edit in _rows(args, "edits"):
        whole = str(edit.get("diff") or "") or "\n".join(
            [*_prefix("-", edit.get("old")), *_prefix("+", edit.get("new"))]
        )
        yield ToolPart(DIFF, whole, str(edit.get("path") or ""))


def _view_question(args: Fields) -> Iterator[ToolPart]:
    yield ToolPart(TEXT, str(args.get("question") or ""))
    choices = args.get("choices")
    yield ToolPart(LIST, "\n".join(map(str, choices)) if isinstance(choices, list) else "")


def _view_wanted(args: Fields) -> Iterator[ToolPart]:
    if _rows(args, "items"):
        yield from _view_todo(args)
    yield from _view_rest(args, "items")


def _rows(value: Fields, key: str) -> list[Fields]:
    """The objects of a list, whatever really stands there."""
    rows = value.get(key)
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _prefix(sign: str, text: object) -> list[str]:
    return [f"{sign}{line}" for line in text.split("\n")] if isinstance(text, str) and text else []


# --- results


def view_outcome(name: str, args: Fields, result: str) -> tuple[ToolPart, ...]:
    """What came of a call, for who does not see the whole call: the result of a patch says only that it was done."""
    return (*view_result(name, result), *(_view_patch(args) if name in PATCHES else ()))


def view_result(name: str, result: str) -> tuple[ToolPart, ...]:
    """What came back."""
    value = read_object(result)
    if value is None:
        kind = CODE if name == "read_file" else DIFF if result.startswith(("--- ", "diff --git")) else TEXT
        return (ToolPart(kind, result),)
    if isinstance(value.get("error"), str):
        found = (ToolPart(TEXT, value["error"], "failed"), *_view_rest(value, "error"))
    else:
        found = tuple(_RESULTS.get(name, _view_fields)(value))
    return tuple(part for part in found if part.text) or (ToolPart(TEXT, "nothing"),)


def _view_output(value: Fields) -> Iterator[ToolPart]:
    """What a command wrote, as it wrote it; its exit code where it says something."""
    code = value.get("exit_code")
    label = f"exit code {code}" if isinstance(code, int) and code else ""
    output = str(value.get("output") or "")
    yield ToolPart(OUTPUT, output or ("" if label else "(no output)"), label)
    if label and not output:
        yield ToolPart(TEXT, label)
    yield from _view_rest(value, "output", "exit_code", "folder")


def _view_todo(value: Fields) -> Iterator[ToolPart]:
    marked = (f"{_MARKS.get(str(item.get('status')), '☐')} {item.get('text', '')}" for item in _rows(value, "items"))
    yield ToolPart(LIST, "\n".join(marked) or str(value.get("note") or "The list is empty."))


def _view_answer(value: Fields) -> Iterator[ToolPart]:
    yield ToolPart(TEXT, str(value.get("answer") or "Nobody answered."))


def _view_found(value: Fields) -> Iterator[ToolPart]:
    said = [hit for session in _rows(value, "sessions") for hit in _rows(session, "said")]
    lines = (f"{hit.get('when', '')} {hit.get('by', '')}: {hit.get('excerpt', '')}" for hit in said)
    yield ToolPart(LIST, "\n".join(lines) or str(value.get("note") or "Nothing was found."))


def _view_process(value: Fields) -> Iterator[ToolPart]:
    if "output" in value:
        yield from _view_output(value)
    elif "processes" in value:
        running = _rows(value, "processes")
        rows = (f"{one.get('id', '')} {one.get('state', '')}: {one.get('command', '')}" for one in running)
        yield ToolPart(LIST, "\n".join(rows) or "No process runs.")
    else:
        yield from _view_fields(value)


def _view_memory(value: Fields) -> Iterator[ToolPart]:
    yield ToolPart(TEXT, str(value.get("done") or ""))
    yield ToolPart(CODE, str(value.get("notes") or ""), str(value.get("file") or ""))


def _view_skills(value: Fields) -> Iterator[ToolPart]:
    skills = value.get("skills")
    if isinstance(skills, Mapping):
        yield ToolPart(LIST, "\n".join(f"{name}: {told}" for name, told in skills.items()) or str(value.get("note")))
    elif isinstance(value.get("text"), str):
        yield ToolPart(CODE, value["text"], str(value.get("file") or ""))
    else:
        yield from _view_fields(value)


def _view_page(value: Fields) -> Iterator[ToolPart]:
    """The page as it reads, under its title; the model's places in it say nothing to people."""
    yield ToolPart(CODE, str(value.get("text") or ""), str(value.get("title") or value.get("url") or ""))
    yield ToolPart(TEXT, str(value.get("note") or ""))


def _view_hits(value: Fields) -> Iterator[ToolPart]:
    lines = (f"{hit.get('title', '')}: {hit.get('url', '')}" for hit in _rows(value, "results"))
    yield ToolPart(LIST, "\n".join(lines) or str(value.get("note") or "Nothing was found."))


def _view_rest(value: Fields, *known: str) -> Iterator[ToolPart]:
    yield from _view_fields({key: each for key, each in value.items() if key not in known})


def _view_fields(value: Fields) -> Iterator[ToolPart]:
    """Any object: its plain fields as lines, texts of several lines as they are, and the rest as JSON."""
    known = {key: each for key, each in value.items() if each not in (None, "", [], {})}
    plain = {key: each for key, each in known.items() if isinstance(each, _SCALARS) and "\n" not in str(each)}
    yield ToolPart(LIST, "\n".join(f"{key}: {each}" for key, each in plain.items()))
    for key, each in known.items():
        if key in plain:
            continue
        if isinstance(each, str):
            yield ToolPart(CODE, each, key)
        elif isinstance(each, list) and all(isinstance(one, _SCALARS) for one in each):
            yield ToolPart(LIST, "\n".join(map(str, each)), key)
        else:
            yield ToolPart(JSON, _dump(each, indent=2), key)


_CALLS: Mapping[str, Viewer] = MappingProxyType(
    {
        "terminal": _view_command,
        "write_file": _view_written,
        "patch": _view_patch,
        "clarify": _view_question,
        "todo": _view_wanted,
    }
)
_RESULTS: Mapping[str, Viewer] = MappingProxyType(
    {
        "terminal": _view_output,
        "process": _view_process,
        "todo": _view_todo,
        "clarify": _view_answer,
        "session_search": _view_found,
        "memory": _view_memory,
        "skills": _view_skills,
        "web_extract": _view_page,
        "web_search": _view_hits,
    }
)


# --- plain text


def write_plain(parts: Sequence[ToolPart], most: int) -> str:
    """The parts as text, at most so long."""
    pieces = []
    for part in parts:
        head = f"{part.label}\n" if part.label and part.kind != TEXT else ""
        pieces.append(head + part.text.rstrip("\n"))
    return cut("\n".join(pieces), most)


def cut_parts(parts: Sequence[ToolPart], most: int) -> tuple[ToolPart, ...]:
    """The parts, together at most so long."""
    kept: list[ToolPart] = []
    for part in parts:
        if most <= 0:
            break
        kept.append(replace(part, text=cut(part.text, most)))
        most -= len(part.text)
    return tuple(kept)


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def read_object(text: str) -> Fields | None:
    """The JSON object that a text is; None: it is something else."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _dump(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, default=str)
