"""Telling a turn to stop: once, with the first reason, and every blocked call is cut."""

import threading

import pytest

from hermes_base.errors import Interrupted
from hermes_base.turn.cancel import CancelToken


def test_the_first_reason_stays_and_every_cut_runs() -> None:
    token = CancelToken()
    cut: list[str] = []

    def fail() -> None:
        raise OSError("already gone")

    token.on_cancel(fail)
    token.on_cancel(lambda: cut.append("a"))
    forget = token.on_cancel(lambda: cut.append("b"))
    forget()
    forget()
    token.check()
    token.cancel("because")
    token.cancel("again")
    assert (cut, token.reason) == (["a"], "because")
    with pytest.raises(Interrupted, match="because"):
        token.check()


def test_a_cut_registered_too_late_runs_at_once() -> None:
    token = CancelToken()
    token.cancel()
    cut: list[int] = []
    token.on_cancel(lambda: cut.append(1))
    assert cut == [1]


def test_a_wait_ends_with_the_token() -> None:
    token = CancelToken()
    threading.Timer(0.05, token.cancel).start()
    assert token.wait(30)
    assert not CancelToken().wait(0)
