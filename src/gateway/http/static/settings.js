// The settings that are safe to change here: what each one does, what it is now, and where a change takes effect.

import { get, post, put } from "./api.js";
import { Approvals } from "./approvals.js";
import { attempt } from "./dialogs.js";
import { button, h } from "./dom.js";
import { drawPlatforms } from "./platforms.js";

export async function openSettings() {
  const approvals = new Approvals();
  const [{ settings }, platforms] = await Promise.all([get("/web/settings"), drawPlatforms(), approvals.look()]);
  const sections = new Map();
  for (const setting of settings) {
    const name = setting.key.split(".")[0];
    sections.set(name, [...(sections.get(name) ?? []), setting]);
  }
  const element = h(
    "div.sheet",
    {},
    h("p", {}, "The model and its key are set up ", h("a", { href: "/setup", text: "on their own page" }), "."),
    platforms,
    approvals.element,
    [...sections].map(([name, rows]) => drawSection(name, rows)),
    h(
      "div.row",
      {},
      button("Sign out", () => attempt(signOut)),
    ),
  );
  return { element, close() {} };
}

async function signOut() {
  await post("/web/logout");
  location.assign("/");
}

function drawSection(name, rows) {
  const id = `section-${name}`;
  return h(
    "section.card",
    { "aria-labelledby": id },
    h("h2", { id, text: name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " ") }),
    rows.map(drawSetting),
  );
}

function drawSetting(setting) {
  const id = `setting-${setting.key}`;
  const hint = `${id}-hint`;
  const input = makeInput(setting, { id, "aria-describedby": hint });
  const save = h("button.button", {
    type: "submit",
    text: "Save",
    disabled: true,
    "aria-label": `Save ${setting.key}`,
  });
  const result = h("p.result", { role: "status" });
  const form = h(
    "form.setting",
    {},
    h("label.setting-key", { for: id, text: setting.key }),
    h("p.setting-doc", { id: hint }, setting.doc, " ", h("span.quiet", { text: describe(setting) })),
    h("div.row", {}, input, save),
    result,
  );
  form.addEventListener("input", () => {
    save.disabled = false;
    result.textContent = "";
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    saveSetting(setting, input, save, result);
  });
  return form;
}

function describe({ takes_effect, breaks_prefix, default: standard, changed }) {
  const parts = [`Takes effect ${takes_effect}.`];
  if (breaks_prefix) parts.push("A running conversation pays its whole prompt once more.");
  if (changed) parts.push(`Standard: ${write(standard) || "empty"}.`);
  return parts.join(" ");
}

function write(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** A field that fits the kind of the value. */
function makeInput({ kind, value, choices, default: standard }, props) {
  if (choices.length) return makeSelect(choices, write(value), props);
  if (kind.startsWith("bool")) return makeSelect(["true", "false"], String(value), props);
  if (/^(list\[dict\]|dict)/.test(kind)) return h("textarea.field", { rows: "3", ...props, value: write(value) });
  const numeric = /^(int|float)/.test(kind) ? { inputmode: "decimal" } : {};
  return h("input.field", {
    type: "text",
    autocomplete: "off",
    ...numeric,
    placeholder: write(standard),
    ...props,
    value: write(value),
  });
}

function makeSelect(choices, value, props) {
  const draw = (choice) => h("option", { value: choice, text: choice || "(empty)", selected: choice === value });
  return h("select.field", props, choices.map(draw));
}

async function saveSetting(setting, input, save, result) {
  save.disabled = true;
  const nothing = input.value.trim() === "" && setting.kind.endsWith("?");
  try {
    const path = `/web/settings/${encodeURIComponent(setting.key)}`;
    const answer = await put(path, { value: nothing ? "null" : input.value });
    result.textContent = `Saved. It takes effect ${answer.setting.takes_effect}.`;
    result.dataset.ok = "true";
  } catch (problem) {
    save.disabled = false;
    result.textContent = problem.message;
    result.dataset.ok = "false";
  }
}
