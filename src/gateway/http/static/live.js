// Follows one conversation over server-sent events. A lost connection is taken up again; the first event of every
// connection is the whole truth, so nothing has to be asked for twice.

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10000;
const HIDDEN_MS = 60000;

export class Live {
  #source = null;
  #timer = 0;
  #wait = FIRST_WAIT;
  #hidden = 0;

  /** `onEvent` gets each event, `onState` whether there is a connection. */
  constructor(conversation, onEvent, onState) {
    this.conversation = conversation;
    this.onEvent = onEvent;
    this.onState = onState;
    this.#open();
    window.addEventListener("online", this.#reopen);
    document.addEventListener("visibilitychange", this.#rest);
  }

  close() {
    clearTimeout(this.#timer);
    clearTimeout(this.#hidden);
    window.removeEventListener("online", this.#reopen);
    document.removeEventListener("visibilitychange", this.#rest);
    this.#source?.close();
    this.#source = null;
  }

  #open() {
    this.#source?.close();
    const source = new EventSource(`/web/live?conversation=${encodeURIComponent(this.conversation)}`);
    this.#source = source;
    source.onmessage = (message) => {
      const event = JSON.parse(message.data);
      if (event.type === "snapshot") this.#connected();
      if (event.type === "closing") this.#lost();
      this.onEvent(event);
    };
    source.onerror = () => this.#lost();
  }

  #connected() {
    this.#wait = FIRST_WAIT;
    this.onState(true);
  }

  /** The browser's own way back is slow and gives up at an error status: try again ourselves, ever more slowly. */
  #lost() {
    this.#source?.close();
    this.#source = null;
    this.onState(false);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#reopen, this.#wait);
    this.#wait = Math.min(this.#wait * 2, LONGEST_WAIT);
  }

  #reopen = () => {
    clearTimeout(this.#timer);
    if (this.#source === null) this.#open();
  };

  /** A page that nobody looks at gives its connection back: a browser has only six of them for a server. */
  #rest = () => {
    clearTimeout(this.#hidden);
    if (!document.hidden) this.#reopen();
    else {
      this.#hidden = setTimeout(() => {
        this.#source?.close();
        this.#source = null;
      }, HIDDEN_MS);
    }
  };
}
