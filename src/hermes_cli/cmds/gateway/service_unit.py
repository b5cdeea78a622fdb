"""The gateway as a service of systemd: the text of its unit, the unit's name and place, and the calls that load it.

Nothing here writes or runs anything.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hermes_base.errors import HermesError
from hermes_cli.cmds.gateway.crash_guard import REFUSED

#: The first line of every unit of ours: a file without it is somebody else's, and is left alone.
MARK = "# Written by `hermes gateway install`; `hermes gateway uninstall` removes it."
#: Longer than a gateway takes to end by itself, which is ten seconds at most.
STOP_SECONDS = 30
#: F9: a crash is followed by a pause; after this many starts in this time systemd stops trying and says so.
PAUSE_SECONDS, STARTS, STARTS_SECONDS = 15, 5, 600
#: `-P`: a file in the folder where it starts must not be taken for a module of Hermes.
ARGUMENTS = ("-P", "-m", "hermes_cli.main", "gateway", "run")
_SYSTEM_FOLDER = Path("/etc/systemd/system")
_PLAIN_NAME = "hermes-gateway"
_NOT_IN_A_PROGRAM = frozenset("\"'\\")  # systemd takes no program with these in its path
_TEXT = """\
{mark}
[Unit]
Description=Hermes gateway ({described})
StartLimitIntervalSec={starts_seconds}
StartLimitBurst={starts}

[Service]
Type=exec
{user}WorkingDirectory=~
Environment={home}
ExecStart={program} {arguments}
Restart=on-failure
RestartSec={pause}
# It was refused after crashes in a row: trying again would change nothing.
RestartPreventExitStatus={refused}
# The gateway ends its turns and the commands that they run; what is left after that is killed.
KillMode=mixed
TimeoutStopSec={stop}
# A command that takes all the memory ends alone, without the gateway.
OOMPolicy=continue
# A core dump would hold keys and conversations.
LimitCORE=0
# NoNewPrivileges, RestrictNamespaces, PrivateTmp and the Protect settings are left out on purpose. Commands run in
# bubblewrap, which makes namespaces and a /proc of its own and is refused that under most of these; and terminals
# share /tmp with the gateway.

[Install]
WantedBy={target}
"""


@dataclass(frozen=True, slots=True)
class Unit:
    """The service of one home: a user's own, or with `user` set one of the whole system that runs as that user."""

    home: Path
    python: Path
    folder: Path  # where units of this kind are
    name: str
    user: str = ""

    @property
    def path(self) -> Path:
        return self.folder / self.name

    @property
    def link(self) -> Path:
        """What `systemctl enable` makes."""
        return self.folder / f"{self.target}.wants" / self.name

    @property
    def target(self) -> str:
        return "multi-user.target" if self.user else "default.target"

    def call(self, *words: str) -> tuple[str, ...]:
        """A call of systemctl for this kind of unit."""
        return ("systemctl", *words) if self.user else ("systemctl", "--user", *words)

    @property
    def enabling(self) -> tuple[tuple[str, ...], ...]:
        return self.call("daemon-reload"), self.call("enable", "--now", self.name)


def describe_unit(home: Path, python: Path, environment: Mapping[str, str], user: str = "") -> Unit:
    """The unit of this home and this Python, for the user of this environment; with a name, one of the system."""
    own = Path(environment.get("HOME") or Path.home())
    settings = Path(environment.get("XDG_CONFIG_HOME") or own / ".config")
    folder = _SYSTEM_FOLDER if user else settings / "systemd" / "user"
    home = home.absolute()
    return Unit(home, python.absolute(), folder, name_unit(home, own), user)


def name_unit(home: Path, own: Path) -> str:
    """The usual home has the plain name; any other adds its folder's name, and a sum that tells homes apart."""
    if home == own / ".hermes":
        return f"{_PLAIN_NAME}.service"
    word = re.sub(r"[^A-Za-z0-9]+", "-", home.name).strip("-")[:40] or "home"
    return f"{_PLAIN_NAME}-{word}-{hashlib.sha256(str(home).encode(errors='surrogateescape')).hexdigest()[:8]}.service"


def write_unit(unit: Unit) -> str:
    """The unit's text; HermesError when systemd could not read one of the paths."""
    return _TEXT.format(
        mark=MARK,
        described=_escape_percent(_check(unit.home)),
        user=f"User={unit.user}\n" if unit.user else "",
        home=quote(f"HERMES_HOME={_check(unit.home)}"),
        # The colon: a dollar sign in the path is one, and not the beginning of a variable.
        program=quote(f":{_check(unit.python, _NOT_IN_A_PROGRAM)}"),
        arguments=" ".join(ARGUMENTS),
        target=unit.target,
        pause=PAUSE_SECONDS,
        refused=REFUSED,
        starts=STARTS,
        starts_seconds=STARTS_SECONDS,
        stop=STOP_SECONDS,
    )


def quote(word: str) -> str:
    """One word for systemd, whatever spaces, quotes, backslashes and percent signs are in it."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{_escape_percent(escaped)}"'


def is_in_unit(cgroups: str, unit: Unit) -> bool:
    """Whether a process with this /proc/PID/cgroup belongs to the unit; those of a user are below `user@`."""
    paths = (line.split("/") for line in cgroups.splitlines())
    own = [path for path in paths if unit.name in path]
    return any(any(part.startswith("user@") for part in path) != bool(unit.user) for path in own)


def _escape_percent(text: str) -> str:
    return text.replace("%", "%%")


def _check(path: Path, refused: frozenset[str] = frozenset()) -> str:
    text = str(path)
    if not text.isprintable() or refused & set(text):
        raise HermesError(
            f"systemd cannot use the path {text!r}: it has characters that a unit cannot hold.",
            kept="Nothing was written.",
            fix="Move it to a path of plain characters.",
        )
    return text
