// The end of the log: by level, and following it while the reader is at its end.

import { get } from "./api.js";
import { h } from "./dom.js";

const LINES = 200;
const LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];

export class LogTail {
  #lines = [];

  constructor() {
    this.level = h(
      "select.field.small",
      { id: "log-level" },
      LEVELS.map((value) =>
        h("option", { value, text: `${value.toLowerCase()} and worse`, selected: value === "INFO" }),
      ),
    );
    this.follow = h("input", { type: "checkbox", id: "log-follow", checked: true });
    this.box = h("pre.log", { tabindex: "0", role: "region", "aria-label": "Lines of the log" });
    this.level.addEventListener("change", () => this.#draw());
    const bar = h(
      "div.row",
      {},
      h("label", { for: "log-level", text: "Show" }),
      this.level,
      h("label.check", {}, this.follow, "follow"),
    );
    this.element = h("div", {}, bar, this.box);
  }

  async look() {
    const { lines } = await get(`/web/log?lines=${LINES}`);
    if (lines.at(-1) === this.#lines.at(-1) && lines.length === this.#lines.length) return;
    this.#lines = lines;
    this.#draw();
  }

  #draw() {
    const least = LEVELS.indexOf(this.level.value);
    let seen = least; // a line without a level (a traceback) belongs to the one before
    const shown = this.#lines.filter((line) => {
      const level = LEVELS.findIndex((name) => line.includes(name) || line.includes(`"${name.toLowerCase()}"`));
      if (level >= 0) seen = level;
      return seen >= least;
    });
    this.box.replaceChildren(
      ...shown.map((line) => h("span.log-line", { data: { level: nameLevel(line) }, text: `${line}\n` })),
    );
    // In the next frame it is on the page and has a height.
    if (this.follow.checked) requestAnimationFrame(() => (this.box.scrollTop = this.box.scrollHeight));
  }
}

const nameLevel = (line) => LEVELS.find((name) => line.includes(name)) ?? "";
