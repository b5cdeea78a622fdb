// The list at the left: new chat, search, conversations by day, and the way to the other pages.

import { get } from "./api.js";
import { attempt } from "./dialogs.js";
import { h, icon, iconButton, syncChildren } from "./dom.js";
import { nameDay } from "./format.js";
import { drawMenu, startRename } from "./thread_menu.js";
import { toggleTheme } from "./themes.js";

const PAGE = 50;
const SEARCH_WAIT = 200;
const REFRESH_MS = 15000;
const PASSING = "Show single questions and the API";
const PAGES = [
  ["/status", "Status", "pulse"],
  ["/settings", "Settings", "gear"],
];

export class Sidebar {
  #threads = [];
  #more = false;
  #here = "";
  #words = "";
  #passing = false; // whether the questions of programs and single ones are shown, instead of the conversations
  #timer = 0;

  /** `go(path)` opens a page, `onThreads` gets the list each time it was read. */
  constructor(go, { onThreads, onDeleted }) {
    this.go = go;
    this.onThreads = onThreads;
    this.onDeleted = onDeleted;
    this.search = h("input.field.search", {
      type: "search",
      placeholder: "Search",
      "aria-label": "Search all conversations (Ctrl+K)",
    });
    this.list = h("ul.threads", { "aria-label": "Conversations" });
    this.more = h("button.button.more", { type: "button", text: "Show more", hidden: true });
    this.more.addEventListener("click", () => attempt(() => this.#readMore()));
    this.passing = h("button.passing", { type: "button", text: PASSING, "aria-pressed": "false" });
    this.passing.addEventListener("click", () => this.#togglePassing());
    this.pages = PAGES.map(([path, label, sign]) => this.#drawPage(path, label, sign));
    this.element = document.getElementById("side");
    this.element.append(...this.#drawParts());
    this.#listen();
    setInterval(() => document.hidden || this.refresh(), REFRESH_MS);
  }

  #drawParts() {
    const close = iconButton("close", "Close the list", () => this.toggle(false));
    close.classList.add("phone-only");
    const fresh = h("a.button.main.new", { href: "/" }, icon("plus"), "New chat");
    fresh.addEventListener("click", (event) => {
      if (isPlainClick(event)) this.go("/");
    });
    const colours = iconButton("sun", "Change the colours", toggleTheme);
    return [
      h("div.side-head", {}, fresh, close),
      h("div.side-search", { role: "search" }, icon("search"), this.search),
      h("div.side-list", {}, this.list, this.more, this.passing),
      h("div.side-foot", {}, this.pages, colours),
    ];
  }

  #drawPage(path, label, sign) {
    const link = h("a.page-link", { href: path }, icon(sign), label);
    link.addEventListener("click", (event) => isPlainClick(event) && this.go(path));
    return link;
  }

  #listen() {
    this.search.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => attempt(() => this.#find()), SEARCH_WAIT);
    });
    this.list.addEventListener("keydown", (event) => this.#moveFocus(event));
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") this.list.querySelector("a")?.focus();
    });
    document.getElementById("shade").addEventListener("click", () => this.toggle(false));
  }

  // --- the drawer of a small screen

  toggle(open = !this.element.classList.contains("open")) {
    this.element.classList.toggle("open", open);
    document.getElementById("shade").hidden = !open;
    if (open) this.element.querySelector("a")?.focus();
  }

  /** Whether it is open as a drawer, or has the focus. */
  get isUsed() {
    return this.element.classList.contains("open") || this.element.contains(document.activeElement);
  }

  focusSearch() {
    this.element.classList.add("open");
    this.search.focus();
    this.search.select();
  }

  // --- reading

