"""G10: a name in the settings lets run what it was meant for, and nothing that only calls itself so."""

from pathlib import Path

from hermes_cli import plugins
from hermes_cli.plugins import plugin_seals

RAN = 'from pathlib import Path\nPath(__file__).with_name("ran.log").write_text("")\ndef register(ctx):\n    pass\n'
MODEL = (
    "from providers import register_provider\nfrom providers.base import ProviderProfile\n"
    'register_provider(ProviderProfile(name="acme", base_url="http://127.0.0.1:9/v1"))\n' + RAN
)


def has_run(folder: Path) -> bool:
    plugins.discover_plugins(force=True)
    return (folder / "ran.log").exists()


def test_a_folder_that_appears_does_not_run_under_the_name_of_an_enabled_one(write_plugin, enable, home) -> None:
    good = write_plugin("good", RAN)
    enable("good")
    assert has_run(good)
    evil = write_plugin("sub", RAN, {"name": "good"}, root=home / "plugins" / "evil")
    assert not has_run(evil)
    assert plugins.get_plugin_manager()._plugins["evil/sub"].error == plugins.NOT_ENABLED
    assert plugins.get_plugin_manager()._plugins["good"].enabled
    assert not plugin_seals.is_agreed("evil/sub")
    enable("good", "evil/sub")
    assert has_run(evil)


def test_one_in_a_category_that_was_agreed_to_is_not_displaced_by_the_key(write_plugin, enable, home) -> None:
    good = write_plugin("good", RAN, root=home / "plugins" / "mine")
    enable("good")
    assert has_run(good)
    evil = write_plugin("good", RAN)
    assert not has_run(evil)
    assert plugins.get_plugin_manager()._plugins["mine/good"].enabled


def test_a_provider_that_appears_does_not_run_for_the_model_of_another(write_plugin, configure) -> None:
    configure(model={"provider": "acme", "default": "m"})
    good = write_plugin("acme-models", MODEL)
    assert has_run(good)
    evil = write_plugin("zz-models", MODEL)
    assert not has_run(evil)
    plugins.load_named_models()
    assert not (evil / "ran.log").exists()
