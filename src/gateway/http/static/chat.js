// One open conversation: connects what the server tells with what the page shows, and does what its buttons say.

import { get, post } from "./api.js";
import { Composer } from "./composer.js";
import { addEarlier, applyEvent, isWorking, makeState } from "./conversation.js";
import { announce, attempt, toast } from "./dialogs.js";
import { button, h, iconButton } from "./dom.js";
import { editInPlace } from "./editing.js";
import { Live } from "./live.js";
import { copyText } from "./markdown.js";
import { leadTo } from "./question.js";
import { Timeline } from "./timeline.js";

const FRESH = "hermes.fresh"; // the key of a conversation that has no session yet
const LOOK_MS = 400;
const SAID = 400; // how much of an answer is read out

export class Chat {
  #live = null;
  #planned = false;
  #state = makeState("");
  #fixed = null; // an earlier session, which is only read
  #asked = "";
  #looking = 0;
  #closed = false;
  #opened = Promise.withResolvers(); // until then nothing can be said

  /** `outbox` holds unconfirmed messages, `onChange` is called when the list of conversations may have changed. */
  constructor(me, outbox, { onChange, onThread }) {
    this.outbox = outbox;
    this.onChange = onChange;
    this.onThread = onThread;
    this.composer = new Composer(me, { onSend: (message) => this.#say(message), onStop: () => this.#stop() });
    this.timeline = new Timeline({
      actions: (entry, place) => this.#listActions(entry, place),
      refused: (message) => this.#listRefused(message),
      earlier: () => attempt(() => this.#showEarlier()),
    });
    this.lost = h("p.lost", { role: "status", hidden: true, text: "Not connected, trying again…" });
    this.hello = h("div.hello", { hidden: true });
    this.past = this.#drawPast();
    this.foot = h("div.foot", {}, this.past, this.composer.element);
    this.element = h("div.chat", {}, this.lost, this.hello, this.timeline.element, this.foot);
    this.#takeDrops();
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#looking);
    this.#live?.close();
    this.timeline.close();
  }

  // --- which conversation

  /** Opens a session; one that its conversation has left behind is shown, but nothing is said there. */
  async openSession(session) {
    const { thread } = await get(`/web/threads/${encodeURIComponent(session)}`);
    if (thread.current) this.#follow(thread.conversation);
    else await this.#showPast(thread);
  }

  async openFresh() {
    let key = sessionStorage.getItem(FRESH);
    if (!key) key = (await post("/web/threads")).conversation;
    sessionStorage.setItem(FRESH, key);
    this.#follow(key);
  }

  static forgetFresh() {
    sessionStorage.removeItem(FRESH);
  }

  #follow(conversation) {
    this.#live?.close();
    if (this.#closed) return; // the person went on before the answer came
    this.#fixed = null;
    this.#state = makeState(conversation);
    this.#opened.resolve();
    this.composer.keepDraft(conversation);
    this.#live = new Live(
      conversation,
      (event) => this.#hear(event),
      (there) => (this.lost.hidden = there),
    );
    this.#draw();
  }

  async #showPast(thread) {
    const { entries, more } = await get(`/web/threads/${encodeURIComponent(thread.session)}/entries`);
    this.#fixed = thread;
    this.#state = { ...makeState(thread.conversation), thread, entries, more, model: thread.model, ready: true };
    this.onThread(thread, this.#state);
    this.#draw();
  }

  #drawPast() {
    const go = () => attempt(() => this.#resume());
    return h(
      "div.past",
      { hidden: true },
      h("p", { text: "This conversation went on elsewhere." }),
      button("Go on from here", go, { kind: "main" }),
    );
  }

  async #resume() {
    const { thread } = await post(`/web/threads/${encodeURIComponent(this.#fixed.session)}/resume`);
    this.#follow(thread.conversation);
    this.onChange();
    this.composer.focus();
  }

  // --- what the server tells

  #hear(event) {
    if (event.type === "moved") {
      this.#follow(event.conversation);
      return;
    }
    applyEvent(this.#state, event);
    if (event.type === "settled") this.#announceAnswer(event);
    if (["snapshot", "settled", "title"].includes(event.type)) this.#noteThread();
    if (["begun", "settled", "title"].includes(event.type)) this.onChange();
    if (this.#state.live && !this.#state.thread) this.#lookForThread();
    this.draw();
  }

  /** A new conversation gets its session when its turn has begun: look for it until it is there. */
  #lookForThread() {
    if (this.#looking) return;
    this.#looking = setTimeout(() => {
      this.#looking = 0;
      if (!this.#state.live || this.#state.thread) return;
      this.onChange();
      this.#lookForThread();
    }, LOOK_MS);
  }

  #announceAnswer({ entries, interrupted, reason }) {
    const answer = (entries ?? []).findLast((entry) => entry.kind === "assistant" && entry.text);
    if (interrupted) announce(reason || "The turn was stopped.");
    else if (answer?.level === "error") announce(`There is no answer. ${answer.text.slice(0, SAID)}`);
    else if (answer) announce(`Hermes: ${answer.text.slice(0, SAID)}`);
  }

