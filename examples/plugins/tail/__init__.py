"""A context engine: when the window is nearly full, the middle of the conversation is dropped."""

from agent.context_engine import ContextEngine


class Tail(ContextEngine):
    name = "tail"  # what `context.engine` calls it

    def update_from_response(self, usage):
        self.last_prompt_tokens = usage.get("prompt_tokens", 0)

    def should_compress(self, prompt_tokens=None):
        tokens = self.last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return bool(self.threshold_tokens) and tokens >= self.threshold_tokens

    def compress(self, messages, current_tokens=None, **options):
        """Give back a shorter list that is still a conversation: it begins as before, and then with a question."""
        first = [message for message in messages[:1] if message["role"] == "system"]
        last = messages[-self.protect_last_n :]
        while last and last[0]["role"] != "user":
            last = last[1:]
        self.compression_count += 1
        return first + last if last else messages


def register(ctx):
    ctx.register_context_engine(Tail())
