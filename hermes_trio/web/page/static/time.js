// Times and durations as text, by the clock of the gateway, which all times come from.

let ahead = 0;

/** Set the current time of the gateway. */
export function setClock(at) {
  ahead = at - Date.now() / 1000;
}

export const now = () => Date.now() / 1000 + ahead;

/** `7 s`, `2 min 5 s`, `1 h 3 min`. */
export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return whole % 60 ? `${minutes} min ${whole % 60} s` : `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const date = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

const midnight = () => new Date(now() * 1000).setHours(0, 0, 0, 0) / 1000;

/** Return the time of day for today, else the date. */
export function brief(at) {
  return at >= midnight() ? clock.format(at * 1000) : date.format(at * 1000);
}

export const exact = (at) => full.format(at * 1000);

/** Return the heading of a session in the list. */
export function era(at) {
  const today = midnight();
  if (at >= today) return "Today";
  if (at >= today - 86400) return "Yesterday";
  if (at >= today - 7 * 86400) return "Last 7 days";
  if (at >= today - 30 * 86400) return "Last 30 days";
  return "Older";
}
