// The elements of a turn: the messages, thoughts, tools, the answer, and how the turn ended.

import { copyButton, h, icon, reconcile } from "./dom.js";
import { shownFiles } from "./files.js";
import { waitsFor } from "./fold.js";
import { codeBlock, Markdown } from "./markdown.js";
import { repeatButtons } from "./repeat.js";
import { elapsed, store } from "./store.js";
import { exact, brief, span } from "./time.js";

/** A message of a person. `note` says what happens to it. */
export class Said {
  constructor(item) {
    this.text = h("div", { class: "bubble" });
    this.files = h("div", { class: "files" });
    this.note = h("div", { class: "said-note" });
    this.element = h("div", { class: "said" }, h("span", { class: "hidden-label" }, "You said:"), this.files, this.text, this.note);
    this.update(item);
  }

  update({ text, files = [], note = null, pending = false }) {
    if (this.text.textContent !== text) this.text.textContent = text;
    this.text.hidden = !text && files.length > 0;
    const names = files.map((file) => file.name).join("/");
    if (this.names !== names) this.files.replaceChildren(...shownFiles(store.open, files));
    this.names = names;
    this.element.classList.toggle("pending", pending);
    if (this.shown === note?.key) return;
    this.shown = note?.key;
    this.note.replaceChildren(...(note ? note.nodes() : []));
  }
}

class Text {
  constructor() {
    this.markdown = new Markdown();
    this.element = this.markdown.element;
  }

  update({ text, growing }) {
    this.markdown.update(text);
    this.element.classList.toggle("growing", Boolean(growing));
  }
}

class Thought {
  constructor() {
    this.markdown = new Markdown("markdown quiet-text");
    this.label = h("span", {});
    const summary = h("summary", {}, icon("thought"), this.label, icon("chevron"));
    this.element = h("details", { class: "thought" }, summary, this.markdown.element);
  }

  update({ text, growing }) {
    this.markdown.update(text);
    this.label.textContent = growing ? "Thinking…" : "Thought";
  }
}

const STATES = {
  running: ["running", null],
  ok: ["finished", "check"],
  error: ["failed", "cross"],
  interrupted: ["interrupted: it may have had an effect", "cut"],
  unanswered: ["not answered", "question"],
  exited: ["ended with a non-zero exit code", "alert"],
};
const SHOWN_ARGUMENT = 300;

class Tool {
  constructor() {
    this.state = h("span", { class: "tool-state" });
    this.name = h("span", { class: "tool-name" });
    this.preview = h("span", { class: "tool-preview" });
    this.spent = h("span", { class: "tool-spent" });
    this.said = h("span", { class: "hidden-label" });
    this.body = h("div", { class: "tool-body" });
    const summary = h("summary", {}, this.state, this.name, this.preview, this.said, this.spent, icon("chevron"));
    this.element = h("details", { class: "tool" }, summary, this.body);
    // The content is created when it is opened.
    this.element.addEventListener("toggle", () => this.fill());
  }

  update(part) {
    const sign = `${part.name} ${part.status} ${part.args} ${part.result} ${part.duration}`;
    this.part = part;
    if (sign === this.sign) return;
    this.sign = sign;
    const code = exitCode(part);
    const status = code ? "exited" : part.status;
    const [words, picture] = STATES[status] ?? STATES.ok;
    this.element.dataset.status = status;
    this.state.replaceChildren(picture ? icon(picture) : h("span", { class: "spinner" }));
    this.name.textContent = part.name;
    this.preview.textContent = preview(part);
    this.said.textContent = `, ${words}`;
    const took = part.duration >= 1 ? span(part.duration) : "";
    this.spent.textContent = part.status === "interrupted" ? "interrupted" : [code && `exit code ${code}`, took].filter(Boolean).join(" · ");
    this.element.querySelector("summary").title = words;
    this.filled = false;
    this.fill();
  }

  fill() {
    if (this.filled || !this.element.open) return;
    this.filled = true;
    const { status, result } = this.part;
    const args = argumentsOf(this.part);
    const rows = args.map(([name, value]) =>
      h("div", { class: "argument" }, h("dt", {}, name), h("dd", {}, h("pre", { tabindex: "0", role: "group", "aria-label": name }, value))),
    );
    const nodes = [];
    if (rows.length) nodes.push(h("dl", {}, ...rows));
    if (result) nodes.push(codeBlock(result, status === "error" ? "Error" : "Result", false));
    else if (status === "interrupted")
      nodes.push(h("p", { class: "quiet" }, "It was interrupted. It may have had an effect."));
    else if (status === "running") nodes.push(h("p", { class: "quiet" }, "Running…"));
    this.body.replaceChildren(...nodes);
  }
}

