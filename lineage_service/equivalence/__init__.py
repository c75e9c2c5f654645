"""Where Spark and DuckDB mean the same: type names, stored values, predicates, values, aggregates, settings.

A module belongs here if it states that both engines read, compare or compute something with the same result: a table of
types, a predicate over types, or a translation that is refused (`NotTranslatable`, or None) unless it certainly means
the same in both. Whole queries are built from these parts in the features: look-ups in capture/, refreshes in refresh/,
questions in sql/ and query/.

A wrong entry causes a wrong pair: DuckDB indexes lineage and refreshes outputs over rows that Spark has computed, and
nothing compares the two at run time. So an entry needs a test with the values at which the engines might differ (nulls,
the largest number, halves, old dates, NaN). In case of doubt it is left out. Then Spark does the work, which is only
slower.
"""
