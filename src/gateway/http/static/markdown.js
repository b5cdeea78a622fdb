// Turns a model's markdown into elements. HTML in it is shown as text, remote images become links, and what is left
// passes DOMPurify with a short list of tags: nothing that a model writes can run, load or navigate by itself.

import { h, iconButton } from "./dom.js";
import { drawFormulas, mathExtensions } from "./math.js";
import { Marked } from "./vendor/marked/marked.esm.js";
import "./vendor/dompurify/purify.min.js";

/** The only tags a text may write itself, and only without attributes. */
const PLAIN_TAG = /^<\/?(?:br|sub|sup|kbd|b|i|em|strong|u|s|mark)\s*\/?>$/i;
const BLOCKS = "blockquote h3 h4 h5 h6 hr li ol p pre table tbody td th thead tr ul";
const WORDS = "a b br code del em i kbd mark s span strong sub sup u";
const RULES = {
  ALLOWED_TAGS: `${BLOCKS} ${WORDS}`.split(" "),
  ALLOWED_ATTR: ["href", "title", "align", "class", "start"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  ADD_URI_SAFE_ATTR: ["align", "start"], // they hold no address, so they need not look like one
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};
const LONG_CELL = 30; // characters; a cell with more is not squeezed to one word a line
const SIGNS = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

const escape = (text) => text.replace(/[&<>"']/g, (sign) => SIGNS[sign]);

const renderer = {
  html({ text }) {
    return PLAIN_TAG.test(text.trim()) ? text : escape(text);
  },
  image({ href, text }) {
    return `<a href="${escape(href)}" class="picture-link">Picture: ${escape(text || href)}</a>`;
  },
  heading({ tokens, depth }) {
    const level = Math.min(depth + 2, 6);
    return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>\n`;
  },
  checkbox({ checked }) {
    return checked ? "☑ " : "☐ ";
  },
  code({ text, lang }) {
    const language = (lang || "").match(/^[\w+#.-]*/)[0];
    return `<pre class="${escape(language)}"><code>${escape(text)}</code></pre>\n`;
  },
};

const marked = new Marked({ gfm: true, breaks: true, renderer, extensions: mathExtensions });

/** The blocks of a text, each with its `raw` source. */
export const readBlocks = (text) => marked.lexer(text);

/** Elements for blocks. */
export function drawBlocks(blocks) {
  const fragment = globalThis.DOMPurify.sanitize(marked.parser(blocks), RULES);
  fragment.querySelectorAll("a").forEach(secureLink);
  fragment.querySelectorAll("pre").forEach(frameCode);
  fragment.querySelectorAll("table").forEach(frameTable);
  drawFormulas(fragment);
  return fragment;
}

export const drawMarkdown = (text) => drawBlocks(readBlocks(text));

function secureLink(link) {
  link.target = "_blank";
  link.rel = "noopener noreferrer nofollow";
}

/** A table keeps its words whole and its sentences readable; what is too wide scrolls in a frame of its own. */
function frameTable(table) {
  const isLong = (cell) => cell.textContent.length > LONG_CELL;
  for (const cell of table.querySelectorAll("td, th")) cell.classList.toggle("long", isLong(cell));
  const frame = h("div.table-frame", { tabindex: "0", role: "region", "aria-label": "Table" });
  table.replaceWith(frame);
  frame.append(table);
}

/** A head with the language and a copy button above the code. */
function frameCode(pre) {
  const language = pre.className;
  const copy = iconButton("copy", "Copy the code", () => copyText(pre.textContent, copy));
  const frame = h("div.code", {}, h("div.code-head", {}, h("span", { text: language || "text" }), copy));
  pre.replaceWith(frame);
  pre.removeAttribute("class");
  pre.tabIndex = 0;
  pre.setAttribute("role", "region");
  pre.setAttribute("aria-label", language ? `Code: ${language}` : "Code");
  frame.append(pre);
}

/** Copies a text and says so on the button for a moment. */
export async function copyText(text, pressed) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copyBySelection(text);
  }
  pressed.dataset.done = "yes";
  const label = pressed.getAttribute("aria-label");
  pressed.setAttribute("aria-label", "Copied");
  setTimeout(() => {
    delete pressed.dataset.done;
    pressed.setAttribute("aria-label", label);
  }, 1500);
}

/** The old way, for pages that came over plain http from another machine. */
function copyBySelection(text) {
  const field = h("textarea.unseen", { value: text });
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