/** Return the exit code of a command that ran to its end and failed; "" for anything else. */
function exitCode({ name, status, result }) {
  const [, code] = (name === "terminal" && status === "ok" && /\[exit code (\d+)[^[]*\]$/.exec(result ?? "")) || [];
  return code && code !== "0" ? code : "";
}

function argumentsOf({ args }) {
  if (!args) return [];
  try {
    const value = JSON.parse(args);
    if (value && typeof value === "object" && !Array.isArray(value))
      return Object.entries(value).map(([name, one]) => [name, typeof one === "string" ? one : JSON.stringify(one, null, 2)]);
  } catch {
    // The arguments are an incomplete preview.
  }
  return [["arguments", args]];
}

function preview(part) {
  const values = argumentsOf(part).map(([, value]) => value.replace(/\s+/g, " ").trim());
  return (values.find(Boolean) ?? "").slice(0, SHOWN_ARGUMENT);
}

class Note {
  constructor() {
    this.element = h("div", { class: "note" });
  }

  update({ text, tone, picture }) {
    const sign = `${text} ${tone}`;
    if (sign === this.sign) return;
    this.sign = sign;
    this.element.dataset.tone = tone;
    this.element.replaceChildren(icon(picture ?? "cut"), h("span", {}, text));
  }
}

const VIEWS = { text: Text, thought: Thought, tool: Tool, user: Said, note: Note };

/** A whole turn. */
export class Turn {
  constructor() {
    this.users = h("div", { class: "users" });
    this.body = h("div", { class: "parts" });
    this.working = new Working();
    this.tools = h("div", { class: "turn-tools" });
    const answer = h("div", { class: "answer" }, h("span", { class: "hidden-label" }, "The answer:"), this.body, this.working.element, this.tools);
    this.element = h("article", { class: "turn" }, this.users, answer);
    this.userViews = new Map();
    this.views = new Map();
  }

  update(turn) {
    this.working.update(turn);
    const sign = signOf(turn);
    if (sign === this.sign) return;
    this.sign = sign;
    reconcile(this.users, this.userViews, turn.users, (item) => new Said(item));
    const parts = turn.parts.filter((part) => part.kind === "tool" || part.text.trim());
    const last = parts.at(-1);
    for (const part of parts) part.growing = turn.running && part === last && part.kind !== "tool";
    const items = [...parts, ...notes(turn)];
    if (turn.resumes) items.unshift({ kind: "note", key: "resumes", tone: "quiet", picture: "steer", text: "Resumed where it was interrupted" });
    reconcile(this.body, this.views, items, (item) => new VIEWS[item.kind](item));
    this.finish(turn);
  }

  finish(turn) {
    const text = turn.parts.filter((part) => part.kind === "text").map((part) => part.text.trim()).join("\n\n");
    if (turn.running || (!text && !turn.isLast)) {
      this.tools.replaceChildren();
      return;
    }
    const spent = turn.endedAt && turn.startedAt ? turn.endedAt - turn.startedAt : 0;
    const at = turn.endedAt ?? turn.at;
    this.tools.replaceChildren(
      text ? copyButton(() => text, "Copy this answer") : "",
      ...repeatButtons(turn),
      at ? h("time", { title: exact(at), datetime: new Date(at * 1000).toISOString() }, brief(at)) : "",
      spent >= 5 ? h("span", {}, `took ${span(spent)}`) : "",
    );
  }
}

function signOf(turn) {
  const parts = turn.parts.map((part) => `${part.key}${part.status ?? ""}${(part.text ?? "").length}${(part.result ?? "").length}${part.duration ?? ""}`);
  const users = turn.users.map((user) => user.key);
  return `${users}|${parts}|${turn.outcome}|${turn.marker?.text ?? ""}|${turn.reason}|${turn.gap}|${turn.resumes}|${turn.isResumed}|${turn.isLast}`;
}

function notes(turn) {
  const notes = [];
  // A resumed turn needs no attention.
  const warning = turn.isResumed ? "quiet" : "warn";
  const add = (key, tone, text, picture) => notes.push({ kind: "note", key, tone, text, picture });
  if (turn.gap && turn.running) add("gap", "quiet", "A part of this answer is missing here. It is read again when the answer is complete.");
  if (turn.marker) {
    const tone = { cancelled: "quiet", failed: "bad" }[turn.marker.kind] ?? warning;
    add("end", tone, turn.marker.text, tone === "warn" ? "alert" : "cut");
  } else if (turn.outcome === "cut") add("end", warning, "Interrupted. The text before that is kept.", turn.isResumed ? "cut" : "alert");
  else if (turn.outcome === "stopped") add("end", "quiet", "You stopped this answer.", "stop");
  else if (turn.outcome === "superseded") add("end", "quiet", "A new message took its place.");
  else if (turn.outcome === "reset") add("end", "quiet", "The conversation was reset.");
  else if (turn.outcome === "failed" || turn.outcome === "timed_out")
    add("end", "bad", (turn.reason || "This did not work.").replace(/^⚠\s*/u, ""), "alert");
  else if (turn.outcome === "answered" && !turn.parts.length && turn.runId)
    add("end", "quiet", "The agent said nothing.");
  return notes;
}

/** A line that says that the turn runs, for how long, and what it waits for. */
class Working {
  constructor() {
    this.what = h("span", {});
    this.since = h("span", { class: "since" });
    this.element = h("div", { class: "working", hidden: true }, h("span", { class: "pulse" }), this.what, this.since);
  }

  update(turn) {
    this.turn = turn;
    this.element.hidden = !turn.running;
    this.tick();
  }

  tick() {
    if (!this.turn?.running) return;
    const lost = store.connection === "lost";
    this.what.textContent = lost ? "Connection lost" : waitsFor(this.turn.parts, store.asks);
    this.element.classList.toggle("lost", lost);
    const began = this.turn.startedAt ?? store.sessions.get(store.open)?.running_since;
    this.since.textContent = began && !lost ? span(elapsed(began)) : "";
  }
}
