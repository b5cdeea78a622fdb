// Approvals that were kept: what Hermes may do without asking again, and a way to end each. Above them what turns of
// people ask who may not approve it themselves.

import { post } from "./api.js";
import { attempt, confirm, toast } from "./dialogs.js";
import { button, h } from "./dom.js";
import { writeAgo } from "./format.js";
import { drawQuestion } from "./question.js";

const operate = (name, args) => post("/web/operate", { name, args });

export class Approvals {
  constructor() {
    this.list = h("div");
    this.waiting = h("div");
    this.element = h(
      "section.card",
      { "aria-labelledby": "kept-approvals" },
      h("h2", { id: "kept-approvals", text: "Kept approvals" }),
      this.waiting,
      this.list,
    );
  }

  async look() {
    const [{ approvals }, { waiting }] = await Promise.all([
      operate("approvals.list", {}),
      operate("approvals.waiting", {}),
    ]);
    this.waiting.replaceChildren(...waiting.map(drawWaiting));
    this.list.replaceChildren(...(approvals.length ? this.#draw(approvals) : [drawNone()]));
  }

  #draw(approvals) {
    const all = button("Revoke all", () => attempt(() => this.#revokeAll(approvals.length)), { kind: "small" });
    const rules = approvals.map((rule) => this.#drawRule(rule));
    return [h("ul.lines", {}, rules), approvals.length > 1 ? h("div.row", {}, all) : null].filter(Boolean);
  }

  #drawRule({ id, shown, folder, level, name, conversation, created, expires, times_used, made_by_name }) {
    const where = [`in ${folder}`, level].filter(Boolean).join(", ");
    const whose = `for ${name}${conversation ? ", in one conversation" : ""}`;
    const days = Math.max(0, Math.ceil((expires - Date.now() / 1000) / 86400));
    const made = `made ${writeAgo(created)} by ${made_by_name}, holds for ${days} more days, ${writeUses(times_used)}`;
    const revoke = () => attempt(() => this.#revoke(id));
    return h(
      "li.line",
      {},
      h("span.grow", {}, h("code", { text: shown }), h("span.quiet", { text: ` ${[where, whose, made].join("; ")}` })),
      button("Revoke", revoke, { kind: "small", "aria-label": `Revoke ${shown}` }),
    );
  }

  async #revoke(id) {
    await operate("approvals.revoke", { id });
    toast("It is asked for again.");
    await this.look();
  }

  async #revokeAll(count) {
    const text = "Hermes asks again for each of these.";
    if (!(await confirm({ title: `Revoke all ${count} approvals?`, text, yes: "Revoke all" }))) return;
    await operate("approvals.revoke", { all: true });
    toast("Nothing is kept any more.");
    await this.look();
  }
}

const drawWaiting = (asked) => drawQuestion({ ...asked, reason: `A turn of ${asked.name} asks. ${asked.reason}` });
const writeUses = (count) => ["never used", "used once"][count] ?? `used ${count} times`;
const drawNone = () =>
  h("p.quiet", { text: "None. What is answered with “Always” or “in this conversation” stands here." });
