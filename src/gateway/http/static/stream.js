// Shows an answer while it is written. Finished blocks are drawn once and stay; only the last block is drawn again,
// at most once per frame, so the work of a piece does not grow with the answer.

import { h } from "./dom.js";
import { drawBlocks, readBlocks } from "./markdown.js";

export class StreamText {
  #tail = "";
  #drawn = []; // elements of the last block
  #planned = false;

  /** `onDraw` is called after each change of what is seen. */
  constructor(onDraw = () => {}) {
    this.element = h("div.text.streaming");
    this.text = "";
    this.onDraw = onDraw;
  }

  push(piece) {
    const clean = piece.replace(/\r\n?/g, "\n");
    this.text += clean;
    this.#tail += clean;
    if (this.#planned) return;
    this.#planned = true;
    requestAnimationFrame(() => {
      this.#planned = false;
      this.#draw();
    });
  }

  #draw() {
    const blocks = readBlocks(this.#tail);
    const open = findOpenBlock(blocks);
    const finished = blocks.slice(0, open);
    const raw = finished.map((block) => block.raw).join("");
    this.#drawn.forEach((element) => element.remove());
    if (finished.length && this.#tail.startsWith(raw)) {
      this.element.append(drawBlocks(finished));
      this.#tail = this.#tail.slice(raw.length);
      this.#drawn = this.#append(blocks.slice(open));
    } else {
      this.#drawn = this.#append(blocks);
    }
    this.onDraw();
  }

  #append(blocks) {
    const fragment = drawBlocks(blocks);
    const elements = [...fragment.childNodes];
    this.element.append(fragment);
    return elements;
  }
}

/** The last block that is more than empty lines: it may still grow. */
function findOpenBlock(blocks) {
  let last = blocks.length - 1;
  while (last > 0 && blocks[last].type === "space") last -= 1;
  return Math.max(last, 0);
}
