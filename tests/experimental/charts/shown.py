"""Parses the HTML that a notebook shows as a browser does."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs


class Parsed(HTMLParser):
    """The elements of a text of HTML with their attributes, and the text inside of them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []  # by element; that of a child counts as the child's
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        self.texts.append("")

    def handle_data(self, data: str) -> None:
        if self.texts:
            self.texts[-1] += data

    def tags(self) -> list[str]:
        return [tag for tag, _ in self.elements]

    def attributes(self, tag: str) -> dict[str, str | None]:
        (found,) = [attributes for name, attributes in self.elements if name == tag]
        return found


class Chart:
    """The frame in the output of a notebook: its attributes, the document in it, and its data."""

    def __init__(self, html: str) -> None:
        self.outside = Parsed(html)
        self.frame = self.outside.attributes("iframe")
        document = self.frame["srcdoc"]
        assert document is not None
        self.inside = Parsed(document)
        (data,) = [
            text
            for (_, attributes), text in zip(self.inside.elements, self.inside.texts, strict=True)
            if attributes.get("id") == "det-export"
        ]
        self.content: dict[str, Any] = json.loads(data)
        self.answers = {
            parse_qs(path.partition("?")[2], keep_blank_values=True)["key"][0]: answer
            for path, answer in self.content["answers"].items()
        }

    def scripts(self) -> list[str]:
        """Return the texts that are executed."""
        pairs = zip(self.inside.elements, self.inside.texts, strict=True)
        return [text for (tag, attributes), text in pairs if tag == "script" and "id" not in attributes]

    @property
    def trials(self) -> list[int]:
        """The trials of the first metric."""
        return [curve["trial"] for curve in next(iter(self.answers.values()))["curves"]]
