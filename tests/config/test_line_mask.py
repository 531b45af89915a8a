"""Known secrets in lines are masked, and nothing else is changed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from determined.config.secrets.line_mask import LineMask, line_mask
from determined.config.secrets.masking import MASK

PASSWORD = "pässwörd-&/'1"
ENVIRONMENT = {
    "DB_PASSWORD": PASSWORD,
    "PGPASSWORD": "postgres-password",
    "MYSQL_PWD": "mysql-password",
    "OPENAI_APIKEY": "sk-1234567890",
    "SSH_KEY": "-----BEGIN-----\nfirst line of it\nsecond line\n-----END-----",
    "SHORT_TOKEN": "1234567",
    "TOKEN_2": "the second token",
    "DB_PASS": "pass-of-the-database",
    "SMTP_PASSWD": "passwd-of-the-mail",
    "AWS_SECRET_ACCESS_KEY": "key-of-the-cloud",
    "AZURE_CREDENTIALS": "credentials-of-azure",
    "SERVICE_CREDENTIAL": "credential-of-a-service",
    "COMPASS": "north-north-west",
    "PIN_TOKEN": "12345678",
    "DATABASE_URL": "postgresql://me:p@ss/word@host/db",
    "PWD": "/home/me/project",
    "OLDPWD": "/home/me/project",
    "KEYBOARD": "qwertz-qwertz",
    "DET_SESSION_TOKEN": "opens-nothing",
}


@pytest.mark.parametrize(
    "text",
    [
        f"cannot log in with {PASSWORD}",
        f"KeyError: {PASSWORD!r}",
        json.dumps({"password": PASSWORD}),
        "postgres-password and mysql-password",
        "Authorization: Bearer sk-1234567890",
        "first line of it",
        "the second token",
        "connect to postgresql://me:p@ss/word@host/db failed",
        "http://me:another-one@host/x?y=1 and ftp://you:secret@host",
        "p@ss/word",
        "12345678",
        "pass-of-the-database",
        "passwd-of-the-mail",
        "key-of-the-cloud",
        "credentials-of-azure",
        "credential-of-a-service",
    ],
)
def test_secrets_of_the_environment_are_hidden(text: str) -> None:
    masked = line_mask(ENVIRONMENT)(text)
    assert MASK in masked
    secrets = [
        PASSWORD,
        repr(PASSWORD)[1:-1],
        "p@ss/word",
        "another-one",
        ":secret@",
        "sk-12",
        "first line",
        "1234567",
        "second token",
        "-of-",
    ]
    assert not any(secret in masked for secret in (*secrets, "postgres-password", "mysql-password"))


@pytest.mark.parametrize(
    "text",
    [
        "1234567 is too short a secret",
        "key=3 token=7",
        "/home/me/project/train.py",
        "qwertz-qwertz",
        "north-north-west",
        "opens-nothing",
        "http://host:8080/path and user@host",
        "",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert line_mask(ENVIRONMENT)(text) == text


def test_secrets_of_a_configuration() -> None:
    config = {
        "environment": {"environment_variables": ["API_TOKEN=from-the-config", "LEVEL=verbosely"]},
        "data": {"secrets": {"anything": "below-secrets"}},
        "hyperparameters": {"eos_token": "<|endoftext|>"},
    }
    mask = line_mask({}, config)
    assert mask("from-the-config below-secrets") == f"{MASK} {MASK}"
    assert mask("verbosely <|endoftext|>") == "verbosely <|endoftext|>"


@given(secrets=st.lists(st.text(min_size=8, max_size=12), max_size=4), words=st.lists(st.text(max_size=6), max_size=4))
def test_no_known_secret_is_left(secrets: list[str], words: list[str]) -> None:
    mask = LineMask(secrets)
    line = "x".join([*words, *secrets, *words])
    masked = mask(line)
    assert not any(secret in masked for secret in secrets if secret not in MASK and MASK not in secret)
    assert LineMask([])(line) == line or "://" in line


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("https://u:p@ss@host/x", f"https://u:{MASK}@host/x"),
        ('{"url":"http://u:secret@h:80","mail":"a@b"}', f'{{"url":"http://u:{MASK}@h:80","mail":"a@b"}}'),
        ("http://u:one@h,x@y", f"http://u:{MASK}@h,x@y"),
    ],
)
def test_a_password_with_an_at_sign_in_a_url_is_hidden_up_to_the_host(text: str, masked: str) -> None:
    assert line_mask({})(text) == masked


def test_a_secret_is_hidden_as_urls_quote_it_and_as_it_was_before() -> None:
    mask = line_mask(
        {"DB_PASSWORD": "p@ss word+9", "CACHE_URL": "redis://u:caf%C3%A9-%40-1@h/0", "A_TOKEN": "\udce4" * 8}
    )
    assert mask("p%40ss%20word%2B9 p%40ss+word%2B9 café-@-1 caf%C3%A9-%40-1") == " ".join([MASK] * 4)


def test_a_mask_is_extended_by_the_secrets_of_more_variables() -> None:
    runner = line_mask({"A_TOKEN": "of-the-runner"})
    trial = runner.with_secrets_of({"B_TOKEN": "of-the-trial", "DET_SESSION_TOKEN": "of-the-session", "NAME": "a-name"})
    assert trial("of-the-runner of-the-trial a-name of-the-session") == f"{MASK} {MASK} a-name of-the-session"
    assert runner("of-the-runner of-the-trial") == f"{MASK} of-the-trial"
    assert runner.with_secrets_of({"NAME": "a-name"})("of-the-runner") == MASK
