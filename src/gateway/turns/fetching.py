"""Fetches the files that came with a message from its platform, before the message has its turn.

They are written below the folder of whoever the conversation belongs to, each in a folder whose name follows from the
message: after a restart what is there is not fetched again. A file is whole when it has its name. What cannot be had is
told to the person and to the model, and the turn goes on without it.

Of several gateways the one that has the account fetches, whoever works on the conversation: that one asks for it by a
hint, and finds the file where gateways that share a store keep files.
"""

import asyncio
import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from gateway.core.bursts import Item
from gateway.core.people import scope_of
from gateway.platforms.backoff import Pauses
from gateway.platforms.face import Adapter, NeverTaken, NotNow
from gateway.turns.run_turn import GatewayParts
from gateway.turns.sender import LEAST_FREE_BYTES, make_folders, measure_free, open_folder
from gateway.turns.threads import start_thread
from gateway.turns.transcribing import find_transcriber
from hermes_base.errors import DeliveryFailure, HermesError, StoreFailure
from hermes_base.files.home_files import OwnName, place_file
from hermes_base.image_types import find_image_type
from hermes_base.inbound import UPLOADS, Address, FileRef, Inbound, read_inbound
from hermes_base.text.file_names import make_safe_name
from hermes_cli import config as cli_config
from hermes_constants.ordinary_files import open_file

log = logging.getLogger(__name__)

AT_ONCE = 16  # files of all conversations
LONGEST = 180.0  # seconds for one file, with all tries
LONGEST_TRANSCRIPTION = 300.0
TRIES = 4
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0
ASK_SECONDS = 5.0  # until another gateway is asked once more
LOOK_STORE_SECONDS = 1.0  # how often the store is looked at for what another gateway fetches
LOOK_SECONDS = 0.25  # how often the size of what comes is looked at
HEAD_BYTES = 16
PART = ".part"
ORDERS, OUTCOMES = "files wanted", "files fetched"  # topics of hints

GONE = "its platform is not switched on any more"
STOPPED = "you stopped it"
NOWHERE = "it is on no machine any more"
UNEXPECTED = "something went wrong inside Hermes, and its log says what"
NO_ROOM = "the disk is nearly full"
TOO_SLOW = f"it did not come within {LONGEST:.0f} s"
TOLD = "{name} could not be fetched: {why}. Your message is answered without it; send it again to try once more."


@dataclass(frozen=True, slots=True)
class Fetched:
    """The files of a message as they are here, what the model reads beside them, and what the person is told."""

    files: tuple[FileRef, ...] = ()
    notes: tuple[str, ...] = ()
    told: tuple[str, ...] = ()

    def put_into(self, item: Item) -> Item:
        return replace(item, inbound=replace(item.inbound, files=self.files), notes=(*item.notes, *self.notes))


@dataclass(frozen=True, slots=True)
class Missing:
    """A file that could not be had, and why: half a sentence."""

    file: FileRef
    why: str


@dataclass(frozen=True, slots=True)
class FileOrder:
    """What is to be fetched of one message, and for whom."""

    conversation: str
    seq: int
    person: str  # whose the files are; empty: the owner's
    inbound: Inbound
    uploads: Path
    most: int  # bytes of a file

    def write(self, number: int, why: str = "") -> str:
        """As a hint on one of its files."""
        return json.dumps([self.conversation, self.seq, number, self.person, why])


def needs_fetching(item: Item, travels: bool) -> bool:
    """Whether files of it are still with their platform, or perhaps in another home; what stands in the transcript is
    not read again."""
    files = () if item.row.taken else item.inbound.files
    return any(travels if file.path else file.remote for file in files)


def leave_out(inbound: Inbound, why: str) -> Fetched:
    """The message without the files that its platform has."""
    return gather_results([Missing(file, why) if file.remote else file for file in inbound.files])


def gather_results(results: Sequence[FileRef | Missing]) -> Fetched:
    missing = [result for result in results if isinstance(result, Missing)]
    return Fetched(
        tuple(result for result in results if isinstance(result, FileRef)),
        tuple(f"[{one.file.kind} {make_safe_name(one.file.name)}: not here, {one.why}]" for one in missing),
        tuple(TOLD.format(name=make_safe_name(one.file.name), why=one.why) for one in missing if one.why != STOPPED),
    )


