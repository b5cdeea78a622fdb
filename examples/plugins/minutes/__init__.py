"""A skill: instructions that the model reads when it needs them."""

from pathlib import Path


def register(ctx):
    ctx.register_skill("minutes", Path(__file__).parent / "skills" / "minutes", "How we write notes of meetings.")
