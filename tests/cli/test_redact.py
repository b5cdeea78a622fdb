"""Secrets never come out: not in text, not in JSON, not in addresses, not in logs (G6)."""

import io
import json
import logging
from collections.abc import Iterator
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_base.text.redact import LiveText, RedactingFilter, Redactor

CANARY = 'sk-canary/"7f3a+9 ü'
SECRET = st.text(st.characters(exclude_categories=("Cs",)), min_size=8, max_size=24)


def test_a_secret_is_replaced_by_its_name() -> None:
    """G6."""
    redact = Redactor({"OPENAI_API_KEY": "sk-1234567890"})
    assert redact("key=sk-1234567890!") == "key=[redacted OPENAI_API_KEY]!"


def test_text_without_secrets_is_returned_as_it_is() -> None:
    text = "nothing here " * 1000
    assert Redactor({"A": "sk-1234567890"})(text) is text


def test_the_longer_of_two_secrets_goes_first() -> None:
    redact = Redactor({"SHORT": "abcdefgh", "LONG": "abcdefgh-ijkl"})
    assert redact("abcdefgh-ijkl abcdefgh") == "[redacted LONG] [redacted SHORT]"


def test_short_values_are_left_alone() -> None:
    assert Redactor({"A": "true", "B": ""})("it is true") == "it is true"


@pytest.mark.parametrize("write", [str, json.dumps, quote, quote_plus, lambda text: quote(text, safe="")])
def test_escaped_forms_are_found(write: object) -> None:
    """G6."""
    written = write(CANARY)  # type: ignore[operator]
    assert Redactor({"KEY": CANARY})(f"before {written} after").count("[redacted KEY]") == 1


@given(st.dictionaries(st.text("ABC_", min_size=1, max_size=6), SECRET, min_size=1, max_size=4), st.data())
def test_no_secret_of_eight_or_more_characters_survives(secrets: dict[str, str], data: st.DataObject) -> None:
    """G6: in any order and any neighbourhood, overlapping or hidden in a name."""
    piece = st.sampled_from(sorted(secrets.values())) | st.text(max_size=10) | st.just("[redacted A]")
    text = "".join(data.draw(st.lists(piece, max_size=8)))
    clean = Redactor(secrets)(text)
    assert not [secret for secret in secrets.values() if secret in clean]


@pytest.mark.parametrize("secret", ["redacted", "[redacted", "redacted NAME", "d NAME]xy"])
def test_a_secret_that_stands_in_a_mark_does_not_survive_either(secret: str) -> None:
    """G6."""
    assert secret not in Redactor({"NAME": secret, "OTHER": "12345678"})(f"{secret} 12345678xy {secret}xy")


@pytest.fixture
def log() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(RedactingFilter(lambda: Redactor({"KEY": CANARY})))
    handler.setFormatter(logging.Formatter("%(name)s %(message)s %(turn)s", defaults={"turn": ""}))
    logger = logging.getLogger("test_redact")
    logger.propagate = False
    logger.addHandler(handler)
    yield logger, out
    logger.removeHandler(handler)


def _log_message(logger: logging.Logger) -> None:
    logger.error("got " + CANARY)


def _log_argument(logger: logging.Logger) -> None:
    logger.error("got %s", CANARY)


def _log_mapping(logger: logging.Logger) -> None:
    logger.error("got %(key)s", {"key": CANARY})


def _log_object(logger: logging.Logger) -> None:
    logger.error(ValueError(CANARY))


def _log_trace(logger: logging.Logger) -> None:
    try:
        raise RuntimeError(CANARY)
    except RuntimeError:
        logger.exception("failed")


def _log_extra(logger: logging.Logger) -> None:
    logger.error("x", extra={"turn": CANARY})


def _log_misfit(logger: logging.Logger) -> None:
    logger.error("%d %s %s", CANARY)


WAYS = [_log_message, _log_argument, _log_mapping, _log_object, _log_trace, _log_extra, _log_misfit]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_no_way_of_logging_lets_a_secret_out(way, log, capsys) -> None:  # type: ignore[no-untyped-def]
    """G6."""
    logger, out = log
    way(logger)
    everything = out.getvalue() + capsys.readouterr().err
    assert "7f3a" not in everything
    assert "[redacted KEY]" in everything


def test_a_trace_stays_readable(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, out = log
    _log_trace(logger)
    assert "Traceback" in out.getvalue()
    assert "RuntimeError: [redacted KEY]" in out.getvalue()


# --- live text


@given(
    st.lists(st.text("abc", min_size=8, max_size=12), min_size=1, max_size=3),
    st.lists(st.text("abc", max_size=12), max_size=12),
    st.data(),
)
def test_a_secret_in_pieces_never_comes_out(keys: list[str], words: list[str], data: st.DataObject) -> None:
    """G6: however a stream is cut, what is shown is what the whole text would be shown as."""
    redact = Redactor({f"K{number}": key for number, key in enumerate(keys)})
    text = "".join(data.draw(st.permutations([*words, *keys])))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)))
    told: list[str] = []
    live = LiveText(redact, told.append)
    for start, stop in pairwise([0, *cuts, len(text)]):
        live.feed(text[start:stop])
        assert not [key for key in keys if key in "".join(told)]
    live.flush()
    assert "".join(told) == redact(text)


def test_what_cannot_begin_a_secret_is_shown_at_once() -> None:
    """G6: nothing is held back that need not be."""
    told: list[str] = []
    live = LiveText(Redactor({"KEY": "sk-1234567890"}), told.append)
    for piece in ("Hello ", "there. ", "The ask", "ing", " sk", "-12", "x"):
        live.feed(piece)
    assert told == ["Hello ", "there. ", "The a", "sking", " ", "sk-12x"]


def test_without_secrets_a_piece_goes_through() -> None:
    told: list[str] = []
    LiveText(Redactor({}), told.append).feed("sk-1234567890")
    assert told == ["sk-1234567890"]


def test_no_more_than_the_longest_secret_is_held_back() -> None:
    told: list[str] = []
    live = LiveText(Redactor({"KEY": "a" * 20}), told.append)
    for _ in range(10):
        live.feed("a" * 19)
    live.flush()
    assert "a" * 20 not in "".join(told)
    assert "".join(told).count("[redacted KEY]") == 9
