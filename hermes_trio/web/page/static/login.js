// Logs in with the key, and then shows the page.

import { BASE } from "./dom.js";

const form = document.getElementById("login");
const key = document.getElementById("key");
const problem = document.getElementById("problem");

if (new URLSearchParams(location.search).has("token")) {
  document.getElementById("why").textContent =
    "This link was used before, or is too old. Enter the key of this gateway instead.";
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  problem.textContent = "";
  try {
    const answer = await fetch(`${BASE}/login`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ key: key.value.trim() }),
    });
    if (answer.ok) {
      localStorage.setItem(`${BASE}page-key`, answer.headers.get("x-hermes-page"));
      history.replaceState(null, "", `${BASE}/${location.hash}`);
      location.reload();
      return;
    }
    const { error } = await answer.json();
    problem.textContent = error.code === "too_many_tries" ? `${error.message} ${error.remedy}` : error.message;
  } catch {
    problem.textContent = "The gateway cannot be reached.";
  }
  key.select();
  key.focus();
});
