// The state of the gateway: a word below the list, a sentence above the messages if it matters, and all of
// it in a dialog.

import { get, post, Refused } from "./api.js";
import { $, h } from "./dom.js";
import { closeDialog, showDialog } from "./dialog.js";
import { foldTurn, waitsFor } from "./fold.js";
import { loginList, readLogins } from "./logins.js";
import { titleOf } from "./sidebar.js";
import { changed, elapsed, on, store } from "./store.js";
import { again } from "./stream.js";
import { exact, now, span } from "./time.js";

const SILENT = 900;
const BACK_WITHIN = 60000;
let lostSince = 0;

// --- the word and the sentence ---

function word() {
  const { connection, gateway } = store;
  if (connection === "connecting") return ["wait", "Connecting…"];
  if (connection === "lost" && gateway?.ending === "stop") return ["warn", "Stopped"];
  if (connection === "lost" && isComingBack()) return ["warn", "Restarting…"];
  if (connection === "lost") return ["bad", "Connection lost"];
  if (!gateway) return ["wait", "Connected"];
  if (gateway.ending) return ["warn", gateway.ending === "restart" ? "Restarting…" : "Shutting down…"];
  if (gateway.held) return ["warn", "Held"];
  const ill = Object.values(gateway.platforms).filter((one) => !["connected", "disabled"].includes(one.state));
  if (ill.length) return ["warn", ill.length === 1 ? "A platform is not connected" : `${ill.length} platforms are not connected`];
  const running = gateway.active_agents;
  return ["good", running ? `${running} working` : "Ready"];
}

function sentence() {
  const { connection, gateway } = store;
  if (connection === "lost" && gateway?.ending === "stop")
    return ["warn", "The gateway was stopped. What you write is kept and sent when it runs again."];
  if (connection === "lost" && isComingBack())
    return ["warn", "The gateway is restarting. What you write meanwhile is kept and sent when it is back."];
  if (connection === "lost" && gateway?.ending)
    return ["bad", "The gateway was restarting and has not come back. What you write is kept and sent when it is back."];
  if (connection === "lost" && Date.now() - lostSince >= SILENT)
    return ["bad", "The connection to the gateway is lost. The page tries again; what you write meanwhile is kept."];
  if (connection !== "open" || !gateway) return null;
  if (gateway.ending) {
    const running = gateway.active_agents;
    const left = gateway.deadline ? Math.max(0, gateway.deadline - now()) : 0;
    const rest = running ? ` ${running === 1 ? "One answer" : `${running} answers`} may go on for up to ${span(left)}.` : "";
    const what = gateway.ending === "restart" ? "is restarting" : "is shutting down";
    return ["warn", `The gateway ${what}.${rest} What you write meanwhile is kept and sent when it is back.`];
  }
  if (gateway.held) return ["warn", "The gateway is held and begins nothing new. What you write is kept and sent when it continues."];
  return gateway.warning ? ["warn", gateway.warning] : null;
}

// A restart takes some seconds. After a minute it may have failed.
const isComingBack = () => store.gateway?.ending === "restart" && (!lostSince || Date.now() - lostSince < BACK_WITHIN);

function draw() {
  if (store.connection !== "lost") lostSince = 0;
  else if (!lostSince) {
    lostSince = Date.now();
    setTimeout(() => changed("gateway"), SILENT + 50);
  }
  const [tone, text] = word();
  $("status-dot").dataset.tone = tone;
  $("status-text").textContent = text;
  const said = sentence();
  const banner = $("banner");
  banner.hidden = !said;
  if (said && banner.dataset.text !== said[1]) {
    banner.dataset.tone = said[0];
    const retry = store.connection === "lost" && h("button", { class: "text-button", type: "button", onclick: again }, "Try now");
    banner.replaceChildren(h("span", {}, said[1]), retry || "");
  }
  banner.dataset.text = said?.[1] ?? "";
  if (shown) fill();
}

// --- the dialog ---

let shown = null;
let details = null;

export function showStatus() {
  shown = h("div", { class: "status" });
  const timer = setInterval(fill, 1000);
  showDialog("Status", [shown], {
    closed: () => {
      clearInterval(timer);
      shown = null;
    },
  });
  refresh();
  fill();
}

