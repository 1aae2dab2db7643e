// Combines the rows of the transcript and the events of runs into turns.
//
// A row has a place: the seq of the last event that it contains. Only events after the last place are added
// to the rows, so nothing is shown twice, in whatever order rows and events arrive.

/** Return the turns of a session: `{ key, runId, users, parts, marker, outcome, reason, … }`. */
export function turnsOf(rows, turns, runs) {
  const found = new Map();
  const known = new Map(turns.map((turn) => [turn.run_id, turn]));
  for (const row of rows) {
    const startsAnew = !row.run_id && row.role === "user";
    const key = row.run_id || (startsAnew || !found.size ? `row-${row.id}` : [...found.keys()].at(-1));
    if (!found.has(key)) found.set(key, { key, runId: row.run_id, rows: [] });
    found.get(key).rows.push(row);
  }
  for (const run of runs) {
    if (!found.has(run.runId)) found.set(run.runId, { key: run.runId, runId: run.runId, rows: [] });
  }
  const live = new Map(runs.map((run) => [run.runId, run]));
  const folded = [...found.values()].map((turn) => foldTurn(turn, known.get(turn.runId), live.get(turn.runId)));
  folded.forEach((turn, at) => {
    // A resuming turn does not name the turn that it resumes: it is the last cut one before it.
    const before = turn.resumes && folded.slice(0, at).findLast((one) => one.outcome === "cut");
    if (before) before.isResumed = true;
  });
  return folded;
}

/** Return one turn from its rows, its row of the list of turns, and its run. */
export function foldTurn(turn, known, run) {
  const folded = { ...turn, users: [], parts: [], marker: null, place: 0, at: null };
  for (const row of turn.rows) addRow(folded, row);
  const over = known?.ended_at ? known.outcome : run?.over ? endOf(run.over) : run || known ? null : "answered";
  for (const event of run?.events ?? []) if (event.seq > folded.place) addEvent(folded.parts, event);
  folded.running = over === null;
  folded.outcome = over;
  folded.reason = known?.reason ?? run?.over?.error ?? "";
  folded.resumes = known?.resumes ?? false;
  folded.startedAt = known?.started_at ?? run?.since ?? folded.at;
  folded.endedAt = known?.ended_at ?? null;
  folded.gap = Boolean(run?.isTorn());
  if (!folded.running)
    for (const part of folded.parts) if (part.status === "running") part.status = "interrupted";
  return folded;
}

function endOf(event) {
  if (event.event === "run.completed") return "answered";
  if (event.event === "run.cancelled") return "stopped";
  return event.code === "interrupted" ? "cut" : "failed";
}

function addRow(turn, row) {
  turn.at ??= row.created_at;
  if (row.marker) {
    turn.marker = { kind: row.marker, text: row.content };
    return;
  }
  turn.place = Math.max(turn.place, row.place ?? 0);
  const { parts } = turn;
  if (row.role === "user") {
    if (parts.length) parts.push({ kind: "user", key: `u${row.id}`, text: row.content, files: row.files });
    else turn.users.push({ key: `u${row.id}`, text: row.content, files: row.files, at: row.created_at });
  } else if (row.role === "tool") {
    const part = parts.find((one) => one.kind === "tool" && one.id === row.tool_call_id) ?? addTool(parts, row.tool_call_id, row.tool_name);
    Object.assign(part, { result: row.content, status: row.status || "ok" });
  } else {
    if (row.reasoning) addText(parts, "thought", row.reasoning, true);
    if (row.content.trim()) addText(parts, "text", row.content, true);
    for (const call of row.tool_calls ?? []) addTool(parts, call.id, call.name, { args: call.arguments });
    for (const card of row.cards ?? []) {
      const status = card.done ? (card.is_error ? "error" : "ok") : "interrupted";
      const args = Object.keys(card.args).length ? JSON.stringify(card.args) : card.preview;
      addTool(parts, card.id, card.name, { args, result: card.snippet, status, duration: card.duration });
    }
  }
}

function addEvent(parts, event) {
  switch (event.event) {
    case "message.delta":
      return addText(parts, "text", event.delta, false);
    case "reasoning.available":
      return addText(parts, "thought", event.text, false);
    case "tool.started": {
      const args = event.args && Object.keys(event.args).length ? JSON.stringify(event.args) : event.preview;
      const part = parts.find((one) => one.kind === "tool" && one.id === event.call_id);
      if (part) part.since = event.at;
      else addTool(parts, event.call_id, event.tool, { args, since: event.at });
      return undefined;
    }
    case "tool.completed": {
      const open = (one) => one.kind === "tool" && (event.call_id ? one.id === event.call_id : one.status === "running");
      const part = parts.findLast(open) ?? addTool(parts, event.call_id, event.tool);
      part.result ??= event.snippet ?? "";
      part.status = event.error ? "error" : part.status === "running" ? "ok" : part.status;
      part.duration = event.duration;
      return undefined;
    }
    default:
      return undefined;
  }
}

function addText(parts, kind, text, whole) {
  const last = parts.at(-1);
  if (!whole && last?.kind === kind && !last.whole) last.text += text;
  else parts.push({ kind, key: `${kind}${parts.filter((one) => one.kind === kind).length}`, text, whole });
}

function addTool(parts, id, name, more) {
  const part = { kind: "tool", key: `c${id ?? parts.length}`, id, name: name || "tool", args: "", status: "running", ...more };
  parts.push(part);
  return part;
}

/** Return what a turn waits for, as text. */
export function waitsFor(parts, asks) {
  if (asks.length) return asks[0].kind === "approval" ? "Waiting for your yes" : "Waiting for your answer";
  const running = parts.filter((part) => part.status === "running");
  if (running.length === 1) return `Running ${running[0].name}`;
  if (running.length) return `Running ${running.length} tools`;
  const last = parts.at(-1);
  if (!last || last.kind === "tool" || last.kind === "user") return "Waiting for the model";
  return last.kind === "thought" ? "Thinking" : "Writing";
}
