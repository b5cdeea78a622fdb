"""A conversation that is compacted in its place: each answer stays with its own question."""

from pathlib import Path

from api_house import ApiHouse

from hermes_lab.server import LabServer


def test_each_response_has_its_own_answer(home: Path, lab: LabServer) -> None:
    """C2, C7: also after a restart; rows of earlier turns that are written again close no message a second time."""
    model = {"base_url": lab.base_url, "default": "lab", "context_length": 12_000}
    house = ApiHouse(home, lab.base_url, model=model, compression={"in_place": True})
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
