"""A memory provider: keeps answered questions in a file, one for each person, and recalls those with the same words."""

import json
import re
import threading
from pathlib import Path

from agent.memory_provider import MemoryProvider

SEARCH = {
    "name": "notebook_search",
    "description": "Search what was said in earlier conversations.",
    "parameters": {"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]},
}


def split_words(text):
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 3}


#: Of the module: each conversation has a provider of its own, and all of them write into the same files. Each is asked
#: on one thread and told on another.
_lock = threading.Lock()


class Notebook(MemoryProvider):
    name = "notebook"

    def is_available(self):
        return True

    def initialize(self, session_id, **kwargs):
        # In the folder of its data (`ctx.data_folder` is the same), not beside the code, which an update exchanges.
        # Without a user the memory is common to all; a name from outside never becomes a path by itself.
        user = re.sub(r"\W", "_", kwargs.get("user_id") or "all")
        self._file = Path(kwargs["hermes_home"], "notebook", f"{user}.jsonl")
        self._session = session_id
        settings = Path(kwargs["hermes_home"], "notebook.json")
        self._most = int(json.loads(settings.read_text())["most"]) if settings.exists() else 3

    def get_tool_schemas(self):
        return [SEARCH]

    def system_prompt_block(self):
        return "# Notebook\n\nWhat was asked before comes along with a question it fits; `notebook_search` finds more."

    def prefetch(self, query, *, session_id=""):
        return "\n".join(self._search(query, without=self._session))

    def sync_turn(self, user_content, assistant_content, *, session_id="", messages=None):
        self._write({"session": session_id, "asked": user_content, "answered": assistant_content})

    def handle_tool_call(self, tool_name, args, **kwargs):
        return json.dumps({"found": self._search(args.get("words", ""))})

    def on_memory_write(self, action, target, content, metadata=None):
        if action != "remove":
            self._write({"session": "", "asked": "note", "answered": content})

    def on_session_switch(self, new_session_id, **kwargs):
        self._session = new_session_id

    def get_config_schema(self):
        return [{"key": "most", "description": "How many entries come along with a question", "default": "3"}]

    def save_config(self, values, hermes_home):
        Path(hermes_home, "notebook.json").write_text(json.dumps(values))

    def _write(self, entry):
        with _lock:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with self._file.open("a") as file:
                print(json.dumps(entry), file=file)

    def _search(self, text, without=None):
        """The newest entries that share a word; what this session said stands in it already."""
        with _lock:
            lines = self._file.read_text().splitlines() if self._file.exists() else []
        words = split_words(text)
        entries = [entry for entry in map(json.loads, lines) if entry["session"] != without]
        said = [f"{entry['asked']} – {entry['answered']}" for entry in entries]
        return [text for text in said if words & split_words(text)][-self._most :]


def register(ctx):
    ctx.register_memory_provider(Notebook())
