"""Makes the description of the package for an index, from the README.

On the page of an index, links into the repository lead nowhere. A variable names where
the repository is:

  ONNXGATHER_REPOSITORY   such as https://github.com/NAME/onnxgather; links then lead
                          to the files of the version's tag

Without the variable the links stay relative, and the metadata name no pages.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(
    r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<path>[^)#:]+)(?P<part>#[^)]*)?\)"
)
"""A link of Markdown whose target is a path of the repository."""

PAGES = {
    "Documentation": "/tree/{tag}/docs",
    "Changelog": "/blob/{tag}/CHANGELOG.md",
    "Source": "",
    "Issues": "/issues",
}
"""The pages that an index names, by their labels."""


class Description(MetadataHookInterface):
    """Adds the description and the pages of the project to the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add `readme`, and `urls` if the variable names the repository."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        repository = os.environ.get("ONNXGATHER_REPOSITORY", "").rstrip("/")
        if repository:
            if not re.fullmatch(r"https://[^\s()]+", repository):
                raise ValueError(
                    "ONNXGATHER_REPOSITORY must be an address such as"
                    f" https://github.com/NAME/onnxgather, got {repository}"
                )
            tag = f"v{version_of(self.root)}"
            text = with_addresses(text, repository, tag)
            metadata["urls"] = {
                label: repository + page.format(tag=tag)
                for label, page in PAGES.items()
            }
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def version_of(root: str) -> str:
    """Return the version that the package names."""
    module = Path(root, "onnxgather", "core", "version.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "(.+)"$', module, re.MULTILINE)
    return version


def with_addresses(text: str, repository: str, tag: str) -> str:
    """Return Markdown in which links into the repository are addresses.

    Args:
        text: The Markdown of a file in the repository's root.
        repository: The address of the repository.
        tag: The tag of git whose files the links lead to.
    """

    def address(link: re.Match[str]) -> str:
        # A page of the repository around a picture is no picture.
        kind = "raw" if link["image"] else "blob"
        target = f"{repository}/{kind}/{tag}/{link['path']}{link['part'] or ''}"
        return f"{link['image']}[{link['text']}]({target})"

    return LINK.sub(address, text)
