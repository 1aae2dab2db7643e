// The state of the page: the sessions, the open one, the runs that are not over, and the gateway. Listeners
// are called after a change, and draw it.

import { get, Refused } from "./api.js";
import { turnsOf } from "./fold.js";
import { now, setClock } from "./time.js";

const PAGE = 1000;

export const store = {
  sessions: new Map(),
  loaded: false,
  open: null,
  missing: false,
  rows: [],
  turns: [],
  waiting: [],
  asks: [],
  told: null,
  editing: null,
  find: null,
  ready: false,
  runs: new Map(),
  gateway: null,
  connection: "connecting",
  reads: 0,
  coming: new Set(),
};

const listeners = new Map();

/** Call `listener` whenever `topic` has changed: sessions, chat, gateway. */
export function on(topic, listener) {
  listeners.set(topic, [...(listeners.get(topic) ?? []), listener]);
}

const due = new Set();

/** Note a change of this topic. It is drawn in the next frame; less often while the page is hidden. */
export function changed(topic) {
  if (!due.size) {
    if (document.hidden) setTimeout(draw, 250);
    else requestAnimationFrame(draw);
  }
  due.add(topic);
}

function draw() {
  const topics = [...due];
  due.clear();
  for (const topic of topics) for (const listener of listeners.get(topic) ?? []) listener();
}

document.addEventListener("visibilitychange", () => due.size && draw());

// --- sessions ---

/** Read the list of sessions. The first page is short, so that it is shown early. */
export async function loadSessions() {
  const before = [...store.sessions.keys()];
  const found = new Set();
  let offset = 0;
  for (const limit of [50, PAGE, PAGE, PAGE, PAGE]) {
    const page = await get(`/api/sessions?limit=${limit}&offset=${offset}`);
    for (const session of page.sessions) {
      found.add(session.id);
      store.sessions.set(session.id, session);
    }
    store.loaded = true;
    changed("sessions");
    if (page.next === null) break;
    offset = page.next;
  }
  for (const id of before) if (!found.has(id)) store.sessions.delete(id);
  changed("sessions");
}

// The sessions that are read or shortened now, each with its end, and whether it is read again then.
const busy = new Map();

function occupy(id, work) {
  const now = { again: false };
  busy.set(id, now);
  now.done = work().finally(() => {
    busy.delete(id);
    if (now.again) look(id);
  });
  return now.done;
}

/** Read a session again: one reading at a time, and one more if it changed meanwhile. */
export function look(id) {
  // The gateway does not have a new session before its first message was sent.
  if (store.coming.has(id)) return;
  if (busy.has(id)) {
    busy.get(id).again = true;
    return;
  }
  occupy(id, async () => {
    try {
      await (id === store.open ? read(id) : peek(id));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (error.status === 404 || error.code === "bad_id") forget(id);
      // Other errors: it is read again when the gateway is back.
    }
  });
}

/** Remove the last turn of a session, which disappears at once; a refusal brings it back. No reading goes on
 * meanwhile: it would ask for what follows a message that is gone. */
export async function removeLastTurn(id, remove) {
  while (busy.has(id)) await busy.get(id).done;
  await occupy(id, async () => {
    if (id === store.open) forgetLastTurn();
    busy.get(id).again = true;
    await remove();
  });
}

async function peek(id) {
  store.sessions.set(id, await get(`/api/sessions/${encodeURIComponent(id)}`));
  changed("sessions");
}

function forget(id) {
  store.sessions.delete(id);
  changed("sessions");
  if (id === store.open) {
    store.missing = true;
    changed("chat");
  }
}

// --- the open session ---

/** Open this session; null for a new one. */
export function open(id) {
  Object.assign(store, { open: id, rows: [], turns: [], waiting: [], asks: [], told: null, editing: null, ready: !id || store.coming.has(id), missing: false });
  changed("sessions");
  changed("chat");
  if (id) look(id);
}

/** Read the open session again from the start, because events were missed. */
export function distrust() {
  if (!store.open) return;
  whole = true;
  look(store.open);
}

function forgetLastTurn() {
  const last = shownTurns().at(-1)?.key;
  store.rows = store.rows.filter((row) => (row.run_id || `row-${row.id}`) !== last);
  changed("chat");
}

