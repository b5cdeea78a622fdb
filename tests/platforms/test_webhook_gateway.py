"""Webhooks through a whole gateway: from a signed request to the answer, also over a kill."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from gateway_process import GatewayProcess
from hook_service import CLOSED_AFTER, CLOSED_BEFORE, ENDLESS, LARGE, PACKED, PENALTY, SECRET, ReplyBox, sign
from house import House
from loop_watch import watch_loop
from waiting import wait_until
from web_house import WebHouse, find_free_port

from gateway.platforms.face import HookRequest
from gateway.service.admin import platform_setup
from gateway.service.chat_messenger import ChatMessenger
from gateway.turns import sender
from hermes_base.inbound import Address
from hermes_base.setting_table import read_settings
from hermes_base.text.foreign import FOREIGN, PROGRAM
from hermes_cli.cmds import doctor
from hermes_lab.server import LabServer

ALARM = Address("webhook", "alarm", "main").conversation("default")


@pytest.fixture
def box() -> Iterator[ReplyBox]:
    made = ReplyBox()
    yield made
    made.close()


def settings(box: ReplyBox | None = None, **own: Any) -> dict[str, Any]:
    alarm = {"secret": SECRET, **({"reply_url": box.url} if box else {}), **own}
    return {
        "platforms": {"webhook": {"enabled": True, "accounts": {"alarm": alarm}}},
        "network": {"private": ["127.0.0.1"]},
    }


def send(url: str, text: str, key: str = "", secret: str = SECRET, **more: Any) -> httpx2.Response:
    body = json.dumps({"text": text, **more}).encode()
    headers = {"Host": "tunnel.example", **sign(body, secret), **({"Idempotency-Key": key} if key else {})}
    return httpx2.post(f"{url}/hooks/webhook/alarm", content=body, headers=headers, timeout=30)


def rows(house: WebHouse, conversation: str = ALARM) -> list[dict[str, Any]]:
    info = house.gateway.store.current(conversation)
    return [dict(row.message) for row in house.gateway.store.load(info.id).rows] if info else []


def test_a_request_is_answered_at_the_reply_url_once(tmp_path: Path, lab: LabServer, box: ReplyBox) -> None:
    """C1, C7, C9: however often it comes, and however the answer fares on its way."""
    box.troubles += [CLOSED_BEFORE, CLOSED_AFTER, PENALTY]
    with WebHouse(tmp_path / "home", lab.base_url, **settings(box)) as house:
        for _ in range(3):
            assert send(house.url, "[[say It is green.]]", "run-1").status_code == 200
        wait_until(lambda: box.texts("answer") == ["It is green."], 60)
        house.wait_quiet()
        assert send(house.url, "[[say It is green.]]", "run-1").status_code == 200
        house.wait_quiet()
        (said,) = [one for one in box.taken.values() if one["kind"] == "answer"]
        assert len(box.calls) == 4
        assert len(set(box.calls)) == 1
        assert (said["hook"], said["conversation"]) == ("alarm", "main")
        assert box.faults == []


def test_what_the_reply_url_has_taken_is_not_sent_again(tmp_path: Path, lab: LabServer, box: ReplyBox) -> None:
    """C9: its status counts, whatever stands behind it, and nothing later is held up."""
    box.troubles += [PACKED, LARGE, ENDLESS]
    with WebHouse(tmp_path / "home", lab.base_url, **settings(box)) as house:
        for word in ("one", "two", "three", "four"):
            assert send(house.url, f"[[say {word}]]", word).status_code == 200
        wait_until(lambda: box.texts("answer") == ["one", "two", "three", "four"], 60)
        house.wait_quiet()
        assert len(box.calls) == len(set(box.calls))
        assert box.faults == []


def test_the_hook_is_a_member_of_its_own_and_its_text_is_foreign(tmp_path: Path, lab: LabServer) -> None:
    """G1, G2, G9, G12: nobody had to approve it, no name in the body is anybody, and what it says is marked."""
    with WebHouse(tmp_path / "home", lab.base_url, **settings()) as house:
        assert send(house.url, "[[say Thanks.]]", sender="owner", role="owner").status_code == 200
        house.wait_quiet()
        person = house.gateway.people.find("webhook", "alarm")
        assert person is not None
        assert person.role == "member"
        assert house.gateway.people.person_of(ALARM) == person.id
        messages = rows(house)
        assert [PROGRAM in row.get(FOREIGN, ()) for row in messages if row["role"] == "user"] == [True]
        assert house.gateway.turns.depth() == (0, 0)  # without a reply_url the answer stays in the conversation
        assert messages[-1]["content"] == "Thanks."


def test_a_hook_of_the_owner_works_with_what_is_theirs(tmp_path: Path, lab: LabServer) -> None:
    with WebHouse(tmp_path / "home", lab.base_url, **settings(role="owner")) as house:
        assert send(house.url, "[[say Thanks.]]").status_code == 200
        house.wait_quiet()
        assert house.gateway.people.people() == []  # it is nobody: the owner is still to come
        assert house.gateway.people.person_of(ALARM) == ""
        page = house.visit().watch(ALARM)  # whose it is reads the answer there
        page.wait_until(lambda state: "Thanks." in state.texts())


def speak(house: House, text: str) -> int:
    """The hook says something; what it is answered."""
    body = json.dumps({"text": text}).encode()
    headers = {name.lower(): value for name, value in sign(body).items()}
    adapter = next(one for one in house.gateway.adapters if one.account == "alarm")
    status = house.wait_for(adapter.receive_hook(HookRequest("POST", "", headers, {}, body))).status
    house.wait_quiet()
    return status


def test_a_hook_of_the_owner_is_not_the_owner(tmp_path: Path, lab: LabServer) -> None:
    """G1, G2: who owns the machine comes by a code as ever, and goes without taking the hook along."""
    with House(tmp_path / "home", lab.base_url, platforms=settings(role="owner")["platforms"]) as house:
        assert speak(house, "[[say one]]") == 200
        ann = house.person("ann")
        ann.ask("hello")
        code = house.operate("people.list")["pairings"][0]["code"]
        person = house.operate("people.approve", code=code, role="owner")["person"]["id"]
        assert speak(house, "[[say two]]") == 200
        (known,) = house.operate("people.list")["people"]
        assert [one["sender"] for one in known["identities"]] == ["ann"]
        house.operate("people.remove", id=person)
        assert speak(house, "[[say three]]") == 200
        said = [row.outgoing.text for row in house.gateway.turns.outbox_since(ALARM, 0)]
        assert said == ["one", "two", "three"]


def test_a_hook_raises_nobody(tmp_path: Path, lab: LabServer) -> None:
    """G2, G3: who is the owner no more stays that when a hook of theirs speaks; it speaks as what they are."""
    given = settings(role="owner")
    with House(tmp_path / "home", lab.base_url, **given) as house:
        people, config = house.gateway.people, read_settings(given)
        ann = people.add("Ann", "owner", "pretend", "ann")
        people.link(ann.id, "webhook", "alarm")
        assert sender.admit(people, config, "webhook", "alarm").role == "owner"
        house.operate("people.role", id=ann.id, role="member")
        assert speak(house, "[[say hello]]") == 200
        known = people.get(ann.id)
        assert known is not None
        assert known.role == "member"
        assert sender.admit(people, config, "webhook", "alarm") == sender.standing(known)
        house.operate("people.unlink", id=ann.id, platform="webhook", sender="alarm")
        assert speak(house, "[[say hello]]") == 403


def test_a_hook_that_becomes_the_owners_is_not_its_own_any_more(tmp_path: Path, lab: LabServer) -> None:
    """G2: the settings say as whom it speaks, from the next request on."""
    with House(tmp_path / "home", lab.base_url, **settings()) as house:
        assert speak(house, "[[say hello]]") == 200
        people = house.gateway.people
        for role in ("owner", "member"):
            assert sender.admit(people, read_settings(settings(role=role)), "webhook", "alarm").role == role
        assert [one.role for one in people.people()] == ["member"]


def test_a_hook_that_was_taken_out_of_the_settings_is_nobody(tmp_path: Path, lab: LabServer) -> None:
    """G3"""
    with WebHouse(tmp_path / "home", lab.base_url, **settings()) as house:
        assert send(house.url, "[[say One.]]").status_code == 200
        house.wait_quiet()
        people = house.gateway.people
        before = read_settings(settings())
        assert sender.admit(people, before, "webhook", "alarm").role == "member"
        for gone in ({"enabled": False, "accounts": {"alarm": {}}}, {"enabled": True, "accounts": {"other": {}}}, {}):
            after = read_settings({"platforms": {"webhook": gone}})
            assert sender.admit(people, after, "webhook", "alarm").role == ""


def test_a_hook_whose_person_was_removed_gets_neither_answer_nor_code(
    tmp_path: Path, lab: LabServer, box: ReplyBox
) -> None:
    """G3: the settings do not bring back who was removed by command."""
    with WebHouse(tmp_path / "home", lab.base_url, **settings(box)) as house:
        assert send(house.url, "[[say one]]").status_code == 200
        wait_until(lambda: box.texts() == ["one"], 30)
        house.wait_quiet()
        person = house.gateway.people.find("webhook", "alarm")
        assert person is not None
        house.gateway.people.remove(person.id)
        before = len(lab.requests)
        stored = house.gateway.turns.depth()
        answer = send(house.url, "[[say two]]")
        assert (answer.status_code, "retry-after" in answer.headers) == (403, False)
        assert "ended the access of this program" in answer.text
        assert house.gateway.turns.depth() == stored
        house.wait_quiet()
        assert box.texts() == ["one"]
        assert len(lab.requests) == before


def test_what_is_not_signed_costs_nothing(tmp_path: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """G1: 401, no call of the store, no person, no model call."""
    with WebHouse(tmp_path / "home", lab.base_url, **settings()) as house:
        stored: list[object] = []
        monkeypatch.setattr(house.gateway, "take", lambda inbound: stored.append(inbound))
        before = len(lab.requests)
        for _ in range(5):
            answer = send(house.url, "hello", secret="another secret of theirs")
            assert (answer.status_code, answer.content) == (401, b"")
        assert stored == []
        assert house.gateway.people.find("webhook", "alarm") is None
        assert len(lab.requests) == before


@pytest.mark.parametrize(
    ("own", "header"), [({}, "x-hermes-signature"), ({"signature": "body", "signature_header": "X-Mine"}, "x-mine")]
)
def test_the_header_of_the_signature_is_asked_for_before_the_body(
    tmp_path: Path, lab: LabServer, own: dict[str, str], header: str
) -> None:
    """G1, F1"""
    with WebHouse(tmp_path / "home", lab.base_url, **settings(**own)) as house:
        adapter = next(one for one in house.gateway.adapters if one.account == "alarm")
        assert adapter.hook_header == header
        assert httpx2.post(f"{house.url}/hooks/webhook/alarm", content=b"x" * 2_000_000).status_code == 401


def test_a_slash_is_text_and_an_approval_is_not_given_by_a_hook(tmp_path: Path, lab: LabServer, box: ReplyBox) -> None:
    """G4: a program neither runs commands of ours nor says yes to its own turn."""
    given = {**settings(box, role="owner"), "approvals": {"mode": "ask"}}
    with WebHouse(tmp_path / "home", lab.base_url, **given) as house:
        send(house.url, '[[tool terminal {"command": "touch made"}]]')
        wait_until(lambda: bool(box.texts("question")), 30)
        for text in ("approve", "yes", "/stop", "/approve"):
            assert send(house.url, text).status_code == 200
        wait_until(lambda: house.gateway.turns.depth()[0] == 5, 30)
        assert house.gateway.questions.open(ALARM) is not None
        page = house.visit()
        page.post("/web/stop", conversation=ALARM)
        wait_until(lambda: house.gateway.questions.open(ALARM) is None, 30)
        house.wait_quiet()
    assert not list(tmp_path.rglob("made"))


def test_what_cannot_be_stored_now_is_sent_again_by_the_service(
    tmp_path: Path, lab: LabServer, box: ReplyBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C1, C14, F7: a full disk and an end of the gateway are 503 with a time, and nothing is kept."""
    with WebHouse(tmp_path / "home", lab.base_url, **settings(box)) as house:
        with monkeypatch.context() as full:
            full.setattr("gateway.service.gateway.measure_free", lambda home: 0)
            answer = send(house.url, "[[say late]]", "k")
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) > 0
            assert "disk is nearly full" in answer.text
        house.gateway.host.closing = True
        answer = send(house.url, "[[say late]]", "k")
        assert (answer.status_code, "shutting down" in answer.text) == (503, True)
        house.gateway.host.closing = False
        assert send(house.url, "[[say late]]", "k").status_code == 200
        wait_until(lambda: box.texts("answer") == ["late"], 30)


