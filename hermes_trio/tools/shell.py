"""A command line as a shell would read it, as far as that can be known without running it. Pure.

Read are quotes, variables that the line itself sets, `$IFS`, braces, the output of an `echo`, here-documents,
and every command wherever it stands: in a substitution, a loop, a subshell. What only running would tell is
a character that no command line has: `UNKNOWN` for what the line computes, `UNSET` for a variable that it
has from elsewhere. A line that is too long, too deep, or not closed is `Unreadable`; nobody should call it
harmless.

It is no shell. Where one reading is riskier than another it takes the riskier: both branches of an `if`
are read, and a default counts where a variable is not known.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


def named(names: str) -> frozenset[str]:
    """A set of names that stand in one text."""
    return frozenset(names.split())


LONGEST = 128_000
DEEPEST = 24
UNKNOWN, UNSET = "\0", "\1"

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x7f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)*")
_PLAIN = re.compile(r"[^\s;&|()<>\\'\"$`]+")
_ASSIGNS = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=")
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!_-]")
_OPERATOR = re.compile(r"&&|&>>?|\|\||\|&|;;&|;;|;&|[;&|\n]")
_REDIRECT = re.compile(r"<<<|<<-?|[<>]&|>>|>\||<>|&>>?|[<>]")
_ANSI_C = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|(.))", re.S
)
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_KEYWORDS = named("if then else elif fi while until do done { } ! time coproc esac function")
_BINDS = named("export declare local readonly typeset")
_ESCAPED = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "e": "\x1b",
    "E": "\x1b",
}


class Unreadable(ValueError):
    """Nobody can say what a shell would make of this."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command, without its quotes."""

    text: str
    inner: tuple[Command, ...] = ()
    """The commands whose output is a part of it."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command with its words and where it reads and writes."""

    words: tuple[Word, ...]
    redirects: tuple[tuple[str, Word], ...] = ()
    body: Sequence[str] = ()
    is_piped: bool = False
    source: Command | None = None
    """Whose output it reads through a pipe, if that is one command."""
    behind: str = ""
    """What stands behind it: `&`, `|`, `;` and so on."""

    @property
    def texts(self) -> list[str]:
        return [word.text for word in self.words]

    @property
    def text_in(self) -> str | None:
        """What it reads, if that stands in the line. A here-document stands behind the line's end, and is
        known when that has been read."""
        return self.body[0] if self.body else None


def normalised(text: str) -> str:
    """Without what is not seen and does nothing: escape sequences, control and invisible characters; and
    letters that only look different are the same."""
    if len(text) > LONGEST:
        raise Unreadable("it is too long")
    text = _UNSEEN.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))
    return unicodedata.normalize("NFKC", text)


def commands_of(text: str, variables: Mapping[str, str] | None = None, *, depth: int = 0) -> list[Command]:
    """Every command in a line, those within others first. Raises `Unreadable`."""
    reader = _Reader(normalised(text), {"IFS": " \t\n", **(variables or {})}, depth)
    reader.script("")
    return reader.commands


def known_output(command: Command | None) -> str | None:
    """What a command writes, if it only says something; None if that cannot be known."""
    if command is None or not command.words or command.is_piped:
        return None
    name, *rest = command.texts
    name = name.rpartition("/")[2]
    if name == "cat" and not rest and command.text_in is not None:
        return command.text_in
    if name == "echo":
        while rest and re.fullmatch(r"-[neE]+", rest[0]):
            rest = rest[1:]
        return _decoded(" ".join(rest))
    if name == "printf" and rest and rest[0] != "-v":
        form, values = _decoded(rest[0]), rest[1:]
        for value in values:
            form = re.sub(r"%[sbdq]", lambda _, value=value: value, form, count=1)  # type: ignore[misc]
        return UNKNOWN if re.search(r"%[^%]", form) else form
    if name in ("which", "realpath", "readlink") or command.texts[:2] in (["command", "-v"], ["type", "-P"]):
        return rest[-1] if rest else None
    return None


def _decoded(text: str) -> str:
    def put(found: re.Match[str]) -> str:
        hexadecimal = found[1] or found[2] or found[3]
        try:
            if hexadecimal or found[4]:
                return chr(int(hexadecimal, 16) if hexadecimal else int(found[4], 8))
        except (ValueError, OverflowError):
            return UNKNOWN
        return _ESCAPED.get(found[5], found[5] if found[5] in "\\'\"?" else found[0])

    return _ANSI_C.sub(put, text)


