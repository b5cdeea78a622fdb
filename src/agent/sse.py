"""Server-sent events from bytes in any chunking: yields the data of each event, nothing else."""

from collections.abc import Iterable, Iterator

DONE = b"[DONE]"


def iter_event_data(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines may end in LF, CRLF or CR; a comment or another field is passed over; an event ends at an empty line.

    An event that is cut before its empty line is not yielded: half a line is never taken for a whole one.
    """
    data: list[bytes] = []
    for line in _iter_lines(chunks):
        if not line:
            if data:
                yield b"\n".join(data)
                data.clear()
        elif line.startswith(b"data:"):
            data.append(line[6:] if line[5:6] == b" " else line[5:])


def _iter_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    after_cr = False
    for chunk in chunks:
        if after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
        if not chunk:
            continue
        after_cr = chunk[-1:] == b"\r"
        lines = (rest + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        rest = lines.pop()
        yield from lines
