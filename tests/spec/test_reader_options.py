"""The table of reader options against Spark itself: none is missing, and what is refused cannot be read either."""

import pytest

from lineage_service.spec.reader_options import KNOWN, REFUSED, WRITERS, option_problems
from lineage_service.spec.source_models import SourceSpec

OBJECTS = {
    "csv": "org.apache.spark.sql.catalyst.csv.CSVOptions",
    "json": "org.apache.spark.sql.catalyst.json.JSONOptions",
    "parquet": "org.apache.spark.sql.execution.datasources.parquet.ParquetOptions",
}
OF_FILES = "org.apache.spark.sql.execution.datasources.FileIndexOptions"
FILES = {"csv": "a,b\n1,2\n", "json": '{"a": 1}\n'}


def options_of(spark, name: str) -> set[str]:
    found = spark._jvm.java.lang.Class.forName(name + "$").getField("MODULE$").get(None).getAllOptions().toSeq()
    return {found.apply(index).lower() for index in range(found.size())}


def lower(names) -> set[str]:
    return {name.lower() for name in names}


@pytest.mark.parametrize("kind", OBJECTS)
def test_every_option_of_spark_is_known_or_refused(spark, kind):
    told = lower(KNOWN[kind]) | lower(REFUSED) | lower(WRITERS)
    assert options_of(spark, OBJECTS[kind]) - told == set()
    assert options_of(spark, OF_FILES) - lower(REFUSED) <= {"timezone"}


def problems(kind: str, **options: str) -> list[str]:
    return [each.message for each in option_problems(SourceSpec(path=f"f.{kind}", options=options))]


def reads(spark, tmp_path, kind: str, **options: str) -> bool:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    file = tmp_path / f"f.{kind}"
    file.write_text(FILES[kind], encoding="utf-8")
    try:
        _ = spark.read.options(**options).format(kind).load(str(file)).collect()
    except (PySparkException, Py4JError):
        return False
    return True


@pytest.mark.parametrize(
    ("kind", "option", "value"),
    [
        *(("csv", name, "yes") for name in ("header", "inferSchema", "multiLine", "enforceSchema", "preferDate",
                                            "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace")),
        *(("json", name, "on") for name in ("multiLine", "primitivesAsString", "prefersDecimal", "allowComments")),
        *(("csv", name, "''") for name in ("quote", "escape", "comment", "charToEscapeQuoteEscaping")),
        *(("csv", name, "many") for name in ("maxColumns", "maxCharsPerColumn", "samplingRatio")),
        ("csv", "maxColumns", "-1"), ("csv", "sep", ""), ("csv", "lineSep", ""), ("json", "lineSep", ""), ("csv", "unescapedQuoteHandling", "SKIP"),
    ],
)  # fmt: skip
def test_what_is_refused_cannot_be_read(spark, tmp_path, kind, option, value):
    given = {option: value, **({"inferSchema": "true"} if option == "samplingRatio" else {})}
    assert problems(kind, **given) and not reads(spark, tmp_path, kind, **given)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("csv", {"HEADER": "True", "sep": "\\t", "quote": "", "escape": "\\", "nullValue": "", "maxColumns": "100"}),
        ("csv", {"mode": "permissive", "samplingRatio": "0.5", "inferSchema": "TRUE", "lineSep": "\n", "locale": "de"}),
        ("csv", {"unescapedQuoteHandling": "skip_value", "maxCharsPerColumn": "+100", "samplingRatio": "1"}),
        ("json", {"multiLine": "FALSE", "samplingRatio": "1.0", "timeZone": "UTC", "maxNestingDepth": "10"}),
    ],
)
def test_what_spark_reads_is_accepted(spark, tmp_path, kind, options):
    assert not problems(kind, **options) and reads(spark, tmp_path, kind, **options)


def test_flags_of_yaml_1_1_are_told(tmp_path):
    (problem,) = option_problems(SourceSpec(path="f.csv", options={"header": "no"}))
    assert "true or false" in problem.message and "write `false`" in str(problem.hint)
