// Short words to the person: announcements for screen readers, toasts, and a question before something is lost.

import { button, h, iconButton } from "./dom.js";

const TOAST_SECONDS = 8;

/** Says a sentence to screen readers, politely. */
export function announce(text) {
  const place = document.getElementById("announcer");
  place.textContent = "";
  // A new text in the next frame is read even when it is the same as the last one.
  requestAnimationFrame(() => {
    place.textContent = text;
  });
}

/** Shows a sentence for some seconds; an error stays until it is closed. */
export function toast(text, level = "info") {
  const place = document.getElementById("toasts");
  const close = () => note.remove();
  const note = h("div.toast", { data: { level } }, h("p", { text }), iconButton("close", "Close this note", close));
  place.append(note);
  announce(text);
  if (level !== "error") setTimeout(close, TOAST_SECONDS * 1000);
}

/** Runs what a button does; a failure becomes a toast with its sentence. */
export async function attempt(work) {
  try {
    return await work();
  } catch (problem) {
    toast(problem.message, "error");
    return undefined;
  }
}

/** Asks before something cannot be undone; resolves to whether the person said yes. */
export function confirm({ title, text, yes }) {
  return new Promise((resolve) => {
    const answer = (value) => {
      dialog.close(value);
    };
    const dialog = h(
      "dialog.dialog",
      { "aria-labelledby": "dialog-title" },
      h("h2", { id: "dialog-title", text: title }),
      h("p", { text }),
      h(
        "div.row.end",
        {},
        button("Cancel", () => answer("")),
        button(yes, () => answer("yes"), { kind: "danger" }),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
