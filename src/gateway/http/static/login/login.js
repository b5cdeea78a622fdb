// Logs in. A page that was opened from a link elsewhere comes without its cookie; it is asked for again from here.

const form = document.getElementById("login");
const problem = document.getElementById("problem");

async function comeBackIfKnown() {
  const response = await fetch("/web/me", { credentials: "same-origin" }).catch(() => null);
  if (response?.ok) location.reload();
}

async function logIn(event) {
  event.preventDefault();
  problem.textContent = "";
  try {
    const response = await fetch("/web/login", {
      method: "POST",
      credentials: "same-origin",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ password: form.elements.password.value }),
    });
    if (response.ok) location.reload();
    else problem.textContent = (await response.json()).error.message;
  } catch {
    problem.textContent = "Hermes does not answer. Try again in a moment.";
  }
  form.elements.password.select();
}

form?.addEventListener("submit", logIn);
comeBackIfKnown();
