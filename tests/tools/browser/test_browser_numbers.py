"""G9: nothing that a page runs decides about the numbers of elements, its own or those of the page around it."""

import json
from collections.abc import Iterator

import pytest
from web_surfing import Site, Surfer, open_site

from tools.browser.page_view import MOST_NEW, BadSight, read_sight

#: A page that changes what every script in its own world is made of.
HIJACK = """<input id=e><p>ad</p><button>x</button><script>
const e = document.getElementById('e'), push = Array.prototype.push, get = Map.prototype.get;
Array.prototype.push = function (...all) {
  for (const one of all) {
    if (one && typeof one === 'object' && one.k === 'next') one.v = 1e15;
    if (one && typeof one === 'object' && one.k === 'numbers')
      for (let i = 1; i < 200; i++) one.v.a[one.v.a.length] = i;
  }
  return push.apply(this, all);
};
Map.prototype.get = function (key) { return typeof key === 'number' ? { deref: () => e } : get.call(this, key) };
JSON.stringify = () => '{"lines": [], "numbers": [1, 2, 3], "next": 1000000000000000, "cut": false}';
</script>"""


@pytest.fixture
def elsewhere() -> Iterator[Site]:
    with open_site("127.0.0.5") as opened:
        opened.pages["/"] = HIJACK
        yield opened


def test_a_frame_does_not_take_over_the_page_around_it(site: Site, elsewhere: Site, surfer: Surfer) -> None:
    """G9: what is typed for the page arrives in the page."""
    surfer.config["network"] = {"private": ["127.0.0.0/8"]}
    said = "<p id=said></p><script>p.oninput = () => said.textContent = 'page heard ' + p.value</script>"
    site.pages["/"] = f"<label>Name <input id=p></label>{said}<iframe src='{elsewhere.url}/'></iframe>"
    shown = surfer.open(site.url)
    assert "ad\n" in shown, "the frame is shown as it is"
    surfer.do("type", element=surfer.find("Name"), text="ann")
    assert "page heard ann" in surfer.do("snapshot")


def test_a_page_does_not_make_the_helper_count(elsewhere: Site, surfer: Surfer) -> None:
    """Its number is the first one, whatever it wants to be next."""
    surfer.config["network"] = {"private": ["127.0.0.0/8"]}
    assert "[2 button: x]" in surfer.open(elsewhere.url)


@pytest.mark.parametrize(
    "change",
    [
        {"next": 1e15},
        {"next": 10 + MOST_NEW + 1},
        {"next": 9},
        {"next": True},
        {"numbers": [3]},
        {"numbers": [10.0]},
        {"numbers": "10"},
        {"lines": [{"frame": 3}]},
        {"lines": [{"other": 10}]},
        {"lines": [["10"]]},
    ],
)
def test_every_value_is_checked(change: dict[str, object]) -> None:
    told = {"lines": ["text", {"frame": 10}], "numbers": [4, 10], "next": 11, "cut": False}
    seen = read_sight(json.dumps(told), 10, frozenset({4}))
    assert (seen.lines, seen.numbers, seen.next) == (("text", 10), {4, 10}, 11)
    with pytest.raises(BadSight):
        read_sight(json.dumps({**told, **change}), 10, frozenset({4}))
