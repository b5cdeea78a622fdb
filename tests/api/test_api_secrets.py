"""G6: a configured secret is nowhere: not in what is streamed, piece by piece, not in the answer, not in a file."""

import json
from pathlib import Path

import openai
import pytest
from api_house import ApiHouse

from hermes_cli import config
from hermes_lab.server import LabServer

CANARY = "sk-canary-5d1c77aa"
PASSWORD = "pass/word-0815"
WRITTEN = "pass%2fword-0815"


def find_in_files(home: Path, *secrets: str) -> list[str]:
    """Files that hold one, beside those that are made for it."""
    files = [path for path in home.rglob("*") if path.is_file() and path.name not in (".env", "config.yaml")]
    return [path.name for path in files for secret in secrets if secret.encode() in path.read_bytes()]


@pytest.fixture
def keyed(api: ApiHouse) -> ApiHouse:
    config.set_value("MY_SERVICE_API_KEY", CANARY)
    return api


def test_a_secret_in_pieces_of_the_stream(keyed: ApiHouse, lab: LabServer, home: Path) -> None:
    """G6: text, reasoning, the name of a tool and its arguments."""
    calls = [{"name": "look", "arguments": {"path": CANARY, CANARY: 1}}, {"name": CANARY, "arguments": {}}]
    spoken = {"reasoning": f"The key is {CANARY}, so", "text": f"Your key is {CANARY}, keep it.", "chunk_size": 3}
    lab.set_plan([{**spoken, "tool_calls": calls}, spoken])
    messages = [{"role": "user", "content": "Which key do I have?"}]
    asked = {"model": "hermes", "messages": messages, "stream": True, "hermes": {"events": True}}
    with keyed.http().stream("POST", "/v1/chat/completions", json=asked) as answer:
        lines = [line for line in answer.iter_lines() if line.startswith("data: {")]
    raw = "\n".join(lines)
    assert CANARY not in raw
    deltas = [choice["delta"] for line in lines for choice in json.loads(line[6:])["choices"]]
    for field in ("content", "reasoning_content"):
        said = "".join(delta.get(field) or "" for delta in deltas)
        assert said.count("[redacted MY_SERVICE_API_KEY]") == 2
        assert CANARY not in said
    assert find_in_files(home, CANARY) == []
    assert CANARY not in lab.requests[-1].body.decode()


@pytest.mark.parametrize(
    ("login", "query", "shown"), [(f"somebody:{WRITTEN}@", "", ""), ("", f"?key={CANARY}", "?key=…")]
)
def test_a_secret_in_the_address_of_the_model_server(
    lab: LabServer, home: Path, login: str, query: str, shown: str
) -> None:
    """G6: not in the answer, not in a file, not in the settings as they are shown; also when the server repeats it."""
    lab.set_plan([{"fault": {"status": 401, "message": f"No such user: somebody {PASSWORD}"}, "times": 0}])
    with ApiHouse(home, lab.base_url.replace("//", f"//{login}") + query) as api:
        with pytest.raises(openai.APIError) as failed:
            api.client(max_retries=0).chat.completions.create(
                model="hermes", messages=[{"role": "user", "content": "Hello"}]
            )
        assert config.get_value("model.base_url") == lab.base_url + shown
    told = str(failed.value)
    assert f"lab at {lab.base_url}{shown}" in told
    for secret in (PASSWORD, WRITTEN, CANARY):
        assert secret not in told
    assert find_in_files(home, PASSWORD, WRITTEN, CANARY) == []
