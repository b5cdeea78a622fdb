"""A plugin with a slash command: `/shout TEXT`, in every chat. No model is asked."""


def shout(text):
    return f"{text.upper()}!" if text else "Say what: /shout TEXT"


def register(ctx):
    ctx.register_command("shout", shout, "Say it loudly.", "TEXT")
