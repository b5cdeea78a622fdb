"""The live view of a conversation: what a page shows is what the store has, whenever it comes and whatever happens."""

import time

import httpx2
import pytest
from waiting import wait_until
from web_house import WebHouse

from gateway.core.route import NOT_SEEN
from hermes_lab.server import LabServer


def test_a_message_is_heard_begun_streamed_and_settled(web: WebHouse) -> None:
    """The order of a turn: the message, its beginning, text, then the entries of the transcript."""
    visitor = web.visit()
    conversation = visitor.open()
    stream = visitor.watch(conversation)
    first = stream.events[0]
    assert (first["type"], first["thread"], first["entries"]) == ("snapshot", None, [])
    seq = visitor.say(conversation, "[[say Good morning.]]")
    settled = stream.wait_for("settled")
    kinds = [event["type"] for event in stream.events]
    assert kinds.index("heard") < kinds.index("begun") < kinds.index("text") < kinds.index("settled")
    assert settled["seqs"] == [seq]
    assert settled["completed"]
    assert not settled["interrupted"]
    assert [(entry["kind"], entry["text"]) for entry in settled["entries"]] == [
        ("user", "[[say Good morning.]]"),
        ("assistant", "Good morning."),
    ]
    assert "".join(event["text"] for event in stream.of("text")) == "Good morning."
    assert stream.state.live is None
    assert stream.state.waiting == {}


def slow_answer(pieces: int = 40, pause: float = 0.05) -> str:
    return f"[[chunks {pieces}]] [[pause {pause}]]"


def test_a_page_that_is_loaded_in_mid_answer_goes_on(web: WebHouse) -> None:
    """The snapshot has the text so far and the question, the stream the rest; nothing twice, nothing lost."""
    visitor = web.visit()
    conversation = visitor.open()
    first = visitor.watch(conversation)
    seq = visitor.say(conversation, slow_answer())
    first.wait_until(lambda state: len(state.live_text) > 10)
    second = web.visit().watch(conversation)
    snapshot = second.events[0]
    assert snapshot["live"]["seqs"] == [seq]
    assert len(snapshot["live"]["open"]["text"]) > 10
    assert [entry["kind"] for entry in snapshot["entries"]] == []  # the question waits with its turn
    assert [message["seq"] for message in snapshot["waiting"]] == [seq]
    whole = first.wait_for("settled")["entries"][-1]["text"]
    second.wait_for("settled")
    assert snapshot["live"]["open"]["text"] + "".join(event["text"] for event in second.of("text")) == whole
    assert second.state.entries == first.state.entries
    assert second.state.texts("assistant") == [whole]
    assert second.state.live is None
    assert len(second.of("snapshot")) == 1


def test_a_page_that_comes_between_tools_sees_each_of_them_once(web: WebHouse) -> None:
    """What the turn under way has written already stands in its picture, not in the entries as well."""
    visitor = web.visit()
    conversation = visitor.open()
    visitor.say(
        conversation,
        '[[say Looking.]] [[tool terminal {"command": "echo found"}]] [[then]] [[say It is there, it really is.]] '
        "[[chunks 20]] [[pause 0.1]]",
    )
    first = visitor.watch(conversation)
    first.wait_until(lambda state: "It is" in state.live_text)
    late = web.visit().watch(conversation)
    live = late.events[0]["live"]
    assert live["text"] == "Looking."
    assert live["open"]["text"].startswith("\n\nIt is")
    assert [(tool["name"], tool["ok"]) for tool in live["tools"]] == [("terminal", True)]
    assert late.events[0]["entries"] == []
    late.wait_for("settled")
    assert [entry["kind"] for entry in late.state.entries] == ["user", "assistant", "tool", "assistant"]
    first.wait_for("settled")
    assert first.state.entries == late.state.entries


def test_two_tabs_show_the_same(web: WebHouse) -> None:
    """Whoever speaks, both see it, in the same order."""
    one, two = web.visit(), web.visit()
    conversation = one.open()
    streams = [visitor.watch(conversation) for visitor in (one, two, one)]
    for number in range(4):
        (one, two)[number % 2].say(conversation, f"[[say answer {number}]]")
        for stream in streams:
            stream.wait_for("settled", number + 1)
    seen = [[(entry["id"], entry["text"]) for entry in stream.state.entries] for stream in streams]
    assert seen[0] == seen[1] == seen[2]
    assert streams[0].state.texts("assistant") == [f"answer {number}" for number in range(4)]
    assert all(len(stream.of("snapshot")) == 1 for stream in streams)
    fresh = two.watch(conversation)
    assert [(entry["id"], entry["text"]) for entry in fresh.state.entries] == seen[0]


