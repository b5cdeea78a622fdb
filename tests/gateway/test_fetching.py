"""Files that came with a message are fetched before its turn: whole, once, and never in the way of anybody."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from house import ACCOUNT, House, Visitor
from waiting import wait_until

from gateway.platforms.pretend.service import CLOSED_AFTER, CLOSED_BEFORE, REFUSED, PretendFile
from gateway.turns import fetching, transcribing
from hermes_base.errors import StoreFailure
from hermes_base.inbound import UPLOADS, Address, FileRef, Inbound
from hermes_cli.plugins import get_plugin_manager
from hermes_lab.server import LabServer

PEOPLE = {"owner": "olga", "allow": ["ann", "ben"]}
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "FIRST_PAUSE", 0.01)


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with House(home, lab.base_url, pretend=PEOPLE) as made:
        yield made


def upload(house: House, name: str, body: bytes | None, kind: str = "file", size: int | None = None) -> PretendFile:
    return house.call(lambda: house.service.upload(name, body, kind, size))


def read_content(lab: LabServer) -> object:
    return lab.requests[-1].json()["messages"][-1]["content"]


def find_files(home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if UPLOADS in path.parts and path.is_file()]


def test_a_file_is_where_the_model_looks(house: House, home: Path, lab: LabServer) -> None:
    """G12: below the folder of whoever it belongs to, under its own name; a tool of theirs can read it."""
    ann, olga = house.person("ann"), house.person("olga")
    ann.ask("[[say got it]]", files=(upload(house, "../plan\n.txt", b"the plan"),))
    (path,) = find_files(home)
    assert path.read_bytes() == b"the plan"
    assert path.name == "plan_.txt"
    assert path.parts[len(home.parts)] == "people"
    assert path.stat().st_mode & 0o077 == 0
    assert f"[file plan_.txt: {path}]" in str(read_content(lab))
    assert "the plan" in ann.ask(f'[[tool read_file {{"path": "{path}"}}]]')[-1]
    olga.ask("[[say mine]]", files=(upload(house, "mine.txt", b"mine"),))
    assert [found.parent.parent for found in find_files(home) if found.name == "mine.txt"] == [home / UPLOADS]


def test_the_model_sees_a_picture(house: House, lab: LabServer) -> None:
    """What is only called a picture is a file: a provider would refuse it."""
    ann = house.person("ann")
    ann.ask("[[say nice]]", files=(upload(house, "sea.png", PNG, "image"), upload(house, "lie.png", b"x", "image")))
    content = read_content(lab)
    assert isinstance(content, list)
    assert [part["type"] for part in content] == ["text", "image_url"]
    assert "[image sea.png: " in content[0]["text"]
    assert "[file lie.png: " in content[0]["text"]


@pytest.mark.parametrize("trouble", [CLOSED_BEFORE, CLOSED_AFTER])
def test_a_connection_that_breaks_is_tried_again(house: House, home: Path, trouble: str) -> None:
    house.service.file_troubles.extend([trouble, trouble])
    ann = house.person("ann")
    assert ann.ask("[[say got it]]", files=(upload(house, "plan.txt", b"the plan"),)) == ["got it"]
    assert [path.read_bytes() for path in find_files(home)] == [b"the plan"]
    assert len(house.service.fetched) == 3


@pytest.mark.parametrize(
    ("body", "size", "troubles", "why"),
    [
        (b"x", 60 * 1024 * 1024, (), "it is larger than 50 MB"),
        (b"x" * (51 * 1024 * 1024), 1, (), "it is larger than 50 MB"),
        (b"x", 1, (REFUSED,), "The service refused: there is no such file"),
        (b"x", 1, (CLOSED_AFTER,) * fetching.TRIES, "The connection broke"),
    ],
)
def test_what_cannot_be_had_is_told_and_the_turn_runs(
    house: House, home: Path, lab: LabServer, body: bytes, size: int, troubles: tuple[str, ...], why: str
) -> None:
    """C2: to the person once, and to the model; nothing of a half file stays."""
    house.service.file_troubles.extend(troubles)
    ann = house.person("ann")
    seen = ann.ask("[[say so be it]]", files=(upload(house, "plan.txt", body, size=size),))
    assert sorted(text.startswith("plan.txt could not be fetched: ") for text in seen) == [False, True]
    assert "so be it" in seen
    assert any(why in text for text in seen)
    assert f"[file plan.txt: not here, {why}" in str(read_content(lab))
    assert find_files(home) == []


def test_secrets_are_in_no_sentence(house: House, home: Path) -> None:
    """G6: errors of a service may name an address with the token in it."""
    (home / ".env").write_text("PRETEND_TOKEN=sesame-4711-sesame\n")
    house.service.file_troubles.extend(["GET https://api/sesame-4711-sesame/file"] * fetching.TRIES)
    ann = house.person("ann")
    seen = ann.ask("[[say so be it]]", files=(upload(house, "plan.txt", b"x"),))
    assert any("could not be fetched" in text and "GET https" in text for text in seen)
    assert not any("4711" in text for text in seen)


def test_a_full_disk_takes_no_file(house: House, lab: LabServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """F7: what is under way must still find room; the message itself is answered."""
    monkeypatch.setattr(fetching, "measure_free", lambda home: 0)
    seen = house.person("ann").ask("[[say so be it]]", files=(upload(house, "plan.txt", b"x"),))
    assert any(fetching.NO_ROOM in text for text in seen)
    assert "so be it" in seen
    assert house.service.fetched == []


def test_a_store_that_fails_just_then_costs_only_the_file(
    house: House, lab: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C2: whatever goes wrong, the message has its turn, and the model knows what is missing."""

    def fail(*_: object) -> None:
        raise StoreFailure("The store is away.")

    monkeypatch.setattr(fetching.Fetcher, "_find_place", fail)
    ann = house.person("ann")
    assert "so be it" in ann.ask("[[say so be it]]", files=(upload(house, "plan.txt", b"x"),))
    assert "[file plan.txt: not here, The store is away]" in str(read_content(lab))
    monkeypatch.setattr(fetching.Fetcher, "_find_place", lambda *_: 1 / 0)
    assert "and so be that" in ann.ask("[[say and so be that]]", files=(upload(house, "plan.txt", b"x"),))


