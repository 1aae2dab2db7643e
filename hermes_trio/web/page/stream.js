// The one stream of events: opened again by ourselves whenever it breaks, from the last event we have.

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
      leaving = setTimeout(() => source?.close(), HIDDEN_FOR);
    } else if (source?.readyState !== EventSource.OPEN || Date.now() - left > TRUSTED_FOR) again();
  });
}

/** Try now, without waiting for the pause to end. */
export function again() {
  clearTimeout(timer);
  connect();
}

function connect() {
  source?.close();
  const mine = (source = new EventSource(`/api/events${cursor ? `?cursor=${encodeURIComponent(cursor)}` : ""}`));
  mine.onopen = () => {
    failures = 0;
    set("open");
    opened();
  };
  mine.onmessage = ({ data, lastEventId }) => {
    if (lastEventId) cursor = lastEventId;
    happened(JSON.parse(data));
  };
  mine.onerror = () => {
    mine.close();
    if (mine !== source) return;
    set("lost");
    clearTimeout(timer);
    timer = setTimeout(retry, PAUSES[Math.min(failures, PAUSES.length - 1)]);
    failures += 1;
  };
}

async function retry() {
  try {
    // An event source does not say why it failed: who is not let in any more is asked for the key.
    const answer = await fetch("/api/sessions?limit=1");
    if (answer.status === 401) location.reload();
    connect();
  } catch {
    timer = setTimeout(retry, PAUSES[Math.min(failures, PAUSES.length - 1)]);
    failures += 1;
  }
}

function set(connection) {
  if (store.connection === connection) return;
  store.connection = connection;
  changed("gateway");
}
