"""JSON in and out, the same for all formats."""

import json
from typing import Any, NoReturn

from hermes_lab.prompt import Block, make_block
from hermes_lab.values import Problem, Refused

CREATED = 1_700_000_000  # a fixed time: the same request gets the same bytes
_UNREADABLE = "We could not parse the JSON body of your request: "

# One encoder for all: `json.dumps` with options would build one for each chunk.
write_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def parse_body(body: bytes) -> object:
    try:
        text = body.decode("utf-8")
        value = json.loads(text, parse_constant=_refuse_constant)
        if "\\ud" in text or "\\uD" in text:
            write_json(value).encode("utf-8")  # half of a surrogate pair has no bytes: it could not be sent back
    except UnicodeEncodeError as error:
        raise Refused(Problem(400, f"{_UNREADABLE}it holds half of a surrogate pair.")) from error
    except (ValueError, RecursionError) as error:
        raise Refused(Problem(400, f"{_UNREADABLE}{error}.")) from error
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def encode_block(value: Any, life: float = 0.0, images: tuple[str, ...] = (), prefix: bytes = b"") -> Block:
    """A block of the prompt; `prefix` tells equal blocks of different roles apart and is not counted."""
    block = make_block(write_json(value).encode(), life, images)
    return block._replace(data=prefix + block.data) if prefix else block


def encode_text_block(text: str, life: float, prefix: bytes) -> Block:
    """The same for a part of type text, the most frequent one."""
    block = make_block(f'{{"type":"text","text":{write_json(text)}}}'.encode(), life)
    return block._replace(data=prefix + block.data)
