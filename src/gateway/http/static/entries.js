// What stands in a conversation, as elements: messages, tools, reasoning, notes, files.

import { h, icon, iconButton } from "./dom.js";
import { writeSeconds, writeSize, writeTime } from "./format.js";
import { copyText, drawMarkdown } from "./markdown.js";

/** A file or picture that came with a message. */
export function drawFile(file) {
  if (file.kind === "image" && file.url) {
    const picture = h("img.picture", { src: file.url, alt: file.name, loading: "lazy" });
    return h("a.picture-frame", { href: file.url, target: "_blank", rel: "noopener" }, picture);
  }
  const words = [h("span.file-name", { text: file.name }), h("span.quiet", { text: writeSize(file.size || 0) })];
  return file.url
    ? h("a.file", { href: file.url, download: file.name }, icon("file"), ...words)
    : h("span.file", {}, icon("file"), ...words);
}

function drawFiles(files) {
  return files?.length ? h("div.files", {}, files.map(drawFile)) : null;
}

function drawTime(at) {
  return at ? h("time.quiet", { text: writeTime(at), datetime: new Date(at * 1000).toISOString() }) : null;
}

/** A person's message; `mark` says what becomes of it, `actions` are its buttons. */
export function drawOwn({ text, files, at, by }, { mark = "", actions = [] } = {}) {
  return h(
    "article.own",
    { "aria-label": by ? `${by} wrote` : "You wrote" },
    by ? h("p.by", { text: by }) : null,
    drawFiles(files),
    text ? h("div.bubble", { text }) : null,
    h("div.under", {}, drawTime(at), ...actions, mark ? h("span.mark", { text: mark }) : null),
  );
}

/** What stands where no answer came: what went wrong and what to do, and never in the model's own looks. */
function drawFailure(entry, actions) {
  const says = h("p", { text: entry.text });
  return h(
    "article.answer.failure",
    { "aria-label": "There is no answer" },
    entry.reasoning ? drawReasoning(entry.reasoning) : null,
    h("div.failure-box", {}, icon("warn"), h("div", {}, h("strong", { text: "No answer" }), says)),
    actions ? h("div.under", {}, ...actions, drawTime(entry.at)) : null,
  );
}

/** An answer of the model; without `actions` it is not the last word of its turn. */
export function drawAnswer(entry, actions = []) {
  if (entry.level === "error") return drawFailure(entry, actions);
  const text = h("div.text", {}, drawMarkdown(entry.text));
  const copy = iconButton("copy", "Copy the answer", () => copyText(entry.text, copy));
  return h(
    "article.answer",
    { "aria-label": "Hermes answered" },
    entry.reasoning ? drawReasoning(entry.reasoning) : null,
    entry.text ? text : null,
    drawFiles(entry.files),
    entry.level === "warning" ? h("p.stopped", { text: entry.detail || "It was stopped here." }) : null,
    entry.text && actions ? h("div.under", {}, copy, ...actions, drawTime(entry.at)) : null,
  );
}

export function drawReasoning(text, open = false) {
  const summary = h("summary", {}, icon("spark"), h("span", { text: "Thoughts" }));
  return h("details.fold.reasoning", open ? { open: true } : {}, summary, h("div.fold-body", { text }));
}

const STATES = {
  true: ["check", "done"],
  false: ["cross", "failed"],
  null: ["tool", "at work"],
  none: ["cross", "without a result"],
};

/** One line for a tool; it opens to show what it was called with and what came back. */
export function drawTool({ name, preview, result, ok, seconds, since, parts }) {
  const [sign, words] = STATES[String(ok ?? null)];
  const time = h("span.quiet.seconds", { text: seconds ? writeSeconds(seconds) : "" });
  if ((ok ?? null) === null && since) time.dataset.since = since;
  const summary = h(
    "summary",
    {},
    h("span.sign", { data: { state: words } }, icon(sign)),
    h("span.tool-name", { text: name }),
    h("span.tool-preview", { text: (preview ?? "").split("\n", 1)[0] }),
    h("span.unseen", { text: `, ${words}` }),
    time,
  );
  return h("details.fold.tool", {}, summary, (parts?.length ? parts : listShown(preview, result)).map(drawPart));
}

/** While the turn runs, a call and its result are short texts. */
const listShown = (preview, result) =>
  [
    { kind: "code", text: preview, of: "call" },
    { kind: "output", text: result, of: "result" },
  ].filter(({ text }) => text);

const OF = { call: "Called with", result: "Result" };
/** How each kind of part looks; texts, output, code and JSON stand as they are. */
const PARTS = {
  diff: drawDiff,
  list: (text) => h("ul", {}, text.split("\n").map((line) => h("li", { text: line }))),
};
export function drawDiff(text) {
  return text.split("\n").map(drawDiffLine);
}
const drawDiffLine = (line) => h(`span.diff-line${DIFF_LINES[line[0]] ?? ""}`, { text: `${line}\n` });
const DIFF_LINES = { "+": ".added", "-": ".taken", "@": ".place" };

function drawPart({ kind, text, label, of }) {
  const body = h(`${kind === "list" ? "div" : "pre"}.fold-body.${kind}`, {
    tabindex: "0",
    role: "region",
    "aria-label": [OF[of], label].filter(Boolean).join(": "),
  });
  body.append(...[PARTS[kind]?.(text) ?? text].flat());
  return label ? h("div", {}, h("p.part-label", { text: label }), body) : body;
}

export function drawNote({ text, level, files }) {
  return h(
    "div.note",
    { data: { level: level ?? "info" } },
    level === "error" ? icon("warn") : null,
    text ? h("div.text", {}, drawMarkdown(text)) : null,
    drawFiles(files),
  );
}

/** An entry of the transcript or the outbox, by its kind. */
export function drawEntry(entry, actions) {
  const draw = {
    user: () => drawOwn(entry, { actions }),
    assistant: () => drawAnswer(entry, actions),
    tool: () => drawTool({ ...entry, ok: entry.ok ?? "none", preview: entry.detail, result: entry.text }),
    note: () => drawNote(entry),
    file: () => drawNote(entry),
  }[entry.kind];
  return draw ? draw() : drawNote(entry);
}
