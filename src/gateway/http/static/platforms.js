// Chat apps: what each one asks, tried with its service before anything is kept.

import { get, post } from "./api.js";
import { h } from "./dom.js";

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

function drawPlatform({ name, label, enabled, missing, install, questions }) {
  const title = h("summary", { text: `${label}${enabled ? " (on)" : ""}` });
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
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    keep(name, fields, tryIt, result);
  });
  return h("details.platform", {}, title, form);
}

function makeField(platform, { key, secret, value, has_value, default: standard, choices }) {
  const id = `platform-${platform}-${key}`;
  if (choices.length) {
    const draw = (choice) => h("option", { value: choice, text: choice, selected: choice === (value || standard) });
    return h("select.field", { id }, choices.map(draw));
  }
  const kept = has_value ? "kept already; leave it empty to use it" : "";
  return h("input.field", {
    id,
    type: secret ? "password" : "text",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: secret ? kept : standard,
    value,
  });
}

async function keep(name, fields, tryIt, result) {
  const answers = Object.fromEntries(fields.map(([{ key }, field]) => [key, field.value.trim()]));
  result.textContent = "Trying it…";
  delete result.dataset.ok;
  tryIt.disabled = true;
  try {
    const probed = await post("/web/platforms/use", { name, answers });
    result.textContent = probed.ok ? `It works, and is kept. ${probed.text}` : probed.text;
    result.dataset.ok = String(probed.ok);
    if (probed.ok) for (const [{ secret }, field] of fields) if (secret) field.value = "";
  } catch (problem) {
    result.textContent = problem.message;
    result.dataset.ok = "false";
  } finally {
    tryIt.disabled = false;
  }
}
