"""Words of SQL, pandas, dbt and other tools, and what is written here instead: hints for unknown keys and ops."""

from __future__ import annotations

from collections.abc import Collection, Mapping

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


def _table(*rows: tuple[str, str]) -> dict[str, str]:
    return {word: hint for words, hint in rows for word in words.split()}


def _key(name: str) -> str:
    return f"here it is `{name}`"


# By op, and by part of the file: words that stand for one of its keys, or for something that is done otherwise.
_KEYS: dict[str, Mapping[str, str]] = {
    "filter": _table(
        (f"{_PREDICATE} having on when", _key("where")),
        ("select columns", "a filter keeps all columns; choose them with `op: project`"),
        (_ORDER, _BEHIND),
    ),
    "project": _table(
        (_COLUMNS, _key("columns")),
        ("unique dedupe", _key("distinct")),
        (f"where {_PREDICATE}", _AHEAD),
        ("group_by groupby by", "groups are made with `op: aggregate`"),
        (_ORDER, _BEHIND),
    ),
    "with_columns": _table(
        (_COLUMNS, _key("columns")), ("with add new", _key("columns")), (f"where {_PREDICATE}", _AHEAD)
    ),
    "aggregate": _table(
        ("group_by groupby group keys key dimensions group_keys grouping partition_by", _key("by")),
        (f"aggs agg aggregates aggregations aggregate metrics measure {_COLUMNS} columns", _key("measures")),
        (f"where {_PREDICATE}", f"to choose groups write `having`; to choose rows {_AHEAD}"),
        (_ORDER, _BEHIND),
        ("limit n", _CUT),
    ),
    "distinct": _table(
        ("subset on by keys columns", "`distinct` compares all columns; choose them first with `op: project`"),
    ),
    "join": _table(
        ("condition predicate expr expression filter cond where", _key("on")),
        ("type join_type kind jointype", _key("how")),
        ("keys key by columns column", "columns that both sides have go into `using`, anything else into `on`"),
        ("left_on right_on", "write the condition: `on: left.a = right.b`"),
        (f"{_INPUT} input inputs with", "the two sides are `left` and `right`"),
        ("select", "a join keeps the columns of both sides; choose them with `op: project` behind it"),
        ("suffixes prefix suffix lsuffix rsuffix", "rename the columns of one side before the join: `op: project`"),
    ),
    "union": _table(
        (f"{_INPUT} input left right", "`inputs` lists the steps: [a, b]"),
        ("all", "that is the default; `distinct: true` leaves equal rows once"),
    ),
    "intersect": _table(
        ("all", "write `distinct: false`"), (f"{_INPUT} input inputs", "the sides are `left` and `right`")
    ),
    "difference": _table(
        ("all", "write `distinct: false`"), (f"{_INPUT} input inputs", "the sides are `left` and `right`")
    ),
    "window": _table(
        ("partition partitionby by group_by groupby keys", _key("partition_by")),
        ("order orderby sort sort_by", _key("order_by")),
        (f"{_COLUMNS} columns functions aggs aggregations", _key("measures")),
        ("rows range rows_between range_between", "here it is `frame`: ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"),
        ("over", "the window is `partition_by` and `order_by`"),
        (f"where {_PREDICATE} qualify", "write a step of its own behind this one: `op: filter` with `where`"),
    ),
    "sort": _table(
        (f"{_ORDER} keys columns column on", _key("by")),
        ("ascending descending desc asc", "the direction goes with the column: `by: [x desc]`"),
        ("limit", _CUT),
    ),
    "limit": _table(
        ("limit count rows top size take head", _key("n")),
        (f"{_ORDER} columns", _key("by")),
        ("offset skip", "rows cannot be skipped; number them with `op: window` and filter by the number"),
    ),
    "explode": _table(
        ("columns col field array", _key("column")),
        ("alias into to new_column", _key("as")),
        ("keep_empty keep_nulls", _key("outer")),
    ),
    "step": _table(
        (_INPUT, _key("input")),
        ("inputs", "this op reads one step: `input`"),
        ("id step title", _key("name")),
        ("type operator operation kind transform transformation function", _key("op")),
        ("tests test expectations assertions constraints expect", _key("checks")),
        ("description comment doc docs note", _IN_THE_COMMENT),
        ("frame", _WINDOW_ONLY),
        ("partition_by over", _WINDOW_ONLY),
        ("rename renames", _RENAME),
        ("drop", _RENAME),
        ("depends_on needs after", "what a step reads is enough; steps may stand in any order"),
    ),
    "SourceSpec": _table(
        ("file files url uri location filename glob paths dir folder directory", _key("path")),
        ("type kind", _key("format")),
        ("columns fields dtypes types ddl", _key("schema")),
        ("cache copy", _key("snapshot")),
        ("from ref table dataset workflow source step", _key("output")),
        ("alias renames aliases", _key("rename")),
        ("subjects person persons", _key("subject")),
        ("personal personal_data sensitive", _key("pii")),
        ("hold", _key("legal_hold")),
        ("description comment doc", _IN_THE_COMMENT),
    ),
    "OutputSpec": _table(
        ("input from source of table ref name", _key("step")),
        ("location file dir folder target save to publish", _key("path")),
        ("tests test expectations assertions constraints", _key("checks")),
        ("format", "the published copy is Parquet"),
        ("mode", "the published copy is replaced as a whole by every run"),
        ("partition_by partitions", "the published copy is one folder of files"),
        ("on_erase erasure", _key("on_erasure")),
        ("description comment doc", _IN_THE_COMMENT),
    ),
    "WorkflowKeys": _table(
        ("variables params parameters env", _key("vars")),
        ("source inputs input tables datasets", _key("sources")),
        ("step transforms transformations tasks pipeline nodes models transform", _key("steps")),
        ("output targets sinks target", _key("outputs")),
        ("title id workflow", _key("name")),
        ("tests checks expectations", "checks belong to a step or an output"),
        ("capture keep workload", "that belongs under `lineage`"),
        ("purpose legal_basis recipients retention_days", "that belongs under `privacy`"),
    ),
    "CheckSpec": _table(
        ("notnull not_nulls required", _key("not_null")),
        ("uniqueness primary_key key distinct", _key("unique")),
        (f"{_PREDICATE} check sql assert", _key("where")),
        ("level", _key("severity")),
    ),
    "LineageSpec": _table(
        ("strategy mode", _key("capture")), ("kept steps", _key("keep")), ("queries questions", _key("workload"))
    ),
    "WorkloadQuery": _table(
        ("from start dataset output", "a question starts with `backward` or `forward`"),
        ("target source", _key("to")),
        (_PREDICATE, _key("where")),
        ("params", _key("parameters")),
        ("group_by groupby", _key("by")),
        ("aggs", _key("measures")),
    ),
}