@dataclass(slots=True)
class _Pieces:
    """A word while it is read: its characters, and which of them were quoted."""

    split_at: str
    done: list[tuple[str, str]] = field(default_factory=list)
    text: str = ""
    mask: str = ""
    has_quotes: bool = False
    inner: list[Command] = field(default_factory=list)

    def add(self, text: str, *, quoted: bool) -> None:
        self.text += text
        self.mask += ("q" if quoted else "u") * len(text)
        self.has_quotes = self.has_quotes or quoted

    def expand(self, value: str, *, quoted: bool) -> None:
        """Add what a variable or a command stands for: not quoted it may be several words."""
        if quoted:
            self.add(value, quoted=True)
            return
        first, *others = re.split(f"[{re.escape(self.split_at)}]+", value) if self.split_at else [value]
        self.add(first, quoted=False)
        for part in others:
            self.next()
            self.add(part, quoted=False)

    def next(self) -> None:
        if self.text or self.has_quotes:
            self.done.append((self.text, self.mask))
        self.text, self.mask, self.has_quotes = "", "", False


class _Reader:
    """Reads a script from its beginning to its end."""

    def __init__(self, text: str, variables: dict[str, str], depth: int) -> None:
        self.text, self.at, self.depth = text, 0, depth
        self.variables = variables
        self.commands: list[Command] = []
        self._left = 8 * LONGEST
        """So many characters may come of it: variables in variables grow fast."""
        self._bodies: list[tuple[str, bool, list[str]]] = []
        self._cases = 0

    # --- commands ---

    def script(self, closing: str) -> None:
        """Read up to the closing character, or to the end."""
        if self.depth > DEEPEST:
            raise Unreadable("it is too deep")
        opened, source, piped, grouped, cases = 0, None, False, False, self._cases
        while True:
            command, behind = self._command(piped, None if grouped else source)
            if command is not None:
                self.commands.append(command)
            grouped = behind == ")" or (command is None and grouped and behind in ("|", "|&"))
            if behind == ")":
                if opened:
                    opened -= 1
                elif closing == ")":
                    self._cases = cases
                    return
            opened += behind == "("
            if behind == "in" or (behind[:2] in (";;", ";&") and self._cases > cases):
                self._pattern()
            if behind == "":
                if closing:
                    raise Unreadable("a parenthesis is not closed")
                return
            piped = behind in ("|", "|&") or (behind == "(" and piped)
            source = command

    def _command(self, piped: bool, source: Command | None) -> tuple[Command | None, str]:
        words: list[Word] = []
        redirects: list[tuple[str, Word]] = []
        body: list[str] = []
        while True:
            blank = _BLANKS.match(self.text, self.at)
            self.at = blank.end() if blank else self.at
            rest = self.text[self.at : self.at + 3]
            if rest[:1] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
                continue
            if rest[:2] in ("<(", ">("):
                inner = self._substitution(2)
                words.append(Word(f"/dev/fd/{UNKNOWN}", inner))
                continue
            if rest[:2] == "((" and not words:
                self._arithmetic()
                continue
            if rest[:1] in ("<", ">") or rest[:2] == "&>":
                self._redirect(redirects, body)
                continue
            behind = self._operator()
            if behind is not None:
                break
            before = self.at
            found = self._word(assigns=not words or words[0].text in _BINDS)
            if self.at == before:
                raise Unreadable("a character stands where none can")
            if len(found) == 1 and found[0].text.isdigit() and self.text[self.at : self.at + 1] in ("<", ">"):
                continue  # the number of a descriptor
            raw = self.text[before : self.at]
            if not words and raw in _KEYWORDS:
                self._cases -= raw == "esac" and self._cases > 0
                continue
            if not words and raw == "[[":
                found += self._condition()
            words += found
            if raw == "in" and len(words) == 3 and words[0].text == "case":
                self._cases += 1
                behind = "in"
                break
        return self._made(words, redirects, body, piped, source, behind), behind

    def _made(
        self,
        words: list[Word],
        redirects: list[tuple[str, Word]],
        body: list[str],
        piped: bool,
        source: Command | None,
        behind: str,
    ) -> Command | None:
        while words and (found := _ASSIGNS.match(words[0].text)):
            self.variables[found[1]] = words.pop(0).text[found.end() :]
        self._bind([word.text for word in words])
        if not words and not redirects:
            return None
        if behind == "\n":
            self._read_bodies()
        return Command(tuple(words), tuple(redirects), body, piped, source if piped else None, behind)

    def _bind(self, texts: list[str]) -> None:
        """What a command says of variables."""
        name, rest = (texts[0], texts[1:]) if texts else ("", [])
        if name in _BINDS:
            for text in rest:
                if found := _ASSIGNS.match(text):
                    self.variables[found[1]] = text[found.end() :]
        elif name in ("read", "mapfile", "readarray", "getopts"):
            self.variables.update((text, UNKNOWN) for text in rest if not text.startswith("-"))
        elif name in ("for", "select") and len(rest) > 1:
            self.variables[rest[0]] = rest[2] if len(rest) == 3 else UNKNOWN
        elif name == "printf" and rest[:1] == ["-v"] and len(rest) > 1:
            self.variables[rest[1]] = UNKNOWN
        elif name == "set" and "--" in rest:
            given = rest[rest.index("--") + 1 :]
            self.variables |= {str(number): text for number, text in enumerate(given, start=1)}
            self.variables |= dict.fromkeys("@*", " ".join(given))

    def _operator(self) -> str | None:
        """The operator that ends a command here; None if it goes on."""
        if self.at >= len(self.text):
            self._read_bodies()
            return ""
        if self.text[self.at] in "()":
            self.at += 1
            return self.text[self.at - 1]
        found = _OPERATOR.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        if found[0] == "\n":
            self._read_bodies()
        return found[0]

    def _redirect(self, redirects: list[tuple[str, Word]], body: list[str]) -> None:
        found = _REDIRECT.match(self.text, self.at)
        assert found is not None  # noqa: S101 - the caller looked
        self.at = found.end()
        blank = _BLANKS.match(self.text, self.at)
        self.at = blank.end() if blank else self.at
        if self.text[self.at : self.at + 2] in ("<(", ">("):
            redirects.append((found[0], Word(f"/dev/fd/{UNKNOWN}", self._substitution(2))))
            return
        before = self.at
        words = self._word()
        if not words:
            raise Unreadable("a redirection leads nowhere")
        if found[0] in ("<<", "<<-"):
            raw = self.text[before : self.at]
            self._bodies.append((words[0].text, any(c in raw for c in "'\"\\"), body))
        elif found[0] == "<<<":
            body[:] = [words[0].text]
        else:
            redirects.append((found[0], words[0]))

    def _read_bodies(self) -> None:
        """The here-documents that begin behind this line."""
        bodies, self._bodies = self._bodies, []
        for delimiter, literal, body in bodies:
            lines = []
            while self.at < len(self.text):
                line, _, _ = self.text[self.at :].partition("\n")
                self.at += len(line) + 1
                if line.lstrip("\t") == delimiter:
                    break
                lines.append(line)
            self.at = min(self.at, len(self.text))
            text = "\n".join(lines)
            body[:] = [text if literal else self._within(text)]

    def _pattern(self) -> None:
        """The pattern of a case, up to its parenthesis; or the end of the cases."""
        blank = re.compile(r"(?:\s|\\\n|#[^\n]*\n)*").match(self.text, self.at)
        self.at = blank.end() if blank else self.at
        if re.compile(r"esac\b").match(self.text, self.at):
            return
        found = re.compile(r"\(?(?:[^()'\"\\]|\\.|'[^']*'|\"[^\"]*\")*\)", re.S).match(self.text, self.at)
        if found is None:
            raise Unreadable("a case is not closed")
        self.at = found.end()

    def _condition(self) -> list[Word]:
        """What stands between `[[` and `]]`."""
        end = re.compile(r"(?:[^\\'\"\]]|\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"|\](?!\]))*\]\]", re.S).match(
            self.text, self.at
        )
        if end is None:
            raise Unreadable("a condition is not closed")
        text, self.at = self.text[self.at : end.end()], end.end()
        return [Word(self._within(text))]

    # --- words ---

    def _word(self, *, assigns: bool = False) -> list[Word]:
        pieces = _Pieces(self.variables["IFS"] + " \t\n")
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "(" and assigns and _ASSIGNS.fullmatch(pieces.text):
                pieces.split_at = ""
                pieces.add(self._array(), quoted=True)
            elif char == "(" and pieces.text[-1:] in tuple("@?*+!") and pieces.mask[-1:] == "u":
                end = self.text.find(")", self.at)
                if end < 0:
                    raise Unreadable("a pattern is not closed")
                pieces.add(self.text[self.at : end + 1], quoted=True)
                self.at = end + 1
            elif char.isspace() or char in ";&|()<>":
                break
            elif char == "\\":
                pieces.add(self.text[self.at + 1 : self.at + 2].replace("\n", ""), quoted=True)
                self.at += 2
            elif char == "'":
                pieces.add(self._up_to("'", self.at + 1), quoted=True)
            elif char == '"':
                self.at += 1
                self._double(pieces, '"')
            elif char == "$":
                self._dollar(pieces, quoted=False)
            elif char == "`":
                self._backtick(pieces, quoted=False)
            else:
                plain = _PLAIN.match(self.text, self.at)
                assert plain is not None  # noqa: S101 - all that is special was looked for
                pieces.add(plain[0], quoted=False)
                self.at = plain.end()
                if assigns and _ASSIGNS.match(pieces.text):
                    pieces.split_at = ""  # the value of a variable is one word
        pieces.next()
        return self._finished(pieces, assigns=assigns)

    def _finished(self, pieces: _Pieces, *, assigns: bool) -> list[Word]:
        inner = tuple(pieces.inner)
        words = []
        for text, mask in pieces.done:
            for one, its_mask in [(text, mask)] if pieces.split_at == "" else self._braced(text, mask):
                home = self.variables.get("HOME", "~")
                if its_mask[:1] == "u" and (one == "~" or one.startswith("~/")):
                    one = home + one[1:]
                elif assigns and (found := _ASSIGNS.match(one)) and one[found.end() :][:2] in ("~", "~/"):
                    one = one[: found.end()] + home + one[found.end() + 1 :]
                self._spend(len(one) + 1)
                words.append(Word(one, inner))
        return words

    def _braced(self, text: str, mask: str) -> list[tuple[str, str]]:
        """What braces stand for: `{rm,-rf}` is two words."""
        done: list[tuple[str, str]] = []
        waiting, left = [(text, mask)], 256
        while waiting:
            one, its_mask = waiting.pop()
            pairs = _BRACES.finditer(one)
            found = next((each for each in pairs if its_mask[each.start()] == "u"), None)
            if found is None:
                done.append((one, its_mask))
                continue
            left -= 1
            if not left:
                raise Unreadable("its braces stand for too much")
            for part in reversed(found[1].split(",")):
                made = one[: found.start()] + part + one[found.end() :]
                waiting.append((made, "u" * len(made)))
        return done

    def _spend(self, characters: int) -> None:
        self._left -= characters
        if self._left < 0:
            raise Unreadable("too much comes of it")

    def _up_to(self, char: str, start: int) -> str:
        end = self.text.find(char, start)
        if end < 0:
            raise Unreadable("a quote is not closed")
        self.at = end + 1
        return self.text[start:end]

    def _double(self, pieces: _Pieces, closing: str) -> None:
        """What stands in double quotes, or in a place that is read like them."""
        pieces.has_quotes = True
        while True:
            if self.at >= len(self.text):
                if closing:
                    raise Unreadable("a quote is not closed")
                return
            char = self.text[self.at]
            if char == closing:
                self.at += 1
                return
            if char == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                pieces.add(
                    {"\n": ""}.get(following, following if following in '$`"\\' else char + following),
                    quoted=True,
                )
                self.at += 2
            elif char == "$":
                self._dollar(pieces, quoted=True)
            elif char == "`":
                self._backtick(pieces, quoted=True)
            else:
                end = re.compile(r'[^\\$`"]+|"').match(self.text, self.at)
                assert end is not None  # noqa: S101 - all that is special was looked for
                pieces.add(end[0], quoted=True)
                self.at = end.end()

    def _within(self, text: str) -> str:
        """A text with its variables and commands put in, as in a here-document."""
        outer, at = self.text, self.at
        self.text, self.at, self.depth = text, 0, self.depth + 1
        if self.depth > DEEPEST:
            raise Unreadable("it is too deep")
        pieces = _Pieces("")
        self._double(pieces, "")
        self.text, self.at, self.depth = outer, at, self.depth - 1
        self._spend(len(pieces.text))
        return pieces.text

    def _array(self) -> str:
        self.at += 1
        values: list[str] = []
        while True:
            blank = re.compile(r"(?:\s|#[^\n]*\n)*").match(self.text, self.at)
            self.at = blank.end() if blank else self.at
            if self.text[self.at : self.at + 1] == ")":
                self.at += 1
                return " ".join(values)
            before = self.at
            values += [word.text for word in self._word()]
            if self.at == before:
                raise Unreadable("an array is not closed")

    # --- what is put in ---

    def _dollar(self, pieces: _Pieces, *, quoted: bool) -> None:
        rest = self.text[self.at + 1 : self.at + 3]
        if rest[:1] == "'" and not quoted:
            found = re.compile(r"((?:[^'\\]|\\.)*)'", re.S).match(self.text, self.at + 2)
            if found is None:
                raise Unreadable("a quote is not closed")
            pieces.add(_decoded(found[1]), quoted=True)
            self.at = found.end()
        elif rest[:1] == '"' and not quoted:
            self.at += 2
            self._double(pieces, '"')
        elif rest == "((":
            self.at += 1
            self._arithmetic()
            pieces.add(UNKNOWN, quoted=quoted)
        elif rest[:1] == "(":
            self._put_output(pieces, self._substitution(2), quoted=quoted)
        elif rest[:1] == "{":
            self._parameter(pieces, quoted=quoted)
        elif found := _NAME.match(self.text, self.at + 1):
            self.at = found.end()
            value = self._value(found[0])
            self._spend(len(value or ""))
            pieces.expand(UNSET if value is None else value, quoted=quoted and found[0] != "@")
        else:
            pieces.add("$", quoted=quoted)
            self.at += 1

    def _value(self, name: str) -> str | None:
        """What a variable holds. What a script is given stands for nothing where it was given nothing."""
        if name in self.variables:
            return self.variables[name]
        if name in "#?$!-":
            return UNKNOWN
        return "" if name.isdigit() or name in "@*" else None

    def _parameter(self, pieces: _Pieces, *, quoted: bool) -> None:
        found = re.compile(r"\$\{([#!]?)(\w+|[@*#?$!-])").match(self.text, self.at)
        end = self._closing_brace(found.end() if found else self.at + 2)
        rest = self.text[found.end() if found else self.at + 2 : end]
        self.at = end + 1
        value = self._value(found[2]) if found else UNKNOWN
        if found and found[1] == "!" and value is not None:
            value = self._value(value)
        elif found and found[1] == "#":
            value = UNKNOWN
        elif found and rest.startswith(("[@]", "[*]")):
            quoted = quoted and rest.startswith("[*]")
        elif rest[:1] in (":", "-", "=", "+", "?") and (kind := rest.lstrip(":")[:1]) in tuple("-=+?"):
            other = self._within(rest[rest.index(kind) + 1 :])
            if kind == "+":
                value = other if value is None or value else ""
            elif kind != "?":
                value = value or other
        elif rest:
            self._within(rest)
            value = UNKNOWN
        self._spend(len(value or ""))
        pieces.expand(UNSET if value is None else value, quoted=quoted)

    def _closing_brace(self, start: int) -> int:
        depth = 1
        for found in re.compile(r"\\.|'[^']*'|[{}]", re.S).finditer(self.text, start):
            depth += {"{": 1, "}": -1}.get(found[0], 0)
            if not depth:
                return found.start()
        raise Unreadable("a brace is not closed")

    def _arithmetic(self) -> None:
        """Skip a computation, and read the commands in it."""
        depth = 0
        for found in re.compile(r"[()]").finditer(self.text, self.at):
            depth += 1 if found[0] == "(" else -1
            if not depth:
                text, self.at = self.text[self.at : found.end()], found.end()
                self._within(text)
                return
        raise Unreadable("a parenthesis is not closed")

    def _substitution(self, opening: int) -> tuple[Command, ...]:
        """The commands of which the output is taken."""
        self.at += opening
        before, bodies, self._bodies = len(self.commands), self._bodies, []
        self.depth += 1
        self.script(")")
        self.depth -= 1
        self._bodies = bodies
        return tuple(self.commands[before:])

    def _backtick(self, pieces: _Pieces, *, quoted: bool) -> None:
        found = re.compile(r"((?:[^`\\]|\\.)*)`", re.S).match(self.text, self.at + 1)
        if found is None:
            raise Unreadable("a quote is not closed")
        self.at = found.end()
        inside = _Reader(re.sub(r"\\([`$\\])", r"\1", found[1]), self.variables, self.depth + 1)
        inside._left = self._left
        inside.script("")
        self._left = inside._left
        self.commands += inside.commands
        self._put_output(pieces, tuple(inside.commands), quoted=quoted)

    def _put_output(self, pieces: _Pieces, commands: tuple[Command, ...], *, quoted: bool) -> None:
        pieces.inner += commands
        only = commands[0] if len(commands) == 1 and not commands[0].redirects else None
        output = known_output(only)
        pieces.expand(UNKNOWN if output is None else output.rstrip("\n"), quoted=quoted)
