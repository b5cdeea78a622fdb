"""Directives in the newest user message, such as `[[tool NAME {"json": "args"}]]`, that say what the model answers."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hermes_lab.plan import Fault, PlannedCall, Step
from hermes_lab.values import Ask, Finish, Problem, Refused

_OPENING = re.compile(r"\[\[([a-z]+)(?=[\s\]])")
_CALL = re.compile(r"\s*([^\s\]{]+)\s*")
_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")
_JSON = json.JSONDecoder()

Draft = dict[str, Any]  # fields of the step that is being read


def read_script(ask: Ask) -> Step | None:
    """The step that the newest user message asks for in this round; None when it asks for nothing."""
    if "[[" not in ask.user_text:
        return None
    drafts: list[Draft] = [{}]
    for name, content in _find_directives(ask.user_text):
        if name == "then":
            drafts.append({})
        elif name != "tool":
            _apply(name, content, drafts[-1])
        elif ask.has_tools:  # a model that was offered no tools cannot call one (summaries quote old scripts)
            _plan_call(content, drafts[-1])
    draft = drafts[ask.round] if ask.round < len(drafts) else {}
    return Step(**draft) if draft else None


def _find_directives(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while opening := _OPENING.search(text, at):
        at = opening.end()
        name = opening.group(1)
        if name not in _DIRECTIVES and name not in ("tool", "then"):
            continue
        end = _find_end(text, at, name)
        if end < 0:
            continue
        yield name, text[at:end].strip()
        at = end + 2


def _find_end(text: str, at: int, name: str) -> int:
    """Where the closing brackets stand; brackets inside the JSON of a tool call do not close it."""
    if name == "tool" and (call := _CALL.match(text, at)):
        try:
            _, json_end = _JSON.raw_decode(text, call.end())
        except ValueError:  # no JSON, or broken on purpose: the next brackets close it
            return text.find("]]", at)
        rest = text[json_end:]
        if rest.lstrip().startswith("]]"):
            return json_end + len(rest) - len(rest.lstrip())
    return text.find("]]", at)


def _plan_call(content: str, draft: Draft) -> None:
    call = _CALL.match(content)
    if call is None:
        raise _refuse("tool", content, "a tool name and a JSON object")
    planned = PlannedCall(call.group(1), content[call.end() :] or "{}")
    draft["tool_calls"] = (*draft.get("tool_calls", ()), planned)


def _apply(name: str, content: str, draft: Draft) -> None:
    apply, wanted = _DIRECTIVES[name]
    try:
        apply(content, draft)
    except ValueError as error:
        raise _refuse(name, content, wanted) from error


def _refuse(name: str, content: str, wanted: str) -> Refused:
    message = f"lab script: [[{name} {content}]] needs {wanted}."
    return Refused(Problem(400, message, "lab_script_error", "lab_script_error"))


def _say(content: str, draft: Draft) -> None:
    draft["text"] = f"{draft['text']}\n{content}" if "text" in draft else content


def _reason(content: str, draft: Draft) -> None:
    draft["reasoning"] = content


def _hide(content: str, draft: Draft) -> None:
    draft.update(reasoning=content, hide_reasoning=True)


def _fail(content: str, draft: Draft) -> None:
    """`STATUS`, then seconds for Retry-After or an error code, in any order."""
    status, *details = content.split()
    headers = tuple(("retry-after", detail) for detail in details if _SECONDS.fullmatch(detail))
    code = next((detail for detail in details if not _SECONDS.fullmatch(detail)), None)
    draft["fault"] = Fault(status=_read_whole(status, 400, 599), code=code, headers=headers)


def _set_chunks(content: str, draft: Draft) -> None:
    draft["chunks"] = _read_whole(content, 1, 1_000_000)


def _cut(content: str, draft: Draft) -> None:
    draft["fault"] = Fault(cut_after_chunks=_read_whole(content, 0, 1_000_000))


def _break_off(content: str, draft: Draft) -> None:
    """`NUMBER` of events, then a status or an error code."""
    number, *details = content.split()
    status = next((_read_whole(detail, 400, 599) for detail in details if detail.isdecimal()), None)
    code = next((detail for detail in details if not detail.isdecimal()), None)
    draft["fault"] = Fault(error_after_chunks=_read_whole(number, 0, 1_000_000), status=status, code=code)


def _stall(content: str, draft: Draft) -> None:
    draft["stall_first"] = _read_seconds(content)


def _pause(content: str, draft: Draft) -> None:
    draft["stall_between"] = _read_seconds(content)


def _end_by(finish: Finish) -> Callable[[str, Draft], None]:
    def end(content: str, draft: Draft) -> None:
        if content:
            raise ValueError(content)
        draft["finish_reason"] = finish

    return end


def _read_whole(text: str, least: int, most: int) -> int:
    number = int(text)
    if not least <= number <= most:
        raise ValueError(text)
    return number


def _read_seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds <= 86_400:
        raise ValueError(text)
    return seconds


_DIRECTIVES: Mapping[str, tuple[Callable[[str, Draft], None], str]] = {
    "say": (_say, "a text"),
    "reason": (_reason, "a text"),
    "hide": (_hide, "a text"),
    "error": (_break_off, "a number of events, then perhaps a status from 400 to 599 or an error code"),
    "fail": (_fail, "a status from 400 to 599, then perhaps seconds (Retry-After) or an error code"),
    "chunks": (_set_chunks, "a whole number of at least 1"),
    "cut": (_cut, "a whole number of at least 0"),
    "stall": (_stall, "seconds from 0 to 86400"),
    "pause": (_pause, "seconds from 0 to 86400"),
    "length": (_end_by(Finish.LENGTH), "nothing after its name"),
    "refuse": (_end_by(Finish.CONTENT_FILTER), "nothing after its name"),
}
