"""The description of the package on the page of an index."""

from __future__ import annotations

import re

import pytest
from folders import ROOT
from hatchling.metadata.core import CoreMetadata, ProjectMetadata
from hatchling.plugin.manager import PluginManager

import onnxgather as og
from onnxgather.core.version import SUMMARY

REPOSITORY = "https://forge.example/someone/onnxgather"
TAG = f"v{og.__version__}"
README = (ROOT / "README.md").read_text("utf-8")
TARGET = re.compile(r"\]\(([^)]+)\)")


def metadata(monkeypatch: pytest.MonkeyPatch, repository: str) -> CoreMetadata:
    """Return the metadata of the package, as a build makes it."""
    monkeypatch.setenv("ONNXGATHER_REPOSITORY", repository)
    project = ProjectMetadata[PluginManager](str(ROOT), PluginManager())
    return project.core


@pytest.mark.parametrize("end", ["", "/"])
def test_each_link_leads_to_the_files_of_the_tag(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    core = metadata(monkeypatch, REPOSITORY + end)
    assert core.readme_content_type == "text/markdown"
    targets = TARGET.findall(core.readme)
    assert len(targets) == len(TARGET.findall(README)) >= 20
    paths: list[str] = []
    for target in targets:
        assert target.startswith("https://")
        if target.startswith(REPOSITORY):
            kind, tag, path = target.removeprefix(f"{REPOSITORY}/").split("/", 2)
            is_image = path.endswith((".png", ".svg"))
            assert (kind, tag) == ("raw" if is_image else "blob", TAG)
            paths.append(path)
    assert {"docs/translation.svg", "docs/picture.png", "docs/models.md"} <= {*paths}
    for path in paths:
        assert (ROOT / path.partition("#")[0]).is_file()
    assert re.sub(rf"{REPOSITORY}/(raw|blob)/{TAG}/", "", core.readme) == README


def test_the_summary_on_the_index_is_the_sentence_of_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert metadata(monkeypatch, "").description == SUMMARY


def test_the_index_names_the_pages_of_the_project(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert metadata(monkeypatch, REPOSITORY).urls == {
        "Changelog": f"{REPOSITORY}/blob/{TAG}/CHANGELOG.md",
        "Documentation": f"{REPOSITORY}/tree/{TAG}/docs",
        "Issues": f"{REPOSITORY}/issues",
        "Source": REPOSITORY,
    }


def test_without_the_variable_the_description_is_the_readme(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    core = metadata(monkeypatch, "")
    assert core.readme == README
    assert core.urls == {}


@pytest.mark.parametrize("repository", ["github.com/a/b", "http://a.b/c", "https://"])
def test_a_variable_that_is_no_address_is_refused(
    monkeypatch: pytest.MonkeyPatch, repository: str
) -> None:
    message = (
        "ONNXGATHER_REPOSITORY must be an address such as"
        f" https://github.com/NAME/onnxgather, got {repository.rstrip('/')}"
    )
    with pytest.raises(ValueError, match="ONNXGATHER") as caught:
        _ = metadata(monkeypatch, repository).readme
    assert str(caught.value) == message


def test_an_index_renders_the_pictures_the_tables_and_the_links(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """twine renders no Markdown, so that its check tells nothing of it."""
    markdown = pytest.importorskip(
        "readme_renderer.markdown", reason="the extra wheels brings readme-renderer"
    )
    page = markdown.render(metadata(monkeypatch, REPOSITORY).readme)
    assert page is not None
    assert page.count("<img") == README.count("![") == 2
    assert page.count("<pre") == README.count("```") // 2
    assert page.count("<h2") == README.count("\n## ")
    # Every link of the README, and no path of the repository, is left.
    assert page.count('<a href="https://') == len(TARGET.findall(README)) - 2
    assert re.findall(r'(?:src|href)="(?!https://|#)([^"]*)"', page) == []