def test_the_same_message_sent_again_is_stored_once(web: WebHouse) -> None:
    """A page that did not hear the answer to its message sends it again under the same name."""
    visitor = web.visit()
    conversation = visitor.open()
    fields = {"conversation": conversation, "id": "mine-1", "text": "[[say once]]"}
    first = visitor.post("/web/say", **fields)
    again = visitor.post("/web/say", **fields)
    assert again == {"seq": first["seq"], "again": True}
    web.wait_quiet()
    assert visitor.post("/web/say", **fields) == {"seq": first["seq"], "again": True}
    assert visitor.watch(conversation).state.texts("assistant") == ["once"]


def test_a_turn_goes_on_when_its_page_vanishes(web: WebHouse) -> None:
    """The answer is written to its end, the watcher is forgotten, and the page finds all when it comes back."""
    visitor = web.visit()
    conversation = visitor.open()
    stream = visitor.watch(conversation)
    visitor.say(conversation, slow_answer())
    stream.wait_until(lambda state: len(state.live_text) > 5)
    stream.close()
    wait_until(lambda: web.watchers() == 0)
    web.wait_quiet()
    again = visitor.watch(conversation)
    assert again.state.live is None
    assert again.state.texts("assistant")[0].endswith("40")


def test_stop_and_steer(web: WebHouse) -> None:
    """A turn can be stopped and spoken into; the end says that it was stopped, and by whom."""
    visitor = web.visit()
    conversation = visitor.open()
    stream = visitor.watch(conversation)
    assert visitor.post("/web/stop", conversation=conversation) == {"stopped": False}
    seq = visitor.say(conversation, slow_answer(400))
    stream.wait_until(lambda state: len(state.live_text) > 5)
    waits = visitor.say(conversation, "[[say later]]", mode="queue")
    heard = stream.wait_for("heard", 2)
    assert (heard["seq"], heard["text"]) == (waits, "[[say later]]")
    assert visitor.post("/web/stop", conversation=conversation) == {"stopped": True}
    wait_until(lambda: any(seq in event["seqs"] for event in stream.of("settled")))
    settled = next(event for event in stream.of("settled") if seq in event["seqs"])
    assert settled["interrupted"]
    assert "stopped by the user" in settled["reason"]
    stream.wait_until(lambda state: state.texts("assistant")[-1:] == ["later"])
    assert stream.state.waiting == {}


def test_a_question_is_asked_and_answered(web: WebHouse) -> None:
    """An approval comes as a question with its choices, stands in a snapshot, and ends for every tab."""
    web.write_settings(approvals={"mode": "ask"})
    visitor = web.visit()
    conversation = visitor.open()
    stream = visitor.watch(conversation)
    visitor.say(conversation, '[[tool terminal {"command": "touch made"}]] [[then]] [[say done]]')
    question = stream.wait_for("asked")["question"]
    assert question["kind"] == "approval"
    assert "touch made" in question["text"]
    assert question["expires_in"] > 0
    other = web.visit().watch(conversation)
    assert other.events[0]["question"]["id"] == question["id"]
    assert visitor.post("/web/answer", question=question["id"], text=question["choices"][0]) == {"ok": True}
    assert visitor.post("/web/answer", question=question["id"], text="approve") == {"ok": False}
    stream.wait_for("settled")
    other.wait_until(lambda state: state.question is None and state.texts("assistant")[-1:] == ["done"])


def test_a_typed_yes_is_for_the_question_that_stood_on_the_page(web: WebHouse) -> None:
    """G4: the page says which question was before the person; a text that was written without it answers nothing."""
    web.write_settings(approvals={"mode": "ask"})
    visitor = web.visit()
    conversation = visitor.open()
    stream = visitor.watch(conversation)
    visitor.say(conversation, '[[tool terminal {"command": "touch made"}]] [[then]] [[say done]]')
    question = stream.wait_for("asked")["question"]
    for times, early in enumerate(({}, {"seen": "another"}), 1):
        visitor.say(conversation, "yes", **early)
        stream.wait_until(lambda state, times=times: state.texts().count(NOT_SEEN) == times)
    visitor.say(conversation, "yes", seen=question["id"])
    stream.wait_until(lambda state: state.question is None and state.texts("assistant")[-1:] == ["done"])


def test_commands_answer_with_notes(web: WebHouse) -> None:
    """What the house says stands as a note where it was said, and in every later snapshot."""
    visitor = web.visit()
    conversation = visitor.open()
    stream = visitor.watch(conversation)
    visitor.say(conversation, "[[say hello]]")
    stream.wait_for("settled")
    visitor.say(conversation, "/usage")
    note = stream.wait_for("note")["entry"]
    assert note["kind"] == "note"
    stream.wait_for("settled", 2)
    web.wait_quiet()
    fresh = visitor.watch(conversation)
    assert [entry["id"] for entry in stream.state.entries] == [entry["id"] for entry in fresh.state.entries]
    assert len(stream.of("snapshot")) == 1


