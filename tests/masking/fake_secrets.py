# ruff: noqa: E501 - a table of texts as they come
"""Texts with a secret, which is put together at run time, so that no scanner takes it for somebody's."""

from __future__ import annotations

import base64
import json
import random
from urllib.parse import quote

ALPHA = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
HEX = "0123456789abcdef"
_chance = random.Random(20261119)  # noqa: S311 - these are no secrets of anybody's


def some(count: int, letters: str = ALPHA) -> str:
    """Return characters like those of a generated secret, beginning with a digit."""
    return "7" + "".join(_chance.choice(letters) for _ in range(count - 1))


def pem(kind: str, header: str = "") -> tuple[str, str]:
    """Return a private key in PEM form, and one line of it."""
    lines = [some(64) for _ in range(6)]
    return f"-----BEGIN {kind}-----\n{header}{chr(10).join(lines)}\n-----END {kind}-----", lines[3]


def in_place(template: str, secret: str) -> tuple[str, str]:
    return template.replace("@@", secret), secret


JWT = ".".join(
    base64.urlsafe_b64encode(part).decode().rstrip("=")
    for part in (
        b'{"alg":"HS256","typ":"JWT"}',
        b'{"sub":"1234567890","name":"Kim"}',
        b"signature-of-some-length",
    )
)
AZURE = base64.b64encode(bytes(range(64))).decode()
BASIC = base64.b64encode(b"kim:hunter2-hunter2").decode()
UUID = "01234567-89ab-cdef-0123-456789abcdef"
PW = "hunter2-Hunter2"

