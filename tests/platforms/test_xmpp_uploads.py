"""C9: what an upload service says is about the file: nobody there is waited for, and nothing there is in doubt."""

import asyncio
from typing import cast
from xml.etree.ElementTree import Element

import pytest

from gateway.platforms.face import NeverTaken, NotNow
from gateway.platforms.xmpp.refusals import XmppKind, XmppTrouble
from gateway.platforms.xmpp.server.link import XmppLink
from gateway.platforms.xmpp.server.xmpp_uploads import XmppUploads
from gateway.platforms.xmpp.xmpp_settings import read_settings
from hermes_base.errors import DeliveryFailure


class RefusingLink:
    def __init__(self, trouble: XmppTrouble) -> None:
        self._trouble = trouble

    async def ask(self, payload: Element, to: str = "") -> Element:
        raise self._trouble


def put(trouble: XmppTrouble) -> DeliveryFailure:
    uploads = XmppUploads(read_settings({"jid": "hermes@example.org", "password": "x"}), "upload.example.org")
    with pytest.raises(DeliveryFailure) as told:
        asyncio.run(uploads.put(cast(XmppLink, RefusingLink(trouble)), "plan.pdf", b"x", "text/plain"))
    return told.value


@pytest.mark.parametrize(
    ("condition", "type_", "form"),
    [
        ("forbidden", "auth", NeverTaken),
        ("not-allowed", "cancel", NeverTaken),
        ("not-acceptable", "modify", NeverTaken),
        ("not-allowed", "wait", NotNow),
        ("service-unavailable", "cancel", NotNow),
        ("item-not-found", "cancel", NotNow),
        ("resource-constraint", "wait", NotNow),
        ("internal-server-error", "cancel", NotNow),
    ],
)
def test_a_refusal_of_the_upload_service_is_about_the_file(condition: str, type_: str, form: type) -> None:
    failure = put(XmppTrouble(XmppKind.REFUSED, condition, type_))
    assert type(failure) is form
    assert "plan.pdf" in str(failure)
    if isinstance(failure, NotNow):
        assert failure.seconds is not None
        assert not failure.whole_account


def test_an_upload_service_that_does_not_answer_leaves_no_doubt() -> None:
    assert type(put(XmppTrouble(XmppKind.UNSURE, text="no answer in time"))) is NotNow


def test_without_a_line_the_whole_account_waits() -> None:
    failure = put(XmppTrouble(XmppKind.UNSENT))
    assert isinstance(failure, NotNow)
    assert failure.whole_account
