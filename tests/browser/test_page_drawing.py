"""Markdown, formulas and the pure parts of the page's program, run in the browser that they are written for."""

from browsing import Tab

SAMPLES = (
    "One paragraph.\n\nAnother with **bold**, `code` and [a link](https://example.org).\n",
    "# Head\n\n- one\n- two\n  - inner\n\n- loose\n\n1. first\n2. second\n\nafter",
    "Before\n\n```python\nprint(1)\n\n\nprint(2)\n```\n\nAfter\n\n~~~\nopen fence\n",
    "| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 | 4 |\n\n> quote\n> goes on\n\n---\n\nend",
    "Title\n===\n\ntext\\\nnew line<br>and <b>tag</b>\n\n<div onclick='x'>html</div>\n\n* a\n\n  more of a\n* b",
    "Euler $e^{i\\pi}$ and\n\n$$\n\\int x\n$$\n\n\\[ y \\] costs $5 and $6\r\n\r\nwindows\rmac",
)
#: Streams a text in random pieces; what stands there at the end must be what the whole text gives.
STREAM = """async ([text, seed, base]) => {
  const {StreamText} = await import(`${base}stream.js`);
  const {drawMarkdown} = await import(`${base}markdown.js`);
  const frame = () => new Promise(requestAnimationFrame);
  let random = seed;
  const next = (most) => ((random = (random * 1103515245 + 12345) & 0x7fffffff) % most) + 1;
  const stream = new StreamText();
  for (let at = 0; at < text.length;) {
    const piece = text.slice(at, at + next(12));
    stream.push(piece);
    at += piece.length;
    if (next(3) === 1) await frame();
  }
  await frame();
  await frame();
  const whole = document.createElement("div");
  whole.append(drawMarkdown(text.replace(/\\r\\n?/g, "\\n")));
  const tidy = (element) => element.innerHTML.replace(/\\s+/g, " ").replace(/> /g, ">").replace(/ </g, "<").trim();
  return [tidy(stream.element), tidy(whole)];
}"""
#: What the state of a conversation is after events, as JSON.
REDUCE = """async ([events, base]) => {
  const {makeState, applyEvent, isWorking} = await import(`${base}conversation.js`);
  const state = makeState("c");
  for (const event of events) applyEvent(state, event);
  return {
    ids: state.entries.map((entry) => entry.id),
    waiting: state.waiting.map((message) => [message.seq, message.begun]),
    live: state.live && state.live.segments.map((segment) => segment.text ?? segment.name),
    seconds: state.entries.map((entry) => entry.seconds ?? null),
    working: isWorking(state),
  };
}"""


def find_base(tab: Tab) -> str:
    """Where the modules of this page are: the same ones that it runs."""
    return str(tab.page.evaluate("document.querySelector('script[type=module]').src.replace(/main.js.*/, '')"))


def test_a_streamed_text_ends_as_the_whole_text_is_drawn(tab: Tab) -> None:
    base = find_base(tab)
    tab.page.evaluate("(base) => import(`${base}math.js`)", base)
    for text in SAMPLES:
        for seed in range(1, 5):
            streamed, whole = tab.page.evaluate(STREAM, [text.replace("$e^{i\\pi}$", "x"), seed, base])
            assert streamed == whole, (text, seed)


def entry(id: str, kind: str, position: int, **more: object) -> dict[str, object]:
    return {"id": id, "kind": kind, "text": id, "at": 1.0, "position": position, "files": [], **more}


def test_the_state_follows_the_events(tab: Tab) -> None:
    base = find_base(tab)
    events: list[dict[str, object]] = [
        {
            "type": "snapshot",
            "thread": None,
            "entries": [],
            "more": False,
            "waiting": [],
            "live": None,
            "question": None,
        },
        {"type": "heard", "seq": 1, "text": "a", "by": "", "files": [], "at": 1.0},
        {"type": "heard", "seq": 1, "text": "a", "by": "", "files": [], "at": 1.0},
        {"type": "begun", "seqs": [1]},
        {"type": "text", "text": "one "},
        {"type": "text", "text": "two"},
        {"type": "tool_started", "id": "t", "name": "terminal", "preview": ""},
        {"type": "tool_ended", "id": "t", "name": "terminal", "ok": True, "seconds": 2.5, "preview": ""},
        {"type": "text", "text": "three"},
        {"type": "heard", "seq": 2, "text": "b", "by": "", "files": [], "at": 1.0},
    ]
    assert tab.page.evaluate(REDUCE, [events, base]) == {
        "ids": [],
        "waiting": [[1, True], [2, False]],
        "live": ["one two", "terminal", "three"],
        "seconds": [],
        "working": True,
    }
    rows = [entry("m0", "user", 0), entry("m1", "assistant", 1), entry("m1.0", "tool", 1), entry("m3", "assistant", 3)]
    events.append({"type": "note", "entry": entry("o9", "note", -1)})
    events.append({"type": "settled", "seqs": [1], "thread": None, "entries": [*rows, entry("o9", "note", -1)]})
    assert tab.page.evaluate(REDUCE, [events, base]) == {
        "ids": ["m0", "m1", "m1.0", "m3", "o9"],
        "waiting": [[2, False]],
        "live": None,
        "seconds": [None, None, 2.5, None, None],
        "working": False,
    }


def test_the_axes_of_plots_end_on_round_numbers(tab: Tab) -> None:
    tops = tab.page.evaluate(
        "async (base) => (await import(`${base}plots.js`)).roundUp && [0, 0.03, 1, 7.5, 99, 1090, 123456]"
        ".map((await import(`${base}plots.js`)).roundUp)",
        find_base(tab),
    )
    assert [round(top, 6) for top in tops] == [1, 0.03, 1, 8, 100, 1200, 160000]
