"""What a process knows of a conversation that is watched here while another process works on it, and what it makes of
each piece that it is told and of each look at the store. Pure."""

from dataclasses import dataclass, field
from enum import Enum, auto

from gateway.delivery.live_pieces import LivePiece
from gateway.platforms.face import Begun, Dealt, Heard
from hermes_state.turns import ConversationStand


class PieceVerdict(Enum):
    """What a piece is."""

    TAKE = auto()  # the next one
    LOOK = auto()  # it says that the store has more
    MISSING = auto()  # something before it did not come
    DROP = auto()  # it came before, or too late, or its claim holds no more


@dataclass(eq=False, slots=True)
class Following:
    epoch: int = 0  # of the pieces that were taken, or of a newer claim that is known
    number: int = 0  # of the last piece; 0: none of this epoch came
    behind: bool = False  # something is missing, until the picture comes
    standing: ConversationStand | None = None  # at the last look
    open: set[int] = field(default_factory=set)  # messages that are not dealt with, as the pieces tell it
    doubt: frozenset[int] | None = None  # what the store had open when that was not the same

    @property
    def is_told(self) -> bool:
        """Whether the pieces have come so far, each of them."""
        return bool(self.number) and not self.behind

    def judge(self, piece: LivePiece) -> PieceVerdict:
        """What the piece is; what it says counts from here on."""
        if piece.epoch == 0:
            return self._count(piece)
        if piece.epoch < self.epoch or (piece.epoch == self.epoch and 0 < piece.number <= self.number):
            return PieceVerdict.DROP
        if piece.epoch > self.epoch:
            self.epoch, self.number = piece.epoch, 0
        # Who begins to listen has read in the store what was before; only of a turn under way there is more.
        begins = not piece.after or not piece.turn or isinstance(next(iter(piece.events), None), Begun)
        if piece.look:
            return PieceVerdict.LOOK
        if self.behind or not (piece.after == self.number if self.number else begins):
            self.behind = True
            return PieceVerdict.MISSING
        self.number = piece.number
        return self._count(piece)

    def _count(self, piece: LivePiece) -> PieceVerdict:
        for event in piece.events:
            match event:
                case Heard(seq):
                    self.open.add(seq)
                case Begun(seqs):
                    self.open.update(seqs)
                case Dealt(seqs):
                    self.open.difference_update(seqs)
        return PieceVerdict.TAKE

    def catch_up(self, epoch: int, number: int) -> bool:
        """All up to this piece is known from the store; False: more is known already."""
        if epoch < self.epoch or (epoch == self.epoch and number < self.number):
            return False
        self.epoch, self.number, self.behind = epoch, number, False
        return True

    def look(self, now: ConversationStand, *, hears: bool) -> bool:
        """Whether the store has something that nobody has told. What is told comes a moment after it was stored, so
        whoever hears waits for it from one look to the next."""
        before, self.standing = self.standing, now
        if now.epoch > self.epoch:
            self.epoch, self.number, self.behind = now.epoch, 0, False
        is_told = before is not None and hears and self.is_told
        if is_told and self.open == now.open:
            self.doubt = None
            return False
        if is_told and self.doubt != now.open:
            self.doubt = now.open
            return False
        self.open, self.doubt = set(now.open), None
        # At the first look there may be more than was read before it, unless nobody has ever spoken there.
        return is_told or (before or ConversationStand()) != now

    def adopt(self, now: ConversationStand) -> bool:
        """It is worked on here: what happens is seen as it happens. Whether it goes on in another session now."""
        before, self.standing = self.standing, now
        self.epoch, self.number, self.behind = now.epoch, 0, False
        self.open, self.doubt = set(now.open), None
        return before is not None and before.session not in ("", now.session)
