"""A gateway that is killed at random moments, again and again, while people talk to it: nothing is lost, doubled, out
of order or invented."""

import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from gateway_audit import find_broken_prefixes, find_damage, read_conversation
from gateway_process import HERMES, GatewayProcess, Person, read_store, wait_quiet, write_store
from processes import find_processes, sleep_for_a_day
from waiting import wait_until

from gateway.service.gateway import RECOVERIES
from gateway.turns.run_turn import GOING_ON
from hermes_base.inbound import Address, Inbound, write_inbound
from hermes_base.store_place import find_place
from hermes_constants import STORE_FILE
from hermes_lab.server import LabServer
from hermes_state.sql.store_sql import Store
from hermes_state.turns import NodeInfo

SEED = int(os.environ.get("HERMES_KILL_SEED", "0")) or int.from_bytes(os.urandom(3), "big")
CHILD = sleep_for_a_day()
DONE_FILE = "done.txt"  # where tools leave a word, so that work done twice is seen


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The folder that tools work in."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def gateway(home: Path, lab: LabServer) -> Iterator[GatewayProcess]:
    with GatewayProcess(home, lab.base_url) as process:
        yield process


# --- random moments


class Talker:
    """Says one thing after the other to the gateway, until told to end."""

    def __init__(self, number: int, seed: int, person: Person) -> None:
        self.person = person
        self.broken: BaseException | None = None
        self._number = number
        self._random = random.Random(f"{seed}-{number}")
        self._said = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._talk, name=f"talker {number}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ending.set()

    def join(self) -> None:
        self._thread.join(120)
        assert not self._thread.is_alive(), f"{self.person.name} waits for ever"
        if self.broken is not None:
            raise self.broken

    def _talk(self) -> None:
        try:
            while not self._ending.is_set():
                self._random.choice(STEPS)(self)
        except BaseException as error:
            self.broken = error

    def _word(self, kind: str = "") -> str:
        self._said += 1
        token = f"m{self._number}.{self._said}"
        return TEXTS[kind or self._random.choice(list(TEXTS))].replace("TOKEN", token)

    def ask(self) -> None:
        self.person.ask(self._word())

    def ask_two(self) -> None:
        """At once, or while the first is being answered."""
        first = self.person.say(self._word("long"))
        time.sleep(self._random.choice((0.0, 0.1, 0.3)))
        self.person.wait_dealt(first, self.person.say(self._word("plain")))

    def command(self) -> None:
        self.person.ask(self._random.choice(("/undo", "/retry", "/retry", "/new")))


STEPS: list[Callable[[Talker], None]] = [Talker.ask] * 5 + [Talker.ask_two] * 2 + [Talker.command]
#: What is said; the lab's model does what stands in brackets.
TEXTS = {
    "plain": "TOKEN [[say answer TOKEN]]",
    "long": "TOKEN [[pause 0.02]] [[chunks 15]] [[say answer TOKEN " + "and so on " * 10 + "]]",
    "slow": "TOKEN [[stall 0.3]] [[say answer TOKEN]]",
    "tool": f'TOKEN [[tool terminal {{"command": "echo TOKEN >> {DONE_FILE}"}}]] [[then]] [[say answer TOKEN]]',
    "tools": (
        'TOKEN [[tool terminal {"command": "sleep 0.2"}]] [[tool read_file {"path": "."}]] '
        f'[[tool terminal {{"command": "echo TOKEN >> {DONE_FILE}"}}]] [[then]] [[say answer TOKEN]]'
    ),
    "child": f'TOKEN [[tool process {{"action": "start", "command": "{CHILD}"}}]] [[then]] [[say answer TOKEN]]',
}


class Storm:
    """People who talk, and a gateway that dies."""

    def __init__(self, gateway: GatewayProcess, seed: int, work: Path, *, people: int) -> None:
        self.gateway = gateway
        self.random = random.Random(seed)
        home = gateway.home
        self.idle = Person(home, "idle", folder=str(work))
        self.talkers = [
            Talker(number, seed, Person(home, f"person{number}", folder=str(work), slowness=0.03))
            for number in range(1, people + 1)
        ]

    @property
    def people(self) -> list[Person]:
        return [self.idle, *(talker.person for talker in self.talkers)]

    def rage(self, kills: int) -> None:
        """Kill so many times; then let everything come to its end, and kill once more."""
        gateway = self.gateway
        gateway.start()
        self.idle.ask("m0.1 [[say answer m0.1]]")
        for talker in self.talkers:
            talker.start()
        for _ in range(kills):
            self._live_a_while()
            before = find_processes(CHILD)
            gateway.kill()
            gateway.start()
            wait_until(lambda before=before: not before.keys() & find_processes(CHILD).keys())
        for talker in self.talkers:
            talker.end()
        for talker in self.talkers:
            talker.join()
        wait_quiet(gateway.home, self.people)
        gateway.kill()
        wait_until(lambda: not find_processes(CHILD))

    def _live_a_while(self) -> None:
        """Some lives end before they have begun to listen."""
        if self.random.random() < 0.15:
            self.gateway.kill()
            self.gateway.start(wait=False)
            time.sleep(self.random.uniform(0.0, 0.4))
        else:
            time.sleep(self.random.uniform(0.05, 1.2))

    def close(self) -> None:
        for person in self.people:
            person.close()


