// Chat apps: what each one asks, tried with its service before anything is kept.

import { get, post } from "./api.js";
import { h } from "./dom.js";

const KEPT = "kept already; leave it empty to use it";
const NAME = "account"; // the question for the name of a hook or a bot

/** A card with a form for each chat app; null where there is none. */
export async function drawPlatforms() {
  const { platforms } = await get("/web/platforms");
  if (!platforms.length) return null;
  return h(
    "section.card",
    { "aria-labelledby": "section-chat-apps" },
    h("h2", { id: "section-chat-apps", text: "Chat apps" }),
    platforms.map(drawPlatform),
  );
}

function drawPlatform({ name, label, enabled, missing, install, questions, accounts, barred }) {
  const title = h("summary", { text: `${label}${enabled ? " (on)" : ""}` });
  if (barred) return h("details.platform", {}, title, h("p", { text: barred }));
  if (missing) {
    const command = h("code", { text: install });
    const what = h("p", {}, "It needs more than is installed. On the machine that runs Hermes: ", command);
    return h("details.platform", {}, title, what);
  }
  const fields = questions.map((question) => [question, makeField(name, question)]);
  const result = h("p.result", { role: "status" });
  const tryIt = h("button.button.main", { type: "submit", text: "Try it and keep it" });
  const form = h(
    "form",
    {},
    fields.map(([question, field]) =>
      h("div.form-row", {}, h("label", { for: field.id, text: question.text }), field),
    ),
    result,
    h("div.row", {}, tryIt),
  );
  const naming = fields.find(([{ key }]) => key === NAME);
  if (naming) {
    const [{ default: usual }, field] = naming;
    const show = () => showAccount(fields, accounts[field.value.trim() || usual] ?? questions);
    field.addEventListener("input", show);
    show();
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const isKept = await keep(name, fields, tryIt, result);
    if (isKept && naming) Object.assign(accounts, await readAccounts(name));
  });
  return h("details.platform", {}, title, form);
}

function makeField(platform, { key, secret, value, has_value, default: standard, choices }) {
  const id = `platform-${platform}-${key}`;
  if (choices.length) {
    const draw = (choice) => h("option", { value: choice, text: choice, selected: choice === (value || standard) });
    const field = h("select.field", { id }, choices.map(draw));
    fill(field, value || standard);
    return field;
  }
  const field = h("input.field", {
    id,
    type: secret ? "password" : "text",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: secret ? (has_value ? KEPT : "") : standard,
  });
  fill(field, value);
  return field;
}

/** What is set for an account, in the fields that nobody has changed: what stands there is what will hold. */
function showAccount(fields, questions) {
  const byKey = new Map(questions.map((question) => [question.key, question]));
  for (const [{ key, secret }, field] of fields) {
    const { value, has_value, default: standard } = byKey.get(key);
    if (key === NAME) continue;
    if (secret) field.placeholder = has_value ? KEPT : "";
    else if (field.value === field.dataset.shown) fill(field, value || (field.matches("select") ? standard : ""));
  }
}

function fill(field, value) {
  field.value = value;
  field.dataset.shown = field.value;
}

/** The answers that somebody has given: what they did not touch stays as it is set. */
function collect(fields) {
  const given = fields.filter(([{ key }, field]) => key === NAME || field.value !== field.dataset.shown);
  return Object.fromEntries(given.map(([{ key }, field]) => [key, field.value.trim()]));
}

async function keep(name, fields, tryIt, result) {
  const answers = collect(fields);
  let isKept = false;
  result.textContent = "Trying it…";
  delete result.dataset.ok;
  tryIt.disabled = true;
  try {
    const probed = await post("/web/platforms/use", { name, answers });
    result.textContent = probed.ok ? `It works, and is kept. ${probed.text}` : probed.text;
    result.dataset.ok = String(probed.ok);
    isKept = probed.ok;
    if (isKept) for (const [{ secret }, field] of fields) fill(field, secret ? "" : field.value);
  } catch (problem) {
    result.textContent = problem.message;
    result.dataset.ok = "false";
  } finally {
    tryIt.disabled = false;
  }
  return isKept;
}

async function readAccounts(name) {
  const { platforms } = await get("/web/platforms");
  return platforms.find((one) => one.name === name)?.accounts;
}
