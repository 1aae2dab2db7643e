// Requests to the gateway.

import { BASE, keep } from "./dom.js";

const PLACE = `${BASE}page-key`;

// A browser sends its cookies to every port of a host. So a log-in has another half, the page key: it is in
// the storage of this origin, port included, and only this page sends it. A log-in link has it in its address.
let pageKey = localStorage.getItem(PLACE) ?? "";
const brought = /^#key=(\w+)$/.exec(location.hash);
if (brought) {
  pageKey = brought[1];
  keep(PLACE, pageKey);
  history.replaceState(null, "", location.pathname);
}
// Another tab has logged in or out.
window.addEventListener("storage", ({ key, newValue }) => {
  if (key === PLACE) pageKey = newValue ?? "";
});

/** Headers of every request that needs a log-in. */
export const pageHeaders = () => ({ "x-hermes-page": pageKey });

/** Go to the log-in page, which returns here after the log-in. */
export function askForKey() {
  location.replace(`${BASE}/login${location.hash}`);
}

/** Delete the page key of this browser. */
export function forgetLogin() {
  localStorage.removeItem(PLACE);
  askForKey();
}

/** The gateway refused a request, or could not be reached (`code` is `unreachable`). */
export class Refused extends Error {
  constructor(code, message, remedy, status) {
    super(message);
    Object.assign(this, { code, remedy, status });
  }
}

/** Return what the gateway says in its refusal. */
function refusal(status, told, statusText) {
  // The log-in has expired or was ended, or the key has changed.
  if (status === 401) askForKey();
  const { code = "refused", message = statusText, remedy = "" } = told?.error || {};
  return new Refused(code, message, remedy, status);
}

const LONGEST_READING = 30_000;

async function ask(method, path, body) {
  // What is read can be read again. A removal waits for the reading before it, so that has an end.
  const signal = method === "GET" ? AbortSignal.timeout(LONGEST_READING) : undefined;
  let answer;
  let told;
  try {
    answer = await fetch(BASE + path, {
      method,
      headers: { ...pageHeaders(), ...(body === undefined ? {} : { "content-type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
    told = await answer.json().catch((error) => {
      if (signal && answer.ok) throw error; // it ended in the middle
      return {};
    });
  } catch {
    throw new Refused("unreachable", "The gateway cannot be reached.", "", 0);
  }
  if (answer.ok) return told;
  throw refusal(answer.status, told, answer.statusText);
}

/** Send a file. `progress` is told the part that is sent; `begun` gets the function that ends the sending. */
export function upload(path, blob, progress, begun) {
  return new Promise((done, fail) => {
    // XMLHttpRequest, because fetch does not tell how much was sent.
    const request = new XMLHttpRequest();
    request.open("POST", BASE + path);
    for (const [name, value] of Object.entries(pageHeaders())) request.setRequestHeader(name, value);
    request.responseType = "json";
    request.upload.addEventListener("progress", (event) => progress(event.loaded / event.total));
    request.addEventListener("load", () =>
      request.status === 201 ? done(request.response) : fail(refusal(request.status, request.response, request.statusText)),
    );
    request.addEventListener("error", () => fail(new Refused("unreachable", "The gateway cannot be reached.", "", 0)));
    begun(() => request.abort());
    request.send(blob);
  });
}

/** Read a file. */
export async function fetchBlob(path) {
  const answer = await fetch(BASE + path, { headers: pageHeaders() });
  if (answer.ok) return answer.blob();
  throw refusal(answer.status, await answer.json().catch(() => ({})), answer.statusText);
}

export const get = (path) => ask("GET", path);
export const post = (path, body = {}) => ask("POST", path, body);
export const patch = (path, body) => ask("PATCH", path, body);
export const remove = (path) => ask("DELETE", path);

/** Return a random id. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
