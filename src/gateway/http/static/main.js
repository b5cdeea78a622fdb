// The page's beginning: who is here, which page the address names, and what the keyboard does everywhere.

import { get } from "./api.js";
import { Chat } from "./chat.js";
import { attempt, toast } from "./dialogs.js";
import { h, iconButton } from "./dom.js";
import { Outbox } from "./outbox.js";
import { Sidebar } from "./sidebar.js";

const main = document.getElementById("main");

class App {
  #page = null; // what is shown: it has `element` and `close()`
  #chat = null; // the same, when it is a conversation
  #session = "";

  constructor(me) {
    this.me = me;
    this.outbox = new Outbox(
      () => this.#chat?.draw(),
      (message) => this.#chat?.noteStored(message),
    );
    this.heading = h("h1", { text: "Hermes" });
    this.model = h("span.quiet.model");
    this.toy = h(
      "p.toy",
      { role: "status", hidden: true },
      "A small built-in model answers: a toy without tools. ",
      h("button.link", { type: "button", text: "Set up a real one", on: { click: () => this.go("/setup") } }),
    );
    this.#showModel();
    const menu = iconButton("menu", "Open the list", () => this.sidebar.toggle());
    menu.classList.add("phone-only");
    this.place = h("div.place");
    main.replaceChildren(h("header.top", {}, menu, this.heading, this.model), this.toy, this.place);
    this.sidebar = new Sidebar((path) => this.go(path), {
      onThreads: (threads) => this.#chat?.noteThreads(threads),
      onDeleted: (session) => session === this.#session && this.go("/"),
    });
    window.addEventListener("popstate", () => this.#show());
    document.addEventListener("keydown", (event) => this.#handleKey(event));
    this.#show();
    this.sidebar.refresh();
  }

  go(path) {
    if (path === "/") Chat.forgetFresh();
    history.pushState(null, "", path);
    this.sidebar.toggle(false);
    this.#show();
  }

  #setTitle(title) {
    this.heading.textContent = title || "Hermes";
    document.title = title ? `${title} – Hermes` : "Hermes";
  }

  async #show() {
    const path = location.pathname;
    this.#page?.close();
    this.#page = this.#chat = null;
    this.#session = "";
    try {
      await (PAGES[path] ? this.#showPage(path) : this.#showChat(path));
    } catch (problem) {
      this.place.replaceChildren(h("p.plain", { role: "alert", text: problem.message }));
    }
    this.sidebar.show(this.#session, path);
  }

  async #showPage(path) {
    const [title, load] = PAGES[path];
    this.#setTitle(title);
    const page = await load(this.me, (where) => this.#leave(where));
    if (location.pathname !== path) return;
    this.#page = page;
    this.place.replaceChildren(page.element);
  }

  /** The set-up is done or put off: what the page knows about the model is out of date. */
  async #leave(where) {
    this.me = await get("/web/me");
    this.#showModel();
    this.go(where);
  }

  /** Who answers here: what was chosen for the conversation, else for all; and who did, if that was somebody else. */
  #showModel({ model = "", answered = "" } = {}) {
    const { model: usual, label, problem } = this.me.model;
    const next = model || (problem ? "no model" : usual || label);
    const other = answered && answered !== next ? `; the last answer is from ${answered}` : "";
    this.toy.hidden = !this.me.model.built_in || next !== usual;
    this.model.textContent = `${next}${other}`;
    this.model.title = model || !problem ? `${next} answers here${other}.` : problem;
  }

  async #showChat(path) {
    const chat = new Chat(this.me, this.outbox, {
      onChange: () => this.sidebar.refresh(),
      onThread: (thread, models) => chat === this.#chat && this.#noteThread(thread, models),
    });
    this.#page = this.#chat = chat;
    this.#setTitle("");
    this.place.replaceChildren(chat.element);
    attempt(() => this.#greet(chat));
    const session = /^\/c\/(.+)$/.exec(path)?.[1];
    await (session ? chat.openSession(decodeURIComponent(session)) : chat.openFresh());
    if (matchMedia("(min-width: 721px)").matches) chat.composer.focus();
  }

  /** What an empty conversation says; before there is a provider, the way to one. */
  async #greet(chat) {
    if (!this.me.needs_setup) {
      chat.hello.append(
        h("h2", { text: "What can I do for you?" }),
        h("p.quiet", { text: "Type a message, drop a file, or begin with a slash to see the commands." }),
      );
      return;
    }
    const { drawSetup } = await import("./setup.js");
    chat.hello.append(await drawSetup(this.me, (where) => this.#leave(where)));
  }

  /** The address always names the session that is shown. */
  #noteThread(thread, models) {
    this.#session = thread?.session ?? "";
    this.#showModel(models);
    const path = thread ? `/c/${thread.session}` : "/";
    if (location.pathname !== path) history.replaceState(null, "", path);
    this.#setTitle(thread?.title ?? "");
    this.sidebar.show(this.#session, path);
  }

  #handleKey(event) {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      this.sidebar.focusSearch();
    } else if (event.key === "Escape" && this.sidebar.isUsed) {
      this.sidebar.toggle(false);
      this.#chat?.composer.focus();
    }
  }
}

const PAGES = {
  "/status": ["Status", async () => (await import("./status.js")).openStatus()],
  "/settings": ["Settings", async () => (await import("./settings.js")).openSettings()],
  "/setup": ["Set up a model", async (me, leave) => (await import("./setup.js")).openSetup(me, leave)],
};

const signedOut = () => toast("You are signed out. Reload the page to sign in again.", "error");
window.addEventListener("signed-out", signedOut, { once: true });

try {
  new App(await get("/web/me"));
} catch (problem) {
  main.replaceChildren(h("p.plain", { role: "alert", text: `${problem.message} Reload the page to try again.` }));
}