def test_nothing_of_a_stranger_is_fetched(house: House, home: Path, lab: LabServer) -> None:
    """G1: neither in a direct chat nor in a group."""
    for sam in (house.person("sam"), house.person("sam", "room", "group")):
        sam.ask("hello", files=(upload(house, "plan.txt", b"x"),))
    assert house.service.fetched == []
    assert find_files(home) == []
    assert not lab.requests


def begin_endless(house: House, ann: Visitor) -> None:
    ann.say("[[say never]]", files=(upload(house, "endless.bin", None),))
    wait_until(lambda: bool(house.service.fetched))


def test_a_stop_ends_it(house: House, home: Path, lab: LabServer) -> None:
    """C4: also what has no turn yet; no model is asked."""
    ann = house.person("ann")
    begin_endless(house, ann)
    ann.say("/stop")
    ann.wait_seen("Interrupted")
    house.wait_quiet()
    assert not lab.requests
    assert find_files(home) == []
    assert ann.ask("[[say next]]") == ["next"]


def test_nobody_else_waits_for_it(house: House) -> None:
    ann, ben = house.person("ann"), house.person("ben")
    begin_endless(house, ann)
    ben.say("[[say mine]]")
    ben.wait_seen("mine")
    ann.say("/help")
    ann.wait_seen("/new")
    ann.say("/stop")
    house.wait_quiet()


