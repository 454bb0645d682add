"""A client of a Spark Connect server, in a process of its own: fits on a table and prints what came out as JSON.

    python spark_connect_client.py sc://127.0.0.1:PORT people.parquet schema.json
"""

from __future__ import annotations

import json
import sys
import warnings

warnings.simplefilter("ignore")

import dperm  # noqa: E402


def refusal(frame, schema, **options) -> str:
    try:
        dperm.LogisticRegression(epsilon=1.0, schema=schema, **options).fit(frame)
    except ValueError as error:
        return str(error)
    return ""


def main(address: str, file: str, schema_file: str) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(address).getOrCreate()
    schema = dperm.Schema.load(schema_file)
    frame = spark.read.parquet(file).repartition(3)
    fitted = dperm.LogisticRegression(epsilon=2.0, schema=schema, method=dperm.Gradient(steps=2), random_state=2).fit(frame)
    persons = {"groups": "who", "max_rows_per_person": 50, "method": dperm.Gradient(steps=1), "random_state": 2}
    grouped = dperm.LogisticRegression(epsilon=2.0, schema=schema, **persons).fit(frame)
    spark.read.parquet(file).createOrReplaceTempView("people")
    drawn = spark.sql("SELECT rand() * 100 AS age, height, place, income FROM people")
    looked = dperm.profile(frame.select("age", "place", "income"), epsilon=1.0, target="income", random_state=2)
    scored = dperm.evaluate(fitted, frame, epsilon=1.0, random_state=2)
    found = {
        "profile": looked.record,
        "evaluation": scored.record,
        "module": type(frame).__module__,
        "coefficients": fitted.coef_.tolist(),
        "record": fitted.certificate_.record,
        "persons": grouped.coef_.tolist(),
        "drawn": refusal(drawn, schema),
        "missing": refusal(frame.drop("age"), schema),
    }
    print(json.dumps(found, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
