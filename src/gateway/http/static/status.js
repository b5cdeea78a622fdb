// The status page: what runs, what it costs, who is there. It looks again every few seconds while somebody sees it.

import { get, post } from "./api.js";
import { attempt, toast } from "./dialogs.js";
import { button, h } from "./dom.js";
import { writeAgo, writeCount, writeSeconds, writeSize, writeTime } from "./format.js";
import { LogTail } from "./log_tail.js";
import { People } from "./people.js";
import { drawUsage } from "./usage.js";

const LOOK_MS = 4000;
const SLOW_LOOKS = 8; // usage and people change slowly

export async function openStatus() {
  const page = new StatusPage();
  await page.look();
  return page;
}

class StatusPage {
  #looks = 0;
  #seen = {}; // what each part shows, as text: an equal one is left alone

  constructor() {
    this.problem = h("p.lost", { role: "status", hidden: true });
    this.house = h("div.tiles");
    this.turns = h("div");
    this.platforms = h("div");
    this.deliveries = h("div");
    this.cache = h("div");
    this.config = h("div");
    this.usage = h("div");
    this.people = new People();
    this.log = new LogTail();
    this.element = h(
      "div.sheet.wide",
      {},
      this.problem,
      this.house,
      h("div.columns", {}, card("Turns under way", this.turns, this.deliveries), card("Platforms", this.platforms)),
      card("Tokens and cost", this.usage),
      h("div.columns", {}, card("Agents in memory", this.cache), card("Settings file", this.config)),
      card("People", this.people.element),
      card("Log", this.log.element),
    );
    this.timer = setInterval(() => document.hidden || this.look(), LOOK_MS);
  }

  close() {
    clearInterval(this.timer);
  }

  async look() {
    const slow = this.#looks++ % SLOW_LOOKS === 0;
    const parts = [this.#lookAtHouse(), this.log.look()];
    if (slow) parts.push(this.#lookAtUsage(), this.people.look());
    const failed = (await Promise.allSettled(parts)).find(({ status }) => status === "rejected");
    this.problem.hidden = !failed;
    this.problem.textContent = failed?.reason.message ?? "";
  }

  /** Draws a part only when it changed: the focus and an open tooltip stay. */
  #show(place, name, value, draw) {
    const text = JSON.stringify(value);
    if (this.#seen[name] === text) return;
    this.#seen[name] = text;
    place.replaceChildren(...[draw(value)].flat());
  }

  async #lookAtHouse() {
    const status = await get("/web/status");
    const minute = Math.floor(Date.now() / 60000); // times ago grow old by themselves
    this.#show(this.house, "house", [status, minute], ([now]) => drawTiles(now));
    this.#show(this.turns, "turns", [status.working, status.queue], ([working, queue]) =>
      drawTurns(working, queue, () => this.look()),
    );
    this.#show(this.platforms, "platforms", [status.platforms, minute], ([rows]) => drawPlatforms(rows));
    const sent = { counts: status.deliveries, waits: status.waits };
    this.#show(this.deliveries, "deliveries", sent, (told) => drawDeliveries(told));
    this.#show(this.cache, "cache", status.cache, drawCache);
    this.#show(this.config, "config", [status.config, minute], ([config]) => drawConfig(config));
  }

  async #lookAtUsage() {
    this.#show(this.usage, "usage", await get("/web/usage?days=30"), drawUsage);
  }
}

function card(title, ...body) {
  const id = `card-${title.toLowerCase().replace(/\W+/g, "-")}`;
  return h("section.card", { "aria-labelledby": id }, h("h2", { id, text: title }), ...body);
}

function tile(label, value, detail = "") {
  return h(
    "div.tile",
    {},
    h("span.quiet", { text: label }),
    h("strong", { text: value }),
    h("span.quiet", { text: detail }),
  );
}

function drawTiles({ version, since, working, queue, disk_free, sandbox, walls, model, web, profile, pid }) {
  const deep = (queue?.inbox ?? 0) + (queue?.outbox ?? 0);
  return [
    tile(
      "Running for",
      writeSeconds(Math.max(0, Date.now() / 1000 - since)),
      `version ${version}, process ${pid}, profile ${profile ?? "default"}`,
    ),
    tile(
      "Model",
      model?.model || model?.label || "–",
      model?.problem || `${model?.label ?? ""}, ${model?.source ?? ""}`,
    ),
    tile("Turns under way", writeCount(working?.length), `${writeCount(deep)} in the queue`),
    tile("Sandbox", sandbox ?? "–", walls ?? ""),
    tile("Free disk", disk_free ? writeSize(disk_free) : "–", web?.watchers ? `${web.watchers} pages look on` : ""),
  ];
}

