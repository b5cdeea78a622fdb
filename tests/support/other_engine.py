"""One suite, two engines: with HERMES_TESTS_STORE=postgres every home of a test has its store in a database of its own,
where the settings say nothing. Each process finds it by the home's path; whoever asks first makes it."""

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from psycopg import errors, sql

from hermes_base import store_place

IS_POSTGRES = os.environ.get("HERMES_TESTS_STORE") == "postgres"
_SERVER = "HERMES_TESTS_SERVER"  # the address of a database with an empty store, of which the others are copies
_OF_FOLDER = "select datname from pg_database where shobj_description(oid, 'pg_database') like %s"


def take_effect() -> None:
    """From now on, in this process and in those that it begins."""
    os.environ["PYTHONPATH"] = str(Path(__file__).with_name("every_process"))
    learn = store_place.learn_addresses

    def learn_both(find: Callable[[Path], str]) -> None:
        learn(lambda home: find(home) or _find_database(str(home)))

    store_place.learn_addresses = learn_both
    learn_both(store_place._find_address)


def use_server(address: str) -> None:
    """Of a database with an empty store."""
    os.environ[_SERVER] = address


def drop_databases(folder: Path) -> None:
    """Those of the homes in this folder."""
    _find_database.cache_clear()
    with psycopg.connect(_change(os.environ[_SERVER], "postgres"), autocommit=True) as server:
        for (name,) in server.execute(_OF_FOLDER, (f"{os.path.realpath(folder)}/%",)).fetchall():
            server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@cache
def _find_database(home: str) -> str:
    address = os.environ.get(_SERVER, "")
    if not address:
        return ""
    path = os.path.realpath(home)
    name = f"home_{hashlib.sha256(path.encode()).hexdigest()[:20]}"
    with psycopg.connect(_change(address, "postgres"), autocommit=True) as server:
        made, told = sql.SQL("create database {} template {}"), sql.SQL("comment on database {} is {}")
        try:
            server.execute(made.format(sql.Identifier(name), sql.Identifier(urlsplit(address).path[1:])))
            server.execute(told.format(sql.Identifier(name), path))
        except (errors.DuplicateDatabase, errors.UniqueViolation):
            pass
    return _change(address, name)


def _change(address: str, name: str) -> str:
    return urlsplit(address)._replace(path=f"/{name}").geturl()
