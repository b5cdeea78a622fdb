"""How an answer is cut on its way, taken apart as bytes arrive, however they are cut: the chunks of HTTP/1.1, and the
server-sent events in them, and the JSON of each."""

from collections.abc import Iterable, Iterator
from typing import Any

from agent.providers.wire_limits import (
    MOST_DEPTH,
    MOST_PIECE_BYTES,
    NotUnderstood,
    is_shallow,
    read_json,
    scan_json,
)
from hermes_base.errors import HermesError

DONE = b"[DONE]"
#: The line before a chunk holds its size and perhaps a word; a trailer is a header.
MOST_LINE_BYTES = 65_536


class BrokenFraming(HermesError):
    """The bytes are not what the coding allows."""


class ChunkDecoder:
    """Feed it what was received; it gives back the payload, and knows when the body is over."""

    def __init__(self) -> None:
        self._rest = b""
        self._left = 0  # bytes of the current chunk that are still to come, its line end included
        self._in_trailer = False
        self.done = False

    def feed(self, data: bytes) -> bytes:
        payload: list[bytes] = []
        data = self._rest + data if self._rest else data
        place, end = 0, len(data)
        while place < end and not self.done:
            if self._left:
                stop = place + self._left  # the last two bytes of a chunk are its line end
                if place < stop - 2:
                    payload.append(data[place : min(stop - 2, end)])
                self._left = max(0, stop - end)
                place = min(stop, end)
                continue
            line_end = data.find(b"\r\n", place)
            if line_end < 0:
                if end - place > MOST_LINE_BYTES:
                    raise BrokenFraming("A line between chunks does not end.")
                break
            size = self._take_line(data[place:line_end])
            place = line_end + 2
            if size and place + size <= end:  # the whole chunk is here
                payload.append(data[place : place + size - 2])
                place += size
            else:
                self._left = size
        self._rest = data[place:]
        return payload[0] if len(payload) == 1 else b"".join(payload)

    def _take_line(self, line: bytes) -> int:
        """What the line announces: the bytes of a chunk, its line end included."""
        if self._in_trailer:
            self.done = not line  # trailers are passed over; an empty line ends them
            return 0
        try:
            size = int(line.partition(b";")[0] if b";" in line else line, 16)
        except ValueError as problem:
            raise BrokenFraming(f"A chunk has no size ({line[:40]!r}).") from problem
        if size < 0:
            raise BrokenFraming("A chunk has a negative size.")
        self._in_trailer = not size
        return size + 2 if size else 0


def iter_event_data(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines may end in LF, CRLF or CR; a comment or another field is passed over; an event ends at an empty line.

    An event that is cut before its empty line is not yielded: half a line is never taken for a whole one.
    """
    rest = b""
    for block in blocks:
        rest = rest + block if rest else block
        if len(rest) > MOST_PIECE_BYTES:
            raise NotUnderstood(f"one event of more than {MOST_PIECE_BYTES:,} bytes")
        held = b""
        if b"\r" in rest:
            # Plain line ends; a CR at the very end is held back, since its LF may still come.
            held = b"\r" if rest[-1:] == b"\r" else b""
            rest = rest[: len(rest) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events = rest.split(b"\n\n")
        rest = events.pop() + held
        for event in events:
            # Nearly every event is one line of data; the others are looked at line by line.
            data = event[6:] if event[:6] == b"data: " and b"\n" not in event else _data_of(event)
            if data:
                yield data
    if rest[-1:] == b"\r":
        for event in rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n\n")[:-1]:
            data = _data_of(event)
            if data:
                yield data


def _data_of(event: bytes) -> bytes:
    """The data lines of an event; a line that ends an earlier event may stand before them."""
    lines = (line[5:] for line in event.split(b"\n") if line.startswith(b"data:"))
    return b"\n".join(line[1:] if line[:1] == b" " else line for line in lines)


def read_piece(data: bytes) -> dict[str, Any]:
    """One piece of an answer, which is a JSON object in every format; NotUnderstood."""
    try:
        piece = scan_json(data.decode(), 0)[0] if data[:1] == b"{" else read_json(data.decode("utf-8-sig"))
    except (ValueError, StopIteration, RecursionError) as error:
        raise NotUnderstood(f"no JSON: {_quote(data)}") from error
    if not isinstance(piece, dict):
        raise NotUnderstood(f"no JSON object: {_quote(data)}")
    if data.count(b"[") + data.count(b"{") > MOST_DEPTH and not is_shallow(piece):
        raise NotUnderstood("JSON that is nested too deeply")
    return piece


def _quote(data: bytes) -> str:
    return data[:120].decode("utf-8", "replace")