@contextmanager
def storm(gateway: GatewayProcess, seed: int, work: Path, *, people: int) -> Iterator[Storm]:
    made = Storm(gateway, seed, work, people=people)
    try:
        yield made
    finally:
        made.close()


def rage_and_count(home: Path, lab: LabServer, work: Path, kills: int, *, busy: str, seed: int) -> None:
    with (
        GatewayProcess(home, lab.base_url, gateway={"busy": busy}) as gateway,
        storm(gateway, seed, work, people=5) as weather,
    ):
        try:
            weather.rage(kills)
            damage = [
                *(
                    problem
                    for person in weather.people
                    for problem in find_damage(home, person, steered=busy == "steer")
                ),
                *find_work_done_twice(work, home, weather.people),
                *find_prefixes_broken_for_nothing(lab, home, weather.people),
            ]
        except AssertionError as problem:
            raise AssertionError(f"{problem}\nseed {seed}\n{gateway.log[-5000:]}") from problem
        assert not damage, f"seed {seed}: " + "\n".join([*damage, gateway.log[-5000:]])
        assert "Traceback" not in gateway.log, f"seed {seed}: {gateway.log[-8000:]}"
        assert len(read_conversation(home, weather.idle.conversation).told) == 1, "an idle conversation was spoken to"


def find_work_done_twice(work: Path, home: Path, people: list[Person]) -> list[str]:
    """A tool that has run is not run again, unless the person asked again."""
    lines = (work / DONE_FILE).read_text().split() if (work / DONE_FILE).exists() else []
    asked = [
        token
        for person in people
        for line in read_conversation(home, person.conversation).lines
        for token in line.tokens
    ]
    return [
        f"{token} was done {lines.count(token)} times"
        for token in set(lines)
        if lines.count(token) > asked.count(token)
    ]


def find_prefixes_broken_for_nothing(lab: LabServer, home: Path, people: list[Person]) -> list[str]:
    """A6: over all restarts a request begins with the bytes of the one before, unless something was taken back."""
    allowed = {
        f"m{number}": sum(text in ("/undo", "/retry") for text in person.texts) for number, person in enumerate(people)
    }
    broken = find_broken_prefixes(lab)
    return [f"{name}: {count} prefixes broken" for name, count in broken.items() if count > allowed[name]]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("busy", ["queue", "interrupt"])
def test_nothing_is_lost_or_doubled_by_kills(home: Path, lab: LabServer, work: Path, busy: str) -> None:
    """C1, C2, C3, C7, C9, C10, B6, A6: ten kills at random moments."""
    rage_and_count(home, lab, work, 10, busy=busy, seed=SEED)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("round", range(5))
@pytest.mark.parametrize("busy", ["queue", "interrupt", "steer"])
def test_nothing_is_lost_or_doubled_by_many_kills(
    home: Path, lab: LabServer, work: Path, busy: str, round: int
) -> None:
    """C1, C2, C3, C7, C9, C10, B6, A6: five hundred kills in all."""
    rage_and_count(home, lab, work, 25, busy=busy, seed=SEED + round)


DAMAGES = {
    "a message": "delete from inbox where seq = 2",
    "an answer": "delete from outbox where seq = 2",
    "an answer that was not sent": "update outbox set state = 'waiting' where seq = 2",
    "a question": "delete from message where seq = 2 and n = 1",
    "a result": "delete from message where seq = 2 and body like '%tool_call_id%'",
    "a doubled question": "insert into message (session, position, conversation, seq, n, writer, kind, body, created) "
    "select session, 99, conversation, 3, 99, writer, kind, body, created from message where seq = 2 and n = 1",
    "a doubled answer": "insert into outbox (conversation, seq, n, account, chat, body, state, created) "
    "select conversation, seq, 9, account, chat, body, state, created from outbox where seq = 2",
    "an invented turn": "update message set seq = 7 where seq = 2",
    "an untold restart": "update inbox set attempts = 2 where seq = 2",
    "another order": "update outbox set id = 10 - id",
}


