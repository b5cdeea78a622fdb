"""A gateway that lacks a key says so and leaves the conversations to those that have it (I4)."""

from pathlib import Path

import psycopg
from gateway_nodes import Node, Nodes, run_hermes, running_nodes
from gateway_process import Person
from postgres_server import get_server
from waiting import wait_until

from hermes_lab.server import LabServer

VALUE = "sk-lab-0123456789abcdef"
OPEN = "select count(*) from inbox where done_epoch is null"
OWNERS = "select distinct owner from conversation where id like '%telegram%' and owner is not null"


def set_key(node: Node) -> None:
    with (node.home / ".env").open("a") as file:
        file.write(f"LAB_KEY={VALUE}\n")


def ask_all(nodes: Nodes, word: str) -> None:
    for person in nodes.people:
        nodes.telegram.say(person, f"m{person}.{word} [[say {word}]]")
    wait_until(lambda: all(word in nodes.seen(person) for person in nodes.people))


def list_differences(node: Node) -> str:
    return "\n".join(node.operate("nodes")["differences"])


def holds(address: str, word: str) -> list[str]:
    """The tables of a database in which this stands."""
    with psycopg.connect(address) as connection:
        tables = [name for (name,) in connection.execute("select tablename from pg_tables where schemaname = 'public'")]
        count = "select count(*) from {0} t where position(%s in t::text) > 0"
        return [name for name in tables if connection.execute(count.format(name), (word,)).fetchall() != [(0,)]]  # type: ignore[arg-type]


def test_conversations_go_where_the_key_is(tmp_path: Path, lab: LabServer) -> None:
    """I4: also those that somebody began at the gateway without it, and those that it had. When nobody has the key any
    more, it takes them all the same; its value is nowhere in the store."""
    model = {"base_url": lab.base_url, "default": "lab", "key_env": "LAB_KEY"}
    titles, address = {"enabled": False}, get_server().make_database()
    with running_nodes(tmp_path, lab, address, "a", "b", model=model, titles=titles, people=4) as nodes:
        able, lacking = nodes.nodes.values()
        ask_all(nodes, "one")
        set_key(able)
        wait_until(lambda: "b lacks LAB_KEY: nobody can answer there" in list_differences(lacking))
        ask_all(nodes, "two")
        person = Person(lacking.home, "ann")
        try:
            person.wait_stored(person.say("m1.ann [[say hello]]"))
            wait_until(lambda: nodes.read(OPEN) == [(0,)])
        finally:
            person.close()
        wait_until(lambda: nodes.read(OWNERS) == [(able.node,)])
        assert "b lacks LAB_KEY" in run_hermes(able, "nodes")
        assert "b lacks LAB_KEY" in run_hermes(lacking, "doctor", "--offline")
        assert lacking.log.count("This gateway lacks LAB_KEY") == 1
        assert holds(address, VALUE) == []
        assert "node" in holds(address, "LAB_KEY")
        able.kill()
        ask_all(nodes, "three")
        assert nodes.read(OWNERS) == [(lacking.node,)]
        set_key(lacking)
        wait_until(lambda: "LAB_KEY" not in list_differences(lacking))


def test_when_nobody_has_the_key_its_person_is_told_which(tmp_path: Path, lab: LabServer) -> None:
    """I4, D11: once, in one sentence, by one of them."""
    settings = {"model": {"provider": "openrouter", "default": "some/model"}, "titles": {"enabled": False}}
    with Nodes(tmp_path, lab, get_server().make_database(), **settings) as nodes:
        nodes.start("a", "b")
        ann = nodes.people[0]
        nodes.telegram.say(ann, "hello")
        wait_until(lambda: bool(nodes.seen(ann)))
        assert "No key for OpenRouter is set" in nodes.seen(ann)[0]
        assert "OPENROUTER_API_KEY" in nodes.seen(ann)[0]
