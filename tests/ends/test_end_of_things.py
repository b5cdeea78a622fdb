"""The table "The end of things" in docs/architecture.md, cell by cell: with a warm agent, without one, after a restart.

Each row is performed once for each state, through the chat or the command line, and all of its cells are looked at.
"""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
from ends_house import Started, current, ends_house, find_person, find_shell, read_told, start_process, write_tellers
from gateway_process import GatewayProcess, Person
from house import House, Visitor
from processes import sleep_for_a_day
from waiting import wait_until

from gateway.service import chores
from hermes_base.errors import HermesError
from hermes_base.store_place import find_place
from hermes_cli import config
from hermes_cli.cmds import sessions_cmd
from hermes_lab.server import LabServer
from hermes_state.sql.store_sql import Store

DOCUMENT = Path(__file__).parents[2] / "docs" / "architecture.md"
WARM, COLD, RESTARTED, COMPACTED = "warm", "not warm", "after a restart", "after a compaction, not warm"
INTO_CHILD = "compaction into a child"
ROTATED = f"after a {INTO_CHILD}, not warm"
STATES = (WARM, COLD, RESTARTED, COMPACTED, ROTATED)
REMEMBER = '[[tool memory {"action": "add", "content": "likes tea"}]]'


@cache
def read_table() -> dict[str, dict[str, str]]:
    """The rows of the table by their name, each with its cells by their column."""
    section = DOCUMENT.read_text().split("## The end of things")[1].split("\n## ")[0]
    lines = [re.split(r"\s*\|\s*", line.strip("| ")) for line in section.splitlines() if line.startswith("|")]
    return {row[0].replace("`", ""): dict(zip(lines[0][1:], row[1:], strict=True)) for row in lines[2:]}


# --- how each end is brought about


def evict(ann: Visitor, session: str) -> None:
    ann.house.gateway.runner._evict_cached_agent(ann.conversation)


def compress(ann: Visitor, session: str) -> None:
    ann.ask("/compress")


def start_new(ann: Visitor, session: str) -> None:
    ann.ask("/new")


def resume_other(ann: Visitor, session: str) -> None:
    store = ann.house.gateway.store
    other = next(info for info in store.sessions(conversation=ann.conversation) if "elsewhere" in info.preview)
    ann.ask(f"/resume {other.id}")


def delete(ann: Visitor, session: str) -> None:
    assert sessions_cmd.main(["delete", session, "--yes"]) == 0


def expire(ann: Visitor, session: str) -> None:
    """Nobody is there for long: the claim is given back, and the sweep finds it."""
    gateway = ann.house.gateway
    ann.house.wait_for(gateway.call(gateway.turns.leave, gateway.lanes.node))
    config.set_value("retention.session_days", "0.0000001")
    wait_until(lambda: gateway.store.session(session) is None)


def remove_person(ann: Visitor, session: str) -> None:
    ann.house.operate("people.remove", id=find_person(ann.house, "ann"))


ENDS: dict[str, Callable[[Visitor, str], None]] = {
    "eviction": evict,
    "compaction": compress,
    INTO_CHILD: compress,
    "/new": start_new,
    "/resume away": resume_other,
    "delete": delete,
    "expiry": expire,
    "person removed": remove_person,
}
BY_PROCESS = "process ends"


# --- what became of it


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ends")


@pytest.fixture(scope="module")
def seen(homes: Path) -> Iterator[Callable[[str, str], dict[str, str]]]:
    """The cells of a row as they turned out, by the row's name and the state; each is performed once."""
    with LabServer() as lab, pytest.MonkeyPatch.context() as patch:
        patch.setattr(chores, "FIRST_RETENTION_SECONDS", 0.05)
        patch.setattr(chores, "RETENTION_SECONDS", 0.05)

        @cache
        def perform(row: str, state: str) -> dict[str, str]:
            home = homes / re.sub(r"\W", "_", f"{row} {state}")
            patch.setenv("HERMES_HOME", str(home))
            return perform_process_end(home, lab) if row == BY_PROCESS else perform_end(home, lab, row, state)

        yield perform


def bring_into(house: House, ann: Visitor, state: str) -> None:
    if state in (COMPACTED, ROTATED):
        ann.ask("[[say more]]")
        ann.ask("/compress")
        ann.ask("[[say still more]]")
    if state == RESTARTED:
        house.stop()
        house.start()
    if state in (COLD, COMPACTED, ROTATED):
        house.gateway.runner._evict_cached_agent(ann.conversation)


