"""An access document as one HTML page for the person concerned: plain words first, then tables.

The page is self-contained (no script, no network) and can be printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

from lineage_service.render.value_text import value_text

MOST_ROWS = 500  # shown of a dataset; the JSON document has all of them

STYLE = """
:root { color-scheme: light dark; --line: #c8ccd2; --soft: #5b6370; --card: #f6f7f9; }
@media (prefers-color-scheme: dark) { :root { --line: #3a4049; --soft: #9aa3af; --card: #1d2127; } }
body { font: 16px/1.55 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.25rem; margin: 2.2rem 0 .5rem; }
h3 { font-size: 1.02rem; margin: 1.4rem 0 .2rem; } p { margin: .4rem 0; } .soft { color: var(--soft); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .7rem 1rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .88rem; margin: .4rem 0; }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td { overflow-wrap: anywhere; } th { color: var(--soft); font-weight: 600; } th.personal::after { content: " *"; }
dl { display: grid; grid-template-columns: minmax(9rem, max-content) 1fr; gap: .25rem 1rem; margin: .4rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
@media print { body { margin: 0; max-width: none; font-size: 10.5pt; } h2, h3, tr { break-after: avoid; }
  tr, .card { break-inside: avoid; } .scroll { overflow: visible; } :root { color-scheme: light; } }
"""

RIGHTS = (
    "to have wrong data corrected (Art. 16 GDPR)",
    "to have data erased, where no law or other ground requires that it is kept (Art. 17)",
    "to have its use restricted (Art. 18)",
    "to object to its use (Art. 21)",
    "to complain to a supervisory authority (Art. 77)",
)


def access_page(document: dict[str, Any]) -> str:
    """Returns the complete page."""
    parts = [
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width, initial-scale=1">',
        f"<title>What we hold about you</title><style>{STYLE}</style></head><body>",
        "<h1>What we hold about you</h1>",
        *_summary(document),
        *_source_data(document),
        *_derived_data(document),
        *_purposes(document),
        *_recipients(document),
        *_retention_periods(document),
        *_rights(document),
        *_gaps(document),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _summary(document: dict[str, Any]) -> Iterator[str]:
    person = ", ".join(f"{each['kind']} {each['value']}" for each in document["subject"])
    yield f"<p class=soft>For {escape(person)} · made on {escape(document['made_at'][:10])}</p>"
    summary = document["summary"]
    if not document["held"]:
        yield "<p class=card>We hold <b>no data</b> about you in the systems that this page covers."
        yield "" if document["complete"] else " Some of them could not be searched: they are listed at the end."
        yield "</p>"
        return
    alone = f"{summary['alone']:,} of them {'is' if summary['alone'] == 1 else 'are'} about you alone."
    if summary["alone"] == summary["rows"]:
        alone = "None of them contains data about other people."
    where = _count_text(summary["datasets"], "collection")
    yield (
        f"<p class=card>We hold <b>{_count_text(summary['rows'], 'record')}</b> in {where} that are "
        "about you, or were made from data about you. "
        f"{alone}</p>"
    )


def _source_data(document: dict[str, Any]) -> Iterator[str]:
    sources = [each for each in document["data"] if each["role"] == "source"]
    if sources:
        yield "<h2>The data about you</h2>"
        yield "<p>These records name you. Columns marked with * hold personal data.</p>"
        for each in sources:
            yield from _dataset(each)


def _derived_data(document: dict[str, Any]) -> Iterator[str]:
    made = [each for each in document["data"] if each["role"] != "source"]
    if made:
        yield "<h2>What was made from it</h2>"
        yield (
            "<p>These records were computed from yours. If a record is also about other people, you see only what "
            f"concerns all of them. If it is about fewer than {document['min_group']} people, its contents are not "
            "shown, to protect the privacy of the others.</p>"
        )
        for each in made:
            yield from _dataset(each)
    if document["influenced"]:
        yield "<h3>Results that your data influenced</h3>"
        yield "<p>These results contain no data about you. But they depend on whether your data was there.</p><ul>"
        yield from (f"<li>{escape(each['dataset'])}</li>" for each in document["influenced"])
        yield "</ul>"


def _dataset(each: dict[str, Any]) -> Iterator[str]:
    yield f"<h3>{escape(each['dataset'])}</h3>"
    since = f"Held since {escape(each['since'][:10])}. {_count_text(each['count'], 'record')}."
    way = f" It was derived through {escape(' → '.join(each['way']))}." if len(each["way"]) > 1 else ""
    yield f"<p class=soft>{since}{way}</p>"
    if each["unreadable"]:
        yield "<p>The files have changed since. We know which records were yours, but can no longer show them.</p>"
    shown = [row for row in each["rows"] if row["values"] is not None]
    yield from _table(each["columns"], shown[:MOST_ROWS])
    if len(shown) > MOST_ROWS:
        more = _count_text(len(shown) - MOST_ROWS, "more record")
        yield f"<p class=soft>… and {more}: ask for the complete file.</p>"
    hidden = [row for row in each["rows"] if row["values"] is None and not each["unreadable"]]
    if hidden:
        names = ", ".join(column["name"] for column in each["columns"])
        are = "is" if len(hidden) == 1 else "are"
        yield (
            f"<p class=soft>{_count_text(len(hidden), 'record')} {are} not shown, to "
            "protect other people. "
            f"Such a record has these fields: {escape(names)}.</p>"
        )


def _table(columns: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    if not rows:
        return
    names = [each for each in columns if any(each["name"] in row["values"] for row in rows)]
    heads = "".join(f"<th{' class=personal' if each['personal'] else ''}>{escape(each['name'])}</th>" for each in names)
    with_about = any(row["about"] != "alone" for row in rows)
    yield f"<div class=scroll><table><tr>{heads}{'<th>about</th>' if with_about else ''}</tr>"
    for row in rows:
        cells = "".join(f"<td>{_value(row['values'].get(each['name']))}</td>" for each in names)
        about = "you" if row["about"] == "alone" else f"{row['persons']} people"
        yield f"<tr>{cells}{f'<td>{escape(about)}</td>' if with_about else ''}</tr>"
    yield "</table></div>"


def _purposes(document: dict[str, Any]) -> Iterator[str]:
    if not document["processing"]:
        return
    yield "<h2>What it is used for</h2>"
    for each in document["processing"]:
        yield f"<h3>{escape(each['workflow'])}</h3>"
        origins = [each["origin"], *(f"{name}: {text}" for name, text in each["origins"].items())]
        yield _facts(
            ("What it is", each["description"]),
            ("Purpose", each["purpose"] or "not stated"),
            ("Legal basis", each["legal_basis"] or "not stated"),
            ("Kinds of data", "; ".join(each["categories"]) or "not stated"),
            ("Where it comes from", "; ".join(text for text in origins if text) or "not stated"),
            ("Transfers to other countries", "; ".join(each["transfers"]) or "not stated"),
            ("Who is responsible", each["controller"] or each["owner"] or "not stated"),
            ("Whom to ask", each["contact"] or "not stated"),
        )


def _recipients(document: dict[str, Any]) -> Iterator[str]:
    if document["processing"]:
        yield "<h2>Who gets it</h2>"
        named = {name: None for each in document["processing"] for name in each["recipients"]}
        yield _list(named) if named else "<p>No recipients are stated.</p>"


def _retention_periods(document: dict[str, Any]) -> Iterator[str]:
    if not document["processing"]:
        return
    yield "<h2>How long it is kept</h2><ul>"
    for each in document["processing"]:
        days, until = each["retention_days"], [day for day in each["kept_until"].values() if day]
        term = (
            f"{_count_text(days, 'day')}, the latest until {max(until)}" if days is not None and until else "not stated"
        )
        yield f"<li>{escape(each['workflow'])}: {escape(term)}</li>"
    yield "</ul>"


def _rights(document: dict[str, Any]) -> Iterator[str]:
    yield "<h2>Your rights, and whom to complain to</h2><p>You have the right</p>"
    yield _list(RIGHTS)
    authorities = {each["authority"]: None for each in document["processing"] if each["authority"]}
    for name in authorities:
        yield f"<p>The authority to complain to: {escape(name)}</p>"
    if not authorities:
        yield "<p>You may complain to the data protection authority where you live or work.</p>"


def _gaps(document: dict[str, Any]) -> Iterator[str]:
    if document["not_looked_into"]:
        yield "<h2>What we could not search</h2>"
        yield "<p>These may hold more data about you. The reason why we could not search them is given for each.</p>"
        yield _list(f"{each['dataset']} ({each['run']}): {each['reason']}" for each in document["not_looked_into"])


def _facts(*facts: tuple[str, str | None]) -> str:
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{escape(text)}</dd>' for name, text in facts if text)}</dl>"


def _list(texts: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>"


def _value(value: object) -> str:
    return "<span class=soft>–</span>" if value is None else escape(value_text(value))


def _count_text(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
