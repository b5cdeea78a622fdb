// What was used and what it cost: plots by day, sums by model, and why prompts had to be paid anew.

import { h } from "./dom.js";
import { writeCost, writeCount, writeMoney, writePercent, writeShort, writeTime } from "./format.js";
import { drawPlot } from "./plots.js";

const BUCKETS = [
  { key: "cache_read_tokens", name: "from the cache" },
  { key: "input_tokens", name: "new input" },
  { key: "cache_write_tokens", name: "written to the cache" },
  { key: "output_tokens", name: "output" },
];

const FEWEST_DAYS = 7;
const DAY_MS = 86_400_000;

export function drawUsage({ days, models, total, breaks, recent_breaks }) {
  if (!days?.length) return h("p.quiet", { text: "No model was called in the last 30 days." });
  const rows = fillDays(days).map((day) => ({ label: day.day.slice(5), values: day }));
  return [
    h("p", { text: describeTotal(total) }),
    h(
      "div.plots",
      {},
      drawPlot({ title: "Tokens by day", rows, series: BUCKETS, write: writeShort }),
      drawPlot({
        title: "Share read from the cache",
        rows,
        series: [{ key: "hit_rate", name: "hit rate" }],
        kind: "line",
        write: writePercent,
        most: 1,
      }),
      drawPlot({ title: "Cost by day", rows, series: [{ key: "cost", name: "cost" }], write: writeAxisMoney }),
    ),
    ...drawModels(models ?? []),
    ...drawBreaks(breaks ?? [], recent_breaks ?? []),
  ];
}

/** One row for each day, also for those without a call: an axis of time has no holes. */
function fillDays(days) {
  const known = new Map(days.map((day) => [day.day, day]));
  const last = new Date(`${days.at(-1).day}T12:00:00Z`).getTime();
  const first = Math.min(new Date(`${days[0].day}T12:00:00Z`).getTime(), last - (FEWEST_DAYS - 1) * DAY_MS);
  const rows = [];
  for (let at = first; at <= last; at += DAY_MS) {
    const day = new Date(at).toISOString().slice(0, 10);
    rows.push(known.get(day) ?? { day, hit_rate: null });
  }
  return rows;
}

const writeAxisMoney = (dollars) => `$${dollars >= 1 ? writeShort(dollars) : Number(dollars.toPrecision(2))}`;

function describeTotal(total) {
  const { calls, input_tokens, cache_read_tokens, output_tokens, hit_rate, saved } = total ?? {};
  const parts = [
    `30 days: ${writeCount(calls)} calls`,
    `${writeCount(input_tokens)} tokens of new input`,
    `${writeCount(cache_read_tokens)} from the cache (${writePercent(hit_rate)})`,
    `${writeCount(output_tokens)} of output`,
    writeCost(total ?? {}),
  ];
  if (saved) parts.push(`the cache ${saved > 0 ? "saved" : "cost"} ${writeMoney(Math.abs(saved))}`);
  return `${parts.join(", ")}.`;
}

function drawModels(models) {
  if (!models.length) return [];
  const head = ["Model", "Calls", "New input", "From cache", "Output", "Cost"].map((text) =>
    h("th", { scope: "col", text }),
  );
  const draw = (row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", text: [row.provider, row.model].filter(Boolean).join(" / ") }),
      [row.calls, row.input_tokens, row.cache_read_tokens, row.output_tokens].map((count) =>
        h("td", { text: writeCount(count) }),
      ),
      h("td", { text: writeCost(row) }),
    );
  const table = h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, models.map(draw)));
  return [
    h("h3", { text: "By model" }),
    h("div.table-frame", { tabindex: "0", role: "region", "aria-label": "Use by model" }, table),
  ];
}

function drawBreaks(breaks, recent) {
  const title = h("h3", { text: "Prompts that had to be sent anew" });
  if (!breaks.length)
    return [title, h("p.quiet", { text: "None: every request began with the bytes of the one before." })];
  const words = (reason) => reason.replaceAll("_", " ");
  const sums = breaks.map(({ reason, count }) =>
    h("li.line", {}, h("span.grow", { text: words(reason) }), writeCount(count)),
  );
  const lines = recent.map(({ session, reason, position, at }) =>
    h(
      "li.line",
      {},
      h(
        "span.grow",
        {},
        h("a", { href: `/c/${session}`, text: words(reason) }),
        h("span.quiet", { text: ` from message ${position}` }),
      ),
      h("span.quiet", { text: writeTime(at) }),
    ),
  );
  const list = lines.length ? h("details", {}, h("summary", { text: "The latest" }), h("ul.lines", {}, lines)) : null;
  return [title, h("ul.lines", {}, sums), list].filter(Boolean);
}
