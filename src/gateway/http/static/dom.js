// Builds elements from values. Text becomes text nodes, never markup: nothing here can run what a model wrote.

import { ICONS } from "./icons.js";

const SVG = "http://www.w3.org/2000/svg";

/** An element: `h("a.big", {href, text, on: {click}}, child, …)`; null and false children are left out. */
export function h(name, props = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(props)) setProp(element, key, value);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

function setProp(element, key, value) {
  if (value === null || value === undefined || value === false) return;
  if (key === "text") element.textContent = value;
  else if (key === "on") for (const [event, heard] of Object.entries(value)) element.addEventListener(event, heard);
  else if (key === "data") Object.assign(element.dataset, value);
  else if (key === "value" || key === "checked" || key === "disabled" || key === "hidden") element[key] = value;
  else element.setAttribute(key, value === true ? "" : value);
}

export function svg(name, props = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(props)) {
    if (key === "text") element.textContent = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** A line drawing for eyes only; the button around it carries the words. */
export function icon(name) {
  const shape = svg("path", { d: ICONS[name] });
  return svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" }, shape);
}

/** A button with a drawing; its words are its label and its tooltip. */
export function iconButton(name, label, click, more = {}) {
  return h(
    "button.icon-button",
    { type: "button", "aria-label": label, title: label, on: { click }, ...more },
    icon(name),
  );
}

export function button(label, click, { kind = "", ...more } = {}) {
  return h(`button.button${kind ? `.${kind}` : ""}`, { type: "button", text: label, on: { click }, ...more });
}

const REACHABLE = "a, button, input, textarea, select, summary, [tabindex]";

/** Puts an element in the place of an older one; what was unfolded stays so, and who was there stays there. */
function replaceGently(old, fresh) {
  if (old.open && fresh.tagName === "DETAILS") fresh.open = true;
  const place = [...old.querySelectorAll(REACHABLE)].indexOf(document.activeElement);
  old.replaceWith(fresh);
  if (place >= 0) fresh.querySelectorAll(REACHABLE)[place]?.focus({ preventScroll: true });
}

/**
 * Makes the children of `parent` show `items`, in order, reusing what is there already.
 * An item has a `key`, a `stamp` that says when its element is out of date, and `make()`.
 */
export function syncChildren(parent, items) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    let element = known.get(item.key);
    known.delete(item.key);
    if (!element || element.dataset.stamp !== String(item.stamp)) {
      const fresh = item.make();
      fresh.dataset.key = item.key;
      fresh.dataset.stamp = String(item.stamp);
      if (element) replaceGently(element, fresh);
      if (place === element) place = fresh;
      element = fresh;
    }
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
  }
  for (const gone of known.values()) gone.remove();
}
