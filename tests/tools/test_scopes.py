"""Two people on one Hermes: the tools of one do not reach what belongs to the other, or to the owner (G12)."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from commands import Person

from agent.turn.prompt import PromptSources, build_system_prompt
from hermes_base.errors import ToolFailure
from hermes_base.setting_table import make_settings
from hermes_base.turn.hooks import NoHooks
from hermes_base.turn.tool_context import ToolContext
from hermes_constants import get_hermes_home
from hermes_lab.server import LabServer
from run_agent import AIAgent
from tools.builtin.file_tools import read_file, search_files, write_file
from tools.builtin.todo_tool import manage_todo
from tools.files.file_changes import undo_last_turn
from tools.files.roots import READ, WRITE, find_place, list_roots
from tools.files.searching import Query, search_by_walk, search_with_rg
from tools.memory_tool import manage_memory
from tools.policy.command_gate import clear_command

MakeContext = Callable[[str], ToolContext]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("HERMES_HOME", str(home))
    for folder in ("workspace", "people/p-1/workspace", "people/p-2/workspace"):
        (home / folder).mkdir(parents=True)
    return home


@pytest.fixture
def make_context(home: Path) -> MakeContext:
    """The context of a person's turn, as the gateway makes it; an empty id: the owner's."""

    def make(person: str) -> ToolContext:
        own = home / "people" / person if person else None
        folder = (own or home) / "workspace"
        return ToolContext(
            task=f"task-{person}", turn="t", folder=str(folder), home=home, own=own, person=person, asker=Person()
        )

    return make


def remember(context: ToolContext, note: str) -> None:
    manage_memory({"action": "add", "content": note}, context=context)


def read_notes(context: ToolContext) -> str:
    return str(json.loads(manage_memory({"action": "list"}, context=context))["notes"])


def test_memory_belongs_to_each(make_context: MakeContext, home: Path) -> None:
    """G12: notes go to the person's own file and to the prompts of nobody else."""
    people = {person: make_context(person) for person in ("", "p-1", "p-2")}
    for person, context in people.items():
        remember(context, f"secret of {person or 'owner'}")
    for person, context in people.items():
        prompt = build_system_prompt(PromptSources(home=home, own=context.own))
        for text in (read_notes(context), prompt):
            assert [f"secret of {name or 'owner'}" in text for name in people] == [name == person for name in people]


def test_todo_lists_belong_to_each(make_context: MakeContext) -> None:
    """G12: even where two tasks had the same name."""
    one, two = (replace(make_context(person), task="same") for person in ("p-1", "p-2"))
    manage_todo({"items": [{"text": "mine"}]}, context=one)
    assert json.loads(manage_todo({}, context=two))["items"] == []
    assert json.loads(manage_todo({}, context=one))["items"][0]["text"] == "mine"


def test_file_tools_have_the_own_workspace_and_what_the_owner_opened(make_context: MakeContext, home: Path) -> None:
    """G12: not the home's workspace, not /tmp, not the owner's own roots, not the working folder by itself."""
    context = replace(
        make_context("p-1"),
        folder="/srv",
        settings=make_settings({"files": {"roots": ["/owner"]}, "people": {"roots": ["/all"]}}),
    )
    own = home / "people/p-1"
    assert list_roots(context) == (str(own / "workspace"), str(own / "uploads"), "/all")
    owner = replace(make_context(""), settings=context.settings)
    workspace, uploads = str(home / "workspace"), str(home / "uploads")
    assert list_roots(owner) == (workspace, "/tmp", workspace, uploads, "/owner")


def test_what_a_person_uploaded_is_read_unasked(make_context: MakeContext, home: Path) -> None:
    """G7, G12: their own, and nobody else's."""
    for own in (home, home / "people/p-1", home / "people/p-2"):
        (own / "uploads" / "0a").mkdir(parents=True)
        (own / "uploads" / "0a" / "list.csv").write_text(f"of {own.name}")
    for person, name in (("", "home"), ("p-1", "p-1")):
        context = replace(make_context(person), asker=None)
        own = context.own or home
        assert f"of {name}" in read_file({"path": str(own / "uploads/0a/list.csv")}, context=context)
        with pytest.raises(ToolFailure):
            read_file({"path": str(home / "people/p-2/uploads/0a/list.csv")}, context=context)


@pytest.mark.parametrize("use", [READ, WRITE])
@pytest.mark.parametrize(
    "path",
    [
        "../../p-2/workspace/note",
        "../../p-2/memories/MEMORY.md",
        "../memories/MEMORY.md",
        "../../../workspace/note",
        "../../../memories/USER.md",
        "link/note",
    ],
)
def test_what_the_home_holds_of_others_is_refused_without_asking(
    make_context: MakeContext, home: Path, path: str, use: str
) -> None:
    """G12: not even a member who may approve their own commands opens it."""
    person = Person()
    context = replace(make_context("p-1"), asker=person)
    (home / "people/p-1/workspace/link").symlink_to(home / "people/p-2/workspace")
    with pytest.raises(ToolFailure, match="somebody else"):
        find_place(context, path, use)
    assert person.asked == []


