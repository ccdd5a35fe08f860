"""What is shown as one HTML page: no script, no other file, no request. In: sections and plots. Out: the page's text.

All rules of the style are of the class kineto-spyre, so that a report changes nothing in a notebook around it.
"""

from __future__ import annotations

from html import escape

from kineto_spyre.report.section import Plot, Section

_STYLE = """
body:has(> .kineto-spyre:only-child) { margin: 0; background: light-dark(#ffffff, #14161a); color-scheme: light dark }
.kineto-spyre { color-scheme: light dark; --ink: #1c2024; --paper: #ffffff; --dim: #60646c; --line: #d9d9e0;
  --box: #f4f5f7; --c0: #2563c9; --c1: #d9730d; --c2: #8145b5; --c3: #128a68; --c4: #b8860b; --c5: #c43d5a;
  --c6: #4b7d92; --c7: #8b8d98; box-sizing: border-box; margin: 0 auto; max-width: 66rem; padding: 1.5rem;
  background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif }
@media (prefers-color-scheme: dark) {
  .kineto-spyre { --ink: #edeef0; --paper: #14161a; --dim: #a6abb5; --line: #363a42;
  --box: #1e2127; --c0: #70a5f8; --c1: #f5a05a; --c2: #bf93ea; --c3: #4fc9a2; --c4: #e0b840; --c5: #f07f98;
  --c6: #86b8cc; --c7: #8b8d98 } }
@media print {
  body:has(> .kineto-spyre:only-child) { background: #fff }
  .kineto-spyre { color-scheme: light; --ink: #000; --paper: #fff; --dim: #444; --line: #bbb; --box: #fff;
    --c0: #2563c9; --c1: #d9730d; --c2: #8145b5; --c3: #128a68; --c4: #b8860b; --c5: #c43d5a; --c6: #4b7d92;
    padding: 0; max-width: none }
  .kineto-spyre tr, .kineto-spyre svg { break-inside: avoid } .kineto-spyre h2 { break-after: avoid }
  .kineto-spyre * { print-color-adjust: exact } }
.kineto-spyre h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere }
.kineto-spyre h2 { font-size: 1.1rem; margin: 2rem 0 .5rem } .kineto-spyre p { margin: .4rem 0 }
.kineto-spyre .from { color: var(--dim); overflow-wrap: anywhere }
.kineto-spyre .verdict p { background: var(--box); border-left: 4px solid var(--c0); padding: .6rem .8rem;
  overflow-wrap: anywhere }
.kineto-spyre table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
.kineto-spyre th { color: var(--dim); font-weight: 500 }
.kineto-spyre th, .kineto-spyre td { border-bottom: 1px solid var(--line); padding: .25rem .5rem; text-align: right;
  vertical-align: top }
.kineto-spyre th:first-child, .kineto-spyre td:first-child { text-align: left; padding-left: 0;
  overflow-wrap: anywhere }
.kineto-spyre svg { display: block; width: 100%; height: auto; margin: .5rem 0 }
.kineto-spyre svg text { fill: var(--ink); font: 12px system-ui, sans-serif }
.kineto-spyre svg .dim { fill: var(--dim) } .kineto-spyre svg .back { fill: var(--box) }
"""


def page(title: str, sources: list[str], parts: list[Section | Plot]) -> str:
    """A whole page. The first part is the verdict; plots without content are left out."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"</head>\n<body>{body(title, sources, parts)}</body></html>\n"
    )


def body(title: str, sources: list[str], parts: list[Section | Plot]) -> str:
    """The same as an element with its style, for a page that is there already (a notebook's)."""
    head = f"<h1>{escape(title)}</h1>" + "".join(f'<p class="from">{escape(one)}</p>' for one in sources)
    shown = [_plot(one) if isinstance(one, Plot) else _section(one, "" if place else "verdict")
             for place, one in enumerate(parts)]  # fmt: skip
    return f'<div class="kineto-spyre"><style>{_STYLE}</style>{head}\n' + "\n".join(filter(None, shown)) + "\n</div>"


def _plot(plot: Plot) -> str:
    return f"<section><h2>{escape(plot.title)}</h2>{plot.svg}</section>" if plot.svg else ""


def _section(section: Section, kind: str = "") -> str:
    text = f'<section class="{kind}"><h2>{escape(section.title)}</h2>'
    text += "".join(f"<p>{escape(sentence)}</p>" for sentence in section.sentences)
    if section.rows:
        heads = "".join(f"<th>{escape(column)}</th>" for column in section.columns)
        rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in section.rows)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        text += f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    return text + "</section>"
