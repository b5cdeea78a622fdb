"""The SDK's client, for answers in which strangers may have written anything. By itself it reads an answer as a whole:
one item that it stumbles over costs all others, at each start again. Here it is handed one item after the other, and of
each only what it needs: keys for our device, who is in a room, which room is encrypted, whose devices have changed."""

import asyncio
import copy
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nio import (
    AsyncClient,
    ErrorResponse,
    Event,
    JoinedMembersResponse,
    KeysClaimResponse,
    KeysQueryResponse,
    Response,
    RoomGetEventResponse,
    RoomMessagesResponse,
    SyncResponse,
    ToDeviceEvent,
)
from nio.responses import DeviceList, DeviceOneTimeKeyCount, RoomInfo, Rooms, Timeline

from gateway.platforms.matrix.soundness import (
    JsonObject,
    describe,
    is_sound,
    list_sound,
    list_texts,
    name_kind,
    read_json,
    section,
)
from gateway.platforms.matrix.wire import ENCRYPTED, ENCRYPTION, MEMBER

_log = logging.getLogger(__name__)
_MEMBERSHIPS = ("invite", "join", "knock", "leave", "ban")
#: Answers that hold what people wrote: nobody but us reads them.
_RAW = (SyncResponse, RoomMessagesResponse, RoomGetEventResponse)
#: Answers that hold what devices and people say of themselves: where the items are, and how many levels deep.
_SIEVED: Mapping[type, tuple[str, int]] = {
    KeysQueryResponse: ("device_keys", 2),
    KeysClaimResponse: ("one_time_keys", 2),
    JoinedMembersResponse: ("joined", 1),
}


@dataclass
class RawAnswer(Response):  # type: ignore[misc]
    """An answer as it came."""

    raw: dict[str, Any]


class CautiousClient(AsyncClient):  # type: ignore[misc]
    """Threads: the event loop's only."""

    async def parse_body(self, transport_response: Any) -> dict[Any, Any]:
        return read_json(await transport_response.read())

    async def create_matrix_response(
        self, response_class: type, transport_response: Any, data: tuple[Any, ...] | None = None, save_to: Any = None
    ) -> Any:
        if transport_response.status != 200 or response_class not in (*_RAW, *_SIEVED):
            return await super().create_matrix_response(response_class, transport_response, data, save_to)
        raw = await self.parse_body(transport_response)
        answer = RawAnswer(raw) if response_class in _RAW else _read_sieved(response_class, raw, data or ())
        answer.transport_response = transport_response
        return answer

    async def receive_response(self, response: Response) -> None:
        """What comes of one person's keys is theirs alone."""
        if isinstance(response, RawAnswer):
            return
        parts = [response]
        if isinstance(response, KeysQueryResponse):
            parts = [KeysQueryResponse({who: keys}, {}) for who, keys in response.device_keys.items()]
        elif isinstance(response, KeysClaimResponse):
            parts = [
                KeysClaimResponse({who: {device: key}}, {}, response.room_id)
                for who, keys in response.one_time_keys.items()
                for device, key in keys.items()
            ]
        for part in parts:
            try:
                await super().receive_response(part)
            except Exception as error:
                if part is response:
                    raise
                _log.warning("The keys of a device cannot be used (%s); it is left out.", type(error).__name__)

    # --- syncs

    async def take_in(self, raw: JsonObject) -> bool:
        """What encryption needs of a sync. Whether keys came by which something may be readable now."""
        left_out: Counter[str] = Counter()
        came = False
        for event in list_sound(section(raw, "to_device").get("events"), left_out):
            if event.get("type") == ENCRYPTED:
                came |= self._take_key(event, left_out)
                await asyncio.sleep(0)
        for room, told in section(raw, "rooms", "join").items():
            await self._take_part(raw, {room: _make_room(told)}, left_out)
            await asyncio.sleep(0)
        await self._take_part(raw, {}, left_out, last=True)
        if left_out:
            _log.warning("A sync brought what nobody can read; it is left out: %s.", describe(left_out))
        return came

    def _take_key(self, event: JsonObject, left_out: Counter[str]) -> bool:
        try:
            parsed = ToDeviceEvent.parse_event(copy.deepcopy(dict(event)))
            return parsed is not None and self.olm.handle_to_device_event(parsed) is not None
        except Exception:  # noqa: BLE001 - the boundary to the SDK: what it stumbles over costs this one event
            left_out[name_kind(event)] += 1
            return False

    async def _take_part(
        self, raw: JsonObject, rooms: dict[str, RoomInfo], left_out: Counter[str], *, last: bool = False
    ) -> None:
        """One room, or at last the devices: whether theirs have changed is asked of the rooms."""
        devices = section(raw, "device_lists") if last else {}
        count = section(raw, "device_one_time_keys_count").get("signed_curve25519") if last else None
        part = SyncResponse(
            "this one",
            Rooms({}, rooms, {}),
            DeviceOneTimeKeyCount(None, count if isinstance(count, int) else None),
            DeviceList(list_texts(devices.get("changed")), list_texts(devices.get("left"))),
            [],
            [],
        )
        self.next_batch = ""  # the SDK takes no sync twice, and knows it by this
        try:
            await super().receive_response(part)
        except Exception:  # noqa: BLE001 - the boundary to the SDK: others must be heard
            left_out["devices" if last else "a room"] += 1
        finally:
            self.next_batch = ""


