// The messages of the open session. The page scrolls with a growing answer only while its end is in view.

import { post, Refused } from "./api.js";
import { $, BASE, announce, h, icon, reconcile } from "./dom.js";
import { outbox, discard, flush } from "./outbox.js";
import { changed, look, on, shownTurns, store } from "./store.js";
import { now, span } from "./time.js";
import { Said, Turn } from "./turn.js";

const NEAR = 60;
const MOST_SHOWN = 120;

const scroll = $("scroll");
const transcript = $("transcript");
const views = new Map();
const places = new Map();
let shownSession;
let follows = true;
let top = 0;
let most = MOST_SHOWN;

scroll.addEventListener("scroll", () => {
  const isNear = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR;
  // Only scrolling up stops following. The end also leaves the view when the text or the field below grows.
  if (isNear || scroll.scrollTop < top) follow(isNear);
  top = scroll.scrollTop;
}, { passive: true });

$("latest").addEventListener("click", () => toEnd(true));
new ResizeObserver(() => follows && toEnd()).observe(scroll);
new ResizeObserver(() => follows && toEnd()).observe(transcript);

/** Set whether the page scrolls with the answer. If not, a button leads to the end. */
function follow(isFollowing) {
  follows = isFollowing;
  $("latest").hidden = follows;
}

/** Scroll to the end, and follow it. */
export function toEnd(smoothly = false) {
  follow(true);
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  scroll.scrollTo({ top: scroll.scrollHeight, behavior: smoothly && !calm ? "smooth" : "instant" });
}

export function drawChat() {
  const other = shownSession !== store.open;
  if (other) {
    if (shownSession) places.set(shownSession, follows ? null : scroll.scrollTop);
    views.clear();
    transcript.replaceChildren();
    shownSession = store.open;
    most = MOST_SHOWN;
    follow(true);
  }
  const items = wanted();
  reconcile(transcript, views, items, make);
  if (store.find?.session === store.open && store.ready) showHit();
  else if (other || !settled) arrive();
  else if (follows) toEnd();
}

/** Scroll to the message that a search has found. */
function showHit() {
  const row = store.rows.find((one) => one.content.startsWith(store.find.text));
  store.find = null;
  settled = true;
  const turns = shownTurns();
  const at = turns.findIndex((turn) => turn.key === (row?.run_id || `row-${row?.id}`));
  if (at < 0) return toEnd();
  if (turns.length - at > most) {
    most = turns.length - at;
    reconcile(transcript, views, wanted(), make);
  }
  const { element } = views.get(turns[at].key);
  follow(false);
  element.scrollIntoView({ block: "center" });
  element.classList.add("hit");
  setTimeout(() => element.classList.remove("hit"), 2500);
}

let settled = true;

/** Scroll to where the session was left; to the end if it was not open before. */
function arrive() {
  settled = store.ready;
  const place = places.get(store.open) ?? null;
  if (place !== null && settled) {
    scroll.scrollTop = place;
    follow(false);
  } else toEnd();
}

function make(item) {
  if (item.make) return item.make();
  return new Turn();
}

function wanted() {
  if (store.missing) return [welcome("missing", "There is no such conversation", "It may have been deleted.")];
  const turns = store.open ? shownTurns() : [];
  const mine = outbox().filter((one) => one.session === store.open);
  const seen = new Set(turns.map((turn) => turn.runId));
  const waiting = store.waiting.filter((one) => !seen.has(one.run_id));
  const known = new Set(waiting.map((one) => one.message_id));
  const unsent = mine.filter((one) => !known.has(one.message) && !seen.has(one.run));
  if (!turns.length && !waiting.length && !unsent.length && !store.told) {
    if (!store.open) return [welcome("new", "What can I do for you?", "Answers continue when you close this page, and are here when you come back.")];
    return store.ready ? [welcome("empty", "There are no messages yet", "")] : [skeleton()];
  }
  const items = turns.slice(-most);
  if (turns.length > most) items.unshift(earlier(turns.length - most));
  const busy = turns.some((turn) => turn.running);
  if (turns.length && !store.sessions.get(store.open)?.ended_at) turns.at(-1).isLast = !waiting.length && !unsent.length;
  for (const one of waiting) {
    const note = one.status === "started" ? null : one.status === "steered" ? STEERED : QUEUED;
    items.push(said(`w${one.message_id}`, one, note, false));
    if (one.status === "started" && !busy) items.push(beginning(one));
  }
  for (const one of unsent) items.push(said(`o${one.key}`, one, noteOf(one), one.state !== "failed"));
  for (const one of store.asks) items.push({ key: `a${one.id}`, ask: one, make: () => new Ask(one) });
  if (store.told) items.push(told(store.told));
  return items;
}

/** A command and its output. They are not part of the conversation, and disappear with the next message. */
function told({ key, text, reply }) {
  const note = () => h("div", { class: "note" }, icon("tool"), h("span", {}, reply));
  return { key, make: () => ({ element: h("div", { class: "turn" }, new Said({ text }).element, note()), update() {} }) };
}

const said = (key, { text, files }, note, pending) => ({ key, text, files, note, pending, make: () => wrapped(new Said({ text, files, note, pending })) });

function wrapped(view) {
  return { element: h("div", { class: "turn" }, view.element), update: (item) => view.update(item) };
}

