"""The commands of the terminal, as a table: what runs each, and how it is told in the help. Imports nothing of ours, so
that `hermes --version` stays cheap."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class CommandEntry(NamedTuple):
    target: str  # module:function; takes the remaining arguments, returns the exit code
    summary: str
    package: str = ""  # a package that not everybody has; without it the command is not offered
    draws: bool = False  # it steers the terminal itself, and cleans what it shows; the others only print


COMMANDS: Mapping[str, CommandEntry] = MappingProxyType(
    {
        "chat": CommandEntry("hermes_cli.chat.chat_cmd:main", "Chat in the terminal (the default).", draws=True),
        "setup": CommandEntry("hermes_cli.cmds.setup_cmd:main", "Choose who answers, with a few questions and a try."),
        "gateway": CommandEntry("hermes_cli.cmds.gateway.gateway_cmd:main", "Run the gateway, here or as a service."),
        "web": CommandEntry("hermes_cli.cmds.web_cmd:main", "Print the address of the web page, or open it."),
        "status": CommandEntry(
            "hermes_cli.cmds.status_cmd:main", "Show how this Hermes is: gateway, model, platforms, usage."
        ),
        "logs": CommandEntry("hermes_cli.cmds.logs_cmd:main", "Show the log of the gateway."),
        "sessions": CommandEntry(
            "hermes_cli.cmds.sessions_cmd:main", "List, search, show, export or delete past sessions."
        ),
        "nodes": CommandEntry("hermes_cli.cmds.nodes_cmd:main", "Show the gateways that share a store."),
        "usage": CommandEntry("hermes_cli.cmds.usage_cmd:main", "Show tokens, cache hits and cost by day and model."),
        "people": CommandEntry("hermes_cli.cmds.people_cmd:main", "Decide who may speak, and what is kept of them."),
        "approvals": CommandEntry(
            "hermes_cli.cmds.approvals_cmd:main", "List and revoke kept approvals, answer what waits."
        ),
        "browser": CommandEntry(
            "hermes_cli.cmds.browser_cmd:main", "Sign the model's browser in to sites, or out again."
        ),
        "api-keys": CommandEntry("hermes_cli.cmds.api_keys_cmd:main", "Make, list and revoke keys of the API."),
        "acp": CommandEntry(
            "hermes_cli.acp.acp_cmd:main", "Speak with an editor (Agent Client Protocol); it starts this.", draws=True
        ),
        "config": CommandEntry("hermes_cli.cmds.config_cmd:main", "Read, change and explain the settings."),
        "memory": CommandEntry("hermes_cli.cmds.memory_cmd:main", "Choose what keeps the memory, and see how it is."),
        "plugins": CommandEntry("hermes_cli.plugins_cmd:main", "Install, update, remove, list and enable plugins."),
        "mcp": CommandEntry(
            "hermes_cli.cmds.mcp_cmd:main", "MCP: servers whose tools the model has; serve other programs."
        ),
        "backup": CommandEntry("hermes_cli.cmds.backup_cmd:main", "Back up the home, check a back-up, or put it back."),
        "store": CommandEntry("hermes_cli.cmds.store_cmd:main", "Show where the store is, or move it to a database."),
        "health": CommandEntry(
            "hermes_cli.cmds.health_cmd:main", "Ask whether the running gateway is well; for probes."
        ),
        "doctor": CommandEntry("hermes_cli.cmds.doctor:main", "Find out what is wrong, and how to put it right."),
        "lab": CommandEntry(
            "hermes_cli.cmds.lab:main", "Serve a scripted model or a chat app on this machine, for tests.", "hermes_lab"
        ),
    }
)
OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "-q, --query TEXT": "Answer one question on stdout and leave.",
        "--profile NAME": "Use the profile's own settings and sessions.",
        "--version": "Show the version.",
        "-h, --help": "Show this help; after a command, the command's own.",
    }
)
