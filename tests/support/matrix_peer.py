"""Synapse on loopback: a homeserver of its own for each test process, with people who write by its plain HTTP API."""

import atexit
import base64
import functools
import hashlib
import hmac
import itertools
import json
import os
import shutil
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from peer_server import ROOT, PeerProcess, answers, need_peer

from hermes_lab.ports import free_ports

PYTHON = ROOT / ".peers/bin/python"
SYNAPSE = ROOT / ".peers/bin/synapse_homeserver"
SERVER_NAME = "hermes.test"
PASSWORD = "the pass word of everybody"
_SECRET = "a shared secret for registration"
_PLENTY = {"per_second": 10_000, "burst_count": 10_000}
_names = itertools.count(1)


class MatrixFailure(Exception):
    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status


class MatrixServer:
    """A Synapse in a folder. It may be stopped and started again; what it stored is there then."""

    def __init__(self, folder: Path) -> None:
        (self.port,) = free_ports(1)
        self.address = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        (folder / "homeserver.yaml").write_text(json.dumps(self._configure()))
        (folder / "log.yaml").write_text(json.dumps({"version": 1, "root": {"level": "ERROR"}}))
        seed = base64.b64encode(os.urandom(32)).decode().rstrip("=")
        (folder / "signing.key").write_text(f"ed25519 a_test {seed}\n")
        self._process = PeerProcess([PYTHON, "-m", "synapse.app.homeserver", "-c", folder / "homeserver.yaml"], folder)

    def _configure(self) -> dict[str, Any]:
        return {
            "server_name": SERVER_NAME,
            "public_baseurl": f"{self.address}/",
            "pid_file": str(self._folder / "pid"),
            "log_config": str(self._folder / "log.yaml"),
            "listeners": [
                {
                    "port": self.port,
                    "bind_addresses": ["127.0.0.1"],
                    "type": "http",
                    "tls": False,
                    "resources": [{"names": ["client"], "compress": False}],
                }
            ],
            "database": {"name": "sqlite3", "args": {"database": str(self._folder / "homeserver.db")}},
            "media_store_path": str(self._folder / "media"),
            "signing_key_path": str(self._folder / "signing.key"),
            "registration_shared_secret": _SECRET,
            "macaroon_secret_key": "x",
            "form_secret": "y",
            "report_stats": False,
            "trusted_key_servers": [],
            "federation_domain_whitelist": [],
            "presence": {"enabled": False},
            "bcrypt_rounds": 4,
            "caches": {"sync_response_cache_duration": "0s"},
            "max_upload_size": "2M",
            **dict.fromkeys(("rc_message", "rc_registration", "rc_joins_per_room", "rc_admin_redaction"), _PLENTY),
            "rc_login": dict.fromkeys(("address", "account", "failed_attempts"), _PLENTY),
            "rc_joins": dict.fromkeys(("local", "remote"), _PLENTY),
            "rc_invites": dict.fromkeys(("per_room", "per_user", "per_issuer"), _PLENTY),
            "rc_room_creation": _PLENTY,
            "rc_media_create": _PLENTY,
        }

    def start(self) -> None:
        self._process.start(lambda: answers(self.port))

    def stop(self, kill: bool = False) -> None:
        self._process.stop(kill=kill)

    # --- its API

    def call(
        self, method: str, path: str, body: Any = None, token: str = "", *, data: bytes | None = None, kind: str = ""
    ) -> Any:
        raw = data if data is not None else None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(f"{self.address}{path}", raw, method=method)
        asked.add_header("Content-Type", kind or "application/json")
        if token:
            asked.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                raise MatrixFailure(error.code, error.read().decode(errors="replace")) from None

    def register(self, name: str, *, admin: bool = False) -> "MatrixPerson":
        path = "/_synapse/admin/v1/register"
        nonce = self.call("GET", path)["nonce"]
        text = b"\0".join((nonce.encode(), name.encode(), PASSWORD.encode(), b"admin" if admin else b"notadmin"))
        mac = hmac.new(_SECRET.encode(), text, hashlib.sha1).hexdigest()
        made = self.call(
            "POST",
            path,
            {"nonce": nonce, "username": name, "password": PASSWORD, "admin": admin, "mac": mac},
        )
        return MatrixPerson(self, made["user_id"], made["access_token"], made["device_id"])

    def add_person(self, name: str = "", *, admin: bool = False) -> "MatrixPerson":
        """Somebody new whom others see under this name; ids are never used twice."""
        person = self.register(f"u{next(_names)}", admin=admin)
        if name:
            person.call("PUT", f"/profile/{_quote(person.id)}/displayname", {"displayname": name})
        return person


