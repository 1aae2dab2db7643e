// Turns the Markdown of models into elements. Text becomes text nodes and nothing else, so an answer cannot
// add markup. A growing answer is parsed again with each piece; only elements whose source changed are
// replaced.

import { copyButton, h } from "./dom.js";
import { highlight } from "./highlight.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/;
const RULE = /^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:\s+|$)/;
const DELIMITER = /^:?-+:?$/;
// A formula on lines of its own. It is shown as written, because TeX has other escapes than Markdown.
const FORMULAS = [
  [/^ *\\\[/, /\\\] *$/],
  [/^ *\$\$/, /\$\$ *$/],
];
const LONGEST_FORMULA = 60;
const DEEPEST = 12;
const LONGEST = 10000;
const WIDEST = 50;

/** Return the blocks of a text: `{ kind, source, … }`. */
export function blocks(text, depth = 0) {
  const lines = text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n");
  const found = [];
  let at = 0;
  const add = (kind, end, more) => {
    found.push({ kind, source: lines.slice(at, end).join("\n"), ...more });
    at = end;
  };
  while (at < lines.length) {
    const line = lines[at];
    let match;
    if (!line.trim()) at += 1;
    else if ((match = FENCE.exec(line))) addFence(lines, at, match, add);
    else if ((match = formulaEnd(lines, at))) add("formula", match, { text: lines.slice(at, match).join("\n").trim() });
    else if ((match = HEADING.exec(line))) add("heading", at + 1, { level: match[1].length, text: unclosed(match[2]) });
    else if (RULE.test(line)) add("rule", at + 1);
    else if (QUOTE.test(line) && depth < DEEPEST) {
      let end = at + 1;
      while (end < lines.length && lines[end].trim() && (QUOTE.test(lines[end]) || !begins(lines[end]))) end += 1;
      const inner = lines.slice(at, end).map((one) => one.replace(QUOTE, "")).join("\n");
      add("quote", end, { inner: blocks(inner, depth + 1) });
    } else if (ITEM.test(line) && depth < DEEPEST) addList(lines, at, depth, add);
    else if (line.includes("|") && isTable(lines, at)) addTable(lines, at, add);
    else {
      let end = at + 1;
      while (end < lines.length && lines[end].trim() && !begins(lines[end])) end += 1;
      add("paragraph", end, { text: lines.slice(at, end).join("\n").trim() });
    }
  }
  return found;
}

const begins = (line) =>
  FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line) || FORMULAS.some(([begin]) => begin.test(line));

/** Return the line after the formula that begins here; 0 if none does. */
function formulaEnd(lines, at) {
  const [begin, end] = FORMULAS.find(([one]) => one.test(lines[at])) ?? [];
  if (!begin) return 0;
  if (end.test(lines[at].replace(begin, ""))) return at + 1;
  const found = lines.slice(at + 1, at + LONGEST_FORMULA).findIndex((line) => end.test(line) || !line.trim());
  return found >= 0 && lines[at + 1 + found].trim() ? at + found + 2 : 0;
}

