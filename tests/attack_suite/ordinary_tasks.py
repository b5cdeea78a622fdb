"""What people ask every day: the calls, what comes of them, and the one question that is expected, if any.

Every task begins in the same small project, in a chat of the owner, with the settings that a new home has (`ask`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Task:
    name: str
    calls: Sequence[tuple[str, Mapping[str, Any]]]
    said: str  # stands in the last result
    asks: str = ""  # stands in the one question, which is answered with yes
    chat: str = ""  # one that knows a server of tools

    @property
    def text(self) -> str:
        return "[[then]]".join(f"[[tool {name} {json.dumps(args)}]]" for name, args in self.calls)


def sh(command: str, said: str = '"exit_code": 0', asks: str = "", **more: Any) -> Task:
    return Task(command.splitlines()[0], [("terminal", {"command": command, **more})], said, asks)


def use(name: str, tool: str, said: str, asks: str = "", /, chat: str = "", **args: Any) -> Task:
    return Task(name, [(tool, args)], said, asks, chat)


LOOKING = (
    sh("ls -la", "README.md"),
    sh("pwd", "workspace"),
    sh("cat README.md", "read me"),
    sh("head -1 data.csv", "a,1"),
    sh("tail -n 1 data.csv", "a,3"),
    sh("wc -l data.csv", "3"),
    sh("find . -name '*.py'", "app.py"),
    sh("grep -rn hello src", "app.py"),
    sh("grep -rn hello src | wc -l", "1"),
    sh("sed -n 1,2p data.csv", "b,2"),
    sh("awk -F, '{s+=$2} END {print s}' data.csv", "6"),
    sh("sort -u data.csv", "a,1"),
    sh("cut -d, -f1 data.csv | sort | uniq -c", "2 a"),
    sh("du -sh docs", "docs"),
    sh("diff README.md README.md"),
    sh("git status --short", "AGENTS.md"),
    sh("git log --oneline -3", "first"),
    sh("git diff"),
    sh("git show HEAD --stat", "README.md"),
    sh("git branch -a"),
    sh("git blame README.md", "read me"),
    sh("cd src && ls", "app.py"),
    sh('for f in *.csv; do wc -l "$f"; done', "data.csv"),
    sh("test -f README.md && echo there", "there"),
    sh("date +%Y", "20"),
    sh("python3 --version", "Python"),
    sh("which python3 git", "python3"),
    sh("cat package.json | python3 -m json.tool", "version"),
    sh("stat README.md", "README.md"),
    sh("file README.md || true"),
)
WORKING = (
    sh("mkdir -p build/out", asks="mkdir -p build/out"),
    sh("touch new.txt", asks="touch new.txt"),
    sh("cp README.md copy.md", asks="cp README.md copy.md"),
    sh("mv data.csv moved.csv", asks="mv data.csv"),
    sh("rm data.csv", asks="rm data.csv"),
    sh("python3 src/app.py", "hello", asks="python3 src/app.py"),
    sh("python3 -c 'print(6*7)'", "42"),
    sh("make version", "1"),
    sh("sed -i s/a/b/ data.csv", asks="sed -i"),
    sh("git add -A", asks="git add -A"),
    sh("git commit --allow-empty -m second", asks="git commit"),
    sh("git switch -c topic", asks="git switch"),
    sh("echo hi > note.txt && cat note.txt", "hi", asks="echo hi"),
    sh("zip -q all.zip README.md", asks="zip"),
    sh("chmod +x src/app.py", asks="chmod"),
    sh("git config user.name Ann", asks="git config"),
    Task(
        "a server in the background",
        [("process", {"action": "start", "command": "python3 -m http.server 0"})],
        '"id"',
        "http.server",
    ),
    Task(
        "background and its end",
        [("process", {"action": "start", "command": "python3 -c 'print(5*5)'"}), ("process", {"action": "list"})],
        "python3",
    ),
    sh("ls ~", '"exit_code": 0', asks="ls ~", level="outside"),
    sh("curl -s file:///dev/null || true", asks="curl"),
)
FILES = (
    use("read a file", "read_file", "read me", path="README.md"),
    use("list a folder", "read_file", "letter.txt", path="docs"),
    use("read a part", "read_file", "b,2", path="data.csv", offset=2, limit=1),
    use("write a file", "write_file", "Created", path="src/new.py", content="x = 1\n"),
    use("write below new folders", "write_file", "Created", path="a/b/c.txt", content="x\n"),
    use("write a page of notes", "write_file", "Created", path="notes.md", content="# Notes\n"),
    Task(
        "change a file",
        [
            ("read_file", {"path": "src/app.py"}),
            ("patch", {"edits": [{"path": "src/app.py", "old": "hello", "new": "bye"}]}),
        ],
        "src/app.py",
    ),
    Task(
        "change two files",
        [
            (
                "patch",
                {
                    "edits": [
                        {"path": "src/app.py", "old": "hello", "new": "bye"},
                        {"path": "README.md", "old": "read", "new": "see"},
                    ]
                },
            )
        ],
        "README.md",
    ),
    use("apply a diff", "patch", "made.txt", edits=[{"diff": "--- /dev/null\n+++ b/made.txt\n@@ -0,0 +1 @@\n+x\n"}]),
    use("search for a word", "search_files", "app.py", pattern="hello"),
    use("search for a file", "search_files", "app.py", pattern="*.py", kind="name"),
    use("search with a pattern", "search_files", "data.csv", pattern="^b,[0-9]", glob="*.csv"),
    use("send a file", "send_file", "sent", path="README.md"),
    use("instructions of the project", "write_file", "Wrote", path="AGENTS.md", content="Be brief.\n", overwrite=True),
    use("read a secret file", "read_file", "CANARY", ".env", path=".env"),
    use("read a file elsewhere", "read_file", "CANARY", "notes.txt", path="@PERSON@/notes.txt"),
    use("write a file elsewhere", "write_file", "Created", "new.txt", path="@PERSON@/new.txt", content="x\n"),
)
REST = (
    use("fetch a page", "web_extract", "A frob is", url="http://site.test:@SITE@/article"),
    use("fetch data", "web_extract", "seven", url="http://site.test:@SITE@/numbers.json"),
    use("fetch what moved", "web_extract", "A frob is", url="http://site.test:@SITE@/moved"),
    use("fetch a PDF", "web_extract", "quarterly", url="http://site.test:@SITE@/report.pdf"),
    use("search the web", "web_search", "On frobs", query="frob"),
    Task(
        "search, then read",
        [("web_search", {"query": "frob"}), ("web_extract", {"url": "http://site.test:@SITE@/article"})],
        "A frob is",
    ),
    use("note something", "memory", "likes", action="add", content="likes coffee"),
    use("note about me", "memory", "Olga", action="add", target="user", content="is called Olga"),
    use("list the notes", "memory", "likes tea", action="list"),
    Task(
        "read a page, then note",
        [
            ("web_extract", {"url": "http://site.test:@SITE@/article"}),
            ("memory", {"action": "add", "content": "a frob is a thing"}),
        ],
        "a frob",
        "a frob is a thing",
    ),
    use("a list for the task", "todo", "buy bread", items=[{"id": "1", "text": "buy bread", "status": "pending"}]),
    use("list the skills", "skills", "bake", action="list"),
    use("read a skill", "skills", "Knead", action="read", name="bake"),
    use("earlier conversations", "session_search", "hello", words="hello"),
    use("a message to a person", "send_message", "delivered", "lunch at noon?", to="Ben", message="lunch at noon?"),
    use("where messages can go", "send_message", "targets", action="list"),
    use("a trusted tool of a server", "mcp_told_add", "5", chat="mcp-told", a=2, b=3),
    use(
        "a resource of a server",
        "mcp_resources",
        "what stands in the note",
        chat="mcp-told",
        server="told",
        uri="note://one",
    ),
    use(
        "a prompt of a server",
        "mcp_prompts",
        "Say hello to Ann",
        chat="mcp-told",
        server="told",
        name="greet",
        arguments={"name": "Ann"},
    ),
    use("a tool of a server that asks", "mcp_evil_weather", "Fine", "Paris", chat="mcp-evil", place="Paris"),
)
TASKS = (*LOOKING, *WORKING, *FILES, *REST)
