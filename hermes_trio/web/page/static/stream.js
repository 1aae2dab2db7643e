// The one stream of events: opened again by ourselves whenever it breaks, from the last event we have.

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
  // A browser has few connections to one place: a page that nobody sees gives its own away after a while, and
  // takes none before somebody has seen it. And a machine that slept may have one that is dead and does not
  // know it.
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

/** Try now, without waiting for the pause to end. */
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
    // Whatever broke it, it is opened again.
  }
  if (mine !== source || mine.signal.aborted) return;
  mine.isOpen = false;
  set("lost");
  clearTimeout(timer);
  timer = setTimeout(connect, PAUSES[Math.min(failures, PAUSES.length - 1)]);
  failures += 1;
}

// Not by an EventSource: that sends no header, and a cookie alone lets nobody in.
async function listen(mine) {
  const path = `/api/events${cursor ? `?cursor=${encodeURIComponent(cursor)}` : ""}`;
  const answer = await fetch(path, { headers: pageHeaders(), signal: mine.signal, cache: "no-store" });
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
        reportError(error); // a mistake of ours, and no reason to connect again
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
