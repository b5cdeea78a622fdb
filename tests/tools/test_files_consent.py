"""File tools and the one map of names: secrets and start files are asked for wherever they lie (G7), and what the
person is shown is what is done (G4)."""

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import Person

from agent.turn.prompt import PromptSources, build_system_prompt
from hermes_base.chat import Answer, Question
from hermes_base.errors import ToolFailure
from hermes_base.setting_table import make_settings
from hermes_base.text.redact import Redactor
from hermes_base.turn.tool_context import ToolContext
from tools.builtin.file_tools import patch, read_file, search_files, write_file
from tools.builtin.send_file_tool import send_file
from tools.files import searching
from tools.files.file_changes import describe
from tools.files.programs import find_program
from tools.files.roots import READ, find_place
from tools.files.sensitive import is_secret_path, names_program, names_prompt, names_startup
from tools.shell.spawning import keeper

SECRETS = (".ssh/id_rsa", ".env", ".aws/credentials", "server.pem", ".netrc", "deep/er/.env.local", ".bash_history")
OBEYED = (".bashrc", ".ssh/authorized_keys", ".git/hooks/pre-commit", ".git/config", ".husky/pre-push", ".envrc")
OBEYED += (".config/autostart/x.desktop", ".local/bin/ls", ".venv/bin/pytest", "web/node_modules/.bin/tsc", ".profile")
OBEYED += (
    ".vscode/tasks.json",
    "site-packages/x.pth",
    "lib/sitecustomize.py",
    ".cargo/config.toml",
    "Library/LaunchAgents/x.plist",
)
ORDINARY = (
    ".gitignore",
    ".gitattributes",
    ".github/workflows/ci.yml",
    ".vscode/settings.json",
    ".eslintrc",
    "Makefile",
)
ORDINARY += (
    ".env.example",
    "package.json",
    "src/lib/env/main.py",
    "etc/app.conf",
    "deploy/systemd/app.service",
    ".idea/x",
)
ORDINARY += ("id_rsa.pub", ".dockerignore", ".editorconfig", ".pre-commit-config.yaml", "bin/run", "[id].tsx")


@pytest.fixture
def user_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A terminal started in `~`: the working folder is the person's own folder, the usual home of Hermes lies in it."""
    folder = tmp_path / "ann"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("HERMES_HOME")
    return folder


def make(folder: Path, asker: Any = None, mode: str = "ask", **options: Any) -> ToolContext:
    settings = make_settings({"approvals": {"mode": mode}})
    return ToolContext(
        **{"task": "t", "turn": "1", "folder": str(folder), "asker": asker, "settings": settings, **options}
    )


def put(folder: Path, name: str, text: str = "canary\n") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


NOBODY = [(None, "ask"), (Person("deny"), "ask"), (Person(), "deny")]


@pytest.mark.parametrize("name", SECRETS)
def test_g7_secrets_are_not_read_sent_or_written_unasked_inside_the_roots(user_home: Path, name: str) -> None:
    path = put(user_home, name)
    sent: list[bytes] = []
    take = lambda file, caption, data: sent.append(data)  # noqa: E731
    for asker, mode in NOBODY:
        context = make(user_home, asker, mode, send_file=take)
        for call in (
            lambda c: read_file({"path": name}, context=c),
            lambda c: send_file({"path": name}, context=c),
            lambda c: search_files({"pattern": "canary", "path": name}, context=c),
            lambda c: write_file({"path": name, "content": "x", "overwrite": True}, context=c),
            lambda c: patch({"edits": [{"diff": f"--- a/{name}\n+++ /dev/null\n@@ -1 +0,0 @@\n-canary\n"}]}, context=c),
        ):
            with pytest.raises(ToolFailure) as failure:
                call(context)
            assert "canary" not in str(failure.value)
    assert (path.read_text(), sent) == ("canary\n", [])
    person = Person()
    assert "canary" in read_file({"path": name}, context=make(user_home, person))
    assert person.asked[0].text == f"read {path}"
    assert "may hold secrets" in person.asked[0].reason


