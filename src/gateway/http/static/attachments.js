// Files on their way to the gateway: chosen, dropped or pasted; each shows how far it is and can be taken back.

import { upload } from "./api.js";
import { announce } from "./dialogs.js";
import { h, iconButton } from "./dom.js";
import { writeSize } from "./format.js";

export class Attachments {
  #items = []; // {file, done: {id, name, kind, size} | null, problem, abort, element}

  constructor(limit, onChange) {
    this.limit = limit;
    this.onChange = onChange;
    this.element = h("ul.attachments", { "aria-label": "Attached files", hidden: true });
  }

  get files() {
    return this.#items.filter((item) => item.done).map((item) => item.done);
  }

  get busy() {
    return this.#items.some((item) => !item.done && !item.problem);
  }

  add(files) {
    for (const file of files) this.#start(file);
  }

  clear() {
    this.#items = [];
    this.#show();
  }

  /** Puts files back that are at the gateway already. */
  restore(files) {
    for (const done of files) {
      const item = { file: done, done, problem: "", abort: new AbortController() };
      item.element = this.#drawItem(item);
      item.element.querySelector("progress").remove();
      this.#items.push(item);
    }
    this.#show();
  }

  async #start(file) {
    const item = { file, done: null, problem: "", abort: new AbortController() };
    item.element = this.#drawItem(item);
    this.#items.push(item);
    this.#show();
    const bar = item.element.querySelector("progress");
    try {
      if (file.size > this.limit) throw new Error(`too large: at most ${writeSize(this.limit)}`);
      item.done = await upload(file, (share) => (bar.value = share), item.abort.signal);
      announce(`${file.name} is attached.`);
    } catch (problem) {
      item.problem = problem.message;
      item.element.append(h("span.problem", { text: problem.message, role: "alert" }));
    }
    bar.remove();
    this.#show();
  }

  #drawItem(item) {
    const remove = iconButton("close", `Remove ${item.file.name}`, () => this.#remove(item));
    return h(
      "li.attachment",
      {},
      this.#drawPreview(item.file),
      h("span.file-name", { text: item.file.name }),
      h("span.quiet", { text: writeSize(item.file.size) }),
      h("progress", { max: 1, value: 0, "aria-label": `Sending ${item.file.name}` }),
      remove,
    );
  }

  #drawPreview(file) {
    if (!(file instanceof Blob) || !/^image\/(png|jpeg|gif|webp)$/.test(file.type)) return null;
    const picture = h("img.thumbnail", { alt: "" });
    picture.src = URL.createObjectURL(file);
    picture.addEventListener("load", () => URL.revokeObjectURL(picture.src), { once: true });
    return picture;
  }

  #remove(item) {
    item.abort.abort();
    this.#items = this.#items.filter((other) => other !== item);
    this.#show();
  }

  #show() {
    this.element.hidden = !this.#items.length;
    this.element.replaceChildren(...this.#items.map((item) => item.element));
    this.onChange();
  }
}
