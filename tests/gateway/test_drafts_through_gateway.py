"""Answers on their way from the model to a chat service that streams, limits, closes connections and comes back."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_process import read_store, write_store
from house import House, Visitor
from pretending import QUICK
from waiting import wait_until

from gateway.core.drafts import UNFINISHED
from gateway.core.text.render import LONG_MARK, SHORT_MARK, THE_WHOLE
from gateway.platforms.pretend.service import CLOSED_AFTER, CLOSED_BEFORE, PretendRules
from gateway.service import gateway
from hermes_lab.server import LabServer

PEOPLE = {"owner": "olga", "allow": ["ann", "ben"]}
COUNTED = " ".join(map(str, range(1, 41)))
STREAM = "[[chunks 40]][[pause 0.02]]"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between attempts are short here, and a stopping gateway does not wait long for its turns."""
    monkeypatch.setattr("gateway.delivery.delivery.Pace", lambda: QUICK)
    monkeypatch.setattr(gateway, "GRACE_SECONDS", 0.2)


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with House(home, lab.base_url, pretend=PEOPLE) as made:
        yield made


def open_house(home: Path, lab: LabServer, rules: PretendRules) -> House:
    return House(home, lab.base_url, rules, pretend=PEOPLE)


def wait_forgotten(house: House) -> None:
    """Until delivery holds nothing in memory: no draft, no typing sign goes on."""
    wait_until(lambda: house.gateway.delivery.at_work() == 0)


def wait_draft(person: Visitor) -> None:
    wait_until(lambda: person.count(UNFINISHED) > 0)


def test_a_very_long_answer_is_one_message_and_a_file(home: Path, lab: LabServer) -> None:
    """C7: nobody is flooded; the file holds the whole answer, and no copy of it stays behind."""
    rules = PretendRules(max_length=200, most_parts=3)
    with open_house(home, lab, rules) as house:
        ann = house.person("ann")
        ann.say(f"[[say {'word ' * 300}end]]")
        house.wait_quiet()
        first, document = [message for message in house.service.messages if message.chat == ann.chat]
        assert first.text.startswith("word word")
        assert (document.file, document.text) == ("answer.md", THE_WHOLE)
        assert document.content.split() == ["word"] * 300 + ["end"]
        assert not list((home / "outbox").rglob("*.md"))
        ann.say(f"[[say {'word ' * 100}end]]")
        house.wait_quiet()
        assert [message.file for message in house.service.messages[2:]] == [""] * 3


# --- one final


def test_a_streamed_answer_ends_as_one_message(house: House) -> None:
    """C7: the draft grows by edits, and the answer takes its place."""
    ann = house.person("ann")
    ann.say(STREAM)
    wait_draft(ann)
    house.wait_quiet()
    assert ann.seen == [COUNTED]
    assert ann.messages[0].edits > 1
    wait_forgotten(house)


def test_drafts_of_two_chats_stay_apart(house: House) -> None:
    """C7: two answers that stream at the same time, for the first message of each chat, land where they belong."""
    ann, ben = house.person("ann"), house.person("ben")
    ann.say(STREAM)
    ben.say("[[say heliotrope heliotrope heliotrope]]" + STREAM)
    house.wait_quiet()
    assert ann.seen == [COUNTED]
    assert ben.seen == ["heliotrope heliotrope heliotrope"]


@pytest.mark.parametrize("keys", [True, False])
def test_a_question_in_mid_answer_leaves_no_second_draft(home: Path, lab: LabServer, keys: bool) -> None:
    """C7: text, a question, more text: at the end the question and one answer stand there."""
    with open_house(home, lab, PretendRules(takes_keys=keys)) as house:
        ann = house.person("ann")
        ann.say(
            f'[[say Let me ask.]]{STREAM}[[tool clarify {{"question": "Which?"}}]][[then]][[say All done.]]{STREAM}'
        )
        wait_draft(ann)
        ann.wait_question("Which?")
        ann.say("this one")
        house.wait_quiet()
        assert sorted(ann.seen) == ["All done.", "Which?"]
        wait_forgotten(house)


def test_where_edits_are_few_the_answer_has_one_left(home: Path, lab: LabServer) -> None:
    """C7: however long it was streamed, the answer takes the place of its draft."""
    with open_house(home, lab, PretendRules(most_edits=5)) as house:
        ann = house.person("ann")
        ann.say("[[chunks 60]][[pause 0.02]]")
        house.wait_quiet()
        (shown,) = [message for message in house.service.messages if message.chat == ann.chat]
        assert shown.text.endswith("60")
        assert 0 < shown.edits <= 3
        assert [call.status for call in house.service.calls if call.kind == "edit"] == [200] * shown.edits
        wait_forgotten(house)


