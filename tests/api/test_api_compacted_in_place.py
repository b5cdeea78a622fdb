"""A conversation that is compacted in its place: each answer stays with its own question."""

from pathlib import Path
from typing import Any

import pytest
from api_house import ApiHouse

from hermes_base.turn.journal import shown_text, text_of
from hermes_lab.server import LabServer


def test_each_response_has_its_own_answer(home: Path, lab: LabServer) -> None:
    """C2, C7: also after a restart; rows of earlier turns that are written again close no message a second time."""
    model = {"base_url": lab.base_url, "default": "lab", "context_length": 12_000}
    house = ApiHouse(home, lab.base_url, model=model)
    house.start()
    ids: list[str] = []
    client = house.client()
    for number in range(1, 7):
        before = {"previous_response_id": ids[-1]} if ids else {}
        text = f"[[say answer{number}]] " + f"word{number} " * 1_400
        ids.append(client.responses.create(model="hermes", input=text, **before).id)
    house.stop()
    house.start()
    client = house.client()
    answers = [client.responses.retrieve(one).output_text for one in ids]
    house.stop()
    assert answers == [f"answer{number}" for number in range(1, 7)]
    assert len(lab.requests) > len(ids)  # there was a summary


@pytest.mark.parametrize("in_place", [True, False])
def test_a_client_that_sends_its_whole_history_stays_in_its_conversation(
    in_place: bool, home: Path, lab: LabServer
) -> None:
    """A1, B4, E2: its history is longer than what the model still sees, and is the same conversation all the same.
    Another history with the same beginning and end is another one."""
    model = {"base_url": lab.base_url, "default": "lab", "context_length": 12_000}
    house = ApiHouse(home, lab.base_url, model=model, compression={"in_place": in_place})
    house.start()
    client = house.client()
    messages: list[dict[str, str]] = []
    conversations = set()
    for number in range(1, 9):
        messages.append({"role": "user", "content": f"[[say answer{number}]] " + f"word{number} " * 1_400})
        raw = client.chat.completions.with_raw_response.create(model="hermes", messages=messages)  # type: ignore[arg-type]
        conversations.add(raw.headers["x-hermes-conversation"])
        messages.append({"role": "assistant", "content": str(raw.parse().choices[0].message.content)})
    assert len(lab.requests) > 8  # there was a summary
    assert len(conversations) == 1
    other = [*messages[:6], {"role": "assistant", "content": "never said"}, *messages[7:]]
    other.append({"role": "user", "content": "[[say other]]"})
    raw = client.chat.completions.with_raw_response.create(model="hermes", messages=other)  # type: ignore[arg-type]
    assert raw.headers["x-hermes-conversation"] not in conversations
    house.stop()


def test_a_program_that_sends_its_whole_history_goes_on_in_its_conversation(home: Path, lab: LabServer) -> None:
    """E2, A1: it knows nothing of summaries, and a compaction that it did not see makes no second conversation."""
    model = {"base_url": lab.base_url, "default": "lab", "context_length": 12_000}
    house = ApiHouse(home, lab.base_url, model=model)
    house.start()
    client = house.client()
    history: list[Any] = []
    for number in range(1, 7):
        history.append({"role": "user", "content": f"[[say answer{number}]] " + f"word{number} " * 1_400})
        answer = client.chat.completions.create(model="hermes", messages=history).choices[0].message.content
        assert answer == f"answer{number}"
        history.append({"role": "assistant", "content": answer})
    sessions = house.store(lambda store: store.sessions())
    kept = house.store(lambda store: store.said(sessions[0].id))
    given = house.store(lambda store: store.load(sessions[0].id).rows)
    house.stop()
    assert len(sessions) == 1
    assert [shown_text(row).strip() for row in kept] == [said["content"].strip() for said in history]
    assert text_of(given[0].message).startswith("[Summary")
