"""What drives the browser. It is an extra and slow to load: only modules of the helper's process import this one."""

import importlib
from typing import Any

_playwright: Any = importlib.import_module("playwright.async_api")

start_driver: Any = _playwright.async_playwright
#: Whatever it could not do: a page that went on or away in between, a browser that ended, an element that is hidden.
DriverError: type[Exception] = _playwright.Error
DriverTimeout: type[Exception] = _playwright.TimeoutError
