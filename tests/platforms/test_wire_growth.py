"""F5: a text that a stranger made for it costs no more than its length, wherever the event loop or the readers of mail
look at it before anybody has asked who wrote."""

from collections.abc import Callable
from typing import Any

import pytest
from growth import MOST, measure_growth

from gateway.platforms.mail.mail_body import read_html
from gateway.platforms.mail.quoted_text import split_quoted
from gateway.platforms.mail.sender_proof import decode_words, read_authserv_id, read_results, read_sender
from gateway.platforms.matrix.wire import MatrixSelf, RoomView, read_event
from gateway.platforms.slack.wire_text import list_people, read_command, show_text
from hermes_base import command_table
from hermes_base.text.file_names import make_safe_name
from hermes_base.text.wrappers import HEAD_BEGINS, bare_words

ME, ROOM = MatrixSelf("bot", "@h:x", "Hermes"), RoomView("!r", "group")
SIZE = 12_000  # characters; four times as many are near the most that an event of Matrix has


def read_matrix(reply: bool = False, **content: Any) -> object:
    said = {"type": "m.room.message", "sender": "@s:x", "event_id": "$1", "origin_server_ts": 1}
    content = {"msgtype": "m.text", "body": "hi", **content}
    if reply:
        content["m.relates_to"] = {"m.in_reply_to": {"event_id": "$0"}}
    event = {**said, "content": content}
    return read_event(event, {"$0": event} if reply else {}, ROOM, ME)


def repeat(unit: str) -> Callable[[int], str]:
    return lambda size: unit * (size // len(unit))


def nest_links(size: int) -> str:
    count = size // 30
    return "<a href=http://a>" * count + "x<b>" * count + "</a>" * count


READERS: dict[str, tuple[Callable[[str], object], list[str]]] = {
    "Matrix, markup": (lambda text: read_matrix(formatted_body=text), ["<mx-reply>", "matrix.to/#/", "<", "@h:x"]),
    "Matrix, text": (lambda text: read_matrix(body=text), ["> \n", "@h:x", "@h:x ", " ", "Hermes"]),
    "Matrix, reply": (lambda text: read_matrix(True, body=text), ["> \n", "> a\n", "\n"]),
    "Slack": (lambda text: show_text(text, {}, "UB", "Hermes"), ["<", "<@", "<@UB|", "<@UB>", " "]),
    "Slack, people": (list_people, ["<@U1|", "<@", "<@U"]),
    "Slack, command": (lambda text: read_command(f"!{text}", frozenset()), ["a", "-", "a-"]),
    "mail, text": (split_quoted, ["> \n", "On 1 wrote:\n", "1 :\n", "--- a\n", "From: a\nTo: b\n", "-- \n"]),
    "mail, HTML": (read_html, ["<a>", "<blockquote>", "<ul><li>", "<!--", "&#", "<a b=", "</"]),
    "mail, sender": (read_sender, ['"\\', "a.", "<", "a "]),
    "mail, results": (lambda text: read_results(f"x; {text}"), ["a=b ", "a/1=", "(", '"\\', " "]),
    "mail, server": (read_authserv_id, ["(", "()", "\\", " "]),
    "mail, words": (decode_words, ["=?utf-8?q?a", "=?utf-8?b?", "=?"]),
    "commands": (command_table.parse, ["/a ", "/a", " ", "/"]),
    "file names": (make_safe_name, ["/", ".", "a.", " "]),
    "words": (bare_words, ["[image : /", HEAD_BEGINS, "\n[", "[·"]),
}


@pytest.mark.parametrize(
    ("reader", "unit"), [(reader, unit) for reader, (_, units) in READERS.items() for unit in units]
)
def test_work_grows_with_the_text_and_not_with_its_square(reader: str, unit: str) -> None:
    """F5."""
    assert measure_growth(READERS[reader][0], repeat(unit), SIZE) < MOST


def test_an_encoded_word_that_is_none_stays_as_it_is() -> None:
    """C1: the library raises where its base64 is odd; the mail is read all the same."""
    assert decode_words("=?utf-8?b?a?= hello") == "=?utf-8?b?a?= hello"


def test_links_within_links_are_read_once() -> None:
    """F5."""
    assert measure_growth(read_html, nest_links, SIZE) < MOST
    assert read_html('<a href="http://a.example">x <a href="http://b.example">y</a></a>') == "x y (http://b.example)"


def test_marks_of_speakers_without_end_are_read_once() -> None:
    """F5."""
    assert measure_growth(bare_words, lambda size: "[" + "·" * size, 500) < MOST
