"""The Markdown of models becomes elements, also while a text grows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import People, gateway_in

pytestmark = pytest.mark.timeout(240)
"""A browser is slow on a slow machine."""

SHOWN = """async (texts) => {
  const { Markdown } = await import("/page/markdown.js");
  const markdown = new Markdown();
  for (const text of texts) markdown.update(text);
  for (const one of markdown.element.querySelectorAll(".code-head, [aria-label], [tabindex], [role]")) {
    if (one.matches(".code-head")) one.remove();
    for (const name of ["aria-label", "tabindex", "role"]) one.removeAttribute(name);
  }
  return markdown.element.innerHTML;
}"""
SPAN = '<span class="formula">'
LINK = '<a href="https://a.example/" target="_blank" rel="noopener noreferrer">{}</a>'


@pytest.fixture(scope="module")
def page(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with gateway_in(tmp_path_factory.mktemp("gateway")) as gateway:
        people = People(browser, gateway)  # type: ignore[arg-type]
        yield people.somebody()
        people.leave()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "<p>plain</p>"),
        ("two\nlines\n\nand a paragraph", "<p>two<br>lines</p><p>and a paragraph</p>"),
        ("**bold** and *slanted*", "<p><strong>bold</strong> and <em>slanted</em></p>"),
        ("__bold__ _slanted_ ~~gone~~", "<p><strong>bold</strong> <em>slanted</em> <del>gone</del></p>"),
        ("***both***", "<p><strong><em>both</em></strong></p>"),
        ("snake_case_name and 2*3*4 = 24 * 1", "<p>snake_case_name and 2<em>3</em>4 = 24 * 1</p>"),
        ("**open", "<p>**open</p>"),
        ("`a **b** <i>` and ``x ` y``", "<p><code>a **b** &lt;i&gt;</code> and <code>x ` y</code></p>"),
        (r"\*not\* \[this\]", "<p>*not* [this]</p>"),
        (r"5\,km and \$5, a\;b", r"<p>5\,km and $5, a\;b</p>"),
        (r"is \(a_1 * b * c\) so", "<p>is " + SPAN + r"\(a_1 * b * c\)</span> so</p>"),
        ("$x_1 * y_2 * z$ for $5 and $10", "<p>" + SPAN + "$x_1 * y_2 * z$</span> for $5 and $10</p>"),
        ("**$5** and **$6**", "<p><strong>$5</strong> and <strong>$6</strong></p>"),
        (r"\[ \int x\,dx = \{1\} \]", r'<p class="formula">\[ \int x\,dx = \{1\} \]</p>'),
        (
            "so\n\\[\na_1 \\\\\n- b_2\n\\]\nand",
            '<p>so</p><p class="formula">\\[\na_1 \\\\\n- b_2\n\\]</p><p>and</p>',
        ),
        ("$$\na_1 * b * c\n$$", '<p class="formula">$$\na_1 * b * c\n$$</p>'),
        ("$$\nopen *and* so", "<p>$$<br>open <em>and</em> so</p>"),
        ("# One\n### Three ###", '<h2 class="h1">One</h2><h4 class="h3">Three</h4>'),
        ("#no heading", "<p>#no heading</p>"),
        ("# C# ", '<h2 class="h1">C#</h2>'),
        ("---", "<hr>"),
        ("> a\n> > b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"),
        ("- a\n- b\n  - c", "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>"),
        ("1. a\n2. b", "<ol><li>a</li><li>b</li></ol>"),
        ("3) a", '<ol start="3"><li>a</li></ol>'),
        ("- a\n\n- b", "<ul><li>a</li><li>b</li></ul>"),
        ("- a\n\n  more", "<ul><li><p>a</p><p>more</p></li></ul>"),
        ("- a\n1. b", "<ul><li>a</li></ul><ol><li>b</li></ol>"),
        ("text\n- a", "<p>text</p><ul><li>a</li></ul>"),
        ("```\n<b>\n```", '<div class="code"><pre><code>&lt;b&gt;</code></pre></div>'),
        ("```py\nopen", '<div class="code"><pre><code>open</code></pre></div>'),
        ("~~~\n```\n~~~", '<div class="code"><pre><code>```</code></pre></div>'),
        ("- a\n  ```\n  b\n  ```", '<ul><li>a<div class="code"><pre><code>b</code></pre></div></li></ul>'),
        ("[a](https://a.example)", "<p>" + LINK.format("a") + "</p>"),
        ("https://a.example/.", "<p>" + LINK.format("https://a.example/") + ".</p>"),
        ("<https://a.example/>", "<p>" + LINK.format("https://a.example/") + "</p>"),
        ("[a](javascript:alert(1))", "<p><span>a</span></p>"),
        ("[a](JaVaScRiPt:alert)", "<p><span>a</span></p>"),
        ("[a](vbscript:x) [b](data:text/html,x)", "<p><span>a</span> <span>b</span></p>"),
        ("![a](https://a.example)", "<p>" + LINK.format("a") + "</p>"),
        ("<b>x</b>&lt;", "<p>&lt;b&gt;x&lt;/b&gt;&amp;lt;</p>"),
        (
            "|a|b|\n|-|-:|\n|1|2|\n|3|",
            '<div class="table"><table><thead><tr><th class="left">a</th><th class="right">b</th>'
            "</tr></thead>"
            '<tbody><tr><td class="left">1</td><td class="right">2</td></tr>'
            '<tr><td class="left">3</td><td class="right"></td></tr></tbody></table></div>',
        ),
        ("a | b", "<p>a | b</p>"),
        ("", ""),
    ],
)
def test_markdown_becomes_the_expected_elements(page: Page, text: str, shown: str) -> None:
    assert page.evaluate(SHOWN, [text]) == shown
    growing = [text[:end] for end in range(1, len(text) + 1)] or [""]
    assert page.evaluate(SHOWN, growing) == shown, "a growing text gives the same elements"


def test_elements_above_the_growing_text_are_kept(page: Page) -> None:
    kept = page.evaluate(
        """async () => {
          const { Markdown } = await import("/page/markdown.js");
          const markdown = new Markdown();
          markdown.update("# A\\n\\n```\\ncode\\n");
          const [heading, code] = markdown.element.children;
          markdown.update("# A\\n\\n```\\ncode\\nmore");
          const grown = markdown.element.children[1] === code && code.querySelector("pre").textContent;
          markdown.update("# A\\n\\n```\\ncode\\nmore\\n```\\nand");
          return [markdown.element.children[0] === heading, grown, markdown.element.children.length];
        }"""
    )
    assert kept == [True, "code\nmore", 3]


def test_highlighting_changes_only_colours(page: Page) -> None:
    code = 'def f(x): # no "text"\n    return "a # b" + f(2) // 3\n'
    shown = page.evaluate(
        """async ([code]) => {
          const { highlight } = await import("/page/highlight.js");
          const box = document.createElement("pre");
          box.append(...highlight(code, "python"));
          const spans = [...box.children].map((one) => [one.className.slice(5), one.textContent]);
          return [box.textContent, spans];
        }""",
        [code],
    )
    assert shown[0] == code
    assert shown[1] == [
        ["word", "def"],
        ["call", "f"],
        ["comment", '# no "text"'],
        ["word", "return"],
        ["string", '"a # b"'],
        ["call", "f"],
        ["number", "2"],
        ["number", "3"],
    ]
