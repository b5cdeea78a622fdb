"""What a shell takes from command to command, its folder and its variables: as data that is read, checked and limited.

A command may write into its state whatever it likes. Nothing of it reaches the program that starts the next command;
what passes the checks here is given to the command itself.
"""

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from hermes_constants.ordinary_files import open_file

STATE_BYTES = 256 * 1024
MOST_VARIABLES = 500
LONGEST_VALUE = 32 * 1024
LONGEST_FOLDER = 4096
BROKEN = "\ufffd"  # stands where bytes were no text
#: Bash sets these anew in every shell; they say nothing about what the command wanted.
OWN_NAMES = frozenset({"_", "SHLVL", "PWD"})
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: With these a shell or the loader runs code before the command that was shown: they are not kept. All others are
#: kept, and a question shows them.
RUNS_CODE = re.compile(
    r"BASH_ENV|ENV|BASHOPTS|SHELLOPTS|PROMPT_COMMAND|PS[0-4]|IFS|BASH_XTRACEFD|LD_\w+|DYLD_\w+|GCONV_PATH|GLIBC_TUNABLES"
    r"|LOCPATH|HOSTALIASES|NLSPATH"
)
#: What a command gets of the environment that Hermes was started in; everything else may be a secret.
INHERITED = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TZ|TERM|COLORTERM|NO_COLOR|FORCE_COLOR|COLUMNS|LINES|CI|MANPATH"
    r"|VIRTUAL_ENV|CONDA_PREFIX|CONDA_DEFAULT_ENV|PYENV_ROOT|PYENV_VERSION|NVM_DIR|NVM_BIN|NODENV_ROOT|RBENV_ROOT|GOROOT"
    r"|GOPATH|GOTOOLCHAIN|RUSTUP_HOME|RUSTUP_TOOLCHAIN|JAVA_HOME|M2_HOME|SDKMAN_DIR|DENO_INSTALL|BUN_INSTALL"
    r"|VOLTA_HOME|ASDF_DIR|ASDF_DATA_DIR|MISE_DATA_DIR|PNPM_HOME|DOTNET_ROOT|ANDROID_HOME|NIX_PATH|NIX_PROFILES"
    r"|NIX_SSL_CERT_FILE|SSL_CERT_FILE|SSL_CERT_DIR|CURL_CA_BUNDLE|REQUESTS_CA_BUNDLE|NODE_EXTRA_CA_CERTS"
)
#: The way to the network; with a login in it, it is not passed on.
PROXY = re.compile(r"(http|https|ftp|all|no)_proxy", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ShellState:
    """Where a shell is, and how its variables differ from those it began with; None: taken away."""

    folder: str
    changes: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        merged = {**base, **self.changes}
        return {name: value for name, value in merged.items() if value is not None}


def choose_inherited(environ: Mapping[str, str], added: frozenset[str], secrets: frozenset[str]) -> dict[str, str]:
    """The variables that every command begins with: what programs need to be found and to speak, and what was added."""
    return {
        name: value
        for name, value in environ.items()
        if name in added
        or (name not in secrets and (INHERITED.fullmatch(name) or (PROXY.fullmatch(name) and "@" not in value)))
    }


def read_state(data: bytes, before: ShellState, began_with: Mapping[str, str]) -> ShellState:
    """The folder and the variables that a shell noted when it ended; what is not in order counts as not changed."""
    folder, *pairs = data.decode("utf-8", "replace").split("\0")
    if len(data) > STATE_BYTES or len(folder) > LONGEST_FOLDER or len(pairs) > MOST_VARIABLES + 1:
        return before
    if not folder.startswith("/") or "\n" in folder or BROKEN in folder:
        return before
    after = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    if not after:  # cut off before the variables
        return ShellState(folder, before.changes)
    changes = dict(before.changes)
    for name in {*after, *began_with}:
        value = after.get(name)
        if name in OWN_NAMES or not NAME.fullmatch(name) or RUNS_CODE.fullmatch(name):
            continue
        if value is not None and (len(value) > LONGEST_VALUE or BROKEN in value):
            continue
        ours = value is None and name not in before.changes and not INHERITED.fullmatch(name)  # not missed by anybody
        if began_with.get(name) != value and not ours:
            changes[name] = value
    return ShellState(folder, changes)


def take_state(folder: str, name: str) -> bytes:
    """Read and remove the file in which a shell noted its state; empty when there is none that can be one.

    The file is the command's to write: a link, a pipe or another user's file in its place is not read.
    """
    try:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        with open_file(name, folder=place) as file:
            status = os.fstat(file.fileno())
            ours = status.st_uid == os.geteuid() and status.st_nlink == 1
            return file.read(STATE_BYTES + 1) if ours else b""
    except OSError:
        return b""  # the command did not get to it, or left something else there
    finally:
        with contextlib.suppress(OSError):  # nothing was there, or a folder, which goes with the task
            os.unlink(name, dir_fd=place)
        os.close(place)
