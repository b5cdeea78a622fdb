"""Turns one outgoing message into the parts that a platform takes: within its limit, with code blocks, tables and
links whole, in its own markup. Nothing here knows a platform by name."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gateway.core.markup.dialects import NO_TEXT, PLAIN, WrittenText, find_dialect, translate, write_literally
from gateway.core.text.blocks import CODE, TABLE, Block, find_blocks
from gateway.core.text.lengths import cut_hard, cut_words, measure
from gateway.core.text.question_text import compose_question
from gateway.platforms.face import Part, PlatformSpec
from hermes_base.inbound import ANSWER, FILE, QUESTION, Outgoing
from hermes_base.turn.consent import label_choices

LONG_MARK, SHORT_MARK = "(sent again: the first may have arrived)", "(again)"
THE_WHOLE = "The whole answer is in this file: it is too long for messages."
LEFT_OUT = "The file {} could not be sent: {} It is kept; `hermes doctor` says where."
_LONGEST_ESCAPE = 8  # times as long as what was typed
_ROOM_FOR_LONG_MARK = 120  # a message shorter than this gets the short one


@dataclass(frozen=True, slots=True)
class TextPiece:
    """What becomes one message: a stretch of the text, between what was added to close and open blocks."""

    opening: str
    body: str
    closing: str = ""

    @property
    def shown(self) -> str:
        text = self.opening + (self.body if self.opening else self.body.lstrip("\n"))
        return text + self.closing if self.closing else text.rstrip("\n")


def split_text(text: str, limit: int, unit: str = "chars") -> list[str]:
    """The messages that `text` becomes; a limit of 0 is none. Blank messages are left out: platforms refuse them."""
    if not limit:
        return [text] if text.strip() else []
    return [shown for piece in cut_pieces(text, limit, unit) if (shown := piece.shown).strip()]


def cut_pieces(text: str, limit: int, unit: str = "chars") -> list[TextPiece]:
    """The pieces; their bodies joined are the text, to the last character."""
    packer = _Packer(limit, unit)
    for block in find_blocks(text):
        packer.add(block)
    return packer.finish()


def write_text(text: str, limit: int, spec: PlatformSpec) -> Iterator[WrittenText]:
    """The messages that markdown becomes in the platform's markup: each of them, with or without markup, is within the
    limit (0: there is none)."""
    for piece in split_text(text, limit, spec.length_unit):
        for written in _write_piece(piece, limit, limit, spec):
            yield from _part_lines(written) if spec.one_line else [written]


def _part_lines(written: WrittenText) -> Iterator[WrittenText]:
    """Each line that says something, for an app whose messages have one."""
    lines, plains, shown = (text.split("\n") for text in (written.text, written.plain, written.shown))
    if not len(lines) == len(plains) == len(shown):
        plains = shown = lines
    for line, plain, seen in zip(lines, plains, shown, strict=True):
        if seen.strip():
            yield WrittenText(line, plain, seen)


def _write_piece(text: str, room: int, limit: int, spec: PlatformSpec) -> Iterator[WrittenText]:
    """One message, or several where the markup of the app makes the text longer: cut at `room` it was short enough
    before."""
    unit, written = spec.length_unit, translate(text, spec.markup)
    fits = not limit or max(measure(written.shown, unit), measure(written.plain, unit)) <= limit
    if fits and not (written.too_many and room > limit // 4):
        yield from [written] if written.text.strip() else []
    elif room > limit // 4:
        for piece in split_text(text, room * 3 // 4, unit):
            yield from _write_piece(piece, room * 3 // 4, limit, spec)
    else:
        for bit in cut_hard(text, max(1, limit // _LONGEST_ESCAPE), unit):
            yield from [write_literally(bit, spec.markup)] if bit.strip() else []


def render_parts(outgoing: Outgoing, spec: PlatformSpec, row: int) -> list[Part]:
    """What is sent for an outbox row, in order. Keys are the same whenever the same row is rendered."""
    texts = list(write_text(_compose_text(outgoing, spec), _room(spec), spec))
    if carries_file(outgoing, spec) and len(texts) != 1:
        texts.append(NO_TEXT)  # a long caption goes ahead of its file
    document = ""
    if _is_flood(len(texts), outgoing, spec):
        document = outgoing.text
        texts[1:] = [write_literally(THE_WHOLE, spec.markup)]
    last = len(texts) - 1
    return [
        Part(
            outgoing.address,
            written.text,
            markup=spec.markup,
            plain=written.plain,
            key=f"{row}:{index}",
            reply_to=outgoing.reply_to if index == 0 else "",
            question=outgoing.question if index == last else "",
            choices=label_choices(outgoing.level, outgoing.choices) if index == last else (),
            row=row,
            document=document if index == last else "",
            outgoing=outgoing,
        )
        for index, written in enumerate(texts)
    ]


def render_without_file(outgoing: Outgoing, spec: PlatformSpec, row: int, why: str) -> list[Part]:
    """The same without the file, which the platform did not take: a word stands in its place, behind those parts that
    may have arrived already. An answer that was to be a file is said in full."""
    if outgoing.file is None or not carries_file(outgoing, spec):
        return render_parts(outgoing, replace(spec, takes_files=False), row)
    *ahead, last = render_parts(outgoing, spec, row)
    word = LEFT_OUT.format(outgoing.file.name, why)
    told = [replace(last, text=one.text, plain=one.plain) for one in write_text(word, _room(spec), spec)]
    said = [last] if last.text.strip() else []
    return [replace(part, key=f"{row}:{index}") for index, part in enumerate([*ahead, *said, *told])]


def _is_flood(messages: int, outgoing: Outgoing, spec: PlatformSpec) -> bool:
    """Whether an answer has so many messages that a file is easier to read."""
    size = len(outgoing.text.encode("utf-8", "replace"))
    fits = spec.takes_files and (not spec.max_file_bytes or size <= spec.max_file_bytes)
    return bool(spec.most_parts) and messages > spec.most_parts and outgoing.kind == ANSWER and fits


def carries_file(outgoing: Outgoing, spec: PlatformSpec) -> bool:
    """Whether the platform takes the file of this message; if not, its text says so."""
    fits = not spec.max_file_bytes or (outgoing.file is not None and outgoing.file.size <= spec.max_file_bytes)
    return outgoing.kind == FILE and outgoing.file is not None and spec.takes_files and fits


def mark_repeated(part: Part, spec: PlatformSpec) -> Part:
    """The part with a visible word that it may be there twice."""
    mark = _mark(spec) + (" " if spec.one_line else "\n")
    return replace(part, text=mark + part.text, plain=mark + part.plain)


def end_question(asked: Part, end: str, spec: PlatformSpec) -> Part:
    """The last part of a question as it stands there when it is over: with how it ended if there is room for that, and
    without buttons."""
    word = write_literally(end, asked.markup)
    over = replace(asked, choices=(), question="", outgoing=None)
    longer = replace(over, text=f"{asked.text}\n\n{word.text}", plain=f"{asked.plain}\n\n{word.plain}")
    shown = find_dialect(asked.markup).shown(longer.text)
    longest = max(measure(text, spec.length_unit) for text in (shown, longer.plain))
    return longer if not spec.max_length or longest <= spec.max_length else over


def make_plain(part: Part) -> Part:
    """The part without markup, for the second try."""
    return replace(part, text=part.plain or part.text, markup=PLAIN)


def _compose_text(outgoing: Outgoing, spec: PlatformSpec) -> str:
    """The text with what the platform cannot show in another way."""
    if outgoing.kind == QUESTION:
        return compose_question(outgoing, has_buttons=spec.has_buttons)
    lines = [outgoing.text]
    if outgoing.kind == FILE and outgoing.file is not None and not carries_file(outgoing, spec):
        why = "it is too large for" if spec.takes_files else "no files can be sent on"
        lines.append(f"The file {outgoing.file.name} stays where it is: {why} {spec.label}.")
    return "\n\n".join(line for line in lines if line)


def _mark(spec: PlatformSpec) -> str:
    return LONG_MARK if not spec.max_length or spec.max_length >= _ROOM_FOR_LONG_MARK else SHORT_MARK


def _room(spec: PlatformSpec) -> int:
    """How long a part may be. Room for the mark is always kept, so that the parts are the same in every attempt."""
    if not spec.max_length or spec.takes_keys:
        return spec.max_length
    return spec.max_length - measure(_mark(spec) + "\n", spec.length_unit)


class _Packer:
    """Fills messages block by block, line by line, word by word: whatever is the largest that fits."""

    def __init__(self, limit: int, unit: str) -> None:
        self._limit = limit
        self._unit = unit
        self._pieces: list[TextPiece] = []
        self._opening = ""
        self._body: list[str] = []
        self._used = 0

    def add(self, block: Block) -> None:
        size = self._size(block.text + block.ending)
        # A block that fits into one message is not cut; one that does not may begin where there is room.
        if self._used + size > self._limit and (size <= self._limit or self._used * 2 > self._limit):
            self._close("")
        if self._used + size <= self._limit:
            self._put(block.text)
            self._close_open_end(block)
        else:
            self._add_lines(block)

    def finish(self) -> list[TextPiece]:
        self._close("")
        return self._pieces

    def _add_lines(self, block: Block) -> None:
        """A block that is longer than a message: cut at line ends, closed and opened again."""
        if self._size(block.lines[0] + block.reopening + block.closing) * 2 > self._limit:
            # What is repeated must not crowd out what is said.
            block = replace(block, reopening="", closing="", ending="")
        last = len(block.lines) - 1
        for index, line in enumerate(block.lines):
            # After its last line a block is closed already, or `ending` closes it.
            after = block.ending if index == last else block.closing
            need = self._size(line + after)
            fits_alone = self._size(block.reopening) + need <= self._limit
            if self._used + need > self._limit and fits_alone:
                self._close(block.closing if index else "")
                self._open(block.reopening if index else "")
            if self._used + need <= self._limit:
                self._put(line)
            else:
                self._add_words(line, block, after)
        self._close_open_end(block)

    def _add_words(self, line: str, block: Block, after: str) -> None:
        """A line that is longer than a message: cut between words, never inside of a link that fits."""
        opening = block.reopening if block.kind == CODE else ""  # a piece of a row under a table's head is no row
        tail = max(self._size(block.closing), self._size(after))
        room = self._limit - self._size(opening) - tail
        for word in cut_words(line):
            for bit in [word] if self._size(word) <= room else cut_hard(word, max(room, 1), self._unit):
                if self._used + self._size(bit) + tail > self._limit:
                    self._close(block.closing)
                    self._open(opening)
                self._put(bit)
        if block.kind == TABLE:
            self._close("")

    def _size(self, text: str) -> int:
        return measure(text, self._unit)

    def _open(self, opening: str) -> None:
        self._opening = opening
        self._used = self._size(opening)

    def _put(self, text: str) -> None:
        self._body.append(text)
        self._used += self._size(text)

    def _close_open_end(self, block: Block) -> None:
        if block.ending:
            self._close(block.ending)

    def _close(self, closing: str) -> None:
        if self._body:
            body = "".join(self._body)
            # The mark that closes a block stands on a line of its own.
            closing = closing.removeprefix("\n") if body.endswith("\n") else closing
            self._pieces.append(TextPiece(self._opening, body, closing))
        self._open("")
        self._body = []
