// Colours for code in common languages: comments, strings, numbers and keywords. It knows no grammar; in the
// worst case a word has the wrong colour.

const LONGEST = 30000;

const WORDS = new Set(
  (
    "abstract and as assert async await break case catch class const continue def default del do done echo elif else " +
    "end enum esac except exec export extends extern fi final finally fn for from func function global go if impl " +
    "implements import in include inline instanceof interface is lambda let local loop match mod module mut namespace " +
    "new nil none None not null nullptr of operator or override package pass private protected pub public raise range " +
    "readonly ref return self sizeof static struct super switch then this throw trait true True false False try type " +
    "typeof undefined union unless unsafe until use using var virtual void when where while with yield " +
    "select insert update delete create drop alter table index into values join left right inner outer on group by " +
    "order limit having distinct set begin commit rollback primary key foreign references"
  ).split(" "),
);

const HASH = new Set("python py sh bash shell zsh console yaml yml toml ruby rb perl make makefile dockerfile r ini conf".split(" "));
const DASH = new Set("sql lua haskell hs ada".split(" "));
const NONE = new Set(["", "text", "txt", "plain", "markdown", "md", "diff", "log"]);

const STRING = "\"\"\"[\\s\\S]*?\"\"\"|'''[\\s\\S]*?'''|\"(?:[^\"\\\\\\n]|\\\\.)*\"|'(?:[^'\\\\\\n]|\\\\.)*'|`(?:[^`\\\\]|\\\\.)*`";

function pattern(language) {
  const comment = HASH.has(language)
    ? "(?<=^|\\s)#[^\\n]*"
    : DASH.has(language)
      ? "--[^\\n]*|/\\*[\\s\\S]*?\\*/"
      : "//[^\\n]*|/\\*[\\s\\S]*?\\*/|<!--[\\s\\S]*?-->";
  return new RegExp(`(?<comment>${comment})|(?<string>${STRING})|(?<number>\\b\\d[\\w.]*\\b)|(?<word>[A-Za-z_$][\\w$]*)`, "gm");
}

/** Return the nodes of a piece of code. */
export function highlight(code, named) {
  const language = named.toLowerCase();
  if (language === "diff") return diff(code);
  if (NONE.has(language) || code.length > LONGEST) return [code];
  const nodes = [];
  let from = 0;
  const add = (kind, match) => {
    if (match.index > from) nodes.push(code.slice(from, match.index));
    nodes.push(span(kind, match[0]));
    from = match.index + match[0].length;
  };
  const anyCase = language === "sql";
  for (const match of code.matchAll(pattern(language))) {
    const { comment, string, number, word } = match.groups;
    if (comment) add("comment", match);
    else if (string) add("string", match);
    else if (number) add("number", match);
    else if (WORDS.has(anyCase ? word.toLowerCase() : word)) add("word", match);
    else if (code[match.index + word.length] === "(") add("call", match);
  }
  nodes.push(code.slice(from));
  return nodes;
}

function diff(code) {
  return code.split(/(?<=\n)/).map((line) => {
    const kind = { "+": "added", "-": "removed", "@": "comment" }[line[0]];
    return kind ? span(kind, line) : line;
  });
}

function span(kind, text) {
  const element = document.createElement("span");
  element.className = `code-${kind}`;
  element.textContent = text;
  return element;
}
