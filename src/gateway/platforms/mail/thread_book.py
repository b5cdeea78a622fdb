"""What has to be known of threads after a restart: their subjects and ids, how far the mailbox was read, and the secret
that our own ids are made with. Small files in the home; every call touches the disk: none is for the event loop."""

import hashlib
import hmac
import json
import logging
import os
import re
import secrets
from collections import OrderedDict
from dataclasses import asdict, dataclass
from pathlib import Path

_log = logging.getLogger(__name__)
MOST_THREADS = 5_000  # that are kept; the oldest go
MOST_IN_MEMORY = 500
MOST_IDS = 12  # of a thread: the first, and the newest
PLACE, SECRET, THREADS = "place.json", "secret", "threads"
_OWN_ID = re.compile(r"h\.([a-f0-9]{16}|0)\.([a-f0-9]{12})\.([A-Za-z0-9_-]{1,80})\.([a-f0-9]{12})@[^@\s<>]+")
_NO_QUESTION = "0"


@dataclass(frozen=True, slots=True)
class ThreadHead:
    subject: str
    ids: tuple[str, ...]  # of its mails, the oldest first, without brackets


@dataclass(frozen=True, slots=True)
class ReadPlace:
    """How far a mailbox was read."""

    box: str  # which one it is
    validity: int  # UIDVALIDITY: whose numbers these are
    uid: int
    at: float  # when that was
    aside: tuple[int, ...] = ()  # numbers up to there that the server did not hand out


@dataclass(frozen=True, slots=True)
class OwnId:
    """What one of our own Message-IDs says."""

    thread: str
    question: str


class OwnIds:
    """Makes Message-IDs that we know again, and nobody else can make. Pure."""

    def __init__(self, secret: bytes, domain: str) -> None:
        self._secret = secret
        self._domain = domain

    def make(self, thread: str, key: str, text: str, question: str = "") -> str:
        """The same for a repetition. The text is part of it: after a restored back-up a key may come again."""
        unique = self._sign("unique", key, text)[:12] if key else secrets.token_hex(6)
        asked = question if re.fullmatch(r"[A-Za-z0-9_-]{1,80}", question) else _NO_QUESTION
        signed = self._sign("id", thread, unique, asked)[:12]
        return f"h.{thread or '0'}.{unique}.{asked}.{signed}@{self._domain}"

    def read(self, message: str) -> OwnId | None:
        """What it says; None: it is not ours."""
        found = _OWN_ID.fullmatch(message)
        if found is None:
            return None
        thread, unique, asked, signed = found.groups()
        thread = "" if thread == "0" else thread
        if not hmac.compare_digest(signed, self._sign("id", thread, unique, asked)[:12]):
            return None
        return OwnId(thread, "" if asked == _NO_QUESTION else asked)

    def _sign(self, *words: str) -> str:
        said = "\n".join(words).encode("utf-8", "surrogatepass")
        return hmac.new(self._secret, said, hashlib.sha256).hexdigest()


class ThreadBook:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: OrderedDict[str, ThreadHead] = OrderedDict()

    def open(self) -> bytes:
        """Make the folder; the secret of this mailbox."""
        (self._folder / THREADS).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._drop_old()
        path = self._folder / SECRET
        try:
            return bytes.fromhex(path.read_text("ascii"))
        except (FileNotFoundError, ValueError):
            secret = secrets.token_bytes(32)
            self._write(path, secret.hex())
            return secret

    # --- how far

    def read_place(self) -> ReadPlace | None:
        try:
            fields = json.loads((self._folder / PLACE).read_text("utf-8"))
            return ReadPlace(**{**fields, "aside": tuple(map(int, fields.get("aside", ())))})
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, AttributeError):
            _log.error("%s cannot be read; the mailbox is read from now on.", self._folder / PLACE)
            return None

    def keep_place(self, place: ReadPlace) -> None:
        self._write(self._folder / PLACE, json.dumps(asdict(place)))

    # --- threads

    def find(self, chat: str, thread: str) -> ThreadHead | None:
        name = _name_file(chat, thread)
        if name not in self._known:
            try:
                fields = json.loads((self._folder / THREADS / name).read_text("utf-8"))
                self._remember(name, ThreadHead(str(fields["subject"]), tuple(map(str, fields["ids"]))))
            except (FileNotFoundError, ValueError, TypeError, KeyError):
                return None
        return self._known.get(name)

    def note(self, chat: str, thread: str, head: ThreadHead) -> None:
        """For this process; `keep` writes it down."""
        first, newest = head.ids[:1], head.ids[1:]
        self._remember(_name_file(chat, thread), ThreadHead(head.subject, (*first, *newest[-(MOST_IDS - 1) :])))

    def keep(self, chat: str, thread: str) -> bool:
        """Write down what was noted; whether something was written down before."""
        head, path = self.find(chat, thread), self._folder / THREADS / _name_file(chat, thread)
        existed = path.exists()
        if head is not None:
            self._write(path, json.dumps(asdict(head)))
        return existed

    def drop(self, chat: str, thread: str) -> None:
        (self._folder / THREADS / _name_file(chat, thread)).unlink(missing_ok=True)

    def _remember(self, name: str, head: ThreadHead) -> None:
        self._known[name] = head
        self._known.move_to_end(name)
        while len(self._known) > MOST_IN_MEMORY:
            self._known.popitem(last=False)

    def _drop_old(self) -> None:
        files = [(entry.stat().st_mtime, entry.path) for entry in os.scandir(self._folder / THREADS)]
        for _, path in sorted(files, reverse=True)[MOST_THREADS:]:
            os.unlink(path)

    def _write(self, path: Path, text: str) -> None:
        """Whole or not at all."""
        draft = path.with_name(f"{path.name}.new")
        with open(draft, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)


def name_thread(root: str) -> str:
    """A thread, by the id of the mail that began it."""
    return hashlib.sha256(root.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _name_file(chat: str, thread: str) -> str:
    return hashlib.sha256(f"{chat}\n{thread}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
