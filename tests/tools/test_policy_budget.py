"""The judgement has a budget: whatever the text, it ends soon and takes little; beyond the budget the answer is ask."""

import time
import tracemalloc

import pytest

from tools.policy import Terms, judge

FOLDER = "/home/ann/project"
#: Each is short, or as long as a command may be, and made to take long.
TEXTS = {
    "folders that double": ";".join(f"cd d{at}" for at in range(20)),
    "folders that double, 176 characters": ";".join(f"cd d{at}" for at in range(26))[:176],
    "many folders": "&".join(f"cd d{at}" for at in range(2000)),
    "braces": "cat " + "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b} " * 600,
    "one long path": "cat " + "a/" * 9900,
    "many paths": "cat " + "a/b/c " * 3300,
    "many paths from many folders": "cd a;cd b;cd c; cat " + "a/b/c " * 3200,
    "long paths from many folders": "cd a;cd b;cd c; cat " + ("a/" * 500 + " ") * 19,
    "patterns": "cat " + "*a* " * 4900,
    "substitutions": "echo " + "$(ls)" * 3900,
    "backticks": "echo " + "`ls`" * 3900,
    "depth": "(" * 9000,
    "commands": "ls;" * 6600,
    "pipes": "ls|" * 6600 + "ls",
    "wrappers": "env " * 4900 + "ls",
    "what acts as another": "sudo " * 3900 + "ls",
    "finds": "find . " + "-exec ls {} \\; " * 1200,
    "a long script of sed": "sed -i 's/" + "a/" * 9900 + "/b/' x",
    "a long script of awk": "awk '" + "x" * 19900 + "' f",
    "a long filter": "jq '" + "e" * 19900 + "' f",
    "long code": "python3 -c '" + "o" * 19900 + "'",
    "a long option": "ls " + "-" * 19900,
    "redirections": "ls " + ">a " * 6500,
    "evals": "eval " * 3900 + "ls",
    "too long": "a" * 2_000_000,
}


@pytest.mark.parametrize("walled", [True, False])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_no_text_takes_long(text: str, walled: bool) -> None:
    """F5, G5: of this thread's own time (seen: at most a quarter of a second)."""
    began = time.thread_time()
    judge(text, Terms(folder=FOLDER, mode="auto", walled=walled))
    assert time.thread_time() - began < 1


@pytest.mark.parametrize("name", ["folders that double", "braces", "many paths", "too long"])
def test_no_text_takes_much_memory(name: str) -> None:
    """F5, G5"""
    tracemalloc.start()
    judge(TEXTS[name], Terms(folder=FOLDER, mode="auto"))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 24_000_000


@pytest.mark.parametrize("name", ["folders that double", "many folders", "braces", "commands", "too long", "depth"])
def test_beyond_the_budget_the_answer_is_ask(name: str) -> None:
    """G5"""
    assert judge(TEXTS[name], Terms(folder=FOLDER, mode="auto")).decision == "ask"


def test_what_was_found_to_be_ruin_stays_refused_when_the_budget_is_gone() -> None:
    """G5"""
    assert judge("rm -rf /\n" + TEXTS["commands"], Terms(folder=FOLDER, mode="auto")).decision == "deny"
