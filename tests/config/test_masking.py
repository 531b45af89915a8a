"""Which values are masked, and that they can be restored."""

from __future__ import annotations

import json

import pytest

from determined.config.secrets.masked_text import mask_yaml
from determined.config.secrets.masking import MASK, mask_arguments, mask_secrets, secrets_in

CONFIG = {
    "environment": {
        "environment_variables": [
            "API_TOKEN=two words\nand a line",
            "LEVEL=3",
            "DB=postgres://me:pw1@h/d?password=pw2&x=1",
        ],
        "secrets": {"anything": "pw3"},
        "registry_auth": {"username": "me", "auth": "pw6", "identitytoken": "pw7", "registrytoken": "pw8"},
    },
    "checkpoint_storage": {"secret_key": "pw4", "bucket": "b", "endpoint_url": "http://u:pw5@host"},
    "hyperparameters": {"token": 7, "lr": 0.1},
}


def test_every_secret_is_hidden_and_known() -> None:
    secrets = set(secrets_in(CONFIG))
    assert secrets == {"two words\nand a line", "pw1", "pw2", "pw3", "pw4", "pw5", "pw6", "pw7", "pw8"}
    masked = mask_secrets(CONFIG)
    shown = json.dumps(masked)
    assert not any(json.dumps(secret)[1:-1] in shown for secret in secrets)
    assert "and a line" not in shown  # a variable's value extends to its end
    assert masked["environment"]["environment_variables"][0] == f"API_TOKEN={MASK}"
    assert masked["environment"]["environment_variables"][1] == "LEVEL=3"
    assert masked["environment"]["registry_auth"]["username"] == "me"
    assert masked["hyperparameters"] == CONFIG["hyperparameters"]
    assert mask_secrets(masked) == masked
    assert set(secrets_in(masked)) <= {MASK}


def test_a_registrys_account_is_hidden_in_the_text_of_a_file() -> None:
    text = "environment:\n  registry_auth: {username: me, auth: czNjcjN0, identitytoken: s3cr3t}\n"
    shown = mask_yaml(text)
    assert "username: me" in shown
    assert not any(secret in shown for secret in ("czNjcjN0", "s3cr3t"))


@pytest.mark.parametrize(
    "name",
    [
        *("PASS", "DB_PASS", "smtp-pass", "PASSWD", "MYSQL_PWD", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "TOKEN_2"),
        *("AZURE_CREDENTIALS", "SERVICE_CREDENTIAL"),
    ],
)
def test_one_list_of_names_serves_fields_variables_arguments_and_comments(name: str) -> None:
    assert mask_secrets({name: "word-word"}) == {name: MASK}
    assert mask_secrets([f"{name}=word-word"]) == [f"{name}={MASK}"]
    assert list(secrets_in([f"{name}=word-word"])) == ["word-word"]
    assert mask_arguments([f"--{name.lower()}", "word-word"]) == [f"--{name.lower()}", MASK]
    assert "word-word" not in mask_yaml(f"name: x\n# {name}: word-word\n")


@pytest.mark.parametrize("name", ["PWD", "OLDPWD", "COMPASS", "MONKEY", "PASSES", "KEYBOARD", "TOKENIZER", "BYPASS"])
def test_other_names_are_no_secrets(name: str) -> None:
    assert mask_secrets({name: "word-word"}) == {name: "word-word"}
