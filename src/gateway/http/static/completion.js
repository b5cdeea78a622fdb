// Offers the slash commands while one is typed: arrows choose, Tab or Enter takes, Esc closes.

import { h } from "./dom.js";

export class Completion {
  #found = [];
  #chosen = 0;

  /** `field` is the textarea, `commands` rows of {name, args, summary}. */
  constructor(field, commands) {
    this.field = field;
    this.commands = commands;
    this.element = h("ul.completion", { id: "commands", role: "listbox", "aria-label": "Commands", hidden: true });
    field.setAttribute("aria-controls", "commands");
    field.setAttribute("aria-autocomplete", "list");
  }

  get open() {
    return this.#found.length > 0;
  }

  /** Looks at what is typed. */
  update() {
    const typed = /^\/([\w-]*)$/.exec(this.field.value);
    this.#found = typed ? this.commands.filter(({ name }) => name.startsWith(typed[1].toLowerCase())) : [];
    if (typed && this.#found.length === 1 && this.#found[0].name === typed[1] && !this.#found[0].args) this.#found = [];
    this.#chosen = 0;
    this.#draw();
  }

  close() {
    this.#found = [];
    this.#draw();
  }

  /** Whether the key was for the list. */
  handleKey(event) {
    if (!this.open) return false;
    const act = {
      ArrowDown: () => this.#move(1),
      ArrowUp: () => this.#move(-1),
      Tab: () => this.#take(),
      Enter: () => this.#take(),
      Escape: () => this.close(),
    }[event.key];
    if (!act || event.shiftKey) return false;
    if (event.key === "Enter" && this.field.value.slice(1) === this.#found[this.#chosen].name) {
      this.close(); // it is typed already: Enter sends it
      return false;
    }
    event.preventDefault();
    event.stopPropagation();
    act();
    return true;
  }

  #move(step) {
    this.#chosen = (this.#chosen + step + this.#found.length) % this.#found.length;
    this.#draw();
  }

  #take(index = this.#chosen) {
    const { name, args } = this.#found[index];
    this.field.value = `/${name}${args ? " " : ""}`;
    this.close();
    this.field.focus();
  }

  #draw() {
    this.element.hidden = !this.open;
    const rows = this.#found.map((command, index) => this.#drawRow(command, index));
    this.element.replaceChildren(...rows);
    if (this.open) this.field.setAttribute("aria-activedescendant", `command-${this.#chosen}`);
    else this.field.removeAttribute("aria-activedescendant");
    rows[this.#chosen]?.scrollIntoView({ block: "nearest" });
  }

  #drawRow({ name, args, summary }, index) {
    const chosen = index === this.#chosen;
    // The field keeps the focus: a press must not take it away before the click counts.
    const on = { mousedown: (event) => event.preventDefault(), click: () => this.#take(index) };
    return h(
      "li",
      { id: `command-${index}`, role: "option", "aria-selected": String(chosen), on },
      h("span.command-name", { text: `/${name}${args ? ` ${args}` : ""}` }),
      h("span.quiet", { text: summary }),
    );
  }
}
