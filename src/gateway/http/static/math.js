// Formulas: finds them in markdown ($…$, $$…$$, \(…\), \[…\]) and draws them with KaTeX, which is loaded with the
// first one. Until it is there, and when a formula is broken, its source is shown.

const SIGNS = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
const escape = (text) => text.replace(/[&<>]/g, (sign) => SIGNS[sign]);

// $5 and $6 are prices: a formula does not begin or end with a space, nor is a digit next to its end.
const INLINE = [/^\$(?!\$)((?:\\.|[^\\\n$])*?[^\s\\$])\$(?!\d)/, /^\\\(([\s\S]+?)\\\)/];
const WITHIN = [/^\$\$([^$]+?)\$\$/, /^\\\[([\s\S]+?)\\\]/];
const BLOCK = [/^ {0,3}\$\$([\s\S]+?)\$\$ *(?:\n|$)/, /^ {0,3}\\\[([\s\S]+?)\\\] *(?:\n|$)/];

function take(patterns, src, token) {
  for (const pattern of patterns) {
    const found = pattern.exec(src);
    if (found && !/^\s*$/.test(found[1])) return { ...token, raw: found[0], text: found[1].trim() };
  }
  return undefined;
}

function takeInline(src) {
  if (/^\$\s/.test(src)) return undefined;
  return take(WITHIN, src, { type: "formula", wide: true }) ?? take(INLINE, src, { type: "formula", wide: false });
}

export const mathExtensions = [
  {
    name: "wideFormula",
    level: "block",
    start: (src) => src.match(/\n {0,3}(?:\$\$|\\\[)/)?.index,
    tokenizer: (src) => take(BLOCK, src, { type: "wideFormula" }),
    renderer: ({ text }) => `<p><span class="formula wide">${escape(text)}</span></p>\n`,
  },
  {
    name: "formula",
    level: "inline",
    start: (src) => src.match(/\$|\\\(|\\\[/)?.index,
    tokenizer: takeInline,
    renderer: ({ text, wide }) => `<span class="formula${wide ? " wide" : ""}">${escape(text)}</span>`,
  },
];

/** No links, pictures or HTML from a formula; other oddities are drawn as well as they can be. */
const RULES = {
  throwOnError: true,
  trust: false,
  maxExpand: 200,
  strict: (code) => (code === "htmlExtension" ? "error" : "ignore"),
};

let loading = null;

function loadKatex() {
  loading ??= new Promise((resolve, reject) => {
    const sheet = document.createElement("link");
    sheet.rel = "stylesheet";
    sheet.href = new URL("./vendor/katex/katex.min.css", import.meta.url).href;
    document.head.append(sheet);
    import("./vendor/katex/katex.min.js").then(() => resolve(globalThis.katex), reject);
  });
  return loading;
}

/** Draws the formulas of a part of the page: at once when KaTeX is there, otherwise when it has come. */
export function drawFormulas(root) {
  const found = [...root.querySelectorAll("span.formula")];
  if (!found.length) return;
  if (globalThis.katex) found.forEach((span) => drawFormula(globalThis.katex, span));
  else loadKatex().then((katex) => found.forEach((span) => drawFormula(katex, span)), leaveSource);
}

function leaveSource() {
  loading = null; // the next formula tries again
}

function drawFormula(katex, span) {
  const wide = span.classList.contains("wide");
  try {
    // Drawn as elements, not as markup: the page's policy allows no style attributes.
    katex.render(span.textContent, span, { ...RULES, displayMode: wide });
    if (wide) span.tabIndex = 0;
  } catch {
    span.classList.add("broken");
  }
}