@pytest.mark.file_store
def test_the_count_sees_what_is_wrong(gateway: GatewayProcess, work: Path, tmp_path: Path) -> None:
    """C2: a store with one thing lost, doubled or invented is not taken for a whole one."""
    gateway.start()
    person = Person(gateway.home, "me", folder=str(work))
    for number, kind in enumerate(("plain", "tool", "plain"), 1):
        person.ask(TEXTS[kind].replace("TOKEN", f"m1.{number}"))
    wait_quiet(gateway.home, [person])
    assert gateway.terminate() == 0
    assert not list(find_damage(gateway.home, person))
    for number, damage in enumerate(DAMAGES):
        copy = tmp_path / f"copy{number}"
        copy.mkdir()
        shutil.copy(gateway.home / STORE_FILE, copy)
        write_store(copy, DAMAGES[damage])
        assert list(find_damage(copy, person)), damage
    person.close()


# --- exact moments


def test_a_second_gateway_is_refused_and_the_next_one_starts_at_once(gateway: GatewayProcess) -> None:
    """B7, F3: one process owns a home; what a killed one held is free without waiting for a lease."""
    gateway.start()
    second = subprocess.run([HERMES, "gateway", "run"], capture_output=True, text=True, env=gateway.environment)
    assert second.returncode == 1
    said = second.stderr + second.stdout
    assert str(gateway.pid) in said
    assert str(gateway.home) in said
    assert "Traceback" not in said
    gateway.kill()
    gateway.start()
    person = Person(gateway.home, "me")
    person.ask("m1.1 [[say answer m1.1]]")
    person.close()


def test_a_turn_goes_on_after_a_stop_in_its_middle(gateway: GatewayProcess, lab: LabServer) -> None:
    """C14: SIGTERM ends the process in order within its grace, and the turn goes on when it runs again."""
    gateway.start()
    person = Person(gateway.home, "me")
    said = person.say("m1.1 [[stall 14]] [[say answer m1.1]]")
    wait_until(lambda: lab.in_flight == 1)
    assert gateway.terminate() == 0
    assert "Traceback" not in gateway.log
    assert not find_rows(gateway, "answer"), "a turn that goes on later was ended"
    lab.set_plan([{"text": "answer m1.1"}])
    gateway.start()
    person.wait_dealt(said)
    wait_quiet(gateway.home, [person])
    assert [shown.outgoing.text for shown in person.shown] == [GOING_ON, "answer m1.1"]
    assert not list(find_damage(gateway.home, person))
    person.close()


#: What is said, and how many commits it takes at most until all of it is delivered.
STEPWISE = {TEXTS["tools"].replace("sleep 0.2", "sleep 0.05"): 18, "/retry": 9, "/undo": 5, "/new": 5}


@pytest.mark.timeout(600)  # up to eighteen lives, one after the other
@pytest.mark.parametrize("text", STEPWISE, ids=["tools", "retry", "undo", "new"])
def test_a_kill_after_each_commit_of_a_message_changes_nothing(
    gateway: GatewayProcess, lab: LabServer, work: Path, text: str
) -> None:
    """C2: killed after the first, second, … commit since it was accepted, each message ends as if nothing had been."""
    person = Person(gateway.home, "me", folder=str(work))
    for commits in range(1, STEPWISE[text] + 1):
        said = text.replace("TOKEN", f"m1.{100 * commits}")
        gateway.start(dies_after=(commits, said.split()[0]))
        wait_quiet(gateway.home, [person], 30)
        person.ask(f"m1.{100 * commits + 99} [[say answer m1.{100 * commits + 99}]]")
        talk_to_death(gateway, person, said, commits)
    gateway.start()
    wait_quiet(gateway.home, [person])
    gateway.kill()
    damage = [*find_damage(gateway.home, person), *find_work_done_twice(work, gateway.home, [person])]
    assert not damage, "\n".join([*damage, gateway.log[-3000:]])
    assert "Traceback" not in gateway.log, gateway.log[-5000:]
    person.close()


