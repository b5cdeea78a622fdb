"""Every call of the page, over a real server: what it gives, and what it says to what it cannot read."""

import json

import pytest
from web_house import WebHouse

JSON = {"Content-Type": "application/json"}


def talk(web: WebHouse, *texts: str):  # type: ignore[no-untyped-def]
    visitor = web.visit()
    conversation = visitor.open()
    stream = visitor.watch(conversation)
    for number, text in enumerate(texts, 1):
        visitor.say(conversation, text)
        stream.wait_for("settled", number)
    return visitor, conversation, stream


def test_who_and_what(web: WebHouse) -> None:
    me = web.visit().get("/web/me")
    assert set(me) == {"version", "profile", "model", "needs_setup", "upload_bytes", "commands"}
    assert {"name": "stop", "args": "", "summary": "Stop the turn under way."} in me["commands"]
    assert me["upload_bytes"] == 50 * 1024 * 1024


def test_a_conversation_is_listed_found_read_renamed_exported_and_deleted(web: WebHouse) -> None:
    visitor, conversation, stream = talk(web, "[[say The walrus answers.]] one", "[[say Again.]] two")
    listed = visitor.get("/web/threads")
    [thread] = listed["threads"]
    assert listed["more"] is False
    assert thread["conversation"] == conversation
    session = thread["session"]
    assert visitor.get(f"/web/threads/{session}")["thread"]["session"] == session
    found = visitor.get("/web/search?words=walrus")["found"]
    assert found
    assert found[0]["thread"]["session"] == session
    assert "«" in found[0]["excerpt"]
    assert visitor.get("/web/search?words=")["found"] == []
    page = visitor.get(f"/web/threads/{session}/entries?limit=2")
    assert [entry["text"] for entry in page["entries"]] == ["[[say Again.]] two", "Again."]
    assert page["more"]
    before = page["entries"][0]["position"]
    earlier = visitor.get(f"/web/threads/{session}/entries?limit=2&before={before}")
    assert [entry["text"] for entry in earlier["entries"]] == ["[[say The walrus answers.]] one", "The walrus answers."]
    assert visitor.http.patch(f"/web/threads/{session}", json={"title": "  Sea  animals "}).json()["thread"][
        "title"
    ] == ("Sea animals")
    text = visitor.http.get(f"/web/threads/{session}/export?form=md")
    assert "The walrus answers." in text.text
    assert text.headers["content-disposition"] == 'attachment; filename="Sea animals.md"'
    assert json.loads(visitor.http.get(f"/web/threads/{session}/export?form=json").text)["messages"]
    assert visitor.http.delete(f"/web/threads/{session}", headers=JSON).status_code == 204
    stream.wait_until(lambda state: state.thread is None)
    assert visitor.get("/web/threads")["threads"] == []
    assert visitor.get(f"/web/threads/{session}", 404)["error"]["code"] == "not_there"


def test_the_list_comes_in_pages(web: WebHouse) -> None:
    visitor = web.visit()
    for number in range(5):
        conversation = visitor.open()
        stream = visitor.watch(conversation)
        visitor.say(conversation, f"[[say {number}]]")
        stream.wait_for("settled")
        stream.close()
    first = visitor.get("/web/threads?limit=3")
    assert len(first["threads"]) == 3
    assert first["more"]
    rest = visitor.get(f"/web/threads?limit=3&before={first['threads'][-1]['updated']}")
    assert len(rest["threads"]) == 2
    assert not rest["more"]
    sessions = {thread["session"] for thread in [*first["threads"], *rest["threads"]]}
    assert len(sessions) == 5


def test_a_name_with_quotes_and_signs_is_a_safe_file_name(web: WebHouse) -> None:
    visitor, _, stream = talk(web, "[[say x]]")
    assert stream.state.thread
    session = stream.state.thread["session"]
    visitor.http.patch(f"/web/threads/{session}", json={"title": 'a"b\r\nSet-Cookie: x=1; ü/..'})
    answer = visitor.http.get(f"/web/threads/{session}/export")
    assert "set-cookie" not in answer.headers
    assert answer.headers["content-disposition"].count('"') == 2


