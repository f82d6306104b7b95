"""The default rules against real host names and public addresses in a network namespace."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.requirements import unavailable
from tests.sources.web.internet import REDIRECTS, SILENT, URLS

NAMESPACE = ("unshare", "--map-root-user", "--mount", "--net")


def test_no_name_and_no_redirect_reaches_internal_servers(tmp_path: Path) -> None:
    """Rebinding, mixed answers, mapped and translated addresses, redirects of a public host."""
    missing = [name for name in ("unshare", "ip", "mount") if shutil.which(name) is None]
    if missing:
        unavailable(f"no {missing[0]} on this machine")
    if subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode:
        unavailable("this machine allows no namespaces")
    program = (sys.executable, "-m", "tests.sources.web.internet", str(tmp_path))
    ran = subprocess.run(
        [*NAMESPACE, *program], capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    report = json.loads(ran.stdout)
    assert set(report["entered"].values()) == {0}
    images = {url for url, found in report["found"].items() if found == "image"}
    # a rebinding name is requested at the address that was checked
    rebinding = {"http://rebinding.test/a.jpg", "http://public.test/to-rebinding"}
    silent, public = URLS[: len(SILENT)], URLS[len(SILENT) :][:3]
    assert images - rebinding == set(public)  # a waiting lookup does not delay others
    assert {report["found"][url] for url in silent} == {"timed_out"}
    odd = {"/to-file": "scheme_not_allowed", "/to-itself": "too_many_redirects"}
    for url in set(URLS) - rebinding - {*silent, *public}:
        path = url.removeprefix("http://public.test")
        wanted = odd.get(path, "private_address")
        assert report["found"][url] == wanted, url
    assert set(odd) < set(REDIRECTS)
