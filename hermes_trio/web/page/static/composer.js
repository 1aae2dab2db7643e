// Where somebody writes: what was begun is kept for each session, and what is sent goes by the outbox.

import { newId, post } from "./api.js";
import { $, announce, keep } from "./dom.js";
import { answerAsk, toEnd } from "./chat.js";
import { say } from "./outbox.js";
import { changed, look, on, shownTurns, store } from "./store.js";

const field = $("composer");
const touch = matchMedia("(pointer: coarse)");
let drafted;
let stopping = "";

const draftPlace = (id) => `draft:${id ?? "new"}`;

function busyTurn() {
  return store.open ? shownTurns().find((turn) => turn.running) : undefined;
}

const question = () => store.asks.find((ask) => ask.kind === "question");

export const isBusy = () => Boolean(store.sessions.get(store.open)?.state === "running" || busyTurn());

/** Stop what runs here. */
export async function stop() {
  const session = store.open;
  if (!session || !isBusy()) return;
  stopping = session;
  draw();
  const waiting = store.waiting.filter((one) => one.status !== "started").map((one) => one.text);
  try {
    const { dropped } = await post(`/api/sessions/${encodeURIComponent(session)}/stop`);
    announce("Stopped.");
    // What waited is not answered any more, and not lost either: it is for its writer to say it again.
    if (dropped && waiting.length && session === store.open) {
      set([...waiting, field.value].filter(Boolean).join("\n\n"));
      hint("What waited is back in the field");
    }
  } finally {
    stopping = "";
    look(session);
    draw();
  }
}

async function send() {
  const text = field.value.trim();
  const session = store.open;
  if (!text || store.sessions.get(session)?.ended_at) return;
  set("");
  store.told = null;
  if (text.startsWith("/") && (await obeyed(session, text))) return;
  const ask = question();
  if (ask) {
    try {
      await answerAsk(ask, text);
      return;
    } catch (error) {
      if (error.code !== "asked_no_more") {
        set(text);
        throw error;
      }
      // Nobody waits for it any more: it is a message like any other, if its writer still wants that.
      set(text);
      hint("The question was closed meanwhile. Send it again as a message.");
      return;
    }
  }
  message(session, text, isBusy() ? document.querySelector("#mode input:checked").value : "queue");
}

function message(session, text, mode) {
  if (session) {
    say(session, text, { mode });
  } else {
    const made = newId();
    say(made, text, { isNew: true });
    location.hash = made;
  }
  toEnd();
}

/** Have a command obeyed, as in a chat. False if the text is none. */
async function obeyed(session, text) {
  // What there is a button for is what that does: nothing that waits is lost, and no conversation ends.
  if (/^\/stop$/i.test(text) && isBusy()) return stop().then(() => true);
  if (/^\/(new|reset)$/i.test(text) && (store.sessions.get(session)?.platform ?? "api") === "api") {
    location.hash = "";
    return true;
  }
  let told;
  try {
    told = await post(`/api/sessions/${encodeURIComponent(session ?? newId())}/commands`, { text });
  } catch (error) {
    set(text);
    throw error;
  }
  const { command, rest, replies } = told;
  if (rest && command === "background") {
    say(newId(), rest, { isNew: true });
    hint("It is worked on in a conversation of its own");
  } else if (rest) message(session, rest, command);
  if (replies.length && session === store.open) {
    store.told = { key: `t${newId()}`, text, reply: replies.join("\n\n") };
    announce(store.told.reply);
    changed("chat");
    toEnd();
  }
  return command !== null;
}

function set(text) {
  field.value = text;
  field.dispatchEvent(new Event("input"));
}

let hinted = 0;

/** Say something below the field for a moment. */
export function hint(text) {
  clearTimeout(hinted);
  $("hint").textContent = text;
  $("hint").classList.toggle("told", Boolean(text));
  if (text) hinted = setTimeout(() => (hint(""), draw()), 5000);
}

function draw() {
  if (drafted !== store.open) {
    drafted = store.open;
    set(localStorage.getItem(draftPlace(store.open)) ?? "");
    if (!touch.matches) field.focus({ preventScroll: true });
  }
  const session = store.sessions.get(store.open);
  const busy = isBusy();
  const ended = Boolean(session?.ended_at) || store.missing;
  field.disabled = ended;
  $("stop").hidden = !busy;
  $("stop").disabled = stopping === store.open && Boolean(stopping);
  $("mode").hidden = !busy || Boolean(question()) || !field.value;
  $("send").disabled = ended || !field.value.trim();
  field.placeholder = ended
    ? "This conversation has ended"
    : question()
      ? "Write your answer"
      : busy
        ? "Write what comes next"
        : "Write a message";
  if (!$("hint").classList.contains("told")) {
    const elsewhere = session && session.platform && session.platform !== "api" ? `Answers also go to ${session.platform}` : "";
    $("hint").textContent = elsewhere;
  }
}

field.addEventListener("input", () => {
  if (field.value) keep(draftPlace(drafted), field.value);
  else localStorage.removeItem(draftPlace(drafted));
  draw();
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
});

field.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || touch.matches) return;
  event.preventDefault();
  send();
});

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
$("stop").addEventListener("click", stop);
const chosen = document.querySelector(`#mode input[value="${localStorage.getItem("mode")}"]`);
if (chosen) chosen.checked = true;
$("mode").addEventListener("change", (event) => localStorage.setItem("mode", event.target.value));

on("chat", draw);
on("sessions", draw);