def test_the_house(web: WebHouse) -> None:
    visitor = web.visit()
    status = visitor.get("/web/status")
    assert {"pid", "version", "platforms", "queue", "cache", "web"} <= set(status)
    assert status["web"]["address"] == f"{web.url}/"
    assert {"days", "total"} <= set(visitor.get("/web/usage?days=7"))
    assert isinstance(visitor.get("/web/log?lines=5")["lines"], list)
    assert "people" in visitor.post("/web/operate", name="people.list", args={})
    refused = visitor.post("/web/operate", 422, name="shutdown", args={})
    assert "people.list" in refused["error"]["message"]
    assert web.gateway.host.closing is False


def test_settings_are_read_and_changed(web: WebHouse) -> None:
    visitor = web.visit()
    settings = {view["key"]: view for view in visitor.get("/web/settings")["settings"]}
    assert "gateway.busy" in settings
    answer = visitor.http.put("/web/settings/gateway.busy", json={"value": "queue"})
    assert answer.json()["setting"]["value"] == "queue"
    wrong = visitor.http.put("/web/settings/gateway.busy", json={"value": "sometimes"})
    assert wrong.status_code == 422
    assert "gateway.busy" in wrong.json()["error"]["message"]
    assert visitor.http.put("/web/settings/no.such.key", json={"value": "1"}).status_code in (404, 422)


def test_the_set_up_can_be_put_off(web: WebHouse) -> None:
    """H5: who said later is not asked again."""
    visitor = web.visit()
    offered = visitor.get("/web/providers")
    assert offered["providers"]
    assert set(offered["model"]) >= {"model", "provider", "built_in", "problem"}
    assert visitor.http.post("/web/setup/later", json={}).status_code == 204
    assert visitor.get("/web/me")["needs_setup"] is False


BAD_BODIES = [
    (b"{", 400),
    (b"[]", 400),
    (b"null", 400),
    (b'"text"', 400),
    (b"\xff\xfe\x00", 400),
    (b"[" * 100_000, 400),
    (b'{"a":' * 50_000, 400),
    (b"{}", 422),
    (b'{"conversation": 7}', 422),
    (b'{"conversation": "x", "id": "a b"}', 422),
    (b'{"conversation": "x", "id": "' + b"a" * 65 + b'"}', 422),
    (b'{"conversation": "x", "id": "a", "text": ["x"]}', 422),
    (b'{"conversation": "x", "id": "a", "text": "x", "mode": "shout"}', 422),
    (b'{"conversation": "x", "id": "a", "text": "x", "files": "u.x"}', 422),
    (b'{"conversation": "x", "id": "a", "text": "x", "files": [1]}', 422),
    (b'{"conversation": "x", "id": "a", "text": "   "}', 422),
    (b'{"conversation": "x", "id": "a", "text": "x"}', 404),
    (b'{"conversation": "agent:other:web:dm:x", "id": "a", "text": "x"}', 404),
    (b'{"text": "' + b"x" * 2_100_000 + b'"}', 413),
]


@pytest.mark.parametrize(("body", "status"), BAD_BODIES, ids=range(len(BAD_BODIES)))
def test_bodies_that_cannot_be_read(web: WebHouse, body: bytes, status: int) -> None:
    """A clear answer with a sentence, never a broken server."""
    visitor = web.visit()
    answer = visitor.http.post("/web/say", content=body, headers=JSON)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert error["message"]
    assert error["code"]
    assert visitor.get("/web/threads")["threads"] == []


def test_half_characters_are_taken_as_they_can_be(web: WebHouse) -> None:
    """A text that a browser cut in the middle of a sign is stored and answered."""
    visitor = web.visit()
    conversation = visitor.open()
    stream = visitor.watch(conversation)
    body = json.dumps({"conversation": conversation, "id": "half", "text": "[[say fine]] \ud83d"}).encode()
    assert visitor.http.post("/web/say", content=body, headers=JSON).status_code == 200
    stream.wait_until(lambda state: state.texts("assistant") == ["fine"])