_OPS = _table(
    ("select projection rename drop cast", _key("project")),
    ("where having qualify", _key("filter")),
    ("group_by groupby group agg summarize summarise rollup", _key("aggregate")),
    ("order_by orderby order sort_by arrange", _key("sort")),
    ("minus except subtract anti_join", _key("difference") + ", or a join with `how: anti`"),
    ("intersection", _key("intersect")),
    ("union_all concat append unionbyname", _key("union")),
    ("union_distinct", "write `op: union` with `distinct: true`"),
    ("dedupe deduplicate unique drop_duplicates", _key("distinct")),
    ("merge lookup", _key("join")),
    ("left_join leftjoin left_outer_join", "write `op: join` with `how: left`"),
    ("right_join", "write `op: join` with `how: right`"),
    ("full_join outer_join full_outer_join", "write `op: join` with `how: full`"),
    ("inner_join", _key("join")),
    ("semi_join left_semi", "write `op: join` with `how: semi`"),
    ("cross_join cartesian", "write `op: join` with `how: cross`"),
    ("head take top first", _key("limit")),
    ("unnest flatten flatmap flat_map", _key("explode")),
    ("derive mutate compute with_column withcolumn map add_column add_columns extend", _key("with_columns")),
    ("over rank row_number analytic", _key("window")),
    ("sql query", "SQL steps are not there yet; write the query as steps"),
    ("pivot unpivot melt", "there is no such step; a pivot is an aggregate with one measure per value"),
)
_VALUES = {"outer": "full", "full_outer": "full", "fullouter": "full", "left_outer": "left", "leftouter": "left",
           "right_outer": "right", "rightouter": "right", "left_semi": "semi", "leftsemi": "semi", "left_anti": "anti",
           "leftanti": "anti", "warning": "warn", "fatal": "error", "jsonl": "json", "ndjson": "json", "tsv": "csv",
           "none": "off", "eager": "inject", "deferred": "defer"}  # fmt: skip


def meant_key(word: str, *kinds: str) -> str | None:
    """A hint for an unknown key, by the part of the file that it stands in; None where nobody uses the word."""
    lower = word.lower().replace("-", "_")
    for kind in kinds:
        hint = _KEYS.get(kind, {}).get(lower)
        if hint is not None:
            return hint
    options = {name.lower(): name for names in KNOWN.values() for name in names}
    if "SourceSpec" in kinds and lower.replace("_", "") in options:
        return f"reader options go under `options`: {{{options[lower.replace('_', '')]}: …}}"
    return None


def meant_op(word: str) -> str | None:
    return _OPS.get(word.lower().replace("-", "_").replace(" ", "_"))


def meant_value(word: str, expected: Collection[str]) -> str | None:
    meant = _VALUES.get(word.lower().replace(" ", "_").replace("-", "_"))
    return f"here it is `{meant}`" if meant in expected else None
