// The card of an open question: an approval with its exact command and its choices, or a question with free text.

import { post } from "./api.js";
import { announce, attempt } from "./dialogs.js";
import { button, h } from "./dom.js";

const HEADS = {
  approval: "May I run this?",
  clarification: "A question for you",
  confirmation: "Please confirm",
};
/** Words that let something happen look like the main button, words that refuse like the quiet one. */
const YES = /^(approve|allow|yes|once|ok)\b/i;

export function drawQuestion(question) {
  const head = HEADS[question.kind] ?? "A question for you";
  const answer = (text) => attempt(() => giveAnswer(card, question, text));
  const until = Date.now() / 1000 + question.expires_in;
  const card = h(
    "section.question",
    { "aria-labelledby": `q-${question.id}`, tabindex: "-1" },
    h("h2", { id: `q-${question.id}`, text: head }),
    question.kind === "approval"
      ? h("pre.command", { text: question.text, tabindex: "0", role: "region", "aria-label": "Exact command" })
      : h("p.asked", { text: question.text }),
    question.reason ? h("p.reason", { text: question.reason }) : null,
    question.choices.length ? drawChoices(question.choices, answer) : drawFreeText(answer),
    h("p.quiet.countdown", { data: { until, kind: question.kind } }),
  );
  return card;
}

function drawChoices(choices, answer) {
  const draw = (choice) =>
    button(choice.charAt(0).toUpperCase() + choice.slice(1), () => answer(choice), {
      kind: YES.test(choice) ? "main" : "",
    });
  return h("div.row.choices", {}, choices.map(draw));
}

function drawFreeText(answer) {
  const field = h("input.field", { type: "text", "aria-label": "Your answer", autocomplete: "off" });
  const send = (event) => {
    event.preventDefault();
    if (field.value.trim()) answer(field.value.trim());
  };
  return h("form.row", { on: { submit: send } }, field, h("button.button.main", { type: "submit", text: "Answer" }));
}

async function giveAnswer(card, question, text) {
  card.inert = true;
  try {
    const { ok } = await post("/web/answer", { question: question.id, text });
    if (!ok) announce("The question is not open any more.");
  } catch (problem) {
    card.inert = false;
    throw problem;
  }
}

/** Brings the person to a new question, unless they are in the middle of a sentence. */
export function leadTo(card, isTyping) {
  announce(`Hermes asks: ${card.querySelector("h2").textContent}`);
  // Not to a button: whoever presses Enter at this moment means something else.
  if (!isTyping) (card.querySelector("input") ?? card).focus({ preventScroll: true });
}