def test_a_stopped_answer_keeps_what_was_said(house: House) -> None:
    """C7, C6: /stop in mid-stream: what there is of the answer and who stopped it, once."""
    ann = house.person("ann")
    ann.say("[[chunks 400]][[pause 0.02]]")
    wait_draft(ann)
    ann.say("/stop")
    ann.wait_seen("stopped by Ann")
    house.wait_quiet()
    assert len(ann.seen) == 1
    assert ann.count(UNFINISHED) == 0
    assert ann.seen[0].startswith("1 2")
    wait_forgotten(house)


def test_an_answer_that_a_message_interrupted(house: House) -> None:
    """C7, C6: two messages, two answers, the first of them marked as interrupted."""
    ann = house.person("ann")
    ann.say("[[chunks 400]][[pause 0.02]]")
    wait_draft(ann)
    ann.say("[[say second]]")
    ann.wait_seen("second")
    house.wait_quiet()
    assert len(ann.seen) == 2
    assert "Interrupted by your new message." in ann.seen[0]
    assert ann.count(UNFINISHED) == 0


def test_a_platform_without_edits_gets_the_answer_in_pieces(home: Path, lab: LabServer) -> None:
    """C7: no drafts where nothing can be edited; a long answer comes in pieces, whole and in order."""
    with open_house(home, lab, PretendRules(can_edit=False, max_length=100)) as house:
        ann = house.person("ann")
        ann.say("[[chunks 200]]")
        house.wait_quiet()
        assert " ".join(ann.seen).split() == [str(number) for number in range(1, 201)]
        assert all(len(text) <= 100 for text in ann.seen)
        assert {call.kind for call in house.service.calls} == {"send", "typing"}


def test_a_long_streamed_answer_takes_the_place_of_its_draft(home: Path, lab: LabServer) -> None:
    """C7: an answer over the limit begins in its draft and goes on in further messages."""
    with open_house(home, lab, PretendRules(max_length=100)) as house:
        ann = house.person("ann")
        ann.say("[[chunks 200]][[pause 0.005]]")
        wait_draft(ann)
        house.wait_quiet()
        assert " ".join(ann.seen).split() == [str(number) for number in range(1, 201)]


# --- limits


def test_a_penalty_delays_and_loses_nothing(house: House) -> None:
    """C8, C9: during a 429 no call is made; afterwards everything comes, once and in order."""
    ann = house.person("ann")
    house.call(lambda: house.service.punish(1.5))
    for number in range(3):
        ann.say(f"[[say answer {number}]]")
        wait_until(lambda: house.gateway.turns.depth()[0] == 0 and not house.service.updates)
    house.wait_quiet()
    assert ann.seen == ["answer 0", "answer 1", "answer 2"]
    refused = [call for call in house.service.calls if call.status == 429]
    assert len(refused) <= 2  # a typing sign and one more; then it was known


def test_an_hour_of_429_and_a_restart(house: House, home: Path) -> None:
    """C8, C9: an answer that the service does not take for an hour is kept, over a restart too, and comes once."""
    ann, ben = house.person("ann"), house.person("ben")
    house.call(lambda: house.service.punish(3600))
    ann.say("[[say kept for ann]]")
    ben.say("[[say kept for ben]]")
    wait_until(lambda: house.gateway.turns.depth() == (0, 2) and not house.service.updates)
    wait_until(lambda: read_store(home, "select count(*) from outbox where state = 'sending'") == [(2,)])
    calls = len(house.service.calls)
    assert [call.status for call in house.service.calls] == [429] * calls
    assert calls <= 4
    house.stop()
    house.start()
    wait_until(lambda: house.gateway.delivery.leases()["pretend:bot"] is not None)
    assert len(house.service.calls) == calls  # the penalty holds over the restart
    house.stop()
    house.service.punish(0)
    write_store(home, "update outbox set retry_at = 0")  # the hour is over
    write_store(home, "delete from penalty")
    house.start()
    house.wait_quiet()
    assert (ann.seen, ben.seen) == (["kept for ann"], ["kept for ben"])


def test_the_budget_is_kept_while_an_answer_streams(home: Path, lab: LabServer) -> None:
    """C8: with two calls a second the service never has to refuse, and the answer is not late for its drafts."""
    with open_house(home, lab, PretendRules(calls_per_second=5.0, burst_calls=3)) as house:
        ann = house.person("ann")
        ann.say(STREAM)
        house.wait_quiet()
        assert ann.seen == [COUNTED]
        assert [call.status for call in house.service.calls if call.status != 200] == []


# --- broken connections


@pytest.mark.parametrize("trouble", [CLOSED_BEFORE, CLOSED_AFTER])
def test_with_keys_an_answer_is_there_once(home: Path, lab: LabServer, trouble: str) -> None:
    """C7: the service closes the connection at each send for a while, before or after it took the message."""
    with open_house(home, lab, PretendRules(can_edit=False)) as house:
        house.service.troubles.extend([trouble] * 4)
        ann = house.person("ann")
        assert ann.ask("[[say once]]") == ["once"]
        assert house.gateway.delivery.counts["again"] >= 3