const unclosed = (text) => (text.trimEnd().endsWith("#") ? text.trimEnd().replace(/(?:^|\s)#+$/, "").trimEnd() : text.trimEnd());

function addFence(lines, at, [, fence, language], add) {
  const closes = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}\\s*$`);
  const indent = /^ */.exec(lines[at])[0].length;
  let end = at + 1;
  while (end < lines.length && !closes.test(lines[end])) end += 1;
  const code = lines.slice(at + 1, end).map((line) => line.slice(Math.min(indent, /^ */.exec(line)[0].length)));
  add("code", Math.min(end + 1, lines.length), { language, code: code.join("\n"), whole: end < lines.length });
}

function addList(lines, at, depth, add) {
  const ordered = /\d/.test(ITEM.exec(lines[at])[2]);
  const items = [];
  let end = at;
  // The next line that is not empty, searched once for each run of empty lines.
  let next = at;
  const nextText = () => {
    for (next = Math.max(next, end); next < lines.length && !lines[next].trim(); ) next += 1;
    return lines[next];
  };
  while (end < lines.length) {
    const match = ITEM.exec(lines[end]);
    if (!match || /\d/.test(match[2]) !== ordered || RULE.test(lines[end])) break;
    const width = match[0].trimEnd().length + 1;
    const item = [lines[end].slice(match[0].length)];
    end += 1;
    while (end < lines.length) {
      const line = lines[end];
      const indent = /^ */.exec(line)[0].length;
      if (!line.trim()) {
        const text = nextText();
        if (text === undefined || /^ */.exec(text)[0].length < width) break;
      } else if (indent <= match[1].length && begins(line)) break;
      else if (indent < width && !lines[end - 1].trim()) break;
      item.push(line.slice(Math.min(indent, width)));
      end += 1;
    }
    items.push(blocks(item.join("\n"), depth + 1));
    // Empty lines may separate items.
    const text = nextText();
    if (next > end && text !== undefined && ITEM.test(text)) end = next;
  }
  const first = ordered ? parseInt(ITEM.exec(lines[at])[2], 10) : 1;
  add("list", end, { ordered, first, items });
}

const cells = (line) =>
  line.trim().replace(/^\|/, "").replace(/\|$/, "").split(/(?<!\\)\|/).map((cell) => cell.replace(/\\\|/g, "|").trim());

const isTable = (lines, at) =>
  at + 1 < lines.length && isDelimiter(cells(lines[at + 1])) && cells(lines[at]).length === cells(lines[at + 1]).length;

const isDelimiter = (texts) => texts.every((text) => DELIMITER.test(text));

function addTable(lines, at, add) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const align = cells(lines[at + 1]).map((cell) =>
    cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : "left",
  );
  add("table", end, { head: cells(lines[at]), rows: lines.slice(at + 2, end).map(cells), align });
}

// --- inside a line ---

const INLINE = new RegExp(
  [
    "(?<code>(?<!`)(?<ticks>`+)(?!`)(?<inside>[\\s\\S]*?[^`])\\k<ticks>(?!`))",
    "(?<formula>\\\\\\([\\s\\S]{1,500}?\\\\\\)|\\\\\\[(?=[^\\]]{0,500}(?:[\\^_=]|\\\\[a-zA-Z]))[\\s\\S]{1,500}?\\\\\\]|\\$\\$[^$]{1,500}\\$\\$|(?<![\\w$\\\\])\\$(?=[^\\s$])[^$\\n]{0,300}[^\\s$\\\\]\\$(?![\\w$]))",
    // TeX has spaces like `\\,` also outside of formulas; Markdown needs no escape for these.
    "(?<escaped>\\\\[!-+\\-./<-@[-`{-~])",
    "(?<image>!?)\\[(?<label>(?:[^\\[\\]\\\\]|\\\\.|\\[[^\\[\\]]*\\])*)\\]\\((?<target><[^<>\\n]*>|[^\\s()]*(?:\\([^\\s()]*\\)[^\\s()]*)*)(?:\\s+\"[^\"]*\")?\\)",
    "<(?<bare>(?:https?:\\/\\/|mailto:)[^\\s<>]+)>",
    "(?<strong>\\*\\*(?=\\S)(?<bold>[\\s\\S]*?\\S)\\*\\*(?!\\*)|(?<![\\w_])__(?=\\S)(?<bold2>[\\s\\S]*?\\S)__(?!\\w))",
    "(?<em>\\*(?=[^\\s*])(?<slanted>(?:[^*]|\\*\\*[^*]*\\*\\*)*?[^\\s*])\\*(?!\\*)|(?<![\\w_])_(?=[^\\s_])(?<slanted2>[^_]*?[^\\s_])_(?!\\w))",
    "(?<strike>~~(?=\\S)(?<gone>[\\s\\S]*?\\S)~~)",
    "(?<link>https?:\\/\\/[^\\s<>]*[^\\s<>.,:;!?'\")\\]}*_`])",
    "(?<newline>\\n)",
  ].join("|"),
  "g",
);

/** Return the nodes of a text without blocks. A text of unusual length stays as it is, because parsing it
 * would take long. */
export function inline(text, depth = 0) {
  if (depth > 6 || text.length > LONGEST) return [text];
  const nodes = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    const found = match.groups;
    if (match.index > from) nodes.push(text.slice(from, match.index));
    from = match.index + match[0].length;
    const inner = (tag, one) => h(tag, {}, ...inline(one, depth + 1));
    if (found.code) nodes.push(h("code", {}, found.inside.replace(/\n/g, " ").replace(/^ (.*[^ ].*) $/, "$1")));
    else if (found.formula) nodes.push(h("span", { class: "formula" }, found.formula));
    else if (found.escaped) nodes.push(found.escaped[1]);
    else if (found.label !== undefined) nodes.push(link(found.target.replace(/^<|>$/g, ""), found.label, depth));
    else if (found.bare) nodes.push(link(found.bare, null, depth));
    else if (found.strong) nodes.push(inner("strong", found.bold ?? found.bold2));
    else if (found.em) nodes.push(inner("em", found.slanted ?? found.slanted2));
    else if (found.strike) nodes.push(inner("del", found.gone));
    else if (found.link) nodes.push(link(found.link, null, depth));
    else nodes.push(h("br"));
  }
  if (from < text.length) nodes.push(text.slice(from));
  return nodes;
}

