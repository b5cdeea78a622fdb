"""`hermes` in real pipes: what is piped goes with the question, and nobody is asked where nobody is."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from gateway_process import HERMES
from warm_python import run_warm

from hermes_lab.server import LabServer


@pytest.fixture
def run(home: Path, lab: LabServer, tmp_path: Path):
    """Runs `hermes` as a shell would, without a terminal."""
    home.mkdir()
    settings = {"model": {"base_url": lab.base_url, "default": "lab"}, "titles": {"enabled": False}}
    (home / "config.yaml").write_text(json.dumps({**settings, "web": {"enabled": False}}))
    folder = tmp_path / "work"
    folder.mkdir()

    def run_once(*args: str, piped: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        return run_warm([HERMES, *args], str(folder), piped)

    return run_once


def asked(lab: LabServer) -> str:
    """What the model was asked last, without the facts of the turn behind it."""
    said = [message["content"] for message in lab.requests[-1].json()["messages"] if message["role"] == "user"]
    return str(said[-1]).rpartition("\n\n[")[0]


def test_what_is_piped_goes_with_the_question(run, lab: LabServer) -> None:
    done = run("-q", "Summarise this.", piped="first line é\n```\ncode\n```\n".encode())
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"You said: Summarise this.")
    assert asked(lab) == "Summarise this.\n\n````\nfirst line é\n```\ncode\n```\n````"


@pytest.mark.parametrize(
    ("args", "piped"),
    [
        (["-q", "Name one colour."], None),
        (["-q", "Name one colour."], b" \n"),
        (["-q"], b"Name one colour.\n"),
        (["-q", ""], b"Name one colour."),
    ],
)
def test_a_question_alone_is_the_question(run, lab: LabServer, args: list[str], piped: bytes | None) -> None:
    assert run(*args, piped=piped).returncode == 0
    assert asked(lab) == "Name one colour."


def test_much_text_goes_along_as_a_file_that_the_agent_can_read(run, lab: LabServer, home: Path) -> None:
    text = "".join(f"line {number} of the log\n" for number in range(20_000))
    done = run("-q", "Summarise this.", piped=text.encode())
    assert done.returncode == 0, done.stderr
    named = re.fullmatch(r"Summarise this\.\n\[file piped\.txt: (/.*)\]", asked(lab))
    assert named, asked(lab)
    assert Path(named[1]).read_text() == text
    assert Path(named[1]).is_relative_to(home)
    again = run("-q", f"[[tool read_file {json.dumps({'path': named[1], 'limit': 3})}]]")
    assert again.returncode == 0
    assert "line 2 of the log" in lab.requests[-1].body.decode()


@pytest.mark.parametrize("args", [("-q", "What is this?"), ("-q", "-")])
def test_bytes_that_are_no_text_are_refused_in_a_sentence(run, lab: LabServer, args: tuple[str, ...]) -> None:
    done = run(*args, piped=b"\x7fELF\x02\x01\x00\x00" * 200)
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.decode().startswith("hermes: What was piped in is no text (1,600 bytes). Nothing was sent.")
    assert not lab.requests


def test_too_much_is_refused_in_a_sentence(run) -> None:
    done = run("-q", "What is this?", piped=b"x" * (21 * 1024 * 1024))
    assert done.returncode == 1
    assert b"More than 20 MB were piped in. Nothing was sent." in done.stderr


def test_an_approval_that_nobody_can_give_is_told_and_is_exit_code_3(run, lab: LabServer) -> None:
    """G4: no answer is a no."""
    done = run("-q", '[[tool terminal {"command": "rm -r nothing"}]]')
    assert done.returncode == 3
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("Not allowed, since nobody can be asked here: ")
    assert "rm -r nothing" in lines[0]
    assert b"approve" not in done.stderr
    assert "nobody approved it" in lab.requests[-1].body.decode(), "the model was not told"


def test_what_a_command_says_is_the_answer_when_it_is_the_question(run, lab: LabServer) -> None:
    for args, piped in ((["-q", "/status"], None), (["-q"], b"/status\n"), (["chat"], b"/status\n")):
        done = run(*args, piped=piped)
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"Turns under way: 0" in done.stdout
    unknown = run("-q", "/usagge")
    assert (unknown.returncode, unknown.stdout) == (1, b"")
    assert b"Did you mean /usage?" in unknown.stderr
    assert not lab.requests


def test_a_command_that_asks_the_model_answers_like_a_question(run) -> None:
    done = run("-q", "/queue Name one colour.")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"You said: Name one colour.")


def test_a_question_as_a_command_is_told_how_to_ask(run) -> None:
    done = run("What's the time in Lima?")
    assert done.returncode == 2
    assert done.stderr.decode().rstrip().endswith("""To ask something: hermes -q 'What'"'"'s the time in Lima?'""")
    assert b"hermes -q 'whatever is the time'" in run("whatever", "is", "the", "time").stderr
    assert b"Did you mean `hermes doctor`?" in run("docter").stderr


def test_what_tools_did_is_told_as_text_and_not_as_json(run, home: Path) -> None:
    config = json.loads((home / "config.yaml").read_text())
    config |= {"display": {"tool_progress": "full"}, "approvals": {"mode": "auto"}}
    (home / "config.yaml").write_text(json.dumps(config))
    calls = [
        '[[tool terminal {"command": "printf \'one\\\\n  two\\\\n\'; exit 3"}]]',
        '[[tool write_file {"path": "a.py", "content": "x = 1"}]]',
        '[[tool patch {"edits": [{"path": "a.py", "old": "x = 1", "new": "x = 2"}]}]]',
        '[[tool clarify {"question": "Which colour?", "choices": ["red", "blue"]}]]',
    ]
    done = run(piped="".join(f"{call}\n" for call in calls).encode())
    lines = [line for line in done.stderr.decode().splitlines() if " · " not in line]
    assert lines[:4] == ["→ terminal printf 'one\\n two\\n'; exit 3", "  exit code 3", "  one", "    two"], lines
    assert lines[lines.index("→ patch a.py") + 1 :][:4] == ["  changed a.py (+1 -1)", "  a.py", "  -x = 1", "  +x = 2"]
    assert "→ clarify Which colour?" in lines
    assert "{" not in done.stderr.decode()


@pytest.mark.parametrize("letter", ["é", "\u0001"])
def test_c7_a_very_long_answer_is_whole(home: Path, run, letter: str) -> None:
    """C7: an answer that is longer than a line of the socket may be."""
    text = "begin " + letter * 1_500_000 + " end"
    with LabServer(plan=[{"text": text}]) as lab:
        settings = {"model": {"base_url": lab.base_url, "default": "lab"}, "titles": {"enabled": False}}
        (home / "config.yaml").write_text(json.dumps({**settings, "web": {"enabled": False}}))
        done = run("-q", "Write a lot.")
    assert (done.returncode, done.stderr) == (0, b"")
    shown = text.replace("\u0001", "")  # it could steer a terminal
    assert done.stdout.decode() == f"{shown}\n", f"{len(done.stdout)} bytes came"
