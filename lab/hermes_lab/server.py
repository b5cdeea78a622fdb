"""Runs the lab: in a background thread for tests (`LabServer`) or in the foreground for a command (`serve`)."""

from pathlib import Path
from types import TracebackType
from typing import Self

from hermes_lab.app import LabApp, Settings
from hermes_lab.bill import Row, Sums
from hermes_lab.cache import DOCUMENTED_MINIMUM
from hermes_lab.hosting import LoopThread, describe_address, open_listener, serve_in_foreground
from hermes_lab.limits import Window
from hermes_lab.plan import Plan, PlanInput, load_plan
from hermes_lab.recorder import Recorded


def serve(
    host: str = "127.0.0.1",
    port: int = 0,
    plan_file: str | Path | None = None,
    record_file: str | Path | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; prints one line with the address when ready."""
    steps = load_plan(plan_file) if plan_file is not None else ()
    listener = open_listener(host, port)
    app = LabApp(steps, record_file)
    ready_line = f"hermes lab: {describe_address(listener)}/v1 (Ctrl-C ends it)"
    try:
        serve_in_foreground(app, listener, ready_line)
    finally:
        app.recorder.close()


class LabServer:
    """The server as a context manager, on a free loopback port and a thread of its own.

    Leaving it closes every connection and ends the thread, whatever the clients are doing.
    """

    def __init__(
        self,
        plan: Plan | PlanInput = (),
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        record_file: str | Path | None = None,
        window: Window = None,
        cache_minimum: int | None = DOCUMENTED_MINIMUM,
    ) -> None:
        self._app = LabApp(plan, record_file, Settings(window, cache_minimum))
        self._host = host
        self._port = port
        self._thread: LoopThread | None = None
        self.address = ""  # without a path, like http://127.0.0.1:4711

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        self._thread = LoopThread(self._app, self._host, self._port, "hermes-lab")
        self.address = self._thread.address

    def stop(self) -> None:
        if self._thread is None:
            return
        self._thread.stop()
        self._thread = None
        self._app.recorder.close()

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes as `base_url`; an Anthropic client takes `address`."""
        return f"{self.address}/v1"

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def requests(self) -> tuple[Recorded, ...]:
        """The requests to /v1/ so far, oldest first."""
        return self._app.recorder.list_requests()

    @property
    def in_flight(self) -> int:
        """Requests that are being answered now."""
        return self._app.in_flight

    @property
    def steps_left(self) -> int:
        return self._app.plan.count_left()

    @property
    def bill(self) -> dict[str, Sums]:
        """What each account (its API key) was charged."""
        return self._app.bill.list_sums()

    @property
    def bill_rows(self) -> tuple[Row, ...]:
        """The charged calls one by one, oldest first."""
        return self._app.bill.list_rows()

    def clear_bill(self) -> None:
        self._app.bill.clear()

    @property
    def now(self) -> float:
        """Seconds on the clock by which cached prefixes expire; it stands still until `advance`."""
        return self._app.clock.now

    def advance(self, seconds: float) -> None:
        self._app.clock.advance(seconds)

    def set_plan(self, steps: PlanInput) -> None:
        self._app.plan.replace(steps)

    def clear_requests(self) -> None:
        self._app.recorder.clear()
