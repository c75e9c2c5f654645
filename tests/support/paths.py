"""Where the project's files are, for tests in any folder."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
GOLDEN = ROOT / "tests" / "golden"
SHOP = ROOT / "workflows" / "shop" / "revenue.yml"
