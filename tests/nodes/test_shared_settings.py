"""A setting for all is changed on one gateway and holds on each; what is a machine's own stays so (I4)."""

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from gateway_nodes import Node, Nodes, run_hermes, running_nodes
from postgres_server import get_server
from ruamel.yaml import YAML
from waiting import wait_until

from gateway.service.shared.shared_settings import ASIDE
from hermes_cli.cmds.setting_notes import FOR_ALL, OWN
from hermes_lab.server import LabServer

TOKEN = "123456:not-for-the-store-0123456789"


@pytest.fixture
def two(tmp_path: Path, lab: LabServer) -> Iterator[Nodes]:
    with running_nodes(tmp_path, lab, get_server().make_database(), "a", "b", people=3) as nodes:
        wait_until(lambda: nodes.read("select count(*) > 0 from shared_setting") == [(True,)])
        yield nodes


def path_of(node: Node) -> Path:
    return node.home / "config.yaml"


def read(node: Node, key: str) -> object:
    """What its file says; None: nothing."""
    found = YAML(typ="safe", pure=True).load(path_of(node).read_text())
    for name in key.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def edit(node: Node, change: dict[str, object], comment: str = "") -> None:
    """By hand: the whole file is written anew, with a comment."""
    config = YAML(typ="safe", pure=True).load(path_of(node).read_text())
    for key, value in change.items():
        *way, last = key.split(".")
        section = config
        for name in way:
            section = section.setdefault(name, {})
        section[last] = value
    path_of(node).write_text((f"# {comment}\n" if comment else "") + json.dumps(config, indent=2) + "\n")


def test_a_setting_for_all_is_set_and_unset_by_command_on_any_gateway(two: Nodes) -> None:
    a, b = two.nodes.values()
    assert FOR_ALL in run_hermes(a, "config", "set", "agent.max_iterations", "17")
    wait_until(lambda: read(b, "agent.max_iterations") == 17)
    assert FOR_ALL in run_hermes(b, "config", "set", "model.max_tokens", "4096")
    wait_until(lambda: read(a, "model.max_tokens") == 4096)
    assert FOR_ALL in run_hermes(b, "config", "unset", "agent.max_iterations")
    wait_until(lambda: read(a, "agent.max_iterations") is None)
    changes = [change["key"] for change in a.operate("status")["config"]["changes"]]
    wait_until(lambda: "model.max_tokens" in [one["key"] for one in a.operate("status")["config"]["changes"]])
    assert "store.url" not in changes
    assert OWN in run_hermes(a, "config", "set", "log.level", "error")
    assert OWN in run_hermes(a, "config", "set", "terminal.backend", "local")
    run_hermes(a, "config", "set", "titles.enabled", "false")
    wait_until(lambda: read(b, "titles.enabled") is False)
    assert (read(b, "log.level"), read(b, "terminal.backend")) == (None, None)
    assert two.read("select key from shared_setting where key like '%log%' or key like '%store%'") == []
    wait_until(lambda: "terminal.backend is set otherwise at" in "\n".join(b.operate("nodes")["differences"]))


def test_an_edit_by_hand_takes_effect_on_the_other_gateway(two: Nodes) -> None:
    """H6: somebody is let in beside the gateway that has the bot, and it hears them; comments on both stay."""
    holder = two.wait_holder()
    other = next(node for node in two.nodes.values() if node is not holder)
    stranger = two.telegram.add_person("Eve")
    two.telegram.say(stranger, "m9.1 [[say answer one]]")
    wait_until(lambda: any("I do not know you" in text for text in two.seen(stranger)))
    people = [str(one) for one in two.people[1:]]
    edit(other, {"platforms.telegram.allow": [*people, str(stranger)]}, comment="Eve is a friend")
    wait_until(lambda: read(holder, "platforms.telegram.allow") == [*people, str(stranger)])
    two.ask(stranger, "m9.2 [[say answer two]]", "answer two")
    assert "# Eve is a friend" in path_of(other).read_text()
    run_hermes(holder, "config", "set", "agent.max_iterations", "18")
    wait_until(lambda: read(other, "agent.max_iterations") == 18)
    assert "# Eve is a friend" in path_of(other).read_text()