function drawTurns(working, queue, changed) {
  const [asked, told] = [writeCount(queue?.inbox), writeCount(queue?.outbox)];
  const waiting = `Stored messages that wait: ${asked}. Answers not delivered yet: ${told}.`;
  if (!working?.length) return [h("p.quiet", { text: "Nothing runs now." }), h("p.quiet", { text: waiting })];
  const stop = async (conversation) => {
    const { stopped } = await post("/web/operate", { name: "turns.stop", args: { conversation } });
    if (stopped === false) toast("Nothing runs there any more.");
    changed();
  };
  const draw = ({ conversation, since, title, starter }) =>
    h(
      "li.line",
      {},
      h("span.working", { role: "img", "aria-label": "at work" }),
      h(
        "span.grow",
        {},
        h("strong", { text: title || conversation }),
        h("span.quiet", { text: ` ${starter ?? ""} since ${writeTime(since)}` }),
      ),
      button("Stop", () => attempt(() => stop(conversation)), {
        kind: "small",
        "aria-label": `Stop ${title || conversation}`,
      }),
    );
  return [h("ul.lines", {}, working.map(draw)), h("p.quiet", { text: waiting })];
}

function drawPlatforms(platforms) {
  if (!platforms?.length) return h("p.quiet", { text: "None is connected." });
  const draw = ({ label, name, account, last_seen, connected, problem }) =>
    h(
      "li.line",
      {},
      h("span.dot", { data: { on: String(Boolean(connected)) } }),
      h("span.grow", {}, h("strong", { text: label || name }), h("span.quiet", { text: account ? ` ${account}` : "" })),
      h("span.quiet", {
        text: problem || `${connected ? "" : "not connected; "}heard ${writeAgo(last_seen)}`,
      }),
    );
  return h("ul.lines", {}, platforms.map(draw));
}

function drawCounts(title, counts) {
  const rows = Object.entries(counts ?? {});
  const list = rows.map(([reason, count]) =>
    h("li.line", {}, h("span.grow", { text: reason.replaceAll("_", " ") }), writeCount(count)),
  );
  return [h("h3", { text: title }), rows.length ? h("ul.lines", {}, list) : h("p.quiet", { text: "None." })];
}

function drawDeliveries({ counts, waits }) {
  const parts = Object.entries(counts ?? {}).map(
    ([result, count]) => `${writeCount(count)} ${result.replaceAll("_", " ")}`,
  );
  const drawWait = ({ account, chat, until, reason }) => {
    const where = chat ? `chat ${chat} of ${account}` : account;
    const text = `Nothing is sent to ${where} until ${writeTime(until)}: ${reason}`;
    return h("li.line", {}, h("span.grow", { text }));
  };
  return [
    h("p.quiet", { text: `Messages delivered since the start: ${parts.join(", ") || "none"}.` }),
    waits?.length ? h("ul.lines", {}, waits.map(drawWait)) : "",
  ];
}

function drawCache({ agents, hits, builds, evictions }) {
  const words = `Warm agents: ${writeCount(agents)}. Turns that found theirs ready: ${writeCount(hits)}.`;
  return [
    h("p", { text: words }),
    ...drawCounts("Built, by reason", builds),
    ...drawCounts("Put away, by reason", evictions),
  ];
}

function drawConfig(config) {
  const parts = [
    h("p.quiet", { text: config?.loaded_at ? `Read ${writeAgo(config.loaded_at)}.` : "Read at the start." }),
  ];
  if (config?.problem) parts.push(h("p.problem", { role: "alert", text: config.problem }));
  const draw = ({ key, takes_effect, at }) =>
    h(
      "li.line",
      {},
      h("span.grow", {}, h("strong", { text: key }), h("span.quiet", { text: ` ${takes_effect}` })),
      h("span.quiet", { text: writeAgo(at) }),
    );
  if (config?.changes?.length)
    parts.push(h("h3", { text: "Last changes" }), h("ul.lines", {}, config.changes.map(draw)));
  return parts;
}