@pytest.mark.parametrize("name", OBEYED)
def test_g7_files_that_other_programs_obey_are_not_written_unasked(user_home: Path, name: str) -> None:
    for asker, mode in NOBODY:
        with pytest.raises(ToolFailure, match="consent"):
            write_file({"path": name, "content": "run me"}, context=make(user_home, asker, mode))
        with pytest.raises(ToolFailure, match="consent"):
            patch({"edits": [{"path": name, "old": "", "new": "run me"}]}, context=make(user_home, asker, mode))
    assert not (user_home / name).exists()
    person = Person()
    write_file({"path": name, "content": "run me\n"}, context=make(user_home, person))
    assert (user_home / name).read_text() == "run me\n"
    assert person.asked[0].text == f"create {user_home / name}\n@@ -0,0 +1 @@\n+run me"


@pytest.mark.parametrize("name", ORDINARY)
def test_g7_ordinary_files_of_a_project_are_not_asked_for(user_home: Path, name: str) -> None:
    context = make(user_home)
    write_file({"path": name, "content": "x\n"}, context=context)
    assert "x" in read_file({"path": name}, context=context)


def test_g7_a_project_below_a_folder_with_such_a_name_is_ordinary(user_home: Path) -> None:
    """What the folders above a root are called says nothing."""
    for above in ("secrets/project", ".local/share/project", ".hermes/workspace"):
        (user_home / above).mkdir(parents=True)
        write_file({"path": "main.py", "content": "x\n"}, context=make(user_home / above))


def test_g7_which_names_are_secrets_is_the_owners_choice(user_home: Path) -> None:
    put(user_home, "plan.md")
    put(user_home, ".env")
    context = replace(make(user_home), settings=make_settings({"files": {"secrets": ["plan.*"]}}))
    assert "canary" in read_file({"path": ".env"}, context=context)
    with pytest.raises(ToolFailure, match="may hold secrets"):
        read_file({"path": "plan.md"}, context=context)


@pytest.mark.parametrize("name", [*OBEYED, *ORDINARY])
def test_the_map_is_one_function_for_each_question(name: str) -> None:
    assert (names_startup(name) or names_program(name)) == (name in OBEYED)
    assert not names_prompt(name)
    assert is_secret_path(name) == (name in (".ssh/authorized_keys", ".envrc"))


def test_g4_a_patch_of_a_secret_needs_that_it_was_read(user_home: Path) -> None:
    """Whether a guess fits would tell what the file holds, without any question."""
    put(user_home, ".env", "KEY=abc\n")
    person = Person()
    for old in ("KEY=abc", "KEY=xyz"):
        with pytest.raises(ToolFailure, match="was not read"):
            patch({"edits": [{"path": ".env", "old": old, "new": ""}]}, context=make(user_home, person))
    assert person.asked == []
    read_file({"path": ".env"}, context=make(user_home, person))
    patch({"edits": [{"path": ".env", "old": "KEY=abc", "new": "KEY=def"}]}, context=make(user_home, person))
    assert person.asked[1].text == f"change {user_home / '.env'}\n@@ -1 +1 @@\n+KEY=def\n[1 lines go]"


class Meddler:
    """Agrees, and changes something before the answer arrives."""

    def __init__(self, meddle: Callable[[], object]) -> None:
        self._meddle = meddle
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        self._meddle()
        return Answer("approve")


def test_g4_a_yes_holds_for_the_resolved_path_and_the_content_that_was_shown(user_home: Path) -> None:
    put(user_home, "real/.bashrc", "one\n")
    put(user_home, "other/.bashrc", "other\n")
    (user_home / "link").symlink_to("real")

    def turn_link() -> None:
        (user_home / "link").unlink()
        (user_home / "link").symlink_to("other")

    swap = Meddler(turn_link)
    write_file({"path": "link/.bashrc", "content": "two\n", "overwrite": True}, context=make(user_home, swap))
    assert swap.asked[0].text == f"change {user_home / 'real/.bashrc'}\n@@ -1 +1 @@\n-one\n+two"
    assert (user_home / "real/.bashrc").read_text() == "two\n"
    assert (user_home / "other/.bashrc").read_text() == "other\n"

    edit = Meddler(lambda: put(user_home, "real/.bashrc", "by hand\n"))
    write_file({"path": "real/.bashrc", "content": "three\n", "overwrite": True}, context=make(user_home, edit))
    assert [("-two" in asked.text, "-by hand" in asked.text) for asked in edit.asked] == [(True, False), (False, True)]
    assert (user_home / "real/.bashrc").read_text() == "three\n"


