// Sets the chosen colours before the page is painted, so that a dark page never flashes white.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("hermes.theme");
  } catch {
    // A browser that keeps nothing follows the system's colours.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
