"""One HTML file out of a page's parts: nothing is fetched when it is opened."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

__all__ = ["page"]

_ASSETS = files(__package__) / "assets"


def page(name: str, title: str, data: Mapping[str, Any], libraries: Sequence[str] = ()) -> str:
    """Return a page.

    Parameters
    ----------
    name : str
        Of its parts among the assets: ``name.html``, the body, and ``name.js``, which draws.
    title : str
        What the browser's tab says.
    data : mapping
        What the script finds as ``DATA``: plain JSON values.
    libraries : sequence of str
        Files under ``vendor`` that the script uses.
    """
    # "</script>" in a name of the model would end the script; "<!--" would begin a comment in it.
    told = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    scripts = [_text(f"vendor/{library}") for library in libraries] + [f"const DATA = {told};", _text(f"{name}.js")]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{_text('page.css')}</style></head>",
            _text(f"{name}.html"),
            *(f"<script>\n{script}\n</script>" for script in scripts),
            "</html>\n",
        ]
    )


def _text(name: str) -> str:
    return _ASSETS.joinpath(*name.split("/")).read_text(encoding="utf-8")
