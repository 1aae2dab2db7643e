// The last exchange again: the same message is answered anew, or is changed first.

import { post } from "./api.js";
import { h, icon } from "./dom.js";
import { changed, removeLastTurn, store } from "./store.js";

/** Carry out a command that removes the last exchange. */
const remove = (session, text) =>
  removeLastTurn(session, () => post(`/api/sessions/${encodeURIComponent(session)}/commands`, { text }));

/** Forget the last answer, and answer the same message again. */
const retry = () => remove(store.open, "/retry");

/** Put the last message into the field. Nothing is forgotten before the new text is sent. */
function edit(text, files) {
  store.editing = { session: store.open, text, files };
  changed("chat");
}

/** Forget the last exchange, which the text in the field replaces. */
export async function forgetEdited() {
  const { session } = store.editing;
  await remove(session, "/undo");
  store.editing = null;
}

/** Return the buttons for the last turn of a session: none for one that a message can no longer follow. */
export function repeatButtons(turn) {
  if (!turn.isLast || turn.running || !turn.users.length) return [];
  const text = turn.users.map((one) => one.text).filter(Boolean).join("\n\n");
  const files = turn.users.flatMap((one) => one.files ?? []);
  return [
    button("retry", "Retry", "Answer this message again", retry),
    button("pencil", "Edit", "Change your message, and get another answer", () => edit(text, files)),
  ];
}

const button = (picture, label, title, does) =>
  h("button", { class: "copy", type: "button", title, onclick: does }, icon(picture), h("span", {}, label));
