"""Writes the tables of docs/settings.md and docs/providers.md from the code; a test compares them."""

import json
from collections.abc import Iterable
from pathlib import Path

from agent.providers.failures import _BY_STATUS
from agent.providers.table import _ALIASES, PROVIDERS, Provider
from hermes_base.errors import Concern, FailureKind
from hermes_base.setting_owners import is_for_all
from hermes_base.setting_table import OPEN_SECTIONS, SETTINGS, Setting

DOCS = Path(__file__).resolve().parent.parent / "docs"

SETTINGS_INTRO = """# Settings

Written by `scripts/tables.py` from `hermes_base.settings`; do not edit.

Settings are kept in `config.yaml` in the home (`~/.hermes`, or where `HERMES_HOME` points; `hermes config path` prints
it), keys and other secrets in `.env` beside it. `hermes config set KEY VALUE` changes one and refuses what is wrong;
`hermes config explain KEY` tells where a value comes from. In the file the part before the dot is a section:

```yaml
model:
  provider: openrouter
  fallbacks:
    - provider: openai
      model: gpt-5-mini
```
"""
WHOSE = """Where several gateways share a store ([how](store.md)), a setting of all is the same on each: set on one, by
command, on the page or by hand, it holds on the others within five seconds. One of the machine is each machine's own.
Of what others own, `platforms`, `auxiliary`, `providers`, `skills` and `memory` are of all, but for what is called like
a secret; `plugins` and `mcp_servers` are of the machine."""
PROVIDERS_INTRO = """# Providers

Written by `scripts/tables.py` from `agent.providers.table`; do not edit.

`hermes config set model.provider NAME` chooses one, `model.default` the model, `model.base_url` another address.
Without a choice the first provider in this list whose key is set answers, then a server that runs on this machine, then
the built-in model. `custom` is any address in the OpenAI format; it takes a key if it needs one. The address of a
server holds the scheme and, for most, `/v1`: `http://127.0.0.1:8000/v1`. A key or a choice that is changed counts from
the next message on; the format can be changed with `model.api_mode`. `hermes doctor` asks the model for two letters and
says what is wrong if it does not answer.

Plugins bring more of them ([how](plugins.md#a-provider-of-models)): one that is loaded is named, chosen and asked like
those below, and stands behind them. A name of the table stays with the table.
"""
FAILOVER_INTRO = """## When one fails

`model.fallbacks` names who else may answer, in order; behind a model that was chosen with `/model` stands the usual one
first. Each entry has a provider, its address and its key together: a key is never sent to another provider's address. A
failed call is read, its words before its status, for what it calls for and for what it is about:
"""
CALLS_FOR = {
    FailureKind.RETRY: "a second try after a second, then the next in the chain, else more tries",
    FailureKind.ROTATE: "the next in the chain",
    FailureKind.NEXT: "the next in the chain",
    FailureKind.OVERFLOW: "a shorter conversation, at most three times",
    FailureKind.FIX: "nothing: nobody would take this request",
}
IS_ABOUT = {
    Concern.REQUEST: ("this request", "nobody; the next request goes there again"),
    Concern.PICTURE: ("its pictures", "nobody; pictures that nobody takes are left out of later requests"),
    Concern.TEXT: ("its text", "nobody; a text that nobody takes is left out of later requests"),
    Concern.MODEL: ("the model", "this model with this key at this address"),
    Concern.KEY: ("the key", "every model with this key at this address"),
    Concern.ADDRESS: ("the address", "everything at this address"),
}
FAILOVER_RULES = """
- A body may say more than its status: credit that is used up, a key that is not valid, a model that is unknown or was
  withdrawn, a picture or a text that is not taken. Such words count, also in a 400.
- It is left alone for 30 s, or as long as the provider asks for, doubling up to 5 minutes; then one turn probes it. A
  probe ends with its turn, however that ends. All conversations share this.
- Every turn begins with the first of the chain that is well: the first choice, if it is. If nobody is well, with the
  first choice. For each answer within a turn each one is asked once.
- All tries of one model step share 5 minutes, counted from the first failure that was detected. A stream that stalls is
  handed over at once; so is a second try that says nothing for 8 s, while another provider is well.
- That another model stands in, and that the first one is back, is said once (`gateway.model_notices`) and logged with
  from, to and reason. The API names in `model` who answered.
- A key that was put right, and an edit of `model.fallbacks`, count with the next message."""


