"""The one exception tree.

HermesError                 says what happened, what was kept and what to do
├── ConfigProblem           the owner can fix it (settings, keys, files)
├── ModelFailure            a model call failed; the turn's rules decide what comes next
├── ToolFailure             goes back to the model as text
├── DeliveryFailure         a platform did not take a message
└── StoreFailure            the store is locked, full, damaged or newer than this program
    ├── StoreAway           its database is not there now; it may come back by itself
    ├── Fenced              someone else wrote meanwhile: nothing of yours was written
    └── HomeBusy            another process owns this home

Interrupted stands beside the tree: the turn was told to stop. It is no error, so no handler of errors swallows it.
"""

import time
from enum import StrEnum


class HermesError(Exception):
    """What happened in one sentence; `kept` and `fix` add what was kept and what to do."""

    def __init__(self, what: str, *, kept: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.kept = kept
        self.fix = fix

    def __str__(self) -> str:
        return " ".join(part for part in (self.what, self.kept, self.fix) if part)


class ConfigProblem(HermesError):
    """A setting, key or file that the owner can put right."""


class ToolFailure(HermesError):
    """A tool could not do what it was asked; the model reads the sentence."""


class DeliveryFailure(HermesError):
    """A platform did not take a message."""


class Interrupted(BaseException):
    """The turn was told to stop; `what` says by whom. Only the turn itself, a tool's boundary and whoever made the
    token catch it: a plugin, a retry or a summary that met it has nothing left to do."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


#: What a boundary to other people's code lets through. All else that such code raises is its failure, also what is no
#: `Exception`: a tool may call `sys.exit()` or be a cancelled task.
STOPS = (Interrupted, KeyboardInterrupt)


class StoreFailure(HermesError):
    """The store cannot be used as asked; nothing was half written."""


class StoreAway(StoreFailure):
    """The database is not there now. It may be again without anybody doing something: whoever can wait asks again."""


class Fenced(StoreFailure):
    """Another writer moved the transcript on; nothing of this write was stored."""


class AtWork(StoreFailure):
    """Messages of the conversation are being answered, so its session stays the one that it goes on in."""


class HomeBusy(StoreFailure):
    """Another process owns this home folder."""

    def __init__(self, what: str, *, pid: int, since: float, fix: str = "") -> None:
        super().__init__(what, fix=fix)
        self.pid = pid
        self.since = since


class FailureKind(StrEnum):
    """What a failed model call calls for."""

    RETRY = "retry"  # the same call again, after a pause
    ROTATE = "rotate"  # this key does not do; the next in the chain, which may be another key of the same provider
    NEXT = "next"  # another provider
    OVERFLOW = "overflow"  # the request is too long: compact and try again
    FIX = "fix"  # the request itself is refused: no provider would take it
    STOP = "stop"  # nobody but the owner can put it right


class Concern(StrEnum):
    """What a failed model call says something about; whatever is not meant goes on being used."""

    REQUEST = "request"  # this one request: the next one may go through
    PICTURE = "picture"  # a picture in the request: it would be refused with every later message, too
    TEXT = "text"  # the words of the request: likewise
    MODEL = "model"  # this model, asked for with this key at this address
    KEY = "key"  # this key at this address, whatever the model
    ADDRESS = "address"  # nobody answers there


class ModelFailure(HermesError):
    """A model call failed; `kind` says what it calls for, `concern` what is not well."""

    def __init__(
        self,
        what: str,
        *,
        kind: FailureKind = FailureKind.STOP,
        status: int | None = None,
        retry_after: float | None = None,
        fix: str = "",
        transport: bool = False,
        concern: Concern = Concern.REQUEST,
    ) -> None:
        super().__init__(what, fix=fix)
        self.kind = kind
        self.status = status
        self.retry_after = retry_after
        self.transport = transport
        self.concern = concern
        self.began = False  # the answer had begun, so the call is paid for
        self.stalled = False  # it was noticed by waiting: to try the same again would cost the same wait
        self.at = time.monotonic()  # when it was detected: the tries of a step share a clock
