"""Servers through a whole gateway: their tools are offered, asked for and reloaded (A2, A5, A12, G4)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House
from mcp_rig import end_all, stdio
from waiting import wait_until

from hermes_lab.server import LabServer


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with House(
        home, lab.base_url, pretend={"owner": "olga"}, mcp_servers={"t": stdio(trust=False, tools=["add"])}
    ) as made:
        yield made
    end_all()


def offered(lab: LabServer) -> list[str]:
    tools = lab.requests[-1].json().get("tools", [])
    return [name for tool in tools if (name := tool["function"]["name"]).startswith("mcp_t")]


def test_a_tool_is_asked_for_once_and_reloaded(house: House, lab: LabServer) -> None:
    """G4: the person is asked; A5: a conversation keeps its tools until /reload-mcp, which tells what it costs."""
    olga = house.person("olga")
    olga.say('[[tool mcp_t_add {"a": 2, "b": 3}]]')
    wait_until(lambda: any(message.choices for message in olga.messages))
    asked = next(message for message in olga.messages if message.choices)
    assert "Use the tool add of the MCP server t" in asked.text
    assert asked.choices == ("Yes, once", "No"), "G9: what the server says of its tools is in sight: no rule is offered"
    olga.press(asked, "approve")
    house.wait_quiet()
    assert offered(lab) == ["mcp_t_add"]
    results = [m["content"] for m in lab.requests[-1].json()["messages"] if m["role"] == "tool"]
    assert results == ["[MCP server t]\n5"]
    house.write_settings(mcp_servers={"t": stdio(trust=True, tools=["add", "say"])})
    olga.say("again")
    house.wait_quiet()
    assert offered(lab) == ["mcp_t_add"], "a setting does not change a conversation that runs"
    olga.say("/reload-mcp")
    house.wait_quiet()
    told = olga.messages[-1].text
    assert "t: 2 tools" in told
    assert "read anew by the provider: about" in told
    olga.say('[[tool mcp_t_say {"text": "hello"}]]')
    house.wait_quiet()
    assert offered(lab) == ["mcp_t_add", "mcp_t_say"]
    assert lab.requests[-1].json()["messages"][-1]["content"] == "[MCP server t]\nhello"
    olga.say("/reload-mcp")
    house.wait_quiet()
    assert "nothing is paid anew" in olga.messages[-1].text


def test_without_servers_there_is_nothing_to_reload(home: Path, lab: LabServer) -> None:
    with House(home, lab.base_url, pretend={"owner": "olga"}) as made:
        olga = made.person("olga")
        olga.say("/reload-mcp")
        made.wait_quiet()
        assert "No MCP servers are set" in olga.messages[-1].text


def test_a_prompt_of_a_server_begins_a_turn(house: House, lab: LabServer) -> None:
    """H7, G9: listed and filled in from any chat; what the model reads is marked as the server's words."""
    olga = house.person("olga")

    def say(text: str) -> str:
        olga.say(text)
        house.wait_quiet()
        return olga.messages[-1].text

    assert say("/mcp") == "/mcp t greet name=… – Greet somebody."
    assert "has no prompt 'nothing'. /mcp t lists them." in say("/mcp t nothing")
    assert "There is no MCP server 'x'. There are: t." in say("/mcp x greet")
    assert "The prompt needs name." in say("/mcp t greet")
    assert "A quote is not closed." in say("/mcp t greet name='Ann")
    assert not lab.requests
    say("/mcp t greet name='Ann Lee'")
    (asked,) = [one for one in lab.requests[-1].json()["messages"] if one["role"] == "user"]
    assert "[MCP server t: prompt greet]\nuser: Say hello to Ann Lee." in str(asked["content"])
    assert "MCP server t" in str(asked["content"]).partition("Say hello")[0]
    say("/mcp t greet Bob")
    assert "Say hello to Bob." in str(lab.requests[-1].json()["messages"][-1]["content"])
    olga.say('[[tool mcp_t_add {"a": 2, "b": 3}]]')
    wait_until(lambda: any(message.choices for message in olga.messages))
    asked_for = next(message for message in olga.messages if message.choices)
    assert asked_for.choices == ("Yes, once", "No"), "G9: foreign text is in sight"
    olga.press(asked_for, "deny")
    house.wait_quiet()
