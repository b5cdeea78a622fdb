"""C2, C10: a client of OpenAI whose gateway is killed in the middle of its question gets one answer, from the next."""

import threading
from pathlib import Path

import pytest
from gateway_process import GatewayProcess
from openai import OpenAI
from waiting import wait_until
from web_house import find_free_port

from gateway.http import access
from hermes_lab.server import LabServer
from hermes_state.sql.schema import STORE_FILE
from hermes_state.sql.store_sql import Store


@pytest.mark.slow
def test_a_client_survives_a_killed_gateway(home: Path, lab: LabServer) -> None:
    """C1, C10: what the client sends again finds the turn that goes on, not a second one."""
    port = find_free_port()
    lab.set_plan([{"text": "Cut.", "stall_first": 30}, {"text": "Survived."}])
    with GatewayProcess(home, lab.base_url, web={"port": port}) as gateway:
        token = access.read_token(home)
        gateway.start()
        client = OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=token, max_retries=20, timeout=30)
        answers: list[str | None] = []

        def ask() -> None:
            told = client.chat.completions.create(model="hermes", messages=[{"role": "user", "content": "Well?"}])
            answers.append(told.choices[0].message.content)

        asking = threading.Thread(target=ask)
        asking.start()
        wait_until(lambda: lab.in_flight == 1)
        gateway.kill()
        gateway.start()
        asking.join(60)
        assert answers == ["Survived."]
        assert gateway.terminate() == 0
    store = Store.open_readonly(home / STORE_FILE)
    (session,) = store.sessions()
    assert [row.message["role"] for row in store.load(session.id).rows] == ["user", "assistant"]
    store.close()
