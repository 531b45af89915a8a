"""Configurations of `s3`, `gcs` and `azure` as options of the library; what is rejected, and what is shown."""

from __future__ import annotations

import base64
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

from determined.checkpoint_storage import build_from_argument, build_from_config
from determined.checkpoint_storage.cloud_storage import CloudStorage
from determined.errors import MissingExtraError, StorageAccessError
from tests.helpers.ranks import free_port
from tests.helpers.s3_server import ACCESS_KEY, SECRET_KEY, S3Server

SECRET = "sEcReT-distinctive-5tGv"
KEY = base64.b64encode(SECRET.encode()).decode()


@pytest.fixture(autouse=True)
def no_credentials_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


def store_of(form: Any) -> Any:
    storage = build_from_argument(form)
    assert isinstance(storage, CloudStorage)
    assert SECRET not in repr(storage) + repr(storage._bucket)
    assert KEY not in repr(storage) + repr(storage._bucket)
    return storage._bucket._store


@pytest.mark.parametrize(
    ("form", "bucket", "prefix"),
    [
        ("s3://bucket", "bucket", None),
        ("s3://bucket/", "bucket", None),
        ("s3://bucket/a//b/", "bucket", "a/b"),
        ("s3://bucket/with%20space", "bucket", "with space"),
        ({"type": "s3", "bucket": "bucket", "prefix": "/a/./b"}, "bucket", "a/b"),
        ({"type": "s3", "bucket": "bucket", "prefix": None, "save_trial_best": 3}, "bucket", None),
    ],
)
def test_forms_of_s3(form: Any, bucket: str, prefix: str | None) -> None:
    store = store_of(form)
    assert type(store).__name__ == "S3Store"
    assert store.config["bucket"] == bucket
    assert store.prefix == prefix


def test_options_of_s3() -> None:
    config = {
        "type": "s3",
        "bucket": "bucket",
        "access_key": "me",
        "secret_key": SECRET,
        "endpoint_url": "http://host:9000/",
    }
    store = store_of(config)
    assert store.config["access_key_id"] == "me"
    assert store.config["secret_access_key"] == SECRET
    assert store.config["endpoint"] == "http://host:9000"
    assert str(store.client_options["allow_http"]).lower() == "true"
    assert repr(build_from_config(config)) == "CloudStorage('s3://bucket at http://host:9000')"
    assert str(store_of("s3://bucket").client_options["allow_http"]).lower() == "false"


def test_credentials_and_endpoint_of_the_environment(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{server.address}")
    storage = build_from_argument("s3://checkpoints/mine")
    storage.probe()
    assert repr(storage) == f"CloudStorage('s3://checkpoints/mine at http://{server.address}')"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with pytest.raises(StorageAccessError, match="refused access") as caught:
        build_from_argument("s3://checkpoints/mine").probe()
    assert_no_secret(caught.value)


def test_forms_of_gcs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for form in ("gs://bucket/a/b", {"type": "gcs", "bucket": "bucket", "prefix": "a/b"}):
        store = store_of(form)
        assert type(store).__name__ == "GCSStore"
        assert store.config["bucket"] == "bucket"
        assert store.prefix == "a/b"
    key_file = tmp_path / "key.json"
    key_file.write_text(json.dumps({"type": "service_account", "private_key": SECRET, "client_email": "me"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key_file))
    with pytest.raises(ValueError, match="gs://bucket") as caught:
        build_from_argument("gs://bucket")
    assert_no_secret(caught.value)


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        (
            {"connection_string": f"DefaultEndpointsProtocol=https;AccountName=me;AccountKey={KEY}"},
            {"account_name": "me", "account_key": KEY},
        ),
        (
            {"connection_string": f"AccountName=me;AccountKey={KEY};EndpointSuffix=core.chinacloudapi.cn"},
            {"account_name": "me", "endpoint": "https://me.blob.core.chinacloudapi.cn"},
        ),
        (
            {"connection_string": f"BlobEndpoint=http://127.0.0.1:10000/me/;AccountName=me;AccountKey={KEY}"},
            {"account_name": "me", "endpoint": "http://127.0.0.1:10000/me"},
        ),
        (
            {"connection_string": f"BlobEndpoint=https://me.blob.host;SharedAccessSignature=sv=1&sig={SECRET}"},
            {"account_name": "me", "endpoint": "https://me.blob.host"},
        ),
        ({"account_url": "https://me.blob.core.windows.net"}, {"account_name": "me"}),
        ({"account_url": "https://me.blob.core.windows.net/", "credential": KEY}, {"account_key": KEY}),
        ({"account_url": "https://me.blob.host", "credential": f"?sv=1&sig={SECRET}"}, {"account_name": "me"}),
        ({"account_url": f"https://me.blob.host?sv=1&sig={SECRET}"}, {"endpoint": "https://me.blob.host"}),
    ],
)
def test_options_of_azure(fields: dict[str, str], options: dict[str, str]) -> None:
    store = store_of({"type": "azure", "container": "bucket", **fields})
    assert type(store).__name__ == "AzureStore"
    assert store.config["container_name"] == "bucket"
    assert {name: store.config.get(name) for name in options} == options


