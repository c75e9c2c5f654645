"""Every relation, expression, command and question of Spark Connect's protocol, and what becomes of it.

A test compares these tables with the descriptors of the installed PySpark: a type that a new Spark adds must be
decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["traced", "transparent", "reference", "untraced", "passed", "answered"]


@dataclass(frozen=True, slots=True)
class Treatment:
    """What becomes of a type.

    traced: compiled with exact lineage, or refused with the construct that cannot be · transparent: without effect on
    rows and columns · reference: a read, in whose place a source stands before the plan is compiled · untraced: what is
    made of it is run without lineage, for `reason` · passed: sent on; it makes no rows that are kept · answered: what
    the program asks Spark, which is answered as without us
    """

    outcome: Outcome
    reason: str = ""


TRACED, TRANSPARENT, REFERENCE = Treatment("traced"), Treatment("transparent"), Treatment("reference")
PASSED, ANSWERED = Treatment("passed"), Treatment("answered")


def _untraced(reason: str) -> Treatment:
    return Treatment("untraced", reason)


_STATISTICS = _untraced("a statistic that Spark computes at once: its rows are not those of a plan")
_BY_PARTITION = _untraced("a Python function over whole partitions: which rows a row comes from is not known")
_BY_GROUP = _untraced("a Python function over whole groups: which rows a row comes from is not known")
_STREAM = _untraced("streams are not traced")
_SHOWN = _untraced("what show() prints is no data frame")
_ML = _untraced("what a model gives is not traced")
_PLUGIN = _untraced("an extension of the server: what it computes is not known")

RELATIONS: Mapping[str, Treatment] = {
    "read": REFERENCE,
    "local_relation": REFERENCE,
    "cached_local_relation": REFERENCE,
    "chunked_cached_local_relation": REFERENCE,
    "range": REFERENCE,
    "cached_remote_relation": _untraced("the rows of a checkpoint are known to the server only"),
    "relation_changes": _untraced("the changes of a table are no rows of files"),
    **dict.fromkeys(
        (
            "project",
            "filter",
            "join",
            "set_op",
            "sort",
            "limit",
            "offset",
            "aggregate",
            "deduplicate",
            "with_columns",
            "with_columns_renamed",
            "drop",
            "to_df",
            "to_schema",
            "unpivot",
            "fill_na",
            "drop_na",
            "replace",
            "sql",
            "with_relations",
            "subquery_alias",
            "as_of_join",
            "lateral_join",
        ),
        TRACED,
    ),
    **dict.fromkeys(("repartition", "repartition_by_expression", "hint", "collect_metrics"), TRANSPARENT),
    "with_watermark": TRANSPARENT,
    "nearest_by_join": _untraced("joins with the nearest rows by a ranking are not traced"),
    "zip": _untraced("zip() pairs rows by their place, which depends on how they are stored"),
    "tail": _untraced("tail() is only for collecting"),
    "transpose": _untraced("transpose() makes columns of rows: which columns there are depends on the data"),
    "parse": _untraced("text that is parsed as a file cannot be traced to its rows: use from_json() or from_csv()"),
    **dict.fromkeys(("show_string", "html_string"), _SHOWN),
    **dict.fromkeys(("summary", "crosstab", "describe", "cov", "corr", "approx_quantile", "freq_items"), _STATISTICS),
    "sample": _untraced("sample() draws rows by how they are stored"),
    "sample_by": _untraced("sampleBy() draws rows anew whenever they are computed"),
    "map_partitions": _BY_PARTITION,
    **dict.fromkeys(("group_map", "co_group_map"), _BY_GROUP),
    "apply_in_pandas_with_state": _STREAM,
    "common_inline_user_defined_table_function": _untraced(
        "a table function in Python: which rows a row comes from is not known"
    ),
    "unresolved_table_valued_function": _untraced("rows of a table function come from no source"),
    "common_inline_user_defined_data_source": _untraced("a data source in Python cannot be read again"),
    "catalog": _untraced("what the session's catalog lists is no data of a source"),
    "ml_relation": _ML,
    "extension": _PLUGIN,
    "unknown": _untraced("the relation has no kind"),
}

EXPRESSIONS: Mapping[str, Treatment] = {
    **dict.fromkeys(
        ("literal", "unresolved_attribute", "unresolved_function", "expression_string", "unresolved_star", "alias",
         "cast", "unresolved_regex", "sort_order", "lambda_function", "window", "unresolved_extract_value",
         "update_fields", "unresolved_named_lambda_variable", "common_inline_user_defined_function", "call_function",
         "named_argument_expression", "subquery_expression"),
        TRACED,
    ),
    "typed_aggregate_expression": _untraced("an aggregate in Scala: which rows a value comes from is not known"),
    "merge_action": _untraced("an action of MERGE is no expression of a row"),
    "direct_shuffle_partition_id": TRANSPARENT,
    "extension": _PLUGIN,
}  # fmt: skip

_WRITES_ELSEWHERE = _untraced("what a command writes into a table by itself is not traced yet")

COMMANDS: Mapping[str, Treatment] = {
    **dict.fromkeys(("write_operation", "write_operation_v2", "create_dataframe_view", "sql_command",
                     "checkpoint_command"), TRACED),
    "merge_into_table_command": _WRITES_ELSEWHERE,
    "execute_external_command": _WRITES_ELSEWHERE,
    **dict.fromkeys(
        ("register_function", "register_table_function", "register_data_source", "get_resources_command",
         "create_resource_profile_command", "remove_cached_remote_relation_command"),
        PASSED,
    ),
    **dict.fromkeys(
        ("write_stream_operation_start", "streaming_query_command", "streaming_query_manager_command",
         "streaming_query_listener_bus_command"),
        _STREAM,
    ),
    "ml_command": _ML,
    "pipeline_command": _untraced("pipelines are imported: `import spark-pipeline DIR`"),
    "extension": _PLUGIN,
}  # fmt: skip

ANALYSES: Mapping[str, Treatment] = {
    **dict.fromkeys(
        ("schema", "explain", "tree_string", "is_local", "is_streaming", "input_files", "spark_version", "ddl_parse",
         "same_semantics", "semantic_hash", "get_storage_level", "json_to_ddl"),
        ANSWERED,
    ),
    **dict.fromkeys(("persist", "unpersist"), PASSED),
}  # fmt: skip

_LISTED = ("current_database", "list_databases", "list_tables", "list_functions", "list_columns", "get_database",
           "get_table", "get_function", "database_exists", "table_exists", "function_exists", "is_cached",
           "current_catalog", "list_catalogs", "list_partitions", "list_views", "get_table_properties",
           "get_create_table_string")  # fmt: skip
_CHANGED = ("set_current_database", "create_external_table", "create_table", "drop_temp_view", "drop_global_temp_view",
            "recover_partitions", "cache_table", "uncache_table", "clear_cache", "refresh_table", "refresh_by_path",
            "set_current_catalog", "drop_table", "drop_view", "create_database", "drop_database", "truncate_table",
            "analyze_table")  # fmt: skip

CATALOG: Mapping[str, Treatment] = {**dict.fromkeys(_LISTED, ANSWERED), **dict.fromkeys(_CHANGED, PASSED)}


def untraced_reason(kind: str) -> str:
    """Why a kind of relation is not traced."""
    treatment = RELATIONS.get(kind)
    if treatment is not None and treatment.outcome == "reference":
        return f"the relation reads data ({kind}) that is no source of the workflow"
    if treatment is not None and treatment.reason:
        return treatment.reason
    return f"a relation of the kind {kind or 'unknown'} is not traced"
