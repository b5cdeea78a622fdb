"""`hermes mcp`: what it writes into the settings, what it tells of servers, and what the doctor says of them."""

import json
import shlex
import sys
from pathlib import Path

import pytest
from mcp_rig import SERVER, end_all

from hermes_base.errors import ConfigProblem
from hermes_cli import config
from hermes_cli.cmds import doctor, mcp_cmd, status_cmd
from tools.mcp import mcp_host

Output = pytest.CaptureFixture[str]


def run(output: Output, line: str, code: int = 0) -> str:
    assert mcp_cmd.main(shlex.split(line)) == code
    return output.readouterr().out


def test_a_program_is_added_tried_listed_and_removed(capsys: Output, home: Path) -> None:
    assert "There are no servers" in run(capsys, "list")
    added = run(capsys, f"add t --env TOKEN='${{T_TOKEN:-x}}' -- {sys.executable} {SERVER} stdio --flag")
    assert "hermes mcp test t" in added
    assert config.load_settings().mcp_servers["t"] == {
        "command": sys.executable,
        "args": [str(SERVER), "stdio", "--flag"],
        "env": {"TOKEN": "${T_TOKEN:-x}"},
    }
    assert "tools not known yet, level work, asks" in run(capsys, "list")
    config.set_path(("mcp_servers", "t", "args"), [str(SERVER), "stdio"])
    told = run(capsys, "test t")
    assert "t answers: a test server" in told
    assert "mcp_t_add  Add two numbers." in told
    (row,) = json.loads(run(capsys, "list --json"))["servers"]
    assert (row["name"], row["tools"], row["enabled"]) == ("t", 14, True)
    findings = [finding.what for finding in doctor.check_mcp(config.load_settings())]
    assert findings == ["The MCP server t has 14 tools for the model."]
    assert status_cmd.list_servers(home) == [{"name": "t", "tools": 14}]
    run(capsys, "remove t")
    assert "mcp_servers" not in config.get_config_path().read_text()
    assert list((home / "mcp" / "lists").iterdir()) == []
    end_all()


def test_what_is_wrong_with_a_server_is_told(capsys: Output) -> None:
    run(capsys, "add t -- no-such-program-anywhere")
    assert mcp_cmd.main(["test", "t"]) == 1
    assert "no-such-program-anywhere: not found" in capsys.readouterr().err
    assert json.loads(run(capsys, "test t --json", 1))["ok"] is False
    (finding,) = doctor.check_mcp(config.load_settings())
    assert "needs the program no-such-program-anywhere" in finding.what


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("add t", "neither a command nor a url"),
        ("add t", "behind two dashes: hermes mcp add NAME -- COMMAND ARGUMENTS. An address: hermes mcp add NAME URL"),
        ("add t http://x.example -- program", "both"),
        ("add t ftp://x.example", "http://"),
        ("add t npx", "behind two dashes: hermes mcp add NAME -- COMMAND"),
        ("add t npx -y server --depth 3", "behind two dashes: hermes mcp add NAME -- COMMAND"),
        ("add ../t -- program", "cannot be the name"),
        ("add t --env A -- program", "is not NAME=VALUE"),
        ("add there -- program", "There is a server called there"),
        ("remove t", "There is no server called t"),
        ("test t", "There is no server called t"),
        ("login there", "nowhere to sign in"),
        ("test off", "is off"),
    ],
)
def test_mistakes_are_sentences_and_write_nothing(line: str, words: str) -> None:
    config.set_path(("mcp_servers", "there", "command"), "program")
    config.set_path(("mcp_servers", "off", "command"), "program")
    config.set_path(("mcp_servers", "off", "enabled"), False)
    before = config.get_config_path().read_text()
    with pytest.raises(ConfigProblem, match=words):
        mcp_cmd.main(shlex.split(line))
    assert config.get_config_path().read_text() == before


