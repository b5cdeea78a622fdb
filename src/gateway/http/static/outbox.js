// Messages that the gateway has not confirmed. They are kept in the browser under their own id and sent again with
// the same id until they are stored: a lost connection or a reload loses nothing and doubles nothing.

import { post } from "./api.js";

const KEY = "hermes.unsent";
const FIRST_WAIT = 700;
const LONGEST_WAIT = 10000;

function read() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}

function write(messages) {
  try {
    localStorage.setItem(KEY, JSON.stringify(messages));
  } catch {
    // A browser that keeps nothing still sends; only a reload would lose the message.
  }
}

function keep(message) {
  write({ ...read(), [message.id]: message });
}

function forget(id) {
  const messages = read();
  delete messages[id];
  write(messages);
}

export class Outbox {
  /** `onChange`: the list of unconfirmed messages has changed; `onStored`: this message has a seq now. */
  constructor(onChange, onStored) {
    this.onChange = onChange;
    this.onStored = onStored;
    this.messages = Object.values(read()).map((message) => ({ ...message, seq: null, problem: "" }));
    for (const message of this.messages) this.#send(message);
  }

  of(conversation) {
    return this.messages.filter((message) => message.conversation === conversation);
  }

  /** Takes a message and sends it until it is stored; resolves at the first answer that counts. `seen`: the id of the
   * question that stood there when it was written. */
  add({ conversation, text, files, mode, seen }) {
    const id = crypto.randomUUID?.() ?? `m${Date.now()}-${Math.random().toString(36).slice(2)}`;
    const message = { id, conversation, text, files, mode, seen, at: Date.now() / 1000, seq: null, problem: "" };
    keep(message);
    this.messages.push(message);
    this.onChange();
    return this.#send(message);
  }

  /** Tries a refused message again. */
  again(message) {
    message.problem = "";
    keep(message);
    this.onChange();
    return this.#send(message);
  }

  drop(message) {
    forget(message.id);
    this.messages = this.messages.filter((other) => other !== message);
    this.onChange();
  }

  async #send(message) {
    for (let wait = FIRST_WAIT; this.messages.includes(message); wait = Math.min(wait * 2, LONGEST_WAIT)) {
      try {
        const { conversation, id, text, files, mode, seen = "" } = message;
        const ids = files.map((file) => file.id);
        const answer = await post("/web/say", { conversation, id, text, mode, seen, files: ids });
        message.seq = answer.seq;
        if (!answer.again) this.onStored(message);
        this.drop(message);
        return answer;
      } catch (problem) {
        if (!problem.passing) return this.#refuse(message, problem);
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
    return null;
  }

  /** It will not be taken as it is: the person decides what becomes of it. */
  #refuse(message, problem) {
    message.problem = problem.message;
    forget(message.id);
    this.onChange();
    return null;
  }
}