S3 = {"type": "s3", "bucket": "bucket"}
AZURE = {"type": "azure", "container": "bucket"}


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (f"s3://me:{SECRET}@bucket/x", "user or password; give keys as .*access_key"),
        (f"gs://{SECRET}@bucket", "user or password; credentials are Google's"),
        (f"https://me:{SECRET}@host/bucket", "user or password$"),
        (f"s3://bucket?key={SECRET}", "query"),
        (f"s3://bucket#{SECRET}", "fragment"),
        ({**S3, "bucket": f"me:{SECRET}@bucket"}, "bucket"),
        ({**S3, "bucket": "a/b"}, "bucket.*'a/b'"),
        ({**S3, "bucket": 3}, "bucket.*3"),
        ({**S3, "prefix": "a/../b"}, "prefix"),
        ({**S3, "access_key": SECRET}, "together"),
        ({**S3, "secret_key": SECRET}, "together"),
        ({**S3, "secret_key": [SECRET], "access_key": "me"}, "secret_key"),
        ({**S3, "endpoint_url": f"https://me:{SECRET}@host"}, "endpoint_url"),
        ({**S3, "endpoint_url": f"https://host?key={SECRET}"}, "endpoint_url"),
        ({**S3, "endpoint_url": "host:9000"}, "endpoint_url"),
        ({**S3, "endpoint_url": "http://host:99x"}, "endpoint_url"),
        ({**S3, "endpoint_url": "ftp://host"}, "endpoint_url"),
        ({**AZURE, "connection_string": SECRET}, "connection_string"),
        ({**AZURE, "connection_string": f"AccountKey={SECRET}"}, "connection_string"),
        ({**AZURE, "connection_string": f"BlobEndpoint=https://x:{SECRET}@h;AccountKey=x"}, "BlobEndpoint"),
        ({**AZURE, "account_url": f"me:{SECRET}@host"}, "account_url"),
        ({**AZURE, "account_url": "https://me.blob.host", "credential": SECRET}, "azure://bucket"),
    ],
)
def test_forms_that_are_refused_without_telling_secrets(form: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        build_from_argument(form)
    assert_no_secret(caught.value)


def assert_no_secret(error: BaseException) -> None:
    assert SECRET not in "".join(traceback.format_exception(error))
    while error:
        assert SECRET not in f"{error!r}{error}{error.args}"
        error = error.__cause__ or error.__context__  # type: ignore[assignment]


def test_a_gcs_or_azure_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("GOOGLE_BASE_URL", place)
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", SECRET)
    azure = {**AZURE, "account_url": place, "credential": f"sv=1&sig={SECRET}"}
    for form in ("gs://bucket", azure):
        with pytest.raises(ConnectionRefusedError, match=f"bucket.*{place} cannot be reached") as caught:
            build_from_argument(form).probe()
        assert_no_secret(caught.value)


def test_missing_credentials_are_said_to_be_missing(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{server.address}")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(StorageAccessError, match=r"s3://checkpoints.* needs credentials"):
        build_from_argument("s3://checkpoints").probe()


@pytest.mark.parametrize("form", ["s3://bucket", "gs://bucket", {**AZURE, "account_url": "https://me.blob.host"}])
def test_the_extra_is_named_when_it_is_missing(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("obstore", "obstore.store", "obstore.exceptions"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"determined-pytorch\[cloud\]"):
        build_from_argument(form)