def test_an_edit_takes_the_place_of_a_message_whose_file_is_on_its_way(house: House, lab: LabServer) -> None:
    """C1: it still waits."""
    ann = house.person("ann")
    said = ann.say("[[say never]]", files=(upload(house, "endless.bin", None),))
    wait_until(lambda: bool(house.service.fetched))
    house.service.files[said.files[0].id] = b"short"
    ann.edit(said, "[[say changed]]")
    ann.wait_seen("changed")
    house.wait_quiet()
    assert ann.seen == ["changed"]
    assert len(lab.requests) == 1


def test_a_restart_in_the_middle_fetches_it_whole(house: House, home: Path) -> None:
    """C10: nothing is lost, no half file is taken for a whole one; what is whole is not fetched again."""
    ann = house.person("ann")
    whole = upload(house, "whole.txt", b"whole")
    endless = upload(house, "endless.bin", None)
    ann.say("[[say both]]", files=(whole, endless))
    wait_until(lambda: len(house.service.fetched) == 2 and any(p.name == "whole.txt" for p in find_files(home)))
    house.stop()
    house.service.files[endless.id] = b"it ended"
    house.start()
    ann.wait_seen("both")
    house.wait_quiet()
    assert {path.name: path.read_bytes() for path in find_files(home)} == {
        "whole.txt": b"whole",
        "endless.bin": b"it ended",
    }
    assert house.service.fetched.count(whole.id) == 1


def test_what_a_kill_left_of_a_file_is_not_taken_for_it(house: House, home: Path) -> None:
    """C10: the part of a file has no name yet."""
    olga, file = house.person("olga"), upload(house, "plan.txt", b"the plan")
    address = Address("pretend", ACCOUNT, olga.chat)
    inbound = Inbound(address, "u900", "olga", "", files=(FileRef("", "plan.txt", "file", 8, file.id),))
    folder = home / UPLOADS / fetching.name_folder(inbound, 0)
    folder.mkdir(parents=True)
    (folder / fetching.PART).write_bytes(b"a longer text than the file has")
    olga.ask("[[say got it]]", id="u900", files=(file,))
    assert [(path.name, path.read_bytes()) for path in find_files(home)] == [("plan.txt", b"the plan")]
    assert find_files(home)[0].parent == folder


def test_a_message_with_a_file_is_not_put_into_a_turn(house: House, lab: LabServer) -> None:
    """What has to be fetched has its own turn, and its sender is told."""
    house.write_settings(gateway={"busy": "steer"})
    ann = house.person("ann")
    ann.say("[[stall 600]]")
    wait_until(lambda: len(lab.requests) == 1 and house.gateway.lanes.at_work[ann.conversation].slot.live.steerable)
    ann.say("[[say later]]", files=(upload(house, "plan.txt", b"x"),))
    ann.wait_seen("Queued")
    ann.say("/stop")
    ann.wait_seen("later")


# --- recordings


def test_a_recording_stays_a_file_with_its_length(house: House, lab: LabServer) -> None:
    ann = house.person("ann")
    ann.ask("[[say heard]]", files=(upload(house, "voice.ogg", b"OggS", "audio"),))
    assert "[audio voice.ogg: " in str(read_content(lab))
    assert transcribing.find_transcriber() is None


def test_what_a_plugin_hears_stands_in_the_message(house: House, lab: LabServer) -> None:
    """A plugin that fails costs nothing but its text."""
    offers = get_plugin_manager()._offers.setdefault(transcribing.OFFER, [])
    try:
        offers.append(lambda path: f"I said {path.read_text()}")
        ann = house.person("ann")
        ann.ask("[[say heard]]", files=(upload(house, "voice.ogg", b"hello", "audio"),))
        told = str(read_content(lab))
        assert "[audio voice.ogg: " in told
        assert "[what is said in voice.ogg] I said hello" in told
        offers.append(lambda path: 1 / 0)
        assert ann.ask("[[say heard again]]", files=(upload(house, "v2.ogg", b"x", "audio"),)) == ["heard again"]
    finally:
        offers.clear()
