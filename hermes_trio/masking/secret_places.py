"""Secrets that are recognised by what stands around them: keys in PEM form, headers, addresses, options of
commands, and files of passwords. Pure functions.

Every function takes linear time: plain words are searched for first, and the pattern at a word either matches
and consumes the characters, or fails after a bounded number of them. A new pattern must do the same; the
tests measure it.
"""

from __future__ import annotations

import base64
import binascii
import re

from .secret_words import MASK, NEXT_LINE, masked_after

# --- keys in PEM form ---

_KIND = r"[A-Za-z0-9 ]{0,40}(?:PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1) ?-{4,5}"
_PEM = re.compile(rf"-{{4,5}} ?BEGIN {_KIND}(?:[\w+/=\s\\:,.()|~]|-(?!-))*+(?:-{{4,5}} ?END {_KIND})?")
_PEM_END = re.compile(rf"-{{4,5}} ?END {_KIND}")
_PEM_BODY = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\n\r\\ |")
_GUTTER_BEFORE = re.compile(r"\n(?:[\w./~-]{1,120}:)?\d{1,9}[|:-]\Z")
_PUTTY = re.compile(
    rf"(?i:private-lines): ?\d{{1,4}}(?P<secret>(?:{NEXT_LINE}[A-Za-z0-9+/=]{{1,64}}(?=\s|\Z)){{1,400}})"
)

# --- headers and addresses ---

_QUOTE = r"""\\{0,4}["'`]?"""
_PAIR = rf"""{_QUOTE}(?:\s{{0,8}}[:=]\s{{0,8}}|,[ \t]{{0,8}}b?(?=\\{{0,4}}["'][^"']{{0,40}}[ =])){_QUOTE}"""
"""Between the name and the value of a header: a colon, or the comma of a pair."""
_AUTHORIZATION = re.compile(
    rf"(?i)(?<![a-z])authorization{_PAIR}(?P<secret>"
    r"""(?:digest|oauth|hawk|mac|aws4-[\w-]{1,20})[ \t][^\n]+"""
    r"""|(?:[a-z][\w-]{0,40}[ \t]+)?+(?![<{$(]|[a-z][\w.]{0,40}[(\[]|[fbr]{1,2}["'])[^\s"'`,\\]+)"""
)
_COOKIE = re.compile(rf"(?i)cookie{_PAIR}(?P<secret>[\w!#$%&*+.^|~-]{{1,100}}=[^\n\"'`\\]*)")
_SCHEME = re.compile(r"(?i)(?<![a-z])(?P<scheme>bearer|basic|ssws)[ \t]{1,8}(?=(?P<value>[\w.~+/=-]{8,}))")
_ADDRESS = re.compile(r"""://[^\s"'<>`\\|]+""")
_GO_DSN = re.compile(r"(?<![\w.-])([\w.-]{1,64}:)[^\s@/:]{1,128}(?=@(?:tcp|unix)\()")
_ORACLE = re.compile(r"jdbc:oracle:[a-z]{2,5}:[\w.-]{1,64}/(?P<secret>[^\s@/]{4,128})@")
_HOOK = re.compile(
    r"(?:hooks\.slack\.com/(?:services|workflows|triggers)/|/api/webhooks/\d{1,30}/|/webhookb2/)(?P<secret>[\w/@.-]+)"
)
_HOOK_WORDS = ("hooks.slack.com/", "/api/webhooks/", "/webhookb2/")

# --- options of commands ---

_OPTIONS = {
    "sshpass": r"sshpass[ ]+-p[ ]*",
    "redis-cli": r"redis-cli\b[^\n|;]{0,120}?[ ](?:-a|--pass)[ ]+",
    "ldap": r"ldap(?:search|add|modify|delete|whoami|passwd)\b[^\n|;]{0,200}?[ ]-w[ ]+",
    "login": r"(?<=[ ])login\b[^\n|;]{0,120}?[ ]-p[ ]+",
    "mysql mariadb": r"(?:mysql|mariadb)[a-z-]{0,10}[ ][^\n|;]{0,120}?-p(?=\S)",
    "smbclient": r"smbclient\b[^\n|;]{0,120}?[ ]-U[ ]+['\"]?[^\s%]{1,64}%",
    "htpasswd": r"htpasswd[ ]+-[a-zA-Z]{0,6}b[a-zA-Z]{0,6}[ ]+\S{1,120}[ ]+\S{1,64}[ ]+",
    "curl wget": r"(?:curl|wget)\b[^\n]{0,200}?[ ](?:-u|--user|--proxy-user)[ =]?['\"]?[^\s:\"']{1,64}:",
    "pass:": r"(?<=[ '\"=])pass:",
    "identified": r"identified (?:with[ ]\S{1,40}[ ])?by[ ]{1,4}(?:password[ ]{1,4})?(?=['\"])",
    "password": r"(?<=[a-z] )password[ ](?=['\"])",
}
"""Commands and statements of SQL that take a password after an option of one letter, or after a word that a
sentence may have too. The words to look for, and the pattern of everything before the secret."""
_IN_OPTIONS = [
    (words.split(), re.compile(rf"(?i:(?<![a-z]){before})['\"]?(?P<secret>(?![-<$\s'\"])[^\s'\"]{{4,}})"))
    for words, before in _OPTIONS.items()
]

