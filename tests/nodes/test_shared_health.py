"""A key that a provider refuses one gateway is known to be refused by the others that have it (I4, D3)."""

from pathlib import Path

from gateway_nodes import Nodes
from gateway_process import Person
from postgres_server import get_server
from waiting import wait_until

from hermes_cli.config.logs import FILE
from hermes_lab.server import LabServer

VALUE = "sk-lab-0123456789abcdef"
FOUND = "is left alone for"
UNWELL = "select name from unwell_account"


def test_a_refused_key_is_known_to_the_other_gateway_and_trouble_of_an_address_is_not(
    tmp_path: Path, lab: LabServer
) -> None:
    """Neither its value nor what only concerns one machine is in the store."""
    model = {"base_url": lab.base_url, "default": "lab", "key_env": "LAB_KEY"}
    fallback = {"provider": "custom", "base_url": "http://127.0.0.1:9/v1", "model": "nobody"}
    given = {"model": {**model, "fallbacks": [fallback]}, "titles": {"enabled": False}}
    with Nodes(tmp_path, lab, get_server().make_database(), people=1, keys={"LAB_KEY": VALUE}, **given) as nodes:
        a, b = nodes.start("a", "b")
        person = Person(a.home, "ann")
        try:
            person.wait_stored(person.say("m1.1 [[fail 401]]"))
            wait_until(lambda: FOUND in (b.home / "logs" / FILE).read_text())
        finally:
            person.close()
        ((name,),) = nodes.read(UNWELL)
        assert lab.base_url in name
        assert VALUE not in name
        assert ":9/" not in name
