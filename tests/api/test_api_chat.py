"""The official client and `/v1/chat/completions`: answers, streams, errors, and which conversation goes on."""

import asyncio
import base64
import threading
from typing import Any

import openai
import pytest
from api_house import ApiHouse
from waiting import wait_until

from gateway.platforms import hub
from gateway.platforms.face import Dealt
from hermes_base.chat import TextDelta
from hermes_lab.server import LabServer

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WORKS = '[[say I look.]][[tool terminal {"command": "echo hi"}]][[then]][[say Done.]]'


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def assistant(text: str | None) -> Any:
    return {"role": "assistant", "content": text}


def ask(client: openai.OpenAI, *messages: Any, **options: Any) -> str:
    """What is answered."""
    answer = client.chat.completions.create(model="hermes", messages=list(messages), **options)
    return answer.choices[0].message.content or ""


def sent(lab: LabServer) -> list[str]:
    """The texts of the last request to the model, without the system prompt."""
    messages = lab.requests[-1].json()["messages"][1:]
    return [str(message["content"]).split("\n\n[")[0] for message in messages]


# --- answers


def test_an_answer_has_the_form_of_openai(api: ApiHouse) -> None:
    answer = api.client().chat.completions.create(model="hermes", messages=[user("[[say Hello.]]")])
    choice = answer.choices[0]
    assert (choice.message.role, choice.message.content, choice.finish_reason) == ("assistant", "Hello.", "stop")
    assert answer.id.startswith("chatcmpl-")
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0