def _make_room(told: Any) -> RoomInfo:
    """A room as the SDK has to know it: names and all else that people chose stay out of it."""
    events = [*_list_events(told, "state"), *_list_events(told, "timeline")]
    state = [made for event in events if (made := _make_state(event)) is not None]
    return RoomInfo(Timeline([], False, ""), state, [], [])


def _list_events(told: Any, name: str) -> list[Any]:
    found = section(told, name).get("events")
    return found if isinstance(found, list) else []


def _make_state(event: Any) -> Any:
    """An event that says who is in a room or that it is encrypted, made anew; None: it says neither."""
    if not is_sound(event) or "state_key" not in event or event.get("type") not in (MEMBER, ENCRYPTION):
        return None
    membership = section(event, "content").get("membership")
    content = {"membership": membership} if event["type"] == MEMBER else {"algorithm": "m.megolm.v1.aes-sha2"}
    if event["type"] == MEMBER and membership not in _MEMBERSHIPS:
        return None
    kept = {name: event.get(name, "") for name in ("type", "event_id", "sender", "state_key")}
    return Event.parse_event({**kept, "origin_server_ts": event.get("origin_server_ts", 0), "content": content})


def _read_sieved(form: Any, raw: JsonObject, data: tuple[Any, ...]) -> Any:
    """An answer without the items that the SDK does not take."""
    name, levels = _SIEVED[form]
    if not isinstance(raw.get(name), dict):
        return form.from_dict(raw, *data)

    def sieve(found: Any, path: tuple[str, ...]) -> Any:
        """What is taken if it is alone, else nothing is known of it; None: not even that is taken."""
        if len(path) <= levels:
            inner = {key: sieve(one, (*path, key)) for key, one in found.items()} if isinstance(found, dict) else {}
            return {key: one for key, one in inner.items() if one is not None}
        choices: tuple[Any, ...] = (found, {})
        return next((one for one in choices if _is_taken(form, path, one, data)), None)

    return form.from_dict({name: sieve(raw[name], (name,))}, *data)


def _is_taken(form: Any, path: tuple[str, ...], found: Any, data: tuple[Any, ...]) -> bool:
    for key in reversed(path):
        found = {key: found}
    try:
        return not isinstance(form.from_dict(found, *data), ErrorResponse)
    except Exception as error:  # noqa: BLE001 - the boundary to the SDK
        _log.warning("A piece of an answer cannot be read (%s); it is left out.", type(error).__name__)
        return False