def test_g4_what_changes_each_time_is_not_written(user_home: Path) -> None:
    count = iter(range(9))
    busy = Meddler(lambda: put(user_home, ".bashrc", f"by hand {next(count)}\n"))
    with pytest.raises(ToolFailure, match="changed each time"):
        write_file({"path": ".bashrc", "content": "three\n", "overwrite": True}, context=make(user_home, busy))
    assert len(busy.asked) == 3
    assert (user_home / ".bashrc").read_text() == "by hand 2\n"


def test_g4_a_change_is_shown_as_a_diff_with_what_stands_around_it(user_home: Path) -> None:
    lines = [f"line {number}" for number in range(20)]
    put(user_home, ".profile", "\n".join(lines) + "\n")
    person = Person()
    edit = {"path": ".profile", "old": "line 10", "new": "line ten"}
    patch({"edits": [edit]}, context=make(user_home, person))
    assert person.asked[0].text.splitlines()[1:] == [
        "@@ -9,5 +9,5 @@",
        " line 8",
        " line 9",
        "-line 10",
        "+line ten",
        " line 11",
        " line 12",
    ]


def test_g4_what_is_shown_hides_nothing(user_home: Path) -> None:
    """Escapes of a screen are spelled out, long texts say how much is not shown, configured secrets are not shown."""
    person = Person()
    redact = Redactor({"KEY": "sk-canary-0123456789"})
    text = "safe\x1b[8mevil\x1b[0m\u202e\nsk-canary-0123456789\n" + "line\n" * 500
    write_file({"path": ".profile", "content": text}, context=make(user_home, person, redact=redact))
    shown = person.asked[0].text
    assert "+safe\\x1b[8mevil\\x1b[0m\\u202e" in shown
    assert "sk-canary" not in shown
    assert shown.endswith("[443 more lines are not shown]")
    assert (user_home / ".profile").read_text() == text


def test_g4_nobody_else_waits_while_a_person_thinks(user_home: Path) -> None:
    """F5: another conversation writes while the question is open."""
    other = replace(make(user_home), task="other")
    busy = Meddler(lambda: write_file({"path": "free.txt", "content": "x"}, context=other))
    write_file({"path": ".profile", "content": "x"}, context=make(user_home, busy))
    assert (user_home / "free.txt").exists()


def test_undo_does_not_show_what_a_secret_holds(user_home: Path, home: Path) -> None:
    """G6."""
    put(user_home, ".env", "KEY=abc\n")
    context = make(user_home, Person(), home=home)
    write_file({"path": ".env", "content": "KEY=def\n", "overwrite": True}, context=context)
    told = describe(home, "t")
    assert "not shown" in told
    assert "KEY" not in told


def test_g7_a_context_file_that_leads_elsewhere_is_not_in_the_prompt(user_home: Path) -> None:
    put(user_home, ".env", "KEY=canary\n")
    project = user_home / "project"
    project.mkdir()
    (project / "AGENTS.md").symlink_to(user_home / ".env")
    os.mkfifo(project / "CLAUDE.md")  # nobody waits for its writer
    put(project, "HERMES.md", "be brief")
    prompt = build_system_prompt(PromptSources(folder=project))
    assert "canary" not in prompt
    assert "be brief" in prompt
    (project / "AGENTS.md").unlink()
    (project / "AGENTS.md").symlink_to("HERMES.md")
    assert "(AGENTS.md)\n\nbe brief" in build_system_prompt(PromptSources(folder=project))


# --- searching


