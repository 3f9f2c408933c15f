"""Templates, and the one frame of every complete page, whose policy lets nothing run or load but what Wherefrom wrote.

Texts, labels, names of models, files and options come from anywhere. They are escaped wherever they are shown. Should
an escape ever be missing, the page's Content-Security-Policy still keeps what they bring from running: it names our own
script and our own style sheet by their hashes, and allows nothing else. The hashes are taken of the package's files,
which no input reaches, never of the finished page.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from wherefrom.core.labels import visible
from wherefrom.report.colour import DARK, LIGHT


def render_fragment(name: str, **values: Any) -> str:
    """A piece of HTML for a notebook's output, to which the notebook's own policy applies."""
    # Whatever was not made visible before is so here, where everything comes through.
    return visible(_templates().get_template(name).render(light=LIGHT, dark=DARK, **values))


def render_page(name: str, *, title: str, styles: tuple[str, ...], scripts: tuple[str, ...] = (), **values: Any) -> str:
    """A complete page: a template that extends document.html, with these files of style and script."""
    style, script = _style(styles), _script(scripts)
    return render_fragment(name, title=title, style=style, script=script, policy=_policy(style, script), **values)


def _policy(style: str, script: str) -> str:
    """The page's policy, as the content of its meta tag."""
    directives = [
        "default-src 'none'",
        f"script-src {_hash_of(script)}" if script else "script-src 'none'",
        f"style-src {_hash_of(style)}",
        # Every unit carries the strength of its colour in an attribute, as figures do; without scripts there is no
        # other way. An attribute reaches only its own element, and what it could name by url() is not loaded.
        "style-src-attr 'unsafe-inline'",
        "img-src data:",  # the colour bars within figures
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(directives)


def _hash_of(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


@cache
def _style(names: tuple[str, ...]) -> str:
    return "".join(render_fragment(name) for name in names)


@cache
def _script(names: tuple[str, ...]) -> str:
    """The files as they are, with the line ends that a browser sees, of which it takes the hash."""
    sources = [_loader().get_source(_templates(), name)[0] for name in names]
    return "".join("\n".join(source.split("\r\n")) for source in sources)


@cache
def _loader() -> PackageLoader:
    return PackageLoader("wherefrom.report")


@cache
def _templates() -> Environment:
    return Environment(
        loader=_loader(),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
