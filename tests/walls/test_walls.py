"""What the walls hold back and what they let through, case by case (G5, G6, G7, G12, G13, C12, F1)."""

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Hands, Person, find_marked, new_mark
from waiting import wait_until

from hermes_base.errors import ToolFailure
from hermes_base.text.foreign import NETWORKED, ForeignText
from tools.files.sensitive import SECRET_FILES
from tools.shell import folder_scan
from tools.shell.folder_scan import search_folder
from tools.shell.git_settings import read_git_settings
from tools.shell.sandbox import is_bubblewrap_usable
from tools.shell.shells import shell_of
from tools.shell.spawning import keeper
from tools.shell.toolchains import find_toolchains
from tools.terminal_tool import cleanup_vm

pytestmark = pytest.mark.skipif(not is_bubblewrap_usable(), reason="bwrap does not run on this machine")
TASK = "walls"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "person" / "work"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def hands(work: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hands]:
    monkeypatch.setenv("HOME", str(work.parent))
    yield Hands(TASK, work, "bubblewrap")
    cleanup_vm(TASK)


def auto(hands: Hands) -> Hands:
    hands.facts["settings"]["approvals"] = {"mode": "auto"}
    return hands


# The way from one command to the next


def test_a_command_has_no_descriptor_but_its_own(hands: Hands) -> None:
    """G5: at any level, with a terminal or without."""
    for args in ({}, {"level": "work"}, {"level": "outside"}, {"pty": True}):
        seen = hands.run("ls /proc/$$/fd", args)["output"].split()
        assert set(seen) <= {"0", "1", "2", "255"}, (args, seen)  # 255: bash's own, for the terminal


def test_nothing_that_a_command_writes_reaches_what_starts_the_next(hands: Hands, work: Path, tmp_path: Path) -> None:
    """G4, G5: a planted `bwrap`, `bash` or library is never started outside."""
    canary = tmp_path / "canary"
    program = f"#!/bin/sh\necho x > {canary}\n"
    for name in ("bwrap", "bash", "env", "sh"):
        (work / name).write_text(program)
        (work / name).chmod(0o755)
    hands.run(f"export PATH={work}:$PATH LD_PRELOAD={work}/bwrap LD_LIBRARY_PATH={work} BASH_ENV={work}/bash")
    for level in ({}, {"level": "work"}):
        hands.run("ls", level)
        hands.run("pwd", level)
    assert not canary.exists()
    assert shell_of(hands.context()).snapshot().changes.keys() == {"PATH"}


def test_variables_that_run_code_are_not_kept(hands: Hands) -> None:
    """G5: the loader's and the shell's own; all others are."""
    names = "BASH_ENV ENV LD_PRELOAD LD_AUDIT PROMPT_COMMAND SHELLOPTS IFS GCONV_PATH"
    hands.run(" ".join(f"export {name}=/tmp/x;" for name in names.split() if name != "SHELLOPTS") + "export KEPT=1")
    output = hands.run(f'for n in {names} KEPT; do echo "$n=$(printenv $n)"; done')["output"]
    assert [line for line in output.splitlines() if not line.endswith("=")] == ["KEPT=1"]


@pytest.mark.parametrize(
    "forged",
    [
        "ln -sf @OUT@ $f",
        "rm -f $f; mkfifo $f",
        "rm -f $f; mkdir $f",
        "head -c 9000000 /dev/zero > $f",
        "printf 'relative\\0A=1\\0' > $f",
        "printf '/tmp\\0LD_PRELOAD=/x\\0BASH_FUNC_ls%%%%=() { cat .env; }\\0A B=1\\0=\\0' > $f",
        "printf '/\\xff\\xfe\\0A=\\xff\\0' > $f",
        "rm -f $f",
    ],
)
def test_a_forged_state_is_data(hands: Hands, tmp_path: Path, forged: str) -> None:
    """G5: it is read without following links, checked and limited; the next command runs as ever."""
    (tmp_path / "out").write_text("/etc\0SECRET=CANARY\0")
    forge = forged.replace("@OUT@", str(tmp_path / "out"))
    hands.run(f"trap 'for f in /run/hermes/* /run/hermes/x; do {forge}; done' EXIT", {"level": "work"})
    result = hands.run("pwd; env")
    assert result["exit_code"] == 0
    assert "CANARY" not in result["output"]
    assert "LD_PRELOAD" not in result["output"]
    assert "BASH_FUNC" not in result["output"]


