// The switch between light and dark. Who never touches it gets what the system says.

import { announce } from "./dialogs.js";

export function toggleTheme() {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.dataset.theme ?? (dark ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  root.dataset.theme = next;
  localStorage.setItem("hermes.theme", next);
  announce(`The colours are ${next} now.`);
}
