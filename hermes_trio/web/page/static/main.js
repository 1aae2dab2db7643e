// The start of the page: its buttons, keyboard shortcuts and connection.

import { patch, Refused, remove } from "./api.js";
import { hint, isBusy, leaveEditing, stop } from "./composer.js";
import { askText, askYes, showDialog } from "./dialog.js";
import { $, announce, h, icon, keep } from "./dom.js";
import { saveConversation } from "./export.js";
import { flush } from "./outbox.js";
import "./schedule.js";
import { go, isNarrow, showSidebar, sidebarShown, titleOf } from "./sidebar.js";
import { showStatus } from "./status.js";
import { distrust, loadSessions, on, open, store } from "./store.js";
import { keepConnected } from "./stream.js";

for (const element of document.querySelectorAll("button[data-icon]")) {
  element.prepend(icon(element.dataset.icon));
  if (element.hasAttribute("aria-label")) element.title = element.getAttribute("aria-label");
}

// --- the open session, which is in the address ---

const route = () => open(location.hash.slice(1) || null);
window.addEventListener("hashchange", route);

function newChat() {
  history.pushState(null, "", location.pathname);
  route();
  if (isNarrow()) showSidebar(false);
  $("composer").focus();
}

$("new-chat").addEventListener("click", newChat);
$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("composer").focus();
});

function drawHead() {
  const session = store.sessions.get(store.open);
  const title = !store.open ? "New chat" : session ? titleOf(session) : store.missing ? "Not found" : "…";
  $("title").textContent = title;
  $("head-tools").hidden = !session;
  $("platform").hidden = !session || session.platform === "api";
  $("platform").textContent = session?.platform ?? "";
  const needs = [...store.sessions.values()].filter((one) => one.asks_for).length;
  document.title = `${needs ? `(${needs}) ` : ""}${store.open && session ? `${title} · ` : ""}Hermes`;
}

/** Show the model that answers, and what the open conversation has used. */
function drawModel() {
  const { model } = store.gateway ?? {};
  const { total_tokens: tokens = 0, cost_usd: cost = 0 } = store.sessions.get(store.open)?.usage ?? {};
  const used = tokens >= 1000 ? `${(tokens / 1000).toFixed(tokens < 100000 ? 1 : 0)}k` : tokens;
  const parts = [model?.name, tokens && `${used} tokens`, cost && `$${cost.toFixed(cost < 1 ? 3 : 2)}`];
  $("model").textContent = parts.filter(Boolean).join(" · ");
  $("model").title = model?.about ?? "";
}

on("sessions", drawModel);
on("chat", drawModel);
on("gateway", drawModel);
on("sessions", drawHead);
on("chat", drawHead);

$("rename").addEventListener("click", async () => {
  const id = store.open;
  const title = await askText("Rename", "Title", titleOf(store.sessions.get(id)), "Rename");
  if (title) await patch(`/api/sessions/${encodeURIComponent(id)}`, { title });
});

$("save").addEventListener("click", () => saveConversation(titleOf(store.sessions.get(store.open))));

$("delete").addEventListener("click", async () => {
  const id = store.open;
  const name = titleOf(store.sessions.get(id));
  if (!(await askYes("Delete this conversation?", `“${name}” is deleted with all its messages. This cannot be undone.`, "Delete"))) return;
  await remove(`/api/sessions/${encodeURIComponent(id)}`);
  newChat();
});

// --- light and dark ---

// The first click changes the theme of the system, and the third returns to it.
const dark = matchMedia("(prefers-color-scheme: dark)");
const themes = () => (dark.matches ? ["system", "light", "dark"] : ["system", "dark", "light"]);
const theme = () => document.documentElement.dataset.theme;
const tellTheme = () => ($("theme").title = `Change the theme (now: ${theme()})`);

$("theme").addEventListener("click", () => {
  const all = themes();
  const next = all[(all.indexOf(theme()) + 1) % all.length];
  document.documentElement.dataset.theme = next;
  keep("theme", next);
  tellTheme();
  announce(`Theme: ${next}`);
});
tellTheme();

// --- keys ---

const KEYS = [
  ["Ctrl K", "Search conversations"],
  ["Ctrl Shift O", "New chat"],
  ["Alt ↑, Alt ↓", "The conversation above, below"],
  ["Ctrl B", "Show or hide the list"],
  ["/", "Go to the message field; in it, list the commands"],
  ["Enter", "Send"],
  ["Shift Enter", "New line"],
  ["Esc, twice", "Stop the answer"],
  ["Ctrl I", "Status"],
  ["?", "This list"],
];

function showKeys() {
  const rows = KEYS.flatMap(([keys, does]) => [h("dt", {}, ...keys.split(", ").flatMap((one, at) => [at ? " " : "", h("kbd", {}, one)])), h("dd", {}, does)]);
  showDialog("Keyboard shortcuts", [h("dl", { class: "facts keys" }, ...rows)]);
}

$("keys-open").addEventListener("click", showKeys);

let escaped = 0;

function escape() {
  if (isNarrow() && sidebarShown()) {
    showSidebar(false);
    $("sidebar-open").focus();
  } else if (leaveEditing()) {
    return;
  } else if (isBusy()) {
    if (Date.now() - escaped < 1500) stop();
    else hint("Press Esc again to stop the answer");
    escaped = Date.now();
  }
}

document.addEventListener("keydown", (event) => {
  if ($("dialog").open || event.isComposing) return;
  const key = event.key.toLowerCase();
  const ctrl = event.ctrlKey || event.metaKey;
  const writing = event.target.matches("input:not([type=radio]), textarea");
  const does = (action) => {
    event.preventDefault();
    action();
  };
  if (ctrl && key === "k") does(() => (showSidebar(true), $("search").focus(), $("search").select()));
  else if (ctrl && event.shiftKey && key === "o") does(newChat);
  else if (ctrl && key === "b") does(() => showSidebar(!sidebarShown()));
  else if (ctrl && key === "i") does(showStatus);
  else if (event.altKey && key === "arrowup") does(() => go(-1));
  else if (event.altKey && key === "arrowdown") does(() => go(1));
  else if (key === "escape") escape();
  else if (!writing && !ctrl && !event.altKey && key === "/") does(() => $("composer").focus());
  else if (!writing && !ctrl && !event.altKey && key === "?") does(showKeys);
});

// Shows every refusal of the gateway below the message field.
window.addEventListener("unhandledrejection", (event) => {
  if (!(event.reason instanceof Refused)) return;
  event.preventDefault();
  hint(event.reason.message);
});

// --- announcements for screen readers ---

on("ended", (event) => {
  if (event.session_id !== store.open) return;
  const ends = { "run.completed": "The answer is complete.", "run.cancelled": "The answer was stopped." };
  announce(ends[event.event] ?? (event.code === "interrupted" ? "The answer was interrupted." : `The answer failed. ${event.error}`));
});

// --- start ---

keepConnected(async () => {
  const known = [...store.runs.values()];
  try {
    await loadSessions();
  } catch {
    return; // the stream has broken as well, and is opened again
  }
  // Forget runs that have ended while the connection was lost. Their sessions have the end.
  for (const run of known) if (!run.over && store.sessions.get(run.sessionId)?.run_id !== run.runId) store.runs.delete(run.runId);
  distrust();
  flush();
});
on("gateway", () => store.gateway?.ready && flush());
route();