def perform_end(home: Path, lab: LabServer, row: str, state: str) -> dict[str, str]:
    in_place = row != INTO_CHILD and state != ROTATED
    with ends_house(home, lab.base_url, compression={"in_place": in_place}) as house:
        ann = house.person("ann")
        ann.ask("[[say elsewhere]]")
        ann.ask("/new")
        (home / "told.jsonl").unlink()
        process = start_process(ann)
        ann.ask(REMEMBER)
        folder = find_shell(current(ann).task)
        bring_into(house, ann, state)
        session = current(ann)
        kept = next(home.rglob("MEMORY.md"))
        known = len(read_told(home, "engine", session.id))  # of a compaction before it
        ENDS[row](ann, session.id)
        if read_table()[row]["processes"] == "end":  # the shell goes last
            wait_until(lambda: not process.runs and not folder.exists())
        told = read_told(home, "engine", session.id)[known:]
        spoken = [process.command in str(told[0]["texts"])] if told else []
        info = house.gateway.store.session(session.id)
        agent = house.gateway.runner.cached_agent(ann.conversation)
        assert len(told) <= 1, "nobody is told twice"
        assert all(line["bound"] == session.id for line in told)
        assert state in (COMPACTED, ROTATED) or all(spoken), "the engine gets the stored transcript"
        return {
            "engine": "told" if told else "no",
            "plugins": "told" if is_told_of_an_end(home, session.id) else "no",
            "reason kept": "gone" if info is None else info.end_reason or "none",
            "agent": "stays" if agent is not None else "goes",
            "processes": "live on" if process.runs else "end",
            "shell": "lives on" if folder.exists() else "ends",
            "files": "stay" if kept.exists() else "go",
        }


def is_told_of_an_end(home: Path, session: str) -> bool:
    """A process that ended before is another end."""
    return any(line["reason"] != "shutdown" for line in read_told(home, "plugin", session))


def perform_process_end(home: Path, lab: LabServer) -> dict[str, str]:
    """A real process, which is told to stop."""
    with GatewayProcess(home, lab.base_url, **write_tellers(home)) as gateway:
        gateway.start()
        work = home.with_name(f"{home.name}_work")
        work.mkdir()
        ann = Person(home, "ann", folder=str(work))
        process = Started(sleep_for_a_day())
        ann.wait_dealt(ann.say(f'[[tool process {{"action": "start", "command": "{process.command}"}}]]'))
        ann.wait_dealt(ann.say(REMEMBER))
        wait_until(lambda: process.runs)
        assert gateway.terminate() == 0
        wait_until(lambda: not process.runs)
        ann.close()
        with closing(Store.open_readonly(find_place(home))) as store:
            info = store.current(ann.conversation)
        assert info is not None
        return {
            "engine": "told" if read_told(home, "engine") else "no",
            "plugins": "told" if read_told(home, "plugin") else "no",
            "reason kept": info.end_reason or "none",
            "agent": "goes",  # with its process
            "processes": "live on" if process.runs else "end",
            "shell": "ends",  # with its keeper, which is a process of the gateway
            "files": "stay" if any(home.rglob("MEMORY.md")) else "go",
        }


# --- the cells


CELLS = [(row, column) for row, cells in read_table().items() for column in cells]
PERFORMED = [
    (row, column, state)
    for row, column in CELLS
    for state in ((WARM,) if row == BY_PROCESS else STATES)
    if not (row in ("compaction", INTO_CHILD) and column == "agent" and state != WARM)  # /compress makes one
    and (row, state) not in (("compaction", ROTATED), (INTO_CHILD, COMPACTED))  # a home has one way of it
]


def test_without_a_gateway_a_deletion_tells_the_same(home: Path, lab: LabServer) -> None:
    """B10: `hermes sessions delete` while nothing runs."""
    with ends_house(home, lab.base_url) as house:
        ann = house.person("ann")
        ann.ask("[[say one]]")
        session = current(ann).id
        house.stop()
        assert sessions_cmd.main(["delete", session, "--yes"]) == 0
        assert len(read_told(home, "engine", session)) == 1
        assert [line["reason"] for line in read_told(home, "plugin", session)] == ["shutdown", "deleted"]
        house.start()


def test_who_is_removed_in_several_places_at_once_is_told_of_once(home: Path, lab: LabServer) -> None:
    """B10, G3, I4: the command and the news of it meet; threads of one process as well as gateways of one store."""
    with ends_house(home, lab.base_url) as house:
        ann = house.person("ann")
        ann.ask("[[say one]]")
        session, person = current(ann).id, find_person(house, "ann")
        endings = house.gateway.parts.endings
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: endings.end_person(person), range(8)))
        assert len(read_told(home, "engine", session)) == 1
        assert [line["reason"] for line in read_told(home, "plugin", session)] == ["removed"]


def test_what_may_not_be_forgotten_is_not_ended(home: Path, lab: LabServer) -> None:
    """G3: the refusal comes before anything is touched."""
    with ends_house(home, lab.base_url) as house:
        olga = house.person("olga")
        olga.ask("[[say one]]")
        with pytest.raises(HermesError, match="belongs to this home"):
            house.operate("people.forget", id=find_person(house, "olga"))
        assert current(olga).end_reason is None
        assert read_told(home, "engine") == []


def test_every_row_of_the_table_is_performed() -> None:
    assert {*read_table()} == {*ENDS, BY_PROCESS}


@pytest.mark.parametrize(("row", "column", "state"), PERFORMED)
def test_cell(seen: Callable[[str, str], dict[str, str]], row: str, column: str, state: str) -> None:
    """B10, G3: what the table says of an end is what happens."""
    assert seen(row, state)[column] == read_table()[row][column]
