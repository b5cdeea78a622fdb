"""Browsers for the model's tool `browser`, one for each task: here a Chromium that is started on this machine, with a
folder of its own. A service elsewhere would be asked for one, and say where its DevTools are reached.

`hermes config set browser.cloud_provider lent-browser` has the tool use them.
"""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from agent.browser_provider import BrowserProvider

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


class Lender(BrowserProvider):
    name = "lent-browser"  # what `browser.cloud_provider` calls it

    def __init__(self):
        self._running = {}

    def is_available(self):
        """Without the network."""
        return any(map(shutil.which, PROGRAMS))

    def create_session(self, task_id):
        program = next(filter(None, map(shutil.which, PROGRAMS)))
        folder = tempfile.mkdtemp(prefix="lent-browser-")
        words = [program, "--headless", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={folder}"]
        if os.geteuid() == 0:
            words.append("--no-sandbox")
        process = subprocess.Popen([*words, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._running[folder] = process
        told = Path(folder, "DevToolsActivePort")  # it writes its port and its path there
        while not told.exists() or told.read_text().count("\n") < 1:
            if process.poll() is not None:
                raise RuntimeError("Chromium ended at once.")
            time.sleep(0.05)
        address = f"http://127.0.0.1:{told.read_text().splitlines()[0]}"
        return {"session_name": task_id, "bb_session_id": folder, "cdp_url": address, "features": {}}

    def close_session(self, session_id):
        """The task is over."""
        process = self._running.pop(session_id, None)
        if process is None:
            return False
        process.terminate()
        process.wait()
        shutil.rmtree(session_id, ignore_errors=True)
        return True

    def emergency_cleanup(self, session_id):
        """The program ends: leave nothing running."""
        self.close_session(session_id)


def register(ctx):
    ctx.register_browser_provider(Lender())
