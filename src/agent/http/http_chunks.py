"""The chunked transfer coding of HTTP/1.1, taken apart as bytes arrive, however they are cut."""

from hermes_base.errors import HermesError

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
