"""Real Spark sessions for tests: small, quiet, on the interpreter and the sources that the tests run on."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from pathlib import Path

import pytest

SOURCES = str(Path(__file__).resolve().parents[2] / "src")
# Few rows and many small jobs: the JVM's better compiler and Spark's generated code would never pay for themselves.
QUICK = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.log.level": "OFF",
}


def require_spark() -> None:
    """Skip, with the reason, where PySpark or Java is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("pyspark", reason="rows of a Spark table need PySpark: pip install dperm[spark]")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs a Java runtime: apt-get install default-jre-headless", allow_module_level=True)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Executors start in folders of their own: the sources need their full path.
    os.environ["PYTHONPATH"] = os.pathsep.join([SOURCES, *filter(None, [os.environ.get("PYTHONPATH")])])


def classic_session(master: str = "local[2]", **settings: str):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    for name, value in (QUICK | settings).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