const QUEUED = { key: "queued", nodes: () => [icon("clock"), "Waits for its turn"] };
const STEERED = { key: "steered", nodes: () => [icon("steer"), "Goes into this answer, after the next tool result"] };
const KEPT = { key: "kept", nodes: () => [icon("clock"), "Kept here. It is sent when the gateway is back."] };

function noteOf(entry) {
  if (entry.state === "sending" || entry.state === "sent") return null;
  if (entry.state === "kept") return KEPT;
  const nodes = () => [
    icon("alert"),
    `Not sent: ${entry.problem} `,
    h("button", { class: "text-button", type: "button", onclick: () => flush(true) }, "Try again"),
    h("button", { class: "text-button", type: "button", onclick: () => discard(entry.key) }, "Discard"),
  ];
  return { key: `failed ${entry.problem}`, nodes };
}

function beginning(one) {
  const turn = { users: [], parts: [], running: true, outcome: null, reason: "", marker: null, startedAt: one.received_at };
  return { ...turn, key: `b${one.run_id}` };
}

function welcome(key, title, text) {
  const make = () => ({
    element: h("div", { class: "welcome" }, h("img", { src: `${BASE}/page/icon.svg`, alt: "", width: 44, height: 44 }), h("h2", {}, title), text ? h("p", {}, text) : null),
    update() {},
  });
  return { key: `welcome-${key}`, make };
}

function skeleton() {
  const make = () => ({ element: h("div", { class: "skeleton", role: "status", "aria-label": "Loading" }), update() {} });
  return { key: "skeleton", make };
}

function earlier(count) {
  const show = () => {
    most += MOST_SHOWN * 2;
    const before = scroll.scrollHeight - scroll.scrollTop;
    drawChat();
    scroll.scrollTop = scroll.scrollHeight - before;
  };
  const button = h("button", { class: "text-button earlier", type: "button", onclick: show });
  const update = (item) => (button.textContent = `Show earlier messages (${item.count})`);
  return { key: "earlier", count, make: () => ({ element: button, update }) };
}

// --- approvals and questions ---

const CHOICES = { once: "Allow once", session: "Allow in this conversation", always: "Always allow", deny: "Deny" };

export class Ask {
  constructor(ask) {
    this.ask = ask;
    this.problem = h("p", { class: "problem", role: "alert" });
    this.left = h("span", { class: "left" });
    const title = ask.kind === "approval" ? "May I do this?" : "A question for you";
    const id = `ask-${ask.id}`;
    this.buttons = h("div", { class: "choices" }, ...ask.choices.map((choice, at) => this.button(choice, at)));
    this.element = h(
      "section",
      { class: `ask ${ask.kind}`, "aria-labelledby": id },
      h("div", { class: "ask-head" }, icon(ask.kind === "approval" ? "alert" : "question"), h("h2", { id }, title), this.left),
      ...this.content(),
      this.buttons,
      ask.kind === "question" ? h("p", { class: "quiet" }, ask.choices.length ? "Or write another answer below." : "Write your answer below.") : null,
      this.problem,
    );
    announce(`${title} ${ask.text}`, { now: true });
    this.tick();
  }

  content() {
    const { kind, text, command, cwd, grants, description } = this.ask;
    if (kind === "question") return [h("p", { class: "ask-text" }, text)];
    // These are text nodes: nothing in them becomes markup, and every character is shown.
    const escapes = [command, cwd, ...grants].some((one) => one.includes("⟨U+"));
    return [
      h("pre", { class: "ask-command", tabindex: "0", role: "group", "aria-label": "What is to be approved" }, command),
      cwd ? h("p", { class: "quiet" }, "In: ", h("code", { class: "ask-cwd" }, cwd)) : null,
      grants.length ? h("div", {}, h("p", { class: "quiet" }, "It gets, beyond its sandbox:"), h("pre", { class: "ask-grants" }, grants.join("\n"))) : null,
      escapes ? h("p", { class: "quiet" }, "⟨U+…⟩ stands for a character that is invisible, or that looks like another one.") : null,
      description ? h("p", { class: "quiet" }, description) : null,
    ];
  }

  button(choice, at) {
    const label = this.ask.kind === "approval" ? CHOICES[choice] ?? choice : this.ask.labels[at];
    const kind = this.ask.kind === "approval" && at === 0 ? "primary" : "plain";
    return h("button", { class: kind, type: "button", onclick: () => this.answer(choice) }, label);
  }

  async answer(choice) {
    const buttons = [...this.buttons.querySelectorAll("button")];
    buttons.forEach((button) => (button.disabled = true));
    this.problem.textContent = "";
    try {
      await answerAsk(this.ask, choice);
      $("composer").focus({ preventScroll: true });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.problem.textContent = error.message;
      buttons.forEach((button) => (button.disabled = false));
    }
  }

  update() {}

  tick() {
    const left = this.ask.until - now();
    this.left.textContent = left > 0 && left < 600 ? `${span(left)} left` : "";
  }
}

/** Answer an approval or a question. Throws `Refused`, with the code `asked_no_more` if it is closed. */
export async function answerAsk(ask, text) {
  const session = store.open;
  try {
    await post(`/api/sessions/${encodeURIComponent(session)}/answers`, { id: ask.id, answer: text });
    store.asks = store.asks.filter((one) => one.id !== ask.id);
    changed("chat");
  } finally {
    look(session);
  }
}

setInterval(() => {
  for (const view of views.values()) {
    view.working?.tick();
    view.tick?.();
  }
}, 1000);

on("chat", drawChat);
