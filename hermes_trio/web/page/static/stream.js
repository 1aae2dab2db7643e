// The stream of events. It is opened again whenever it breaks, from the last event that was received.

import { BASE } from "./dom.js";
import { askForKey, pageHeaders } from "./api.js";
import { changed, happened, store } from "./store.js";

const PAUSES = [300, 700, 1500, 3000, 5000];
const HIDDEN_FOR = 300000;
const TRUSTED_FOR = 60000;

let source = null;
let cursor = "";
let failures = 0;
let timer = 0;
let opened = () => {};

/** Keep the stream open. `whenOpen` is called each time it has been opened. */
export function keepConnected(whenOpen) {
  opened = whenOpen;
  // A browser has few connections to one host: a hidden page closes its own after a while, and opens none
  // before it is shown. After sleep a connection may be dead without an error.
  if (!document.hidden) connect();
  window.addEventListener("online", () => document.hidden || again());
  let leaving = 0;
  let left = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(leaving);
    if (document.hidden) {
      left = Date.now();
      leaving = setTimeout(() => source?.abort(), HIDDEN_FOR);
    } else if (!source?.isOpen || source.signal.aborted || Date.now() - left > TRUSTED_FOR) again();
  });
}

/** Connect now, without waiting for the end of the pause. */
export function again() {
  clearTimeout(timer);
  connect();
}

async function connect() {
  source?.abort();
  const mine = (source = new AbortController());
  try {
    await listen(mine);
  } catch {
    // Whatever the error is, the stream is opened again.
  }
  if (mine !== source || mine.signal.aborted) return;
  mine.isOpen = false;
  set("lost");
  clearTimeout(timer);
  timer = setTimeout(connect, PAUSES[Math.min(failures, PAUSES.length - 1)]);
  failures += 1;
}

// An EventSource cannot send the page key: it sends no headers of ours.
async function listen(mine) {
  const path = `/api/events${cursor ? `?cursor=${encodeURIComponent(cursor)}` : ""}`;
  const answer = await fetch(BASE + path, { headers: pageHeaders(), signal: mine.signal, cache: "no-store" });
  if (answer.status === 401) askForKey();
  if (!answer.ok) return;
  failures = 0;
  mine.isOpen = true;
  set("open");
  opened();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const frames = (rest + value).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      try {
        heard(frame);
      } catch (error) {
        reportError(error); // a bug of the page, and no reason to connect again
      }
    }
  }
}

function heard(frame) {
  for (const line of frame.split("\n")) {
    if (line.startsWith("id: ")) cursor = line.slice(4);
    else if (line.startsWith("data: ")) happened(JSON.parse(line.slice(6)));
  }
}

function set(connection) {
  if (store.connection === connection) return;
  store.connection = connection;
  changed("gateway");
}
