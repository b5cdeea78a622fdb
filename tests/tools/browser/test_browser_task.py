"""The browser belongs to the task: it outlives the agent, ends with the task, and is offered where it can be used."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from fresh_store import fresh_store
from web_surfing import CONFIG, Site, SiteHandler, Surfer, wait_for

from hermes_base.chat import Answer
from hermes_base.turn.hooks import NoHooks
from hermes_lab.server import LabServer
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal
from run_agent import AIAgent
from tools.browser import launching

LIMIT = 12 * 1024


@pytest.fixture
def store() -> Store:
    return fresh_store()


def build(lab: LabServer, store: Store, folder: Path, **browser: Any) -> AIAgent:
    return AIAgent(
        base_url=lab.base_url,
        model="lab-model",
        api_key="lab-key-12345678",
        skip_context_files=True,
        hooks=NoHooks(),
        enabled_toolsets=["hermes-cli"],
        asker=lambda question: Answer("approve"),
        folder=str(folder),
        settings={**CONFIG, "browser": {**CONFIG["browser"], **browser}, "terminal": {"backend": "local"}},
        journal=StoreJournal(lambda: store, NewSession("c")),
    )


def call(agent: AIAgent, name: str, **args: Any) -> str:
    """The result of a tool that the model of the lab is told to call."""
    rows = agent.run_conversation(f"[[tool {name} {json.dumps(args)}]]")["messages"]
    return str([row for row in rows if row["role"] == "tool"][-1]["content"])


def test_tabs_and_shell_outlive_the_agent(
    lab: LabServer, store: Store, site: Site, surfer: Surfer, tmp_path: Path
) -> None:
    """The agent is let go in the middle of a form; the next one goes on with the same tab, and the same shell."""
    site.pages = {
        "/": "<form action='/sent'><label>Name <input name=name></label><button>Send</button></form>",
        "/sent": "<p>sent</p>",
    }
    agent = build(lab, store, tmp_path)
    assert "[1 textbox: Name]" in call(agent, "browser", action="open", url=site.url)
    call(agent, "browser", action="type", element=1, text="Ann")
    call(agent, "terminal", command="export COLOUR=green")
    agent.release_clients()

    rebuilt = build(lab, store, tmp_path)
    assert "green" in call(rebuilt, "terminal", command='echo "$COLOUR"')
    assert '[1 textbox: Name = "Ann"]' in call(rebuilt, "browser", action="snapshot")
    assert "sent" in call(rebuilt, "browser", action="click", element=2)
    assert site.paths()[-1] == "/sent?name=Ann"
    surfer.task = rebuilt.task_id
    assert "tab 1" in surfer.do("tabs")
    rebuilt.close()
    assert surfer.do("tabs") == "No tab is open."


def test_it_is_offered_where_it_can_be_used(
    lab: LabServer, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A5: decided when the agent is built; prompt and tools stay small with it."""

    def names(**browser: Any) -> list[str]:
        agent = build(lab, store, tmp_path, **browser)
        offered = [tool["function"]["name"] for tool in agent.tools]
        agent.close()
        return offered

    offered = names()
    assert "browser" in offered
    assert offered == sorted(offered)
    assert "browser" not in names(enabled=False)
    assert "browser" not in names(program=str(tmp_path / "none"))
    agent = build(lab, store, tmp_path)
    monkeypatch.setattr(launching, "find_program", lambda name: None)
    assert "browser" in [tool["function"]["name"] for tool in agent.tools], "what is offered stays"
    tools = json.dumps(list(agent.tools), ensure_ascii=False).encode()
    assert len(tools) + len(agent._build_system_prompt().encode()) < LIMIT
    agent.close()


def test_calls_of_a_round_wait_for_each_other(site: Site, surfer: Surfer) -> None:
    """However long one of them takes, the next is not given up meanwhile."""

    def slow(handler: SiteHandler) -> None:
        site.hold.wait(20)
        handler.answer("<p>slow</p>")

    site.pages = {"/slow": slow, "/fast": "<p>fast</p>"}
    shown: list[str] = []
    calls = [
        threading.Thread(target=lambda url=url: shown.append(surfer.open(site.url + url))) for url in ("/slow", "/fast")
    ]
    calls[0].start()
    wait_for(lambda: "/slow" in site.paths())
    calls[1].start()
    calls[1].join(0.5)
    assert calls[1].is_alive()
    site.hold.set()
    for one in calls:
        one.join(20)
    assert ["slow" in shown[0], "fast" in shown[1]] == [True, True]
