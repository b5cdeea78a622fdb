"""Which settings concern all gateways of a store, and which are those of one machine."""

#: Of one machine, and another on each as a rule: what it listens on, where its files are, what it shows and logs.
OF_PLACE = (
    "store.",
    "log.",
    "display.",
    "web.enabled",
    "web.host",
    "web.port",
    "web.names",
    "browser.program",
    "browser.cdp_url",
    "gateway.agents",
    "gateway.agent_megabytes",
    "plugins.index",
)
#: Of one machine, too, since they name what is there and run it; where they differ, a conversation finds something else
#: on another machine, so that is told.
OF_MACHINE = ("terminal.backend", "terminal.env", "files.roots", "people.roots", "plugins.", "mcp_servers.")
#: What others own and concerns all; whatever else nobody here knows is the machine's.
OPEN_FOR_ALL = ("platforms.", "auxiliary.", "providers.", "skills.", "memory.")


def is_of_place(key: str) -> bool:
    return key.startswith(OF_PLACE)


def is_for_all(key: str, *, known: bool) -> bool:
    """Whether a setting is one for all gateways; `known`: it stands in the table of settings."""
    return not key.startswith((*OF_PLACE, *OF_MACHINE)) and (known or key.startswith(OPEN_FOR_ALL))
