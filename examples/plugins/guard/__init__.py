"""A hook: no tool runs that would touch a file called `keep.txt`."""


def before_tool(args=None, **_):
    """None lets the tool run; `block` says why not, and the model reads it. Take **_: more is told than you need."""
    if "keep.txt" in str(args):
        return {"action": "block", "message": "keep.txt stays as it is."}
    return None


def register(ctx):
    ctx.register_hook("pre_tool_call", before_tool)