def test_without_keys_a_repetition_is_marked(home: Path, lab: LabServer) -> None:
    """C7: where the service takes no keys, what may be there twice says so."""
    with open_house(home, lab, PretendRules(can_edit=False, takes_keys=False)) as house:
        house.service.troubles.extend([CLOSED_AFTER] * 2)
        ann = house.person("ann")
        first, *others = ann.ask("[[say once]]")
        assert first == "once"
        assert len(others) == 2
        assert all(LONG_MARK in text or SHORT_MARK in text for text in others)


def test_what_could_not_be_delivered_comes_after_a_restart(house: House) -> None:
    """C9: the connection is closed at every send until the gateway ends; the next life delivers, once."""
    ann = house.person("ann")
    house.service.always = CLOSED_BEFORE
    ann.say("[[say kept]]")
    wait_until(lambda: house.gateway.delivery.counts["waiting"] > 1)
    house.stop()
    house.service.always = ""
    house.start()
    house.wait_quiet()
    assert ann.seen == ["kept"]


def test_a_turn_that_goes_on_takes_up_its_draft(house: House) -> None:
    """C7, C10: the gateway stops in mid-stream and starts again: one answer, no draft left beside it."""
    ann = house.person("ann")
    ann.say("[[chunks 40]][[pause 0.05]]")
    wait_draft(ann)
    house.stop()
    assert ann.count(UNFINISHED) == 1
    house.start()
    house.wait_quiet()
    assert ann.count(UNFINISHED) == 0
    assert ann.seen.count(COUNTED) == 1
    assert len(ann.seen) == 2
    assert "going on with your message" in ann.seen[0]  # in the place of the draft; the answer is news below it
    assert ann.seen[1] == COUNTED


@pytest.mark.parametrize("keys", [True, False])
def test_a_turn_that_is_restarted_twice_leaves_no_draft(home: Path, lab: LabServer, keys: bool) -> None:
    """C7, C10: each life says that it goes on where the one before had drawn; the answer is there once, and last."""
    with House(home, lab.base_url, PretendRules(takes_keys=keys), pretend={"allow": ["ann"]}) as house:
        ann = house.person("ann")
        ann.say("[[chunks 60]][[pause 0.05]]")
        for life in range(2):
            wait_until(lambda life=life: ann.count("going on with your message") == life)
            wait_draft(ann)
            house.stop()
            house.start()
        house.wait_quiet()
        assert ann.count(UNFINISHED) == 0
        assert sum(text == ann.seen[-1] for text in ann.seen) == 1
        assert all("going on with your message" in text for text in ann.seen[:-1])
        assert len(ann.seen) == 3


@pytest.mark.parametrize("seed", range(4))
def test_any_mix_of_troubles_shows_each_answer_once(home: Path, lab: LabServer, seed: int) -> None:
    """C7: streams, lost connections before and after, penalties and a restart; with keys every final is there once."""
    chance = random.Random(seed)
    with open_house(home, lab, PretendRules(calls_per_second=50.0, burst_calls=5)) as house:
        people = [house.person(name) for name in ("ann", "ben", "olga")]
        for round_ in range(3):
            troubles = chance.choices(["", CLOSED_BEFORE, CLOSED_AFTER], k=12)
            house.call(lambda kinds=troubles: house.service.troubles.extend(kinds))
            for person in people:
                person.say(f"[[say final-{round_} for {person.sender}, word by word]][[chunks 10]][[pause 0.02]]")
            if chance.random() < 0.5:
                house.call(lambda: house.service.punish(0.3))
            if round_ == 1:
                house.stop()
                house.service.troubles.clear()
                house.start()
            house.wait_quiet(40)
        for person in people:
            for round_ in range(3):
                assert person.count(f"final-{round_} for {person.sender}, word by word") == 1, person.seen


# --- when the model fails


def test_a_model_that_fails_for_good_is_told_in_one_sentence(house: House, lab: LabServer) -> None:
    """H8: one message says what happened and what to do; the next message works."""
    ann = house.person("ann")
    said = ann.ask("[[fail 401]]")
    assert len(said) == 1
    assert "key" in said[0].lower()
    assert ann.ask("[[say well again]]") == ["well again"]
    assert len(lab.requests) >= 2


def test_a_stream_that_breaks_leaves_no_draft(house: House, lab: LabServer) -> None:
    """H8, C7: the model's stream breaks in the middle, again and again; one message is left, and it is no draft."""
    lab.set_plan([{"text": COUNTED, "chunks": 40, "stall_between": 0.02, "fault": {"cut_after_chunks": 20}}])
    ann = house.person("ann")
    said = ann.ask("count", 40)
    assert len(said) == 1
    assert UNFINISHED not in said[0]
    wait_forgotten(house)
