"""`hermes approvals` with the gateway running and without one: the real store, real processes (G4)."""

import json
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from gateway_process import HERMES, GatewayProcess
from waiting import wait_until
from warm_python import run_text
from web_house import find_free_port

from gateway.http import access
from hermes_base.errors import HermesError
from hermes_base.store_place import find_place
from hermes_base.turn.consent import Deed
from hermes_cli import main as entry
from hermes_cli.cmds import approvals_cmd
from hermes_constants import get_hermes_home
from hermes_lab.server import LabServer
from hermes_state.approval_store import KeptAnswer
from hermes_state.people_store import MEMBER, QuestionRow
from hermes_state.sql.store_sql import Store

Output = pytest.CaptureFixture[str]
DEED = Deed("command", "/work", "bubblewrap", "work", '["make"]', "make \x1b[2J test", task="t1")


@pytest.fixture
def rules() -> list[str]:
    """Two rules: one of the owner, one of Ann in one conversation."""
    with closing(Store(find_place(get_hermes_home()))) as store:
        ann = store.people.add("Ann", MEMBER, "chat", "1")
        kept = (KeptAnswer(DEED, ""), KeptAnswer(replace(DEED, words="[]", shown="git push"), ann.id, "c"))
        for number, each in enumerate(kept):
            store.people.ask(QuestionRow(f"q{number}", "c", "t", "approval", "?", expires=store.turns.now() + 60))
            assert store.people.close_question(f"q{number}", "always", "owner", each)
        return [rule.id for rule in store.approvals.rules()]


def run(output: Output, *args: str) -> str:
    assert approvals_cmd.main(list(args)) == 0
    return output.readouterr().out


def test_nothing_is_kept_at_first(capsys: Output) -> None:
    """G4"""
    assert "No approval is kept" in run(capsys, "list")
    assert json.loads(run(capsys, "list", "--json")) == {"approvals": []}
    assert "0 rules" in run(capsys, "revoke", "--all")


def test_rules_are_listed_with_all_that_binds_them(capsys: Output, rules: list[str]) -> None:
    """G4: what, where, for whom, by whom, until when, how often; nothing in it steers the terminal."""
    first, second = run(capsys, "list").splitlines()
    assert first.startswith(f"{rules[0]}  make ")
    assert "in /work, work; for owner; made " in first
    assert "by owner, until " in first
    assert "never used" in first
    assert "\x1b" not in first
    assert "for Ann, in one conversation" in second
    told = json.loads(run(capsys, "list", "--json"))["approvals"]
    assert [one["id"] for one in told] == rules
    assert told[1]["name"] == "Ann"


def test_a_rule_is_revoked_by_its_id(capsys: Output, rules: list[str]) -> None:
    """G4"""
    assert "asked for again" in run(capsys, "revoke", rules[0])
    assert [one["id"] for one in json.loads(run(capsys, "list", "--json"))["approvals"]] == rules[1:]
    with pytest.raises(HermesError, match="no such rule"):
        approvals_cmd.main(["revoke", rules[0]])
    assert json.loads(run(capsys, "revoke", "--all", "--json")) == {"revoked": 1}


@pytest.mark.parametrize("args", [["revoke"], ["revoke", "r-1", "--all"], []])
def test_a_call_that_says_nothing_is_refused(args: list[str], rules: list[str], capsys: Output) -> None:
    """Nothing goes by mistake."""
    with pytest.raises(SystemExit):
        approvals_cmd.main(args)
    assert len(json.loads(run(capsys, "list", "--json"))["approvals"]) == len(rules)


def test_it_is_a_command(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["hermes", "approvals", "list"])
    assert entry.main(["approvals", "list"]) == 0
    assert "No approval" in capsys.readouterr().out


# --- beside a running gateway, and after a kill


CALL = {"tool_calls": [{"name": "terminal", "arguments": {"command": "touch made", "level": "work"}}]}


def hermes(gateway: GatewayProcess, *args: str) -> dict[str, object]:
    """The command as a process of its own."""
    code, said, told = run_text([HERMES, "approvals", *args, "--json"], gateway.environment)
    assert code == 0, told
    return dict(json.loads(said))


def open_api(gateway: GatewayProcess, port: int) -> httpx2.Client:
    bearer = {"Authorization": f"Bearer {access.read_token(gateway.home)}"}
    return httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=bearer, timeout=60)