class MatrixPerson:
    """Somebody with an account."""

    def __init__(self, server: MatrixServer, id: str, token: str, device: str) -> None:
        self.server = server
        self.id = id
        self.token = token
        self.device = device
        self._sent = itertools.count()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return self.server.call(method, f"/_matrix/client/v3{path}", body, self.token)

    # --- rooms

    def make_room(self, *invited: str, **more: Any) -> str:
        given = {"preset": "private_chat", "invite": list(invited), "is_direct": len(invited) == 1, **more}
        return str(self.call("POST", "/createRoom", given)["room_id"])

    def join(self, room: str) -> None:
        self.call("POST", f"/join/{_quote(room)}", {})

    def leave(self, room: str) -> None:
        self.call("POST", f"/rooms/{_quote(room)}/leave", {})

    def invite(self, room: str, person: str) -> None:
        self.call("POST", f"/rooms/{_quote(room)}/invite", {"user_id": person})

    def kick(self, room: str, person: str) -> None:
        self.call("POST", f"/rooms/{_quote(room)}/kick", {"user_id": person})

    def members(self, room: str) -> dict[str, str]:
        """By id: join, invite, leave, ban."""
        found = self.call("GET", f"/rooms/{_quote(room)}/members")["chunk"]
        return {one["state_key"]: one["content"]["membership"] for one in found}

    def set_state(self, room: str, kind: str, content: dict[str, Any]) -> None:
        self.call("PUT", f"/rooms/{_quote(room)}/state/{kind}/", content)

    def upgrade(self, room: str) -> str:
        return str(self.call("POST", f"/rooms/{_quote(room)}/upgrade", {"new_version": "10"})["replacement_room"])

    # --- saying

    def send(self, room: str, content: dict[str, Any], kind: str = "m.room.message") -> str:
        path = f"/rooms/{_quote(room)}/send/{kind}/{self.device}{next(self._sent)}"
        return str(self.call("PUT", path, content)["event_id"])

    def say(self, room: str, text: str, **more: Any) -> str:
        return self.send(room, {"msgtype": "m.text", "body": text, **more})

    def edit(self, room: str, event: str, text: str) -> str:
        new = {"msgtype": "m.text", "body": text}
        related = {"rel_type": "m.replace", "event_id": event}
        return self.send(room, {**new, "body": f"* {text}", "m.new_content": new, "m.relates_to": related})

    def redact(self, room: str, event: str) -> None:
        self.call("PUT", f"/rooms/{_quote(room)}/redact/{_quote(event)}/{self.device}{next(self._sent)}", {})

    def send_file(self, room: str, name: str, data: bytes, msgtype: str = "m.file", **more: Any) -> str:
        path = f"/_matrix/media/v3/upload?filename={_quote(name)}"
        put = self.server.call("POST", path, token=self.token, data=data, kind="application/octet-stream")
        content = {"msgtype": msgtype, "body": name, "url": put["content_uri"], "info": {"size": len(data)}, **more}
        return self.send(room, content)

    def download(self, mxc: str) -> bytes:
        server, _, media = mxc.removeprefix("mxc://").partition("/")
        path = f"/_matrix/client/v1/media/download/{server}/{media}"
        asked = urllib.request.Request(f"{self.server.address}{path}")
        asked.add_header("Authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return bytes(answer.read())

    # --- seeing

    def events(self, room: str) -> list[dict[str, Any]]:
        """All events of a room, the oldest first."""
        found: list[dict[str, Any]] = []
        start = ""
        while True:
            path = f"/rooms/{_quote(room)}/messages?dir=b&limit=500{start}"
            page = self.call("GET", path)
            found += page["chunk"]
            if not page.get("end") or not page["chunk"]:
                return found[::-1]
            start = f"&from={_quote(page['end'])}"

    def messages(self, room: str, sender: str = "") -> list[dict[str, Any]]:
        """What stands in a room, as a client shows it: edits take the place of what they edit. Of one sender, or all;
        each has `text`, `edits`, `thread` and, of a file, `file`."""
        shown: dict[str, dict[str, Any]] = {}
        for event in self.events(room):
            content = event["content"]
            if event["type"] != "m.room.message" or "body" not in content or (sender and event["sender"] != sender):
                continue
            related = content.get("m.relates_to", {})
            if related.get("rel_type") == "m.replace":
                edited = shown.get(related["event_id"])
                if edited is not None and edited["sender"] == event["sender"]:
                    new = content["m.new_content"]
                    edited |= {"text": new["body"], "content": new, "edits": edited["edits"] + 1}
                continue
            shown[event["event_id"]] = {
                "id": event["event_id"],
                "sender": event["sender"],
                "text": content["body"],
                "file": content.get("filename", "") if "url" in content or "file" in content else "",
                "thread": related["event_id"] if related.get("rel_type") == "m.thread" else "",
                "content": content,
                "edits": 0,
            }
        return list(shown.values())

    def sync(self, since: str = "", wait_ms: int = 0) -> dict[str, Any]:
        start = f"&since={_quote(since)}" if since else ""
        return dict(self.call("GET", f"/sync?timeout={wait_ms}{start}"))


def _quote(text: str) -> str:
    return urllib.parse.quote(text, safe="")


@functools.cache
def start_server() -> MatrixServer:
    """The one of this process; it ends with it."""
    need_peer(PYTHON, SYNAPSE)
    folder = Path(tempfile.mkdtemp(prefix="synapse-"))
    server = MatrixServer(folder)
    server.start()

    def end() -> None:
        server.stop(kill=True)
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return server
