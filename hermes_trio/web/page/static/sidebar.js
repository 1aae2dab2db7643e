// The list of conversations, and the search in it.

import { get } from "./api.js";
import { $, h, icon, reconcile } from "./dom.js";
import { changed, on, store } from "./store.js";
import { brief, era, exact } from "./time.js";

const list = $("sessions");
const field = $("search");
const views = new Map();
const narrow = matchMedia("(max-width: 820px)");
let said = { words: "", sessions: [] };
let searching = 0;

export const titleOf = (session) =>
  session.title || (session.platform === "api" ? "New chat" : `${session.platform} ${session.key.split(":").at(-1)}`);

class Row {
  constructor() {
    this.title = h("span", { class: "row-title" });
    this.meta = h("span", { class: "row-meta" });
    this.sign = h("span", { class: "row-sign" });
    this.said = h("span", { class: "row-said" });
    this.element = h("a", { class: "row", onclick: () => this.found && find(this.found) }, this.title, this.sign, this.meta, this.said);
  }

  update({ session, snippet, current, found }) {
    const sign = [session.title, session.updated_at, session.state, session.asks_for, session.suspended, current, snippet, session.ended_at].join();
    if (sign === this.shown) return;
    this.shown = sign;
    const asks = Boolean(session.asks_for);
    const running = session.state === "running";
    this.element.href = `#${session.id}`;
    this.found = found;
    this.title.textContent = titleOf(session);
    const where = session.platform === "api" ? "" : session.platform;
    this.meta.textContent = [where, snippet && brief(session.updated_at)].filter(Boolean).join(" · ");
    this.element.title = `${titleOf(session)}\n${exact(session.updated_at)}`;
    this.said.textContent = snippet ?? "";
    this.element.classList.toggle("ended", Boolean(session.ended_at));
    if (current) this.element.setAttribute("aria-current", "page");
    else this.element.removeAttribute("aria-current");
    const words = asks ? "needs you" : running ? "working" : session.resume_pending ? "interrupted" : "";
    this.sign.className = `row-sign ${asks ? "asks" : running ? "runs" : ""}`;
    this.sign.replaceChildren(words ? h("span", { class: "hidden-label" }, words) : "");
    this.sign.title = words;
  }
}

const heading = (text) => ({
  key: `h${text}`,
  make: () => ({ element: h("h2", { class: "row-head" }, text), update() {} }),
});

/** Show this message, also if its conversation is open already. */
function find(message) {
  store.find = message;
  changed("chat");
}

const row = (session, prefix = "s", snippet = null, found = null) => ({
  key: prefix + session.id,
  session,
  snippet,
  found,
  current: session.id === store.open,
  make: () => new Row(),
});

function wanted() {
  const words = field.value.trim().toLowerCase();
  const sessions = [...store.sessions.values()].sort((one, other) => other.updated_at - one.updated_at);
  const items = [];
  if (!words) {
    let last = "";
    for (const session of sessions) {
      const here = era(session.updated_at);
      if (here !== last) items.push(heading((last = here)));
      items.push(row(session));
    }
    if (!items.length && store.loaded) items.push(heading("No conversations yet"));
    return items;
  }
  const parts = words.split(/\s+/);
  const titled = sessions.filter((one) => {
    const title = titleOf(one).toLowerCase();
    return parts.every((part) => title.includes(part));
  });
  const shown = new Set(titled.map((one) => one.id));
  if (titled.length) items.push(heading("Titles"), ...titled.map((one) => row(one)));
  const others = said.words === words ? said.sessions.filter((one) => !shown.has(one.id)) : [];
  if (others.length) items.push(heading("Messages"), ...others.map((one) => row(one, "m", snippetOf(one.said, parts), { session: one.id, text: one.said })));
  if (!items.length) items.push(heading(said.words === words ? "Nothing found" : "Searching…"));
  return items;
}

function snippetOf(text, parts) {
  const plain = text.replace(/\s+/g, " ");
  const at = Math.max(0, plain.toLowerCase().indexOf(parts[0]) - 24);
  return `${at ? "…" : ""}${plain.slice(at, at + 110)}`;
}

function draw() {
  reconcile(list, views, wanted(), (item) => item.make());
}

field.addEventListener("input", () => {
  draw();
  clearTimeout(searching);
  const words = field.value.trim().toLowerCase();
  if (words.length < 2) return;
  searching = setTimeout(async () => {
    try {
      const found = await get(`/api/sessions?q=${encodeURIComponent(words)}`);
      if (field.value.trim().toLowerCase() === words) said = { words, sessions: found.sessions };
    } catch {
      return; // matches in titles are shown anyway
    }
    draw();
  }, 220);
});

// --- keyboard ---

const rows = () => [...list.querySelectorAll("a.row")];

function step(event) {
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const all = rows();
  const at = all.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
  event.preventDefault();
  (at < 0 ? field : all[Math.min(at, all.length - 1)])?.focus();
}

list.addEventListener("keydown", step);
field.addEventListener("keydown", (event) => {
  step(event);
  if (event.key === "Enter") rows()[0]?.click();
  if (event.key === "Escape" && field.value) {
    event.stopPropagation();
    field.value = "";
    draw();
  }
});
list.addEventListener("click", (event) => event.target.closest("a.row") && narrow.matches && showSidebar(false));

/** Open the conversation that is `steps` rows further down. */
export function go(steps) {
  const ids = wanted().filter((item) => item.session).map((item) => item.session.id);
  const next = ids[Math.min(Math.max(0, ids.indexOf(store.open) + steps), ids.length - 1)];
  if (next) location.hash = next;
}

// --- shown or hidden ---

export const sidebarShown = () => document.body.dataset.sidebar === "shown";
export const isNarrow = () => narrow.matches;

export function showSidebar(shown) {
  document.body.dataset.sidebar = shown ? "shown" : "gone";
  if (!narrow.matches) localStorage.setItem("sidebar", document.body.dataset.sidebar);
  $("sidebar-open").setAttribute("aria-expanded", String(shown));
  $("sidebar").inert = !shown;
  $("main").inert = shown && narrow.matches;
}

const start = () => showSidebar(!narrow.matches && localStorage.getItem("sidebar") !== "gone");
narrow.addEventListener("change", start);
start();

$("sidebar-open").addEventListener("click", () => {
  showSidebar(true);
  $("sidebar-close").focus();
});
$("sidebar-close").addEventListener("click", () => {
  showSidebar(false);
  $("sidebar-open").focus();
});
$("shade").addEventListener("click", () => showSidebar(false));
$("search-key").textContent = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘K" : "Ctrl K";
$("search").parentElement.prepend(icon("search"));

on("sessions", draw);
