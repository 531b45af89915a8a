"""Text with everything that a page could interpret instead of showing it."""

from __future__ import annotations

HOSTILE = (
    "<script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\" data-hostile>"
    "<u data-hostile>'single' \"double\" &amp; \\ `${1}` {{x}}\n2nd line\r\x1b[31mred\x1b]0;title\x07 \u202ereversed"
)
LONG = HOSTILE + "W" * 10_000