def test_outside_of_the_home_somebody_who_approves_is_asked(make_context: MakeContext) -> None:
    """G12, G7: /tmp is shared by everybody, so it is asked for."""
    person = Person("deny")
    with pytest.raises(ToolFailure, match="outside"):
        find_place(replace(make_context("p-1"), asker=person), "/tmp/x", READ)
    assert len(person.asked) == 1


def test_files_are_written_read_and_found_in_the_own_workspace(make_context: MakeContext, home: Path) -> None:
    """G12: and what undo keeps lies with the person, so that it is forgotten with them."""
    one, two = make_context("p-1"), make_context("p-2")
    write_file({"path": "note.txt", "content": "mine"}, context=one)
    assert (home / "people/p-1/workspace/note.txt").read_text() == "mine"
    assert "mine" in read_file({"path": "note.txt"}, context=one)
    assert "mine" not in call(search_files, {"pattern": "mine"}, two)
    with pytest.raises(ToolFailure):
        read_file({"path": str(home / "people/p-1/workspace/note.txt")}, context=two)
    assert not (home / "file-changes").exists()
    assert one.own is not None
    assert undo_last_turn(one.own, one.task)
    assert not (home / "people/p-1/workspace/note.txt").exists()


@pytest.mark.parametrize("kind", ["content", "name"])
def test_a_search_around_the_home_does_not_enter_it(make_context: MakeContext, home: Path, kind: str) -> None:
    """G12: with or without ripgrep, whatever folder above it somebody opened."""
    for place in ("people/p-1/workspace", "people/p-2/workspace", "workspace", "memories"):
        (home / place).mkdir(exist_ok=True)
        (home / place / "canary.txt").write_text("canary")
    (home.parent / "canary.txt").write_text("canary")
    context = replace(make_context("p-1"), settings=make_settings({"people": {"roots": [str(home.parent)]}}))
    around = find_place(context, str(home.parent), READ)
    for search in (search_by_walk, partial(search_with_rg, rg=shutil.which("rg") or "")):
        if isinstance(search, partial) and not shutil.which("rg"):
            continue
        found = {hit.path for hit in search(Query(context, around, "canary", kind, ""))}
        assert found == {"canary.txt", "home/people/p-1/workspace/canary.txt"}


def call(tool: Callable[..., Any], args: dict[str, Any], context: ToolContext) -> str:
    try:
        return str(tool(args, context=context))
    except ToolFailure as failure:
        return str(failure)


@pytest.mark.parametrize("mode", ["ask", "auto"])
@pytest.mark.parametrize("command", ["cat ../../p-2/memories/MEMORY.md", "ls ../..", "cat ../../../workspace/x"])
def test_commands_that_look_at_others_are_asked_for(make_context: MakeContext, mode: str, command: str) -> None:
    """G12: without walls around commands, somebody who approves decides."""
    person = Person("deny")
    settings = make_settings({"approvals": {"mode": mode}, "terminal": {"backend": "local"}})
    context = replace(make_context("p-1"), asker=person, settings=settings)
    with pytest.raises(ToolFailure, match="nobody approved"):
        clear_command(context, command)
    assert len(person.asked) == 1
    assert clear_command(context, "cat note.txt").unasked


def test_agents_of_two_people_keep_apart(lab: LabServer) -> None:
    """G12: from the agent's options down to the file and back into the next conversation's prompt."""
    home = get_hermes_home()
    agents = []

    def make(person: str) -> AIAgent:
        own = home / "people" / person
        (own / "workspace").mkdir(parents=True, exist_ok=True)
        agent = AIAgent(
            base_url=lab.base_url,
            model="lab-model",
            api_key="lab-key-12345678",
            hooks=NoHooks(),
            enabled_toolsets=["memory"],
            person=person,
            own_folder=str(own),
            folder=str(own / "workspace"),
        )
        agents.append(agent)
        return agent

    for person in ("p-1", "p-2"):
        note = {"action": "add", "content": f"secret of {person}"}
        make(person).run_conversation(f"[[tool memory {json.dumps(note)}]]")
    assert not (home / "memories").exists()
    for person in ("p-1", "p-2"):
        assert f"secret of {person}" in (home / "people" / person / "memories/MEMORY.md").read_text()
        agent = make(person)
        agent.run_conversation("hello")
        prompt = agent._cached_system_prompt or ""
        assert [f"secret of {name}" in prompt for name in ("p-1", "p-2")] == [name == person for name in ("p-1", "p-2")]
    for agent in agents:
        agent.close()
