"""A plugin with a tool: the model can roll dice."""

import random

SCHEMA = {
    "description": "Roll dice and get what each of them shows.",
    "parameters": {
        "type": "object",
        "properties": {"dice": {"type": "integer", "minimum": 1, "maximum": 20}, "sides": {"type": "integer"}},
    },
}


def roll(args):
    """Whatever a tool returns or raises is text for the model."""
    dice, sides = int(args.get("dice") or 1), int(args.get("sides") or 6)
    if not 1 <= dice <= 20 or sides < 2:
        raise ValueError("Roll 1 to 20 dice with at least 2 sides.")
    return ", ".join(str(random.randint(1, sides)) for _ in range(dice))


def register(ctx):
    # A toolset is what settings and platforms switch on; tools of a plugin are offered as soon as it is enabled.
    ctx.register_tool("roll_dice", "dice", SCHEMA, roll)
