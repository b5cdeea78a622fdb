"""Files: uploads that are too large, too many or cut short, and ids that try to be paths."""

import json
import os
import socket
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import wait_until
from web_house import Visitor, WebHouse

from gateway.http.page.files import FileShelf
from hermes_base.inbound import FileRef
from hermes_base.text.file_names import MOST_NAME, find_kind, make_safe_name
from hermes_lab.server import LabServer
from hermes_state.files.folder_files import FolderFiles

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 60
MB = 1024 * 1024


def upload(visitor: Visitor, name: str, data: bytes, status: int = 200) -> dict[str, object]:
    answer = visitor.http.post("/web/upload", params={"name": name}, content=data)
    assert answer.status_code == status, answer.text
    found: dict[str, object] = answer.json()
    return found


def stored(home: Path) -> list[Path]:
    return [path for path in (home / "uploads").rglob("*") if path.is_file()] if (home / "uploads").exists() else []


def test_an_upload_goes_along_with_a_message(web: WebHouse) -> None:
    """It is stored for the owner alone, stands in the message, and can be fetched again."""
    visitor = web.visit()
    conversation = visitor.open()
    stream = visitor.watch(conversation)
    made = upload(visitor, "a picture.png", PNG)
    assert (made["name"], made["kind"], made["size"]) == ("a picture.png", "image", len(PNG))
    [path] = stored(web.home)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    visitor.say(conversation, "[[say seen]] look", files=[made["id"]])
    entry = stream.wait_for("settled")["entries"][0]
    [file] = entry["files"]
    assert (file["name"], file["kind"], file["size"]) == ("a picture.png", "image", len(PNG))
    got = visitor.http.get(file["url"])
    assert got.content == PNG
    assert got.headers["content-type"] == "image/png"
    assert got.headers["content-disposition"].startswith("inline")
    assert "sandbox" in got.headers["content-security-policy"]
    assert web.stranger().get(file["url"]).status_code == 401


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("page.html", b"<script>alert(1)</script>"),
        ("drawing.svg", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"),
        ("fake.png", b"<html><script>alert(1)</script>"),
        ("x.js", b"alert(1)"),
        ("x.pdf", b"%PDF-1.4"),
    ],
)
def test_no_file_runs_in_our_origin(web: WebHouse, name: str, data: bytes) -> None:
    """Whatever is uploaded, what is not a known picture by its bytes comes back as a download."""
    visitor = web.visit()
    made = upload(visitor, name, data)
    assert made["kind"] == "file"
    got = visitor.http.get(f"/web/files/{made['id']}")
    assert got.headers["content-type"] == "application/octet-stream"
    assert got.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in got.headers["content-security-policy"]
    assert got.headers["x-content-type-options"] == "nosniff"


def test_a_file_of_the_agent_can_be_fetched(web: WebHouse) -> None:
    """What the agent hands over comes as an entry with an address, alive and in later snapshots."""
    visitor = web.visit()
    conversation = visitor.open()
    stream = visitor.watch(conversation)
    visitor.say(conversation, "[[say hello]]")
    stream.wait_for("settled")
    web.gateway.builder._send_file(conversation, FileRef("/x/report.txt", "report.txt"), "the report", b"forty-two")
    entry = stream.wait_for("note")["entry"]
    assert (entry["kind"], entry["text"]) == ("file", "the report")
    assert visitor.http.get(entry["files"][0]["url"]).content == b"forty-two"
    later = visitor.watch(conversation)
    [again] = [one for one in later.state.entries if one["kind"] == "file"]
    assert again["files"][0]["url"] == entry["files"][0]["url"]


