"""The text of a new plugin of each kind: its code, and a test of it that passes.

In it `{{name}}` stands for the plugin's name, `{{slug}}` for the same as a name in Python, `{{label}}` for a class.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

MANIFEST = """\
name: {{name}}
version: "0.1"
description: Say in one line what it is for.
author: ""
manifest_version: 1
"""

README = """\
# {{name}}

    hermes plugins install .      # from this folder; it stays off until you say yes
    python -m pytest tests        # with the Python of Hermes
"""

TEST_HEAD = '''\
"""Tests of the plugin. Run them with the Python of Hermes: python -m pytest tests"""

import importlib.util
import sys
from pathlib import Path

from hermes_cli.plugins import PluginContext, PluginManager, PluginManifest

FOLDER = Path(__file__).resolve().parents[1]


def load():
    """The plugin as Hermes loads it, in a host of its own: the host and the plugin's module."""
    place = FOLDER / "__init__.py"
    spec = importlib.util.spec_from_file_location("plugin_{{slug}}", place, submodule_search_locations=[str(FOLDER)])
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    host = PluginManager()
    if hasattr(module, "register"):
        module.register(PluginContext(PluginManifest("{{name}}"), host))
    return host, module


'''


@dataclass(frozen=True, slots=True)
class PluginTemplate:
    """A kind of plugin to start with."""

    code: str
    test: str  # behind TEST_HEAD
    use: str  # what to do once it is enabled
    manifest: str = ""  # lines that are added
    module: str = ""  # of the host, without which this kind is not offered
    more: Mapping[str, str] = field(default_factory=dict)  # further files


_TOOL = PluginTemplate(
    '''\
"""A tool for the model: it counts words."""

