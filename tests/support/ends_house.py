"""A gateway with a context engine and a plugin that write down what they are told, and a look at what still runs."""

import json
import os
import signal
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from house import House, Visitor
from processes import find_processes, sleep_for_a_day
from waiting import wait_until

from hermes_cli import plugins
from hermes_state.store import SessionInfo
from tools.process_registry import process_registry
from tools.shell import shells

ENGINE = """
    import json, os
    from pathlib import Path
    from agent.context_engine import ContextEngine

    def write(**line):
        with (Path(os.environ["HERMES_HOME"]) / "told.jsonl").open("a") as file:
            print(json.dumps(line), file=file)

    class Telling(ContextEngine):
        name = "telling"
        def update_from_response(self, usage):
            self.last_prompt_tokens = usage.get("prompt_tokens", 0)
        def should_compress(self, prompt_tokens=None):
            write(what="asked", session=self.session, tokens=prompt_tokens)
            return False
        def compress(self, messages, current_tokens=None, **more):
            return [{"role": "user", "content": "[the summary]"}, *messages[-2:]]
        def on_session_start(self, session_id, **facts):
            self.session = session_id
        def on_session_end(self, session_id, messages):
            texts = [str(message.get("content")) for message in messages]
            write(what="engine", session=session_id, bound=self.session, texts=texts)
"""
PLUGIN = """
    import json, os
    from pathlib import Path

    def note(**facts):
        with (Path(os.environ["HERMES_HOME"]) / "told.jsonl").open("a") as file:
            line = {"what": "plugin", "session": facts["session_id"], "reason": facts["reason"]}
            print(json.dumps(line), file=file)

    def register(ctx):
        ctx.register_hook("on_session_finalize", note)
"""
PEOPLE = {"owner": "olga", "allow": ["ann", "ben"]}


def write_tellers(home: Path) -> dict[str, Any]:
    """The engine and the plugin, as folders of the home; the settings that name them."""
    for folder, code in (
        (home / "plugins" / "context_engine" / "telling", ENGINE),
        (home / "plugins" / "witness", PLUGIN),
    ):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plugin.yaml").write_text(json.dumps({"name": folder.name}))
        (folder / "__init__.py").write_text(textwrap.dedent(code))
    return {"context": {"engine": "telling"}, "plugins": {"enabled": ["witness"]}}


@contextmanager
def ends_house(home: Path, base_url: str, **settings: Any) -> Iterator[House]:
    """A house whose engine and plugin tell; nothing of it is left in this process."""
    plugins._plugin_manager = None
    made = House(home, base_url, **{"pretend": PEOPLE, **write_tellers(home), **settings})
    try:
        with made as house:
            yield house
    finally:
        process_registry.kill_all()
        for task in list(shells._shells):
            shells.forget_shell(task)
        plugins.get_plugin_manager().clear()
        plugins._plugin_manager = None
        for name in [name for name in sys.modules if name.startswith(("hermes_plugins", "plugins.context_engine."))]:
            del sys.modules[name]


def read_told(home: Path, what: str, session: str = "") -> list[dict[str, Any]]:
    """What the engine or the plugin was told, of one session or of all."""
    path = home / "told.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if line["what"] == what and session in ("", line["session"])]


@dataclass(frozen=True, slots=True)
class Started:
    """A background process, as the operating system knows it."""

    command: str

    @property
    def runs(self) -> bool:
        return bool(self.find())

    def find(self) -> list[int]:
        """Not the shell that was given the command."""
        return [pid for pid, line in find_processes(self.command).items() if line.startswith(self.command)]


def start_process(person: Visitor) -> Started:
    """Have the model start a process that would run for hours."""
    started = Started(sleep_for_a_day())
    person.ask(f'[[tool process {{"action": "start", "command": "{started.command}"}}]]')
    wait_until(lambda: started.runs)
    return started


def current(person: Visitor) -> SessionInfo:
    found = person.house.gateway.store.current(person.conversation)
    assert found is not None
    return found


def find_shell(task: str) -> Path:
    """The folder of a task's shell, which is there as long as the shell is."""
    folder = Path(shells._shells[task].folder)
    assert folder.exists()
    return folder


def end_process(started: Started) -> None:
    """End a background process from outside, as if it had come to its end by itself."""
    for pid in started.find():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not started.runs)


def find_person(house: House, sender: str) -> str:
    """The id of whoever has this identity."""
    people = house.operate("people.list")["people"]
    [found] = [one["id"] for one in people if any(who["sender"] == sender for who in one["identities"])]
    return str(found)