  async refresh() {
    try {
      const limit = Math.max(PAGE, Math.min(this.#threads.length, 200));
      const { threads, more } = await get(this.#listPath(limit));
      this.#threads = threads;
      this.#more = more;
    } catch {
      return; // the next look may succeed; the conversation itself says when there is no connection
    }
    this.onThreads(this.#threads);
    if (!this.#words) this.#draw();
  }

  #listPath(limit) {
    return `/web/threads?limit=${limit}${this.#passing ? "&passing=yes" : ""}`;
  }

  #togglePassing() {
    this.#passing = !this.#passing;
    this.#threads = [];
    this.passing.textContent = this.#passing ? "Show my conversations" : PASSING;
    this.passing.setAttribute("aria-pressed", String(this.#passing));
    this.refresh();
  }

  async #readMore() {
    const last = this.#threads.at(-1)?.updated;
    const { threads, more } = await get(`${this.#listPath(PAGE)}&before=${last}`);
    this.#threads.push(...threads);
    this.#more = more;
    this.#draw();
  }

  async #find() {
    this.#words = this.search.value.trim();
    if (!this.#words) {
      this.#draw();
      return;
    }
    const words = this.#words;
    const { found } = await get(`/web/search?words=${encodeURIComponent(words)}`);
    if (words === this.#words) this.#drawFound(found);
  }

  // --- showing

  show(session, path) {
    this.#here = session;
    for (const link of this.pages) link.toggleAttribute("aria-current", link.getAttribute("href") === path);
    if (!this.#words) this.#draw();
  }

  #draw() {
    let day = "";
    const items = [];
    for (const thread of this.#threads) {
      if (nameDay(thread.updated) !== day) {
        day = nameDay(thread.updated);
        const name = day;
        items.push({ key: `d${day}`, stamp: "", make: () => h("li.day", { text: name }) });
      }
      items.push(this.#threadItem(thread));
    }
    if (!items.length)
      items.push({ key: "none", stamp: "", make: () => h("li.none", { text: "No conversations yet." }) });
    if (!this.list.querySelector(".rename")) syncChildren(this.list, items);
    this.more.hidden = !this.#more;
  }

  #threadItem(thread) {
    const here = thread.session === this.#here;
    const stamp = [thread.title, thread.working, thread.asking, here, thread.platform].join("|");
    return { key: thread.session, stamp, make: () => this.#drawThread(thread, here) };
  }

  #drawThread(thread, here) {
    const link = this.#drawLink(thread, here);
    const deeds = {
      rename: () => startRename(link, thread, () => this.refresh()),
      deleted: () => {
        this.refresh();
        this.onDeleted(thread.session);
      },
    };
    return h("li.thread", {}, link, drawMenu(thread, deeds));
  }

  #drawLink(thread, here) {
    const link = h(
      "a.thread-link",
      { href: `/c/${thread.session}`, "aria-current": here ? "page" : null, title: thread.title },
      drawState(thread),
      h("span.thread-title", { text: thread.title || "Untitled" }),
      thread.asking ? h("span.badge.asking", { text: "waits for you" }) : null,
      thread.platform === "web" ? null : h("span.badge", { text: thread.platform }),
    );
    link.addEventListener("click", (event) => isPlainClick(event) && this.go(link.getAttribute("href")));
    return link;
  }

  #drawFound(found) {
    const items = found.map(({ thread, role, excerpt, at }, index) => ({
      key: `f${index}`,
      stamp: `${thread.session}${at}${excerpt}`,
      make: () => {
        const link = this.#drawLink(thread, thread.session === this.#here);
        if (role === "title") link.querySelector(".thread-title").replaceChildren(...markWords(excerpt));
        else link.append(h("span.excerpt", {}, markWords(excerpt)));
        return h("li.thread.found", {}, link);
      },
    }));
    const none = {
      key: "none",
      stamp: this.#words,
      make: () => h("li.none", { text: `Nothing found for “${this.#words}”.` }),
    };
    syncChildren(this.list, items.length ? items : [none]);
    this.more.hidden = true;
  }

  #moveFocus(event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const links = [...this.list.querySelectorAll("a.thread-link")];
    const place = links.indexOf(event.target.closest("li")?.querySelector("a.thread-link"));
    const next = links[place + (event.key === "ArrowDown" ? 1 : -1)];
    event.preventDefault();
    if (next) next.focus();
    else if (event.key === "ArrowUp") this.search.focus();
  }
}

/** Who is at work; a question that is open waits for the person, which the words beside it say. */
function drawState({ working, asking }) {
  if (asking) return h("span.working.asking", { "aria-hidden": "true" });
  return working ? h("span.working", { role: "img", "aria-label": "at work" }) : null;
}

/** A click without keys that ask for another tab; it stays on this page. */
function isPlainClick(event) {
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0) return false;
  event.preventDefault();
  return true;
}

/** Found words stand between « and ». */
function markWords(excerpt) {
  return excerpt
    .split(/(«[^»]*»)/)
    .map((part) => (part.startsWith("«") ? h("mark", { text: part.slice(1, -1) }) : part));
}