def test_who_was_away_has_what_was_changed_before_it_hears_anybody_and_gives_what_was_changed_there(two: Nodes) -> None:
    a, b = two.nodes.values()
    b.kill()
    run_hermes(a, "config", "set", "agent.max_iterations", "19")
    assert FOR_ALL in run_hermes(b, "config", "set", "compression.threshold", "0.4")  # nobody runs there
    assert read(b, "agent.max_iterations") in (None, 19)
    wait_until(lambda: read(a, "compression.threshold") == 0.4)
    edit(b, {"model.max_tokens": 2048})
    run_hermes(a, "config", "set", "agent.max_iterations", "20")
    wait_until(lambda: two.read("select value from shared_setting where value = '20'") == [("20",)])
    two.start("b")
    assert read(b, "agent.max_iterations") == 20
    wait_until(lambda: read(a, "model.max_tokens") == 2048)


def test_who_joins_takes_over_what_the_others_have_and_says_so(two: Nodes) -> None:
    a, _ = two.nodes.values()
    two.start("c", agent={"max_iterations": 3}, compression={"threshold": 0.3})
    c = two.nodes["c"]
    assert read(c, "agent.max_iterations") is None
    assert read(c, "compression.threshold") is None
    assert json.loads((c.home / ASIDE).read_text())["agent"] == {"max_iterations": 3}
    assert "here they said something else, which does not hold any more: agent.max_iterations" in c.log
    assert read(a, "agent.max_iterations") is None
    wait_until(lambda: c.operate("nodes")["differences"] == [])  # its bot is told of a moment after it has begun


def test_secrets_and_what_is_wrong_are_nobodys_setting_but_the_files(two: Nodes) -> None:
    """G6: what is called like a secret, or holds one, stays in the file. An edit that is wrong is told here alone."""
    a, b = two.nodes.values()
    edit(a, {"platforms.telegram.webhook_secret": TOKEN, "web.searxng_url": f"http://me:{TOKEN}@search.lan"})
    run_hermes(a, "config", "set", "agent.max_iterations", "21")
    wait_until(lambda: read(b, "agent.max_iterations") == 21)
    assert two.read("select count(*) from shared_setting where value like '%not-for-the-store%'") == [(0,)]
    assert two.read("select count(*) from node where facts like '%not-for-the-store%'") == [(0,)]
    assert read(b, "web.searxng_url") is None
    edit(a, {"approvals.mode": "perhaps"})
    wait_until(lambda: "approvals.mode" in "\n".join(b.operate("nodes")["differences"]))
    assert read(b, "approvals.mode") == "auto"


def test_what_only_another_version_understands_is_not_taken_and_is_told(two: Nodes) -> None:
    """I5: everything else is, and when it is put right that is, too."""
    a, b = two.nodes.values()
    key = "select key from shared_setting where value = '\"auto\"'"
    ((name,),) = two.read(key)

    def put(value: str) -> None:
        with psycopg.connect(two.address) as connection:
            connection.execute("update shared_setting set value = %s where key = %s", (value, name))
            connection.execute(
                "update meta set value = cast(cast(value as integer) + 1 as text) where key = 'news settings'"
            )

    put('"moonlight"')
    wait_until(lambda: "does not take what others have set" in "\n".join(b.operate("nodes")["differences"]))
    run_hermes(a, "config", "set", "agent.max_iterations", "22")
    wait_until(lambda: read(b, "agent.max_iterations") == 22)
    assert [read(node, "approvals.mode") for node in (a, b)] == ["auto", "auto"]
    put('"deny"')
    wait_until(lambda: [read(node, "approvals.mode") for node in (a, b)] == ["deny", "deny"])
    wait_until(lambda: a.operate("nodes")["differences"] == [])


def test_a_file_that_is_lost_is_written_again(two: Nodes) -> None:
    a, b = two.nodes.values()
    path_of(b).unlink()
    wait_until(lambda: path_of(b).exists() and read(b, "approvals.mode") == "auto")
    assert read(a, "approvals.mode") == "auto"
