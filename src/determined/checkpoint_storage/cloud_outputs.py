"""Outputs in an object store: the objects `<output>/rank_<n>/<file>`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from determined.checkpoint_storage import transfer
from determined.checkpoint_storage.bucket import Bucket
from determined.checkpoint_storage.outputs import file_name, incomplete_file, output_id, staged_upload, upload_key
from determined.checkpoint_storage.staging import Staging

# Ids cannot begin with a dot, so these prefixes cannot collide with one.
_REPLACED = ".replaced"
_ARRIVING = ".arriving"


class CloudOutputs:
    """Outputs in an object store; `OutputStorage` in `outputs.py` documents the methods.

    A single object appears atomically. Several objects are first uploaded under a hidden prefix and then copied by the
    server, which is quick, so that a kill during the upload shows none of them.
    """

    def __init__(self, bucket: Bucket, staging: Staging, open_root: Callable[[], None]) -> None:
        self._bucket = bucket
        self._staging = staging
        self._open_root = open_root

    def staged(self) -> AbstractContextManager[Path]:
        return staged_upload(self._staging, self._open_root)

    def publish(self, output: str, key: str, staged: Path, below: str, names: Collection[str]) -> bool:
        """Copy replaced objects aside, then upload the new ones; several are uploaded under a hidden prefix first."""
        targets = {name: f"{output_id(output)}/{below}/{file_name(name)}" for name in names}
        # Looked up before anything is uploaded, because afterwards the old object cannot be told from the new one.
        replaced = [name for name, target in targets.items() if self._bucket.head(target) is not None]
        for name in replaced:
            self._copy(targets[name], f"{self._replaced(output, key)}/{below}/{name}")
        # A single object appears atomically and needs no hidden copy.
        if len(targets) == 1:
            for name, target in targets.items():
                self._bucket.put_file(target, staged / name)
            return bool(replaced)
        arriving = {name: f"{self._arriving(output, key)}/{below}/{name}" for name in names}
        transfer.upload(self._bucket, {arriving[name]: staged / name for name in names})
        for name, target in targets.items():
            self._copy(arriving[name], target)
        transfer.delete(self._bucket, arriving.values())
        return bool(replaced)

    def revert(self, output: str, key: str, names: Collection[str], earlier: Collection[str]) -> list[str]:
        staying = []
        for name in map(file_name, names):
            target, aside = f"{output_id(output)}/{name}", f"{self._replaced(output, key)}/{name}"
            if self._bucket.head(aside) is not None:
                self._copy(aside, target)
            elif name in earlier:
                staying.append(name)
            else:
                self._bucket.delete(target)
        # After the targets are restored: a revert that is interrupted can then be repeated.
        self._delete_below(self._arriving(output, key))
        self.delete_replaced(output, key)
        return staying

    def delete_replaced(self, output: str, key: str) -> None:
        self._delete_below(self._replaced(output, key))

    def delete_all_replaced(self, output: str) -> None:
        self._delete_below(f"{_REPLACED}/{output_id(output)}")

    def fetch(self, output: str, resources: Mapping[str, int], directory: Path, replaced_by: Mapping[str, str]) -> None:
        prefix = f"{output_id(output)}/"
        present = {entry.key.removeprefix(prefix): entry.size for entry in self._bucket.entries(output)}
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        downloads = []
        for name, size in resources.items():
            key, found = prefix + file_name(name), present.get(name)
            if name in replaced_by:
                # The unfinished upload may not have come as far as this file; then the file in place is still the
                # earlier one.
                aside = self._bucket.head(f"{self._replaced(output, replaced_by[name])}/{name}")
                key, found = (key, found) if aside is None else (aside.key, aside.size)
            if found != size:
                raise incomplete_file(output, name, found, size)
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            downloads.append(transfer.Download(key, size, directory / name))
        transfer.download(self._bucket, downloads)

    def delete(self, output: str) -> None:
        for prefix in (output_id(output), f"{_REPLACED}/{output}", f"{_ARRIVING}/{output}"):
            self._delete_below(prefix)

    def _copy(self, source: str, target: str) -> None:
        """Copy an object on the server; an object that is too large for that is downloaded and uploaded."""
        if self._bucket.copy(source, target):
            return
        with self.staged() as directory:
            with open(directory / "object", "xb") as file:
                self._bucket.copy_to(source, file)
            self._bucket.put_file(target, directory / "object")

    def _delete_below(self, prefix: str) -> None:
        transfer.delete(self._bucket, [entry.key for entry in self._bucket.entries(prefix)])

    def _replaced(self, output: str, key: str) -> str:
        return f"{_REPLACED}/{output_id(output)}/{upload_key(key)}"

    def _arriving(self, output: str, key: str) -> str:
        return f"{_ARRIVING}/{output_id(output)}/{upload_key(key)}"
