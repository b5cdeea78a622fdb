// Small plots as SVG: stacked bars and lines over days, with axes, tooltips, and the same numbers as a table.

import { h, svg } from "./dom.js";

const WIDTH = 360;
const HEIGHT = 180;
const LEFT = 48;
const RIGHT = 8;
const TOP = 10;
const BOTTOM = 24;

/** A round number at or above the highest value, so that the axis ends on a line. */
export function roundUp(value) {
  if (value <= 0) return 1;
  const step = 10 ** Math.floor(Math.log10(value));
  return [1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10].find((factor) => factor * step >= value * 0.9999) * step;
}

/**
 * A figure of `rows` ({label, values: {series: number | null}}) for `series` ([{key, name}]); `kind` is "bars" or
 * "line", `write` makes the words of a number, `most` fixes the top of the axis.
 */
export function drawPlot({ title, rows, series, kind = "bars", write, most = null }) {
  const sum = (row) => series.reduce((total, { key }) => total + (row.values[key] ?? 0), 0);
  const top = most ?? roundUp(Math.max(0, ...rows.map(sum)));
  const place = {
    x: (index) => LEFT + ((index + 0.5) * (WIDTH - LEFT - RIGHT)) / Math.max(rows.length, 1),
    y: (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top),
    step: (WIDTH - LEFT - RIGHT) / Math.max(rows.length, 1),
  };
  const marks = kind === "bars" ? drawBars(rows, series, place, write) : drawLines(rows, series, place, write);
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plot", "aria-hidden": "true" },
    ...drawAxes(rows, top, place, write),
    ...marks,
  );
  const legend = series.length > 1 ? drawLegend(series) : null;
  return h(
    "figure.figure",
    {},
    h("figcaption", { text: title }),
    picture,
    legend,
    drawTable(title, rows, series, write),
  );
}

function drawAxes(rows, top, place, write) {
  const parts = [];
  for (const share of [0, 0.5, 1]) {
    const y = place.y(top * share);
    parts.push(svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y, class: "grid" }));
    parts.push(svg("text", { x: LEFT - 6, y: y + 4, class: "axis", "text-anchor": "end", text: write(top * share) }));
  }
  const every = Math.ceil(rows.length / 5);
  rows.forEach((row, index) => {
    if (index % every) return;
    parts.push(
      svg("text", { x: place.x(index), y: HEIGHT - 6, class: "axis", "text-anchor": "middle", text: row.label }),
    );
  });
  return parts;
}

function drawBars(rows, series, place, write) {
  const width = Math.max(2, Math.min(20, place.step * 0.7));
  return rows.flatMap((row, index) => {
    let base = 0;
    return series.flatMap(({ key, name }, number) => {
      const value = row.values[key] ?? 0;
      if (!value) return [];
      const y = place.y(base + value);
      const bar = svg(
        "rect",
        { x: place.x(index) - width / 2, y, width, height: Math.max(0, place.y(base) - y), class: `series s${number}` },
        svg("title", { text: `${row.label}: ${name} ${write(value)}` }),
      );
      base += value;
      return [bar];
    });
  });
}

function drawLines(rows, series, place, write) {
  return series.flatMap(({ key, name }, number) => {
    const points = rows.map((row, index) => ({ x: place.x(index), value: row.values[key], label: row.label }));
    const known = points.filter(({ value }) => value !== null && value !== undefined);
    const path = known
      .map(({ x, value }, index) => `${index ? "L" : "M"}${x.toFixed(1)} ${place.y(value).toFixed(1)}`)
      .join("");
    const dots = known.map(({ x, value, label }) =>
      svg(
        "circle",
        { cx: x, cy: place.y(value), r: 3, class: `series s${number}` },
        svg("title", { text: `${label}: ${name} ${write(value)}` }),
      ),
    );
    return [svg("path", { d: path || "M0 0", class: `curve l${number}` }), ...dots];
  });
}

function drawLegend(series) {
  const draw = ({ name }, number) => h("li", {}, h(`span.swatch.s${number}`), name);
  return h("ul.legend", { "aria-hidden": "true" }, series.map(draw));
}

/** The same numbers for those who cannot see the picture. */
function drawTable(title, rows, series, write) {
  const head = h(
    "tr",
    {},
    h("th", { scope: "col", text: "Day" }),
    series.map(({ name }) => h("th", { scope: "col", text: name })),
  );
  const draw = (row) => {
    const cells = series.map(({ key }) =>
      h("td", { text: row.values[key] === null ? "–" : write(row.values[key] ?? 0) }),
    );
    return h("tr", {}, h("th", { scope: "row", text: row.label }), cells);
  };
  const caption = h("caption", { text: title });
  const table = h("table", {}, caption, h("thead", {}, head), h("tbody", {}, rows.map(draw)));
  return h("div.unseen", {}, table); // a table itself cannot be made smaller than its words
}