def ask_run(http: httpx2.Client, text: str) -> str:
    return str(http.post("/v1/runs", json={"input": text}).json()["id"])


@pytest.mark.slow
def test_two_processes_share_the_rules(home: Path, lab: LabServer) -> None:
    """G4: an API client says always; the command line beside it lists the rule and ends it, and it is asked again."""
    free_port = find_free_port()
    lab.set_plan([CALL, {"text": "One."}, CALL, {"text": "Two."}, CALL, {"text": "Three."}])
    with GatewayProcess(home, lab.base_url, web={"port": free_port}, approvals={"mode": "ask"}) as gateway:
        gateway.start()
        with open_api(gateway, free_port) as http:
            first = ask_run(http, "First?")
            look = lambda run: http.get(f"/v1/runs/{run}").json()  # noqa: E731
            wait_until(lambda: look(first)["question"] is not None)
            assert look(first)["question"]["choices"] == ["approve", "deny", "conversation", "always"]
            assert http.post(f"/v1/runs/{first}/approve", json={"choice": "always"}).status_code == 200
            wait_until(lambda: look(first)["output"] == "One.")
            (rule,) = hermes(gateway, "list")["approvals"]
            assert (rule["shown"], rule["person"], rule["times_used"]) == ("touch made", "owner", 0)
            second = ask_run(http, "Second?")
            wait_until(lambda: look(second)["output"] == "Two.")
            (rule,) = hermes(gateway, "list")["approvals"]
            assert rule["times_used"] == 1
            assert hermes(gateway, "revoke", rule["id"]) == {"revoked": 1}
            third = ask_run(http, "Third?")
            wait_until(lambda: look(third)["question"] is not None)
            said = {"choice": "deny: enough for today"}
            assert http.post(f"/v1/runs/{third}/approve", json=said).status_code == 200
            wait_until(lambda: look(third)["output"] == "Three.")
            assert "not approved: enough for today" in lab.requests[-1].body.decode()
            gateway.terminate()
            assert hermes(gateway, "list") == {"approvals": []}


@pytest.mark.slow
@pytest.mark.parametrize("commits", range(7, 15))
def test_a_kill_keeps_answer_and_rule_together(home: Path, lab: LabServer, commits: int) -> None:
    """G4, C10: killed at any write around the answer, there is a rule exactly if the answer is noted. A rule that is
    there answers for the turn that goes on; else the person is asked again. The command ends up done."""
    free_port = find_free_port()
    lab.set_plan([CALL, CALL, {"text": "Done."}, {"text": "Done."}])
    with GatewayProcess(home, lab.base_url, web={"port": free_port}, approvals={"mode": "ask"}) as gateway:
        gateway.start(dies_after=(commits, "Well"))
        with open_api(gateway, free_port) as http:
            run = ask_run(http, "Well?")

            def look() -> dict[str, object]:
                try:
                    return dict(http.get(f"/v1/runs/{run}").json())
                except httpx2.TransportError:
                    return {}

            def approve() -> None:
                try:
                    http.post(f"/v1/runs/{run}/approve", json={"choice": "always"})
                except httpx2.TransportError:
                    assert gateway.is_dead or commits > 0

            wait_until(lambda: gateway.is_dead or look().get("question") is not None)
            if not gateway.is_dead:
                approve()
            wait_until(lambda: gateway.is_dead or look().get("output") == "Done.")
            with closing(Store.open_readonly(find_place(home))) as store:
                answered = [row for row in all_questions(store) if row == "answered"]
                rules = store.approvals.rules()
                assert len(rules) == len(answered)
            if gateway.is_dead:
                gateway.kill()  # it is gone; what is left of it goes, too
                gateway.start()

                def has_settled() -> bool:
                    """Until the dead one is known to be dead, its question may still be read, and nobody answers it."""
                    told = look()
                    question = told.get("question")
                    if isinstance(question, dict):
                        assert not rules, "a rule was there, and it was asked again"
                        said = {"choice": "always", "question": question["id"]}
                        return http.post(f"/v1/runs/{run}/approve", json=said).status_code == 200
                    return told.get("output") == "Done."

                wait_until(has_settled)
                wait_until(lambda: look().get("output") == "Done.")
            with closing(Store.open_readonly(find_place(home))) as store:
                assert len(store.approvals.rules()) == 1
            assert (home / "workspace" / "made").exists()


def all_questions(store: Store) -> list[str]:
    return [str(state) for (state,) in store._db.find("select state from question")]
