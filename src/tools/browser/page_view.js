// What a document shows, as lines of text in which everything that can be used has a number: `[7 button: Send]`.
// An engine for selectors, since those run in a world of their own: no script of the page reaches what is kept here.
// `look:7` gives a loose element with what was seen, as JSON (7 is the first free number); `find:7` gives an element, and
// `origin` whose the document is.
// A number stays with its element for good.
(() => {
const state = { numbers: new WeakMap(), elements: new Map() };
const look = (first) => {
  const MOST_CHARS = 400000, MOST_MS = 3000, MOST_NEW = 10000, LABEL = 150, OPTIONS = 30;
  const SKIPPED = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD", "OBJECT", "EMBED", "DATALIST"]);
  const ROLES = new Set(("button link checkbox radio tab menuitem menuitemcheckbox menuitemradio option switch combobox " +
    "textbox searchbox slider spinbutton treeitem gridcell").split(" "));
  const PLAIN = { A: "link", BUTTON: "button", SELECT: "select", TEXTAREA: "textbox", SUMMARY: "button", AUDIO: "audio",
    VIDEO: "video" };
  const INPUTS = { checkbox: "checkbox", radio: "radio", button: "button", submit: "button", reset: "button",
    image: "button", file: "file", range: "slider", color: "color" };
  const lines = [], numbers = [], deadline = Date.now() + MOST_MS;
  let next = first, size = 0, line = "", cut = false;

  const squeeze = (text) => String(text || "").replace(/\s+/g, " ").trim();
  const short = (text) => { const all = squeeze(text); return all.length > LABEL ? all.slice(0, LABEL) + "…" : all; };
  const push = (entry, length) => { lines.push(entry); size += length; cut = cut || size > MOST_CHARS; };
  const flush = (start = "") => {
    const text = squeeze(line);
    line = "";
    if (text) push(start + text, text.length);
  };
  const number = (element) => {
    let known = state.numbers.get(element);
    if (known === undefined) {
      known = next++;
      state.numbers.set(element, known);
      state.elements.set(known, new WeakRef(element));
    }
    numbers.push(known);
    return known;
  };
  const isShown = (element) => element.checkVisibility() || getComputedStyle(element).display === "contents";
  const isVisible = (element) => getComputedStyle(element).visibility === "visible";
  const roleOf = (element) => {
    if (element.tagName === "INPUT") return INPUTS[element.type] || "textbox";
    if (element.tagName === "A" && !element.hasAttribute("href") && !element.hasAttribute("onclick")) return "";
    if (["AUDIO", "VIDEO"].includes(element.tagName) && !element.controls) return "";
    const role = squeeze(element.getAttribute("role")).split(" ")[0];
    if (ROLES.has(role)) return role;
    if (PLAIN[element.tagName]) return PLAIN[element.tagName];
    if (element.isContentEditable && !(element.parentElement && element.parentElement.isContentEditable)) return "textbox";
    if (element.hasAttribute("onclick") || (element.hasAttribute("tabindex") && element.tabIndex >= 0)) return "item";
    const parent = element.parentElement;
    const points = getComputedStyle(element).cursor === "pointer";
    return points && parent && getComputedStyle(parent).cursor !== "pointer" ? "item" : "";
  };
  const textAround = (label) => {  // of a label that may stand around its field: not what is in the field
    const all = document.createTreeWalker(label, NodeFilter.SHOW_TEXT), found = [];
    while (all.nextNode()) {
      if (!all.currentNode.parentElement.closest("select, textarea, button, script, style")) found.push(all.currentNode.data);
    }
    return found.join("");
  };
  const labelOf = (element, role) => {
    const root = element.getRootNode();
    const named = (element.getAttribute("aria-labelledby") || "").split(/\s+/).filter(Boolean)
      .map((id) => root.getElementById && root.getElementById(id)).filter(Boolean).map((one) => one.innerText).join(" ");
    const labels = element.labels ? [...element.labels].map(textAround).join(" ") : "";
    const holds = ["textbox", "select", "slider", "color", "combobox", "searchbox"].includes(role);
    const own = holds ? "" : element.tagName === "INPUT" ? (role === "button" ? element.value : "") : element.innerText;
    const picture = element.querySelector && element.querySelector("img[alt], svg title");
    return short(element.getAttribute("aria-label") || named || labels || own || element.getAttribute("alt") ||
      element.getAttribute("title") || element.getAttribute("placeholder") ||
      (picture && (picture.getAttribute("alt") || picture.textContent)) || element.getAttribute("name"));
  };
  const stateOf = (element, role) => {
    const found = [];
    if (role === "select" && element.options) {
      const options = [...element.options].map((one) => short(one.label || one.text));
      const chosen = [...element.selectedOptions].map((one) => short(one.label || one.text));
      const more = options.length > OPTIONS ? `, … ${options.length} in all` : "";
      found.push(`= "${chosen.join(", ")}" of ${options.slice(0, OPTIONS).join(", ")}${more}`);
    } else if (element.type === "password") {
      if (element.value) found.push("(filled in)");
    } else if (["textbox", "slider", "color", "combobox", "searchbox"].includes(role)) {
      const value = element.value === undefined ? (element.isContentEditable ? element.innerText : "") : element.value;
      if (value) found.push(`= "${short(value)}"`);
    }
    const on = element.checked === true || ["true", "mixed"].includes(element.getAttribute("aria-checked")) ||
      element.getAttribute("aria-selected") === "true" || element.getAttribute("aria-pressed") === "true";
    if (on) found.push("(on)");
    if (element.getAttribute("aria-expanded") === "false") found.push("(closed)");
    if (element.disabled || element.getAttribute("aria-disabled") === "true") found.push("(disabled)");
    return found.join(" ");
  };
  const USED = "a[href], button, input, select, textarea, summary, iframe, [role=button], [role=link], [onclick]";
  const use = (element, role) => {
    const inner = role === "item" || element.isContentEditable ? element.querySelector(USED) : null;
    const label = inner ? "" : labelOf(element, role);
    const state_ = stateOf(element, role);
    line += ` [${number(element)} ${role}${label ? ": " + label : ""}${state_ ? " " + state_ : ""}] `;
    return !inner;
  };
  const children = (element) => {
    const from = element.shadowRoot ? element.shadowRoot
      : element.tagName === "SLOT" && element.assignedNodes().length ? { childNodes: element.assignedNodes() } : element;
    for (const child of from.childNodes) walk(child);
  };
  const walk = (node) => {
    if (cut || (cut = next - first >= MOST_NEW || Date.now() > deadline)) return;
    if (node.nodeType === Node.TEXT_NODE) {
      const parent = node.parentElement;
      if (node.data.trim() === "") line += " ";
      else if (!parent || isVisible(parent)) line += node.data;
      return;
    }
    if (node.nodeType !== Node.ELEMENT_NODE || SKIPPED.has(node.tagName)) return;
    const tag = node.tagName.toUpperCase();
    const isFile = tag === "INPUT" && node.type === "file";  // often hidden behind a button
    if (tag === "INPUT" && node.type === "hidden") return;
    if (!isFile && !isShown(node)) return;
    if (tag === "BR") return flush();
    if (tag === "IFRAME" || tag === "FRAME") {
      flush();
      return push({ frame: number(node) }, 20);
    }
    const role = isFile || isVisible(node) ? roleOf(node) : "";
    if (role && use(node, role)) return;
    if (tag === "IMG") { if (node.alt) line += ` (image: ${short(node.alt)}) `; return; }
    if (tag === "SVG") { const title = node.querySelector("title"); if (title) line += ` (image: ${short(title.textContent)}) `; return; }
    if (tag === "TD" || tag === "TH") { children(node); line += " | "; return; }
    const display = getComputedStyle(node).display;
    if (display.startsWith("inline") || display === "contents") return children(node);
    flush();
    if (tag === "LI") line = "- ";
    if (/^H[1-6]$/.test(tag)) line = "#".repeat(Number(tag[1])) + " ";
    const bare = line.trim();
    children(node);
    if (squeeze(line) === bare && bare) line = "";
    flush();
  };
  try {
    if (document.body) walk(document.body);
  } catch (error) {
    cut = true;  // a tree that is too deep
  }
  flush();
  return { lines, numbers, next, cut };
};
const find = (number) => {
  const found = state.elements.get(number)?.deref();
  return found?.isConnected ? found : null;
};
const tell = (seen) => {
  const told = document.implementation.createHTMLDocument("").createElement("p");
  told.textContent = JSON.stringify(seen);
  return told;
};
const ORDERS = { look: (number) => tell(look(number)), find, origin: () => tell(self.origin) };
const query = (order) => {
  const [name, number] = order.split(":");
  return ORDERS[name](Number(number));
};
return {
  query: (root, order) => query(order),
  queryAll: (root, order) => [query(order)].filter(Boolean),
};
})()