SCHEMA = {
    "name": "{{slug}}",
    "description": "Count the words of a text. Say here when the model should use it.",
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def count(args, **context):
    """What a tool returns is text for the model; what it raises, too."""
    return f"{len(args['text'].split())} words"


def register(ctx):
    ctx.register_tool("{{slug}}", "{{slug}}", SCHEMA, count)
''',
    """\
def test_the_tool_counts():
    host, plugin = load()
    assert "{{slug}}" in host._plugin_tool_names
    assert plugin.count({"text": "one two three"}) == "3 words"
    host.clear()
""",
    "Ask the model to count the words of a sentence.",
    "provides_tools: [{{slug}}]\n",
)

_HOOK = PluginTemplate(
    '''\
"""A hook: no tool runs that would touch a file called `keep.txt`."""


def before_tool(args=None, **_):
    """None lets the tool run; `block` says why not, and the model reads it. Take **_: more is told than you need."""
    if "keep.txt" in str(args):
        return {"action": "block", "message": "keep.txt stays as it is."}
    return None


def register(ctx):
    ctx.register_hook("pre_tool_call", before_tool)
''',
    """\
def test_it_blocks_what_it_should():
    host, _ = load()
    answers = host.invoke_hook("pre_tool_call", tool_name="write_file", args={"path": "keep.txt"})
    assert answers == [{"action": "block", "message": "keep.txt stays as it is."}]
    assert host.invoke_hook("pre_tool_call", tool_name="write_file", args={"path": "other.txt"}) == []
""",
    "Ask the model to write to keep.txt.",
    "provides_hooks: [pre_tool_call]\n",
)

_COMMAND = PluginTemplate(
    '''\
"""A slash command: `/{{slug}} TEXT`, in every chat. No model is asked."""


def answer(text):
    """What stands behind the command comes in, what is shown goes out; async works, too."""
    return text[::-1] if text else "Say what: /{{slug}} TEXT"


def register(ctx):
    ctx.register_command("{{slug}}", answer, "Say it backwards.", "TEXT")
''',
    """\
def test_the_command_answers():
    host, _ = load()
    assert host._plugin_commands["{{slug}}"]["handler"]("abc") == "cba"
""",
    "Type /{{slug}} hello in a chat.",
)

_CLI = PluginTemplate(
    '''\
"""A command of the terminal: `hermes {{slug}} NAME`. It needs no model."""


def setup(parser):
    """`parser` is one of argparse."""
    parser.add_argument("name", help="whom to greet")


def run(args):
    print(f"Hello {args.name}.")


def register(ctx):
    ctx.register_cli_command("{{slug}}", "Greet somebody.", setup, run)
''',
    """\
def test_the_command_greets(capsys):
    import argparse

    host, _ = load()
    command = host._cli_commands["{{slug}}"]
    parser = argparse.ArgumentParser()
    command["setup_fn"](parser)
    command["handler_fn"](parser.parse_args(["Ada"]))
    assert capsys.readouterr().out == "Hello Ada.\\n"
""",
    "Run: hermes {{slug}} Ada",
)

_ENGINE = PluginTemplate(
    '''\
"""A context engine: when the window is nearly full, the middle of the conversation is dropped."""

from agent.context_engine import ContextEngine


class {{label}}(ContextEngine):
    name = "{{slug}}"  # what `context.engine` calls it

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
    ctx.register_context_engine({{label}}())
''',
    """\
def test_it_keeps_both_ends():
    host, _ = load()
    engine = host._context_engine
    said = [{"role": role, "content": str(n)} for n in range(20) for role in ("user", "assistant")]
    kept = engine.compress([{"role": "system", "content": "s"}, *said])
    assert kept[0]["role"] == "system" and kept[1]["role"] == "user" and kept[-1] == said[-1]
    assert len(kept) < 10
    engine.update_model(model="m", context_length=1000)
    assert engine.should_compress(800) and not engine.should_compress(100)
""",
    "hermes config set context.engine {{slug}}",
)

_MIDDLEWARE = PluginTemplate(
    '''\
"""Middleware: stands around each call of a tool, and notes how long it took."""

import logging
import time

log = logging.getLogger(__name__)
took = []  # tool, seconds


def around_tool(tool_name="", next_call=None, **_):
    """`next_call()` runs the tool, once; what is returned here is its result."""
    begun = time.monotonic()
    try:
        return next_call()
    finally:
        took.append((tool_name, time.monotonic() - begun))
        log.info("%s took %.3f s", *took[-1])


def register(ctx):
    ctx.register_middleware("tool_execution", around_tool)
''',
    """\
def test_the_result_passes_through():
    host, plugin = load()
    around = host._middleware["tool_execution"][0]
    assert around(tool_name="t", args={}, next_call=lambda: "done") == "done"
    assert plugin.took[0][0] == "t"
""",
    "Let the model use a tool, and look into the log (log.level info).",
)

_SKILL = PluginTemplate(
    '''\
"""A skill: instructions that the model reads when it needs them."""

from pathlib import Path


def register(ctx):
    ctx.register_skill("{{slug}}", Path(__file__).parent / "skills" / "{{slug}}", "How we write notes of meetings.")
''',
    """\
def test_the_skill_is_found():
    host, _ = load()
    place = host.find_plugin_skill("{{name}}:{{slug}}")
    assert (place / "SKILL.md").read_text().startswith("---")
""",
    "Ask the model to read the skill {{name}}:{{slug}}.",
    more=MappingProxyType(
        {
            "skills/{{slug}}/SKILL.md": "---\nname: {{slug}}\ndescription: How we write notes of meetings.\n---\n\n"
            "Begin with who was there. One line for each decision. End with who does what until when.\n"
        }
    ),
)

_MEMORY = PluginTemplate(
    '''\
"""A memory provider: keeps what was said in a file, and recalls the last of it."""

import threading
from pathlib import Path

from agent.memory_provider import MemoryProvider

#: Of the module: each conversation has a provider of its own, and all of them write into one file.
_lock = threading.Lock()


class {{label}}(MemoryProvider):
    name = "{{name}}"

    def is_available(self):
        return True

    def initialize(self, session_id, **facts):
        folder = Path(facts["hermes_home"], "{{name}}")  # its data; what stands beside the code goes with it
        folder.mkdir(exist_ok=True)
        self._file = folder / "said.txt"

    def get_tool_schemas(self):
        return []

    def prefetch(self, query, *, session_id=""):
        """What comes along with a question."""
        return "\\n".join(self._file.read_text().splitlines()[-3:]) if self._file.exists() else ""

    def sync_turn(self, user_content, assistant_content, *, session_id="", messages=None):
        """Called after each answered question."""
        with _lock, self._file.open("a") as file:
            print(f"{user_content} – {assistant_content}".replace("\\n", " "), file=file)


def register(ctx):
    ctx.register_memory_provider({{label}}())
''',
    """\
def test_it_remembers(tmp_path):
    _, plugin = load()
    memory = plugin.{{label}}()
    memory.initialize("s", hermes_home=str(tmp_path))
    assert memory.prefetch("tea?") == ""
    memory.sync_turn("Tea?", "Green.")
    assert memory.prefetch("tea?") == "Tea? – Green."
""",
    "hermes memory setup {{name}}",
    module="agent.memory_provider",
)

_PLATFORM = PluginTemplate(
    '''\
"""A platform: people write files into a folder, and get their answers as files."""

from pathlib import Path

from gateway.config import Platform
from gateway.platforms.base import BasePlatformAdapter, MessageEvent, MessageType, SendResult


class {{label}}(BasePlatformAdapter):
    def __init__(self, config):
        super().__init__(config, Platform("{{slug}}"))
        self.folder = Path(config.extra.get("folder") or "{{slug}}-answers")

    async def connect(self, *, is_reconnect=False):
        self.folder.mkdir(parents=True, exist_ok=True)
        self._mark_connected()
        return True

    async def disconnect(self):
        self._mark_disconnected()

    async def send(self, chat_id, content, reply_to=None, metadata=None):
        (self.folder / f"{Path(chat_id).name}.txt").write_text(content)
        return SendResult(success=True, message_id=chat_id)

    async def get_chat_info(self, chat_id):
        return {"name": chat_id, "type": "dm"}

    async def receive(self, person, text):
        """Call this when somebody wrote something."""
        source = self.build_source(chat_id=person, user_id=person, user_name=person, chat_type="dm")
        await self.handle_message(MessageEvent(text=text, message_type=MessageType.TEXT, source=source))


def register(ctx):
    ctx.register_platform("{{slug}}", "{{name}}", {{label}}, lambda: True)
''',
    """\
def test_it_writes_answers(tmp_path):
    import asyncio

    from gateway.config import PlatformConfig

    _, plugin = load()
    adapter = plugin.{{label}}(PlatformConfig(enabled=True, extra={"folder": str(tmp_path)}))

    async def speak():
        assert await adapter.connect()
        sent = await adapter.send("ada", "Hello")
        await adapter.disconnect()
        return sent

    assert asyncio.run(speak()).success
    assert (tmp_path / "ada.txt").read_text() == "Hello"
""",
    "hermes config set platforms.{{slug}}.enabled true, then start the gateway.",
    "kind: platform\n",
    module="gateway.platforms.base",
)

_MODEL = PluginTemplate(
    '''\
"""A model provider: where models answer, and how its key is called. It is registered when it is imported."""

from providers import register_provider
from providers.base import ProviderProfile

register_provider(
    ProviderProfile(
        name="{{name}}",
        display_name="{{name}}",
        base_url="http://127.0.0.1:8000/v1",
        env_vars=("{{upper}}_API_KEY", "{{upper}}_BASE_URL"),
        fallback_models=("my-model",),
    )
)
''',
    """\
def test_it_is_known():
    from providers import get_provider_profile

    load()
    assert get_provider_profile("{{name}}").base_url == "http://127.0.0.1:8000/v1"
""",
    "hermes config set model.provider {{name}}",
    "kind: model-provider\n",
    module="providers",
)

_SEARCH = PluginTemplate(
    '''\
"""A web search: here it knows one page; ask your own service instead."""

from agent.web_search_provider import WebSearchProvider

PAGES = {"https://example.org/tea": "How to make tea"}


class {{label}}(WebSearchProvider):
    name = "{{name}}"

    def is_available(self):
        """Without the network: for example, whether its key is set."""
        return True

    def search(self, query, limit=5):
        found = [(url, title) for url, title in PAGES.items() if query.lower() in title.lower()][:limit]
        rows = [
            {"title": title, "url": url, "description": "", "position": place}
            for place, (url, title) in enumerate(found, start=1)
        ]
        return {"success": True, "data": {"web": rows}}


def register(ctx):
    ctx.register_web_search_provider({{label}}())
''',
    """\
def test_it_finds():
    _, plugin = load()
    found = plugin.{{label}}().search("tea")
    assert [row["url"] for row in found["data"]["web"]] == ["https://example.org/tea"]
""",
    "hermes config set web.search_backend {{name}}",
    "kind: backend\n",
    module="agent.web_search_provider",
)

_BROWSER = PluginTemplate(
    '''\
"""A browser of somebody else: says where its DevTools are reached, one session for each task."""

import os

from agent.browser_provider import BrowserProvider


class {{label}}(BrowserProvider):
    name = "{{name}}"

    def is_available(self):
        return bool(os.environ.get("{{upper}}_CDP_URL"))

    def create_session(self, task_id):
        address = os.environ["{{upper}}_CDP_URL"]
        return {"session_name": task_id, "bb_session_id": task_id, "cdp_url": address, "features": {}}

    def close_session(self, session_id):
        return True

    def emergency_cleanup(self, session_id):
        """The program ends: leave nothing running."""


def register(ctx):
    ctx.register_browser_provider({{label}}())
''',
    """\
def test_a_session_has_an_address(monkeypatch):
    monkeypatch.setenv("{{upper}}_CDP_URL", "ws://127.0.0.1:9222")
    _, plugin = load()
    browser = plugin.{{label}}()
    assert browser.is_available()
    assert browser.create_session("t")["cdp_url"] == "ws://127.0.0.1:9222"
""",
    "hermes config set browser.cloud_provider {{name}}",
    "kind: backend\nrequires_env:\n  - name: {{upper}}_CDP_URL\n    description: Where the browser is reached\n",
    module="agent.browser_provider",
)

TEMPLATES: Mapping[str, PluginTemplate] = MappingProxyType(
    {
        "tool": _TOOL,
        "hook": _HOOK,
        "command": _COMMAND,
        "cli": _CLI,
        "engine": _ENGINE,
        "middleware": _MIDDLEWARE,
        "skill": _SKILL,
        "memory": _MEMORY,
        "platform": _PLATFORM,
        "model-provider": _MODEL,
        "web-search": _SEARCH,
        "browser": _BROWSER,
    }
)
