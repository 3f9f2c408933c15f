"""Names that come from files cannot run anything on the study's page; tests/report tries other pages in a browser."""

from __future__ import annotations

import re

from wherefrom_studies.sparse.page import study_page

EVIL = "</title></style></script><script>ran('script')</script><img src=x onerror=ran('img')>'\" onclick=ran('click')"


def test_everything_is_escaped_and_the_policy_allows_no_script() -> None:
    keys = ("entropy", "zeros", "on special tokens", "raw attention, g(x)", "raw attention, D(x)", "rollout, g(x)",
            "rollout, D(x)")  # fmt: skip
    rows = [
        {"projection": name, "accuracy": 0.5, "same": 1.0, "measures": {key: [0.1, 0.2] for key in keys}}
        for name in ("softmax", EVIL)
    ]
    made = {"date": EVIL, "machine": EVIL, "python": EVIL, "torch": EVIL, "cpu_seconds": 60.0}
    page = study_page(None, {"model": EVIL, "texts": 2, "projections": rows, "made": made})
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert "<img src=x" not in page
    assert not re.search(r"<[^>]*\bonclick=", page)
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    assert re.sub(r"sha256-[A-Za-z0-9+/]{43}=", "sha256-#", policy) == (
        "default-src 'none'; script-src 'none'; style-src 'sha256-#'; style-src-attr 'unsafe-inline';"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert page.index("Content-Security-Policy") < page.index("<style>")
