// Messages that the gateway does not have yet. They are kept in the browser, so that neither a restart nor a
// reload loses one. Each has an idempotency key, so that it stays one message however often it is sent.

import { newId, post, Refused } from "./api.js";
import { BASE, keep } from "./dom.js";
import { changed, look, on, store } from "./store.js";

// Each message has a storage key of its own, because several tabs store messages. If two tabs send the same
// one, its idempotency key makes it one.
const PLACE = `${BASE}outbox:`;

let entries = read();
let flushing = false;

function read() {
  const places = Object.keys(localStorage).filter((place) => place.startsWith(PLACE));
  const found = places.map((place) => JSON.parse(localStorage.getItem(place)));
  for (const one of found) if (one.isNew) store.coming.add(one.session);
  return found.sort((one, other) => one.at - other.at);
}

function note(entry) {
  if (entry.state === "sent") localStorage.removeItem(PLACE + entry.key);
  else keep(PLACE + entry.key, JSON.stringify(entry));
  changed("chat");
}

export const outbox = () => entries;

/** Send a message to a session. The gateway creates a new session for it. */
export function say(session, text, { mode = "queue", isNew = false, files = [] } = {}) {
  const entry = { key: newId(), at: Date.now(), session, text, files, mode, isNew, state: "sending", problem: "" };
  entries.push(entry);
  if (isNew) store.coming.add(session);
  note(entry);
  flush();
}

export function discard(key) {
  entries = entries.filter((one) => one.key !== key);
  localStorage.removeItem(PLACE + key);
  changed("chat");
}

/** Send the unsent messages in order; with `again` also the refused ones. */
export async function flush(again = false) {
  if (again) for (const one of entries) if (one.state === "failed") one.state = "sending";
  if (flushing) return;
  flushing = true;
  try {
    let next;
    while ((next = entries.find((one) => one.state === "sending" || one.state === "kept"))) {
      if (!(await send(next))) break;
    }
  } finally {
    flushing = false;
  }
}

async function send(entry) {
  const path = `/api/sessions/${encodeURIComponent(entry.session)}`;
  try {
    const { text, mode, key, files = [] } = entry;
    const attachments = files.map(({ name, mime_type }) => ({ file: name, mime_type }));
    const posted = await post(`${path}/messages`, { text, mode, attachments, idempotency_key: key });
    store.coming.delete(entry.session);
    Object.assign(entry, { state: "sent", message: posted.message_id, run: posted.run_id, reads: store.reads });
    if (posted.status === "steered") entry.run = null;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    const later = error.status === 0 || error.status === 503;
    Object.assign(entry, { state: later ? "kept" : "failed", problem: error.message });
    note(entry);
    if (later && store.connection === "open") setTimeout(() => store.gateway?.ready && flush(), 2000);
    return !later;
  }
  note(entry);
  look(entry.session);
  return true;
}

// A sent message is part of the session in each reading that began after it was sent.
on("read", (number) => {
  entries = entries.filter((one) => !(one.state === "sent" && one.session === store.open && one.reads < number));
});
