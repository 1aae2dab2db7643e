"""Secrets after the name of a secret: `password=`, `"api_key": `, `--token `, `<secret>`. Pure functions.

A name alone is not enough: prose, code and documentation mention tokens and passwords too. So the value is
examined: a word of a sentence, a call, a variable or a type is no secret. The time is linear, as in
`secret_shapes`: a value of more than `LONGEST_PLAIN` characters is a secret without further examination.
"""

from __future__ import annotations

import re

from .secret_tokens import is_generated
from .secret_words import MASK, NEXT_LINE, STRONG, STRONG_WORDS, lowered, masked_after, places

LONGEST_PLAIN = 200
"""Characters up to which a value is examined; a longer one after such a name is masked."""
SHORTEST = 4

_NAME = re.compile(rf"(?i:{STRONG})[\w-]{{0,40}}")
_SIGN = re.compile(
    r"""(?P<close>\\{0,4}["'`]?\]?)[ \t]{0,8}(?P<sign>=>|:=|={1,3}|:(?:[ ][>|][+-]?(?=\n))?|%3[dD])"""
    rf"""(?:[ \t]|{NEXT_LINE}){{0,8}}"""
    r"""(?P<open>\\{0,4}["']?)"""
)
_GAP = rf"(?:[ \t]|{NEXT_LINE}){{0,40}}"
_BESIDE = re.compile(
    rf"""\\{{0,4}}["']?(?:,?{_GAP}\\{{0,4}}["']?value\\{{0,4}}["']?"""
    rf"""[ ]{{0,4}}[:=][ ]{{0,4}}(?P<open>\\{{0,4}}["']?)"""
    rf"""|</key>{_GAP}<string>|(?P<form>"{NEXT_LINE})(?:content-[^\n]{{1,200}}{NEXT_LINE})?{NEXT_LINE})"""
    r"""(?P<secret>[^\s"'<>\\{$][^\s"'<>]{3,})"""
)
"""A value that stands beside its name: `{"name": "API_KEY", "value": "…"}`, in a property list, in a form."""
_BEFORE_FORM = re.compile(r'name="[\w-]{0,40}\Z')
_IN_ELEMENT = re.compile(r"[\w:.-]{0,40}>(?P<secret>[^<\s][^<\n]{3,})(?=</)")
_BEFORE_ELEMENT = re.compile(r"<[\w:.-]{0,40}\Z")
_IS = re.compile(
    r"""[ ](?:is|was|ist|lautet)[:]?[ ]["'`]?"""
    r"""(?P<secret>(?=[^\s"'`]{0,40}\d)(?=[^\s"'`]{0,40}[A-Za-z])[^\s"'`]{8,})"""
)
_FLAG = re.compile(
    r"""(?i)-(?:password|passwd|passphrase|pass|token|secret|api-?key|access-key)[ ]+"""
    r"""["']?(?![-"'<$])(?=(?P<value>[^\s"']{4,}))"""
)
_BEFORE_FLAG = re.compile(r"(?<!\S)(?:--?(?:[a-z]+-){0,3}[a-z]*)?\Z")
_SET = re.compile(
    rf"(?i)(?:set[ ]+-[a-z]{{1,4}}|setenv)[ ]+(?=[\w-]{{0,60}}?(?:{STRONG}))\w{{1,60}}[ ]+"
    r"['\"]?(?P<secret>(?![$<])[^\s'\"]{4,})"
)
_DEFINE = re.compile(
    rf"(?i)define\(\s{{0,4}}['\"](?=\w{{0,60}}?(?:{STRONG}|_salt|_key))\w{{1,60}}['\"],\s{{0,4}}"
    r"(?P<quote>['\"])(?P<secret>[^'\"\n]{4,})(?P=quote)"
)
_MNEMONIC = re.compile(
    r"(?:mnemonic|(?:seed|recovery) phrase)\W{1,4}(?P<secret>(?:[a-z]{3,8}[ ]){11,23}[a-z]{3,8})",
    re.IGNORECASE,
)
_WEAK_WORDS = ("key", "code", "sess", "sid", "bearer", "private")
_WEAK = re.compile(
    r"(?:(?P<variable>(?<=[a-zA-Z0-9]_)KEY)|(?<=[?&])(?i:key|code)|(?i:sess(?:ion)?[_-]?(?:id|key)?|(?<![a-z])sid)"
    r"|(?<=-)(?i:key)|(?i:bearer|private))"
    r"""\\{0,4}["']?[ ]{0,2}[=:][ ]{0,2}\\{0,4}["']?(?=(?P<value>[\w.+/%=-]{16,200}))"""
)
_WEAK_REST = re.compile(r"[\w.+/%=-]*")
"""Names after which only a value that looks generated is a secret."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_OUR_ID = re.compile(r"[0-9]{8}_[0-9]{6}_[0-9a-f]{8}")
_HARMLESS_KEY = re.compile(
    r"(?i)(?:public|primary|foreign|idempotency|cache|sort|partition|message|dedup|unique|index|lookup|row|object|hash"
    r"|group|range|routing|session|own|chat|peer|state|registry|hkey|site)[_-]\Z"
)
_IN_A_WORD = r"""(?:[^\s"'`&,;)}\]<>\\]|[&,;](?![\w.-]{0,40}[=:]|\s|\Z|["')\]}]))"""
"""A character of a value. A comma or another separator ends the value if something else begins after it;
otherwise it is a part of a password."""
_WORD = re.compile(_IN_A_WORD + "{1,201}")
_TO_SPACE = re.compile(r"""[^\s"'`]+""")
_REST = re.compile(_IN_A_WORD + "*")
_ENV_LINE = re.compile(r"(?:^|\n)(?:\d{1,9}\|)?[ \t]{0,20}(?:export[ \t]{1,4})?[A-Za-z_][\w.-]{0,80}\Z")

_EXPRESSION = re.compile(
    r"[A-Za-z_$][\w.$?!-]*(?:\(|\[|\{|::|->)"
    r"|(?:self|this|cls|os|env|config|settings|args|opts|request|req|ctx|params|data|app"
    r"|user|response|res|result|state|props|event|client|session)(?:\.[A-Za-z_]\w*)+\Z"
)
_PLACE = re.compile(r"(?:~|\.{1,2}|[A-Za-z]:)?[/\\](?:[\w.@-]+[/\\]?)+\Z|[a-z][a-z0-9+.-]*://\S+\Z")
_BLANK = re.compile(
    r"(?i)\*+|x{4,}|\.{3,}.*|[<$%{\[(].*|your[_ -].*|none|null|nil|true|false|undefined|str(?:ing)?"
    r"|int(?:eger)?|bool(?:ean)?|number|bytes|any|object|optional|required|missing|invalid|wrong|expired|unknown|empty"
    r"|unset|redacted|changed|needed|refused|bearer|basic|default|password|secret|token|self|this|void|float|text"
)
_PROSE_WORD = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*[.!?]?\Z")


def masked_names(text: str) -> str:
    """Return the text with `***` in place of the values after names of secrets."""
    kept: list[str] = []
    done = 0
    for at in places(lowered(text), STRONG_WORDS):
        name = _NAME.match(text, at) if at >= done else None
        start, end = _value(text, name) if name is not None else (at, at)
        if end - start >= SHORTEST:
            kept += [text[done:start], MASK]
            done = end
    text = "".join(kept) + text[done:] if kept else text
    text = masked_after(text, ("-pass", "-token", "-secret", "-api", "-access"), _FLAG, _end_of_flag)
    text = masked_after(text, ("set ", "setenv "), _SET)
    text = masked_after(text, ("define(",), _DEFINE)
    text = masked_after(text, ("mnemonic", "seed phrase", "recovery phrase"), _MNEMONIC)
    return masked_after(text, _WEAK_WORDS, _WEAK, _end_of_generated)


def _value(text: str, name: re.Match[str]) -> tuple[int, int]:
    """Return the start and the end of the secret that belongs to a name; the same place if there is none."""
    if sign := _SIGN.match(text, name.end()):
        end = _end_of_value(text, name, sign)
        if end > sign.end():
            return sign.end(), end
    if beside := _BESIDE.match(text, name.end()):
        is_form = _BEFORE_FORM.search(text, max(0, name.start() - 46), name.start())
        if not _is_plain(beside["secret"], name[0]) and (is_form or beside["form"] is None):
            return beside.span("secret")
    if _BEFORE_ELEMENT.search(text, max(0, name.start() - 41), name.start()):
        element = _IN_ELEMENT.match(text, name.end())
        return element.span("secret") if element else (name.end(), name.end())
    if name[0].casefold().startswith("pass") and (stated := _IS.match(text, name.end())):
        return stated.span("secret")
    return name.end(), name.end()


def _end_of_flag(text: str, flag: re.Match[str]) -> int:
    is_flag = _BEFORE_FLAG.search(text, max(0, flag.start() - 60), flag.start())
    return flag.end() if not is_flag or _is_plain(flag["value"], "") else flag.end("value")


def _end_of_generated(text: str, found: re.Match[str]) -> int:
    """Return the end of a value that looks generated."""
    value = found["value"]
    is_uuid = found["variable"] and _UUID.fullmatch(value)
    is_harmless = _OUR_ID.fullmatch(value) or _HARMLESS_KEY.search(
        text, max(0, found.start() - 16), found.start()
    )
    if is_harmless or not (is_uuid or is_generated(value)):
        return found.end()
    return _WEAK_REST.match(text, found.end("value")).end()  # type: ignore[union-attr]


def _end_of_value(text: str, name: re.Match[str], found: re.Match[str]) -> int:
    """Return the end of the secret that begins at the end of the match; its start if it is no secret."""
    start, quote = found.end(), found["open"]
    if quote.strip("\\"):
        return _end_of_quoted(text, start, quote)
    is_block = len(found["sign"]) > 2  # `: >-` of YAML, or `%3D`
    if quote or ("\n" in text[found.end("sign") : start] and not is_block):
        return start  # backslashes alone, or the name of a mapping
    if _is_env_line(text, name, found):
        word = _TO_SPACE.match(text, start)
        value = word[0].rstrip(",;)") if word else ""
        return start if _is_plain(value, name[0]) else start + len(value)
    word = _WORD.match(text, start)
    if word is None:
        return start
    if len(word[0]) > LONGEST_PLAIN:
        return _REST.match(text, start).end()  # type: ignore[union-attr]
    if "]" in found["close"] and word[0].isidentifier():
        return start  # a variable that is assigned to a mapping
    if found["sign"].startswith("%"):
        return start + len(re.split("%26|%23", word[0], flags=re.IGNORECASE)[0])
    is_spaced = found["sign"] == ":" or text[start - 1] == " "
    if _is_plain(word[0], name[0]) or (is_spaced and _is_prose(text, word)):
        return start
    return word.end()


def _is_env_line(text: str, name: re.Match[str], found: re.Match[str]) -> bool:
    """Return whether the match is in a line `NAME=value`, whose value may have every character but a
    space."""
    if found["sign"] != "=" or found["close"] or found.end() != found.end("sign"):
        return False
    return _ENV_LINE.search(text, max(0, found.start() - 110), found.end("sign") - 1) is not None


def _end_of_quoted(text: str, start: int, quote: str) -> int:
    """Return the place of the closing quotation mark; the end of the word if there is none on the line."""
    close = text.find(quote, start)
    while close > start and len(quote) == 1 and text[close - 1] == "\\":
        close = text.find(quote, close + 1)
    if close < 0 or "\n" in text[start:close]:
        word = _TO_SPACE.match(text, start)
        return word.end() if word else start
    value = text[start:close]
    return start if len(value) <= LONGEST_PLAIN and _BLANK.fullmatch(value) else close


def _is_plain(value: str, name: str) -> bool:
    """Return whether an unquoted value is a placeholder, an expression, a path or an address."""
    return len(value) <= LONGEST_PLAIN and bool(
        re.fullmatch(rf"(?:[\w.]*[_.])?{re.escape(name)}\.?", value, re.IGNORECASE)
        or _BLANK.fullmatch(value)
        or _EXPRESSION.match(value)
        or (_PLACE.match(value) and not re.search(r"[+=]", value))
    )


def _is_prose(text: str, word: re.Match[str]) -> bool:
    """Return whether the value is a word of a sentence that continues."""
    if not _PROSE_WORD.match(word[0]):
        return False
    follows = text[word.end() : word.end() + 3]
    return len(follows) > 1 and follows[0] in " ,;)" and follows[1] not in "#\n\r&|"