class Fetcher:
    """For all conversations; on the event loop."""

    def __init__(self, parts: GatewayParts) -> None:
        self._parts = parts
        self.files = parts.files
        self._places = asyncio.Semaphore(AT_ONCE)
        self._at_work: dict[str, asyncio.Task[None]] = {}  # for other gateways
        self._awaited: dict[tuple[str, int, int], asyncio.Future[str]] = {}  # of them: why it did not come
        if self.files.travels:
            parts.hints.listen(ORDERS, self._take_order)
            parts.hints.listen(OUTCOMES, self._take_outcome)

    async def fetch(self, conversation: str, item: Item) -> Fetched:
        """All files of a message. Ends early when it is cancelled, and leaves no half file under a whole one's name."""
        inbound = item.inbound
        try:
            order = await self._parts.call(self._find_place, conversation, item)
        except HermesError as problem:
            return leave_out(inbound, problem.what.rstrip("."))
        wanted = [self._fetch_one(order, number) for number in range(len(inbound.files))]
        found = gather_results(await asyncio.gather(*wanted))
        heard = [await _transcribe(file) for file in found.files if file.kind == "audio"]
        return replace(found, notes=(*found.notes, *filter(None, heard)))

    def _find_place(self, conversation: str, item: Item) -> FileOrder:
        """The folder of uploads of whoever the conversation belongs to (G12), and how large a file may be; on a store
        thread."""
        home, sender, settings = self._parts.home, item.view.sender, cli_config.load_last_good()
        shared, belongs = settings.people.shared, self._parts.store.people.person_of(conversation)
        kind = item.inbound.address.kind
        scope = scope_of(kind, sender.role, sender.person, conversation, shared, belongs=belongs)
        place = make_folders((open_folder(home, scope) or home) / UPLOADS)
        most = min(settings.web.upload_megabytes * 1024 * 1024, self.files.most_bytes)
        return FileOrder(conversation, item.row.seq, scope.person_id, item.inbound, place, most)

    async def _fetch_one(self, order: FileOrder, number: int) -> FileRef | Missing:
        file, address = order.inbound.files[number], order.inbound.address
        if not file.remote:
            return await self._find_kept(file) if self.files.travels else file
        folder = order.uploads / name_folder(order.inbound, number)
        path = folder / make_safe_name(file.name)
        try:
            if found := await start_thread(partial(self._look_for, path, file), "files"):
                return found
            async with self._places, asyncio.timeout(LONGEST):
                await start_thread(partial(folder.mkdir, mode=0o700, exist_ok=True), "files")
                while self._is_elsewhere(address):
                    found, why = await self._ask_others(order, number, path)
                    if found is not None or why:
                        return found or Missing(file, why)
                why = await self._try_often(address, file, folder / PART, order.most)
            return Missing(file, why) if why else await start_thread(partial(self._keep, path, file), "files")
        except TimeoutError:
            return Missing(file, TOO_SLOW)
        except OSError as problem:
            log.warning("a file that came with a message cannot be kept: %s", problem)
            return Missing(file, f"it cannot be written here ({problem.strerror})")
        except StoreFailure as problem:
            return Missing(file, problem.what.rstrip("."))
        finally:
            await asyncio.shield(start_thread(partial(_drop_part, folder), "files"))

    # --- where gateways share files

    async def _find_kept(self, file: FileRef) -> FileRef | Missing:
        """A file that came with the message itself, perhaps to another gateway."""
        try:
            found = await self._parts.call(self.files.find, file.path)
        except StoreFailure as problem:
            return Missing(file, problem.what.rstrip("."))
        return Missing(file, NOWHERE) if found is None else replace(file, path=str(found))

    def _look_for(self, path: Path, file: FileRef) -> FileRef | None:
        """The file as it is here, or as another gateway has kept it."""
        found = _look_at(path, file)
        if found is None and self.files.travels and self.files.find(str(path)) is not None:
            found = _look_at(path, file)
        return found

    def _keep(self, path: Path, file: FileRef) -> FileRef:
        found = _keep(path, file)
        if self.files.travels:
            self.files.keep(path)
        return found

    def _is_elsewhere(self, address: Address) -> bool:
        adapter = self._find_adapter(address)
        return self.files.travels and adapter is not None and self._parts.delivery.is_elsewhere(adapter)

    async def _ask_others(self, order: FileOrder, number: int, path: Path) -> tuple[FileRef | None, str]:
        """What came of it, or why it did not; neither: it is time to ask again."""
        key = (order.conversation, order.seq, number)
        outcome = self._awaited[key] = asyncio.get_running_loop().create_future()
        self._parts.hints.tell(ORDERS, order.write(number))
        end = time.monotonic() + ASK_SECONDS
        try:
            while not outcome.done() and time.monotonic() < end:
                await asyncio.wait({outcome}, timeout=LOOK_STORE_SECONDS)
                look = partial(self._look_for, path, order.inbound.files[number])
                if found := await start_thread(look, "files"):
                    return found, ""
            return None, outcome.result() if outcome.done() else ""
        finally:
            del self._awaited[key]

    def _take_outcome(self, text: str) -> None:
        conversation, seq, number, _, why = json.loads(text)
        outcome = self._awaited.get((conversation, seq, number))
        if outcome is not None and not outcome.done():
            outcome.set_result(why)

    def _take_order(self, text: str) -> None:
        """Another gateway works on the conversation of a message whose platform is perhaps ours."""
        if text not in self._at_work:
            self._at_work[text] = task = asyncio.get_running_loop().create_task(self._fetch_for_another(text))
            task.add_done_callback(lambda _: self._at_work.pop(text))

    async def _fetch_for_another(self, text: str) -> None:
        conversation, seq, number, person, _ = json.loads(text)
        turns = self._parts.store.turns
        found = await self._parts.call(turns.inbox_since, conversation, seq - 1, 1, read_inbound)
        inbound = next((inbound for at, inbound in found if at == seq), None)
        adapter = None if inbound is None else self._find_adapter(inbound.address)
        if inbound is None or adapter is None or self._parts.delivery.is_elsewhere(adapter):
            return
        most = cli_config.load_last_good().web.upload_megabytes * 1024 * 1024
        uploads = place_file(self._parts.home, OwnName(person, UPLOADS))
        await start_thread(partial(make_folders, uploads), "files")
        order = FileOrder(conversation, seq, person, inbound, uploads, min(most, self.files.most_bytes))
        got = await self._fetch_one(order, number)
        self._parts.hints.tell(OUTCOMES, order.write(number, got.why if isinstance(got, Missing) else ""))

    def _find_adapter(self, address: Address) -> Adapter | None:
        return next((one for one in self._parts.adapters if _is_at(one, address)), None)

    # --- from the platform

    async def _try_often(self, address: Address, file: FileRef, part: Path, most: int) -> str:
        """Why it could not be had; empty: it is there. Each try asks the adapter that there is by then."""
        pauses, why = Pauses(FIRST_PAUSE, LONGEST_PAUSE), ""
        for number in range(TRIES):
            wait = None
            adapter = self._find_adapter(address)
            if adapter is None:
                return GONE
            try:
                return await self._try_once(adapter, file, part, most)
            except NeverTaken as problem:
                return await start_thread(partial(_clean, problem.what), "files")
            except DeliveryFailure as problem:
                why = await start_thread(partial(_clean, problem.what), "files")
                wait = problem.seconds if isinstance(problem, NotNow) else None
            except Exception:  # the boundary to platforms
                log.exception("%s could not fetch a file", adapter.spec.label)
                why = f"{adapter.spec.label} did not hand it over"
            if number + 1 < TRIES:
                await asyncio.sleep(pauses.next() if wait is None else wait)
        return why

    async def _try_once(self, adapter: Adapter, file: FileRef, part: Path, most: int) -> str:
        """Watches what comes: a platform may have said nothing of its size, or not the truth."""
        look = partial(_find_excess, self._parts.home, part, most, file.size)
        if why := await start_thread(look, "files"):
            return why
        fetching = asyncio.ensure_future(adapter.fetch(file, part))
        try:
            while not fetching.done():
                await asyncio.wait({fetching}, timeout=LOOK_SECONDS)
                if why := await start_thread(look, "files"):
                    return why
            await fetching
        finally:
            if not fetching.done():
                fetching.cancel()
                await asyncio.wait({fetching})
        return ""


