"""A PostgreSQL server of our own on a free port, and fresh databases on it.

It refuses to run as root, so there it runs as `nobody`, in a folder that belongs to that user. Hermes connects as a
plain role that owns its databases."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from hermes_lab.ports import free_ports

ROLE, PASSWORD = "hermes", "a word that passes"
_numbers = count(1)


def find_programs() -> Path | None:
    """Where the server's own programs are; None: they are not installed."""
    folders = [*Path("/usr/lib/postgresql").glob("*/bin"), *(Path(one) for one in os.environ["PATH"].split(":"))]
    return next((one for one in folders if (one / "initdb").exists() and (one / "postgres").exists()), None)


class PostgresServer:
    """One server; `stop` and `start` are a crash and what comes after it."""

    def __init__(self, within: str | None = None) -> None:
        programs = find_programs()
        assert programs is not None
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="hermes-pg-", dir=within))
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        (self.port,) = free_ports(1)
        self._run("initdb", "-D", self._data, "-U", "admin", "-A", "scram-sha-256", "-N", "-E", "UTF8", "--locale=C",
                  f"--pwfile={self._write('password', 'admin')}")  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None
        self.start()
        with self.connect() as admin:
            admin.execute(f"create role {ROLE} login password '{PASSWORD}'")

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        if self._user:
            os.chown(path, self._user["user"], self._user["group"])
        return path

    def _run(self, program: str, *given: str) -> None:
        done = subprocess.run(
            [self._programs / program, *given], capture_output=True, text=True, cwd=self.folder, **self._user
        )
        assert done.returncode == 0, done.stderr

    def start(self, *settings: str) -> None:
        options = ("fsync=off", "full_page_writes=off", "max_connections=200", "shared_buffers=32MB",
                   "autovacuum=off", "max_wal_size=4GB", "listen_addresses=127.0.0.1", "unix_socket_directories=",
                   f"port={self.port}", "logging_collector=off", *settings)  # fmt: skip
        with open(self.folder / "log", "ab") as output:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *(f"-c{one}" for one in options)],
                stdout=output,
                stderr=output,
                cwd=self.folder,
                start_new_session=True,
                **self._user,
            )
        end = time.monotonic() + 30
        while True:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < end, (self.folder / "log").read_text()[-2000:]
                time.sleep(0.02)

    def cpu_seconds(self) -> float:
        """What it and its processes have used."""
        assert self._process is not None
        group, total = os.getpgid(self._process.pid), 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[2]) == group:
                    total += sum(map(int, fields[11:15]))  # with those of its processes that have ended
        return total / os.sysconf("SC_CLK_TCK")

    def crash(self) -> None:
        """The server ends in the midst of everything; what it had written down is taken up when it starts."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()

    def end(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self, database: str = "postgres") -> "psycopg.Connection[tuple[Any, ...]]":
        """As the server's administrator."""
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user="admin", password="admin", dbname=database, autocommit=True
        )

    def make_database(self, options: str = "") -> str:
        """The address of a new, empty one."""
        name = f"hermes_{next(_numbers)}"
        with self.connect() as admin:
            admin.execute(f"create database {name} owner {ROLE} {options}")
        return f"postgresql://{ROLE}:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{self.port}/{name}"
