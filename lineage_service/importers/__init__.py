"""Workflow files from projects of other tools: one folder per tool, and between them what all of them need.

A tool's folder reads its project as a `ForeignProject` (`foreign_project.py`): queries, the tables that nobody builds,
and what cannot be imported. `assembly.py` makes a workflow of it, `workflow_text.py` writes that as YAML.
"""