function link(target, label, depth) {
  const shown = label === null ? [target] : inline(label, depth + 1);
  let address;
  try {
    address = new URL(target);
  } catch {
    return h("span", {}, ...shown);
  }
  // The page fetches nothing that an answer names, not even pictures: a person follows the link.
  if (!["https:", "http:", "mailto:"].includes(address.protocol)) return h("span", {}, ...shown);
  const props = { href: address.href, target: "_blank", rel: "noopener noreferrer" };
  return h("a", props, ...(shown.length ? shown : [target]));
}

// --- blocks as elements ---

function element(block) {
  switch (block.kind) {
    case "heading":
      // The page has headings above these: an answer begins below them.
      return h(`h${Math.min(6, block.level + 1)}`, { class: `h${block.level}` }, ...inline(block.text));
    case "rule":
      return h("hr");
    case "quote":
      return h("blockquote", {}, ...block.inner.map(element));
    case "list": {
      const items = block.items.map((item) => h("li", {}, ...itemNodes(item)));
      return h(block.ordered ? "ol" : "ul", block.ordered && block.first !== 1 ? { start: block.first } : {}, ...items);
    }
    case "table":
      return table(block);
    case "formula":
      return h("p", { class: "formula" }, block.text);
    case "code":
      return codeBlock(block.code, block.language, block.whole);
    default:
      return h("p", {}, ...inline(block.text));
  }
}

function itemNodes(item) {
  const [first, ...rest] = item;
  if (!first || first.kind !== "paragraph") return item.map(element);
  const task = /^\[([ xX])\]\s+/.exec(first.text);
  const box = task && h("input", { type: "checkbox", disabled: true, checked: task[1] !== " ", "aria-label": "done" });
  const text = inline(task ? first.text.slice(task[0].length) : first.text);
  const lead = rest.some((one) => one.kind === "paragraph") ? [h("p", {}, box, ...text)] : [box, ...text];
  return [...lead.filter(Boolean), ...rest.map(element)];
}

function table({ head, rows, align }) {
  // Short rows get empty cells, except in a table of unusual width: it would have many more cells than its
  // text has characters.
  const row = (tag, texts) => {
    const shown = head.length > WIDEST ? head.slice(0, texts.length) : head;
    return h("tr", {}, ...shown.map((_, at) => h(tag, { class: align[at] }, ...inline(texts[at] ?? ""))));
  };
  const body = rows.map((texts) => row("td", texts));
  const scroll = { class: "table", tabindex: "0", role: "group", "aria-label": "Table" };
  return h("div", scroll, h("table", {}, h("thead", {}, row("th", head)), h("tbody", {}, ...body)));
}

/** Return a code block with its language and a button that copies it. */
export function codeBlock(code, language = "", whole = true) {
  const text = h("code");
  text.append(...(whole ? highlight(code, language) : [code]));
  const name = h("span", { class: "language" }, language || "text");
  const pre = h("pre", { tabindex: "0", role: "group", "aria-label": language ? `Code, ${language}` : "Code" }, text);
  const box = h("div", { class: "code" });
  box.code = code;
  box.append(h("div", { class: "code-head" }, name, copyButton(() => box.code, "Copy this code")), pre);
  return box;
}

/** A text in Markdown that may grow. */
export class Markdown {
  constructor(className = "markdown") {
    this.element = h("div", { class: className });
    this.text = "";
    this.shown = [];
  }

  update(text) {
    if (text === this.text) return;
    this.text = text;
    const wanted = blocks(text);
    wanted.forEach((block, at) => {
      const before = this.shown[at];
      const same = before && before.kind === block.kind;
      if (same && before.source === block.source) block.node = before.node;
      else if (same && block.kind === "code" && !block.whole && before.language === block.language) {
        block.node = before.node;
        block.node.code = block.code;
        block.node.querySelector("pre > code").textContent = block.code;
      } else {
        block.node = element(block);
        if (before) before.node.replaceWith(block.node);
        else this.element.append(block.node);
      }
    });
    this.shown.slice(wanted.length).forEach((block) => block.node.remove());
    this.shown = wanted;
  }
}
