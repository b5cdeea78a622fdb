"""A browser for the model: Chromium in a process of its own, whose only way out is a proxy of ours (G8).

`helper` is that process: it drives the browser and runs the proxy, and ends with Hermes. `client` is Hermes's side of
it. What is installed, and how the browser is started, stands in `launching`.
"""
