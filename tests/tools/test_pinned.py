"""The form of a command that a kept approval is bound to: the same form is the same to the shell (G4)."""

import json
import subprocess

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tools.policy.pinned import pin_command

PINNED = [
    "make test",
    "git push origin main",
    "git commit -m 'two  words' && git push",
    "cat a.txt | sort | uniq -c",
    "make > out.txt 2>&1",
    "grep -n 'a*b' file",
    "git reset HEAD~1",
    "touch made && echo done",
    "python -c 'print(1)'",
    "[ -f x ]",
    "sleep 1 &",
    "wc -l <<< text",
]
NOT_PINNED = [
    "",
    "# only a comment",
    "echo $HOME",
    'echo "$HOME"',
    "rm *.txt",
    "rm file[12]",
    "ls ~",
    "ls ~/x",
    "make PREFIX=~/x",
    "echo $(date)",
    "echo `date`",
    "diff <(a) b",
    "FOO=1 make",
    "'FOO=1' make",
    "for f in a b; do echo x; done",
    "if true; then a; fi",
    "(cd x; make)",
    "{ a; }",
    "! make",
    "time make",
    "f() { a; }",
    "cat <<EOF\nx\nEOF",
    "echo {a,b}",
    "echo {,a}",
    "echo {1..3}",
    "'2'>f echo",
    "{fd}>f echo",
    "echo 'open",
    "echo \\",
    "sh x.sh &\\\n> out",
    "make \\\ntest",
    "ma\\\nke",
    "echo a‮b",
    "a=(1 2)",
    "[[ -f x ]]",
    "x" * 30_000,
]


@pytest.mark.parametrize("command", PINNED)
def test_an_everyday_command_has_a_form(command: str) -> None:
    """G4: and how it is spaced or quoted is no difference."""
    assert pin_command(command)
    assert pin_command(f"  {command.replace(' && ', '   &&  ')}  ") == pin_command(command)


@pytest.mark.parametrize("command", NOT_PINNED)
def test_what_the_shell_fills_in_has_none(command: str) -> None:
    """G4: a rule cannot be about something that is known only when it runs."""
    assert pin_command(command) == ""


def test_quotes_are_no_difference_and_words_are() -> None:
    """G4"""
    same = ["git commit -m 'a b'", 'git commit -m "a b"', "git commit -m a\\ b"]
    assert len({pin_command(command) for command in same}) == 1
    different = ["make", "make test", "make test x", "make 'test x'", "make;test", "make&&test", "make|test"]
    different += ["make&test", "make||test", "make\ntest", "make >test", "make 2>test", "make >>test", "make <test"]
    forms = [pin_command(command) for command in different]
    assert all(forms)
    assert len(set(forms)) == len(forms)


# --- against the shell itself

#: Bits of which command lines are made: words that are quoted in every way, operators, and what is easily confused.
PLAIN = ["a", "b", "2", " ", "  ", "\t", "-", "{a}", "a,b", "=", "#", "x=", "!", "[", "]", "if", "time", "$", "\\\n"]
QUOTED = ["'a'", '"a"', "\\a", "''", '""', "'a b'", "a\\ b", "$'a'", "'~'", "\\~", "'#'", "'*'", "'if'", "'$'"]
FILLED = ["~", "*", "{a,b}", "{,a}"]
BITS = st.sampled_from([*PLAIN, *QUOTED, *FILLED])
LINES = st.lists(BITS, min_size=1, max_size=5).map("".join)
SIGNS = st.characters(codec="ascii", categories=("L", "N", "P", "S", "Zs"), exclude_characters="~")
WORDS = st.text(SIGNS, max_size=8)
SHOW = "show() { printf '<%s>' \"$@\"; echo; }\n"


def run_shell(line: str) -> tuple[int, str]:
    """What bash makes of the words of a line."""
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{SHOW}show {line}"], capture_output=True, text=True, timeout=60, cwd="/", check=False
    )
    return done.returncode, done.stdout


@settings(max_examples=150, deadline=None)
@given(LINES, LINES)
def test_the_same_form_is_the_same_to_the_shell(one: str, other: str) -> None:
    """G4: a rule never matches another command. Beside lines that come out the same by chance, a line is held against
    itself with its words quoted."""
    form = pin_command(f"show {one}")
    assume(form)
    if form == pin_command(f"show {other}"):
        assert run_shell(one) == run_shell(other)
    pieces = json.loads(form)[1:]
    assume(all(isinstance(piece, str) for piece in pieces))
    words = [f"<{word}>" for word in pieces]
    assert run_shell(one) == (0, "".join(words) + "\n" if words else "<>\n")


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=5), st.data())
def test_other_words_have_another_form(words: list[str], data: st.DataObject) -> None:
    """G4: hypothesis over commands: quoted words make one form, and any change of one of them makes another."""
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in ["run", *words])
    form = pin_command(quoted)
    assume(form)
    place = data.draw(st.integers(0, len(words) - 1))
    changed = [*words]
    changed[place] = data.draw(WORDS)
    assume(changed != words)
    assert pin_command(" ".join("'" + word.replace("'", "'\\''") + "'" for word in ["run", *changed])) != form
