// The conversation in the middle of the page: keeps elements in step with the state, and the reader where they are.

import { h, icon, syncChildren } from "./dom.js";
import { drawEntry, drawNote, drawOwn, drawReasoning, drawTool } from "./entries.js";
import { writeSeconds } from "./format.js";
import { drawQuestion } from "./question.js";
import { StreamText } from "./stream.js";

const NEAR_END = 60;

export class Timeline {
  #streams = new Map(); // key of a segment -> what shows it
  #pinned = true;
  #lastTop = 0;
  #known = new Set();
  #unseen = 0;

  /** `deeds` makes the buttons of an entry and of an unconfirmed message, and fetches what is earlier. */
  constructor(deeds) {
    this.deeds = deeds;
    this.list = h("div.column", { id: "timeline" });
    this.earlier = h("button.button.earlier", { type: "button", text: "Show earlier messages", hidden: true });
    this.earlier.addEventListener("click", () => this.#showEarlier());
    this.down = h("button.down", { type: "button", hidden: true, on: { click: () => this.scrollToEnd() } });
    this.scroll = h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Messages" }, this.earlier, this.list);
    this.element = h("div.timeline", {}, this.scroll, this.down);
    this.scroll.addEventListener("scroll", () => this.#noteScroll(), { passive: true });
    this.sizes = new ResizeObserver(() => {
      this.#tellBar();
      this.#follow();
    });
    this.sizes.observe(this.list);
    this.sizes.observe(this.scroll);
    this.clock = setInterval(() => tick(this.list), 1000);
  }

  close() {
    this.sizes.disconnect();
    clearInterval(this.clock);
  }

  /** Shows the state and the messages that are not confirmed. */
  draw(state, pending) {
    const items = this.#listItems(state, pending);
    this.#countNew(items);
    syncChildren(this.list, items);
    this.earlier.hidden = !state.more;
    this.#feedStreams(state);
    tick(this.list);
    this.#follow();
  }

  scrollToEnd() {
    this.#pinned = true;
    this.#follow();
    this.#showDown();
  }

  #listItems(state, pending) {
    const working = state.live !== null;
    const rows = state.entries.filter((entry) => !isFromHouse(entry));
    const ends = new Set(rows.filter((entry, index) => isEnd(entry, rows[index + 1])).map(({ id }) => id));
    const last = rows.findLast(({ id }) => ends.has(id))?.id;
    const place = ({ id }) => ({ working, end: ends.has(id), last: id === last });
    const item = (entry) => this.#entryItem(entry, place(entry));
    const isNew = (entry) => working && isFromHouse(entry) && !state.live.before.has(entry.id);
    const shown = state.entries.filter(hasContent);
    const ours = state.waiting.filter((message) => message.begun).map((message) => waitingItem(message, ""));
    const later = state.waiting.filter((message) => !message.begun);
    const segments = (state.live?.segments ?? []).map((segment) => this.#segmentItem(segment));
    if (working && !segments.length) segments.push({ key: "thinking", stamp: "", make: drawThinking });
    return [
      ...shown.filter((entry) => !isNew(entry)).map(item),
      ...ours,
      ...segments,
      ...(state.question ? [questionItem(state.question)] : []),
      ...shown.filter(isNew).map(item), // said beside the turn: at the end, where somebody who asked for it looks
      ...later.map((message) => waitingItem(message, working ? "waiting" : "")),
      ...pending.map((message) => this.#pendingItem(message)),
    ];
  }

  #entryItem(entry, place) {
    const make = () => drawEntry(entry, this.deeds.actions(entry, place));
    const { working, end, last } = place;
    return { key: entry.id, stamp: [working, end, last, entry.text.length, entry.ok].join(), make };
  }

  #segmentItem(segment) {
    if (segment.kind === "tool") {
      const stamp = [segment.ok, segment.seconds, segment.since].join();
      return { key: segment.key, stamp, make: () => drawTool(segment) };
    }
    if (segment.kind === "own") return waitingItem(segment.message, "");
    if (segment.kind === "notice") return { key: segment.key, stamp: "", make: () => drawNote(segment) };
    return { key: segment.key, stamp: "", make: () => this.#startStream(segment) };
  }

  #startStream(segment) {
    const stream = segment.kind === "text" ? new TextView() : new ReasoningView();
    this.#streams.set(segment.key, stream);
    return stream.element;
  }

  /** Hands each stream the part of its segment that it has not shown. */
  #feedStreams(state) {
    const segments = new Map((state.live?.segments ?? []).map((segment) => [segment.key, segment]));
    for (const [key, stream] of this.#streams) {
      if (segments.has(key)) stream.feed(segments.get(key).text);
      else this.#streams.delete(key);
    }
  }

