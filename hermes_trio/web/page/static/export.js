// The open conversation as a file in Markdown.

import { h } from "./dom.js";
import { shownTurns } from "./store.js";
import { exact } from "./time.js";

/** Save the messages and the answers. Thoughts and the results of tools are left out. */
export function saveConversation(title) {
  const text = [`# ${title}`, ...shownTurns().flatMap(sections)].join("\n\n") + "\n";
  const url = URL.createObjectURL(new Blob([text], { type: "text/markdown" }));
  h("a", { href: url, download: `${title.replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60) || "conversation"}.md` }).click();
  URL.revokeObjectURL(url);
}

function sections(turn) {
  const at = turn.at ? ` (${exact(turn.at)})` : "";
  const people = turn.users.map((one) => `## You${at}\n\n${one.text}`);
  const parts = turn.parts.filter((one) => one.kind !== "thought").map(section).filter(Boolean);
  return parts.length ? [...people, "## Agent", ...parts] : people;
}

function section(part) {
  if (part.kind === "tool") return `*Tool: ${part.name}*`;
  return part.kind === "user" ? `> ${part.text.replaceAll("\n", "\n> ")}` : part.text.trim();
}
