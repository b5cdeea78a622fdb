"""PgBouncer, a pooler that gives each transaction to another session, before a server of a test."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from waiting import wait_until

from hermes_lab.database import PASSWORD, ROLE
from hermes_lab.ports import free_ports

_SETTINGS = """\
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = plain
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = 3
server_reset_query =
"""


@contextmanager
def pool(address: str) -> Iterator[str]:
    """The address behind which the same database is, through a pooler; the test is left out where there is none."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        if os.environ.get("HERMES_TESTS_NEED_PEERS"):
            pytest.fail("PgBouncer is not installed; scripts/setup peers installs it")
        pytest.skip("PgBouncer is not installed")
    parts = urlsplit(address)
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="hermes-pooler-") as folder:
        Path(folder, "pooler.ini").write_text(_SETTINGS.format(server=parts.port, port=port, folder=folder))
        Path(folder, "users").write_text(f'"{ROLE}" "{PASSWORD}"\n')
        user: dict[str, Any] = {}
        if os.geteuid() == 0:  # it refuses to be root
            nobody = pwd.getpwnam("nobody")
            os.chmod(folder, 0o755)
            user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        with subprocess.Popen([program, "-q", f"{folder}/pooler.ini"], cwd="/", **user) as process:
            netloc = parts.netloc.replace(f":{parts.port}", f":{port}")
            pooled = urlunsplit(parts._replace(netloc=netloc))
            try:
                wait_until(lambda: _answers(pooled))
                yield pooled
            finally:
                process.terminate()


def _answers(address: str) -> bool:
    try:
        psycopg.connect(address).close()
    except psycopg.OperationalError:
        return False
    return True
