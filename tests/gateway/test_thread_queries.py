"""Conversations as the page and the API see and change them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from queries_house import OWNER, QueriesHouse
from waiting import wait_until

from hermes_base.errors import HermesError
from hermes_base.inbound import FileRef
from hermes_base.query_values import Caller, Conflict, NotThere, PastExchange, Timeline, TimelineEntry
from hermes_base.turn.journal import Row
from hermes_cli import config
from hermes_lab.server import LabServer
from hermes_state.store import NewSession

CALL = '[[tool todo {"todos": []}]][[then]][[say Done.]]'


@pytest.fixture
def house(settings: None, home: Path) -> Iterator[QueriesHouse]:
    config.set_value("titles.enabled", "false")  # requests are counted here
    made = QueriesHouse(home)
    yield made
    made.stop()


def kinds(timeline: Timeline) -> list[tuple[str, str]]:
    return [(entry.kind, entry.text) for entry in timeline.entries]


def session_of(timeline: Timeline) -> str:
    assert timeline.thread is not None
    return timeline.thread.session


def sent(lab: LabServer) -> list[list[tuple[str, str]]]:
    """The messages of each request, without the system prompt."""
    return [
        [(message["role"], message["content"]) for message in request.json()["messages"] if message["role"] != "system"]
        for request in lab.requests
    ]


# --- looking


def test_a_conversation_is_shown_as_people_see_it(house: QueriesHouse) -> None:
    talk = house.open()
    house.ask(talk, f"Look. {CALL}")
    seen = house.ask(talk, "/tools")
    user, tool, answer, note = seen.entries
    assert (user.kind, tool.kind, answer.kind, note.kind) == ("user", "tool", "assistant", "note")
    assert (tool.name, tool.ok, answer.text) == ("todo", True, "Done.")
    assert "todo" in note.text
    assert [thread.session for thread in house.run(house.queries.threads.list(OWNER))] == [session_of(seen)]


def test_an_empty_conversation_can_be_looked_at(house: QueriesHouse) -> None:
    seen = house.look(house.open())
    assert (seen.thread, seen.entries, seen.waiting, seen.question) == (None, (), (), None)


def test_long_conversations_come_in_pages(house: QueriesHouse) -> None:
    talk = house.open()
    for number in range(5):
        house.ask(talk, f"[[say answer {number}]]")
    newest = house.look(talk, limit=4)
    assert [entry.text for entry in newest.entries if entry.kind == "assistant"] == ["answer 3", "answer 4"]
    assert newest.more
    older = house.look(talk, limit=100, before=newest.entries[0].position)
    assert [entry.text for entry in older.entries if entry.kind == "assistant"] == ["answer 0", "answer 1", "answer 2"]
    assert not older.more


def test_the_list_goes_on_past_compacted_sessions(house: QueriesHouse) -> None:
    """E2: what goes on as another session is not listed, and hides nothing that is."""
    store = house.gateway.store
    row = Row({"role": "user", "content": "hello"})
    kept = []
    for number in range(4):
        info = store.open_session(NewSession(f"agent:main:web:dm:{number}"))
        version = store.append(info.id, "writer", 0, [row])
        for _ in range(3):
            info = store.rotate(info.id, "writer", version, "compression", [row])
            version = info.version
        kept.insert(0, info.id)
    threads = house.queries.threads
    first = house.run(threads.list(OWNER, limit=2))
    rest = house.run(threads.list(OWNER, limit=3, before=first[-1].updated))
    assert [thread.session for thread in (*first, *rest)] == kept


def test_a_message_that_came_with_a_file_shows_it_apart(house: QueriesHouse, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("x")
    talk = house.open()
    seen = house.ask(talk, "Read this.", files=(FileRef(str(path), "notes.txt", "file", 1),))
    assert seen.entries[0].text == "Read this."
    assert [file.name for file in seen.entries[0].files] == ["notes.txt"]


def test_why_there_is_no_answer_is_shown(house: QueriesHouse) -> None:
    talk = house.open()
    house.gateway.turns.choose(talk, {"provider": "nobody"})
    seen = house.ask(talk, "hello")
    assert [entry.kind for entry in seen.entries] == ["user", "assistant"]
    assert seen.entries[0].text == "hello"
    assert "nobody" in seen.entries[1].text


def test_a_failed_turn_is_shown_once(house: QueriesHouse) -> None:
    talk = house.open()
    seen = house.ask(talk, "[[fail 401]]")
    assert [entry.kind for entry in seen.entries] == ["user", "assistant"]


def test_messages_wait_in_sight(house: QueriesHouse) -> None:
    talk = house.open()
    house.say(talk, "[[stall 3]][[say late]]")
    wait_until(lambda: house.queries.threads.is_working(talk))
    house.say(talk, "/queue and then?")
    wait_until(lambda: len(house.look(talk).waiting) == 2)
    assert house.look(talk).waiting[1].text == "and then?"
    assert house.run(house.queries.turns.stop(OWNER, talk))
    house.wait_idle(talk)
    stopped = [entry for entry in house.look(talk).entries if entry.level == "warning"]
    assert stopped[0].detail == "stopped by the user"
    assert not house.run(house.queries.turns.stop(OWNER, talk))


def test_answers_that_nobody_watches_do_not_pile_up(house: QueriesHouse) -> None:
    """What is in the outbox is where the page looks: nothing waits there to be sent."""
    talk = house.open()
    house.ask(talk, "hello")
    wait_until(lambda: house.gateway.turns.depth() == (0, 0))


# --- changing


def test_edited_messages_go_on_in_a_copy(house: QueriesHouse, lab: LabServer) -> None:
    """A1: what stands before the edited message is sent again byte for byte."""
    talk = house.open()
    house.ask(talk, "[[say one]]")
    seen = house.ask(talk, "[[say two]]")
    old = session_of(seen)
    place = [entry for entry in seen.entries if entry.kind == "user"][1].position
    fork = house.run(house.queries.threads.fork(OWNER, old, before=place))
    assert fork.conversation == talk
    assert fork.current
    after = house.ask(talk, "[[say three]]")
    assert [text for kind, text in kinds(after) if kind == "assistant"] == ["one", "three"]
    _, second, third = (request.body for request in lab.requests)
    shared = second.index(b"[[say two]]") - 200
    assert third[:shared] == second[:shared]
    assert [text for kind, text in kinds(house.look(talk, session=old)) if kind == "assistant"] == ["one", "two"]
    back = house.run(house.queries.threads.resume(OWNER, old))
    assert back.current
    assert [text for kind, text in kinds(house.look(talk)) if kind == "assistant"] == ["one", "two"]


def test_the_first_message_can_be_edited(house: QueriesHouse, lab: LabServer) -> None:
    talk = house.open()
    seen = house.ask(talk, "frist")
    house.run(house.queries.threads.fork(OWNER, session_of(seen), before=seen.entries[0].position))
    assert house.look(talk).entries == ()
    house.ask(talk, "first")
    assert [[role for role, _ in request] for request in sent(lab)] == [["user"], ["user"]]


def test_a_copy_can_live_apart(house: QueriesHouse) -> None:
    talk = house.open()
    seen = house.ask(talk, "[[say one]]")
    fork = house.run(house.queries.threads.fork(OWNER, session_of(seen), apart=True))
    assert fork.conversation != talk
    house.ask(fork.conversation, "[[say two]]")
    assert len(house.look(talk).entries) == 2
    assert len(house.look(fork.conversation).entries) == 4


def test_a_copy_of_a_turn_under_way_goes_on(house: QueriesHouse, home: Path) -> None:
    """B5, C2: while a tool runs, and from any place of its round: every message there is answered."""
    talk, ends = house.open(), home / "workspace" / "ends"
    wait = f"until test -e {ends}; do sleep 0.05; done"
    house.say(talk, f"[[tool terminal {json.dumps({'command': wait})}]][[then]][[say done]]")
    wait_until(lambda: any(entry.kind == "tool" for entry in house.look(talk).entries))
    session, fork = session_of(house.look(talk)), house.queries.threads.fork
    copies = [house.run(fork(OWNER, session, apart=True)).conversation]
    ends.parent.mkdir(exist_ok=True)
    ends.touch()
    house.wait_idle(talk)
    copies += [house.run(fork(OWNER, session, before=before, apart=True)).conversation for before in range(5)]
    for copy in copies:
        assert kinds(house.ask(copy, "[[say two]]"))[-1] == ("assistant", "two")


def test_nothing_is_changed_under_a_turn(house: QueriesHouse) -> None:
    talk = house.open()
    session = session_of(house.ask(talk, "hello"))
    other = house.run(house.queries.threads.fork(OWNER, session)).session
    house.say(talk, "[[stall 5]]")
    wait_until(lambda: house.queries.threads.is_working(talk))
    threads = house.queries.threads
    for change in (threads.resume(OWNER, session), threads.fork(OWNER, other), threads.delete(OWNER, other)):
        with pytest.raises(Conflict, match="in the middle of a turn"):
            house.run(change)
    house.run(house.queries.turns.stop(OWNER, talk))
    house.wait_idle(talk)


def test_titles_exports_and_deletions(house: QueriesHouse) -> None:
    talk = house.open()
    session = session_of(house.ask(talk, "[[say Blue.]] What colour?"))
    threads = house.queries.threads
    assert house.run(threads.rename(OWNER, session, "  The   colour ")).title == "The colour"
    with pytest.raises(HermesError, match="1 to 200"):
        house.run(threads.rename(OWNER, session, " "))
    assert house.run(threads.export(OWNER, session, "md")).startswith("# The colour")
    assert '"Blue."' in house.run(threads.export(OWNER, session, "json"))
    with pytest.raises(HermesError, match="no form"):
        house.run(threads.export(OWNER, session, "pdf"))
    house.run(threads.delete(OWNER, session))
    with pytest.raises(NotThere):
        house.run(threads.find(OWNER, session))
    assert house.ask(talk, "[[say Again.]]").entries[-1].text == "Again."


# --- whose they are


def test_everybody_sees_their_own(house: QueriesHouse) -> None:
    """G12: lists, search, single conversations and stops are scoped to the person of the key."""
    ann = house.gateway.people.add("Ann", "member", "api", "ann")
    member = Caller(ann.id, "member", "k1")
    own = house.open(member, "api")
    theirs = session_of(house.ask(own, "the secret of ann", caller=member, platform="api"))
    mine = house.open()
    session = session_of(house.ask(mine, "the secret of the owner"))
    threads = house.queries.threads
    assert [thread.session for thread in house.run(threads.list(member))] == [theirs]
    assert [thread.session for thread in house.run(threads.list(OWNER))] == [session]
    assert {found.thread.session for found in house.run(threads.search(member, "secret"))} == {theirs}
    for caller, foreign, conversation in ((member, session, mine), (OWNER, theirs, own)):
        for call in (threads.find(caller, foreign), threads.timeline(caller, conversation)):
            with pytest.raises(NotThere):
                house.run(call)
    with pytest.raises(NotThere):
        house.run(house.queries.turns.stop(member, mine))
    with pytest.raises(NotThere):
        house.run(threads.timeline(member, "no key at all"))


def test_a_removed_person_gets_no_turn(house: QueriesHouse, lab: LabServer) -> None:
    """G3: a message that was stored before does not start a model call after."""
    ann = house.gateway.people.add("Ann", "member", "api", "ann")
    member = Caller(ann.id, "member", "k1")
    talk = house.open(member, "api")
    house.gateway.people.remove(ann.id)
    house.say(talk, "hello", caller=member, platform="api")
    house.wait_idle(talk)
    assert not lab.requests


# --- histories that clients bring


def test_a_history_finds_its_conversation(house: QueriesHouse) -> None:
    key = Caller(key="k1")
    talk = house.open(key, "api")
    house.ask(talk, f"Look. {CALL}", platform="api")
    house.ask(talk, "[[say Fine.]] And?", platform="api")
    said = [PastExchange(f"Look.  {CALL}", "Done."), PastExchange("[[say Fine.]] And?", "Fine.\n")]
    threads = house.queries.threads
    assert house.run(threads.match(key, said)) == talk
    assert house.run(threads.match(key, said[:1])) == ""
    assert house.run(threads.match(Caller(key="k2"), said)) == ""
    assert house.run(threads.match(key, [])) == ""


def test_a_history_with_a_file_finds_its_conversation(house: QueriesHouse, tmp_path: Path) -> None:
    path = tmp_path / "seen.txt"
    path.write_text("x")
    key = Caller(key="k1")
    talk = house.open(key, "api")
    house.ask(talk, "See?", platform="api", files=(FileRef(str(path), "seen.txt"),))
    answered = house.look(talk).entries[-1].text
    assert house.run(house.queries.threads.match(key, [PastExchange("See?", answered)])) == talk


def test_a_foreign_history_is_planted(house: QueriesHouse, lab: LabServer) -> None:
    key = Caller(key="k1")
    talk = house.open(key, "api")
    house.run(house.queries.threads.begin_with(key, talk, [PastExchange("My name is Bo.", "Hello Bo.")]))
    house.ask(talk, "[[say Bo.]] Who am I?", platform="api")
    assert [role for role, _ in sent(lab)[0]] == ["user", "assistant", "user"]
    assert sent(lab)[0][1] == ("assistant", "Hello Bo.")
    with pytest.raises(Conflict, match="begun"):
        house.run(house.queries.threads.begin_with(key, talk, [PastExchange("x", "y")]))


def test_names_lead_to_the_same_conversation(house: QueriesHouse) -> None:
    assert house.open(OWNER, "api", name="work") == house.open(Caller(key="other"), "api", name="work")
    assert house.open(OWNER, "api") != house.open(OWNER, "api")
    with pytest.raises(HermesError, match="1 to 64"):
        house.open(OWNER, "api", name="../x")


# --- questions


def test_an_approval_is_answered_from_the_page(house: QueriesHouse) -> None:
    """G4: the answer binds the question that is open, once."""
    config.set_value("approvals.mode", "ask")
    talk = house.open()
    house.say(talk, '[[tool terminal {"command": "touch made && echo yes-made"}]][[then]][[say Ready.]]')
    wait_until(lambda: house.look(talk).question is not None)
    question = house.look(talk).question
    assert question is not None
    assert "touch made" in question.text
    assert not house.run(house.queries.turns.answer(OWNER, "another", "approve"))
    assert house.run(house.queries.turns.answer(OWNER, question.id, "approve"))
    house.wait_idle(talk)
    assert not house.run(house.queries.turns.answer(OWNER, question.id, "approve"))
    entries = house.look(talk).entries
    tool: TimelineEntry = next(entry for entry in entries if entry.kind == "tool")
    assert "yes-made" in tool.text
    assert house.look(talk).question is None


def test_what_came_of_a_message_is_told(house: QueriesHouse) -> None:
    talk = house.open()
    seq = house.say(talk, "[[say One.]]")
    house.wait_idle(talk)
    (answer,) = house.run(house.queries.turns.answers(talk, [seq]))
    assert (answer.text, answer.completed) == ("One.", True)
    spent = house.run(house.queries.turns.usage(talk, seq))
    assert spent["input"] > 0
    assert spent["output"] > 0
