"""Documents that describe this package with Sphinx' autodoc are built without a warning or an unresolved name.

The documents in `sphinx/` use the directives and options of the documents of all releases. Documents of releases, if
they are beside the repository, are built as well.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

OWN = Path(__file__).with_name("sphinx")
OF_RELEASES = Path(__file__).resolve().parents[3] / "shared" / "documents"

# Warnings that do not concern the package: the documents of releases describe the same classes again, and refer to
# pages and files beside them.
EXPECTED = re.compile(
    r"duplicate (object description|label)|download file not readable|undefined label: 'pytorch_trial_ug'"
)


def test_documents_that_use_autodoc_can_be_built(tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    shutil.copytree(OWN, tmp_path / "documents")
    for document in OF_RELEASES.glob("*.txt"):
        if re.search(r"^\.\. auto\w+::", document.read_text(), re.MULTILINE):
            (tmp_path / "documents" / document.name).write_text(document.read_text())
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "pseudoxml", "documents", "built"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=170)
    unexpected = [line for line in done.stderr.splitlines() if not EXPECTED.search(line)]
    assert (done.returncode, unexpected) == (0, [])

    described = (tmp_path / "built" / "trials.pseudoxml").read_text()
    assert 'ids="determined.pytorch.PyTorchTrialContext.wrap_model"' in described
    assert "batch_mover" not in described
