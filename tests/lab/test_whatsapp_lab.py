"""The lab's WhatsApp judges: what the documents forbid is refused and noted; the webhook comes until it is taken."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from waiting import wait_until

from hermes_lab.chats.chat_server import ChatRemote
from hermes_lab.chats.rates import Rate
from hermes_lab.chats.whatsapp.service import WhatsAppRates
from hermes_lab.chats.whatsapp.whatsapp_lab import WhatsAppLab, WhatsAppRemote
from hermes_lab.values import LabProblem

VERSION = "v25.0"


@pytest.fixture
def lab() -> Iterator[WhatsAppLab]:
    with WhatsAppLab(hook_pause=0.05) as server:
        yield server


@pytest.fixture
def ann(lab: WhatsAppLab) -> str:
    return lab.add_person("Ann")


def call(lab: WhatsAppLab, path: str, method: str = "POST", token: str = "", **more: Any) -> httpx2.Response:
    headers = {"authorization": f"Bearer {token or lab.token}"}
    return httpx2.request(method, f"{lab.address}/{path}", headers=headers, trust_env=False, verify=False, **more)


def send(lab: WhatsAppLab, person: str, kind: str = "text", content: Any = None, **more: Any) -> httpx2.Response:
    body = {"messaging_product": "whatsapp", "recipient_type": "individual", "to": person, "type": kind}
    whole = {**body, kind: content or {"body": "hello"}, **more}
    return call(lab, f"{VERSION}/{lab.number}/messages", json={k: v for k, v in whole.items() if v is not None})


def find_code(answer: httpx2.Response) -> int:
    return int(answer.json()["error"]["code"])


def kinds(lab: WhatsAppLab) -> list[str]:
    return [complaint["kind"] for complaint in lab.complaints]


def buttons(*titles: str, ids: tuple[str, ...] = (), text: str = "Well?") -> dict[str, Any]:
    names = ids or tuple(f"b{n}" for n in range(len(titles)))
    replies = [{"type": "reply", "reply": {"id": id, "title": title}} for id, title in zip(names, titles, strict=True)]
    return {"type": "button", "body": {"text": text}, "action": {"buttons": replies}}


def rows(count: int, **more: str) -> dict[str, Any]:
    listed = [{"id": f"r{n}", "title": f"row {n}", **more} for n in range(count)]
    action = {"button": "Choose", "sections": [{"rows": listed}]}
    return {"type": "list", "body": {"text": "Well?"}, "action": action}


def test_what_is_as_documented_is_taken(lab: WhatsAppLab, ann: str) -> None:
    answer = send(lab, ann)
    assert answer.status_code == 200
    sent = answer.json()["messages"][0]["id"]
    assert sent.startswith("wamid.")
    assert send(lab, ann, "interactive", buttons("Yes", "No")).status_code == 200
    assert send(lab, ann, "interactive", rows(10, description="more")).status_code == 200
    assert send(lab, ann, context={"message_id": sent}).status_code == 200
    assert lab.seen(ann) == ["hello", "Well?", "Well?", "hello"]
    assert lab.complaints == []


@pytest.mark.parametrize(
    ("kind", "content", "more", "complaint"),
    [
        ("text", {"body": "x" * 4097}, {}, "length"),
        ("text", {"body": " "}, {}, "fields"),
        ("text", {"text": "x"}, {}, "fields"),
        ("text", {"body": "x", "parse_mode": "html"}, {}, "fields"),
        ("text", None, {"messaging_product": None}, "fields"),
        ("text", None, {"recipient_type": None}, "fields"),
        ("text", None, {"recipient_type": "group"}, "fields"),
        ("text", None, {"recipient": "DE.1"}, "fields"),
        ("text", None, {"to": None}, "fields"),
        ("text", None, {"biz_opaque_callback_data": "x" * 513}, "length"),
        ("text", None, {"context": {"message_id": "wamid.of.nobody"}}, "context"),
        ("text", None, {"silent": True}, "fields"),
        ("poll", {"question": "x"}, {}, "fields"),
        ("interactive", buttons("a", "b", "c", "d"), {}, "buttons"),
        ("interactive", buttons("x" * 21), {}, "buttons"),
        ("interactive", buttons("same", "same"), {}, "buttons"),
        ("interactive", buttons("a", "b", ids=("1", "1")), {}, "buttons"),
        ("interactive", buttons("a", ids=("x" * 257,)), {}, "buttons"),
        ("interactive", buttons("a", text="x" * 1025), {}, "length"),
        ("interactive", rows(11), {}, "buttons"),
        ("interactive", rows(1, description="x" * 73), {}, "buttons"),
        ("interactive", rows(1, title="x" * 25), {}, "buttons"),
        ("document", {"id": "1", "link": "https://a"}, {}, "fields"),
        ("document", {"id": "4711", "filename": "x"}, {}, "media"),
        ("audio", {"id": "1", "caption": "x"}, {}, "fields"),
    ],
)
def test_what_is_not_is_refused_and_noted(
    lab: WhatsAppLab, ann: str, kind: str, content: Any, more: dict[str, Any], complaint: str
) -> None:
    answer = send(lab, ann, kind, content, **more)
    assert answer.status_code == 400
    assert find_code(answer) in (100, 131008, 131009)
    assert kinds(lab) == [complaint]
    assert lab.seen(ann) == []


def test_paths_tokens_and_numbers(lab: WhatsAppLab, ann: str) -> None:
    assert call(lab, f"{lab.number}/messages", json={}).status_code == 400
    assert call(lab, f"{VERSION}/{lab.number}/unknown", json={}).status_code == 400
    assert call(lab, f"{VERSION}/7/messages", json={"to": ann}).json()["error"]["error_subcode"] == 33
    assert find_code(call(lab, f"{VERSION}/{lab.number}", "GET", token="EAAwrong")) == 190
    assert kinds(lab) == ["version", "method"]
    told = call(lab, f"{VERSION}/{lab.number}", "GET", params={"fields": "verified_name"}).json()
    assert told == {"verified_name": "Lab", "id": lab.number}
    assert find_code(call(lab, f"{VERSION}/{lab.number}", "GET", params={"fields": "shoe_size"})) == 100


def test_calls_that_go_on_after_a_token_was_refused_are_noted(lab: WhatsAppLab, ann: str) -> None:
    lab.revoke()
    assert send(lab, ann).status_code == 401
    assert kinds(lab) == []
    lab.advance(1)
    assert send(lab, ann).status_code == 401
    assert kinds(lab) == ["token"]


def test_the_24_hours_are_kept_at_once_or_later(lab: WhatsAppLab, ann: str) -> None:
    assert find_code(send(lab, lab.add_person("Bob", wrote=False))) == 131047
    lab.advance(24 * 3600 - 60)
    assert send(lab, ann).status_code == 200
    lab.advance(120)
    assert find_code(send(lab, ann)) == 131047
    lab.fail_late()
    assert send(lab, ann).status_code == 200
    assert lab.seen(ann) == ["hello"]
    lab.say(ann, "hi")
    assert send(lab, ann).status_code == 200
    assert find_code(send(lab, "490000")) == 131026
    assert lab.complaints == []


def test_too_many_messages_to_one_person() -> None:
    with WhatsAppLab(rates=WhatsAppRates(pair=Rate(1, 6.0, burst=2, slack=0))) as lab:
        bob = lab.add_person("Bob")
        assert [send(lab, bob).status_code for _ in range(2)] == [200, 200]
        answer = send(lab, bob)
        assert find_code(answer) == 131056
        assert "retry-after" not in answer.headers
        assert kinds(lab) == ["rate"]


def upload(lab: WhatsAppLab, name: str, data: bytes, mime: str) -> httpx2.Response:
    form = {"messaging_product": "whatsapp", "type": mime}
    return call(lab, f"{VERSION}/{lab.number}/media", data=form, files={"file": (name, data, mime)})


def test_files_up_and_down(lab: WhatsAppLab, ann: str) -> None:
    media = upload(lab, "a.png", b"png", "image/png").json()["id"]
    assert send(lab, ann, "image", {"id": media, "caption": "look"}).status_code == 200
    assert find_code(send(lab, ann, "audio", {"id": media})) == 131053
    about = call(lab, f"{VERSION}/{media}", "GET").json()
    path = about["url"].removeprefix(f"{lab.address}/")
    assert call(lab, path, "GET").content == b"png"
    assert call(lab, path, "GET", token="none").status_code == 401
    lab.advance(301)
    assert call(lab, path, "GET").status_code == 404
    for name, data, mime in (
        ("a.zip", b"PK", "application/zip"),
        ("a.png", bytes(5 * 1024 * 1024 + 1), "image/png"),
        ("a.txt", b"", "text/plain"),
    ):
        assert find_code(upload(lab, name, data, mime)) == 100
    assert kinds(lab) == ["media"] * 4


def test_signs_are_about_messages_that_came_in(lab: WhatsAppLab, ann: str) -> None:
    said = lab.say(ann, "hi")
    sign = {"messaging_product": "whatsapp", "status": "read", "message_id": said}
    path = f"{VERSION}/{lab.number}/messages"
    assert call(lab, path, json=sign).json() == {"success": True}
    assert call(lab, path, json={**sign, "typing_indicator": {"type": "text"}}).status_code == 200
    assert (lab.typing(ann), lab.messages(ann)[0]["read"]) == (1, True)
    ours = send(lab, ann).json()["messages"][0]["id"]
    for wrong in ({"message_id": ours}, {"message_id": "wamid.x"}, {"typing_indicator": {"type": "voice"}}):
        assert find_code(call(lab, path, json={**sign, **wrong})) == 100
    assert kinds(lab) == ["context", "context", "fields"]


def test_the_webhook_is_signed_and_comes_until_it_is_taken(lab: WhatsAppLab, ann: str) -> None:
    """With the same bytes, whose escapes are Meta's; only after the address knew the word."""
    heard: list[tuple[str, dict[str, str], bytes]] = []
    statuses = [503, 500]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        body = await reader.readexactly(int(headers["content-length"]))
        heard.append((head[0], headers, body))
        told = b"1158201444" if head[0].startswith("GET") and "right-word" in head[0] else b""
        status = 200 if head[0].startswith("GET") or not statuses else statuses.pop()
        writer.write(f"HTTP/1.1 {status} x\r\nContent-Length: {len(told)}\r\n\r\n".encode() + told)
        await writer.drain()
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
        assert await asyncio.to_thread(lab.set_hook, url, "wrong-word") == -1
        lab.say(ann, "🙂 a/b")
        assert await asyncio.to_thread(lab.set_hook, url, "right-word") == 200
        await asyncio.to_thread(wait_until, lambda: lab.pending() == 0)
        server.close()
        await server.wait_closed()

    asyncio.run(run())
    posts = [(headers, body) for line, headers, body in heard if line.startswith("POST")]
    assert len(posts) == 3
    assert len({body for _, body in posts}) == 1
    headers, body = posts[0]
    signed = hmac.new(lab.app_secret.encode(), body, hashlib.sha256).hexdigest()
    assert headers["x-hub-signature-256"] == f"sha256={signed}"
    assert b"\\ud83d\\ude42 a\\/b" in body
    assert json.loads(body)["entry"][0]["changes"][0]["value"]["messages"][0]["text"]["body"] == "🙂 a/b"


def test_it_is_steered_from_another_process(lab: WhatsAppLab) -> None:
    remote = WhatsAppRemote(lab.address)
    assert isinstance(remote, ChatRemote)
    bob = remote.add_person("Bob")
    remote.say(bob, "hello")
    assert lab.messages(bob)[0]["text"] == "hello"
    with pytest.raises(LabProblem):
        remote.press(bob, "nothing")