def test_what_other_programs_write_is_pasted(capsys: Output) -> None:
    """G4: how far a server is trusted is no word of whoever wrote its document."""
    blob = {"a": {"command": "npx", "args": ["-y", "x"], "trust": True, "level": "outside"}, "b": {"url": "http://x"}}
    for text in (json.dumps({"mcpServers": blob}), json.dumps({"mcp": {"servers": blob}}), json.dumps(blob)):
        assert mcp_cmd.main(["add", text]) == 0
        told = capsys.readouterr().out
        assert "Added a." in told
        assert "Left out of a, as it is for you to say: level, trust" in told
        assert config.load_settings().mcp_servers == {
            "a": {"command": "npx", "args": ["-y", "x"]},
            "b": {"url": "http://x"},
        }
        run(capsys, "remove a")
        run(capsys, "remove b")
    told = run(capsys, """add d '{"url": "http://x/?k=${env:A_KEY}", "headers": {"X": "${B}${B}"}}'""")
    assert "d is given what these say in .env or the environment: A_KEY, B" in told
    assert mcp_cmd.main(["add", "c", '{"command": "npx"}']) == 0
    assert config.load_settings().mcp_servers["c"] == {"command": "npx"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{"], "no JSON"),
        (["{}"], "no servers"),
        (['{"command": "npx"}'], "has no name"),
        (['{"a": "npx"}'], "no servers"),
        (["x", '{"mcpServers": {"a": {"command": "b"}, "c": {"url": "http://x"}}}'], "2 servers"),
        (['{"mcpServers": {"a": {"command": "b"}, "c": {"args": []}}}'], "neither a command nor a url"),
        (["[" * 100_000], "neither"),
        (["{" * 100_000], "no JSON"),
    ],
)
def test_what_cannot_be_pasted_is_a_sentence(words: list[str], said: str) -> None:
    with pytest.raises(ConfigProblem, match=said):
        mcp_cmd.main(["add", *words])
    assert not config.load_settings().mcp_servers


def test_a_header_may_be_written_as_a_header(capsys: Output) -> None:
    run(capsys, "add x http://x -H 'Authorization: Bearer ${T}' --header A=b:c -e N=1:2=3")
    given = config.load_settings().mcp_servers["x"]
    assert given["headers"] == {"Authorization": "Bearer ${T}", "A": "b:c"}
    assert given["env"] == {"N": "1:2=3"}


def test_secrets_in_the_settings_are_pointed_at_and_never_shown(capsys: Output) -> None:
    """G6."""
    told = run(capsys, "add r https://x.example/mcp --header 'Authorization=Bearer canary-0123456789'")
    assert "better kept in .env" in told
    assert "canary" not in told + run(capsys, "list") + run(capsys, "list --json")
    assert "canary" not in config.redactor()("it says Bearer canary-0123456789")


def test_the_doctor_names_mistakes_and_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    config.set_path(("mcp_servers", "t", "command"), "sh")
    config.set_path(("mcp_servers", "t", "level"), "outside")
    config.set_path(("mcp_servers", "bad", "level"), "outside")
    config.set_path(("mcp_servers", "far", "url"), "https://x.example/mcp")
    config.set_path(("mcp_servers", "far", "headers"), {"Authorization": "Bearer ${NOT_SET_ANYWHERE}"})
    found = {finding.what: finding.level for finding in doctor.check_mcp(config.load_settings())}
    assert found["The MCP server t runs outside of the sandbox, with your own rights."] == doctor.INFO
    assert "Nothing is known of the tools of the MCP server t yet." in found
    assert [level for what, level in found.items() if "neither a command" in what] == [doctor.FAIL]
    assert found["mcp_servers.far.headers.Authorization needs NOT_SET_ANYWHERE, which is not set."] == doctor.FAIL
    monkeypatch.setattr(mcp_host, "PACKAGE", "no_such_package_of_ours")
    found = {finding.what: finding.fix for finding in doctor.check_mcp(config.load_settings())}
    assert "Install it: pip install 'mcp<2'" in found.values()


def test_secrets_of_servers_are_secrets_wherever_they_stand(capsys: Output, home: Path) -> None:
    """G6: bare tokens of headers, values of variables, and arguments behind the name of a secret."""
    words = "--token canary-one-1 --api-key=canary-two-2 --header 'Authorization: Bearer canary-three-3' --password pw"
    args = shlex.split(f"{words} --depth deep-enough")
    entry = {"command": "prog", "args": args, "env": {"DATABASE": "canary-four-4"}}
    config.set_path(("mcp_servers", "t"), entry)
    config.set_path(("mcp_servers", "u"), {"url": "https://x.test/mcp", "headers": {"X-Any": "Bearer canary-five-5"}})
    app = {"client_id": "hermes-at-home", "client_secret": "canary-six-6"}
    config.set_path(("mcp_servers", "v"), {"url": "https://x.test/mcp", "oauth": app})
    config.load_settings()
    words = "canary-one-1 canary-two-2 canary-three-3 canary-four-4 canary-five-5 canary-six-6 deep-enough"
    said = config.redactor()(words)
    assert "canary" not in said
    assert said.endswith(" deep-enough")
    listed = run(capsys, "list")
    assert "prog --token … --api-key=… --header Authorization: … --password … --depth deep-enough" in listed
    assert "canary" not in str(config.explain("mcp_servers.t"))
    assert "canary" not in str(config.explain("mcp_servers.v"))