async function refresh() {
  try {
    details = await get("/health/detailed");
    await readLogins();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
  }
  if (shown) fill();
}

function fill() {
  if (!shown) return;
  const gateway = store.gateway;
  const [tone, text] = word();
  const head = h("div", { class: "status-head" }, h("span", { class: "dot", "data-tone": tone }), h("strong", {}, text));
  const rows = [
    ["State", gateway?.state ?? "unknown"],
    ["Takes new turns", gateway ? (gateway.ready && store.connection === "open" ? "yes" : "no") : "unknown"],
    ["Version", details?.version || "–"],
    ["Process", details ? String(details.pid) : "–"],
  ];
  const nodes = [head, facts(rows), h("h3", {}, "Working now"), working(), h("h3", {}, "Platforms"), platforms(gateway)];
  nodes.push(h("h3", {}, "Last ending"), ending(details?.last_ending));
  nodes.push(h("h3", {}, "Browsers that are logged in"), loginList(refresh));
  // A focused button keeps the focus, because the content is replaced each second.
  const focused = shown.contains(document.activeElement) ? document.activeElement.dataset.id : null;
  shown.replaceChildren(...nodes);
  if (focused) shown.querySelector(`[data-id="${focused}"]`)?.focus();
}

const facts = (rows) => h("dl", { class: "facts" }, ...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

function working() {
  const running = [...store.sessions.values()].filter((one) => one.state === "running");
  if (!running.length) return h("p", { class: "quiet" }, "Nothing is running.");
  return h(
    "ul",
    { class: "plain-list" },
    ...running.map((session) => {
      const run = store.runs.get(session.run_id);
      const parts = run ? foldTurn({ rows: [] }, undefined, run).parts : [];
      const asks = session.asks_for ? [{ kind: session.asks_for }] : [];
      const open = h("a", { href: `#${session.id}`, "data-id": `o${session.id}`, onclick: closeDialog }, titleOf(session));
      const stop = () => post(`/api/sessions/${encodeURIComponent(session.id)}/stop`).catch(() => {});
      const time = session.running_since ? ` · ${span(elapsed(session.running_since))}` : "";
      return h(
        "li",
        {},
        h("div", {}, open, h("div", { class: "quiet" }, waitsFor(parts, asks) + time)),
        h("button", { class: "plain small", type: "button", "data-id": `s${session.id}`, "aria-label": `Stop ${titleOf(session)}`, onclick: stop }, "Stop"),
      );
    }),
  );
}

const PLATFORM_TONES = { connected: "good", disabled: "wait", connecting: "wait", retrying: "warn", fatal: "bad" };

function platforms(gateway) {
  const all = Object.entries(gateway?.platforms ?? {});
  if (!all.length) return h("p", { class: "quiet" }, "None is configured.");
  const line = ([name, one]) =>
    h(
      "li",
      {},
      h("div", {}, h("span", { class: "dot", "data-tone": PLATFORM_TONES[one.state] ?? "wait" }), h("span", {}, name === "api" ? "this page, and the API" : name)),
      h("span", { class: "quiet" }, one.error ? `${one.state}: ${one.error}` : one.state),
    );
  return h("ul", { class: "plain-list" }, ...all.map(line));
}

const CAUSES = { planned: "a planned stop", restart: "a restart", signal: "an unannounced signal", crash: "a crash" };

function ending(last) {
  if (!last) return h("p", { class: "quiet" }, "None is recorded. This is the first start, or the gateway was killed before it could record one.");
  const took = last.finished_at ? span(last.finished_at - last.recorded_at) : "not finished";
  return facts([
    ["When", exact(last.recorded_at)],
    ["Cause", CAUSES[last.cause] ?? last.cause],
    ["Asked by", last.asked_by || "–"],
    ["Took", `${took} (running turns had ${span(last.grace)})`],
  ]);
}

$("status-open").addEventListener("click", showStatus);
on("gateway", () => {
  draw();
  if (shown) refresh();
});
on("sessions", fill);
setInterval(() => store.gateway?.ending && draw(), 1000);