def test_messages_that_are_taken_back_bring_a_snapshot(web: WebHouse) -> None:
    """/undo removes rows: the page gets the whole truth again, never a mixture."""
    visitor = web.visit()
    conversation = visitor.open()
    stream = visitor.watch(conversation)
    for number in (1, 2):
        visitor.say(conversation, f"[[say answer {number}]]")
        stream.wait_for("settled", number)
    visitor.say(conversation, "/undo")
    stream.wait_until(lambda state: state.texts("assistant") == ["answer 1"])
    visitor.say(conversation, "/retry")
    stream.wait_until(lambda state: state.texts("assistant") == ["answer 1"] and state.live is None)
    web.wait_quiet()
    fresh = visitor.watch(conversation)
    stream.wait_until(lambda state: [one["id"] for one in state.entries] == [one["id"] for one in fresh.state.entries])


def test_new_moves_the_page_that_asked_for_it(web: WebHouse) -> None:
    """/new leads to another conversation, or empties this one; either way the page follows."""
    visitor = web.visit()
    conversation = visitor.open()
    stream = visitor.watch(conversation)
    visitor.say(conversation, "[[say hello]]")
    stream.wait_for("settled")
    visitor.say(conversation, "/new")
    wait_until(lambda: bool(stream.of("moved")) or stream.state.texts("assistant") == [])


def test_a_branch_or_a_rename_in_one_tab_is_seen_in_the_other(web: WebHouse) -> None:
    one, two = web.visit(), web.visit()
    conversation = one.open()
    stream = two.watch(conversation)
    one.say(conversation, "[[say first]]")
    stream.wait_for("settled")
    thread = stream.state.thread
    assert thread is not None
    answer = one.http.patch(f"/web/threads/{thread['session']}", json={"title": "A better name"})
    assert answer.json()["thread"]["title"] == "A better name"
    wait_until(lambda: {"type": "title", "session": thread["session"], "title": "A better name"} in stream.events)
    position = stream.state.entries[0]["position"]
    fork = one.post(f"/web/threads/{thread['session']}/fork", before=position)["thread"]
    assert fork["conversation"] == conversation
    stream.wait_until(lambda state: state.entries == [] and state.thread["session"] == fork["session"])
    one.say(conversation, "[[say second]]")
    stream.wait_until(lambda state: state.texts("assistant") == ["second"])
    one.post(f"/web/threads/{thread['session']}/resume")
    stream.wait_until(lambda state: state.texts("assistant") == ["first"])


def test_a_gateway_that_closes_says_so_and_the_page_comes_back(web: WebHouse) -> None:
    """An open stream ends with `closing`; what is sent then is refused, and taken once it runs again."""
    visitor = web.visit()
    cookies = dict(visitor.http.cookies)
    conversation = visitor.open()
    stream = visitor.watch(conversation)
    visitor.say(conversation, "[[say before]]")
    stream.wait_for("settled")
    begun = time.monotonic()
    web.loop.call_soon_threadsafe(web.gateway.shut_down, "the test restarts it")
    assert stream.ended.wait(20)
    assert stream.events[-1]["type"] == "closing"
    web.stop()
    assert time.monotonic() - begun < 20
    web.start()
    back = web.stranger()
    back.cookies.update(cookies)
    said = {"conversation": conversation, "id": "after-1", "text": "[[say after]]"}
    assert back.post("/web/say", json=said).status_code == 200
    page = web.visit().watch(conversation)
    page.wait_until(lambda state: state.texts("assistant") == ["before", "after"])


def test_a_server_that_closes_alone_ends_its_streams(web: WebHouse) -> None:
    """Closing the page takes a moment at most, also twice, and leaves the gateway at work."""
    visitor = web.visit()
    conversation = visitor.open()
    stream = visitor.watch(conversation)
    assert web.server is not None
    web.run(web.server.close())
    assert stream.ended.wait(20)
    assert stream.events[-1] == {"type": "closing"}
    with pytest.raises(httpx2.ConnectError):
        visitor.http.get("/web/me")
    assert not web.gateway.host.closing
    web.run(web.server.close())


def test_a_turn_that_is_cut_by_the_end_of_the_gateway_goes_on_at_the_next(web: WebHouse, lab: LabServer) -> None:
    """The page that comes back in between sees the message wait, then its answer."""
    visitor = web.visit()
    conversation = visitor.open()
    stream = visitor.watch(conversation)
    lab.set_plan([{"text": "too late", "stall_first": 60, "contains": "take"}, {"text": "in time", "contains": "take"}])
    visitor.say(conversation, "take your time")
    stream.wait_for("begun")
    web.stop()
    web.start()
    page = web.visit().watch(conversation)
    page.wait_until(lambda state: "in time" in "".join(state.texts("assistant")))
