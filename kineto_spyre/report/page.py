"""A report as one HTML page: no script, no other file, no request. In: facts. Out: the page's text."""

from __future__ import annotations

from html import escape
from typing import Any

from kineto_spyre.report import plots
from kineto_spyre.report.section import Section
from kineto_spyre.report.terminal import sections

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --paper: #ffffff; --dim: #60646c; --line: #d9d9e0;
  --box: #f4f5f7; --c0: #2563c9; --c1: #d9730d; --c2: #8145b5; --c3: #128a68; --c4: #b8860b; --c5: #c43d5a;
  --c6: #4b7d92; --c7: #8b8d98 }
@media (prefers-color-scheme: dark) { :root { --ink: #edeef0; --paper: #14161a; --dim: #a6abb5; --line: #363a42;
  --box: #1e2127; --c0: #70a5f8; --c1: #f5a05a; --c2: #bf93ea; --c3: #4fc9a2; --c4: #e0b840; --c5: #f07f98;
  --c6: #86b8cc; --c7: #8b8d98 } }
@media print { :root { color-scheme: light; --ink: #000; --paper: #fff; --dim: #444; --line: #bbb; --box: #fff }
  section { break-inside: avoid } * { print-color-adjust: exact } }
body { margin: 0 auto; max-width: 66rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
p { margin: .4rem 0 } .from { color: var(--dim); overflow-wrap: anywhere }
.verdict p { background: var(--box); border-left: 4px solid var(--c0); padding: .6rem .8rem; overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th { color: var(--dim); font-weight: 500 } th, td { border-bottom: 1px solid var(--line); padding: .25rem .5rem;
  text-align: right; vertical-align: top } th:first-child, td:first-child { text-align: left; padding-left: 0;
  overflow-wrap: anywhere } svg { display: block; width: 100%; height: auto; margin: .5rem 0 }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif } svg .dim { fill: var(--dim) }
svg .back { fill: var(--box) }
"""


def page(facts: dict[str, Any]) -> str:
    """The page."""
    shown = list(sections(facts, 20))
    parts = [_section(shown[0], "verdict"), _plot("Timeline", plots.timeline(facts))]
    if len(facts["steps"]) > 1:
        parts.append(_plot("Step times", plots.steps(facts)))
    parts += [_plot("Why the device was idle", plots.causes(facts)), _plot("Longest kernels", plots.kernels(facts))]
    parts.append(_plot("Allocated memory", plots.memory(facts)))
    parts.append(_plot("Memory by category", plots.categories(facts)))
    parts += [_section(one) for one in shown[1:]]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Report of a trace</title>'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{_STYLE}</style></head>\n<body><h1>Report of a trace</h1>"
        f'<p class="from">{escape(facts["trace"])}</p>\n' + "\n".join(filter(None, parts)) + "\n</body></html>\n"
    )


def _plot(title: str, svg: str) -> str:
    return f"<section><h2>{title}</h2>{svg}</section>" if svg else ""


def _section(section: Section, kind: str = "") -> str:
    text = f'<section class="{kind}"><h2>{escape(section.title)}</h2>'
    text += "".join(f"<p>{escape(sentence)}</p>" for sentence in section.sentences)
    if section.rows:
        heads = "".join(f"<th>{escape(column)}</th>" for column in section.columns)
        rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in section.rows)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        text += f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    return text + "</section>"
