"""What loading an SDK brings along."""

import subprocess
import sys

LOAD = """
import sys
from agent.http.clients import load_sdk
load_sdk("openai")
import openai
print("aiohttp" in sys.modules, openai.OpenAI.__name__)
"""


def test_the_sdk_does_not_load_the_http_client_of_chat_apps() -> None:
    """F4: it would cost every gateway memory and time, and nothing here uses it."""
    import_it = subprocess.run([sys.executable, "-c", "import aiohttp"], capture_output=True)
    assert import_it.returncode == 0, "without it this test says nothing"
    done = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "OpenAI"]
