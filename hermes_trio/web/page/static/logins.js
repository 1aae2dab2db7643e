// The list of browsers that are logged in, and the log-out.

import { forgetLogin, get, remove } from "./api.js";
import { askYes } from "./dialog.js";
import { $, h } from "./dom.js";
import { exact } from "./time.js";

const BROWSERS = [["Edg/", "Edge"], ["OPR/", "Opera"], ["Firefox/", "Firefox"], ["Chrome/", "Chrome"], ["Safari/", "Safari"]];
const SYSTEMS = [["Android", "Android"], ["iPhone", "iPhone"], ["iPad", "iPad"], ["Windows", "Windows"], ["Mac OS", "Mac"], ["Linux", "Linux"]];

let logins = null;

/** Read the list from the gateway. */
export async function readLogins() {
  ({ logins } = await get("/api/logins"));
}

/** Return the list as an element. `changed` is called after a log-out. */
export function loginList(changed) {
  if (!logins) return h("p", { class: "quiet" }, "…");
  if (!logins.length) return h("p", { class: "quiet" }, "None.");
  return h("ul", { class: "plain-list" }, ...logins.map((one) => row(one, changed)));
}

function row(one, changed) {
  const name = nameOf(one.browser);
  const since = `${one.current ? "this browser · " : ""}since ${exact(one.made_at)}`;
  const end = () => (one.current ? logOut() : remove(`/api/logins/${encodeURIComponent(one.id)}`).then(changed, changed));
  return h(
    "li",
    {},
    h("div", { title: one.browser }, name, h("div", { class: "quiet" }, since)),
    h("button", { class: "plain small", type: "button", "data-id": `l${one.id}`, "aria-label": `Log out ${name}, ${since}`, onclick: end }, "Log out"),
  );
}

function nameOf(browser) {
  const found = (names) => names.find(([part]) => browser.includes(part))?.[1];
  const parts = [found(BROWSERS), found(SYSTEMS)].filter(Boolean);
  return parts.join(" on ") || browser.slice(0, 40) || "An unknown browser";
}

async function logOut() {
  await remove("/api/logins/current");
  forgetLogin();
}

$("logout").addEventListener("click", async () => {
  if (await askYes("Log out?", "This browser then needs the key or a new link to log in.", "Log out")) await logOut();
});
