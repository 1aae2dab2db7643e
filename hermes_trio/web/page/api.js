// Asking the gateway.

/** What the gateway refuses, or that it is not there (`code` is `unreachable`). */
export class Refused extends Error {
  constructor(code, message, remedy, status) {
    super(message);
    Object.assign(this, { code, remedy, status });
  }
}

async function ask(method, path, body) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Refused("unreachable", "The gateway cannot be reached.", "", 0);
  }
  // The cookie has grown old, or the key is another one: the same address asks for the key now.
  if (answer.status === 401) location.reload();
  const told = await answer.json().catch(() => ({}));
  if (answer.ok) return told;
  const { code = "refused", message = answer.statusText, remedy = "" } = told.error || {};
  throw new Refused(code, message, remedy, answer.status);
}

export const get = (path) => ask("GET", path);
export const post = (path, body = {}) => ask("POST", path, body);
export const patch = (path, body) => ask("PATCH", path, body);
export const remove = (path) => ask("DELETE", path);

/** A name for something of ours that nobody else chooses. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
