"""Makes target/manifest.json of this project anew, with a dbt that is installed elsewhere: see README.md.

    python make_manifest.py path/to/bin/dbt

Left out of what dbt writes: macros of dbt itself, and paths, ids and times of the machine that it ran on.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def main(dbt: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "shop"
        shutil.copytree(HERE, work, ignore=shutil.ignore_patterns("target", "logs"))
        subprocess.run([dbt, "compile", "--profiles-dir", "."], cwd=work, check=True)
        manifest = json.loads((work / "target" / "manifest.json").read_text(encoding="utf-8"))
    project = manifest["metadata"]["project_name"]
    manifest["macros"] = {key: each for key, each in manifest["macros"].items() if each["package_name"] == project}
    for key in ("invocation_id", "invocation_started_at", "user_id", "generated_at", "run_started_at"):
        manifest["metadata"].pop(key, None)
    for node in [*manifest["nodes"].values(), *(each for nodes in manifest["disabled"].values() for each in nodes)]:
        if "root_path" in node:
            node["root_path"] = None
        node.pop("created_at", None)
    target = HERE / "target"
    target.mkdir(exist_ok=True)
    text = json.dumps(manifest, indent=1, ensure_ascii=False)
    assert folder not in text
    (target / "manifest.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