@dataclass(eq=False, slots=True)
class FileArrivals:
    """The messages of one conversation whose files are on their way; on the event loop."""

    _fetcher: Fetcher
    _conversation: str
    under_way: dict[int, asyncio.Task[Fetched]] = field(default_factory=dict)

    def begin(self, item: Item) -> bool:
        """Whether it was begun, and is to be waited for."""
        if not needs_fetching(item, self._fetcher.files.travels) or item.row.seq in self.under_way:
            return False
        fetching = self._fetcher.fetch(self._conversation, item)
        self.under_way[item.row.seq] = asyncio.get_running_loop().create_task(fetching)
        return True

    async def wait(self, item: Item) -> Fetched:
        """What came; of what was cut short nothing did."""
        fetching = self.under_way[item.row.seq]
        try:
            await asyncio.wait({fetching})
        finally:
            fetching.cancel()
            del self.under_way[item.row.seq]
        if fetching.cancelled():
            return leave_out(item.inbound, STOPPED)
        if problem := fetching.exception():
            log.error("files of a message could not be fetched", exc_info=problem)
            return leave_out(item.inbound, UNEXPECTED)
        return fetching.result()

    def are_awaited(self, items: Sequence[Item], *, cut: bool) -> bool:
        """Whether files of these are still on their way; `cut`: they need not come any more."""
        awaited = [item.row.seq for item in items if item.row.seq in self.under_way]
        if cut:
            self.cancel(awaited)
        return bool(awaited)

    def cancel(self, seqs: Collection[int] | None = None) -> None:
        """Of these messages, or of all."""
        for seq, fetching in self.under_way.items():
            if seqs is None or seq in seqs:
                fetching.cancel()


