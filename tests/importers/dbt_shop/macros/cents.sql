{% macro to_units(column) %}{{ column }} / 100{% endmacro %}
