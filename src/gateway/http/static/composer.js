// Where messages are written: text, files, slash commands, and what Enter means while a turn is under way.

import { Attachments } from "./attachments.js";
import { Completion } from "./completion.js";
import { announce } from "./dialogs.js";
import { h, icon, iconButton } from "./dom.js";

const MODES = [
  ["steer", "Steer", "Hermes hears it at the next step of what it is doing."],
  ["queue", "Queue", "It is answered when this turn has ended."],
];

export class Composer {
  #working = false;
  #eager = false; // it was sent while files were on their way
  #draft = ""; // where an unsent text is kept

  /** `onSend({text, files, mode})`, `onStop()`; `me` knows the commands and the size limit. */
  constructor(me, { onSend, onStop }) {
    this.onSend = onSend;
    this.field = h("textarea.say", {
      id: "say",
      rows: "1",
      placeholder: "Message Hermes",
      "aria-label": "Your message",
      "aria-describedby": "say-hint",
      enterkeyhint: "send",
    });
    this.attachments = new Attachments(me.upload_bytes, () => this.#noteFiles());
    this.completion = new Completion(this.field, me.commands);
    this.picker = h("input", { type: "file", multiple: true, hidden: true, "aria-label": "Files", tabindex: "-1" });
    this.send = iconButton("send", "Send", () => this.#submit());
    this.send.classList.add("send");
    this.stop = h("button.button.stop", { type: "button", hidden: true, on: { click: onStop } }, icon("stop"), "Stop");
    this.modes = this.#drawModes();
    this.element = this.#drawForm();
    this.#listen();
    this.#refresh();
  }

  get isTyping() {
    return this.field.value.trim() !== "";
  }

  focus() {
    this.field.focus();
  }

  setText(text, files = []) {
    this.field.value = text;
    this.attachments.clear();
    this.attachments.restore(files);
    this.#refresh();
    this.focus();
  }

  /** Keeps what is written for a conversation, and brings back what was not sent there. */
  keepDraft(conversation) {
    this.#draft = `hermes.draft.${conversation}`;
    if (!this.field.value) this.field.value = sessionStorage.getItem(this.#draft) ?? "";
    this.#refresh();
  }

  /** While a turn is under way there is a stop button and a choice of what Enter does. */
  setWorking(working) {
    if (this.#working === working) return;
    this.#working = working;
    if (!working && document.activeElement === this.stop) this.focus();
    this.stop.hidden = !working;
    this.#refresh();
  }

  #drawForm() {
    const attach = iconButton("clip", "Attach files", () => this.picker.click());
    const hint = "Enter sends, Shift and Enter make a new line, a slash shows the commands.";
    return h(
      "form.composer",
      { "aria-label": "Write a message", on: { submit: (event) => event.preventDefault() } },
      this.completion.element,
      this.attachments.element,
      this.modes,
      h("div.writing", {}, attach, this.picker, this.field, this.stop, this.send),
      h("p.unseen", { id: "say-hint", text: hint }),
    );
  }

  #drawModes() {
    const draw = ([value, label, words], index) => {
      const radio = h("input", { type: "radio", name: "mode", value, checked: index === 0 });
      return h("label.mode", { title: words }, radio, h("span", { text: label }));
    };
    const words = h("span.quiet", { text: MODES[0][2] });
    const choose = ({ target }) => (words.textContent = MODES.find(([value]) => value === target.value)[2]);
    const head = h("legend.unseen", { text: "What becomes of a message while Hermes works" });
    return h("fieldset.modes", { hidden: true, on: { change: choose } }, head, MODES.map(draw), words);
  }

  #listen() {
    this.field.addEventListener("input", () => {
      this.completion.update();
      this.#refresh();
    });
    this.field.addEventListener("keydown", (event) => this.#handleKey(event));
    this.field.addEventListener("blur", () => this.completion.close());
    this.field.addEventListener("paste", (event) => {
      if (event.clipboardData.files.length) {
        event.preventDefault();
        this.attachments.add(event.clipboardData.files);
      }
    });
    this.picker.addEventListener("change", () => {
      this.attachments.add(this.picker.files);
      this.picker.value = "";
    });
  }

  #handleKey(event) {
    if (event.isComposing || this.completion.handleKey(event)) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.#submit();
    }
  }

  #submit() {
    const text = this.field.value.trim();
    const files = this.attachments.files;
    this.#eager = this.attachments.busy;
    if (this.#eager) announce("It is sent when its files have arrived.");
    if (this.#eager || (!text && !files.length)) return;
    // A command says by itself when it runs.
    const mode = this.#working && !text.startsWith("/") ? this.modes.querySelector("input:checked").value : "";
    this.field.value = "";
    this.attachments.clear();
    this.#refresh();
    this.onSend({ text, files, mode });
  }

  #noteFiles() {
    this.#refresh();
    if (this.#eager && !this.attachments.busy) this.#submit();
  }

  #refresh() {
    if (!this.element) return;
    this.send.disabled = this.attachments.busy || (!this.isTyping && !this.attachments.files.length);
    this.modes.hidden = !this.#working;
    this.field.style.height = "auto";
    if (this.#draft && this.field.value) sessionStorage.setItem(this.#draft, this.field.value);
    else if (this.#draft) sessionStorage.removeItem(this.#draft);
    if (!this.field.value) return; // one line, also before the field is on the page
    this.field.style.height = `${Math.min(this.field.scrollHeight, window.innerHeight * 0.4)}px`;
  }
}
