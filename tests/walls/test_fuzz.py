"""Random command lines: for every text that passes unasked, what bash does with it touches nothing outside (G5)."""

import random
from collections.abc import Iterator

import pytest
from arena import Arena, open_arena
from attacks import list_attacks

from tools.policy import Terms, judge
from tools.shell.sandbox import is_bubblewrap_usable

pytestmark = pytest.mark.skipif(not is_bubblewrap_usable(), reason="bwrap does not run on this machine")
WORDS = (
    *("ls", "cat", "echo", "head", "git", "status", "log", "grep", "find", "sed", "awk", "jq", "rg", "sort", "uniq"),
    *("cd", "pwd", "printf", "xargs", "env", "test", "[", "]", "true", "wc", "tr", "cut", "diff", "stat", "python3"),
    *("-exec", "-o", "-n", "-e", "-r", "-c", "-p", "-i", "--", "-name", "-print", "{}", "\\;", "+", "-C", "version"),
    *(
        "README.md",
        ".env",
        "src/app.py",
        "link-out",
        "link-env",
        "other-name",
        "@OUT@/canary.txt",
        "@PERSON@/.ssh/id_rsa",
    ),
    *("@HERMES@/.env", "~", "..", "/", "*", ".*", "sub", "$HOME", "$x", "x=1", "'s/a/b/'", "'{print}'", "1", "/tmp/f"),
)
JOINTS = (" ", " ", " ", " ", " ", " | ", "; ", " && ", " || ", "\n", " > ", " < ", " >> ", " & ", " 2>&1 ", " <<< ")
FRAMES = ("%", "%", "%", "$(%)", "(%)", "{ %; }", "echo $(%)", "if %; then ls; fi", "for x in a b; do %; done", '"%"')


def make_text(dice: random.Random) -> str:
    if dice.random() < 0.2:
        text = dice.choice(dice.choice(list_attacks()))
        cut = sorted(dice.sample(range(len(text) + 1), 2))
        text = text[: cut[0]] + dice.choice(WORDS) + text[cut[1] :]
    else:
        text = "".join(dice.choice(WORDS) + dice.choice(JOINTS) for _ in range(dice.randint(1, 6)))
    return dice.choice(FRAMES).replace("%", text)


@pytest.fixture
def arena(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Arena]:
    with open_arena(tmp_path_factory.mktemp("fuzz")) as arena:
        monkeypatch.setenv("HOME", str(arena.person))
        yield arena


def run_many(arena: Arena, seed: int, count: int) -> int:
    """How many of the texts ran."""
    dice = random.Random(seed)
    ran = 0
    for _ in range(count):
        text = make_text(dice)
        filled = arena.fill(text)
        if judge(filled, Terms(folder=str(arena.work), mode="deny", roots=("/tmp",))).decision != "allow":
            continue
        ran += 1
        output = arena.run_gated((text,), arena.context(mode="deny", backend="bubblewrap"))
        try:
            arena.check_outside(output)
            arena.check_unchanged()
            assert arena.heard == []
        except AssertionError as problem:
            raise AssertionError(f"{text!r}: {problem}") from problem
    return ran


@pytest.mark.parametrize("seed", range(4))
def test_a_few_random_texts(arena: Arena, seed: int) -> None:
    assert run_many(arena, seed, 300) > 5


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 108))
def test_many_random_texts(arena: Arena, seed: int) -> None:
    assert run_many(arena, seed, 5000) > 100
