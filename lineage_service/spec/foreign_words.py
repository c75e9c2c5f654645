"""Words of SQL, pandas, dbt and other tools, with what to write here instead: hints for unknown keys and ops."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lineage_service.spec.file_formats import FORMAT_NAMES, format_declaration
from lineage_service.spec.reader_options import KNOWN

_COLUMNS = "select fields cols column exprs expressions projection derive mutate compute values"
_ORDER = "order order_by orderby sort sort_by sortby"
_INPUT = "from source table data dataset relation df upstream reads ref tables sources"
_PREDICATE = "condition predicate expr expression filter cond query"
_WINDOW_ONLY = "that belongs to a step with `op: window`"
_AHEAD = "write a step of its own before this one: `op: filter` with `where`"
_BEHIND = "write a step of its own behind this one: `op: sort` with `by`"
_CUT = "write a step of its own behind this one: `op: limit` with `n`"
_RENAME = "list the columns with `op: project`: {new: old}"
_IN_THE_COMMENT = "write it as a comment: # …"


def _hints_by_word(*rows: tuple[str, str]) -> dict[str, str]:
    return {word: hint for words, hint in rows for word in words.split()}


def _key_hint(name: str) -> str:
    return f"here it is `{name}`"


# By op, and by part of the file: words that stand for one of its keys, or for something that is done otherwise.
_KEYS: dict[str, Mapping[str, str]] = {
    "filter": _hints_by_word(
        (f"{_PREDICATE} having on when", _key_hint("where")),
        ("select columns", "a filter keeps all columns; choose them with `op: project`"),
        (_ORDER, _BEHIND),
    ),
    "project": _hints_by_word(
        (_COLUMNS, _key_hint("columns")),
        ("unique dedupe", _key_hint("distinct")),
        (f"where {_PREDICATE}", _AHEAD),
        ("group_by groupby by", "groups are made with `op: aggregate`"),
        (_ORDER, _BEHIND),
    ),
    "with_columns": _hints_by_word(
        (_COLUMNS, _key_hint("columns")), ("with add new", _key_hint("columns")), (f"where {_PREDICATE}", _AHEAD)
    ),
    "aggregate": _hints_by_word(
        ("group_by groupby group keys key dimensions group_keys grouping partition_by", _key_hint("by")),
        (f"aggs agg aggregates aggregations aggregate metrics measure {_COLUMNS} columns", _key_hint("measures")),
        (f"where {_PREDICATE}", f"to choose groups write `having`; to choose rows {_AHEAD}"),
        (_ORDER, _BEHIND),
        ("limit n", _CUT),
    ),
    "distinct": _hints_by_word(
        ("subset on by keys columns", "`distinct` compares all columns; choose them first with `op: project`"),
    ),
    "join": _hints_by_word(
        ("condition predicate expr expression filter cond where", _key_hint("on")),
        ("type join_type kind jointype", _key_hint("how")),
        ("keys key by columns column", "columns that both sides have go into `using`, anything else into `on`"),
        ("left_on right_on", "write the condition: `on: left.a = right.b`"),
        (f"{_INPUT} input inputs with", "the two sides are `left` and `right`"),
        ("select", "a join keeps the columns of both sides; choose them with `op: project` behind it"),
        ("suffixes prefix suffix lsuffix rsuffix", "rename the columns of one side before the join: `op: project`"),
    ),
    "union": _hints_by_word(
        (f"{_INPUT} input left right", "`inputs` lists the steps: [a, b]"),
        ("all", "that is the default; `distinct: true` leaves equal rows once"),
    ),
    "intersect": _hints_by_word(
        ("all", "write `distinct: false`"), (f"{_INPUT} input inputs", "the sides are `left` and `right`")
    ),
    "difference": _hints_by_word(
        ("all", "write `distinct: false`"), (f"{_INPUT} input inputs", "the sides are `left` and `right`")
    ),
    "window": _hints_by_word(
        ("partition partitionby by group_by groupby keys", _key_hint("partition_by")),
        ("order orderby sort sort_by", _key_hint("order_by")),
        (f"{_COLUMNS} columns functions aggs aggregations", _key_hint("measures")),
        ("rows range rows_between range_between", "here it is `frame`: ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"),
        ("over", "the window is `partition_by` and `order_by`"),
        (f"where {_PREDICATE} qualify", "write a step of its own behind this one: `op: filter` with `where`"),
    ),
    "sort": _hints_by_word(
        (f"{_ORDER} keys columns column on", _key_hint("by")),
        ("ascending descending desc asc", "the direction goes with the column: `by: [x desc]`"),
        ("limit", _CUT),
    ),
    "limit": _hints_by_word(
        ("limit count rows top size take head", _key_hint("n")),
        (f"{_ORDER} columns", _key_hint("by")),
        ("offset skip", "rows cannot be skipped; number them with `op: window` and filter by the number"),
    ),
    "explode": _hints_by_word(
        ("columns col field array", _key_hint("column")),
        ("alias into to new_column", _key_hint("as")),
        ("keep_empty keep_nulls", _key_hint("outer")),
    ),
    "step": _hints_by_word(
        (_INPUT, _key_hint("input")),
        ("inputs", "this op reads one step: `input`"),
        ("id step title", _key_hint("name")),
        ("type operator operation kind transform transformation function", _key_hint("op")),
        ("tests test expectations assertions constraints expect", _key_hint("checks")),
        ("description comment doc docs note", _IN_THE_COMMENT),
        ("frame", _WINDOW_ONLY),
        ("partition_by over", _WINDOW_ONLY),
        ("rename renames", _RENAME),
        ("drop", _RENAME),
        ("depends_on needs after", "what a step reads is enough; steps may stand in any order"),
    ),
    "SourceSpec": _hints_by_word(
        ("file files url uri location filename glob paths dir folder directory", _key_hint("path")),
        ("type kind", _key_hint("format")),
        ("columns fields dtypes types ddl", _key_hint("schema")),
        ("cache copy", _key_hint("snapshot")),
        ("from ref table dataset workflow source step", _key_hint("output")),
        ("alias renames aliases", _key_hint("rename")),
        ("subjects person persons", _key_hint("subject")),
        ("personal personal_data sensitive", _key_hint("pii")),
        ("hold", _key_hint("legal_hold")),
        ("description comment doc", _IN_THE_COMMENT),
    ),
    "OutputSpec": _hints_by_word(
        ("input from source of table ref name", _key_hint("step")),
        ("location file dir folder target save to publish", _key_hint("path")),
        ("tests test expectations assertions constraints", _key_hint("checks")),
        ("format", "the published copy is Parquet"),
        ("mode", "the published copy is replaced as a whole by every run"),
        ("partition_by partitions", "the published copy is one folder of files"),
        ("on_erase erasure", _key_hint("on_erasure")),
        ("description comment doc", _IN_THE_COMMENT),
    ),
    "WorkflowKeys": _hints_by_word(
        ("variables params parameters env", _key_hint("vars")),
        ("source inputs input tables datasets", _key_hint("sources")),
        ("step transforms transformations tasks pipeline nodes models transform", _key_hint("steps")),
        ("output targets sinks target", _key_hint("outputs")),
        ("title id workflow", _key_hint("name")),
        ("tests checks expectations", "checks belong to a step or an output"),
        ("capture keep workload", "that belongs under `lineage`"),
        ("purpose legal_basis recipients retention_days", "that belongs under `privacy`"),
    ),
    "CheckSpec": _hints_by_word(
        ("notnull not_nulls required", _key_hint("not_null")),
        ("uniqueness primary_key key distinct", _key_hint("unique")),
        (f"{_PREDICATE} check sql assert", _key_hint("where")),
        ("level", _key_hint("severity")),
    ),
    "LineageSpec": _hints_by_word(
        ("strategy mode", _key_hint("capture")),
        ("kept steps", _key_hint("keep")),
        ("queries questions", _key_hint("workload")),
    ),
    "WorkloadQuery": _hints_by_word(
        ("from start dataset output", "a question starts with `backward` or `forward`"),
        ("target source", _key_hint("to")),
        (_PREDICATE, _key_hint("where")),
        ("params", _key_hint("parameters")),
        ("group_by groupby", _key_hint("by")),
        ("aggs", _key_hint("measures")),
    ),
}

_OPS = _hints_by_word(
    ("select projection rename drop cast", _key_hint("project")),
    ("where having qualify", _key_hint("filter")),
    ("group_by groupby group agg summarize summarise rollup", _key_hint("aggregate")),
    ("order_by orderby order sort_by arrange", _key_hint("sort")),
    ("minus except subtract anti_join", _key_hint("difference") + ", or a join with `how: anti`"),
    ("intersection", _key_hint("intersect")),
    ("union_all concat append unionbyname", _key_hint("union")),
    ("union_distinct", "write `op: union` with `distinct: true`"),
    ("dedupe deduplicate unique drop_duplicates", _key_hint("distinct")),
    ("merge lookup", _key_hint("join")),
    ("left_join leftjoin left_outer_join", "write `op: join` with `how: left`"),
    ("right_join", "write `op: join` with `how: right`"),
    ("full_join outer_join full_outer_join", "write `op: join` with `how: full`"),
    ("inner_join", _key_hint("join")),
    ("semi_join left_semi", "write `op: join` with `how: semi`"),
    ("cross_join cartesian", "write `op: join` with `how: cross`"),
    ("head take top first", _key_hint("limit")),
    ("unnest flatten flatmap flat_map", _key_hint("explode")),
    ("derive mutate compute with_column withcolumn map add_column add_columns extend", _key_hint("with_columns")),
    ("over rank row_number analytic", _key_hint("window")),
    ("query spark_sql", "write `op: sql` with the query under `query`, or the name of a .sql file under `file`"),
    ("pivot unpivot melt", "there is no such step; a pivot is an aggregate with one measure per value"),
)
_VALUES = {"outer": "full", "full_outer": "full", "fullouter": "full", "left_outer": "left", "leftouter": "left",
           "right_outer": "right", "rightouter": "right", "left_semi": "semi", "leftsemi": "semi", "left_anti": "anti",
           "leftanti": "anti", "warning": "warn", "fatal": "error", "none": "off", "eager": "inject",
           "deferred": "defer",
           **{other: name for name in FORMAT_NAMES for other in format_declaration(name).other_names}}  # fmt: skip


def hint_for_key(word: str, *kinds: str) -> str | None:
    """A hint for an unknown key, by the part of the file that contains it; None for a word that is not listed."""
    lower = word.lower().replace("-", "_")
    for kind in kinds:
        hint = _KEYS.get(kind, {}).get(lower)
        if hint is not None:
            return hint
    options = {name.lower(): name for names in KNOWN.values() for name in names}
    if "SourceSpec" in kinds and lower.replace("_", "") in options:
        return f"reader options go under `options`: {{{options[lower.replace('_', '')]}: …}}"
    return None


def hint_for_op(word: str) -> str | None:
    return _OPS.get(word.lower().replace("-", "_").replace(" ", "_"))


def hint_for_value(word: str, expected: Collection[str]) -> str | None:
    meant = _VALUES.get(word.lower().replace(" ", "_").replace("-", "_"))
    return f"here it is `{meant}`" if meant in expected else None
