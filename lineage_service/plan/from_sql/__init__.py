"""Compiles the query of an sql step to plan nodes. Start at query_compiler.compile_sql.

query, parentheses, WITH: query_compiler · SELECT, clause by clause: select_block, block_state · select list, `*`,
    aliases: select_list · names of columns without an alias: spark_names, spark_call_names, spark_type_names,
    operand_types
FROM: joins (comma list, JOIN, hints), from_tables (one table, derived table), lateral_joins, pivots, generators
    (explode, LATERAL VIEW), from_entry (the result of these) · ON with subqueries: join_conditions ·
    WHERE: from_and_where
GROUP BY, aggregate functions: aggregates · ROLLUP, CUBE, GROUPING SETS: grouping_sets · window functions: sql_windows ·
    HAVING, QUALIFY, DISTINCT: select_block, select_aliases · ORDER BY, LIMIT: ordering
UNION, INTERSECT, EXCEPT: set_operations · VALUES, range(), SELECT without FROM: constant_rows, repeated_rows
subqueries: subqueries (entry), existence_joins, subquery_marks, scalar_subqueries, correlation, subquery_shapes
names: scopes · text of expressions: expression_texts, field_names (struct) · shared state: sql_context ·
    errors: refusals (before a run), runtime_errors (during it)
"""
