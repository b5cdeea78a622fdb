"""A service that cannot be reached is told in words: where the call went, and what was in its way."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.platforms.account_settings import CONNECTED, read_account
from gateway.platforms.irc.connection import irc_stream
from gateway.platforms.irc.connection.handshake import Introduced
from gateway.platforms.irc.irc_settings import make_context as make_irc_context
from gateway.platforms.irc.irc_settings import read_settings
from gateway.platforms.irc.probe import describe
from gateway.platforms.platform_list import find_spec
from gateway.platforms.xmpp.xmpp_settings import make_context as make_xmpp_context
from gateway.platforms.xmpp.xmpp_settings import read_settings as read_xmpp
from gateway.service.admin.platform_setup import probe_platform
from hermes_base.errors import ConfigProblem

NAMES = {
    "discord": {"token": "a.b.c"},
    "telegram": {"token": "1:a"},
    "whatsapp": {"token": "t", "phone_number_id": "1", "app_secret": "s" * 32, "verify_token": "v" * 20},
    "matrix": {"user": "@h:localhost", "token": "t"},
}


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


def say_trouble(platform: str, **section: Any) -> str:
    with pytest.raises(ConfigProblem) as raised:
        probe_platform(find_spec(platform), section)
    return str(raised.value)


@pytest.mark.parametrize("platform", NAMES)
def test_nobody_at_the_address(platform: str, home: Path) -> None:
    """H3"""
    place = "homeserver" if platform == "matrix" else "base_url"
    said = say_trouble(platform, **NAMES[platform], **{place: "http://127.0.0.1:1"})
    assert "nobody takes the connection" in said
    assert "no connection to" in said
    assert "Error" not in said
    assert home.parent.exists()


@pytest.mark.parametrize("platform", [name for name in NAMES if name != "matrix"])
def test_an_address_that_is_none(platform: str) -> None:
    """H3: refused before anything is asked, wherever the account is read."""
    with pytest.raises(ConfigProblem, match=rf"platforms\.{platform}\.base_url is '127.0.0.1:1', which is no address"):
        read_account(find_spec(platform), {"base_url": "127.0.0.1:1"}, platform, lambda name: "")


def test_a_port_without_tls_is_told_from_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """H3"""
    monkeypatch.setattr(irc_stream, "TLS_SECONDS", 0.2)
    with deaf_port() as port:
        said = say_trouble("irc", server=f"127.0.0.1:{port}", nick="hermes")
    assert f"127.0.0.1:{port} takes the connection, but does not begin TLS" in said
    assert "nobody takes the connection" in say_trouble("irc", server="127.0.0.1:1", nick="hermes")


def test_the_nick_that_the_gateway_has_is_not_taken() -> None:
    """The doctor's own connection gets another nick while the gateway is connected."""
    settings = read_settings({"server": "127.0.0.1", "nick": "hermes", CONNECTED: True})
    found = Introduced(nick="hermes_")
    assert "It is hermes on" in describe(settings, found, is_ours=True)
    assert "taken" not in describe(settings, found, is_ours=True)
    assert "It is hermes_ on 127.0.0.1, not logged in to an account of its own (the nick hermes is taken)" in (
        describe(settings, found)
    )


def test_a_name_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """H3"""

    async def fail(*args: Any, **more: Any) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(asyncio, "open_connection", fail)
    said = say_trouble("irc", server="irc.nowhere.test", nick="hermes")
    assert "irc.nowhere.test cannot be reached: the name of the server is not known." in said


@pytest.mark.parametrize(
    ("make", "section"),
    [
        (
            make_irc_context,
            read_settings({"server": "irc.example.org", "nick": "hermes", "ca_file": "~nobody-here/ca.pem"}),
        ),
        (make_xmpp_context, read_xmpp({"jid": "h@example.org", "password": "p", "ca_file": "~nobody-here/ca.pem"})),
    ],
)
def test_a_certificate_in_the_folder_of_nobody_is_a_file_that_is_not_there(make: Any, section: Any) -> None:
    """H3"""
    with pytest.raises(ConfigProblem, match=r"ca_file names ~nobody-here/ca\.pem, which is no file"):
        make(section)
