// Editing in place: a sent message that is asked again, and the title of a conversation.

import { button, h } from "./dom.js";

/** Puts a text field in the place of a message; `onSend(text)` when it is sent. */
export function editInPlace(article, text, onSend) {
  const hidden = [...article.children].filter((child) => !child.hidden);
  const field = h("textarea.field", { value: text, "aria-label": "Edit your message", rows: "3" });
  const close = () => {
    box.remove();
    for (const child of hidden) child.hidden = false;
    article.querySelector("button")?.focus();
  };
  const send = () => {
    const edited = field.value.trim();
    if (!edited) return;
    close();
    onSend(edited);
  };
  const buttons = h("div.row.end", {}, button("Cancel", close), button("Send", send, { kind: "main" }));
  const box = h(
    "div.editing",
    {},
    field,
    h("p.quiet", { text: "The conversation goes on in a copy; the old one stays." }),
    buttons,
  );
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send();
    }
  });
  for (const child of hidden) child.hidden = true;
  article.append(box);
  field.focus();
}

/** Puts a field in the place of a title; `onSave(title)` when it changed. */
export function renameInPlace(link, title, onSave) {
  const field = h("input.field.rename", { type: "text", value: title, "aria-label": "Title", maxlength: "200" });
  let open = true;
  const close = (save) => {
    if (!open) return;
    open = false;
    field.replaceWith(link);
    link.focus();
    const fresh = field.value.trim();
    if (save && fresh && fresh !== title) onSave(fresh);
  };
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") close(true);
    if (event.key === "Escape") close(false);
    event.stopPropagation();
  });
  field.addEventListener("blur", () => close(true));
  link.replaceWith(field);
  field.focus();
  field.select();
}
