// What can be done with a conversation of the list: rename, export, delete.

import { del, patch } from "./api.js";
import { attempt, confirm } from "./dialogs.js";
import { h, icon } from "./dom.js";
import { renameInPlace } from "./editing.js";

/** A button with a small menu; Esc and a click elsewhere close it. */
export function drawMenu(thread, { rename, deleted }) {
  const id = `menu-${thread.session}`;
  const close = () => menu.hidePopover();
  const item = (text, act) =>
    h("button.menu-item", {
      type: "button",
      text,
      on: {
        click: () => {
          close();
          act();
        },
      },
    });
  const menu = h(
    "div.menu",
    { id, popover: "auto" },
    item("Rename", rename),
    drawExport(thread, "md", "Export as Markdown", close),
    drawExport(thread, "json", "Export as JSON", close),
    item("Delete", () => attempt(() => askAndDelete(thread, deleted))),
  );
  const label = `Options of ${thread.title || "this conversation"}`;
  const open = h(
    "button.icon-button.options",
    { type: "button", "aria-label": label, popovertarget: id },
    icon("dots"),
  );
  menu.addEventListener("beforetoggle", () => placeMenu(menu, open));
  return h("span.menu-holder", {}, open, menu);
}

function drawExport(thread, form, text, close) {
  const href = `/web/threads/${encodeURIComponent(thread.session)}/export?form=${form}`;
  return h("a.menu-item", { href, download: "", text, on: { click: close } });
}

function placeMenu(menu, open) {
  const { bottom, right } = open.getBoundingClientRect();
  menu.style.top = `${Math.min(bottom, window.innerHeight - 190)}px`;
  menu.style.left = `${Math.max(8, right - 200)}px`;
}

export function startRename(link, thread, saved) {
  const save = async (title) => {
    await patch(`/web/threads/${encodeURIComponent(thread.session)}`, { title });
    saved();
  };
  renameInPlace(link, thread.title, (title) => attempt(() => save(title)));
}

async function askAndDelete(thread, deleted) {
  const text = `“${thread.title}” and all its messages will be gone. This cannot be undone.`;
  if (!(await confirm({ title: "Delete this conversation?", text, yes: "Delete" }))) return;
  await del(`/web/threads/${encodeURIComponent(thread.session)}`);
  deleted();
}
