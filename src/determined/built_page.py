"""The built web page: where its files are, and HTML documents that contain script, styles and data in themselves."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

STATIC = Path(__file__).parent / "web" / "static"
HOW_TO_BUILD = (
    "The page is not built. An installed package contains it; in a clone of the repository run make page, or with "
    "Node.js: cd page && npm ci && npm run build"
)


def is_built(static: Path = STATIC) -> bool:
    """Return whether the page was built."""
    return (static / "index.html").is_file()


def document(static: Path, script_name: str, content: str) -> str:
    """Return the page with one of its scripts, its styles and JSON data, which opens without a server.

    Its policy allows exactly this script and these styles, so that nothing in the data can be executed.
    """
    page = (static / "index.html").read_text(encoding="utf-8")
    script = _closed((static / script_name).read_text(encoding="utf-8"), "script")
    styles_file = static / "page.css"
    styles = _closed(styles_file.read_text(encoding="utf-8"), "style") if styles_file.is_file() else ""
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(styles)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    # JSON has these characters in texts only, where their escapes mean the same.
    data = content.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    page = re.sub(r'<link rel="(?:stylesheet|icon)"[^>]*>\n?', "", page)
    page = re.sub(r'<script src="[^"]*"[^>]*></script>\n?', "", page)
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{styles}</style>\n'
    body = f'<script type="application/json" id="det-export">{data}</script>\n<script>{script}</script>\n'
    page = page.replace('<meta charset="utf-8">\n', f'<meta charset="utf-8">\n{head}', 1)
    return page.replace("</body>", f"{body}</body>", 1)


def _closed(text: str, tag: str) -> str:
    """Return a script or style sheet that cannot end its element early."""
    return re.sub(f"</(?={tag})", r"<\\/", text, flags=re.IGNORECASE)


def _digest(text: str) -> str:
    """Return the hash by which a policy names an inline script or style sheet."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
