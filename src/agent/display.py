"""`get_tool_emoji`: the sign that stands for a tool, for plugins that show what is done."""


def get_tool_emoji(tool_name: str, default: str = "⚡") -> str:
    return find_emoji(tool_name) or default


def find_emoji(tool_name: str) -> str:
    """The sign that a tool was registered with; who knows the tools stands above, and puts itself in this place."""
    del tool_name
    return ""
