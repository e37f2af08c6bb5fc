"""Large delimited files through Spark: read, check and write as a snapshot, without a row passing through Python.

The checks here are at least as strict as those of ``store.delimited``. If a row does not pass, nothing is decided: the file
is read again row by row, which says what is wrong and where.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from viewkeeper.engines.session import path_to_read
from viewkeeper.engines.spark_functions import spark_errors
from viewkeeper.program.ast import Column, Relation
from viewkeeper.program.types import Kind
from viewkeeper.sources import Options
from viewkeeper.store.delimited import Format, header_of, opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CORRUPT = "$corrupt"

# Text → real value, NULL where the text is none; {0} is the text.
_READ: dict[Kind, str] = {
    Kind.NUMBER: r"CASE WHEN {0} RLIKE r'\A[+-]?[0-9]+\z' THEN try_cast({0} AS BIGINT) END",
    Kind.UNSIGNED: r"CASE WHEN {0} RLIKE r'\A\+?[0-9]+\z' THEN try_cast({0} AS BIGINT) END",
    Kind.FLOAT: (
        r"CASE WHEN {0} RLIKE r'\A[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\z'"
        r" AND abs(CAST({0} AS DOUBLE)) < double('inf') THEN CAST({0} AS DOUBLE) + 0.0D END"
    ),
    Kind.SYMBOL: "CASE WHEN instr({0}, char(0)) = 0 AND instr({0}, '\ufffd') = 0 THEN {0} END",
    Kind.BOOL: "CASE {0} WHEN 'true' THEN TRUE WHEN 'false' THEN FALSE END",
    Kind.DATE: r"CASE WHEN {0} RLIKE r'\A[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}\z' AND {0} >= '0001' THEN try_cast({0} AS DATE) END",
    Kind.TIMESTAMP: (
        r"CASE WHEN {0} RLIKE r'\A[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?Z?\z'"
        r" AND {0} >= '0001' THEN try_cast({0} AS TIMESTAMP) END"
    ),
    Kind.DECIMAL: (
        r"CASE WHEN {0} RLIKE r'\A[+-]?[0-9]{{1,{whole}}}(\.[0-9]{{0,{scale}}})?\z' THEN CAST({0} AS DECIMAL({precision}, {scale})) END"
    ),
    Kind.BYTES: r"CASE WHEN {0} RLIKE r'\A([0-9a-fA-F]{{2}})*\z' THEN unhex({0}) END",
}


def load_with_spark(
    session: SparkSession, source: Path, relation: Relation, options: Options, target: Path, existing: Path | None = None
) -> int | None:
    """Writes the file's distinct rows, with those of the ``existing`` snapshot, as a snapshot to ``target``.

    Returns the number of rows in the file, or None if the file must be read row by row instead.
    """
    form = options.applied(Format.of_path(source))
    if relation.arity < 2 or not _readable(source, form):
        return None
    header, order = header_of(source, relation, form)
    names = [f"c{i}" for i in range(relation.arity)]
    texts = _quoted(session, source, form, header, names) if form.quoted else _plain(session, source, form, header, names)
    values = [f"{_value(c, f'c{place}')} AS `{c.name}`" for c, place in zip(relation.columns, order, strict=True)]
    with spark_errors():
        typed = texts.selectExpr(*values, f"{_bad(relation, order)} AS `{_CORRUPT}`").persist()
        try:
            rows, bad = typed.selectExpr("count(*)", f"count_if(`{_CORRUPT}`)").first() or (0, 0)
            if bad:
                return None
            _write(session, typed.drop(_CORRUPT), existing, target)
        finally:
            typed.unpersist()
    return int(rows)


def _readable(source: Path, form: Format) -> bool:
    name = source.name.removesuffix(".gz").lower()
    return source.is_file() and not name.endswith((".parquet", ".jsonl", ".ndjson")) and len(form.delimiter) == 1


def _write(session: SparkSession, rows: DataFrame, existing: Path | None, target: Path) -> None:
    if existing is not None:
        rows = rows.unionByName(session.read.parquet(path_to_read(existing)))
    rows.distinct().write.mode("overwrite").option("compression", "zstd").parquet(str(target.absolute()))


def _plain(session: SparkSession, source: Path, form: Format, header: bool, names: list[str]) -> DataFrame:
    lines = session.read.option("lineSep", "\n").text(path_to_read(source))
    delimiter = form.delimiter.replace("\\", "\\\\").replace("'", "\\'")
    fields = lines.selectExpr(rf"split(regexp_replace(value, r'\r\z', ''), '\\Q{delimiter}\\E', -1) AS f")
    found = fields.selectExpr(
        *(f"try_element_at(f, {i + 1}) AS {name}" for i, name in enumerate(names)), f"size(f) <> {len(names)} AS `{_CORRUPT}`"
    )
    # A header is the first line of the file; row by row reading knows which one that is.
    return _without_header(found, source, form, names) if header else found


def _without_header(found: DataFrame, source: Path, form: Format, names: list[str]) -> DataFrame:
    with opened(source) as file:
        first = file.readline().rstrip("\r\n").split(form.delimiter)
    session = found.sparkSession
    header = session.sql(f"SELECT {', '.join(f':{n} AS {n}' for n in names)}", args=dict(zip(names, first, strict=True)))
    return found.exceptAll(header.selectExpr(*names, f"FALSE AS `{_CORRUPT}`"))


def _quoted(session: SparkSession, source: Path, form: Format, header: bool, names: list[str]) -> DataFrame:
    schema = ", ".join([*(f"{name} STRING" for name in names), f"`{_CORRUPT}` STRING"])
    reader = session.read.schema(schema).options(
        sep=form.delimiter, quote='"', escape='"', header=str(header).lower(), multiLine="true", mode="PERMISSIVE",
        columnNameOfCorruptRecord=_CORRUPT, enforceSchema="true", ignoreLeadingWhiteSpace="false",
        ignoreTrailingWhiteSpace="false", maxCharsPerColumn="-1",
    )  # fmt: skip
    frame = reader.csv(path_to_read(source))
    # Spark reads an empty field as NULL.
    return frame.selectExpr(*(f"coalesce({name}, '') AS {name}" for name in names), f"`{_CORRUPT}` IS NOT NULL AS `{_CORRUPT}`")


def _value(column: Column, text: str) -> str:
    type_ = column.type
    value = _READ[type_.kind].format(
        text, scale=type_.scale, precision=type_.precision, whole=max(1, type_.precision - type_.scale)
    )
    return f"CASE WHEN {text} <> '' THEN {value} END" if type_.nullable else value


def _bad(relation: Relation, order: list[int]) -> str:
    """Is there a field without a value?"""
    tests = [f"`{_CORRUPT}`"]
    for column, place in zip(relation.columns, order, strict=True):
        missing = f"{_value(column, f'c{place}')} IS NULL"
        tests.append(f"(c{place} <> '' AND {missing})" if column.type.nullable else missing)
    return f"coalesce({' OR '.join(tests)}, TRUE)"
