"""Reads the parameters of a call from address and body: a query, a form, JSON, or parts with files."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from typing import Any
from urllib.parse import parse_qsl


@dataclass(frozen=True, slots=True)
class SentFile:
    name: str
    content_type: str
    data: bytes


@dataclass(slots=True)
class Form:
    values: dict[str, Any] = field(default_factory=dict)  # texts, but for a JSON body
    files: dict[str, SentFile] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """For the record: without the bytes of files."""
        shown = {name: {"file": file.name, "size": len(file.data)} for name, file in self.files.items()}
        return {**self.values, **shown}


class BadForm(Exception):
    """The body is not what its content type says."""


def read_form(query: str, content_type: str, body: bytes) -> Form:
    form = Form(dict(_read_pairs(query)))
    kind = content_type.partition(";")[0].strip().lower()
    if not body:
        return form
    if kind == "application/json":
        form.values |= _read_json(body)
    elif kind == "multipart/form-data":
        _read_parts(form, content_type, body)
    elif kind in ("application/x-www-form-urlencoded", ""):
        form.values |= dict(_read_pairs(_decode(body)))
    else:
        raise BadForm(f"A body of type {kind} is not read.")
    return form


def _read_pairs(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=1000)
    except (ValueError, UnicodeDecodeError) as error:
        raise BadForm("The fields are not UTF-8.") from error


def _read_json(body: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(body)
    except ValueError as error:
        raise BadForm("The body is not JSON.") from error
    if not isinstance(found, dict):
        raise BadForm("The body is no object.")
    return found


def _read_parts(form: Form, content_type: str, body: bytes) -> None:
    boundary = read_header(content_type).get_param("boundary")
    if not isinstance(boundary, str) or not boundary:
        raise BadForm("The parts have no boundary.")
    mark = b"--" + boundary.encode("latin-1")
    pieces = (b"\r\n" + body).split(b"\r\n" + mark)
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        raise BadForm("The parts do not end.")
    for piece in pieces[1:-1]:
        head, found, content = piece.partition(b"\r\n\r\n")
        if not found:
            raise BadForm("A part has no head.")
        _read_part(form, _decode(head), content)


def _read_part(form: Form, head: str, content: bytes) -> None:
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head.split("\r\n"))
    }
    disposition = read_header(headers.get("content-disposition", ""))
    name, filename = disposition.get_param("name"), disposition.get_param("filename")
    if not isinstance(name, str):
        raise BadForm("A part has no name.")
    if filename is None:
        form.values[name] = _decode(content)
    else:
        kind = headers.get("content-type", "application/octet-stream")
        form.files[name] = SentFile(str(filename), kind, content)


def read_header(value: str) -> Message:
    """A header with parameters; the first word counts as one of them."""
    message = Message()
    message["content-type"] = value
    return message


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadForm("A field is not UTF-8.") from error
