# ruff: noqa: E501 - a table of texts as they come
"""Secrets are masked wherever they stand in a text, and the rest stays readable."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import random
import time
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.config.known_secrets import masking_of, secrets_of
from hermes_trio.config.schema import GatewayConfig, McpServerConfig, ModelConfig, PlatformConfig, WebConfig
from hermes_trio.masking.redaction import Masking, redacted, redactor
from hermes_trio.masking.secret_names import masked_names
from hermes_trio.masking.secret_places import masked_places
from hermes_trio.masking.secret_tokens import masked_tokens

redact = redactor(iter(()))

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


@pytest.mark.parametrize(("text", "secret"), SHAPES.values(), ids=SHAPES)
def test_every_shape_of_a_secret_is_masked(text: str, secret: str) -> None:
    assert secret in text
    for around in ("@", "see:\n@\nend", "(@)", "log: @ (17 ms)"):
        shown = redact(around.replace("@", text, 1))
        assert "***" in shown
        assert secret not in shown
        # No half of it either: eight characters in a row are too many to guess from.
        pieces = {secret[at : at + 8] for at in range(len(secret) - 7)} if len(secret) >= 16 else {secret}
        assert not any(piece in shown for piece in pieces), shown


@pytest.mark.parametrize(("text", "secret"), SHAPES.values(), ids=SHAPES)
def test_masking_twice_equals_masking_once(text: str, secret: str) -> None:
    assert redact(redact(text)) == redact(text)


PICTURE = base64.b64encode(bytes(_chance.randrange(256) for _ in range(60_000))).decode()
INNOCENT = {
    "ids of ours": "session 20260520_120000_00000001, run 0b6b8f0c8f4e4c0a9d6f6f5c3b2a1908",
    "key of a session": "agent:main:telegram:dm:123456789",
    "git": "commit 3d367d0f2a9b8c7d6e5f4a3b2c1d0e9f8a7b6c5d (HEAD -> main)\n    a4a05dc A link that is lost",
    "digest": hashlib.sha256(b"x").hexdigest(),
    "integrity": f'"integrity": "sha512-{AZURE}", "resolved": "https://packages.example.org/x/-/x-1.0.0.tgz"',
    "UUID": "id 123e4567-e89b-12d3-a456-426614174000 of 123E4567-E89B-12D3-A456-426614174000",
    "picture": f"![x](data:image/png;base64,{PICTURE})",
    "picture in lines": "\n".join(PICTURE[at : at + 76] for at in range(0, len(PICTURE), 76)),
    "counts": "input_tokens: 1234, max_tokens=4096, token_count=17, tokens: 5, token_limit: 12345",
    "prose": "The token: a small piece of text. A password, they say, is a secret: something you know.",
    "more prose": "Tokens are counted, and every token costs. The secret of a good password is its length.",
    "advice": "telegram refused its token. Renew platforms.telegram.token in config.yaml, then restart.",
    "bearer": "basic things, bearer of news; bearer authentication is described in RFC 6750, basic training too",
    "keyboard": "the keyboard and the monkey; key agent:main:x; the API key is required",
    "at": "https://example.org/a@b and https://example.org:8080/a@b and kim@example.org",
    "git address": "git clone ssh://git@github.com/x/y.git; git+ssh://git@example.org/z",
    "time": "2026-05-20T12:00:00.000000Z took 12:34:56",
    "place": "/home/kim/.config/tokens/readme.md C:\\Users\\kim\\token.txt src/Components/Buttons/Primary2/index",
    "secret's place": "password_file=/run/secrets/db; TOKEN_PATH=/run/token; credentials_file: ~/.aws/credentials",
    "address of tokens": "token_url: https://example.org/oauth/token, token_endpoint=https://example.org/t",
    "assigned": "origins[\"api_key\"] = variable; {\"authorization\": f\"Basic {pair}\"}",
    "documented": "send `Authorization: Bearer <key>`; `GET /login?token=`: the cookie; a secret: `x_token` is one",
    "code": "self.token = token\npassword = ask_for_it()\napi_key = os.environ['OPENAI_API_KEY']\n"
    "def login(user: str, password: str, token: Optional[str] = None) -> None:\n    connect(token=self.token)\n",
    "JavaScript": "const token = await getToken(); const {password} = req.body; if (token === undefined) return",
    "Go": "func Auth(token string, secret []byte) error { token := r.Header.Get(name) }",
    "types": "interface X { password: string; token?: string | null; secret: boolean }",
    "null": '{"token": null, "password": "", "secret": false, "api_key": "<your key>"}',
    "template": "password: ${DB_PASSWORD}\ntoken: {{ token }}\nAPI_KEY=$API_KEY\nsecret: <secret>",
    "tokenizer": "tokenizer: cl100k_base, tokenizer=gpt2, tokenized: yes",
    "packages": "sklearn, sk-image, hf_hub_download, npm_config_registry, pypi-publish, ghp_pages, npm run key-gen",
    "CSS": ".risk-assessment .task-switcher-container { --mask-size: 10px }",
    "docker": "docker run -u 1000:1000 -p 8080:80 --user 33:33 image",
    "trace": 'File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode\n    raise JSONDecodeError(x)',
    "certificate": f"-----BEGIN CERTIFICATE-----\n{PICTURE[:640]}\n-----END CERTIFICATE-----",
    "public key": f"-----BEGIN PUBLIC KEY-----\n{PICTURE[:128]}\n-----END PUBLIC KEY-----",
    "known host": "github.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl",
    "cookies": "The cookie: is it stale? Cookies are set by the page; a cookie banner",
    "authorize": "authorization is required; Authorization header is missing",
    "table": "| token | meaning |\n|---|---|\n| secret | hidden |",
    "SQL": "SELECT password, token FROM users WHERE secret IS NULL",
    "help": "  --token TEXT  Token of the bot.\n  --password-stdin  Read it from standard input",
}  # fmt: skip


@pytest.mark.parametrize("text", INNOCENT.values(), ids=INNOCENT)
def test_an_innocent_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abc.def-123", "Authorization: ***"),
        ("'authorization': 'Basic dXNlcjpwYXNz'", "'authorization': '***'"),
        ("sent bearer abcdefgh12", "sent bearer ***"),
        ("sk-proj-abcdefgh1234 was refused", "*** was refused"),
        ("sk-ant-api03-abcdefgh", "***"),
        ("POST /bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/getMe", "POST /bot***/getMe"),
        ("ghp_abcdefghijklmnop and xoxb-1234-abcdefgh", "*** and ***"),
        ("https://kim:hunter2@example.org/x", "https://***@example.org/x"),
        ("https://example.org/?access_token=hunter2x&page=2", "https://example.org/?access_token=***&page=2"),
        ('{"api_key": "hunter2x", "n": 1}', '{"api_key": "***", "n": 1}'),
        ("password=hunter2x, user=kim", "password=***, user=kim"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc_def", "***"),
        ("Cookie: session=abc; other=def\nnext", "Cookie: ***\nnext"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nrest", "***\nrest"),
        ("-----BEGIN PRIVATE KEY-----\nMII torn", "***"),
        ("https://hooks.slack.com/services/T0/B0/abc", "https://hooks.slack.com/services/***"),
    ],
)
def test_the_text_around_a_secret_stays_readable(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize(
    "secret", ["hunter2-hunter2", "p@ss/w rd+1", "quo\"te's\\x", "pässwört", "new\nline12"]
)
def test_a_known_secret_is_masked_in_every_spelling(secret: str) -> None:
    known = redactor(iter([secret, secret[:7]]))
    for text in (
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret),
        repr(secret),
    ):
        assert known(f"<{text}>").strip("<>'\"") == "***"


def test_each_line_of_a_known_secret_is_masked() -> None:
    lines = [some(40), some(40), "}"]
    known = Masking.of(["\n".join(lines)])
    assert known.known(f"1|{lines[0]}\n2|{lines[1]}\n3|{lines[2]}") == "1|***\n2|***\n3|}"


def test_a_secret_that_is_too_short_is_not_searched_for() -> None:
    assert redactor(iter(["is", ""]))("this is it") == "this is it"


def test_the_secrets_of_a_configuration_are_found_by_their_names() -> None:
    platform = PlatformConfig(
        token="t-1", options={"poll": {"hook_url": "h-1", "every": 3}, "signing": ["s-1"]}
    )
    config = GatewayConfig(
        model=ModelConfig(api_key="m-1", name="no secret"),
        web=WebConfig(key="w-1"),
        platforms={"x": platform},
    )
    environ = {"OPENAI_API_KEY": "e-1", "PATH": "/bin", "MAX_TOKENS": "128000", "NO_KEY": ""}
    environ |= {"PWD": "/home/ada/work", "OLDPWD": "/home/ada"}  # of a shell: whoever is asked reads paths
    assert set(secrets_of(config, environ)) == {"t-1", "h-1", "s-1", "m-1", "w-1", "e-1", ""}


def test_the_known_secrets_include_files_of_the_home_and_parts_of_addresses(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "SOME_API_KEY=from-dot-env-1\nUNNAMED='x9-unnamed-Value'\nexport DB_PASSWORD=12345678\nLEVEL=production\n"
        "MODEL=gpt-4o-mini\nWORK_DIR=/home/kim/srv\nMAX_TOKENS=128000\nDATABASE_URL=postgres://kim:pw-in-url@db/x\n"
    )
    (tmp_path / "web.key").write_text("the-key-of-the-web\n")
    servers = {
        "x": McpServerConfig(
            command="x",
            env={"OPAQUE": "mcp-Env-7", "HOME": "/home/kim"},
            headers={"X-Authorization": "Bearer mcp-header-9"},
        )
    }
    model = ModelConfig(base_url="https://me:pw-of-model@host/v1?api_key=key-in-query")
    known = masking_of(
        tmp_path, GatewayConfig(model=model, mcp_servers=servers), {"REDIS_URL": "redis://:pw-of-redis@h"}
    )
    for secret in (
        "from-dot-env-1", "x9-unnamed-Value", "12345678", "pw-in-url", "the-key-of-the-web", "mcp-Env-7",
        "mcp-header-9", "pw-of-model", "key-in-query", "pw-of-redis",
    ):  # fmt: skip
        assert known.known(f"it says {secret}!") == "it says ***!", secret
    innocent = "production with gpt-4o-mini in /home/kim/work, 128000 of kim at host and db"
    assert known(innocent) == innocent
    assert "pw-" not in repr(known)


DOT_ENV = """\
WORD=swordfish
PHRASE="correct horse battery"
NUMBER=48151623
MODEL=x7Qp2LmZ9vR4tY8wK1nB5cD3
export SOME_HOST='a.b:q0-secret!'
# OLD=commented-out-9
BROKEN="never closed 77
my-key: with-a-dash-5
lone-value-2026
LEVEL=production
CHAT_ID=123456789012
LOGS=/var/log/hermes
BASE=https://api.example.org/v1
MAIL=kim@example.org
WHERE=db.example.org:5432
ZONE=Europe/Berlin
# This comment: is about the working directory
"""


def test_every_value_of_dot_env_is_a_known_secret_unless_it_is_evidently_a_setting(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(DOT_ENV)
    known = masking_of(tmp_path, GatewayConfig(), {})
    for secret in (
        "swordfish", "correct horse battery", "48151623", "x7Qp2LmZ9vR4tY8wK1nB5cD3", "a.b:q0-secret!",
        "commented-out-9", "never closed 77", "with-a-dash-5", "lone-value-2026",
    ):  # fmt: skip
        assert known.known(f"it says {secret}!") == "it says ***!", secret
    settings = (
        "production 123456789012 /var/log/hermes https://api.example.org/v1 kim@example.org db.example.org:5432 "
        "Europe/Berlin is about the working directory"
    )
    assert known.known(settings) == settings


def test_fields_are_masked_by_name_and_numbers_stay_numbers() -> None:
    said = {"token": "short", "tokens": 7, "nested": {"password": "x", "n": [1, "sk-abcdefghijk"]}}
    assert redacted(redact, "said", said) == {
        "token": "***",
        "tokens": 7,
        "nested": {"password": "***", "n": [1, "***"]},
    }
    assert redacted(redact, "error", ValueError("Bearer abcdefgh12")) == "Bearer ***"


HOSTILE = [
    "a", "1", "A", "-", "/", "\\", '"', "'", "=", ":", "@", " ", "\n", "token-", "token", "token=",
    "token: ", 'token="', "token='", 'token=\\"', 'token="\\"', "password:\n", "eyJ", "eyJ-", "eyJa.",
    "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "-----END ", "sk-", "ghp_",
    "xoxb", "hf_", "hf_a-", "npm_.", "://", "://a:", "://a@", "a://b:c/", "curl ", "curl -u a:",
    "login a password ", "authorization: ", "authorization: a,b=", "cookie: ", "cookie:a=", "bearer ",
    "basic ", "<password>", "<a", "<token", "--token ", "--a-", "mfa.", "1:", "AC", "pub0", "0a", "M.",
    "8Q~", "a8Q~", "pat1", "A0", "EAA", "key-", "password", "pass_", "sig=", "SharedAccessKey", "export A=",
    "\nPASSWORD=", "api_", "api key", "private-lines: 9\n", "docker login ", "docker login -p ", "mysql -p", "sshpass ",
    "redis-cli ", "ldapsearch -w ", "smbclient ", "htpasswd -b x ", "wget --user a:", "pass:", "identified by '",
    "password '", "machine a ", "\ta\tTRUE", "a:1234:", "a:1:b:c:", "x\n\n", '"kty" "d": ', "jdbc:oracle:thin:a/",
    "hooks.slack.com/services/", "authorization, '", "authorization', '", "set -x ", "setenv token ", "define('",
    "mnemonic ", "mnemonic abandon ", "seed phrase ", "_KEY=", "?key=", "&code=", "sessionid=", "key", "pass", "sig",
    'name":"token","value":', "token,", 'name="token"\n\n', "<key>token</key>", "token is ", "password is a1",
    "token%3D", "token: >-\n ", "$6$", "$2b$aaaa", "$", "LS0tLS1CRUdJTi", "sk.eyJ", "sl.", "1/1", "t1.a", "A3-", "pat.",
    "oauth:", "%", "~", "|", ".", "\t", "K", "5", "key1", "1234567890123|", "\\\"", "İtoken=",
]  # fmt: skip


def _seconds(text: str) -> float:
    began = time.process_time()
    redact(text)
    return time.process_time() - began


@pytest.mark.parametrize("unit", HOSTILE, ids=repr)
def test_masking_time_grows_linearly(unit: str) -> None:
    """Four times the text takes about four times as long, not sixteen times. The bound leaves room for a busy
    machine, but not for quadratic time."""
    short, long = (unit * (size // len(unit)) for size in (50_000, 200_000))
    assert _seconds(long) < 9 * min(_seconds(short) for _ in range(3)) + 0.5


def test_masking_pairs_of_hostile_texts_takes_no_quadratic_time() -> None:
    for one, other in itertools.islice(itertools.product(HOSTILE, HOSTILE), 0, None, 211):
        for text in ((one + other) * 4000, one * 9000 + other * 9000):
            assert _seconds(text) < 3, (one, other)


@given(
    st.from_regex(
        r"[0-9a-f]{1,32}|[0-9]{8}_[0-9]{6}_[0-9a-f]{8}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        fullmatch=True,
    )
)
def test_nothing_that_looks_like_an_id_looks_like_a_secret(text: str) -> None:
    """`Masking` does not examine ids, so nothing may be missed by that."""
    assert masked_names(masked_tokens(masked_places(text))) == text