def test_a_hundred_megabytes_are_refused_early_and_leave_nothing(web: WebHouse) -> None:
    """413 before the body is read where its length is known, and at the limit where it is not."""
    visitor = web.visit()
    web.write_settings(web={"upload_megabytes": 5})
    cookie = "; ".join(f"{name}={value}" for name, value in visitor.http.cookies.items())
    head = f"POST /web/upload?name=big HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\nCookie: {cookie}\r\n"
    with socket.create_connection(("127.0.0.1", web.port)) as sock:
        sock.settimeout(20)
        sock.sendall(f"{head}Content-Length: {100 * MB}\r\n\r\n".encode())
        assert sock.recv(4096).startswith(b"HTTP/1.1 413")  # no byte of the body was sent
    sent = 0

    def pieces():  # type: ignore[no-untyped-def]
        nonlocal sent
        for _ in range(100):
            sent += MB
            yield b"x" * MB

    answer = visitor.http.post("/web/upload?name=big", content=pieces())
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "too_large"
    assert stored(web.home) == []
    assert list((web.home / "uploads").glob("*")) == []
    assert visitor.get("/web/me")["upload_bytes"] == 5 * MB


def test_a_large_upload_costs_no_memory(web: WebHouse) -> None:
    """Forty megabytes go to the disk piece by piece."""
    visitor = web.visit()
    upload(visitor, "warm", b"x" * MB)
    before = resident()
    answer = visitor.http.post("/web/upload?name=big", content=(b"x" * 65536 for _ in range(640)))
    assert answer.json()["size"] == 40 * MB
    assert resident() - before < 25 * MB


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_an_upload_that_breaks_off_leaves_nothing(web: WebHouse) -> None:
    visitor = web.visit()
    cookie = "; ".join(f"{name}={value}" for name, value in visitor.http.cookies.items())
    head = f"POST /web/upload?name=cut HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\nCookie: {cookie}\r\n"
    with socket.create_connection(("127.0.0.1", web.port)) as sock:
        sock.sendall(f"{head}Content-Length: {MB}\r\n\r\n".encode() + b"x" * 300_000)
        wait_until(lambda: bool(stored(web.home)))
    wait_until(lambda: not list((web.home / "uploads").glob("*")))


def test_ids_that_are_no_uploads_are_refused(web: WebHouse) -> None:
    """422 for a message with a file that is not there; 404 for whatever tries to be a path."""
    visitor = web.visit()
    conversation = visitor.open()
    secret = web.home / "web-token"
    (web.home / "shown" / "0123456789abcdef").mkdir(parents=True)
    (web.home / "shown" / "0123456789abcdef" / "link.txt").symlink_to(secret)
    (web.home / "uploads").mkdir(exist_ok=True)
    (web.home / "private").mkdir()
    (web.home / "private" / "one.txt").write_text(secret.read_text())
    (web.home / "uploads" / "linked-folder").symlink_to(web.home / "private")
    ids = ["", "u.nothing-there", "u...", "u.../../web-token", "s.0123456789abcdef", "u.linked-folder", "../web-token"]
    ids += ["p..s.0123456789abcdef", "p.../.s.0123456789abcdef", "u.0123456789abcdef\x00", "o1", "u." + "a" * 500]
    for id in ids:
        said = {"conversation": conversation, "id": "m1", "text": "x", "files": [id]}
        assert visitor.http.post("/web/say", json=said).status_code == 422, id
    raw = [f"/web/files/{id}" for id in ids if "\0" not in id and "/" not in id]
    tricks = ["/web/files/../web-token", "/web/files/..%2f..%2fweb-token", "/web/files/%2e%2e/web-token"]
    tricks += ["/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py", "/static//etc/passwd"]
    tricks += ["/static/%00", "/static/vendor", "/web/files/u.x%00", "/static/v-x/../../server.py"]
    for path in [*raw, *tricks]:
        answer = ask_raw(web, visitor, path)
        assert answer.startswith(("HTTP/1.1 404", "HTTP/1.1 401")), (path, answer[:80])
        assert secret.read_text().strip() not in answer


def ask_raw(web: WebHouse, visitor: Visitor, path: str) -> str:
    cookie = "; ".join(f"{name}={value}" for name, value in visitor.http.cookies.items())
    with socket.create_connection(("127.0.0.1", web.port)) as sock:
        ask = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        sock.sendall(ask.encode("latin-1"))
        return sock.makefile("rb").read().decode("latin-1")


