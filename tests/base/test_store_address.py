"""Addresses of databases: read as they are typed, shown without what is secret, and refused with what was meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_base.errors import ConfigProblem
from hermes_base.text.store_address import describe_store_address, put_password, read_store_address, take_password

CANARY = "s3cret-c4nary"


@pytest.mark.parametrize(
    ("typed", "bare", "password"),
    [
        ("postgresql://u:p@h/n", "postgresql://u@h/n", "p"),
        ("postgres://u:p@h:5433/n?sslmode=require", "postgres://u@h:5433/n?sslmode=require", "p"),
        ("postgresql://u:p@ss/w?rd #%:@h/n", "postgresql://u@h/n", "p@ss/w?rd #%:"),
        ("postgresql://u:a%20b%40c@[::1]:5/n", "postgresql://u@[::1]:5/n", "a b@c"),
        ("postgresql://u@h/n?password=a+b%2F&sslmode=prefer", "postgresql://u@h/n?sslmode=prefer", "a+b/"),
        ("postgresql:///n", "postgresql:///n", ""),
        ("postgresql://u:p@/n?host=/var/run/postgresql", "postgresql://u@/n?host=/var/run/postgresql", "p"),
        ("postgresql://%2Fvar%2Frun/n?options=-c%20x%3Dy", "postgresql://%2Fvar%2Frun/n?options=-c%20x%3Dy", ""),
        ("postgresql://u:p@a:1,b:2/n?target_session_attrs=read-write", None, "p"),
        ("postgresql://u:p@h?dbname=n", "postgresql://u@h/?dbname=n", "p"),
    ],
)
def test_a_password_is_taken_out_and_put_back(typed: str, bare: str | None, password: str) -> None:
    """G6: whatever signs it has, and nothing else changes."""
    taken = take_password(typed)
    assert taken == (bare or typed.replace(":p@", "@"), password)
    assert take_password(put_password(taken[0], password)) == taken


@given(st.text(st.characters(blacklist_categories=("C", "Z")), min_size=1, max_size=30))
def test_any_password_comes_back(password: str) -> None:
    assert take_password(put_password("postgresql://u@h/n", password)) == ("postgresql://u@h/n", password)


@pytest.mark.parametrize(
    ("typed", "word"),
    [
        ("postgre://u:{}@h/n", "misspelt. Nothing was changed. Write postgresql://"),
        ("postgresq://h/n", "misspelt"),
        ("psql://u:{}@h/n", "misspelt"),
        ("mysql://u:{}@h/n", "'mysql', which no store can be kept in"),
        ("sqlite:///x.db", "a store in a file needs no store.url"),
        ("u:{}@h/n", "does not begin with postgresql://"),
        ("/var/lib/hermes.db", "does not begin with postgresql://"),
        ("postgresql://u:{}@h:port/n", "port in store.url is no number"),
        ("postgresql://u:{}@h:99999/n", "port in store.url is no number"),
        ("postgresql://u:{}@h", "names no database"),
        ("postgresql://u:{}@h/", "names no database"),
        ("postgresql://u:{}@[::1/n", "port in store.url is no number"),
        ("postgresql://u:{}@h /n", "cannot be read"),
        ("postgresql://u:{}@h/n\n", "cannot be read"),
        ("postgresql://u@v:{}@h/n@x", "cannot be read"),
    ],
)
def test_a_slip_is_told_with_what_was_meant_and_without_the_password(typed: str, word: str) -> None:
    """I6, H8, G6"""
    address = typed.format(CANARY)
    with pytest.raises(ConfigProblem) as refused:
        read_store_address(address)
    assert word in str(refused.value)
    assert CANARY not in str(refused.value)
    assert CANARY not in describe_store_address(address)


def test_what_is_shown_has_neither_login_nor_secret_parameters() -> None:
    """G6"""
    shown = describe_store_address(f"postgresql://me:{CANARY}/@h:1/n?sslmode=require&sslpassword={CANARY}")
    assert shown == "postgresql://h:1/n?sslmode=require&sslpassword=…"