@pytest.fixture(params=["rg", "walk"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "rg" and find_program("rg") is None:
        pytest.skip("ripgrep is not installed")
    if request.param == "walk":
        monkeypatch.setattr(searching, "find_program", lambda name: None)
    return str(request.param)


def test_g7_a_search_shows_no_content_of_secrets_and_says_how_many(user_home: Path, way: str) -> None:
    """The number does not depend on what they hold."""
    for name in (".env", ".ssh/id_rsa", ".ssh/known_hosts", "app/credentials.json", "notes.txt"):
        put(user_home, name)
    context = make(user_home)
    left = "[4 files that may hold secrets were not searched; read_file asks the person]"
    assert search_files({"pattern": "canary"}, context=context) == f"notes.txt:1: canary\n{left}"
    assert search_files({"pattern": "nothing"}, context=context) == f"Nothing was found.\n{left}"
    assert search_files({"pattern": "id_rsa", "kind": "name"}, context=context) == ".ssh/id_rsa"


@pytest.mark.parametrize("kind", ["content", "name"])
@pytest.mark.parametrize("profile", ["", "profiles/work"])
def test_g13_a_search_around_or_in_a_home_stays_out_of_it(
    user_home: Path, way: str, kind: str, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the home in use, nor the default profile's, nor another one's; what is open in the home in use is."""
    usual = user_home / ".hermes"
    home = usual / profile
    for name in ("canary.log", "memories/canary.md", "people/p/canary.txt", "config.yaml"):
        for each in (usual, usual / "profiles/work", usual / "profiles/other"):
            put(each, name, "canary\n")
    put(home, "workspace/canary.txt")
    put(user_home, "canary.txt")
    with socket.socket(socket.AF_UNIX) as door:
        monkeypatch.chdir(usual)
        door.bind("s")
        args = {"pattern": "canary", "kind": kind}
        around = search_files(args, context=make(user_home, home=home))
        open_inside = os.path.relpath(home / "workspace/canary.txt", user_home)
        assert sorted(line.partition(":")[0] for line in around.splitlines()) == sorted([open_inside, "canary.txt"])
        with pytest.raises(ToolFailure, match="consent"):
            search_files(args, context=make(usual, home=home))
        beside = search_files(args, context=make(usual / "profiles", home=home)).splitlines()
        assert len(beside) == 1
        assert beside[0].startswith("work/workspace/canary.txt" if profile else "Nothing was found")
        approved = search_files(args, context=make(usual, Person(), home=usual))
        assert "profiles" not in approved
        assert "config.yaml" not in approved


def test_g7_a_hard_link_to_a_secret_is_not_read(user_home: Path, way: str) -> None:
    usual = user_home / ".hermes"
    for number, name in enumerate((".env", ".ssh/id_rsa", ".hermes/.env", ".hermes/profiles/other/.env")):
        os.link(put(user_home, name), user_home / f"link-{number}")
    put(user_home, "twice.txt")
    os.link(user_home / "twice.txt", user_home / "again.txt")
    context = make(user_home, home=usual)
    found = search_files({"pattern": "canary"}, context=context).splitlines()
    assert [line.partition(":")[0] for line in found[:-1]] == ["again.txt", "twice.txt"]
    for path in user_home.glob("link-*"):
        with pytest.raises(ToolFailure, match="another name"):
            read_file({"path": str(path)}, context=replace(context, asker=Person()))


def test_g5_ripgrep_is_ours_and_takes_no_orders(user_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the folder nor the environment nor an argument decides which program runs, or how."""
    if find_program("rg") is None:
        pytest.skip("ripgrep is not installed")
    put(user_home, "rg", f"#!/bin/sh\ntouch {user_home}/planted\n").chmod(0o755)
    put(user_home, "rc", "--follow\n--pre=/bin/false\n")
    put(user_home, "a.txt", "--pre=x canary\n")
    put(user_home.parent, "outside.txt")
    (user_home / "link").symlink_to(user_home.parent)
    monkeypatch.chdir(user_home)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(user_home / "rc"))
    context = make(user_home)
    assert search_files({"pattern": "canary"}, context=context) == "a.txt:1: --pre=x canary"
    assert search_files({"pattern": "--pre=x"}, context=context) == "a.txt:1: --pre=x canary"
    assert search_files({"pattern": "canary", "glob": "--pre=sh"}, context=context) == "Nothing was found."
    assert not (user_home / "planted").exists()
    with pytest.raises(ToolFailure, match="null character"):
        search_files({"pattern": "a\0b"}, context=context)


def test_g12_what_the_sandbox_keeps_is_nobodys(user_home: Path) -> None:
    """In /tmp, which is open: the scratch folders of other people's commands."""
    path = put(keeper.scratch(), "tmp-x/canary.txt")
    with pytest.raises(ToolFailure, match="Hermes itself"):
        read_file({"path": str(path)}, context=make(user_home, Person()))
    with pytest.raises(ToolFailure, match="Hermes itself"):
        search_files({"pattern": "canary", "path": str(path.parent)}, context=make(user_home, Person()))
    assert not searching.Sight(make(user_home), find_place(make(user_home), "/tmp", READ)).shows(str(path)[5:])
