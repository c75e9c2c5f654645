"""dbt projects: manifest.json with compiled models."""
