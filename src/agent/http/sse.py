"""Server-sent events from bytes in any chunking: yields the data of each event, nothing else."""

from collections.abc import Iterable, Iterator

from agent.providers.wire_limits import MOST_PIECE_BYTES, NotUnderstood

DONE = b"[DONE]"


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
