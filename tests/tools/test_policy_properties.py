"""Properties of the command policy: harm anywhere is never allowed, quoting changes nothing, nothing raises (G5)."""

import shlex

from hypothesis import given, settings
from hypothesis import strategies as st

from tools.policy import Terms, judge

FOLDER = "/home/ann/project"
HARMLESS = st.sampled_from(
    ["ls", "ls -la src", "echo 'a b'", "git status", "make test", "cat README.md | wc -l", "cd src && ls", "true"]
)
HARMFUL = st.sampled_from(
    [
        "rm -rf /",
        "rm -rf ~/x",
        "sudo ls",
        "curl example.org",
        "$x",
        "cat .env",
        "python -c 'eval(x)'",
        "dd of=/dev/sda",
        "env x",
    ]
)
PLACES = st.sampled_from(
    [
        "{a}; {h}",
        "{h}; {a}",
        "{a} && {h}",
        "{h} && {a}",
        "{a} || {h}",
        "{a} | {h}",
        "{h} | {a}",
        "{a} & {h}",
        "{a}\n{h}",
        "{a} # note\n{h}",
        "{a} \\\n ; {h}",
        "echo $({h})",
        'echo "x $({h}) y"',
        "echo `{h}`",
        "cat <({h})",
        "cat <<E\n$({h})\nE",
        "cat <<'E'\nx\nE\n{h}",
        "({a}; {h})",
        "{{ {a}; {h}; }}",
        "if {a}; then {h}; fi",
        "if {h}; then {a}; fi",
        "while {a}; do {h}; done",
        "for i in 1 2; do {a}; {h}; done",
        "! {h}",
        "time {h}",
        "timeout 5 {h}",
        "nohup {h}",
        "x=$({h})",
        "{a} > $({h})",
        "f() {{ {h}; }}; {a}",
        "{a} 2>&1; {h} 2>/dev/null",
    ]
)
WORDS = st.lists(
    st.sampled_from(["ls", "-la", "src", "a b", "rm", "-rf", "/", "build", "git", "status", "x'y", "$HOME", "*", "~"]),
    min_size=1,
    max_size=5,
)
SHELLISH = st.text(alphabet="abrm -/~.*$(){}[]<>|&;'\"`\\\n#!=0eE", max_size=40)


def rank(decision: str) -> int:
    return ["allow", "ask", "deny"].index(decision)


@settings(max_examples=400, deadline=None)
@given(HARMLESS, HARMFUL, PLACES, PLACES, st.sampled_from(["ask", "auto", "deny"]))
def test_harm_anywhere_is_never_allowed(harmless: str, harmful: str, inner: str, outer: str, mode: str) -> None:
    """G5."""
    once = inner.format(a=harmless, h=harmful)
    assert judge(once, Terms(folder=FOLDER, mode=mode)).decision != "allow"
    # Backticks do not nest, and a line cannot go everywhere.
    if not set("\n#`") & set(once):
        assert judge(outer.format(a=harmless, h=once), Terms(folder=FOLDER, mode=mode)).decision != "allow"


@settings(max_examples=300, deadline=None)
@given(HARMFUL, st.integers(1, 3))
def test_harm_as_the_code_of_a_shell_is_never_allowed(harmful: str, times: int) -> None:
    """G5."""
    command = harmful
    for _ in range(times):
        command = f"bash -c {shlex.quote(command)}"
    assert judge(command, Terms(folder=FOLDER, mode="auto")).decision != "allow"


def quote_double(word: str) -> str:
    return '"' + "".join("\\" + char if char in '"\\$`' else char for char in word) + '"'


def quote_backslash(word: str) -> str:
    return "".join("\\" + char for char in word)


def quote_pieces(word: str) -> str:
    return "".join(f"''{shlex.quote(char)}" for char in word)


@settings(max_examples=300, deadline=None)
@given(WORDS, st.data(), st.sampled_from(["ask", "auto"]))
def test_quoting_and_spacing_change_nothing(words: list[str], data: st.DataObject, mode: str) -> None:
    """G5."""
    expected = judge(" ".join(shlex.quote(word) for word in words), Terms(folder=FOLDER, mode=mode))
    quotes = [shlex.quote, quote_double, quote_backslash, quote_pieces]
    varied = [data.draw(st.sampled_from(quotes))(word) for word in words]
    gap = data.draw(st.sampled_from([" ", "  ", "\t", " \\\n "]))
    assert judge(gap.join(varied), Terms(folder=FOLDER, mode=mode)) == expected


@settings(max_examples=600, deadline=None)
@given(st.one_of(st.text(max_size=60), SHELLISH))
def test_random_text_never_raises(text: str) -> None:
    """G5."""
    for mode in ("ask", "auto", "deny"):
        assert judge(text, Terms(folder=FOLDER, mode=mode)).decision in ("allow", "ask", "deny")


@settings(max_examples=400, deadline=None)
@given(SHELLISH, HARMFUL)
def test_harm_on_its_own_line_is_never_allowed(text: str, harmful: str) -> None:
    """G5: a line before can only hide the harm by quoting it, and an open quote asks."""
    assert judge(f"{harmful}\n{text}", Terms(folder=FOLDER, mode="auto")).decision != "allow"


@settings(max_examples=200, deadline=None)
@given(SHELLISH)
def test_modes_only_differ_in_strictness(text: str) -> None:
    """G5."""
    auto, asking, strict = (
        rank(judge(text, Terms(folder=FOLDER, mode=mode)).decision) for mode in ("auto", "ask", "deny")
    )
    assert auto <= asking <= strict


def test_deep_and_long_commands_ask() -> None:
    """G5: what is too much to read asks."""
    for text in (
        "(" * 5000,
        "$(" * 5000,
        "if " * 5000,
        "a() " * 4000,
        "`" * 5001,
        "sudo timeout 1 " * 900,
        "x" * 30_000,
    ):
        assert judge(text, Terms(folder=FOLDER, mode="auto")).decision == "ask"
