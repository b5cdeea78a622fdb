"""G6: addresses are shown without what opens them, and that counts as a secret."""

import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_base.text.addresses import describe_address, find_address_secrets, find_in_addresses
from hermes_base.text.redact import Redactor

PASSWORD = st.text(min_size=8, max_size=20).filter(lambda text: text.isprintable() and text.isascii())


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://user:pass@host:8000/v1", "http://host:8000/v1"),
        ("https://token@host/v1", "https://host/v1"),
        ("user:pass@proxy:3128", "proxy:3128"),
        ("https://host/v1?key=abc&api-version=2024-10-21", "https://host/v1?key=…&api-version=2024-10-21"),
        ("https://host/v1?api_key=abc#x", "https://host/v1?api_key=…#x"),
        ("http://us:a/b@host/v1", "http://…@host/v1"),
        ("http://[::1", "http://[::1"),
        ("https://api.example.com/v1", "https://api.example.com/v1"),
        ("", ""),
        ("no address at all", "no address at all"),
    ],
)
def test_an_address_is_shown_without_what_opens_it(address: str, shown: str) -> None:
    """G6"""
    assert describe_address(address) == shown


@given(PASSWORD, st.booleans(), st.booleans())
def test_a_password_in_an_address_is_found_in_every_spelling(password: str, lower: bool, in_query: bool) -> None:
    """G6: as it is written there, and as it is meant."""
    written = quote(password, safe="")
    if lower:
        written = re.sub("%..", lambda code: code[0].lower(), written)
    address = f"http://host/v1?x=1&key={written}" if in_query else f"http://somebody:{written}@host/v1"
    assert written not in describe_address(address).replace("host/v1", "")
    redact = Redactor(find_in_addresses([("model.base_url", address)]))
    for text in (address, password, written):
        assert password not in redact(f"- {text} -")
        assert written not in redact(f"- {text} -")


def test_a_short_password_is_found_beside_its_user() -> None:
    """G6"""
    redact = Redactor(find_in_addresses([("model.base_url", "http://user:pass@host/v1")]))
    assert "pass@" not in redact("no answer of http://user:pass@host/v1")
    assert redact("it will pass") == "it will pass"


def test_a_password_that_is_the_users_name_is_no_secret_alone() -> None:
    assert list(find_address_secrets("postgres://postgres:postgres@localhost")) == ["postgres:postgres"]
