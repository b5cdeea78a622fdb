// The card of an open question: an approval with its exact command or diff and its choices, or a question with free
// text.

import { post } from "./api.js";
import { announce, attempt } from "./dialogs.js";
import { button, h } from "./dom.js";
import { drawDiff } from "./entries.js";

const HEADS = {
  approval: "May I do this?",
  clarification: "A question for you",
  confirmation: "Please confirm",
};
/** What the text of an approval says about itself: a command starts with its folder, a change has a diff. */
const DEEDS = [
  [/^@@ /m, "May I make this change?", "Exact change"],
  [/^cd /, "May I run this?", "Exact command"],
];
/** Words that let something happen look like the main button, words that refuse like the quiet one. */
const YES = /^(approve|allow|yes|once|ok)\b/i;

const WORD = {
  type: "text",
  placeholder: "With No: what to do instead",
  "aria-label": "A word to the model, with No",
  autocomplete: "off",
};

export function drawQuestion(question) {
  const deed = question.kind === "approval" ? DEEDS.find(([sign]) => sign.test(question.text)) : null;
  const head = deed?.[1] ?? HEADS[question.kind] ?? "A question for you";
  const answer = (text) => attempt(() => giveAnswer(card, question, text));
  const until = Date.now() / 1000 + question.expires_in;
  const card = h(
    "section.question",
    { "aria-labelledby": `q-${question.id}`, tabindex: "-1" },
    h("h2", { id: `q-${question.id}`, text: head }),
    question.kind === "approval" ? drawDeed(question.text, deed) : h("p.asked", { text: question.text }),
    question.reason ? h("p.reason", { text: question.reason }) : null,
    question.choices.length ? drawChoices(question, answer) : drawFreeText(answer),
    h("p.quiet.countdown", { data: { until, kind: question.kind } }),
  );
  return card;
}

/** What is approved, to the letter. */
function drawDeed(text, deed) {
  const props = { tabindex: "0", role: "region", "aria-label": deed?.[2] ?? "Exactly this" };
  return deed === DEEDS[0] ? h("pre.command.diff", props, drawDiff(text)) : h("pre.command", { ...props, text });
}

function drawChoices({ kind, choices, labels }, answer) {
  // A refusal may go with a word to the model.
  const takesWord = kind !== "clarification" && choices.includes("approve") && choices.includes("deny");
  const word = takesWord ? h("input.field.word", WORD) : null;
  const send = (choice) => {
    const said = choice === "deny" ? (word?.value.trim() ?? "") : "";
    answer(said ? `${choice}: ${said}` : choice);
  };
  word?.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && word.value.trim()) send("deny");
  });
  const draw = (choice, place) =>
    button(labels?.[place] ?? choice, () => send(choice), { kind: YES.test(choice) ? "main" : "" });
  return [h("div.row.choices", {}, choices.map(draw)), word ? h("div.row", {}, word) : null];
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
  if (!isTyping) (card.querySelector("form input") ?? card).focus({ preventScroll: true });
}