let whole = false;

async function read(id) {
  const number = (store.reads += 1);
  // The waiting messages are read first: a message whose turn begins meanwhile is then in both answers, and
  // never in none.
  const session = await get(`/api/sessions/${encodeURIComponent(id)}`);
  const fresh = !store.ready || whole;
  const over = [...store.runs.values()].filter((run) => run.sessionId === id && run.over);
  whole = false;
  // Ended turns do not change, except cut ones. Only the rows from the first other turn on are read again.
  const ended = new Map(store.turns.map((turn) => [turn.run_id, turn.ended_at && turn.outcome !== "cut"]));
  const firstOpen = store.rows.findIndex((row) => row.run_id && !ended.get(row.run_id));
  const keep = fresh ? [] : store.rows.slice(0, firstOpen < 0 ? store.rows.length : firstOpen);
  const rows = [];
  const turns = [];
  let after = keep.at(-1)?.id;
  do {
    const from = after === undefined ? "" : `&after=${encodeURIComponent(after)}`;
    let page;
    try {
      page = await get(`/api/sessions/${encodeURIComponent(id)}/messages?limit=${PAGE}${from}`);
    } catch (error) {
      if (error.code !== "bad_cursor") throw error;
      whole = true;
      busy.get(id).again = true;
      return;
    }
    rows.push(...page.messages);
    turns.push(...page.turns);
    after = page.next;
  } while (after !== null);
  store.sessions.set(id, session);
  changed("sessions");
  if (store.open !== id) return;
  const kept = new Set(keep.map((row) => row.run_id));
  store.rows = [...keep, ...rows];
  store.turns = [...store.turns.filter((turn) => kept.has(turn.run_id)), ...turns];
  store.waiting = session.waiting;
  store.asks = session.asks;
  store.ready = true;
  // Runs that ended before the reading are in the rows.
  for (const run of over) if (run.over) store.runs.delete(run.runId);
  for (const listener of listeners.get("read") ?? []) listener(number);
  changed("chat");
}

/** Return the turns of the open session. */
export function shownTurns() {
  const runs = [...store.runs.values()].filter((run) => run.sessionId === store.open);
  return turnsOf(store.rows, store.turns, runs);
}

// --- events ---

const ENDS = ["run.completed", "run.failed", "run.cancelled"];
const ASKS = ["approval.request", "question.request", "request.closed"];

// The runs with missed events. A gap may be announced before any event of its run.
const torn = new Set();

/** Take in one event of the stream. */
export function happened(event) {
  if (event.event === "gateway.changed") {
    setClock(event.at);
    store.gateway = event;
    changed("gateway");
  } else if (event.event === "session.changed") {
    look(event.session_id);
  } else if (event.event === "session.deleted") {
    forget(event.session_id);
  } else if (event.event === "gap") {
    for (const runId of event.run_id ? [event.run_id] : store.runs.keys()) torn.add(runId);
    distrust();
  } else if (event.run_id) {
    happenedInRun(event);
  }
}

function happenedInRun(event) {
  const { run_id: runId, session_id: sessionId } = event;
  let run = store.runs.get(runId);
  if (!run) {
    run = { runId, sessionId, events: [], seq: 0, since: event.at, over: null, isTorn: () => torn.has(runId) };
    store.runs.set(runId, run);
    look(sessionId);
  }
  if (event.seq <= run.seq) return;
  run.seq = event.seq;
  run.events.push(event);
  if (ENDS.includes(event.event)) {
    run.over = event;
    const session = store.sessions.get(sessionId);
    if (session) Object.assign(session, { state: "idle", run_id: null, asks_for: null });
    changed("sessions");
    if (sessionId !== store.open) store.runs.delete(runId);
    look(sessionId);
    for (const listener of listeners.get("ended") ?? []) listener(event);
  } else if (ASKS.includes(event.event)) {
    look(sessionId);
    for (const listener of listeners.get("asked") ?? []) listener(event);
  }
  if (sessionId === store.open) changed("chat");
}

/** Return the seconds since this time. */
export const elapsed = (since) => now() - since;
