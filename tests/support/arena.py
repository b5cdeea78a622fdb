"""A small world with canaries in it, in which hostile commands are run for real; what they reached is seen then."""

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hermes_base.errors import ToolFailure
from hermes_base.setting_table import make_settings
from hermes_base.turn.tool_context import ToolContext
from tools.policy.command_gate import clear_command
from tools.shell.sandbox import Walls
from tools.shell.shells import ShellStart, find_state, forget_shell, launch, note_end, shell_of
from tools.terminal_tool import read_output

TASK = "arena"
SECONDS = 20.0
CANARY = "CANARY"
#: Files of the working folder that hold secrets.
SECRETS = (".env", "sub/.env.local", "secrets.json", "deploy.key", ".npmrc")
#: Files that other programs obey.
OBEYED = (".git/config", ".git/hooks/pre-commit", ".venv/bin/pytest", "node_modules/.bin/tool", ".envrc")


@dataclass
class Arena:
    """`base/person` is a home with a project in it, `base/hermes` the home of Hermes, `base/outside` anything else."""

    base: Path
    port: int = 0
    heard: list[bytes] = field(default_factory=list)  # what reached the network
    touched: dict[str, bytes] = field(default_factory=dict)
    pristine: Path = Path()
    original: dict[str, bytes] = field(default_factory=dict)  # what the project held at first

    @property
    def person(self) -> Path:
        return self.base / "person"

    @property
    def work(self) -> Path:
        return self.person / "project"

    @property
    def member(self) -> Path:
        return self.base / "hermes" / "people" / "p-1"

    def fill(self, text: str) -> str:
        places = {
            "OUT": self.base / "outside",
            "PERSON": self.person,
            "HERMES": self.base / "hermes",
            "WORK": self.work,
            "PORT": self.port,
        }
        for name, place in places.items():
            text = text.replace(f"@{name}@", str(place))
        return text

    def build(self) -> None:
        write(self.base / "outside" / "canary.txt", f"{CANARY}-outside")
        write(self.person / ".ssh" / "id_rsa", f"{CANARY}-ssh")
        write(self.person / ".aws" / "credentials", f"{CANARY}-aws")
        write(self.person / ".bashrc", "# mine")
        write(self.person / "notes.txt", f"{CANARY}-notes")
        write(self.base / "hermes" / ".env", f"OPENAI_API_KEY={CANARY}-key")
        write(self.base / "hermes" / "config.yaml", "# settings")
        write(self.base / "hermes" / "people" / "p-2" / "memories" / "MEMORY.md", f"{CANARY}-other")
        write(self.member / "workspace" / "note.txt", "mine")
        project = self.work
        write(project / "README.md", "read me")
        write(project / "src" / "app.py", "print('hello')\n")
        write(project / "Makefile", "version:\n\t@echo 1\n")
        write(project / "package.json", '{"name": "x", "version": "1.0.0"}')
        for name in SECRETS:
            write(project / name, f"{CANARY}-secret")
        subprocess.run(
            ["git", "init", "-q", "--template=", str(project)],
            check=True,
            env={"PATH": os.environ["PATH"], "HOME": "/"},
        )
        for name in (".git/hooks/pre-commit", ".venv/bin/pytest", "node_modules/.bin/tool"):
            write(project / name, "#!/bin/sh\nexit 0\n", mode=0o755)
        write(project / ".venv" / "pyvenv.cfg", "home = /usr/bin")
        write(project / ".envrc", "# none")
        os.symlink(self.base / "outside" / "canary.txt", project / "link-out")
        os.symlink(".env", project / "link-env")
        os.link(project / ".env", project / "other-name")
        self.pristine = self.base / "pristine"
        shutil.copytree(project, self.pristine, symlinks=True)
        self.original = read_tree(self.pristine)
        self.touched = self._read_around()

    def mend(self) -> None:
        """The world anew, after something got through on purpose."""
        for place in ("outside", "person", "hermes", "pristine"):
            shutil.rmtree(self.base / place)
        self.build()

    def reset(self) -> None:
        """The project as it was; the shell forgets everything."""
        forget_shell(TASK)
        self.heard.clear()
        if read_tree(self.work) == self.original:
            return
        shutil.rmtree(self.work)
        shutil.copytree(self.pristine, self.work, symlinks=True)
        (self.work / "other-name").unlink()
        os.link(self.work / ".env", self.work / "other-name")

    def context(self, *, mode: str, backend: str, network: bool = True, member: bool = False) -> ToolContext:
        terminal = {"backend": backend, "network": network, "timeout": 20}
        return ToolContext(
            task=TASK,
            folder=str(self.member / "workspace" if member else self.work),
            home=self.base / "hermes",
            own=self.member if member else None,
            person="p-1" if member else "",
            settings=make_settings({"approvals": {"mode": mode}, "terminal": terminal}),
        )

    def run_at(self, walls: Walls, texts: tuple[str, ...], context: ToolContext) -> str:
        """Run them one after the other at a level, as if they had been let through unasked."""
        shell = shell_of(context)
        said = []
        for text in texts:
            state = find_state(shell, context)
            said.append(self._run(ShellStart(self.fill(text), state, walls, unasked=True), context))
        return "\n".join(said)

    def run_gated(self, texts: tuple[str, ...], context: ToolContext) -> str:
        """Run what the gate lets through with nobody there to be asked."""
        said = []
        for text in texts:
            try:
                start = clear_command(context, self.fill(text))
            except ToolFailure:
                continue
            assert start.unasked
            said.append(self._run(start, context))
        return "\n".join(said)

    def _run(self, start: ShellStart, context: ToolContext) -> str:
        shell = shell_of(context)
        launched = launch(start, shell, context, pty=False)
        if not launched.running.pump(SECONDS):
            launched.running.end(0)
            launched.running.pump(SECONDS)
        output = read_output(launched.running.spool)
        launched.running.finish()
        note_end(launched)
        launched.running.spool.close()
        return output

    def check_outside(self, output: str) -> None:
        """Nothing outside of the working folder was changed, and no canary was seen or sent."""
        assert self._read_around() == self.touched, "something outside was changed"
        leaked = [line for line in output.splitlines() if CANARY in line]
        assert not leaked, f"read: {leaked[:3]}"
        assert not any(CANARY.encode() in data for data in self.heard), "sent over the network"

    def check_unchanged(self) -> None:
        assert read_tree(self.work) == self.original, "the working folder was changed"

    def check_obeyed(self) -> None:
        for name in OBEYED:
            assert (self.work / name).read_bytes() == (self.pristine / name).read_bytes(), f"{name} was changed"

    def _read_around(self) -> dict[str, bytes]:
        """Everything but the working folders, what is no file of ours among it."""
        own = {str(self.work), str(self.member / "workspace")}
        return {
            f"{place}/{path}": data
            for place in ("outside", "person", "hermes")
            for path, data in read_tree(self.base / place, own).items()
        }


def read_tree(root: Path, left_out: Collection[str] = ()) -> dict[str, bytes]:
    """What the files of a folder hold, and where its links lead."""
    found: dict[str, bytes] = {}
    waiting = [str(root)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    found[entry.path[len(str(root)) :]] = os.readlink(entry.path).encode()
                elif not entry.is_dir():
                    with open(entry.path, "rb") as file:
                        found[entry.path[len(str(root)) :]] = file.read()
                elif entry.path not in left_out:
                    waiting.append(entry.path)
    return found


def write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


@contextmanager
def open_arena(base: Path) -> Iterator[Arena]:
    """The world, with a listener on loopback that takes whatever comes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        arena = Arena(base, listener.getsockname()[1])
        arena.build()
        threading.Thread(target=_listen, args=(listener, arena.heard), daemon=True).start()
        yield arena
    forget_shell(TASK)


def _listen(listener: socket.socket, heard: list[bytes]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return  # closed: the arena is over
        with connection:
            connection.settimeout(2)
            heard.append(b"connected ")
            connection.shutdown(socket.SHUT_WR)  # who only listens gets an end
            try:
                while data := connection.recv(65536):
                    heard.append(data)
            except OSError:
                continue