SHAPES: dict[str, tuple[str, str]] = {
    "OpenAI": in_place("the key @@ was refused", f"sk-{some(48)}"),
    "OpenAI project": in_place("key: @@", f"sk-proj-{some(40)}-{some(20)}_{some(20)}"),
    "Anthropic": in_place("x-api-key @@", f"sk-ant-api03-{some(60)}-{some(20)}AA"),
    "OpenRouter": in_place("curl with @@", f"sk-or-v1-{some(64, HEX)}"),
    "GitHub classic": in_place("remote: @@", f"ghp_{some(36)}"),
    "GitHub app": in_place("remote: @@", f"ghs_{some(36)}"),
    "GitHub fine-grained": in_place("remote: @@", f"github_pat_{some(22)}_{some(59)}"),
    "GitLab": in_place("remote: @@", f"glpat-{some(20)}"),
    "GitLab runner": in_place("registered with @@", f"glrt-{some(20)}"),
    "Slack bot": in_place("slack says @@", f"xoxb-1234567890-1234567890123-{some(24)}"),
    "Slack user": in_place("slack says @@", f"xoxp-1234567890-1234567890-1234567890-{some(32, HEX)}"),
    "Slack app": in_place("slack says @@", f"xapp-1-A0123456789-1234567890-{some(64, HEX)}"),
    "Slack webhook": in_place("POST https://hooks.slack.com/services/@@", f"T01234567/B01234567/{some(24)}"),
    "AWS access key": in_place("as @@ in eu-west-1", "AKIAIOSFODNN7EXAMPLE"),
    "AWS secret": in_place("aws_secret_access_key = @@", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    "AWS secret alone": in_place("it is @@ now", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKE"),
    "AWS session": in_place("AWS_SESSION_TOKEN=@@", f"FwoGZXIvYXdz{some(80)}/+{some(20)}=="),
    "AWS signature": in_place(
        "Authorization: AWS4-HMAC-SHA256 Credential=x/20260101/s3, SignedHeaders=host, Signature=@@", some(64, HEX)
    ),
    "Google API": in_place("?key=@@", f"AIza{some(35)}"),
    "Google OAuth": in_place("got @@", f"ya29.a0{some(60)}"),
    "Google client secret": in_place("got @@", f"GOCSPX-{some(28)}"),
    "Google refresh": in_place("got @@ back", f"1//0{some(40)}"),
    "Stripe": in_place("charge with @@", f"sk_live_{some(24)}"),
    "Stripe restricted": in_place("charge with @@", f"rk_test_{some(24)}"),
    "Stripe webhook": in_place("verify with @@", f"whsec_{some(32)}"),
    "Twilio key": in_place("twilio @@", f"SK{some(32, HEX)}"),
    "Twilio token": in_place("TWILIO_AUTH_TOKEN=@@", some(32, HEX)),
    "SendGrid": in_place("mail by @@", f"SG.{some(22)}.{some(43)}"),
    "npm": in_place("//packages.example.org/:_authToken=@@", f"npm_{some(36)}"),
    "npm alone": in_place("published with @@", f"npm_{some(36)}"),
    "PyPI": in_place("twine -p @@", f"pypi-AgEIcHlwaS5vcmc{some(70)}"),
    "HuggingFace": in_place("login @@", f"hf_{some(34)}"),
    "Groq": in_place("login @@", f"gsk_{some(52)}"),
    "Discord": in_place("bot @@", f"MTIzNDU2Nzg5MDEyMzQ1Njc4.GabcDE.{some(38)}"),
    "Discord webhook": in_place("https://discord.com/api/webhooks/1234567890/@@", some(68)),
    "Telegram": in_place("https://api.telegram.org/bot@@/getMe", f"123456789:AA{some(33)}"),
    "JWT": in_place("session @@ is over", JWT),
    "PEM RSA": pem("RSA PRIVATE KEY"),
    "PEM PKCS8": pem("PRIVATE KEY"),
    "PEM OpenSSH": pem("OPENSSH PRIVATE KEY"),
    "PEM EC": pem("EC PRIVATE KEY"),
    "PEM encrypted": pem("ENCRYPTED PRIVATE KEY"),
    "PEM with header": pem("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n"),
    "PGP": pem("PGP PRIVATE KEY BLOCK", "Version: GnuPG v2\n\n"),
    "PEM in JSON": (json.dumps({"private_key": pem("PRIVATE KEY")[0]}), "\\n7"),
    "PEM, its end": (f"{(frame := pem('PRIVATE KEY'))[0][200:]}", frame[1]),
    "PEM, its beginning": (f"{(frame := pem('PRIVATE KEY'))[0][:400]}", frame[1]),
    "basic auth": in_place("https://kim:@@@example.org/x", PW),
    "basic auth without a name": in_place("redis://:@@@localhost:6379/0", PW),
    "basic auth, nothing escaped": in_place("https://kim:@@@example.org/x", "hun/ter2@Hun#ter2"),
    "Bearer": in_place("Authorization: Bearer @@", some(30)),
    "Bearer, JSON": in_place('{"Authorization": "Bearer @@"}', some(30)),
    "Bearer alone": in_place("sent bearer @@", some(12)),
    "Basic": in_place("Authorization: Basic @@", BASIC),
    "Basic alone": in_place("sent Basic @@ there", BASIC),
    "Digest": in_place('Authorization: Digest username="kim", response="@@"', some(32, HEX)),
    "scheme of its own": in_place("Authorization: Token @@", some(30)),
    "header": in_place("X-Api-Key: @@", some(20)),
    "cookie": in_place("Cookie: theme=dark; session=@@", some(32)),
    "Set-Cookie": in_place("set-cookie: sid=@@; HttpOnly", some(32)),
    "env": in_place("password=@@", PW),
    "env, exported": in_place("export DB_PASS=@@", "hun,ter;2&Hunter2"),
    "env, in quotes": in_place('DB_PASSWORD="@@"', "correct horse battery"),
    "env, short name": in_place("MYSQL_PWD=@@", PW),
    "YAML": in_place("db:\n  passwd: @@\n  port: 5", PW),
    "YAML, in quotes": in_place("secret: '@@'", "correct horse battery"),
    "JSON": in_place('{"password": "@@", "n": 1}', PW),
    "JSON in JSON": in_place(json.dumps(json.dumps({"api_key": "@@"})), PW),
    "Python": in_place("{'client_secret': '@@'}", PW),
    "camel case": in_place('accessToken: "@@"', PW),
    "Ruby": in_place(":password => '@@'", PW),
    "XML": in_place("<password>@@</password>", PW),
    "INI": in_place("[db]\npassword = @@\n", PW),
    "option": in_place("deploy --token @@ now", PW),
    "option with =": in_place("deploy --api-key=@@ now", PW),
    "curl -u": in_place("curl -s -u kim:@@ https://example.org", PW),
    "netrc": in_place("machine example.org login kim password @@", PW),
    "URL query": in_place("https://example.org/?access_token=@@&page=2", PW),
    "URL signature": in_place("https://x.s3.amazonaws.com/y?X-Amz-Signature=@@&z=1", some(64, HEX)),
    "postgres": in_place("postgresql://kim:@@@db:5432/x", PW),
    "mysql": in_place("mysql+pymysql://kim:@@@db/x", PW),
    "mysql in Go": in_place("kim:@@@tcp(db:3306)/x", PW),
    "amqp": in_place("amqps://kim:@@@mq/x", PW),
    "mongodb": in_place("mongodb+srv://kim:@@@c0.example.net/?retryWrites=true", PW),
    "ADO": in_place("Server=db;Uid=kim;Pwd=@@;Database=x", PW),
    "Azure storage": in_place("DefaultEndpointsProtocol=https;AccountName=x;AccountKey=@@;", AZURE),
    "Azure bus": in_place("Endpoint=sb://x/;SharedAccessKeyName=all;SharedAccessKey=@@", AZURE[:43] + "="),
    "Azure SAS": in_place("https://x.blob.core.windows.net/c?sv=2024&sr=c&sig=@@&se=x", quote(AZURE[:43] + "=", safe="")),
    "Azure client": in_place("got @@", f"abc8Q~{some(34)}"),
    "DigitalOcean": in_place("doctl @@", f"dop_v1_{some(64, HEX)}"),
    "Heroku": in_place("HEROKU_API_KEY=@@", UUID),
    "Heroku, new": in_place("login @@", f"HRKU-AA{some(58)}"),
    "Mailgun": in_place("mail @@", f"key-{some(32, HEX)}"),
    "Mailgun, new": in_place("mail @@", f"{some(32, HEX)}-{some(8, HEX)}-{some(8, HEX)}"),
    "Mailchimp": in_place("mail @@", f"{some(32, HEX)}-us21"),
    "Square": in_place("pay @@", f"sq0atp-{some(22)}"),
    "Square, new": in_place("pay @@", f"EAAA{some(60)}"),
    "Shopify": in_place("shop @@", f"shpat_{some(32, HEX)}"),
    "Datadog": in_place("DD-API-KEY: @@", some(32, HEX)),
    "Datadog, env": in_place("DATADOG_APP_KEY=@@", some(40, HEX)),
    "Sentry": in_place("https://@@@o123.ingest.sentry.io/45", some(32, HEX)),
    "age": in_place("# secret\n@@", f"AGE-SECRET-KEY-1{some(58, 'QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L')}"),
    "Vault": in_place("vault @@", f"hvs.{some(90)}"),
    "Databricks": in_place("dbx @@", f"dapi{some(32, HEX)}"),
    "Grafana": in_place("metrics @@", f"glsa_{some(32)}_{some(8, HEX)}"),
    "Terraform": in_place("tf @@", f"{some(14)}.atlasv1.{some(60)}"),
    "Docker": in_place("docker login -p @@", f"dckr_pat_{some(27)}"),
}  # fmt: skip


def halves(secret: str, size: int = 8) -> set[str]:
    """Return the parts of a secret that must not be shown: eight characters in a row are too many to guess
    from."""
    return {secret[at : at + size] for at in range(len(secret) - size + 1)} if len(secret) >= 16 else {secret}