def test_a_full_disk_is_said(web: WebHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """507 for an upload and for a message, and nothing is half stored."""
    visitor = web.visit()
    conversation = visitor.open()
    full = os.statvfs_result((4096, 4096, 10, 1, 1, 10, 10, 10, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda place: full)
    assert upload(visitor, "x", b"x", 507)["error"]["code"] == "disk_full"  # type: ignore[index]
    refused = visitor.post("/web/say", 507, conversation=conversation, id="a", text="hello")
    assert refused["error"]["code"] == "disk_full"
    assert stored(web.home) == []


# --- names


NAMES = st.text(max_size=300)


@given(NAMES)
def test_every_name_becomes_one_safe_part(name: str) -> None:
    safe = make_safe_name(name)
    assert safe not in ("", ".", "..")
    assert "/" not in safe
    assert "\\" not in safe
    assert "\0" not in safe
    assert len(safe.encode()) <= MOST_NAME + 12
    assert make_safe_name(safe) == safe


def test_names_keep_what_people_know_them_by() -> None:
    assert make_safe_name("Übersicht 2026.pdf") == "Übersicht 2026.pdf"
    assert make_safe_name("C:\\Users\\me\\a.txt") == "a.txt"
    assert make_safe_name("/etc/passwd") == "passwd"
    assert make_safe_name("x" * 300 + ".jpeg").endswith(".jpeg")
    assert make_safe_name("evil\u202egnp.exe") == "evil_gnp.exe"
    assert make_safe_name("") == "file"


def test_kinds_are_by_name_and_bytes() -> None:
    assert find_kind("a.png", PNG) == "image"
    assert find_kind("a.png", b"text") == "file"
    assert find_kind("a.txt", PNG) == "file"
    assert find_kind("a.ogg", b"OggS") == "audio"
    assert find_kind("a.webp", b"RIFF\n\n\n\nWEBPVP8 ") == "image"


@given(st.text(max_size=40))
def test_no_id_leads_out_of_the_shelf(tmp_path_factory: pytest.TempPathFactory, id: str) -> None:
    home = tmp_path_factory.getbasetemp()
    shelf = FileShelf(home, lambda: 1, FolderFiles(home))
    assert shelf.find_path(id) is None


def test_a_file_has_one_id_wherever_it_may_be_shown(tmp_path: Path) -> None:
    """The id is made from the place and leads back to it; a file elsewhere has none."""
    shelf = FileShelf(tmp_path, lambda: 1, FolderFiles(tmp_path))
    for place in ("uploads", "shown", "people/anna/uploads", "people/anna/shown"):
        path = tmp_path / place / "0123456789abcdef" / "a.txt"
        path.parent.mkdir(parents=True)
        path.write_text("x")
        id = shelf.name_file(FileRef(str(path), "a.txt"))
        assert shelf.find_path(id) == path
    elsewhere = tmp_path.parent / "another name of it"
    elsewhere.symlink_to(tmp_path)
    file = FileRef(str(elsewhere / "shown" / "0123456789abcdef" / "a.txt"), "a.txt")
    assert FileShelf(elsewhere, lambda: 1).name_file(file) == "s.0123456789abcdef"
    for outside in ("/etc/passwd", str(tmp_path / "web-token"), str(tmp_path / "logs" / "x" / "y"), "", "relative"):
        assert shelf.name_file(FileRef(outside, "x")) == ""


def test_files_of_a_message_that_waits_are_shown(web: WebHouse, lab: LabServer) -> None:
    visitor = web.visit()
    conversation = visitor.open()
    lab.set_plan([{"text": "x", "stall_first": 1.0, "contains": "slow"}])
    stream = visitor.watch(conversation)
    visitor.say(conversation, "slow one")
    stream.wait_for("begun")
    made = upload(visitor, "b.txt", b"hello")
    visitor.say(conversation, "and this", files=[made["id"]], mode="queue")
    heard = stream.wait_for("heard", 2)
    assert heard["files"][0]["url"] == f"/web/files/{made['id']}"
    assert json.dumps(visitor.watch(conversation).events[0]["waiting"]).count("b.txt") == 1
    assert time.time() - heard["at"] < 60
