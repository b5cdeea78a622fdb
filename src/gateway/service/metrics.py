"""Writes what the gateway counts in the text format of Prometheus (H9). No label names a conversation or a person."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gateway.core.meters import Meters, Spread, Tally
from gateway.service.admin.operations import count_reasons, count_watchers, is_connected
from gateway.turns.lanes import Lanes
from gateway.turns.run_turn import GatewayParts
from gateway.turns.sender import measure_free
from hermes_constants import VERSION

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})


Sums = Mapping[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Sample:
    value: float
    labels: tuple[tuple[str, str], ...] = ()
    ending: str = ""  # of the name: _bucket, _sum, _count


@dataclass(frozen=True, slots=True)
class Family:
    """Samples of one name."""

    name: str
    kind: str
    doc: str
    samples: tuple[Sample, ...]


# --- as text


def write_text(families: Iterable[Family]) -> str:
    """In the format that Prometheus reads, version 0.0.4."""
    lines = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.doc.translate(_HELP_ESCAPES)}\n")
        lines.append(f"# TYPE {family.name} {family.kind}\n")
        for sample in family.samples:
            named = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in sample.labels)
            labels = f"{{{named}}}" if named else ""
            lines.append(f"{family.name}{sample.ending}{labels} {sample.value:.17g}\n")
    return "".join(lines)


# --- families


def count_family(name: str, doc: str, tally: Tally | Sums, *labels: str) -> Family:
    """A counter; without anything counted it has no samples, but is there."""
    sums = tally.read() if isinstance(tally, Tally) else tally
    samples = (Sample(value, tuple(zip(labels, values, strict=True))) for values, value in sorted(sums.items()))
    return Family(name, COUNTER, doc, tuple(samples))


def gauge_family(name: str, doc: str, value: float) -> Family:
    return Family(name, GAUGE, doc, (Sample(value),))


def spread_family(name: str, doc: str, spread: Spread) -> Family:
    """A histogram: each bucket holds the ones before it, too."""
    samples, below = [], 0
    for bound, count in zip((*spread.bounds, float("inf")), spread.counts, strict=True):
        below += count
        samples.append(Sample(below, (("le", f"{bound:g}" if bound != float("inf") else "+Inf"),), "_bucket"))
    samples += [Sample(spread.total, ending="_sum"), Sample(spread.count, ending="_count")]
    return Family(name, HISTOGRAM, doc, tuple(samples))


def collect(
    parts: GatewayParts, lanes: Lanes, depth: tuple[int, int], unsent: Mapping[str, int], config_problem: str
) -> Iterator[Family]:
    """Everything there is to tell; `depth` is what waits in the inbox and the outbox, `unsent` the same by account."""
    yield Family("hermes_info", GAUGE, "The version that runs.", (Sample(1, (("version", VERSION),)),))
    yield gauge_family("hermes_start_time_seconds", "When it began, in seconds since 1970.", parts.started)
    yield from _collect_turns(parts, lanes, depth)
    yield from _collect_deliveries(parts, unsent)
    yield from _collect_calls(parts.meters)
    counters = parts.runner.counters
    yield gauge_family("hermes_agents", "Agents that are kept warm.", parts.runner.count())
    yield count_family("hermes_agent_hits_total", "Turns that found a warm agent.", {(): counters["hit"]})
    yield count_family("hermes_agent_builds_total", "Agents built, by reason.", _label(counters, "build"), "reason")
    doc = "Agents let go, by reason."
    yield count_family("hermes_agent_evictions_total", doc, _label(counters, "evict"), "reason")
    doc = "How late the event loop was: over 0.05 something held it up."
    yield spread_family("hermes_event_loop_lag_seconds", doc, parts.meters.loop_lag.read())
    doc = "Pages and API clients that watch a conversation now."
    yield gauge_family("hermes_watchers", doc, count_watchers(parts.adapters))
    platforms = tuple(
        Sample(is_connected(adapter), (("platform", adapter.spec.name), ("account", adapter.account)))
        for adapter in parts.adapters
    )
    yield Family(
        "hermes_platform_connected",
        GAUGE,
        "1: a sign of life in the last 90 seconds, and nothing keeps it from working.",
        platforms,
    )
    yield gauge_family("hermes_config_broken", "1: an edit of the settings was refused.", bool(config_problem))
    yield gauge_family("hermes_disk_free_bytes", "Room on the disk of the home.", measure_free(parts.home))
    yield gauge_family("hermes_memory_bytes", "Memory of the process (resident).", read_memory())


def _collect_turns(parts: GatewayParts, lanes: Lanes, depth: tuple[int, int]) -> Iterator[Family]:
    meters = parts.meters
    yield count_family("hermes_turns_total", "Turns that ended, by result.", meters.turns, "result")
    yield spread_family("hermes_turn_seconds", "How long turns took.", meters.turn_seconds.read())
    doc = "How long messages waited for their turn, from when they were stored."
    yield spread_family("hermes_message_wait_seconds", doc, meters.wait_seconds.read())
    doc = "From the begin of a turn to the first piece of its text."
    yield spread_family("hermes_first_text_seconds", doc, meters.first_text_seconds.read())
    running = sum(1 for lane in lanes.at_work.values() if lane.slot is not None and lane.slot.is_turn)
    yield gauge_family("hermes_turns_running", "Turns under way.", running)
    boxes = zip(("inbox", "outbox"), depth, strict=True)
    samples = tuple(Sample(count, (("box", box),)) for box, count in boxes)
    doc = "Messages that are not dealt with (inbox) and answers that are not delivered (outbox)."
    yield Family("hermes_queue_messages", GAUGE, doc, samples)


def _collect_deliveries(parts: GatewayParts, unsent: Mapping[str, int]) -> Iterator[Family]:
    accounts = tuple(Sample(count, (("account", name),)) for name, count in sorted(unsent.items()))
    yield Family("hermes_undelivered_messages", GAUGE, "Messages that have not arrived, by account.", accounts)
    counts: Sums = {(result,): float(count) for result, count in dict(parts.delivery.counts).items()}
    yield count_family("hermes_deliveries_total", "Calls to platforms, by result.", counts, "result")


def _collect_calls(meters: Meters) -> Iterator[Family]:
    who = ("provider", "model")
    yield count_family("hermes_model_calls_total", "Model calls, by what they were for.", meters.calls, *who, "kind")
    doc = "Tokens by bucket; reasoning is a part of output."
    yield count_family("hermes_tokens_total", doc, meters.tokens, *who, "bucket")
    yield count_family("hermes_cost_dollars_total", "What calls cost, where a price is known.", meters.cost, *who)
    doc = "Turns that went on with another provider, by reason."
    yield count_family("hermes_provider_switches_total", doc, meters.switches, "reason")
    doc = "Prompts whose beginning changed, by reason: the provider's cache is lost from there on."
    yield count_family("hermes_prefix_breaks_total", doc, meters.breaks, "reason")


def _label(counters: Mapping[str, int], kind: str) -> Sums:
    return {(reason,): count for reason, count in count_reasons(counters, kind).items()}


def read_memory() -> int:
    """0 where /proc does not tell it."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
