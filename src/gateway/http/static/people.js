// Who may talk to Hermes: open requests to let in, and the people who are in.

import { post } from "./api.js";
import { attempt, confirm, toast } from "./dialogs.js";
import { button, h } from "./dom.js";
import { writeAgo } from "./format.js";

const ROLES = ["member", "admin", "owner"];

const operate = (name, args) => post("/web/operate", { name, args });

export class People {
  #seen = "";

  constructor() {
    this.element = h("div");
  }

  async look() {
    const answer = await operate("people.list", {});
    const text = JSON.stringify(answer);
    if (text === this.#seen || this.element.contains(document.activeElement)) return;
    this.#seen = text;
    this.element.replaceChildren(...this.#drawRequests(answer.pairings), ...this.#drawPeople(answer.people));
  }

  async #act(name, args, words) {
    await operate(name, args);
    toast(words);
    document.activeElement?.blur?.();
    await this.look();
  }

  #drawRequests(pairings) {
    if (!pairings.length) return [];
    return [
      h("h3", { text: "They ask to be let in" }),
      h(
        "ul.lines",
        {},
        pairings.map((pairing) => this.#drawRequest(pairing)),
      ),
    ];
  }

  #drawRequest({ code, platform, sender, name, created }) {
    const who = name || sender;
    const role = h(
      "select.field.small",
      { "aria-label": `Role of ${who}` },
      ROLES.map((value) => h("option", { value, text: value, selected: value === "member" })),
    );
    const approve = () =>
      attempt(() => this.#act("people.approve", { code, role: role.value, name }, `${who} is in as ${role.value}.`));
    return h(
      "li.line",
      {},
      h(
        "span.grow",
        {},
        h("strong", { text: who }),
        h("span.quiet", { text: ` ${platform}, code ${code}, ${writeAgo(created)}` }),
      ),
      role,
      button("Let in", approve, { kind: "small", "aria-label": `Let ${who} in` }),
    );
  }

  #drawPeople(people) {
    if (!people.length) return [h("p.quiet", { text: "Nobody but you, at this machine." })];
    return [
      h(
        "ul.lines",
        {},
        people.map((person) => this.#drawPerson(person)),
      ),
    ];
  }

  #drawPerson({ id, name, role, identities, let_in: letIn }) {
    const who = name || id;
    const change = ({ target }) =>
      attempt(() => this.#act("people.role", { id, role: target.value }, `${who} is ${target.value} now.`));
    const roles = ROLES.map((value) => h("option", { value, text: value, selected: value === role }));
    const remove = () => attempt(() => this.#remove(id, who));
    return h(
      "li.line",
      {},
      h(
        "span.grow",
        {},
        h("strong", { text: who }),
        h("span.quiet", { text: ` ${identities.map(({ platform, sender }) => `${platform} ${sender}`).join(", ")}` }),
        ...(letIn ? [] : [h("span.quiet", { text: " (not in the settings any more: not let in)" })]),
      ),
      h("select.field.small", { "aria-label": `Role of ${who}`, on: { change } }, roles),
      button("Remove", remove, { kind: "small", "aria-label": `Remove ${who}` }),
    );
  }

  async #remove(id, who) {
    const text = "Their access ends at once and what runs for them is stopped. What was said stays.";
    if (await confirm({ title: `Remove ${who}?`, text, yes: "Remove" }))
      await this.#act("people.remove", { id }, `${who} was removed.`);
  }
}
