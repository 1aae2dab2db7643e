// Files: those that the next message takes along, and those of the messages.
//
// A file is sent to the gateway as soon as it is chosen; the message refers to it. Pictures and downloads are
// read with the page key, so they are fetched and shown from memory.

import { fetchBlob, newId, upload } from "./api.js";
import { showDialog } from "./dialog.js";
import { $, announce, h, icon, reconcile } from "./dom.js";
import { changed, on, store } from "./store.js";

const MOST_BYTES = 20_000_000;
const MOST_FILES = 20;
const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

// The chosen files of each session; those of a new one are below "".
const chosen = new Map();
const views = new Map();
// The session that a new chat will be. Its files are sent before it exists.
let coming = null;

const here = () => chosen.get(store.open ?? "") ?? [];
const isPicture = (file) => PICTURES.includes(file.mime_type);
const shownName = (file) => file.name.replace(/^[0-9a-f]{12}-/, "");
const size = (bytes) => (bytes >= 100_000 ? `${(bytes / 1e6).toFixed(1)} MB` : `${Math.max(1, Math.round(bytes / 1000))} kB`);
const address = (session, file) => `/api/sessions/${encodeURIComponent(session)}/files/${encodeURIComponent(file.name)}`;

/** True while a chosen file is being sent. */
export const isSending = () => here().some((one) => one.state === "sending");
export const hasFiles = () => here().some((one) => one.state === "sent");

/** Return the id for a session that begins with the message in the field. */
export const comingSession = () => (coming ??= newId());

/** Take the chosen files for a message. */
export function takeFiles() {
  const files = here().filter((one) => one.state === "sent").map((one) => one.file);
  chosen.delete(store.open ?? "");
  if (!store.open) coming = null;
  changed("chat");
  return files;
}

/** Choose files that the gateway has. */
export function chooseStored(files) {
  chosen.set(store.open, files.map((file) => ({ key: newId(), name: shownName(file), state: "sent", file })));
  changed("chat");
}

/** Choose files, and send them to the gateway. */
function choose(files) {
  const place = store.open ?? "";
  const session = store.open ?? comingSession();
  if (store.sessions.get(session)?.ended_at) return;
  for (const blob of files) {
    const entry = { key: newId(), name: blob.name || "file", state: "sending", progress: 0 };
    if (here().length >= MOST_FILES) {
      announce(`A message has at most ${MOST_FILES} files.`, { now: true });
      break;
    }
    chosen.set(place, [...here(), entry]);
    if (blob.size > MOST_BYTES) Object.assign(entry, { state: "failed", problem: "larger than 20 MB: make it smaller, or name a link to it" });
    else if (!blob.size) Object.assign(entry, { state: "failed", problem: "empty: choose another file" });
    else send(entry, session, blob);
  }
  changed("chat");
}

async function send(entry, session, blob) {
  const path = `/api/sessions/${encodeURIComponent(session)}/files?name=${encodeURIComponent(entry.name)}`;
  const progress = (part) => {
    entry.progress = part;
    changed("chat");
  };
  try {
    const { file } = await upload(path, blob, progress, (end) => (entry.end = end));
    Object.assign(entry, { state: "sent", file });
    announce(`${entry.name} is attached.`);
  } catch (error) {
    Object.assign(entry, { state: "failed", problem: error.message });
  }
  changed("chat");
}

function drop(entry) {
  entry.end?.();
  const place = store.open ?? "";
  chosen.set(place, here().filter((one) => one !== entry));
  changed("chat");
  $("composer").focus();
}

// --- the chosen files, above the message field ---

class Chosen {
  constructor(entry) {
    this.name = h("span", { class: "file-name" }, entry.name);
    this.told = h("span", { class: "file-told" });
    this.bar = h("progress", { max: "1", "aria-label": `Sending ${entry.name}` });
    const remove = h("button", { class: "file-remove", type: "button", "aria-label": `Remove ${entry.name}`, onclick: () => drop(entry) }, icon("cross"));
    this.element = h("li", { class: "file" }, icon("file"), this.name, this.told, this.bar, remove);
  }

  update({ state, progress, problem, file }) {
    this.element.dataset.state = state;
    this.bar.hidden = state !== "sending";
    this.bar.value = progress ?? 0;
    this.told.textContent = state === "failed" ? problem : file?.size ? size(file.size) : "";
  }
}

on("chat", () => {
  const entries = here();
  $("chosen").hidden = !entries.length;
  reconcile($("chosen"), views, entries, (entry) => new Chosen(entry));
});

// --- by button, paste and drop ---

$("attach").addEventListener("click", () => $("files").click());
$("files").addEventListener("change", ({ target }) => {
  choose([...target.files]);
  target.value = "";
});
$("composer").addEventListener("paste", (event) => {
  const files = [...event.clipboardData.files];
  if (!files.length) return;
  event.preventDefault();
  choose(files);
});

const brings = (event) => event.dataTransfer?.types.includes("Files");
const main = $("main");
main.addEventListener("dragover", (event) => {
  if (!brings(event)) return;
  event.preventDefault();
  main.classList.add("dropping");
});
main.addEventListener("dragleave", (event) => {
  if (!main.contains(event.relatedTarget)) main.classList.remove("dropping");
});
main.addEventListener("drop", (event) => {
  main.classList.remove("dropping");
  if (!brings(event)) return;
  event.preventDefault();
  choose([...event.dataTransfer.files]);
});

// --- the files of messages ---

// The pictures of the open session, from memory.
const pictures = new Map();
let picturesOf = null;

on("chat", () => {
  if (picturesOf === store.open) return;
  picturesOf = store.open;
  for (const url of pictures.values()) url.then(URL.revokeObjectURL, () => {});
  pictures.clear();
});

function picture(session, file) {
  const path = address(session, file);
  if (!pictures.has(path)) pictures.set(path, fetchBlob(path).then((blob) => URL.createObjectURL(blob)));
  return pictures.get(path);
}

/** Return the elements of the files of a message. */
export function shownFiles(session, files) {
  return files.map((file) => (isPicture(file) ? pictureButton(session, file) : download(session, file)));
}

function pictureButton(session, file) {
  const name = shownName(file);
  const image = h("img", { alt: name });
  const open = () => showDialog(name, [h("img", { class: "whole-picture", alt: name, src: image.src }), download(session, file)]);
  const button = h("button", { class: "picture", type: "button", title: name, onclick: open }, image);
  picture(session, file).then(
    (url) => (image.src = url),
    () => button.replaceWith(h("span", { class: "file", "data-state": "failed" }, icon("file"), name, " is not kept any more")),
  );
  return button;
}

function download(session, file) {
  const name = shownName(file);
  const problem = h("span", { class: "file-told", role: "alert" });
  const save = async () => {
    try {
      const url = URL.createObjectURL(await fetchBlob(address(session, file)));
      h("a", { href: url, download: name }).click();
      URL.revokeObjectURL(url);
    } catch (error) {
      problem.textContent = error.message;
    }
  };
  const told = file.size ? h("span", { class: "file-told" }, size(file.size)) : null;
  return h("button", { class: "file", type: "button", title: `Save ${name}`, onclick: save }, icon("save"), h("span", { class: "file-name" }, name), told, problem);
}