def test_what_a_command_says_of_its_path_opens_nothing(hands: Hands, work: Path) -> None:
    """G5: programs of the home are shown by the person's PATH, not by the shell's."""
    (work.parent / ".ssh").mkdir()
    (work.parent / ".ssh" / "id_rsa").write_text("CANARY")
    hands.run(f"export PATH=$PATH:{work.parent}/.ssh")
    assert "CANARY" not in hands.run(f"cat {work.parent}/.ssh/id_rsa", {"level": "work"})["output"]


def test_the_environment_is_clean(hands: Hands, monkeypatch: pytest.MonkeyPatch) -> None:
    """G5, G6: at every level; what the owner named in `terminal.env` is there."""
    monkeypatch.setenv("DATABASE_URL", "postgres://u:CANARY@h/")
    monkeypatch.setenv("NEEDED", "yes")
    for args in ({}, {"level": "work"}, {"level": "outside"}):
        assert "CANARY" not in hands.run("env", args)["output"]
        assert "NEEDED" not in hands.run("env", args)["output"]
    hands.facts["settings"]["terminal"]["env"] = ["NEEDED"]
    assert "NEEDED=yes" in hands.run("env")["output"]


# What is in sight


def test_hidden_files_answer_permission_denied_and_are_seen_after_a_question(hands: Hands, work: Path) -> None:
    """G5: never empty, never missing."""
    for name in (".env", "a/b/key.pem", "secrets/x", "id_rsa", "my.env"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("CANARY")
    everything = "cat .env a/b/key.pem secrets/x id_rsa my.env"
    looked = hands.run("for f in $(find . -type f); do cat $f; done; true", asker=None)["output"]
    assert looked.count("Permission denied") == 5  # four files and a folder
    assert "CANARY" not in looked
    person = Person()
    assert hands.run(everything, asker=person)["output"].count("CANARY") == 5
    assert "secrets" in person.asked[0].reason


def test_every_failure_in_look_says_where_it_ran(hands: Hands) -> None:
    """G5: and how to ask for more."""
    note = hands.run("touch x")["exit_code"], hands.run("ls nowhere")["note"]
    assert note[0] == 0  # a person was asked, so it worked
    assert "read-only, without network, secrets and home" in note[1]
    assert "level work" in note[1]
    assert "note" not in hands.run("true")
    assert "saw the sandbox" in hands.run("ps aux")["note"]


def test_the_working_folder_is_read_only_in_look(hands: Hands, work: Path) -> None:
    """G5: whatever runs there."""
    (work / "README").write_text("x\n")
    told = hands.run("sed -n 'w copy' README", asker=None)  # judged to only print
    assert told["exit_code"] != 0
    assert "read-only" in told["note"]
    assert not (work / "copy").exists()


def test_look_and_work_share_the_tmp_of_the_task(hands: Hands) -> None:
    name = new_mark()
    hands.run(f"echo made > /tmp/{name}", {"level": "work"})
    assert hands.run(f"cat /tmp/{name}; ls /var/tmp")["output"].startswith("made")
    assert not os.path.exists(f"/tmp/{name}")


def test_what_other_programs_obey_stays_as_it_is_and_new_ones_are_told(hands: Hands, work: Path) -> None:
    """G5: in work; not when the question said so."""
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    before = (work / ".git" / "config").read_text()
    person = Person("deny")
    result = auto(hands).run("python3 x.py; echo more >> .git/config; mv .git old; rm -rf .git/config .git/hooks")
    assert result["exit_code"] != 0
    assert (work / ".git" / "config").read_text() == before
    with pytest.raises(ToolFailure, match="nobody approved"):
        hands.run("git remote add origin https://example.org/x", asker=person)
    assert "settings and hooks of git" in person.asked[0].reason
    assert hands.run("git remote add origin https://example.org/x")["exit_code"] == 0
    assert "example.org" in (work / ".git" / "config").read_text()
    (work / "copy.sh").write_text("mkdir other; cp -r .git other/.git")
    told = hands.run("bash copy.sh", asker=None)
    assert "other/.git/config" in told["note"]


def test_nothing_is_made_in_the_folder_for_it(hands: Hands, work: Path) -> None:
    """G5"""
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (work / ".env").write_text("x")
    before = sorted(str(path) for path in work.rglob("*"))
    for args in ({}, {"level": "work"}, {"level": "setup"}):
        hands.run("ls", args)
    assert sorted(str(path) for path in work.rglob("*")) == before


def test_a_password_in_the_settings_of_git_keeps_unasked_work_off_the_network(hands: Hands, work: Path) -> None:
    """G5: never both."""
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    with open(work / ".git" / "config", "a") as file:
        file.write('[remote "origin"]\n\turl = https://me:CANARY@example.org/x\n')
    (work / "inside.sh").write_text("exec 9<>/dev/tcp/127.0.0.1/3128 && echo there")
    inside = "bash inside.sh"
    assert "there" not in auto(hands).run(inside, {"level": "work"}, asker=None)["output"]
    assert hands.run(inside, {"level": "setup"})["output"] == "there\n"


def test_what_becomes_a_prompt_is_kept_once_foreign_text_is_in_sight(hands: Hands, work: Path) -> None:
    """G9: output of a command with network is foreign text; that of a look is not."""
    (work / "AGENTS.md").write_text("mine")
    foreign = ForeignText()
    auto(hands).run("ls", foreign=foreign)
    assert not foreign
    hands.run("echo more >> AGENTS.md", {"level": "work"}, asker=None, foreign=foreign)
    assert foreign.origins == (NETWORKED,)
    hands.run("echo obey > AGENTS.md", {"level": "work"}, asker=None, foreign=foreign)
    assert (work / "AGENTS.md").read_text() == "minemore\n"


@pytest.mark.parametrize("level", [{}, {"level": "work"}])
def test_programs_of_the_home_are_there_without_what_lies_beside_them(
    hands: Hands, work: Path, monkeypatch: pytest.MonkeyPatch, level: dict[str, Any]
) -> None:
    """G5: for programs on the PATH, and for the interpreter that an environment leads to."""
    home = work.parent
    shown = {
        ".cargo/bin/tool": "#!/bin/sh\ncat ~/.rustup/toolchains/stable/lib/x\n",
        ".rustup/toolchains/stable/lib/x": "rust",
        ".nvm/versions/node/v20/bin/script": "#!/bin/sh\ncat ~/.nvm/versions/node/v20/lib/x\n",
        ".nvm/versions/node/v20/lib/x": "node",
        ".local/share/uv/tools/ruff/bin/lint": "#!/bin/sh\ncat ~/.local/share/uv/tools/ruff/lib/x\n",
        ".local/share/uv/tools/ruff/lib/x": "uv",
        ".pyenv/versions/3.12/bin/python3": "#!/bin/sh\ncat ~/.pyenv/versions/3.12/lib/x\n",
        ".pyenv/versions/3.12/lib/x": "base",
    }
    hidden = (".cargo/credentials.toml", ".cargo/registry/x", ".nvm/.cache/x", ".local/share/keyrings/x", ".npmrc")
    for name, text in {**shown, **dict.fromkeys(hidden, "CANARY")}.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
        (home / name).chmod(0o755)
    (home / ".local" / "bin").mkdir()
    (home / ".local" / "bin" / "lint").symlink_to(home / ".local/share/uv/tools/ruff/bin/lint")
    (work / ".venv" / "bin").mkdir(parents=True)
    (work / ".venv" / "bin" / "python").symlink_to(home / ".pyenv/versions/3.12/bin/python3")
    bins = [home / ".cargo/bin", home / ".nvm/versions/node/v20/bin", home / ".local/bin"]
    monkeypatch.setenv("PATH", ":".join(map(str, bins)) + ":" + os.environ["PATH"])
    cleanup_vm(TASK)
    assert hands.run("tool; script; lint; .venv/bin/python", level)["output"] == "rustnodeuvbase"
    assert "CANARY" not in hands.run("; ".join(f"cat ~/{name}" for name in hidden), level)["output"]
    assert hands.run("ls ~; touch ~/.cargo/bin/new ~/new; true", level)["output"].count("\n") >= 2
    assert not (home / "new").exists()


def test_a_folder_on_the_path_that_is_no_bin_shows_its_programs_alone(tmp_path: Path) -> None:
    """G5"""
    for name, mode in (("deploy", 0o755), (".env", 0o644), ("sub/.env", 0o644), ("notes.txt", 0o644)):
        (tmp_path / "scripts" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "scripts" / name).write_text("x")
        (tmp_path / "scripts" / name).chmod(mode)
    (tmp_path / "Documents").mkdir()
    (tmp_path / "scripts" / "docs").symlink_to(tmp_path / "Documents")
    found = find_toolchains(str(tmp_path / "scripts"), str(tmp_path), (str(tmp_path / "work"),))
    assert found.shown == (str(tmp_path / "scripts" / "deploy"),)


def test_an_environment_that_leads_anywhere_shows_nothing(hands: Hands, work: Path) -> None:
    """G5, G12: what lies in the folder may be a command's own making."""
    home = work.parent
    for name in ("bin/x", "Documents/x", ".hermes/bin/python", ".config/gh/bin/python"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("CANARY")
    (work / "venv" / "bin").mkdir(parents=True)
    for place in ("Documents", ".hermes/bin", ".config/gh/bin", "."):
        (work / "venv" / "bin" / "python").unlink(missing_ok=True)
        (work / "venv" / "bin" / "python").symlink_to(home / place / "python")
        for level in ({}, {"level": "work"}):
            command = f"cat {home}/Documents/x {home}/.hermes/bin/python {home}/.config/gh/bin/python {home}/bin/x"
            assert "CANARY" not in hands.run(command, level)["output"]


@pytest.mark.parametrize("root", ["/", "/usr", "/etc", "/proc/self", "/home", "/tmp", "/dev/shm"])
def test_the_system_is_no_working_folder_behind_walls(root: str) -> None:
    """G5: nothing is run, and a sentence says why; outside it can be asked for."""
    hands = Hands(f"{TASK}-{root}", Path(root), "bubblewrap")
    try:
        with pytest.raises(ToolFailure, match="walls") as failure:
            hands.run("ls")
        assert "outside" in str(failure.value)
        assert hands.run("pwd", {"level": "outside"})["output"].strip() == os.path.realpath(root)
    finally:
        cleanup_vm(f"{TASK}-{root}")


def test_a_home_as_the_working_folder_shows_nothing_with_a_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G5, G13: nor the home of Hermes, nor the profiles in it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (".hermes/.env", ".hermes/profiles/p/.env", ".config/gh/hosts.yml", ".token", ".ssh/id_rsa"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("CANARY")
    (tmp_path / "notes.txt").write_text("note")
    hands = Hands(TASK, tmp_path, "bubblewrap")
    try:
        for args in ({}, {"level": "work"}, {"level": "setup"}):
            named = ".hermes/.env .hermes/profiles/p/.env .config/gh/hosts.yml .token .ssh/id_rsa"
            command = f"cat notes.txt {named}; grep -rh . . ; true"
            result = hands.run(command, args, home=tmp_path / ".hermes/profiles/p")
            assert "note" in result["output"]
            assert "CANARY" not in result["output"]
    finally:
        cleanup_vm(TASK)


def test_the_home_of_hermes_is_no_working_folder(tmp_path: Path, home: Path) -> None:
    """G5, G13"""
    home.mkdir()
    hands = Hands(TASK, home, "bubblewrap")
    try:
        with pytest.raises(ToolFailure, match="home of Hermes"):
            hands.run("ls", home=home)
    finally:
        cleanup_vm(TASK)


def test_a_folder_that_the_owner_opened_is_there(hands: Hands, tmp_path: Path) -> None:
    """G7: to look at in look, to write to in work; its secrets are hidden all the same."""
    other = tmp_path / "opened"
    other.mkdir()
    (other / ".env").write_text("CANARY")
    (other / "file").write_text("there")
    hands.facts["settings"]["files"] = {"roots": [str(other)]}
    assert hands.run(f"cat {other}/file")["output"] == "there"
    assert "CANARY" not in hands.run(f"grep -rh . {other}; true", asker=None)["output"]
    hands.run(f"echo x > {other}/new")
    assert (other / "new").exists()


def test_a_linked_worktree_finds_its_repository(hands: Hands, work: Path, tmp_path: Path) -> None:
    """G5: its git folder is there, with settings and hooks kept; one that does not name the worktree is not."""
    main = tmp_path / "main"
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git, "init", "-q", str(main)], check=True)
    subprocess.run([*git, "-C", str(main), "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    work.rmdir()
    subprocess.run([*git, "-C", str(main), "worktree", "add", "-q", str(work)], check=True)
    assert "first" in hands.run("git log")["output"]
    assert hands.run("git status")["exit_code"] == 0
    before = (main / ".git" / "config").read_text()
    done = auto(hands).run("git commit --allow-empty -m second", asker=None)
    assert done["exit_code"] == 0 or "who you are" in done["output"]
    hands.run(f"echo x >> {main}/.git/config", {"level": "work"})
    assert (main / ".git" / "config").read_text() == before
    other = tmp_path / "other"
    subprocess.run([*git, "init", "-q", str(other)], check=True)
    (work / ".git").write_text(f"gitdir: {other}/.git\n")
    assert hands.run("git log")["exit_code"] != 0


# What a hostile folder, or a hostile neighbour, can try


FLIP = """
import ctypes, os, time
libc = ctypes.CDLL(None)
os.makedirs("m/evil", exist_ok=True)
open("m/evil/.bashrc", "w").close()
for at in range(40):
    os.makedirs(f"m/a{at:03}/.husky", exist_ok=True)
os.symlink(os.environ["HOME"], "m/lnk")
open("ready", "w").close()
while True:
    libc.renameat2(-100, b"m/evil", -100, b"m/lnk", 2)  # RENAME_EXCHANGE
    time.sleep(0.004)
"""


def test_a_folder_that_is_flipped_while_the_walls_are_built_opens_nothing(hands: Hands, work: Path) -> None:
    """G5: bubblewrap finds what it mounts by name; what stands there is checked before anything runs."""
    (work.parent / "notes.txt").write_text("CANARY")
    (work / "flip.py").write_text(FLIP)
    (work / "look.sh").write_text("for d in m/evil m/lnk; do cat $d/notes.txt && echo x > $d/planted; done; true")
    id = auto(hands).process("start", command="python3 flip.py")["id"]
    wait_until((work / "ready").exists)
    for _ in range(25):
        try:
            assert "CANARY" not in hands.run("bash look.sh", asker=None)["output"]
        except ToolFailure as failure:
            assert "not run" in str(failure) or "nothing was run" in str(failure)  # noqa: PT017 - leaking is wrong
    assert not (work.parent / "planted").exists()
    hands.process("kill", id=id)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may write there")
@pytest.mark.parametrize("level", [{}, {"level": "work"}, {"level": "setup"}])
def test_settings_of_the_kernel_cannot_be_changed_by_root(hands: Hands, level: dict[str, Any]) -> None:
    """G5: without privileges, root still owns them."""
    places = (
        "/proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/irq/default_smp_affinity /proc/sysrq-trigger"
    )
    output = hands.run(f"for f in {places}; do [ -w $f ] && echo open $f; done; true", level)["output"]
    assert "open" not in output


@pytest.mark.parametrize("mode", [0o311, 0o444, 0o000])
def test_a_folder_that_cannot_be_looked_into_is_hidden(hands: Hands, work: Path, mode: int) -> None:
    """G5: a command that owns it could open it again."""
    (work / "sub").mkdir()
    (work / "sub" / ".env").write_text("CANARY")
    (work / "open.sh").write_text("chmod 755 sub; cat sub/.env")
    (work / "sub").chmod(mode)
    for level in ({}, {"level": "work"}):
        assert "CANARY" not in auto(hands).run("bash open.sh", level, asker=None)["output"]
    (work / "sub").chmod(0o755)


def test_unasked_work_is_ended_when_a_hidden_file_is_replaced(hands: Hands, work: Path) -> None:
    """G5: as an editor does it, by a rename; the mount that hid it is gone then."""
    (work / ".env").write_text("old")
    (work / "serve.sh").write_text("while :; do sleep 0.05; done")
    id = auto(hands).process("start", command="bash serve.sh")["id"]
    (work / "new").write_text("CANARY")
    os.rename(work / "new", work / ".env")
    done = hands.process("wait", id=id, timeout=30)
    assert done["state"] == "ended"


@pytest.mark.parametrize("plant", ["commondir", "modules", "pth", "decoys"])
def test_ways_to_have_the_persons_own_programs_run_code_are_closed(hands: Hands, work: Path, plant: str) -> None:
    """G5: worktrees and modules of git, what an environment loads; however many folders there are."""
    git = work / ".git"
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    places = {
        "commondir": git / "worktrees" / "w" / "commondir",
        "modules": git / "modules" / "lib" / "config",
        "decoys": git / "modules" / "lib" / "config",
        "pth": work / ".venv" / "lib" / "python3.11" / "site-packages" / "x.pth",
    }
    place = places[plant]
    place.parent.mkdir(parents=True)
    place.write_text("before")
    (place.parent / "HEAD").write_text("ref: refs/heads/main")
    if plant == "pth":
        (work / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin")
    many = "for i in $(seq 600); do mkdir -p .git/modules/d$i; done; " if plant == "decoys" else ""
    for script in (many or "true", f"rm -rf {place.parent}/refs; echo evil > {place}; mv {place} {place}.old"):
        (work / "evil.sh").write_text(script)
        auto(hands).run("bash evil.sh", asker=None)
    assert place.read_text() == "before"


@pytest.mark.parametrize("level", [{"level": "outside"}, {"level": "work"}])
def test_the_folder_that_is_shown_is_the_one_it_starts_in(hands: Hands, work: Path, level: dict[str, Any]) -> None:
    """G4: also when a command has made a link of it."""
    other = work.parent / "Documents"
    other.mkdir()
    (work / "build").mkdir()
    (work / "swap.sh").write_text(f"cd ..; rmdir build; ln -s {other} build")
    auto(hands).run("cd build", asker=None)
    hands.run("bash ../swap.sh", asker=None)
    person = Person()
    hands.facts["settings"]["approvals"] = {"mode": "ask"}
    result = hands.run("touch here; pwd -P", level, asker=person)
    shown = person.asked[-1].text.splitlines()[0].removeprefix("cd ")
    assert result["output"].strip() == shown


def test_what_a_person_agrees_to_gets_only_what_was_shown(hands: Hands, work: Path) -> None:
    """G4: at every level; a question is not filled with variables either."""
    hands.run("export LONG=" + "x" * 9000 + " SHORT=1")
    person = Person()
    result = hands.run("touch a; env", asker=person)
    assert "SHORT=1" in result["output"]
    assert "LONG=" not in result["output"]
    assert len(person.asked[0].text) < 6000


def test_many_secrets_are_a_question_and_not_a_failure(hands: Hands, work: Path) -> None:
    """G5: each would be a mount."""
    for at in range(300):
        (work / f"{at}.pem").write_text("x")
    person = Person()
    assert hands.run("ls", asker=person)["exit_code"] == 0
    assert "too large" in person.asked[0].reason


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_committed_is_not_hidden_and_git_goes_on(hands: Hands, work: Path, packed: bool) -> None:
    """G5: git shows it anyway; changed since, it is a secret again."""
    git = ["git", "-C", str(work), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    (work / ".npmrc").write_text("registry=x")
    (work / "test.pem").write_text("for tests")
    subprocess.run([*git[:1], "init", "-q", str(work)], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    if packed:
        subprocess.run([*git, "gc", "-q", "--prune=now"], check=True)
    assert hands.run("git status --short", asker=None)["output"] == ""
    assert hands.run("git diff", asker=None)["exit_code"] == 0
    (work / "test.pem").write_text("CANARY")
    assert "CANARY" not in hands.run("grep -r . .; true", asker=None)["output"]


def test_a_package_called_credentials_is_no_secret(hands: Hands, work: Path) -> None:
    (work / "credentials").mkdir()
    (work / "credentials" / "__init__.py").write_text("X = 1\n")
    (work / "credentials" / ".env").write_text("CANARY")
    assert "X = 1" in hands.run("cat credentials/__init__.py")["output"]
    assert "CANARY" not in hands.run("grep -r . .; true", asker=None)["output"]


def test_the_settings_of_git_that_make_a_commit_are_known_and_no_others(hands: Hands, work: Path) -> None:
    """G5: what is known of their own settings."""
    settings = '[user]\n\tname = "Ann \\"A\\" B"\n\temail = ann@example.org\n[x]\n\ty = CANARY\n'
    settings += "[core]\n\tautocrlf = input\n\texcludesfile = ~/ignored\n\tfsmonitor = /evil\n[alias]\n\tx = !evil\n"
    (work.parent / ".gitconfig").write_text(settings)
    (work.parent / "ignored").write_text("*.swp\n")
    (work / "a.swp").write_text("x")
    (work / "lines.txt").write_bytes(b"a\r\nb\r\n")
    read_git_settings.cache_clear()
    keeper.close()
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    try:
        assert auto(hands).run("git commit --allow-empty -m first", asker=None)["exit_code"] == 0
        assert 'Ann "A" B <ann@example.org>' in hands.run("git log")["output"]
        assert "CANARY" not in hands.run("git config --list")["output"]
        assert "evil" not in hands.run("git config --list")["output"]
        assert hands.run("git add -A && git commit -m second", asker=None)["exit_code"] == 0
        assert hands.run("git ls-files")["output"] == "lines.txt\n"
        assert hands.run("git show HEAD:lines.txt")["output"] == "a\nb\n"
    finally:
        read_git_settings.cache_clear()
        keeper.close()


def test_a_working_folder_that_is_a_link_is_found_by_both_names(tmp_path: Path, hands: Hands, work: Path) -> None:
    link = work.parent / "link"
    link.symlink_to(work)
    (work / "file").write_text("there")
    hands.facts["folder"] = str(link)
    assert hands.run(f"cat {link}/file {work}/file")["output"] == "therethere"


def test_a_folder_out_of_sight_gives_way_to_the_first(hands: Hands, work: Path, tmp_path: Path) -> None:
    """G5: what was left outside of the walls is not where the next command behind them begins."""
    hands.run(f"cd {tmp_path}", {"level": "outside"})
    assert hands.run("pwd")["output"].strip() == os.path.realpath(work)
    assert hands.run("pwd", {"level": "outside"})["output"].strip() == str(tmp_path)


def test_a_working_folder_that_is_gone_is_a_sentence(hands: Hands, work: Path) -> None:
    hands.run("ls")
    shutil.rmtree(work)
    with pytest.raises(ToolFailure, match="gone"):
        hands.run("ls")


def test_another_branch_brings_all_of_its_files_or_is_asked_for(hands: Hands, work: Path) -> None:
    """G5: git would go on without the files that it cannot change, and the next commit would take them back."""
    git = ["git", "-C", str(work), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run([*git[:1], "init", "-q", "-b", "main", str(work)], check=True)
    (work / ".husky").mkdir()
    for branch, text in (("main", "one"), ("other", "two")):
        if branch == "other":
            subprocess.run([*git, "switch", "-q", "-c", branch], check=True)
        (work / ".husky" / "pre-commit").write_text(text)
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-qm", branch], check=True)
    person = Person()
    assert auto(hands).run("git switch main", asker=person)["exit_code"] == 0
    assert ".husky" in person.asked[0].reason
    assert (work / ".husky" / "pre-commit").read_text() == "one"
    hands.facts["settings"]["approvals"] = {"mode": "ask"}
    assert hands.run("git switch other", asker=person)["exit_code"] == 0
    assert (work / ".husky" / "pre-commit").read_text() == "two"
    hands.run("git switch main", asker=person)
    held = hands.run("bash -c 'git checkout other'", {"level": "work"}, asker=person)
    assert "stayed as they were" in held.get("note", "") or (work / ".husky" / "pre-commit").read_text() == "two"


@pytest.mark.parametrize("target", ["../archive/", "/kept", "~/kept", "/run/kept", "/etc/kept"])
def test_nothing_is_moved_where_it_would_be_lost(hands: Hands, work: Path, target: str) -> None:
    """G5: what is out of sight cannot be written to; it fails, and the file stays."""
    (work / "data.csv").write_text("kept")
    (work / "move.sh").write_text(f"mkdir -p {target}; mv data.csv {target}; cp -r . ../copy; true")
    auto(hands).run("bash move.sh", asker=None)
    assert (work / "data.csv").read_text() == "kept"


def test_a_file_that_gets_the_number_of_the_one_before_is_another_file(hands: Hands, work: Path) -> None:
    """G5: file systems give the numbers of deleted files to new ones."""
    (work / ".env").write_text("old")
    (work / "serve.sh").write_text("touch begun; while :; do sleep 0.05; done")
    id = auto(hands).process("start", command="bash serve.sh")["id"]
    wait_until((work / "begun").exists)  # before that its walls are not up, and it would not begin at all
    for text in ("new", "newer", "newest"):
        (work / "temporary").write_text(text)
        os.rename(work / "temporary", work / ".env")
    done = hands.process("wait", id=id, timeout=30)
    assert done["state"] == "ended"
    assert "replaced" in done.get("note", ""), done


def test_approved_changes_of_an_environment_work(hands: Hands, work: Path) -> None:
    """G5: the question says so, and then it is possible."""
    (work / ".venv" / "bin").mkdir(parents=True)
    (work / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin")
    (work / "node_modules" / ".bin").mkdir(parents=True)
    person = Person()
    assert auto(hands).run("rm -rf .venv node_modules", asker=person)["exit_code"] == 0
    assert "what later commands obey" in person.asked[0].reason
    assert not (work / ".venv").exists()


def test_without_walls_one_command_finds_what_another_left(work: Path) -> None:
    """G5: where the owner chose to do without them."""
    hands = auto(Hands(TASK, work, "local"))
    try:
        hands.run("export FOO=bar", asker=Person())
        assert hands.run("echo [$FOO]", asker=None)["output"] == "[bar]\n"
    finally:
        cleanup_vm(TASK)


def test_nothing_waits_for_an_editor(hands: Hands, work: Path) -> None:
    """C12"""
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    assert "timed_out_after" not in auto(hands).run("git commit --allow-empty", {"timeout": 20}, asker=None)


# The search


def test_a_folder_too_large_to_be_searched_is_asked_for(
    hands: Hands, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G5"""
    for at in range(30):
        (work / f"d{at}").mkdir()
    assert hands.run("ls", asker=None)["exit_code"] == 0
    monkeypatch.setattr(folder_scan, "MOST_FOLDERS", 20)
    with pytest.raises(ToolFailure, match="too large"):
        hands.run("ls", asker=None)
    person = Person()
    hands.run("ls", asker=person)
    assert "too large" in person.asked[0].reason


def test_the_search_sees_what_is_new_whatever_the_times_say(tmp_path: Path) -> None:
    """G5: a time of change that was set back hides nothing."""
    sub = tmp_path / "a" / "b"
    sub.mkdir(parents=True)
    assert search_folder(str(tmp_path), SECRET_FILES).secrets == ()
    times = os.stat(sub)
    (sub / ".env").write_text("x")
    os.utime(sub, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert search_folder(str(tmp_path), SECRET_FILES).secrets == (f"{sub}/.env",)
    (sub / ".env").rename(sub / "harmless")
    assert search_folder(str(tmp_path), SECRET_FILES).secrets == ()


def test_the_search_lists_a_folder_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(50):
        (tmp_path / f"d{at}").mkdir()
    monkeypatch.setattr(folder_scan, "TICK_NS", 0)
    search_folder(str(tmp_path), SECRET_FILES)
    listed: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(path) or scandir(path))
    search_folder(str(tmp_path), SECRET_FILES)
    assert len(listed) <= 1


@pytest.mark.parametrize("name", ["config", ".env", ".envrc"])
def test_a_pipe_in_the_folder_holds_nobody(hands: Hands, work: Path, name: str) -> None:
    """F5"""
    for made in ("HEAD", "objects", "refs"):
        (work / made).mkdir()
    os.mkfifo(work / name)
    assert hands.run("ls", asker=None)["exit_code"] == 0


# The end


@pytest.mark.parametrize("level", [{}, {"level": "work"}, {"level": "setup"}, {"level": "outside"}])
def test_an_interrupt_ends_everything_at_every_level(hands: Hands, level: dict[str, Any]) -> None:
    """C12, F1"""
    mark = new_mark()
    result = hands.run(f"bash -c 'sleep 300; true' {mark} & sleep 300", {"timeout": 0.5, **level})
    assert "timed_out_after" in result
    assert find_marked(mark) == []


def test_the_masks_are_made_once_by_however_many(hands: Hands, work: Path) -> None:
    (work / ".env").write_text("x")
    results: list[dict[str, Any]] = []
    threads = [threading.Thread(target=lambda: results.append(hands.run("grep -r . .; true"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert all("Permission denied" in result["output"] for result in results)