  #noteThread() {
    if (this.#state.thread) Chat.forgetFresh();
    this.onThread(this.#state.thread, this.#state);
  }

  /** The list was read: a new conversation has its session now, before its first answer, or it has a title. */
  noteThreads(threads) {
    const mine = threads.find(({ conversation, current }) => current && conversation === this.#state.conversation);
    const known = this.#state.thread;
    if (!mine || this.#fixed || (known && (known.session !== mine.session || known.title === mine.title))) return;
    this.#state.thread = mine;
    this.#noteThread();
  }

  /** A message of ours is stored; its own event may come later. */
  noteStored({ conversation, seq, text, files, at }) {
    if (conversation !== this.#state.conversation) return;
    applyEvent(this.#state, { type: "heard", seq, text, files, at, by: "" });
    this.draw();
  }

  // --- what is seen

  draw() {
    if (this.#planned) return;
    this.#planned = true;
    requestAnimationFrame(() => {
      this.#planned = false;
      this.#draw();
    });
  }

  #draw() {
    const state = this.#state;
    this.timeline.draw(state, this.#listPending());
    this.composer.setWorking(isWorking(state));
    this.composer.element.hidden = this.#fixed !== null;
    this.past.hidden = this.#fixed === null;
    const empty =
      state.ready && !state.entries.length && !state.waiting.length && !state.live && !this.#listPending().length;
    this.hello.hidden = !empty;
    this.element.classList.toggle("empty", empty);
    this.#leadToQuestion();
  }

  /** A message whose own event has come already is not shown twice. */
  #listPending() {
    const heard = ({ id }) => this.#state.waiting.some((other) => other.id === id);
    return this.outbox.of(this.#state.conversation).filter((message) => !heard(message));
  }

  #leadToQuestion() {
    const id = this.#state.question?.id ?? "";
    if (id === this.#asked) return;
    this.#asked = id;
    if (id) leadTo(this.timeline.list.querySelector(".question"), this.composer.isTyping);
    else if (document.activeElement === document.body) this.composer.focus();
  }

  // --- what the buttons do

  async #say({ text, files, mode }) {
    const seen = this.#asked; // what was drawn, which an event on its way is not
    await this.#opened.promise;
    this.timeline.scrollToEnd();
    await this.outbox.add({ conversation: this.#state.conversation, text, files, mode, seen });
    this.onChange();
  }

  async #stop() {
    const answer = await attempt(() => post("/web/stop", { conversation: this.#state.conversation }));
    if (answer && !answer.stopped) toast("Nothing runs here any more.");
  }

  #listActions(entry, { working, end, last }) {
    if (entry.kind === "assistant" && !end) return null; // in the middle of a turn nothing can be cut
    if (entry.position < 0) return [];
    const copy = iconButton("copy", "Copy the message", () => copyText(entry.text, copy));
    if (entry.kind === "user") {
      return working ? [copy] : [iconButton("edit", "Edit and ask again", (event) => this.#edit(entry, event)), copy];
    }
    if (working) return [];
    const branch = iconButton("branch", "Branch from here", () => attempt(() => this.#fork(entry.position + 1)));
    const again = () => this.#say({ text: "/retry", files: [], mode: "" });
    if (entry.level === "error") return last && !this.#fixed ? [button("Try again", again, { kind: "small" })] : [];
    const retry = iconButton("retry", "Try again", again);
    return last && !this.#fixed ? [retry, branch] : [branch];
  }

  #listRefused(message) {
    const takeBack = () => {
      this.outbox.drop(message);
      this.composer.setText(message.text, message.files);
    };
    return [
      button("Send again", () => this.outbox.again(message), { kind: "small" }),
      button("Edit", takeBack, { kind: "small" }),
      button("Discard", () => this.outbox.drop(message), { kind: "small" }),
    ];
  }

  #edit(entry, event) {
    const send = async (text) => {
      await this.#fork(entry.position);
      this.#say({ text, files: (entry.files ?? []).filter(({ id }) => id), mode: "" });
    };
    editInPlace(event.target.closest("article"), entry.text, (text) => attempt(() => send(text)));
  }

  /** Goes on in a copy that ends before a position; the old one stays in the list. */
  async #fork(before) {
    const session = this.#state.thread.session;
    const { thread } = await post(`/web/threads/${encodeURIComponent(session)}/fork`, { before });
    this.#follow(thread.conversation);
    this.#state.thread = thread;
    this.onThread(thread, this.#state);
    this.onChange();
    announce("This is a copy now; the old conversation stays in the list.");
  }

  async #showEarlier() {
    const { thread, entries } = this.#state;
    const first = entries.find((entry) => entry.position >= 0)?.position ?? 0;
    const path = `/web/threads/${encodeURIComponent(thread.session)}/entries?before=${first}`;
    const earlier = await get(path);
    addEarlier(this.#state, earlier.entries, earlier.more);
    this.#draw();
  }

  #takeDrops() {
    const over = (event) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      this.element.classList.toggle("dropping", event.type === "dragover");
      if (event.type === "drop") this.composer.attachments.add(event.dataTransfer.files);
    };
    for (const type of ["dragover", "dragleave", "drop"]) this.element.addEventListener(type, over);
  }
}