@pytest.mark.parametrize(
    "path",
    [
        "/web/threads?limit=x",
        "/web/threads?before=never",
        "/web/usage?days=1.5",
        "/web/log?lines=--",
        "/web/threads/x/entries?before=-x",
        f"/web/search?words={'x' * 2000}",
    ],
)
def test_queries_that_cannot_be_read(web: WebHouse, path: str) -> None:
    answer = web.visit().http.get(path)
    assert answer.status_code in (404, 422)
    assert answer.json()["error"]["message"]


def test_calls_that_do_not_exist(web: WebHouse) -> None:
    visitor = web.visit()
    for method, path, status in [
        ("GET", "/web/nothing", 404),
        ("GET", "/nothing", 404),
        ("GET", "/web/say", 405),
        ("DELETE", "/web/me", 405),
        ("HEAD", "/web/live?conversation=x", 405),
        ("POST", "/", 405),
        ("GET", "/web/threads/no-such-session", 404),
        ("POST", "/web/threads/no-such-session/resume", 404),
        ("GET", "/web/live?conversation=nothing", 404),
        ("GET", "/web/live", 404),
    ]:
        answer = visitor.http.request(method, path, headers=JSON)
        assert answer.status_code == status, (method, path, answer.text)
        assert method == "HEAD" or answer.json()["error"]["message"], path


def test_a_person_at_an_unknown_address_gets_a_page_with_a_way_back(web: WebHouse) -> None:
    """H8: a browser asks for HTML and gets it; a program gets JSON."""
    html = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    missing = web.visit().http.get("/statuss", headers=html)
    assert (missing.status_code, missing.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "There is no such page." in missing.text
    assert '<a href="/">' in missing.text
    assert web.visit().http.get("/statuss").json()["error"]["message"]
    stranger = web.stranger().get("/statuss", headers=html)
    assert (stranger.status_code, "hermes web" in stranger.text) == (401, True)
    assert stranger.headers["content-type"] == "text/html; charset=utf-8"


def test_a_program_that_leaves_v1_out_is_told_so(web: WebHouse) -> None:
    """H8: it is no page of another site."""
    for path in ("/chat/completions", "/responses", "/models", "/runs/one"):
        for method in ("GET", "POST"):
            answer = web.stranger().request(method, path, json={})
            assert answer.status_code == 404, (method, path, answer.text)
            assert f"/v1{path}" in answer.json()["error"]["message"]


def test_static_files_are_packed_and_kept(web: WebHouse) -> None:
    """The page names its files by a version, and what has a version is kept for ever."""
    visitor = web.visit()
    page = visitor.http.get("/")
    assert page.headers["content-encoding"] == "gzip"
    assert page.headers["cache-control"] == "no-store"
    named = page.text.partition('"/static/')[2].partition('"')[0]
    assert named.startswith("v-")
    kept = visitor.http.get(f"/static/{named}")
    assert "immutable" in kept.headers["cache-control"]
    plain = visitor.http.get(f"/static/{named.partition('/')[2]}")
    assert plain.headers["cache-control"] == "no-cache"
    assert plain.content == kept.content
    same = visitor.http.get(f"/static/{named.partition('/')[2]}", headers={"If-None-Match": plain.headers["etag"]})
    assert same.status_code == 304
    old = visitor.http.get(f"/static/v-000000000000/{named.partition('/')[2]}")
    assert old.headers["cache-control"] == "no-cache"
    assert visitor.http.get("/static/v-000000000000").status_code == 404
    for name in ("a" * 5_000, "%00", "a/" * 2_000):
        assert visitor.http.get(f"/static/{name}").status_code == 404


def test_what_cannot_be_is_told_as_such(web: WebHouse) -> None:
    """H8: nobody has this id, and no address has two lines; neither is a failure of the store or of Hermes."""
    visitor = web.visit()
    visitor.post("/web/operate", 404, name="people.remove", args={"id": "nobody"})
    visitor.post("/web/operate", 404, name="people.role", args={"id": "nobody", "role": "admin"})
    for address in ("http://127.0.0.1/\r\nX: y", "http://127.0.0.1/\0"):
        visitor.post("/web/providers/probe", 422, provider="custom", base_url=address)
