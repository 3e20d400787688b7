"""A page opened in Chromium, with a script of a test in it."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

CHROMIUM = shutil.which("chromium")

Test = TypeVar("Test", bound=Callable[..., None])

NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")


def in_browser(test: Test) -> Test:
    """Mark a test that opens pages: it is slow, and needs Chromium."""
    return pytest.mark.slow(NEEDS_CHROMIUM(test))


AT_EACH_WIDTH = pytest.mark.parametrize("width", [390, 1280])


def probed(
    folder: Path, page: bytes, script: str, width: int, dark: bool = False
) -> Any:
    """What a script of a page in a browser returns.

    What the page does against its own content security policy fails the test. The
    script is no part of the page, and comes before the policy.

    Args:
        folder: A place for the page and for what the browser writes.
        page: The page.
        script: The body of an asynchronous function, which returns what becomes JSON.
        width: The width of the window in pixels.
        dark: Whether the system prefers dark colours.
    """
    tried = f"""<head><script>
const forbidden = [];
addEventListener("securitypolicyviolation", (event) =>
  forbidden.push(`${{event.violatedDirective}}: ${{event.blockedURI}}`));
const probe = async () => {{
  const made = document.createElement("output");
  made.id = "probe";
  let returned;
  try {{
    returned = {{value: await (async () => {{ {script} }})()}};
  }} catch (error) {{
    returned = {{error: String(error)}};
  }}
  if (forbidden.length) returned = {{error: `forbidden: ${{forbidden}}`}};
  made.textContent = JSON.stringify(returned);
  document.body.append(made);
}};
document.addEventListener("DOMContentLoaded", () => setTimeout(probe, 500));
</script>"""
    path = folder / "page.html"
    path.write_bytes(page.replace(b"<head>", tried.encode(), 1))
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=5000",
    ]
    options += [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    places = [f"--user-data-dir={folder}", f"--window-size={width},1000", path.as_uri()]
    failure = ""
    # On a busy machine the virtual time can end before the page has drawn itself.
    for _ in range(3):
        ran = subprocess.run(
            [str(CHROMIUM), *options, "--dump-dom", *places],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        found = re.search(r'<output id="probe">(.*?)</output>', ran.stdout, re.DOTALL)
        if found is None:
            failure = ran.stderr
            continue
        returned = json.loads(html.unescape(found[1]))
        if "error" not in returned:
            return returned.get("value")
        failure = returned["error"]
    pytest.fail(f"the script of the page returned nothing in three tries: {failure}")