def write_failover() -> str:
    statuses = [
        (f"HTTP {status}", reading.what, CALLS_FOR[reading.kind], IS_ABOUT[reading.concern][0])
        for status, reading in _BY_STATUS.items()
    ]
    retry, next_one = CALLS_FOR[FailureKind.RETRY], CALLS_FOR[FailureKind.NEXT]
    statuses += [
        ("other 4xx", "does not take this request", next_one, IS_ABOUT[Concern.REQUEST][0]),
        ("5xx", "has a problem of its own", retry, IS_ABOUT[Concern.MODEL][0]),
        ("no connection", "cannot be reached", retry, IS_ABOUT[Concern.ADDRESS][0]),
        ("silence, a broken stream", "broke off", retry, IS_ABOUT[Concern.MODEL][0]),
    ]
    parts = [
        FAILOVER_INTRO,
        _write_table(("failure", "the provider", "calls for", "is about"), statuses),
        _write_table(("is about", "is left alone for a while"), IS_ABOUT.values()),
        FAILOVER_RULES,
    ]
    return "\n\n".join(part.strip() for part in parts)


def write_settings() -> str:
    rows = [
        (f"`{row.key}`", _describe(row), f"`{_show(row.default)}`", row.takes_effect, _whose(row)) for row in SETTINGS
    ]
    columns = ("setting", "meaning", "default", "a change takes effect", "is of")
    parts = [SETTINGS_INTRO, _write_table(columns, rows), WHOSE]
    prefix = ", ".join(f"`{row.key}`" for row in SETTINGS if row.breaks_prefix)
    owned = ", ".join(f"`{name}`" for name in OPEN_SECTIONS)
    parts.append(f"A change of {prefix} makes a running conversation send its whole prompt anew once, at full price.")
    parts.append(f"Plugins and providers own {owned}: these may hold anything. An unknown key is kept, with a warning.")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def write_providers() -> str:
    columns = ("name", "provider", "key", "address", "default model", "format")
    aliases = ", ".join(f"`{alias}` for `{name}`" for alias, name in _ALIASES.items())
    parts = [PROVIDERS_INTRO, _write_table(columns, map(_provider_row, PROVIDERS.values())), f"Also taken: {aliases}."]
    parts.append(write_failover())
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _describe(row: Setting) -> str:
    choices = ", ".join(f"`{choice}`" for choice in row.choices if choice)
    return f"{row.doc} One of {choices}." if choices else row.doc


def _whose(row: Setting) -> str:
    return "all" if is_for_all(row.key, known=True) else "the machine"


def _show(value: object) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


def _provider_row(provider: Provider) -> tuple[str, ...]:
    keys = " or ".join(f"`{name}`" for name in provider.key_env) or "none"
    model = f"`{provider.default_model}`" if provider.default_model else "the server's first"
    return f"`{provider.name}`", provider.label, keys, _show_address(provider), model, f"`{provider.api_mode}`"


def _show_address(provider: Provider) -> str:
    if provider.base_url:
        return f"`{provider.base_url}`"
    return "in this process" if not provider.calls_tools else "`model.base_url`"


def _write_table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (columns, ("---",) * len(columns), *rows))


#: Each page and what it has to hold.
PAGES = {"settings.md": write_settings, "providers.md": write_providers}


if __name__ == "__main__":
    for name, write in PAGES.items():
        (DOCS / name).write_text(write(), encoding="utf-8")