def test_a_stream_says_what_the_whole_answer_says(api: ApiHouse) -> None:
    """Texts before and after tools, with an empty line between them, are the same in both forms."""
    client = api.client()
    whole = ask(client, user(WORKS))
    stream = client.chat.completions.create(
        model="hermes", messages=[user(WORKS)], stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    pieces = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert pieces[0].delta.role == "assistant"
    assert "".join(piece.delta.content or "" for piece in pieces) == whole == "I look.\n\nDone."
    assert [piece.finish_reason for piece in pieces if piece.finish_reason] == ["stop"]
    assert pieces[-1].finish_reason == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert len({chunk.id for chunk in chunks}) == 1


def test_reasoning_is_told_apart(api: ApiHouse) -> None:
    client = api.client()
    question = [user("[[reason I wonder.]][[say Yes.]]")]
    stream = client.chat.completions.create(model="hermes", messages=question, stream=True)
    deltas = [chunk.choices[0].delta.model_dump() for chunk in stream]
    assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == "I wonder."
    assert "".join(delta["content"] or "" for delta in deltas) == "Yes."
    whole = client.chat.completions.create(model="hermes", messages=question)
    assert whole.choices[0].message.model_dump()["reasoning_content"] == "I wonder."


def test_events_come_only_to_who_asks_for_them(api: ApiHouse) -> None:
    client = api.client()
    plain = list(client.chat.completions.create(model="hermes", messages=[user(WORKS)], stream=True))
    assert all(chunk.choices for chunk in plain)
    asked = list(
        client.chat.completions.create(
            model="hermes", messages=[user(WORKS)], stream=True, extra_body={"hermes": {"events": True}}
        )
    )
    told = [chunk.model_dump().get("hermes") for chunk in asked if not chunk.choices]
    assert [event["event"] for event in told if event] == ["run.started", "tool.started", "tool.ended"]


def test_cached_tokens_are_counted(api: ApiHouse) -> None:
    """A8: the usage of an answer is the sum of its calls, with what was read from the cache."""
    client = api.client()
    answer = client.chat.completions.create(model="hermes", messages=[user(WORKS)])
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert (answer.usage.prompt_tokens_details.cached_tokens or 0) > 1000


# --- errors


def test_a_failed_turn_is_told_once(api: ApiHouse, lab: LabServer) -> None:
    """A turn that failed is not begun again by the client itself, which would pay twice."""
    lab.set_plan([{"fault": {"status": 401, "message": "No."}, "times": 0}])
    client = api.client(max_retries=2)
    with pytest.raises(openai.InternalServerError) as failed:
        ask(client, user("Hello"))
    assert failed.value.status_code == 502
    assert failed.value.response.headers["x-should-retry"] == "false"
    api.wait_quiet()
    assert len(client.get("/sessions", cast_to=object)["data"]) == 1  # type: ignore[index]


def test_a_failed_stream_ends_with_an_error(api: ApiHouse, lab: LabServer) -> None:
    lab.set_plan([{"fault": {"status": 401, "message": "No."}, "times": 0}])
    with pytest.raises(openai.APIError, match="key"):
        list(api.client().chat.completions.create(model="hermes", messages=[user("Hello")], stream=True))


def test_an_unknown_model_is_not_found(api: ApiHouse) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        api.client().chat.completions.create(model="gpt-9", messages=[user("Hello")])
    assert missing.value.code == "model_not_found"
    assert {model.id for model in api.client().models.list()} == {"hermes", "lab"}
    assert api.client().models.retrieve("lab").id == "lab"


def test_harmless_tuning_is_ignored(api: ApiHouse) -> None:
    tuned = {"temperature": 0.1, "top_p": 1, "max_tokens": 5, "stop": ["x"], "seed": 7, "user": "me", "tools": []}
    assert ask(api.client(), user("[[say Hello there, you.]]"), **tuned) == "Hello there, you."


# --- which conversation


def test_a_transcript_goes_on_where_it_was(api: ApiHouse, lab: LabServer) -> None:
    """All messages but the last are the transcript of a conversation of this key: nothing is sent anew."""
    client = api.client(api.make_key())
    talk = [{"role": "system", "content": "Be kind."}, user(WORKS)]
    talk.append(assistant(ask(client, *talk)))
    talk.append(user("[[say Bye.]]"))
    assert ask(client, *talk) == "Bye."
    assert len(lab.requests[-1].json()["messages"]) == 6  # system, question, call, result, answer, question
    assert len(api.http().get("/v1/sessions").json()["data"]) == 1


def test_another_transcript_is_another_conversation(api: ApiHouse, lab: LabServer) -> None:
    """What was said elsewhere is planted, and the model reads it."""
    client = api.client(api.make_key())
    ask(client, user("One"))
    ask(client, user("One"), assistant("Something that was never said"), user("[[say Two.]]"))
    assert sent(lab) == ["One", "Something that was never said", "[[say Two.]]"]
    assert len(api.http().get("/v1/sessions").json()["data"]) == 2


def test_another_key_does_not_go_on(api: ApiHouse) -> None:
    first, second = (api.client(api.make_key()) for _ in range(2))
    said = ask(first, user("One"))
    ask(second, user("One"), assistant(said), user("Two"))
    assert len(api.http().get("/v1/sessions").json()["data"]) == 2


def test_a_name_finds_its_conversation(api: ApiHouse, lab: LabServer) -> None:
    """By header, field or metadata; only the last message is said, instructions only at the beginning."""
    client = api.client(api.make_key())
    system = {"role": "system", "content": "Be kind."}
    ask(client, system, user("One"), extra_headers={"X-Hermes-Conversation": "work.1"})
    ask(client, system, user("ignored"), assistant("this too"), user("Two"), extra_body={"conversation": "work.1"})
    ask(client, system, user("Three"), metadata={"conversation": "work.1"})
    assert [text for text in sent(lab) if not text.startswith("You said")][1:] == ["Two", "Three"]
    assert (
        str(lab.requests[-1].json()["messages"][1:]).count("Be kind.") == 2
    )  # in the question, and repeated by the lab


def test_a_session_is_resumed_by_its_id(api: ApiHouse, lab: LabServer) -> None:
    client = api.client(api.make_key())
    raw = client.chat.completions.with_raw_response.create(model="hermes", messages=[user("One")])
    session, conversation = raw.headers["x-hermes-session"], raw.headers["x-hermes-conversation"]
    assert raw.headers["x-hermes-run"].startswith("run_")
    ask(client, user("Two"), extra_headers={"X-Hermes-Conversation": session})
    ask(client, user("Three"), extra_headers={"X-Hermes-Conversation": conversation})
    assert [text for text in sent(lab) if not text.startswith("You said")] == ["One", "Two", "Three"]


# --- side by side


def test_a_busy_conversation_lets_messages_wait(api: ApiHouse, lab: LabServer) -> None:
    """C3: a second message of the API never interrupts the first; both are answered in order."""
    client, place = api.client(), {"X-Hermes-Conversation": "busy"}
    answers: dict[str, str] = {}
    first = threading.Thread(
        target=lambda: answers.update(one=ask(client, user("[[stall 0.5]][[say One.]]"), extra_headers=place))
    )
    first.start()
    wait_until(lambda: bool(lab.in_flight))
    answers["two"] = ask(client, user("[[say Two.]]"), extra_headers=place)
    first.join()
    assert answers == {"one": "One.", "two": "Two."}
    assert sent(lab)[-1] == "[[say Two.]]"


def test_many_clients_at_once(api: ApiHouse) -> None:
    """Each gets its own answer, whole and streamed."""

    async def ask_one(client: openai.AsyncOpenAI, number: int) -> str:
        question = [user(f"[[chunks 5]][[say Number {number}.]]")]
        if number % 2:
            answer = await client.chat.completions.create(model="hermes", messages=question)
            return answer.choices[0].message.content or ""
        stream = await client.chat.completions.create(model="hermes", messages=question, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def ask_all() -> list[str]:
        async with api.async_client() as client:
            return await asyncio.gather(*(ask_one(client, number) for number in range(12)))

    assert asyncio.run(ask_all()) == [f"Number {number}." for number in range(12)]


def test_a_vanished_client_leaves_the_turn_running(api: ApiHouse, lab: LabServer) -> None:
    """A8, C1: the answer is found again by the run's id, and in the session."""
    client = api.client()
    stream = client.chat.completions.create(model="hermes", messages=[user("[[pause 0.05]][[chunks 10]]")], stream=True)
    run = stream.response.headers["x-hermes-run"]
    next(iter(stream))
    stream.close()
    http = api.http()
    wait_until(lambda: http.get(f"/v1/runs/{run}").json()["status"] == "completed")
    told = http.get(f"/v1/runs/{run}").json()
    assert told["output"] == "1 2 3 4 5 6 7 8 9 10"
    entries = http.get(f"/v1/sessions/{told['session']}/messages").json()["data"]
    assert [entry["text"] for entry in entries if entry["kind"] == "assistant"] == [told["output"]]


def test_a_client_that_repeats_itself_is_answered_once(api: ApiHouse, lab: LabServer) -> None:
    """C1: its own time limit passes before the answer comes; what it sends again finds the run that is there."""
    client = api.client(timeout=0.4, max_retries=8)
    assert ask(client, user("[[stall 1.5]][[say Late.]]")) == "Late."
    assert len(lab.requests) == 1
    assert len(api.http().get("/v1/sessions").json()["data"]) == 1


def test_who_asks_the_same_again_is_answered_again(api: ApiHouse, lab: LabServer) -> None:
    """Only what a client calls a repetition is one, and only its own."""
    body = {"model": "hermes", "messages": [user("[[say Yes.]]")]}
    owner, other = api.http(), api.http(api.make_key())
    first = owner.post("/v1/chat/completions", json=body, headers={"x-stainless-retry-count": "0"}).json()["id"]
    again = {"x-stainless-retry-count": "1"}
    assert owner.post("/v1/chat/completions", json=body, headers=again).json()["id"] == first
    assert owner.post("/v1/chat/completions", json=body).json()["id"] != first
    assert other.post("/v1/chat/completions", json=body, headers=again).json()["id"] != first
    assert len(lab.requests) == 3


def test_the_same_key_never_runs_twice(api: ApiHouse, lab: LabServer) -> None:
    """C1: a repetition waits for, or returns, the first one's answer; another key runs by itself."""
    client = api.client(api.make_key())
    again = {"Idempotency-Key": "order-7"}
    talk = [user("One"), assistant("1"), user("[[stall 0.3]][[say Only once.]]")]
    answers: list[str] = []
    threads = [
        threading.Thread(target=lambda: answers.append(ask(client, *talk, extra_headers=again))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["Only once."] * 3
    assert len(lab.requests) == 1
    stream = client.chat.completions.create(model="hermes", messages=talk, stream=True, extra_headers=again)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "Only once."
    assert len(lab.requests) == 1
    ask(client, *talk, extra_headers={"Idempotency-Key": "order-8"})
    assert len(lab.requests) == 2


def test_the_same_key_never_runs_twice_over_a_restart(api: ApiHouse, lab: LabServer) -> None:
    """C1: the next process knows the message, and reads the answer from the store."""
    key = api.make_key()
    again = {"Idempotency-Key": "order-7"}
    first = ask(api.client(key), user(WORKS), extra_headers=again)
    calls = len(lab.requests)
    api.stop()
    api.start()
    assert ask(api.client(key), user(WORKS), extra_headers=again) == first == "I look.\n\nDone."
    assert len(lab.requests) == calls


def test_the_same_key_with_another_question_is_refused(api: ApiHouse, lab: LabServer) -> None:
    """C2: nobody gets the answer to another question, nor after a restart; how the answer comes may differ."""
    key, again = api.make_key(), {"Idempotency-Key": "order-9"}
    body = {"model": "hermes", "messages": [user("[[say First.]]")]}
    others: list[tuple[str, dict[str, Any]]] = [
        ("/v1/chat/completions", {**body, "messages": [user("[[say Second.]]")]}),
        ("/v1/chat/completions", {**body, "messages": [user("One"), assistant("1"), *body["messages"]]}),
        ("/v1/chat/completions", {**body, "conversation": "another"}),
        ("/v1/runs", {"input": "[[say Second.]]"}),
    ]
    assert api.http(key).post("/v1/chat/completions", json=body, headers=again).status_code == 200
    for _ in range(2):
        for path, other in others:
            refused = api.http(key).post(path, json=other, headers=again)
            assert (refused.status_code, refused.json()["error"]["param"]) == (422, "Idempotency-Key"), other
        assert "First." in api.http(key).post("/v1/chat/completions", json={**body, "stream": True}, headers=again).text
        assert api.http(key).post("/v1/runs", json={"input": "[[say First.]]"}, headers=again).status_code == 202
        api.stop()
        api.start()
    assert len(lab.requests) == 1


def test_a_client_that_repeats_itself_over_a_restart_is_answered_once(api: ApiHouse, lab: LabServer) -> None:
    """C1: it never heard the answer, and the next process has it in the store."""
    key = api.make_key()
    body = {"model": "hermes", "messages": [user("[[say Yes.]]")]}
    first = api.http(key, **{"x-stainless-retry-count": "0"}).post("/v1/chat/completions", json=body).json()
    api.stop()
    api.start()
    again = api.http(key, **{"x-stainless-retry-count": "1"}).post("/v1/chat/completions", json=body).json()
    assert (again["id"], again["choices"]) == (first["id"], first["choices"])
    assert len(lab.requests) == 1


def test_events_that_were_given_up_cost_no_word(api: ApiHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that is too slow gets the whole answer from the store, whole and streamed."""
    put = hub.Watch.put

    def lose(watch: hub.Watch, event: hub.Watched) -> None:
        put(watch, hub.Lost() if isinstance(event, TextDelta | Dealt) else event)

    monkeypatch.setattr(hub.Watch, "put", lose)
    client = api.client()
    assert ask(client, user(WORKS)) == "I look.\n\nDone."
    stream = client.chat.completions.create(model="hermes", messages=[user(WORKS)], stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "I look.\n\nDone."


# --- words that look like something else


def test_a_slash_means_nothing_to_the_house(api: ApiHouse, lab: LabServer) -> None:
    assert ask(api.client(), user("/new and /stop")).startswith("You said: /new and /stop")
    assert sent(lab)[-1] == "/new and /stop"


def test_the_owner_may_ask_for_commands(api: ApiHouse, lab: LabServer) -> None:
    allowed = {"X-Hermes-Commands": "1"}
    assert "/help" in ask(api.client(), user("/help"), extra_headers=allowed)
    assert not lab.requests
    member = api.client(api.make_key(api.make_member("ann")))
    assert ask(member, user("/help"), extra_headers=allowed).startswith("You said: /help")


def test_an_image_is_shown_to_the_model(api: ApiHouse, lab: LabServer) -> None:
    address = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": address}}]
    ask(api.client(), {"role": "user", "content": parts})
    content = lab.requests[-1].json()["messages"][-1]["content"]
    assert [part["image_url"]["url"] for part in content if part["type"] == "image_url"] == [address]
    (kept,) = (api.home / "uploads").rglob("*.png")
    assert kept.read_bytes() == PIXEL
    assert kept.stat().st_mode & 0o077 == 0


def test_an_image_of_a_person_is_kept_with_what_is_theirs(api: ApiHouse) -> None:
    """G12: it goes when they are forgotten."""
    ann = api.make_member("ann")
    address = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
    part = {"type": "image_url", "image_url": {"url": address}}
    ask(api.client(api.make_key(ann)), {"role": "user", "content": [part]})
    assert list((api.home / "people" / ann / "uploads").rglob("*.png"))
    assert not (api.home / "uploads").exists()


def test_a_transcript_with_an_image_goes_on(api: ApiHouse, lab: LabServer) -> None:
    client = api.client(api.make_key())
    address = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
    shown = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": address}}]}
    talk = [user("[[say One.]]"), assistant("One.")]
    ask(client, talk[0])
    talk += [shown, assistant(ask(client, *talk, shown))]
    assert ask(client, *talk, user("[[say Three.]]")) == "Three."
    assert len(api.http().get("/v1/sessions").json()["data"]) == 1