  #pendingItem(message) {
    const mark = message.problem || "sending…";
    const make = () => drawOwn(message, { mark, actions: message.problem ? this.deeds.refused(message) : [] });
    return { key: `p${message.id}`, stamp: mark, make };
  }

  /** The bar takes room from the messages at both sides; what stands below them keeps the same edges. */
  #tellBar() {
    const bar = (this.scroll.offsetWidth - this.scroll.clientWidth) / 2;
    this.element.parentElement?.style.setProperty("--bar", `${bar}px`);
  }

  // --- where the reader is

  #noteScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroll;
    const atEnd = scrollHeight - scrollTop - clientHeight < NEAR_END;
    if (atEnd) this.#pinned = true;
    else if (scrollTop < this.#lastTop - 2) this.#pinned = false; // only a person scrolls up
    this.#lastTop = scrollTop;
    this.#showDown();
  }

  #follow() {
    if (!this.#pinned) return;
    this.scroll.scrollTop = this.scroll.scrollHeight;
    this.#lastTop = this.scroll.scrollTop;
  }

  #countNew(items) {
    if (!this.#pinned) this.#unseen += items.filter((item) => !this.#known.has(item.key)).length;
    this.#known = new Set(items.map((item) => item.key));
    this.#showDown();
  }

  #showDown() {
    if (this.#pinned) this.#unseen = 0;
    const words = this.#unseen ? `${this.#unseen} new` : "To the end";
    this.down.hidden = this.#pinned;
    if (this.down.dataset.words === words) return;
    this.down.dataset.words = words;
    this.down.replaceChildren(icon("down"), words);
  }

  async #showEarlier() {
    const fromEnd = this.scroll.scrollHeight - this.scroll.scrollTop;
    this.#pinned = false;
    await this.deeds.earlier();
    this.scroll.scrollTop = this.scroll.scrollHeight - fromEnd;
    this.#unseen = 0;
    this.#showDown();
  }
}

class TextView {
  #stream = new StreamText();
  #shown = 0;
  element = h("article.answer", { "aria-label": "Hermes is writing" }, this.#stream.element);

  feed(text) {
    if (text.length > this.#shown) this.#stream.push(text.slice(this.#shown));
    this.#shown = text.length;
  }
}

class ReasoningView {
  element = drawReasoning("");
  #body = this.element.querySelector(".fold-body");

  feed(text) {
    this.#body.append(text.slice(this.#body.textContent.length));
  }
}

const isFromHouse = ({ kind }) => kind === "note" || kind === "file";

const hasContent = (entry) => entry.kind !== "assistant" || entry.text || entry.reasoning || entry.files?.length;

/** Whether an answer is its turn's last word: what comes next is a question, or nothing. */
const isEnd = (entry, next) => entry.kind === "assistant" && entry.text && (!next || next.kind === "user");

function waitingItem(message, mark) {
  return { key: `w${message.seq}`, stamp: mark, make: () => drawOwn(message, { mark }) };
}

function questionItem(question) {
  return { key: `q${question.id}`, stamp: "", make: () => drawQuestion(question) };
}

function drawThinking() {
  return h(
    "div.thinking",
    {},
    h("span.dots", { "aria-hidden": "true" }),
    h("span.unseen", { text: "Hermes is working" }),
  );
}

const WITHOUT = { approval: "It counts as a no in", other: "It can be answered for" };

/** Counts the seconds of tools that run and of questions that expire. */
function tick(root) {
  const now = Date.now() / 1000;
  const thinking = root.querySelector(".question") !== null;
  for (const place of thinking ? [] : root.querySelectorAll("[data-since]")) {
    place.textContent = writeSeconds(Math.max(0, now - Number(place.dataset.since)));
  }
  for (const place of root.querySelectorAll("[data-until]")) {
    const left = Math.max(0, Math.round(Number(place.dataset.until) - now));
    place.textContent = left
      ? `${WITHOUT[place.dataset.kind] ?? WITHOUT.other} ${writeSeconds(left)}.`
      : "The time for an answer is over.";
  }
}
