"""What the gateway counts and how it is told: parsed by Prometheus' own reader, against what really happened."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from agent.providers.health import health
from gateway.core.meters import Stopwatch, Tally
from gateway.service.metrics import Family, Sample, count_family, spread_family, write_text
from hermes_lab.server import LabServer

Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parse(text: str) -> Values:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def pick(values: Values, name: str, **labels: str) -> float:
    return values.get((name, tuple(sorted(labels.items()))), 0.0)


@pytest.fixture
def second() -> Iterator[LabServer]:
    with LabServer() as server:
        yield server


# --- the text


@given(st.dictionaries(st.tuples(st.text(), st.text()), st.integers(0, 2**50), max_size=5))
def test_any_label_survives(sums: dict[tuple[str, ...], float]) -> None:
    """H9: quotes, backslashes and line ends in a model's name do not break the page of metrics."""
    text = write_text([count_family("hermes_x_total", "What \\ it\nis.", sums, "provider", "model")])
    found = parse(text)
    assert len(found) == len(sums)
    for (provider, model), value in sums.items():
        assert pick(found, "hermes_x_total", provider=provider, model=model) == value


@given(st.lists(st.floats(-1, 4000)))
def test_a_histogram_adds_up(durations: list[float]) -> None:
    watch = Stopwatch()
    for seconds in durations:
        watch.note(seconds)
    found = parse(write_text([spread_family("hermes_y_seconds", "How long.", watch.read())]))
    assert pick(found, "hermes_y_seconds_count") == len(durations)
    assert pick(found, "hermes_y_seconds_bucket", le="+Inf") == len(durations)
    assert pick(found, "hermes_y_seconds_bucket", le="1") == sum(seconds <= 1 for seconds in durations)
    assert pick(found, "hermes_y_seconds_sum") == pytest.approx(sum(max(0.0, one) for one in durations))


def test_a_tally_keeps_labels_apart() -> None:
    tally = Tally()
    tally.add("a", "b")
    tally.add("a", "b", by=2.5)
    tally.add("a", "c")
    assert tally.read() == {("a", "b"): 3.5, ("a", "c"): 1}


def test_a_family_says_what_it_is() -> None:
    text = write_text([Family("hermes_z", "gauge", "A thing.", (Sample(2.0),))])
    assert text == "# HELP hermes_z A thing.\n# TYPE hermes_z gauge\nhermes_z 2\n"


# --- the house


def read_metrics(house: House) -> tuple[str, Values]:
    text = house.wait_for(house.gateway.queries.gateway.metrics())
    return text, parse(text)


def test_what_happened_is_counted(home: Path, lab: LabServer) -> None:
    """H9: turns by result, waits, first text, calls and tokens by bucket, agents, queue, deliveries, lag, breaks."""
    with House(home, lab.base_url, pretend={"owner": "olga"}) as house:
        olga = house.person("olga")
        olga.ask("[[say one]]")
        olga.ask("[[say two]]")
        olga.ask("[[fail 400]]")
        olga.ask("/undo")
        olga.ask("[[say three]]")
        olga.ask('[[tool terminal {"command": "true"}]] [[then]] [[say four]]')
        text, found = read_metrics(house)
        used = house.gateway.store.usage()
        [group] = house.gateway.store.usage_by("model")
        breaks = house.gateway.store.breaks()
        agents = house.gateway.runner.count()
    assert pick(found, "hermes_turns_total", result="completed") == 4
    assert pick(found, "hermes_turns_total", result="failed") == 1
    assert pick(found, "hermes_message_wait_seconds_count") == 5
    assert pick(found, "hermes_first_text_seconds_count") == 4
    assert pick(found, "hermes_turn_seconds_count") == 5
    who = dict(zip(("provider", "model"), group.keys, strict=True))
    assert pick(found, "hermes_model_calls_total", **who, kind="turn") == used.calls
    for bucket in ("input", "cache_read", "cache_write", "output"):
        assert pick(found, "hermes_tokens_total", **who, bucket=bucket) == getattr(used, f"{bucket}_tokens"), bucket
    assert used.output_tokens > 0
    assert pick(found, "hermes_prefix_breaks_total", reason="undo") == sum(one.reason == "undo" for one in breaks) == 1
    assert pick(found, "hermes_agents") == agents == 1
    assert pick(found, "hermes_agent_builds_total", reason="new") == 1
    assert pick(found, "hermes_agent_hits_total") >= 3
    assert pick(found, "hermes_queue_messages", box="inbox") == 0
    assert "# TYPE hermes_undelivered_messages gauge" in text
    assert pick(found, "hermes_deliveries_total", result="sent") >= 4
    assert pick(found, "hermes_platform_connected", platform="pretend", account="bot") == 1
    assert pick(found, "hermes_memory_bytes") > 1e6
    assert pick(found, "hermes_disk_free_bytes") > 0
    assert olga.chat not in text, "no conversation is a label"


def test_a_switch_of_provider_is_counted_with_its_reason(home: Path, lab: LabServer, second: LabServer) -> None:
    """H9, D12: the switch and the return."""
    lab.set_plan([{"fault": {"status": 503}, "times": 0}])
    model = {
        "base_url": lab.base_url,
        "default": "lab",
        "fallbacks": [{"provider": "custom", "base_url": second.base_url, "model": "second"}],
    }
    with House(home, lab.base_url, pretend={"owner": "olga"}, model=model) as house:
        olga = house.person("olga")
        assert "here I am" in olga.ask("[[say here I am]]")[-1]
        found = read_metrics(house)[1]
        assert pick(found, "hermes_provider_switches_total", reason="503") == 1
        lab.set_plan([])
        health.forget()
        olga.ask("[[say again]]")
        assert pick(read_metrics(house)[1], "hermes_provider_switches_total", reason="restored") == 1


def test_the_event_loops_lag_is_measured(home: Path, lab: LabServer) -> None:
    """H9, F5"""
    with House(home, lab.base_url) as house:
        lag = house.gateway.meters.loop_lag
        while not lag.read().count:
            house.call(lambda: None)
        before = lag.read()
        assert before.total < 60


def test_the_document_lists_every_name(home: Path, lab: LabServer) -> None:
    """H11: the table of metrics is the code's."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "operation.md").read_text("utf-8")
    listed = set(re.findall(r"`(hermes_\w+)`", page))
    with House(home, lab.base_url) as house:
        text = house.wait_for(house.gateway.queries.gateway.metrics())
    assert listed == set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
