"""The line to a homeserver: the SDK's client. What comes back is raw JSON, or a `MatrixTrouble` without a token."""

import asyncio
import contextlib
import copy
import json
import logging
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from aiohttp import ClientConnectorError, ClientError, ClientResponse, ConnectionTimeoutError, InvalidURL
from nio import (
    Api,
    AsyncClientConfig,
    ContentRepositoryConfigResponse,
    DiscoveryInfoResponse,
    ErrorResponse,
    JoinedMembersResponse,
    LoginResponse,
    MegolmEvent,
    MessageDirection,
    ProfileGetDisplayNameResponse,
    Response,
    RoomSendResponse,
    UploadResponse,
    WhoamiResponse,
)
from nio.crypto import ENCRYPTION_ENABLED
from nio.events import BadEvent, Event, UnknownBadEvent
from nio.exceptions import EncryptionError, ProtocolError

from gateway.platforms.call_errors import describe_call_error
from gateway.platforms.matrix.cautious_client import CautiousClient, RawAnswer
from gateway.platforms.matrix.refusals import MatrixKind, MatrixTrouble, read_trouble
from gateway.platforms.matrix.sealed_files import FileSeal, write_pieces
from gateway.platforms.matrix.soundness import JsonObject, describe, is_sound, list_sound, section
from gateway.platforms.matrix.wire import ENCRYPTED
from gateway.platforms.matrix.wire_out import SYNC_FILTER, TIMELINE_EVENTS, Content, guess_type

