"""The page of ``abiscan matrix`` in a real browser: sorted, opened, and fed with names that would like to be code."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import msgspec.structs
import pytest

from abiscan.extension.built_for import BuiltFor, Clue, Kind
from abiscan.findings import Effect, Evidence, Finding
from abiscan.inputs.version import TorchVersion
from abiscan.report import matrix_html
from abiscan.results.matrix import Matrix, Row
from abiscan.results.unchecked import Unchecked
from abiscan.results.verdict import How, PredictedError, Verdict
from tests.unit.report.reports import failure, result

BROWSER: Final = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
HOSTILE: Final = '<img src=x onerror="document.title=1">\x1b[2J</script><script>document.title=2</script>.so'

# Runs in the page after its own script, does what a user would, and leaves what it saw in the document.
PROBE: Final = """
<script>
addEventListener("load", () => {
  const rows = () => Array.from(document.querySelectorAll("tbody tr")).map(row => row.cells[0].textContent);
  const press = index => document.querySelectorAll("thead button")[index].click();
  const seen = {title: document.title, images: document.images.length, scripts: document.scripts.length};
  seen.loaded = performance.getEntriesByType("resource").length;
  seen.first = rows();
  press(0); seen.ascending = rows(); seen.sort = document.querySelector("thead th").getAttribute("aria-sort");
  press(0); seen.descending = rows();
  press(1); seen.byVerdict = rows();
  seen.columns = Array.from(document.querySelectorAll("thead th.release")).map(head => head.textContent);
  seen.answer = document.querySelector("td").getBoundingClientRect().right <= innerWidth;
  seen.fits = document.documentElement.scrollWidth <= innerWidth;
  seen.width = innerWidth;
  const link = document.querySelector("td.fails a");
  link.focus(); seen.focused = document.activeElement === link; seen.label = link.firstElementChild.ariaLabel;
  seen.closed = document.querySelectorAll("details[open]").length;
  link.click();
  const background = scheme => getComputedStyle(document.body).backgroundColor;
  seen.background = background();
  setTimeout(() => {
    const open = Array.from(document.querySelectorAll("details[open]"));
    seen.open = open.map(one => one.textContent);
    seen.summary = document.activeElement.tagName;
    const out = document.createElement("output"); out.id = "seen"; out.textContent = JSON.stringify(seen);
    document.body.append(out);
  }, 100);
});
</script>
"""


def wide() -> Matrix:
    """Forty releases with a different problem each, and a file whose name is longer than the screen of a phone."""
    releases = tuple(f"1.{number}.0" for number in range(40))
    error = PredictedError(how=How.RAISES, object=None, message="")
    problems = {
        release: failure(predicted_error=msgspec.structs.replace(error, message=f"undefined symbol: f{release}" * 9))
        for release in releases
    }
    name = "a_package_of_several_words/with_folders/" + "and_long_names" * 5 + ".so"
    row = Row(
        target="dist/" + "w" * 90 + ".whl",
        path=name,
        built_for=BuiltFor(releases=(), clues=()),
        declared=None,
        results={**problems, releases[-1]: result()},
    )
    return Matrix(rows=(row,), releases=releases, suggestions={row.target: "torch==1.39.0"})


def matrix() -> Matrix:
    finding = Finding(
        rule="undefined-symbol",
        effect=Effect.LOAD_FAILS,
        message=f"{HOSTILE} uses a symbol",
        evidence=(Evidence(subject="_Zf", readable=f"f<{HOSTILE}>()", object=HOSTILE, instead="f(«int»)"),),
        fix="none & never",
    )
    clue = Clue(kind=Kind.HEADERS, seen="an assertion", releases=(TorchVersion("2.6.0"),))
    built = BuiltFor(releases=(TorchVersion("2.6.0"),), clues=(clue,))
    bad, good, unsure = failure(findings=(finding,)), result(), result(verdict=Verdict.UNKNOWN)
    cells = {"pkg/b.so": (good, bad), "pkg/a.so": (good, good), HOSTILE: (good, bad), "pkg/c.so": (good, unsure)}
    rows = tuple(
        Row(
            target="<b>dist</b>/x.whl",
            path=path,
            built_for=built,
            declared="torch<3",
            results={"2.6.0": one, "2.7.0": two},
        )
        for path, (one, two) in cells.items()
    )
    return Matrix(rows=rows, releases=("2.6.0", "2.7.0"), suggestions={"<b>dist</b>/x.whl": "torch==2.6.0"})


@pytest.fixture(scope="module")
def page() -> str:
    return matrix_html.render_page(matrix())


def look(page: str, folder: Path, *options: str) -> dict[str, Any]:
    if BROWSER is None:
        pytest.skip("needs chromium")
    (folder / "page.html").write_text(page.replace("</body>", PROBE + "</body>"), encoding="utf-8")
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile", *options]
    done = subprocess.run(
        [*command, "--virtual-time-budget=5000", "--dump-dom", (folder / "page.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    found = re.search(r'<output id="seen">(.*?)</output>', done.stdout, re.DOTALL)
    if found is None:
        pytest.fail(f"the page did not run in {BROWSER}: {done.stderr[-2000:]}")
    return json.loads(html.unescape(found.group(1)))  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def seen(page: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return look(page, tmp_path_factory.mktemp("page"))


def test_the_newest_release_comes_first(seen: dict[str, Any]) -> None:
    assert seen["columns"] == ["2.7.0", "2.6.0"]


def test_it_is_readable_on_a_phone(tmp_path: Path) -> None:
    """Only the table scrolls, and the answer for the newest release is on the screen."""
    phone = look(matrix_html.render_page(wide()), tmp_path, "--window-size=500,900")
    assert phone["width"] <= 500  # a headless browser has no smaller window
    assert len(phone["columns"]) == 40
    assert (phone["fits"], phone["answer"]) == (True, True)


def test_it_runs_nothing_of_what_files_are_called(seen: dict[str, Any]) -> None:
    assert (seen["title"], seen["images"], seen["scripts"]) == (
        "abiscan: Which torch releases does it load on?",
        0,
        2,
    )  # its own, and the probe


def test_it_loads_nothing(seen: dict[str, Any], page: str) -> None:
    assert seen["loaded"] == 0
    assert re.findall(r'(?:src|href)="(?!#)', page) == []


def test_clicks_sort_the_rows(seen: dict[str, Any]) -> None:
    name = HOSTILE.replace("\x1b", "\\x1b")
    assert seen["first"] == ["pkg/b.so", "pkg/a.so", name, "pkg/c.so"]
    assert seen["sort"] == "ascending"
    assert seen["ascending"] == [name, "pkg/a.so", "pkg/b.so", "pkg/c.so"]
    assert seen["descending"] == seen["ascending"][::-1]
    assert [seen["byVerdict"][0], seen["byVerdict"][1]] == ["pkg/a.so", "pkg/c.so"]  # loads, unknown, fails


def test_a_failure_opens_its_finding(seen: dict[str, Any]) -> None:
    assert (seen["focused"], seen["closed"]) == (True, 0)
    assert seen["label"] == "fails on torch 2.7.0"
    (text,) = seen["open"]
    assert "undefined symbol: f" in text
    assert "error[undefined-symbol]" in text
    assert "Fix: none & never" in text
    assert seen["summary"] == "SUMMARY"


def test_adjacent_releases_with_the_same_answer_share_a_column() -> None:
    cells = {"2.4.0": failure(), "2.5.0": failure(), "2.6.0": result(), "2.6.1": result(), "2.7.0": failure()}
    built = BuiltFor(releases=(), clues=())
    rows = [
        Row(target=name, path="_C.so", built_for=built, declared=None, results=cells) for name in ("a.whl", "b.whl")
    ]
    unread = Unchecked(target="c.whl", problem="not a <wheel>", fix="", readable=False)
    page = matrix_html.render_page(
        Matrix(
            rows=tuple(rows), releases=tuple(cells), suggestions=dict.fromkeys(("a.whl", "b.whl")), unchecked=(unread,)
        )
    )
    heads = re.findall(r'class="release"><button>([^<]*)<', page)
    assert heads == ["2.7.0", "2.6.0-2.6.1", "2.4.0-2.5.0"] * 2
    assert 'title="fails on torch 2.4.0-2.5.0"' in page
    # The answer for each target is above all tables, and beside its own.
    badge = '<span class="badge loads">torch 2.6.0-2.6.1</span>'
    assert page.index(badge) < page.index("<table>")
    assert page.count(badge) == 4
    assert "c.whl: not a &lt;wheel&gt;" in page


def test_the_page_without_a_browser(page: str) -> None:
    assert page.count("<tr>") == 5
    assert HOSTILE not in page
    assert "requires torch&lt;3; works on torch 2.6.0 (torch==2.6.0)" in page
    assert "prefers-color-scheme: dark" in page
    assert 'lang="en"' in page
    assert page.count('scope="row"') == 4
