"""The other side of a hook: a program that signs what it sends, and an address that takes the answers. It has its own
idea of signatures, so that both sides are judged."""

import base64
import contextlib
import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "a secret of the hook, long enough"
TOKEN = "what-the-address-holds"
PENALTY_SECONDS = 1
PENALTY, REFUSED, CLOSED_BEFORE, CLOSED_AFTER = "penalty", "refused", "closed before", "closed after"
PACKED, LARGE, ENDLESS = "packed", "large", "endless"  # taken, with a body that nobody can use
LARGE_BYTES = 5_000_000


def sign(body: bytes, secret: str = SECRET, now: float | None = None) -> dict[str, str]:
    when = str(int(time.time() if now is None else now))
    digest = hmac.new(secret.encode(), f"{when}.".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Hermes-Signature": f"t={when},v1={digest}"}


def sign_github(body: bytes, delivery: str, event: str, secret: str = SECRET) -> dict[str, str]:
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"X-Hub-Signature-256": f"sha256={digest}", "X-GitHub-Delivery": delivery, "X-GitHub-Event": event}


class ReplyBox(ThreadingHTTPServer):
    """Takes answers: each key once, only what is signed, and with the troubles that it is told to make."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.taken: dict[str, dict[str, Any]] = {}  # by key
        self.calls: list[str] = []  # the key of each
        self.faults: list[str] = []  # what was wrong with calls
        self.troubles: list[str] = []  # of the next calls
        self.closed_until = 0.0  # nothing may come before, by the monotonic clock
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/answers?token={TOKEN}"

    def texts(self, *kinds: str) -> list[str]:
        found = [said for said in list(self.taken.values()) if not kinds or said["kind"] in kinds]
        return [said["files"][0]["name"] if said["files"] else said["text"] for said in found]

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: ReplyBox
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        key = self.headers.get("idempotency-key", "")
        self.server.calls.append(key)
        trouble = self.server.troubles.pop(0) if self.server.troubles else ""
        if trouble == CLOSED_BEFORE:
            self.close_connection = True
            return
        if time.monotonic() < self.server.closed_until:
            self.server.faults.append("during a penalty")
        if trouble == PENALTY:
            self.server.closed_until = time.monotonic() + PENALTY_SECONDS
            self._answer(429, {"retry-after": str(PENALTY_SECONDS)})
            return
        if trouble == REFUSED:
            self._answer(400, {})
            return
        if fault := self._judge(body):
            self.server.faults.append(fault)
            self._answer(401, {})
            return
        said = json.loads(body)
        for file in said["files"]:
            file["content"] = base64.b64decode(file["content"])
        self.server.taken.setdefault(key, said)
        if trouble == CLOSED_AFTER:
            self.close_connection = True
            return
        if trouble in (PACKED, LARGE, ENDLESS):
            self._take_badly(trouble)
            return
        self._answer(200, {})

    def _take_badly(self, trouble: str) -> None:
        body = b"x" * LARGE_BYTES if trouble == LARGE else b"not what it says"
        headers = {"content-encoding": "gzip"} if trouble == PACKED else {}
        self._answer(200, {**headers, "content-length": str(len(body) + (trouble == ENDLESS))})
        with contextlib.suppress(OSError):  # who has read enough has gone
            self.wfile.write(body)
            if trouble == ENDLESS:
                self.rfile.read(1)  # until they go
        self.close_connection = True

    def _judge(self, body: bytes) -> str:
        given = dict(part.split("=", 1) for part in self.headers.get("x-hermes-signature", "").split(","))
        right = sign(body, now=float(given["t"]))["X-Hermes-Signature"] if "t" in given else ""
        if right != self.headers.get("x-hermes-signature"):
            return "not signed"
        if self.headers.get("content-type") != "application/json" or not self.headers.get("idempotency-key"):
            return "without type or key"
        return ""

    def _answer(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"content-length": "0", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass
