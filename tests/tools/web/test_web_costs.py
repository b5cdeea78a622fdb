"""What is not used is not paid for: a program that reads no page loads nothing that reads pages."""

import subprocess
import sys

SLOW = ("httpx2", "lxml", "pypdf", "charset_normalizer", "tools.web.page_fetching", "tools.web.search_services")


def test_nothing_slow_is_loaded_before_it_is_used() -> None:
    program = f"import gateway.app, run_agent, sys; print([name for name in {SLOW!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
