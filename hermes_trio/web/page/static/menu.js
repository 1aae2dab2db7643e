// The menu of chat commands, which opens above the message field while the name of one is written.

import { newId, post } from "./api.js";
import { $, h } from "./dom.js";
import { store } from "./store.js";

const field = $("composer");
const list = $("commands");
let known = null;
let shown = [];
let chosen = 0;

export const isMenuOpen = () => !list.hidden;

/** The commands as the gateway lists them. They are read once, when the first one is written. */
async function commands() {
  if (known) return known;
  const { replies } = await post(`/api/sessions/${encodeURIComponent(store.open ?? newId())}/commands`, { text: "/help" });
  const found = replies.join("\n").matchAll(/^\/(\w+) (.*)$/gm);
  return (known = [...found].map(([, name, help]) => ({ name, help })));
}

async function update() {
  const written = /^\/(\w*)$/.exec(field.value)?.[1];
  const all = written === undefined ? [] : await commands();
  // The text may have changed while the commands were read.
  const begun = /^\/(\w*)$/.exec(field.value)?.[1].toLowerCase();
  show(begun === undefined ? [] : all.filter((one) => one.name.startsWith(begun) && one.name !== begun));
}

function show(found) {
  shown = found;
  chosen = 0;
  list.hidden = !found.length;
  list.replaceChildren(...found.map(option));
  mark();
}

function option({ name, help }, at) {
  const choose = (event) => {
    event.preventDefault(); // the field keeps the focus
    take(at);
  };
  const parts = [h("b", {}, `/${name}`), h("span", { class: "quiet" }, help)];
  return h("li", { role: "option", id: `command-${at}`, onmousedown: choose }, ...parts);
}

function mark() {
  [...list.children].forEach((one, at) => one.setAttribute("aria-selected", String(at === chosen)));
  const active = list.children[chosen];
  active?.scrollIntoView({ block: "nearest" });
  if (active) field.setAttribute("aria-activedescendant", active.id);
  else field.removeAttribute("aria-activedescendant");
}

function take(at) {
  field.value = `/${shown[at].name} `;
  field.dispatchEvent(new Event("input"));
}

/** Obey a key while the menu is open. Returns false if the key is not for the menu. */
export function obeyMenuKey(event) {
  if (!isMenuOpen()) return false;
  const steps = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (steps) {
    chosen = (chosen + steps + shown.length) % shown.length;
    mark();
  } else if (event.key === "Tab" || event.key === "Enter") take(chosen);
  else if (event.key === "Escape") show([]);
  else return false;
  event.preventDefault();
  event.stopPropagation();
  return true;
}

field.addEventListener("input", update);
field.addEventListener("blur", () => show([]));
