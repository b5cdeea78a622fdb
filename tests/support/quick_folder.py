"""Where tests keep files that nobody looks at through a sandbox: in memory, if the Makefile has found room there. On a
disk every commit of a store waits for it, and costs the processor five times as much."""

import os

#: None: where all temporary files are.
QUICK_FOLDER = os.environ.get("HERMES_TESTS_QUICK") or None
