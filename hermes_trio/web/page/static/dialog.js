// The only dialog of the page: a question, the list of shortcuts, the status.

import { $, h, icon } from "./dom.js";

const dialog = $("dialog");
let whenClosed = () => {};

/** Show a dialog. `closed` is called after it was closed in any way. */
export function showDialog(title, content, { closed = () => {} } = {}) {
  const close = h("button", { class: "icon-button", type: "button", "aria-label": "Close", title: "Close", onclick: closeDialog }, icon("cross"));
  dialog.replaceChildren(h("div", { class: "dialog-head" }, h("h2", { id: "dialog-title" }, title), close), ...content);
  whenClosed = closed;
  if (!dialog.open) dialog.showModal();
}

export const closeDialog = () => dialog.close();

/** Ask for a text. Returns null if the dialog was cancelled or the text is empty. */
export function askText(title, label, value, action) {
  return new Promise((resolve) => {
    const field = h("input", { id: "dialog-field", type: "text", maxlength: "200", autocomplete: "off" });
    field.value = value;
    const form = h(
      "form",
      { method: "dialog" },
      h("label", { for: "dialog-field" }, label),
      field,
      h("div", { class: "dialog-foot" }, cancelButton(), h("button", { class: "primary", type: "submit" }, action)),
    );
    let given = null;
    form.addEventListener("submit", () => (given = field.value.trim() || null));
    showDialog(title, [form], { closed: () => resolve(given) });
    field.select();
  });
}

/** Ask for a confirmation. Returns true if it was given. */
export function askYes(title, text, action) {
  return new Promise((resolve) => {
    let yes = false;
    const agree = () => {
      yes = true;
      closeDialog();
    };
    const foot = h("div", { class: "dialog-foot" }, cancelButton(), h("button", { class: "danger", type: "button", onclick: agree }, action));
    showDialog(title, [h("p", {}, text), foot], { closed: () => resolve(yes) });
  });
}

const cancelButton = () => h("button", { class: "plain", type: "button", onclick: closeDialog }, "Cancel");

dialog.addEventListener("close", () => whenClosed());
dialog.addEventListener("click", (event) => event.target === dialog && closeDialog());
