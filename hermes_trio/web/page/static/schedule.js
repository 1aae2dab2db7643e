// The schedule: reminders and repeated tasks of all chats, in a dialog.

import { get, patch, post, Refused, remove } from "./api.js";
import { showDialog } from "./dialog.js";
import { $, h } from "./dom.js";
import { store } from "./store.js";
import { exact } from "./time.js";

const list = h("div", {});
const problem = h("p", { class: "problem", role: "alert" });

/** Show the schedule, and a form that adds to it. */
export function showSchedule() {
  problem.textContent = "";
  list.replaceChildren(h("p", { class: "quiet" }, "…"));
  showDialog("Schedule", [list, form(), problem]);
  read();
}

async function read() {
  const { jobs } = await get("/api/schedule");
  const rows = jobs.map(row);
  list.replaceChildren(rows.length ? h("ul", { class: "plain-list jobs" }, ...rows) : h("p", { class: "quiet" }, "Nothing is scheduled."));
}

async function change(doing) {
  problem.textContent = "";
  try {
    await doing;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    problem.textContent = error.message;
  }
  await read();
}

function row(job) {
  const path = `/api/schedule/${encodeURIComponent(job.id)}`;
  const where = job.platform === "api" ? "" : ` · ${job.platform} ${job.chat}`;
  const state = job.paused ? "paused" : job.next_at ? `next ${exact(job.next_at)}` : "over";
  const button = (label, does) =>
    h("button", { class: "plain small", type: "button", "aria-label": `${label}: ${job.text}`, onclick: () => change(does()) }, label);
  return h(
    "li",
    {},
    h("div", {}, job.text, h("div", { class: "quiet" }, `${job.when} · ${state}${where}`)),
    h(
      "span",
      { class: "job-buttons" },
      button("Run now", () => patch(path, { action: "run" })),
      job.paused ? button("Resume", () => patch(path, { action: "resume" })) : button("Pause", () => patch(path, { action: "pause" })),
      button("Remove", () => remove(path)),
    ),
  );
}

function form() {
  const when = h("input", { id: "job-when", type: "text", maxlength: "100", placeholder: "in 20m · 09:00 · every 2h · daily 09:00 · 0 9 * * 1-5", autocomplete: "off" });
  const text = h("input", { id: "job-text", type: "text", maxlength: "2000", placeholder: "What the agent is to do then", autocomplete: "off" });
  const send = async (event) => {
    event.preventDefault();
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "";
    const session = store.open ?? "schedule";
    await change(post("/api/schedule", { session_id: session, when: when.value, text: text.value, zone }));
    if (!problem.textContent) when.value = text.value = "";
  };
  return h(
    "form",
    { class: "job-form", onsubmit: send },
    h("label", { for: "job-when" }, "When"),
    when,
    h("label", { for: "job-text" }, "What"),
    text,
    h("p", { class: "quiet" }, store.open ? "The answer comes into the open conversation." : "The answers come into a conversation of their own."),
    h("div", { class: "dialog-foot" }, h("button", { class: "primary", type: "submit" }, "Add")),
  );
}

$("schedule-open").addEventListener("click", showSchedule);