def talk_to_death(gateway: GatewayProcess, person: Person, text: str, life: int) -> None:
    """Say it, and other things after it, until the gateway dies."""
    said = person.say(text)
    for number in range(1, 99):
        wait_until(lambda said=said: gateway.is_dead or person.is_dealt(said))
        if gateway.is_dead:
            gateway.kill()
            return
        token = f"m1.{100 * life + number}"
        said = person.say(f"{token} [[say answer {token}]]")
    raise AssertionError("it lives for ever")


def find_rows(gateway: GatewayProcess, kind: str) -> list[str]:
    return [body for (body,) in read_store(gateway.home, "select body from outbox") if f'"kind":"{kind}"' in body]


def kill_in_turn(gateway: GatewayProcess, lab: LabServer) -> None:
    """One life that ends while the model is asked."""
    seen = len(lab.requests)
    gateway.start()
    wait_until(lambda: len(lab.requests) > seen)
    gateway.kill()


def test_a_turn_that_kills_its_process_is_given_up(gateway: GatewayProcess, lab: LabServer) -> None:
    """C10: two restarts are told, the third ends the turn with a word, and the next message is answered."""
    person = Person(gateway.home, "me")
    poison = person.say("m1.1 [[stall 60]]")
    for _ in range(3):
        kill_in_turn(gateway, lab)
    asked = len(lab.requests)
    gateway.start()
    person.wait_dealt(poison)
    assert len(lab.requests) == asked, "the model was asked a fourth time"
    person.ask("m1.2 [[say answer m1.2]]")
    wait_quiet(gateway.home, [person])
    texts = [shown.outgoing.text for shown in person.shown]
    assert texts[:2] == [GOING_ON, GOING_ON]
    assert "three times" in texts[2]
    assert texts[3:] == ["answer m1.2"]
    assert not list(find_damage(gateway.home, person))
    person.close()


def test_fresh_messages_do_not_wait_for_what_broke_off(gateway: GatewayProcess, lab: LabServer) -> None:
    """C15: broken-off turns go on a few at a time, and a fresh message is answered before them."""
    gateway.start()
    late = [Person(gateway.home, f"late{number}") for number in range(RECOVERIES + 2)]
    for number, person in enumerate(late):
        person.say(f"m{number}.1 [[stall 60]]")
    wait_until(lambda: len(lab.requests) == len(late))
    gateway.kill()
    lab.clear_requests()
    gateway.start()
    wait_until(lambda: len(lab.requests) == RECOVERIES)
    fresh = Person(gateway.home, "fresh")
    fresh.ask("m9.1 [[say answer m9.1]]")
    assert len(lab.requests) == RECOVERIES + 1
    for person in (*late, fresh):
        person.close()


def test_an_old_turn_is_not_gone_on_with(gateway: GatewayProcess, lab: LabServer) -> None:
    """C10: a turn that was begun more than an hour ago is ended with a word."""
    person = Person(gateway.home, "me")
    old = person.say("m1.1 [[stall 60]]")
    kill_in_turn(gateway, lab)
    write_store(gateway.home, "update inbox set begun = begun - 3700")
    gateway.start()
    person.wait_dealt(old)
    wait_quiet(gateway.home, [person])
    assert len(lab.requests) == 1
    assert [("hour" in shown.outgoing.text) for shown in person.shown] == [True]
    person.close()


def test_messages_that_never_got_into_the_transcript_are_given_up_whole(gateway: GatewayProcess) -> None:
    """C10, C2: two messages whose turn died three times before it wrote anything are kept, and get one word."""
    person = Person(gateway.home, "me")
    with closing(Store(find_place(gateway.home))) as store:
        turns = store.turns
        node = turns.join(NodeInfo("test", alone=True))
        address = Address("local", "local", "me")
        texts = ["m1.1 [[say answer m1.1]]", "m1.2 [[say answer m1.2]]"]
        for number, text in enumerate(texts, 1):
            inbound = Inbound(address, f"me-{number}", "owner", text, mentioned=True)
            turns.accept(person.conversation, address.account_key, inbound.ext_id, write_inbound(inbound))
        claim = turns.claim_one(node, person.conversation)
        assert claim is not None
        for _ in range(3):
            assert turns.begin(claim, (1, 2)) is not None
    said = [person.say(text) for text in texts]
    gateway.start()
    person.wait_dealt(*said)
    wait_quiet(gateway.home, [person])
    assert ["three times" in shown.outgoing.text for shown in person.shown] == [True]
    found = read_conversation(gateway.home, person.conversation)
    assert [(line.role, line.tokens) for line in found.lines] == [("user", ["m1.1", "m1.2"]), ("assistant", [])]
    person.close()