def name_folder(inbound: Inbound, number: int) -> str:
    """The same for the same file of the same message, whenever it is asked for; nobody can guess another's."""
    named = (
        f"{inbound.address.account_key}\n{inbound.ext_id}\n{inbound.sender}\n{number}\n{inbound.files[number].remote}"
    )
    return hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _is_at(adapter: Adapter, address: Address) -> bool:
    return (adapter.spec.name, adapter.account) == (address.platform, address.account)


# --- on a thread


def _clean(what: str) -> str:
    """As half a sentence, without secrets (G6)."""
    return cli_config.redactor()(what).rstrip(".")


def _find_excess(home: Path, part: Path, most: int, size: int) -> str:
    """Why the file cannot go on coming; empty: it can."""
    with suppress(FileNotFoundError):
        size = max(size, part.stat().st_size)
    if size > most:
        return f"it is larger than {most // (1024 * 1024)} MB (web.upload_megabytes)"
    return "" if measure_free(home) >= LEAST_FREE_BYTES + size else NO_ROOM


def _look_at(path: Path, file: FileRef) -> FileRef | None:
    """The file as it is here; None: it is not. A picture has to be one: models refuse what is only called so."""
    try:
        with open_file(path) as opened:
            head, size = opened.read(HEAD_BYTES), os.fstat(opened.fileno()).st_size
    except FileNotFoundError:
        return None
    kind = "file" if file.kind == "image" and not find_image_type(head) else file.kind
    return replace(file, path=str(path), name=path.name, kind=kind, size=size)


def _keep(path: Path, file: FileRef) -> FileRef:
    """What has its name is whole, also after a power cut."""
    part = path.parent / PART
    with part.open("r+b") as written:
        os.fchmod(written.fileno(), 0o600)
        os.fsync(written.fileno())
    part.replace(path)
    found = _look_at(path, file)
    if found is None:
        raise FileNotFoundError(2, "it went away")
    return found


def _drop_part(folder: Path) -> None:
    """Nothing of what did not come whole stays."""
    part = folder / PART
    if part.exists():
        shutil.rmtree(folder, ignore_errors=True)
    else:
        with suppress(OSError):  # what is in it is whole
            folder.rmdir()


def _describe_speech(path: Path) -> str:
    """A line for the model; empty where nobody can tell what is said."""
    transcribe = find_transcriber()
    said = transcribe(path) if transcribe else ""
    return f"[what is said in {path.name}] {said}" if said else ""


async def _transcribe(file: FileRef) -> str:
    try:
        async with asyncio.timeout(LONGEST_TRANSCRIPTION):
            return await start_thread(partial(_describe_speech, Path(file.path)), "transcribe")
    except Exception:  # the boundary to a plugin: the recording is there all the same
        log.exception("a recording could not be transcribed")
        return ""
