"""The PostgreSQL server of a test process."""

import atexit
import os
from functools import cache

import pytest
from quick_folder import QUICK_FOLDER

from hermes_lab.database import PASSWORD, ROLE, PostgresServer, find_programs

__all__ = ["PASSWORD", "ROLE", "PostgresServer", "get_server"]


@cache
def get_server() -> PostgresServer:
    """The one of this process; the test is left out where the programs are missing."""
    if find_programs() is None:
        if os.environ.get("HERMES_TESTS_NEED_PEERS"):
            pytest.fail("PostgreSQL is not installed; scripts/setup peers installs it")
        pytest.skip("PostgreSQL is not installed")
    server = PostgresServer(QUICK_FOLDER)
    atexit.register(server.end)
    return server
