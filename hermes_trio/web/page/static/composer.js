// The message field: it keeps a draft for each session, and sends messages through the outbox.

import { newId, post } from "./api.js";
import { $, BASE, announce, keep } from "./dom.js";
import { answerAsk, toEnd } from "./chat.js";
import { chooseStored, comingSession, hasFiles, isSending, takeFiles } from "./files.js";
import { obeyMenuKey } from "./menu.js";
import { say } from "./outbox.js";
import { forgetEdited } from "./repeat.js";
import { changed, look, on, shownTurns, store } from "./store.js";

const field = $("composer");
const touch = matchMedia("(pointer: coarse)");
let drafted;
let stopping = "";

const draftPlace = (id) => `${BASE}draft:${id ?? "new"}`;

function busyTurn() {
  return store.open ? shownTurns().find((turn) => turn.running) : undefined;
}

const question = () => store.asks.find((ask) => ask.kind === "question");

export const isBusy = () => Boolean(store.sessions.get(store.open)?.state === "running" || busyTurn());

/** Stop the turn of the open session. */
export async function stop() {
  const session = store.open;
  if (!session || !isBusy()) return;
  stopping = session;
  draw();
  const waiting = store.waiting.filter((one) => one.status !== "started").map((one) => one.text);
  try {
    const { dropped } = await post(`/api/sessions/${encodeURIComponent(session)}/stop`);
    announce("Stopped.");
    // Dropped messages return to the field, so that their writer can send them again.
    if (dropped && waiting.length && session === store.open) {
      set([...waiting, field.value].filter(Boolean).join("\n\n"));
      hint("The waiting messages are back in the field");
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
  if (!(text || hasFiles()) || isSending() || store.sessions.get(session)?.ended_at) return;
  const edits = store.editing?.session === session;
  set("");
  store.told = null;
  if (edits) {
    hint("");
    try {
      await forgetEdited();
    } catch (error) {
      set(text);
      throw error;
    }
    return message(session, text, "queue");
  }
  if (text.startsWith("/") && !hasFiles() && (await obeyed(session, text))) return;
  const ask = question();
  if (ask && !hasFiles()) {
    try {
      await answerAsk(ask, text);
      return;
    } catch (error) {
      if (error.code !== "asked_no_more") {
        set(text);
        throw error;
      }
      // The question is closed: the writer decides whether to send the text as a message.
      set(text);
      hint("The question was closed meanwhile. Send it again as a message.");
      return;
    }
  }
  message(session, text, isBusy() ? document.querySelector("#mode input:checked").value : "queue");
}

function message(session, text, mode) {
  if (session) {
    say(session, text, { mode, files: takeFiles() });
  } else {
    const made = comingSession();
    say(made, text, { isNew: true, files: takeFiles() });
    location.hash = made;
  }
  toEnd();
}

/** Carry out a command, as in a chat. Returns false if the text is not a command. */
async function obeyed(session, text) {
  // A command does the same as the button for it: no waiting message is lost, and no conversation ends.
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
    hint("It runs in a conversation of its own");
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

/** Show a text below the field for a moment. */
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
  if (store.editing && !store.editing.isShown) {
    store.editing.isShown = true;
    set(store.editing.text);
    chooseStored(store.editing.files);
    field.focus();
    hint("This replaces your last message and its answer. Esc keeps them.");
  }
  const session = store.sessions.get(store.open);
  const busy = isBusy();
  const ended = Boolean(session?.ended_at) || store.missing;
  field.disabled = ended;
  $("stop").hidden = !busy;
  $("stop").disabled = stopping === store.open && Boolean(stopping);
  $("mode").hidden = !busy || Boolean(question()) || !field.value;
  $("attach").disabled = ended;
  $("send").disabled = ended || isSending() || !(field.value.trim() || hasFiles());
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

/** End the editing of the last message. Returns false if none is edited. */
export function leaveEditing() {
  if (!store.editing) return false;
  store.editing = null;
  set("");
  takeFiles();
  hint("");
  return true;
}

field.addEventListener("keydown", (event) => {
  if (obeyMenuKey(event)) return;
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