# --- files of passwords ---

_GAP = rf"(?:[ \t]|{NEXT_LINE}){{1,8}}"
_NETRC = re.compile(
    rf"(?:login{_GAP}\S{{1,100}}{_GAP}(?:account{_GAP}\S{{1,100}}{_GAP})?"
    rf"|machine[ \t]{{1,8}}\S{{1,100}}{_GAP})"
    r"password[ \t]{1,8}(?P<secret>\S+)"
)
_PORT = re.compile(r":(?:\d{4,5}|\*):")
_PGPASS = re.compile(
    r"(?m)(?:^|(?<=[|( ])|(?<=\d:))(?=[\w.*:-]{0,200}?[g-zG-Z*_])"  # no address of IPv6
    r"(?P<before>(?:[\w.-]{1,100}|\*):(?:\d{4,5}|\*):(?:[\w-]{1,64}|\*):(?:[\w-]{1,64}|\*):)"
    r"(?:\\:|[^\s:()]){4,}+(?=[\s)]|\Z)"
)
_COOKIE_JAR = re.compile(
    r"\t(?:true|false)\t\S{1,255}\t(?:true|false)\t\d{1,20}\t[^\t\n]{1,255}\t(?P<secret>\S+)", re.IGNORECASE
)
_JWK = re.compile(r'"(?:d|k|p|q|dp|dq|qi)"\s{0,4}:\s{0,4}"(?P<secret>[\w-]{22,})"')


def masked_places(text: str) -> str:
    """Return the text with `***` in place of everything that stands where a secret stands."""
    if "-BEGIN" in text or "- BEGIN" in text or "-END" in text or "- END" in text:
        text = _without_key_ends(_PEM.sub(MASK, text))
    text = masked_after(text, ("private-lines:",), _PUTTY)
    text = masked_after(text, ("authorization",), _AUTHORIZATION)
    text = masked_after(text, ("cookie",), _COOKIE)
    if "://" in text:
        text = _ADDRESS.sub(_address, text)
        text = masked_after(text, _HOOK_WORDS, _HOOK)
    text = masked_after(text, ("bearer", "basic", "ssws"), _SCHEME, _end_of_credential)
    for words, option in _IN_OPTIONS:
        text = masked_after(text, words, option)
    text = masked_after(text, ("login", "machine"), _NETRC)
    if "@tcp(" in text or "@unix(" in text:
        text = _GO_DSN.sub(rf"\1{MASK}", text)
    text = masked_after(text, ("jdbc:oracle:",), _ORACLE)
    if '"kty"' in text:
        text = masked_after(text, ('"d"', '"k"', '"p"', '"q"', '"dp"', '"dq"', '"qi"'), _JWK)
    text = masked_after(text, ("\ttrue\t", "\tfalse\t"), _COOKIE_JAR)
    if _PORT.search(text):
        text = _PGPASS.sub(rf"\g<before>{MASK}", text)
    return text


def _without_key_ends(text: str) -> str:
    """Mask the lines of a private key whose beginning is not in the text."""
    kept: list[str] = []
    done = 0
    for found in _PEM_END.finditer(text):
        start = found.start()
        while start > done and (gutter := _body_before(text, start, done)) < start:
            start = gutter
        kept += [text[done:start], MASK]
        done = found.end()
    return "".join(kept) + text[done:]


def _body_before(text: str, end: int, first: int) -> int:
    """Return where the lines of a key before a place begin, as far as they have no number between them."""
    start = end
    while start > first and text[start - 1] in _PEM_BODY:
        start -= 1
    gutter = _GUTTER_BEFORE.search(text, max(first, start - 132), start)
    return gutter.start() if gutter else start


def _address(found: re.Match[str]) -> str:
    """Return an address without its name and password."""
    body = found[0][3:]
    host = re.split(r"[/?#]", body, maxsplit=1)[0]
    at = host.rfind("@")
    if at < 0 and ":" in host and not host.rpartition(":")[2].isdecimal():
        at = body.rfind("@")  # a password in which the slash was not escaped
    user = body[:at] if at >= 0 else ""
    # A name without a password is no secret, as in `git@`; a key without a password is one, as in the address
    # of a Sentry project.
    is_name = ":" not in user and len(user) < 16 and not (len(user) >= 8 and any(map(str.isdigit, user)))
    return found[0] if not user or is_name else f"://{MASK}{body[at:]}"


def _end_of_credential(text: str, found: re.Match[str]) -> int:
    """Return the end of the credential after `Bearer` or `Basic`. In prose a plain word follows, which is
    kept."""
    value, scheme = found["value"], found["scheme"].casefold()
    if scheme == "basic":
        try:
            is_credential = b":" in base64.b64decode(value[: len(value) // 4 * 4])
        except (binascii.Error, ValueError):
            is_credential = False
    else:
        is_credential = len(value) >= 24 or any(map(str.isdigit, value))
    return found.end("value") if is_credential else found.end()