T = TypeVar("T")
_log = logging.getLogger(__name__)
CALL_SECONDS, FILE_SECONDS, FIRST_SYNC_SECONDS = 20.0, 120.0, 180.0
POLL_SECONDS, ANSWER_SECONDS = 30.0, 15.0  # a sync waits so long for news, and then so long for its answer
TYPING_MS = 6_000
PIECE_BYTES, MOST_REFUSAL_BYTES = 65_536, 65_536
DEVICE_NAME = "Hermes"
#: Below this level these write what people said, or keys.
for _name in ("nio", "peewee", "aiohttp", "aiohttp_socks"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class RoomNews:
    """What a sync says of a room that we are in."""

    events: list[JsonObject]  # the oldest first
    state: list[JsonObject]
    limited: bool  # there is more before them, to be had from `before`
    before: str
    people: int | None  # who is there or invited; None: as before


@dataclass(frozen=True, slots=True)
class SyncNews:
    since: str  # where the next one goes on
    joined: Mapping[str, RoomNews]
    invited: Mapping[str, list[JsonObject]]
    left: tuple[str, ...]
    keys: bool  # keys have come: what could not be read may be readable now


def can_encrypt() -> bool:
    """Whether what encrypted rooms need is installed."""
    return bool(ENCRYPTION_ENABLED)


class MatrixLink:
    """One session's line. Threads: the event loop's only."""

    def __init__(self, address: str, user: str, keys: Path) -> None:
        """Opens nothing yet; `keys`: the folder for the keys of encrypted rooms."""
        self.address = address
        config = AsyncClientConfig(
            max_limit_exceeded=0,
            max_timeouts=0,
            request_timeout=CALL_SECONDS,
            encryption_enabled=can_encrypt(),
        )
        self._client = CautiousClient(address, user, store_path=str(keys), config=config, proxy=_find_proxy(address))

    @property
    def encrypts(self) -> bool:
        """Whether it can read and write in encrypted rooms: its keys are here."""
        return self._client.olm is not None

    async def close(self) -> None:
        await self._client.close()
        if self._client.store is not None:
            self._client.store.database.close()  # a connection of this thread, as the SDK opens them

    # --- the session

    async def log_in(self, password: str, device: str) -> tuple[str, str, str]:
        """User, device and token of a session that is made now; `device`: the one that it goes on as, if any."""
        self._client.device_id = device or None
        found = await self._ask(self._client.login(password, device_name=DEVICE_NAME), LoginResponse)
        return found.user_id, found.device_id, found.access_token

    def use(self, user: str, device: str, token: str) -> None:
        """Go on with a session."""
        client = self._client
        client.user_id, client.device_id, client.access_token = user, device, token

    def open_keys(self) -> None:
        """Read the keys of encrypted rooms; from now on the session's device stays the same."""
        if can_encrypt() and self._client.device_id:
            self._client.load_store()

    async def ask_who(self) -> tuple[str, str]:
        """Whose session it is: user and device."""
        found = await self._ask(self._client.whoami(), WhoamiResponse)
        return found.user_id, found.device_id or ""

    async def find_address(self) -> str:
        """Where the homeserver of this name is reached, as its name says; empty: it says nothing."""
        try:
            found = await self._ask(self._client.discovery_info(), DiscoveryInfoResponse)
        except MatrixTrouble as trouble:
            if trouble.kind is MatrixKind.UNSENT:
                raise
            return ""
        return str(found.homeserver_url)

    async def find_name(self) -> str:
        """The name that people see; empty: none is known."""
        try:
            found = await self._ask(self._client.get_displayname(), ProfileGetDisplayNameResponse)
        except MatrixTrouble:
            return ""
        return found.displayname or ""

    async def find_upload_limit(self) -> int:
        """Bytes that a file may have; 0: it does not say."""
        try:
            found = await self._ask(self._client.content_repository_config(), ContentRepositoryConfigResponse)
        except MatrixTrouble:
            return 0
        return found.upload_size or 0

    # --- listening

    async def sync(self, since: str, *, first: bool = False, patience: float = POLL_SECONDS) -> SyncNews:
        """What is new, waited for so many seconds; the first one tells the state of every room, too, and waits for
        nothing."""
        client = self._client
        wait = 0 if first else int(patience * 1000)
        asked = client.sync(wait, dict(SYNC_FILTER), since or None, full_state=first or None)
        raw = await self._ask_raw(asked, "next_batch", FIRST_SYNC_SECONDS if first else patience + ANSWER_SECONDS)
        keys = False
        if client.olm is not None:
            keys = await client.take_in(raw)
            await self._tend_keys()
        joined = {room: self._read_room(room, told) for room, told in section(raw, "rooms", "join").items()}
        invited = {
            room: _list_sound(section(told, "invite_state").get("events"), room)
            for room, told in section(raw, "rooms", "invite").items()
        }
        return SyncNews(str(raw["next_batch"]), joined, invited, tuple(section(raw, "rooms", "leave")), keys)

    def _read_room(self, room: str, told: Any) -> RoomNews:
        timeline, summary = section(told, "timeline"), section(told, "summary")
        joined, invited = summary.get("m.joined_member_count"), summary.get("m.invited_member_count")
        return RoomNews(
            self._read_events(room, timeline.get("events")),
            _list_sound(section(told, "state").get("events"), room),
            bool(timeline.get("limited")),
            str(timeline.get("prev_batch") or ""),
            joined + (invited if isinstance(invited, int) else 0) if isinstance(joined, int) else None,
        )

    def _read_events(self, room: str, events: Any) -> list[JsonObject]:
        """Events in clear, as far as we can read them."""
        return [self.unlock(room, event) or event for event in _list_sound(events, room)]

    async def _tend_keys(self) -> None:
        """What encryption needs after each sync. What fails now is done after the next one."""
        client = self._client
        steps: tuple[Callable[[], Awaitable[Any] | None], ...] = (
            lambda: client.keys_upload() if client.should_upload_keys else None,
            lambda: client.keys_query() if client.should_query_keys else None,
            lambda: client.keys_claim(client.get_users_for_key_claiming()) if client.should_claim_keys else None,
            client.send_to_device_messages,
        )
        for step in steps:
            try:
                asked = step()
                if asked is not None:
                    await self._ask(asked, object)
            except (MatrixTrouble, ProtocolError):
                _log.info("Keys of encrypted rooms could not be exchanged now.")

    async def read_back(self, room: str, before: str, until: str) -> tuple[list[JsonObject], str]:
        """Events before a place in a room, the oldest first, and the place before them; empty: there is no more."""
        asked = self._client.room_messages(
            room, before, until or None, MessageDirection.back, TIMELINE_EVENTS, dict(SYNC_FILTER["room"]["timeline"])
        )
        raw = await self._ask_raw(asked, "chunk")
        chunk = raw["chunk"] if isinstance(raw["chunk"], list) else []
        return self._read_events(room, chunk[::-1]), str(raw.get("end") or "") if chunk else ""

    async def read_event(self, room: str, event: str) -> JsonObject | None:
        """One event of a room; None: there is none, or it is not for us to see."""
        try:
            raw = await self._ask_raw(self._client.room_get_event(room, event), "type")
        except MatrixTrouble as trouble:
            if trouble.kind in (MatrixKind.MISSING, MatrixKind.FORBIDDEN, MatrixKind.REFUSED):
                return None
            raise
        return next(iter(self._read_events(room, [raw])), None)

    def unlock(self, room: str, event: JsonObject) -> JsonObject | None:
        """An encrypted event in clear; None: it is not encrypted, its key is not here, or nobody can read it."""
        try:
            locked = self._read_locked(room, event)
            clear = self._client.decrypt_event(locked) if locked is not None else None
        except EncryptionError:
            return None
        except Exception as error:  # noqa: BLE001 - the boundary to the SDK: it costs this one event
            _log.warning("An encrypted event in %s cannot be read (%s).", room, type(error).__name__)
            return None
        if clear is None or isinstance(clear, BadEvent | UnknownBadEvent) or not is_sound(clear.source):
            return None
        found: JsonObject = clear.source
        return found

    async def ask_for_key(self, room: str, event: JsonObject) -> None:
        """Ask the devices of its sender for the key of an encrypted event."""
        try:
            locked = self._read_locked(room, event)
            if locked is not None:
                await self._ask(self._client.request_room_key(locked), Response)
        except MatrixTrouble:
            return  # it was asked for before

    def _read_locked(self, room: str, event: JsonObject) -> MegolmEvent | None:
        if self._client.olm is None or event.get("type") != ENCRYPTED:
            return None
        locked = Event.parse_event(copy.deepcopy(dict(event)))
        if not isinstance(locked, MegolmEvent):
            return None
        locked.room_id = room
        return locked

    async def join(self, room: str) -> None:
        await self._ask(self._client.join(room), Response)

    async def list_members(self, room: str) -> set[str]:
        """Who is in a room."""
        found = await self._ask(self._client.joined_members(room), JoinedMembersResponse)
        return {member.user_id for member in found.members}

    # --- speaking

    async def send(self, room: str, name: str, content: Content, *, locked: bool) -> str:
        """The id of the event. One of the same name is not made twice. `locked`: it must not go in clear."""
        client = self._client
        if locked and (client.olm is None or room not in client.rooms or not client.rooms[room].encrypted):
            raise MatrixTrouble(MatrixKind.UNREADABLE, "")
        if client.olm is not None and room not in client.rooms:
            raise MatrixTrouble(MatrixKind.FORBIDDEN, "it is not among its rooms")
        asked = client.room_send(room, "m.room.message", content, tx_id=name, ignore_unverified_devices=True)
        return str((await self._ask(asked, RoomSendResponse)).event_id)

    async def show_typing(self, room: str, *, is_typing: bool) -> None:
        await self._ask(self._client.room_typing(room, is_typing, TYPING_MS), Response)

    async def mark_read(self, room: str, event: str, thread: str) -> None:
        await self._ask(self._client.update_receipt_marker(room, event, thread_id=thread or "main"), Response)

    async def upload(self, data: bytes, name: str, *, encrypt: bool) -> dict[str, Any]:
        """Where the bytes are from now on, as a content names it."""
        locked: dict[str, Any] | None = None

        async def put() -> Any:
            nonlocal locked
            answer, locked = await self._client.upload(
                lambda *_: data,  # it may be asked for twice
                content_type=guess_type(name),
                filename=None if encrypt else name,
                encrypt=encrypt,
                filesize=len(data),
            )
            return answer

        found = await self._ask(put(), UploadResponse, FILE_SECONDS)
        return {"file": {**locked, "url": found.content_uri}} if locked else {"url": found.content_uri}

    async def fetch(self, remote: str, path: Path) -> None:
        """A file that somebody sent, to a path: an address, or the JSON that an encrypted one is described by."""
        described = json.loads(remote) if remote.startswith("{") else None
        place = urlsplit(str(described.get("url")) if described else remote)
        if place.scheme != "mxc":
            raise MatrixTrouble(MatrixKind.MISSING, "no such file")
        seal = FileSeal(described) if described else None
        method, where = Api.download(place.netloc, place.path.replace("/", ""))
        where = where.partition("?")[0]  # it would name the token
        headers = {"Authorization": f"Bearer {self._client.access_token}"}
        with self._telling_troubles():
            async with asyncio.timeout(FILE_SECONDS):
                asked = await self._client.send(method, where, headers=headers, timeout=FILE_SECONDS)
                async with asked as answer:
                    if answer.status != 200:
                        raise await _read_refusal(answer)
                    await write_pieces(answer.content.iter_chunked(PIECE_BYTES), path, seal)

    # --- calls

    async def _ask_raw(self, asked: Awaitable[Any], needed: str, seconds: float = CALL_SECONDS) -> dict[str, Any]:
        """The answer as it came, if it has this field."""
        raw = (await self._ask(asked, RawAnswer, seconds)).raw
        if needed not in raw:
            raise MatrixTrouble(MatrixKind.UNSURE, f"an answer without {needed}")
        return raw

    @contextlib.contextmanager
    def _telling_troubles(self) -> Iterator[None]:
        """What the SDK and its HTTP client raise, as troubles."""
        try:
            yield
        except (ClientConnectorError, ConnectionTimeoutError, InvalidURL) as error:
            raise MatrixTrouble(MatrixKind.UNSENT, _say(error)) from None
        except (ClientError, TimeoutError) as error:
            raise MatrixTrouble(MatrixKind.UNSURE, _say(error)) from None
        except (ProtocolError, EncryptionError) as error:  # the SDK forgets a token that was refused
            kind = MatrixKind.UNSURE if self._client.access_token else MatrixKind.TOKEN
            raise MatrixTrouble(kind, _say(error)) from None

    async def _ask(self, asked: Awaitable[Any], form: type[T], seconds: float = CALL_SECONDS) -> T:
        """The answer, if it is of this form."""
        try:
            with self._telling_troubles():
                async with asyncio.timeout(seconds):
                    answer = await asked
        except MatrixTrouble:
            raise
        except OSError as error:
            raise MatrixTrouble(MatrixKind.UNSURE, _say(error)) from None
        except Exception as error:  # noqa: BLE001 - the boundary to the SDK: it stumbles over what others wrote
            _log.warning("The SDK could not read an answer (%s).", type(error).__name__)
            raise MatrixTrouble(MatrixKind.UNSURE, _say(error)) from None
        status = answer.transport_response.status if getattr(answer, "transport_response", None) else 0
        if isinstance(answer, ErrorResponse):
            raise read_trouble(
                status,
                answer.status_code or "",
                answer.message,
                retry_after_ms=answer.retry_after_ms,
                soft=bool(answer.soft_logout),
            )
        if not isinstance(answer, form):
            raise MatrixTrouble(MatrixKind.UNSURE, f"status {status}")
        return answer


def _list_sound(events: Any, room: str) -> list[JsonObject]:
    left_out: Counter[str] = Counter()
    sound = list_sound(events, left_out)
    if left_out:
        _log.warning("Events in %s are not as documented; they are left out: %s.", room, describe(left_out))
    return sound


async def _read_refusal(answer: ClientResponse) -> MatrixTrouble:
    """Why a file is not handed out."""
    try:
        said = json.loads(await answer.content.read(MOST_REFUSAL_BYTES))
    except (ValueError, RecursionError):
        said = None
    said = said if isinstance(said, dict) else {}
    wait = said.get("retry_after_ms")
    return read_trouble(
        answer.status,
        str(said.get("errcode") or ""),
        str(said.get("error") or ""),
        retry_after_ms=wait if isinstance(wait, int) else None,
        soft=bool(said.get("soft_logout")),
    )


def _say(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ClientConnectorError):
        return describe_call_error(error, f"{error.host}:{error.port}")
    return type(error).__name__


def _find_proxy(address: str) -> str | None:
    """The proxy of the environment for this address, if it names one."""
    parts = urlsplit(address)
    if urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return urllib.request.getproxies().get(parts.scheme)
