// Setting up a model: choose who serves it, paste a key, try it with one real call, and use it once that went through.

import { get, post } from "./api.js";
import { attempt } from "./dialogs.js";
import { button, h } from "./dom.js";

export async function openSetup(me, leave) {
  const card = await drawSetup(me, leave);
  return { element: h("div.sheet", {}, card), close() {} };
}

/** The card; `leave(path)` goes on when it is done or put off. */
export async function drawSetup(me, leave) {
  const { providers, model } = await get("/web/providers");
  return new SetupCard(providers, model, me.needs_setup, leave).element;
}

class SetupCard {
  constructor(providers, model, first, leave) {
    this.providers = providers;
    this.leave = leave;
    this.choice = h(
      "select.field",
      { id: "setup-provider" },
      providers.map(({ name, label }) => h("option", { value: name, text: label })),
    );
    this.key = h("input.field", { id: "setup-key", type: "password", autocomplete: "off", spellcheck: "false" });
    this.model = h("input.field", { id: "setup-model", type: "text", autocomplete: "off", spellcheck: "false" });
    this.address = h("input.field", {
      id: "setup-address",
      type: "url",
      autocomplete: "off",
      placeholder: "http://localhost:8000/v1",
    });
    this.result = h("p.result", { role: "status" });
    this.keyHint = h("p.quiet", { id: "setup-key-hint" });
    this.key.setAttribute("aria-describedby", "setup-key-hint");
    this.tryIt = button("Try it", () => this.#probe(), { kind: "main" });
    this.useIt = button("Use it", () => this.#use(), { disabled: true });
    this.element = this.#draw(model, first);
    for (const field of [this.choice, this.key, this.model, this.address]) {
      field.addEventListener("input", () => this.#forgetProbe());
    }
    this.choice.addEventListener("change", () => this.#showFields());
    this.#showFields();
  }

  #draw(model, first) {
    const later = button("Later", () => attempt(() => this.#putOff()));
    this.keyRow = drawRow("API key", this.key, this.keyHint);
    this.addressRow = drawRow("Address of the server", this.address);
    return h(
      "form.card.setup",
      { "aria-labelledby": "setup-title", on: { submit: (event) => (event.preventDefault(), this.#probe()) } },
      h("h2", { id: "setup-title", text: first ? "Welcome to Hermes" : "Set up a model" }),
      h("p", { text: describeNow(model) }),
      drawRow("Who serves the model", this.choice),
      this.keyRow,
      drawRow("Model (optional)", this.model),
      this.addressRow,
      this.result,
      h("div.row", {}, this.tryIt, this.useIt, first ? later : null),
    );
  }

  get #provider() {
    return this.providers.find(({ name }) => name === this.choice.value) ?? {};
  }

  #showFields() {
    const { needs_key, has_key, key_env, default_model, base_url, asks_address, local } = this.#provider;
    this.keyRow.hidden = !needs_key && !asks_address;
    this.keyHint.textContent = has_key
      ? `A key is kept already (${key_env}); leave this empty to use it.`
      : "It is kept on this machine only.";
    this.model.placeholder = default_model || "the server's own choice";
    this.addressRow.hidden = !asks_address && !local;
    for (const field of [this.key, this.model, this.address]) field.value = ""; // what was typed was for another one
    this.address.placeholder = base_url || "http://localhost:8000/v1";
    this.#forgetProbe();
  }

  #forgetProbe() {
    this.useIt.disabled = true;
    this.useIt.classList.remove("main");
    this.result.textContent = "";
    delete this.result.dataset.ok;
  }

  #read() {
    const base_url = this.addressRow.hidden ? "" : this.address.value.trim();
    return { provider: this.choice.value, key: this.key.value.trim(), model: this.model.value.trim(), base_url };
  }

  async #call(path, words) {
    this.result.textContent = words;
    delete this.result.dataset.ok;
    this.tryIt.disabled = true;
    try {
      const probed = await post(path, this.#read());
      this.result.textContent = probed.text;
      this.result.dataset.ok = String(probed.ok);
      return probed.ok;
    } catch (problem) {
      this.result.textContent = problem.message;
      this.result.dataset.ok = "false";
      return false;
    } finally {
      this.tryIt.disabled = false;
    }
  }

  async #probe() {
    this.useIt.disabled = true;
    const ok = await this.#call("/web/providers/probe", "Asking the model for one word…");
    this.useIt.disabled = !ok;
    this.useIt.classList.toggle("main", ok);
    if (ok) this.useIt.focus();
  }

  async #use() {
    if (!(await this.#call("/web/providers/use", "Keeping it…"))) return;
    this.key.value = "";
    this.leave("/");
  }

  async #putOff() {
    await post("/web/setup/later");
    this.leave("/");
  }
}

function drawRow(label, field, hint = null) {
  return h("div.form-row", {}, h("label", { for: field.id, text: label }), field, hint);
}

function describeNow({ built_in, label, model, problem }) {
  if (problem) return `${problem} Choose who serves one:`;
  if (built_in)
    return "A small built-in model answers now: you can write to it at once. For real work choose a stronger one:";
  return `${[model, label && `(${label})`].filter(Boolean).join(" ")} answers now. You can choose another:`;
}
