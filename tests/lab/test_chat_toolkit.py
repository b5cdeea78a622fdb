"""What all chat apps of the lab share: faults by plan, rates and penalties, forms."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from hermes_lab.chats.faults import ChatFault, FaultPlan
from hermes_lab.chats.forms import BadForm, read_form
from hermes_lab.chats.rates import ACCOUNT, Rate, RateBook, Share, whole_seconds
from hermes_lab.chats.telegram.telegram_lab import TelegramLab
from hermes_lab.values import LabProblem


def take_all(plan: FaultPlan, method: str, count: int, chat: str = "") -> list[str]:
    return [fault.kind if (fault := plan.take(method, chat)) else "" for _ in range(count)]


def test_a_fault_waits_for_its_call() -> None:
    plan = FaultPlan()
    plan.replace([ChatFault("cut_after", "send*", skip=2), {"kind": "late", "method": "getMe", "times": 2}])
    assert take_all(plan, "sendMessage", 4) == ["", "", "cut_after", ""]
    assert take_all(plan, "getMe", 3) == ["late", "late", ""]
    assert plan.count_left() == 0


def test_a_fault_for_one_chat() -> None:
    plan = FaultPlan()
    plan.replace([ChatFault("error", chat="7", times=0)])
    assert take_all(plan, "sendMessage", 2, "8") == ["", ""]
    assert take_all(plan, "sendMessage", 2, "7") == ["error", "error"]


def test_chance_comes_from_a_seeded_die() -> None:
    first, second, other = FaultPlan(), FaultPlan(), FaultPlan()
    for plan, seed in ((first, 1), (second, 1), (other, 2)):
        plan.replace([ChatFault("page", times=0, chance=0.3)], seed)
    drawn = take_all(first, "x", 1000)
    assert drawn == take_all(second, "x", 1000)
    assert drawn != take_all(other, "x", 1000)
    assert 200 < Counter(drawn)["page"] < 400


@pytest.mark.parametrize("fault", [{"kind": "nothing"}, {"kind": "late", "colour": "red"}, {}])
def test_a_plan_with_a_mistake_says_so(fault: dict[str, str]) -> None:
    with pytest.raises(LabProblem, match="Known are"):
        FaultPlan().replace([fault])


@given(st.lists(st.floats(0, 3), max_size=60), st.sampled_from([Rate(1, 1.0, burst=3), Rate(20, 60.0), Rate(5, 2.0)]))
def test_no_window_has_more_than_the_rate(gaps: list[float], rate: Rate) -> None:
    """What is let through never passes the rate, and who waits as long as told is let through."""
    book, now, passed = RateBook(), 0.0, []
    for gap in gaps:
        now += gap
        excess = book.take(now, [Share("c", rate)])
        if excess is not None:
            assert excess.seconds > 0
            now += excess.seconds + 1e-6
            assert book.take(now, [Share("c", rate)]) is None
        passed.append(now)
    for n, begin in enumerate(passed):
        for m in range(n, len(passed)):
            within = passed[m] - begin
            most = rate.burst + rate.slack + within * rate.calls / rate.seconds + 1e-3
            if rate.burst:
                assert m - n + 1 <= most
            elif within < rate.seconds:
                assert m - n + 1 <= rate.calls + rate.slack


def test_a_call_that_is_too_many_somewhere_counts_nowhere() -> None:
    book, chat, account = RateBook(), Rate(1, 1.0, burst=1, slack=0), Rate(10, 1.0, burst=2, slack=0)
    assert book.take(0.0, [Share(ACCOUNT, account), Share("c", chat)]) is None
    excess = book.take(0.0, [Share(ACCOUNT, account), Share("c", chat)])
    assert excess is not None
    assert excess.scope == "c"
    assert book.take(0.0, [Share(ACCOUNT, account), Share("d", chat)]) is None


def test_a_penalty_is_for_its_scope_and_ends() -> None:
    book = RateBook()
    book.punish(10.0, "c", 5.0)
    assert book.find_penalty(12.0, [Share(ACCOUNT), Share("d")]) is None
    found = book.find_penalty(12.0, [Share(ACCOUNT), Share("c")])
    assert found is not None
    assert found.until == 15.0
    assert book.find_penalty(15.0, [Share("c")]) is None
    book.punish(20.0, ACCOUNT, 1.0)
    assert book.find_penalty(20.5, [Share(ACCOUNT), Share("d")]) is not None


@pytest.mark.parametrize(("seconds", "told"), [(0.0, 1), (0.2, 1), (1.0, 1), (1.2, 2), (30.0, 30)])
def test_a_client_is_never_told_too_little(seconds: float, told: int) -> None:
    assert whole_seconds(seconds) == told


def test_forms_of_every_kind() -> None:
    assert read_form("a=1&b=%C3%A9", "", b"").values == {"a": "1", "b": "é"}
    assert read_form("", "application/x-www-form-urlencoded", b"a=1+2&b=").values == {"a": "1 2", "b": ""}
    assert read_form("", "application/json; charset=utf-8", b'{"a": [1]}').values == {"a": [1]}


@given(st.binary(max_size=400), st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=20))
def test_parts_keep_every_byte(data: bytes, name: str) -> None:
    boundary = "b" * 40
    body = (
        (
            f'--{boundary}\r\nContent-Disposition: form-data; name="chat_id"\r\n\r\n7\r\n'
            f'--{boundary}\r\nContent-Disposition: form-data; name="document"; filename="{name}"\r\n'
            "Content-Type: text/plain\r\n\r\n"
        ).encode()
        + data
        + f"\r\n--{boundary}--\r\n".encode()
    )
    form = read_form("", f"multipart/form-data; boundary={boundary}", body)
    assert form.values == {"chat_id": "7"}
    assert (form.files["document"].name, form.files["document"].data) == (name, data)
    assert form.describe() == {"chat_id": "7", "document": {"file": name, "size": len(data)}}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"[1]"),
        ("application/json", b"{"),
        ("application/x-www-form-urlencoded", b"a=%ff"),
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=q", b"--q\r\nx\r\n"),
        ("text/plain", b"x"),
    ],
)
def test_a_body_that_is_not_what_it_says(kind: str, body: bytes) -> None:
    with pytest.raises(BadForm):
        read_form("", kind, body)


def test_a_fault_can_be_written_as_json() -> None:
    plan = FaultPlan()
    plan.replace(json.loads('[{"kind": "too_many", "seconds": 3, "whole_account": true}]'))
    fault = plan.take("sendMessage", "1")
    assert fault is not None
    assert (fault.seconds, fault.whole_account) == (3, True)


def test_an_app_without_websockets_refuses_them() -> None:
    with (
        TelegramLab() as lab,
        pytest.raises(InvalidStatus, match="403"),
        connect(lab.address.replace("http", "ws")),
    ):
        pass
