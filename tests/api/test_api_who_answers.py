"""D12: a program reads which model really answered, whatever it asked for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_house import ApiHouse

from hermes_cli import config
from hermes_lab.server import LabServer

SAID: Any = [{"role": "user", "content": "[[say here I am]]"}]


@pytest.fixture
def second() -> Iterator[LabServer]:
    with LabServer() as server:
        yield server


@pytest.fixture
def api(lab: LabServer, second: LabServer, home: Path) -> Iterator[ApiHouse]:
    """The first choice does not accept its key; the second one answers."""
    lab.set_plan([{"fault": {"status": 401}, "times": 0}])
    with ApiHouse(home, lab.base_url) as made:
        settings = config.load_config()
        settings["model"]["fallbacks"] = [{"provider": "custom", "base_url": second.base_url, "model": "second"}]
        config.save_config(settings)
        yield made


def test_a_completion_names_the_model_that_answered(api: ApiHouse) -> None:
    """D12"""
    told = api.client().chat.completions.create(model="hermes", messages=SAID)
    assert (told.choices[0].message.content, told.model) == ("here I am", "second")


def test_the_end_of_a_stream_names_it(api: ApiHouse) -> None:
    """D12: while it runs, the name that was asked for."""
    *_, last = api.client().chat.completions.create(model="hermes", messages=SAID, stream=True)
    assert last.model == "second"


def test_a_response_names_it(api: ApiHouse) -> None:
    """D12"""
    told = api.client().responses.create(model="hermes", input=SAID)
    assert (told.output_text, told.model) == ("here I am", "second")
