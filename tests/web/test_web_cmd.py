"""`hermes web` beside a running gateway, without one, and beside one that serves no page."""

import webbrowser
from pathlib import Path

import httpx2
import pytest
from web_house import WebHouse

from gateway.http.access import read_token
from hermes_base.errors import HermesError
from hermes_cli.cmds import web_cmd
from hermes_lab.server import LabServer

Output = pytest.CaptureFixture[str]


def test_it_prints_the_address_that_opens_the_page(web: WebHouse, capsys: Output) -> None:
    assert web_cmd.main([]) == 0
    address = capsys.readouterr().out.strip()
    assert address == web.address
    assert httpx2.get(address).status_code == 303


def test_a_new_token_voids_the_old_address(web: WebHouse, capsys: Output) -> None:
    """G11: the old address and all who are logged in are out."""
    visitor = web.visit()
    old = web.address
    web_cmd.main(["--new-token"])
    told, _, address = capsys.readouterr().out.strip().rpartition("\n")
    assert "new token" in told
    assert httpx2.get(old).status_code == 403
    assert httpx2.get(address).status_code == 303
    assert visitor.http.get("/web/me").status_code == 401


def test_it_opens_a_browser(web: WebHouse, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: not opened.append(address))
    web_cmd.main(["--open"])
    assert opened == [web.address]
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    with pytest.raises(HermesError, match="No browser"):
        web_cmd.main(["--open"])
    assert capsys.readouterr().out.count(web.address) == 2


def test_without_a_gateway_there_is_a_sentence(home: Path) -> None:
    with pytest.raises(HermesError, match="No gateway runs"):
        web_cmd.main([])


def test_a_gateway_without_a_page_is_a_sentence(home: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_cmd, "_OPENING_SECONDS", 0.0)
    with (
        WebHouse(home, lab.base_url, web={"enabled": False}),
        pytest.raises(HermesError, match=r"serves no page.*web\.enabled"),
    ):
        web_cmd.main([])


def test_elsewhere_the_token_is_not_printed(
    home: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """G11: where the token opens nothing, it is not shown either."""
    monkeypatch.setenv("HERMES_WEB_PASSWORD", "a password")
    with WebHouse(home, lab.base_url, web={"host": "0.0.0.0"}):
        web_cmd.main([])
    assert read_token(home) not in capsys.readouterr().out
