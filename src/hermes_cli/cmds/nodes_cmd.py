"""`hermes nodes`: the gateways that share a store, and who has what."""

import argparse
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gateway.core.feature_gate import find_withheld, read_version
from gateway.core.shared.node_facts import list_differences
from hermes_base.errors import ConfigProblem, StoreFailure
from hermes_base.store_place import describe_place, find_place, is_address
from hermes_cli import config
from hermes_cli.chat.local_client import call_owner
from hermes_constants import get_hermes_home
from hermes_state.home_lock import holder
from hermes_state.sql.store_sql import Store

_CALL_SECONDS = 10.0
ALIKE = "Make them alike: `hermes config set` and `hermes plugins enable` on the machine that lacks it."
NOBODY = "No gateway runs on the store {place}."


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("hermes nodes", description="Show the gateways that share this store.")
    parser.add_argument("--json", action="store_true", help="for programs")
    parsed = parser.parse_args(args)
    home = get_hermes_home()
    told = collect(home)
    if parsed.json:
        print(json.dumps(told, ensure_ascii=False, indent=2))
    else:
        print("\n".join(config.redactor()(line) for line in write_nodes(told, describe_place(find_place(home)))))
    return 0


def collect(home: Path) -> dict[str, Any]:
    """What the gateway of this home tells; without one, what stands in a shared store."""
    told = call_owner(home, "nodes", {}, _CALL_SECONDS) if holder(home) is not None else None
    if told is not None:
        return told
    place = find_place(home)
    if not is_address(place):
        return {"shared": False, "nodes": []}
    with closing(Store.open_readonly(place)) as store:
        held, found = store.turns.leases(), store.turns.nodes()
        nodes = [{**asdict(node), "holds": [lease.name for lease in held if lease.owner == node.id]} for node in found]
        withheld, differences = sorted(find_withheld(node.version for node in found)), list_differences(found)
        return {"shared": True, "withheld": withheld, "nodes": nodes, "differences": differences}


def find_differences(home: Path) -> list[str]:
    """In what the gateways of the store differ; nothing where they cannot be asked."""
    with suppress(ConfigProblem, StoreFailure):
        return list(collect(home).get("differences", ()))
    return []


def write_nodes(told: Mapping[str, Any], place: str) -> Iterator[str]:
    if not told["nodes"]:
        yield NOBODY.format(place=place)
    for node in told["nodes"]:
        own = ", this one" if node["id"] == told.get("node") else ""
        state = "draining" if node["draining"] else "at work"
        yield f"{node['address'] or 'somewhere'} (node {node['id']}{own}): version {node['version']}, {state}"
        yield f"  conversations: {node['owned']}, with messages that wait: {node['open']}"
        yield f"  has: {', '.join(node['holds']) or 'no account'}"
        yield f"  last heartbeat: {node['beaten']:.0f} s ago"
    versions = sorted({str(node["version"]) for node in told["nodes"]}, key=read_version)
    if len(versions) > 1:
        yield f"Gateways of different versions work side by side: {', '.join(versions)}."
    if withheld := told.get("withheld"):
        yield f"Not used as long as a gateway is there that does not know it: {', '.join(withheld)}."
    yield from told.get("differences", ())
    if told.get("hints"):
        yield told["hints"]