def test_conversations_by_pointer_are_apart_and_in_order(tmp_path: Path, lab: LabServer, box: ReplyBox) -> None:
    """C3: many at once; each conversation has its answers in its order."""
    with WebHouse(tmp_path / "home", lab.base_url, **settings(box, conversation="/issue")) as house:
        for n in range(3):
            threads = [
                threading.Thread(target=send, args=(house.url, f"[[say {n}]]", f"{issue}-{n}"), kwargs={"issue": issue})
                for issue in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        wait_until(lambda: len(box.texts("answer")) == 12, 60)
        answers = [one for one in box.taken.values() if one["kind"] == "answer"]
    for issue in range(4):
        assert [one["text"] for one in answers if one["conversation"] == str(issue)] == ["0", "1", "2"]


def test_an_address_that_may_not_be_called_is_told_and_tried_again(
    tmp_path: Path, lab: LabServer, box: ReplyBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G8: a name that leads to this machine; nothing is sent there, and nothing is lost."""
    given = settings(box, reply_url=box.url.replace("127.0.0.1", "localhost"))
    with WebHouse(tmp_path / "home", lab.base_url, **{**given, "network": {"private": []}}) as house:
        assert send(house.url, "[[say hello]]").status_code == 200
        adapter = next(one for one in house.gateway.adapters if one.account == "alarm")
        wait_until(lambda: "localhost is not called" in adapter.problem, 30)
        status = house.run(house.gateway.operations.perform("status", {}))
        told = next(one for one in status["platforms"] if one["name"] == "webhook")
        assert "network.private" in told["problem"]
        assert house.gateway.turns.depth()[1] == 1
    assert box.calls == []


def test_hooks_of_different_roles_share_no_secret(tmp_path: Path, lab: LabServer, box: ReplyBox) -> None:
    """G1: what is signed for a hook that may less is not taken by one that may more; status and doctor say why, and the
    lesser one works."""
    given = settings(box)
    accounts = given["platforms"]["webhook"]["accounts"]
    accounts["mine"] = {"secret": f" {SECRET} ", "role": "owner"}
    accounts["other"] = {"secret": f"{SECRET} of its own", "role": "owner"}
    with WebHouse(tmp_path / "home", lab.base_url, **given) as house:
        body = json.dumps({"text": "[[say hello]]"}).encode()
        answers = {
            name: httpx2.post(f"{house.url}/hooks/webhook/{name}", content=body, headers=sign(body, secret)).status_code
            for name, secret in (("alarm", SECRET), ("mine", SECRET), ("other", f"{SECRET} of its own"))
        }
        assert answers == {"alarm": 200, "mine": 503, "other": 200}
        wait_until(lambda: "hello" in box.texts("answer"), 30)
        problems = {one.account: one.problem for one in house.gateway.adapters if one.spec.name == "webhook"}
        assert "has the same secret" in problems["mine"]
        assert (problems["alarm"], problems["other"]) == ("", "")
        assert SECRET not in problems["mine"]
        house.wait_quiet()
    found = [line for line in map(str, doctor._check_accounts(read_settings(given))) if "has the same secret" in line]
    assert len(found) == 1


def test_a_hook_without_a_secret_is_told_at_the_start_and_by_doctor(
    tmp_path: Path, lab: LabServer, caplog: pytest.LogCaptureFixture
) -> None:
    given = settings(secret="")
    with WebHouse(tmp_path / "home", lab.base_url, **given) as house:
        assert send(house.url, "hello").status_code == 503
        assert any("Webhook (alarm): A hook without a secret" in line for line in house.gateway.operations.describe())
    assert "Webhook is not connected, and will be tried again: A hook without a secret takes nothing" in caplog.text
    found = list(doctor._check_accounts(read_settings(given)))
    assert [(one.level, "A hook without a secret" in one.what) for one in found] == [("fail", True)]
    fine = list(doctor._check_accounts(read_settings(settings())))
    assert [(one.level, "/hooks/webhook/alarm" in one.what) for one in fine] == [("ok", True)]
    off = list(doctor._check_platforms(read_settings({**settings(), "web": {"enabled": False}})))
    assert [one.level for one in off] == ["warn"]


def test_large_requests_hold_up_nobody(
    tmp_path: Path, lab: LabServer, box: ReplyBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F5: a megabyte of JSON, signed or not, is read beside the event loop."""
    with WebHouse(tmp_path / "home", lab.base_url, **settings(box)) as house:
        send(house.url, "[[say warm]]")
        wait_until(lambda: bool(box.texts("answer")), 30)
        culprits = watch_loop(monkeypatch)
        rows = [[n, "x" * 20] for n in range(30_000)]
        for n in range(3):
            assert send(house.url, f"[[say {n}]]", rows=rows).status_code == 200
            assert send(house.url, "no", secret="another secret of theirs", rows=rows).status_code == 401
        wait_until(lambda: len(box.texts("answer")) == 4, 30)
        assert culprits == []


def test_a_hook_is_alive_while_our_server_listens(tmp_path: Path, lab: LabServer) -> None:
    """C13: nobody has to ask it for that; one that cannot work is not."""
    with WebHouse(tmp_path / "home", lab.base_url, **settings()) as house:
        adapter = next(one for one in house.gateway.adapters if one.account == "alarm")
        for problem, is_alive in (("", True), ("It is broken.", False)):
            adapter.last_seen, adapter.problem = 1.0, problem
            house.run(house.gateway.chores._sweep())
            assert (adapter.last_seen > 1.0) is is_alive


def test_set_up_by_questions_it_takes_what_is_signed(
    tmp_path: Path, lab: LabServer, box: ReplyBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H5: the answers to the questions of its set-up make a hook that works; a short secret is not kept."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    with WebHouse(tmp_path / "home", lab.base_url, network={"private": ["127.0.0.1"]}) as house:
        answers = {"account": "alarm", "secret": "short", "reply_url": box.url}
        assert not platform_setup.use_answers("webhook", answers).ok
        assert "webhook" not in (tmp_path / "home" / "config.yaml").read_text()
        probed = platform_setup.use_answers("webhook", {**answers, "secret": SECRET})
        assert (probed.ok, "/hooks/webhook/alarm" in probed.text) == (True, True)
        assert platform_setup.find_told("webhook") == ""
        assert SECRET not in (tmp_path / "home" / "config.yaml").read_text()
        wait_until(lambda: send(house.url, "[[say It works.]]", "k").status_code == 200, 30)
        wait_until(lambda: box.texts("answer") == ["It works."], 30)


def test_a_hook_of_other_settings_is_served_at_once(tmp_path: Path, lab: LabServer) -> None:
    """H6: another secret takes the place of the first without a restart, and a hook that is gone is 404."""
    with WebHouse(tmp_path / "home", lab.base_url, **settings()) as house:
        assert send(house.url, "[[say one]]").status_code == 200
        house.write_settings(**settings(secret="another secret of ours"))
        wait_until(lambda: send(house.url, "[[say two]]", "k", "another secret of ours").status_code == 200, 30)
        assert send(house.url, "[[say three]]").status_code == 401
        house.write_settings()
        wait_until(lambda: send(house.url, "[[say four]]").status_code == 404, 30)
        house.wait_quiet()


def test_without_a_reply_url_its_person_is_told_at_home(tmp_path: Path, lab: LabServer, box: ReplyBox) -> None:
    """C9: the owner has chosen a chat of theirs; a hook that has a reply_url does not write there."""
    sections = settings(role="owner")["platforms"]
    sections["webhook"]["accounts"]["loud"] = {"secret": SECRET, "role": "owner", "reply_url": box.url}
    body = b'{"text": "[[say It is green.]]"}'
    headers = {name.lower(): value for name, value in sign(body).items()}
    network = {"private": ["127.0.0.1"]}
    with House(tmp_path / "home", lab.base_url, pretend={"owner": "ann"}, platforms=sections, network=network) as house:
        ann = house.person("ann")
        ann.ask("/sethome")
        for name in ("alarm", "loud"):
            adapter = next(one for one in house.gateway.adapters if one.account == name)
            answer = house.wait_for(adapter.receive_hook(HookRequest("POST", "", headers, {}, body)))
            assert answer.status == 200
        house.wait_quiet()
        assert ann.count("It is green.") == 1
        assert "about another conversation" in ann.wait_seen("It is green.").text
    assert box.texts("answer") == ["It is green."]


def test_a_message_to_a_hook_is_read_by_others(tmp_path: Path, lab: LabServer) -> None:
    """G9: a hook that speaks as the owner is one of their chats, and still a program that reads what is sent there."""
    body = b'{"text": "[[say It is green.]]"}'
    headers = {name.lower(): value for name, value in sign(body).items()}
    sections = settings(role="owner")["platforms"]
    with House(tmp_path / "home", lab.base_url, pretend={"owner": "ann"}, platforms=sections) as house:
        ann = house.person("ann")
        ann.ask("[[say hello]]")
        adapter = next(one for one in house.gateway.adapters if one.account == "alarm")
        house.wait_for(adapter.receive_hook(HookRequest("POST", "", headers, {}, body)))
        house.wait_quiet()
        parts = house.gateway.parts
        messenger = ChatMessenger(
            parts.files, parts.store, parts.delivery, parts.whereabouts, parts.profile, ann.conversation
        )
        found = {target.address.platform: target for target in messenger.targets()}
        assert (found["webhook"].own, found["webhook"].is_read_by_others) == (True, True)
        assert (found["pretend"].own, found["pretend"].is_read_by_others) == (True, False)


def test_a_question_that_nobody_would_read_is_told_at_home(tmp_path: Path, lab: LabServer, box: ReplyBox) -> None:
    """G4: the hook has no reply_url, so its person hears that a question waits; once, and not where there is one."""
    sections = settings(role="owner")["platforms"]
    sections["webhook"]["accounts"]["loud"] = {"secret": SECRET, "role": "owner", "reply_url": box.url}
    body = json.dumps({"text": '[[tool terminal {"command": "touch made"}]]'}).encode()
    headers = {name.lower(): value for name, value in sign(body).items()}
    given = {"platforms": sections, "network": {"private": ["127.0.0.1"]}, "approvals": {"mode": "ask"}}
    with House(tmp_path / "home", lab.base_url, pretend={"owner": "ann"}, **given) as house:
        ann = house.person("ann")
        ann.ask("/sethome")
        for name in ("loud", "alarm"):
            adapter = next(one for one in house.gateway.adapters if one.account == name)
            assert house.wait_for(adapter.receive_hook(HookRequest("POST", "", headers, {}, body))).status == 200
        assert "touch made" in ann.wait_seen("A question waits on the page").text
        wait_until(lambda: bool(box.texts("question")), 30)
        assert ann.count("A question waits on the page") == 1
        assert house.gateway.questions.open(ALARM) is not None


def test_chats_of_several_accounts_have_names_of_their_own(tmp_path: Path, lab: LabServer) -> None:
    """Both hooks have a chat `main`; each can be addressed."""
    body = b'{"text": "[[say It is green.]]"}'
    headers = {name.lower(): value for name, value in sign(body).items()}
    sections = settings(role="owner")["platforms"]
    sections["webhook"]["accounts"]["other"] = {"secret": SECRET, "role": "owner"}
    with House(tmp_path / "home", lab.base_url, pretend={"owner": "ann"}, platforms=sections) as house:
        ann = house.person("ann")
        ann.ask("[[say hello]]")
        for name in ("alarm", "other"):
            adapter = next(one for one in house.gateway.adapters if one.account == name)
            house.wait_for(adapter.receive_hook(HookRequest("POST", "", headers, {}, body)))
        house.wait_quiet()
        parts = house.gateway.parts
        messenger = ChatMessenger(
            parts.files, parts.store, parts.delivery, parts.whereabouts, parts.profile, ann.conversation
        )
        for name in ("alarm", "other"):
            assert messenger.find(f"webhook:{name}/main").address == Address("webhook", name, "main")
        assert messenger.find("pretend:chat-ann").here


def test_it_is_the_same_over_kills(tmp_path: Path, lab: LabServer, box: ReplyBox) -> None:
    """C1, C2, C7: a service that sends until it hears 200, and a process that is killed again and again: each message
    is answered, and each answer is taken once."""
    port = find_free_port()
    given = {**settings(box), "web": {"port": port}}
    url = f"http://127.0.0.1:{port}"
    said = [f"m{n}" for n in range(12)]

    def post_all() -> None:
        for text in said:
            while True:
                try:
                    if send(url, f"[[say {text}]]", text).status_code == 200:
                        break
                except httpx2.TransportError:
                    pass
                asyncio.run(asyncio.sleep(0.02))

    with GatewayProcess(tmp_path / "home", lab.base_url, **given) as gateway:
        gateway.start()
        service = threading.Thread(target=post_all, daemon=True)
        service.start()
        for taken in (2, 5, 8):
            wait_until(lambda taken=taken: len(box.texts("answer")) >= taken, 60)
            gateway.kill()
            gateway.start()
        service.join(60)
        wait_until(lambda: len(box.texts("answer")) >= len(said), 60)
        log = gateway.log
    assert box.texts("answer") == said
    assert box.faults == []
    assert SECRET not in log
