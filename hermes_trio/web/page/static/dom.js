// Creating elements. The page never parses text as HTML.

const PATHS = {
  plus: "M12 5v14M5 12h14",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14ZM20 20l-4-4",
  sidebar: "M4 5h16v14H4ZM9.5 5v14",
  up: "M12 19V5M6 11l6-6 6 6",
  down: "M12 5v14M6 13l6 6 6-6",
  stop: "M7 7h10v10H7Z",
  copy: "M9 9h10v10H9ZM5 15V5h10",
  check: "M5 12.5l4.5 4.5L19 7.5",
  cross: "M7 7l10 10M17 7L7 17",
  chevron: "M9 6l6 6-6 6",
  retry: "M19 12a7 7 0 1 1-2.1-5M19 4v4h-4",
  save: "M12 4v11M7 10.5l5 5 5-5M5 20h14",
  pencil: "M5 19l1-4L16 5l3 3L9 18l-4 1Z",
  trash: "M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12",
  keyboard: "M3 7h18v10H3ZM7 11h.01M11 11h.01M15 11h.01M17 11h.01M8 14h8",
  theme: "M12 4a8 8 0 1 0 8 8 6 6 0 0 1-8-8Z",
  exit: "M14 5H5v14h9M10 12h10M16 8l4 4-4 4",
  alert: "M12 5l8.5 14h-17ZM12 11v3.5M12 16.8v.1",
  clock: "M12 20a8 8 0 1 0 0-16 8 8 0 0 0 0 16ZM12 8v4.5l3 2",
  tool: "M5 8l4 4-4 4M12 17h7",
  cut: "M6 12h12",
  clip: "M17 8.5 9.8 15.7a1.8 1.8 0 0 0 2.6 2.6l7-7a3.7 3.7 0 0 0-5.3-5.3l-7.2 7.2a5.6 5.6 0 0 0 7.9 7.9l6-6",
  file: "M7 4h7l4 4v12H7ZM14 4v4h4",
  question: "M12 20.5a8.5 8.5 0 1 0 0-17 8.5 8.5 0 0 0 0 17ZM9.7 9.8a2.4 2.4 0 1 1 3.5 2.1c-.8.4-1.2.9-1.2 1.7M12 16.4v.1",
  thought: "M6 10.5a5.5 5.5 0 0 1 11-.5 4 4 0 0 1 0 8H9a4 4 0 0 1-3-7.5Z",
  steer: "M4 7h7a5 5 0 0 1 5 5v7M12 15l4 4 4-4",
};

/** Return an icon in the colour of the text around it. */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/** Return an element: `h("p", { class: "x", onclick: f }, "text", child)`. */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const $ = (id) => document.getElementById(id);

/** Show these items as the children of `parent`, in this order. An item that is shown already keeps its
 * element: `views` has it by its key. A view is `{ element, update(item) }`. */
export function reconcile(parent, views, items, make) {
  const left = new Set(views.keys());
  let at = parent.firstElementChild;
  for (const item of items) {
    let view = views.get(item.key);
    if (!view) views.set(item.key, (view = make(item)));
    left.delete(item.key);
    view.update(item);
    if (view.element === at) at = at.nextElementSibling;
    else parent.insertBefore(view.element, at);
  }
  for (const key of left) {
    views.get(key).element.remove();
    views.delete(key);
  }
}

/** The path below which the page is served, such as `/hermes`; empty at the root of its host. */
export const BASE = new URL("..", import.meta.url).pathname.slice(0, -1);

/** Store a text in the browser, if there is room. */
export function keep(place, text) {
  try {
    localStorage.setItem(place, text);
  } catch {
    localStorage.removeItem(place); // the old text is out of date
  }
}

/** Copy a text, also on a page with an insecure address. */
export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = h("textarea", { class: "hidden-label", "aria-hidden": "true" });
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

/** Return a button that copies the text of `text()`, and confirms it. */
export function copyButton(text, label) {
  const said = h("span", {}, "Copy");
  const button = h("button", { class: "copy", type: "button", "aria-label": label, title: label }, icon("copy"), said);
  button.addEventListener("click", async () => {
    await copyText(text());
    said.textContent = "Copied";
    button.classList.add("done");
    setTimeout(() => {
      said.textContent = "Copy";
      button.classList.remove("done");
    }, 1600);
  });
  return button;
}

/** Tell people who use a screen reader. */
export function announce(text, { now = false } = {}) {
  const region = $(now ? "announce-now" : "announce");
  region.textContent = "";
  setTimeout(() => (region.textContent = text), 50);
}
