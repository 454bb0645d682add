"""Spark Connect: a server of its own and a client in another process, as people have it who reach a cluster over the network."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import dperm
from places import ROOT
from spark_sessions import QUICK, require_spark
from spark_tables import SCHEMA, raw

require_spark()
pytest.importorskip("grpc", reason="Spark Connect needs grpcio: pip install dperm[spark]")
pytestmark = pytest.mark.filterwarnings("default")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    import pyspark

    home, port = Path(pyspark.__file__).parent, free_port()
    if not list((home / "jars").glob("spark-connect_*")):
        pytest.skip(f"PySpark {pyspark.__version__} was installed without the Connect server")
    log = tmp_path_factory.mktemp("connect") / "server.log"
    settings = QUICK | {"spark.connect.grpc.binding.port": str(port), "spark.connect.grpc.binding.address": "127.0.0.1"}
    command = [str(home / "bin/spark-submit"), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["--master", "local[2]", *(part for item in settings.items() for part in ("--conf", "=".join(item)))]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "spark-internal"], stdout=output, stderr=output, env={**os.environ, "SPARK_HOME": str(home)},
            start_new_session=True,
        )  # fmt: skip
    try:
        for _ in range(600):
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, log.read_text()[-2000:]
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def test_a_client_over_the_network_gets_the_fit_of_memory(server, tmp_path):
    table = raw()
    table.to_parquet(tmp_path / "people.parquet")
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA.spec()))
    script = ROOT / "tests/helpers/spark_connect_client.py"
    command = [sys.executable, str(script), server, str(tmp_path / "people.parquet"), str(tmp_path / "schema.json")]
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["module"] == "pyspark.sql.connect.dataframe"
    options = {"epsilon": 2.0, "schema": SCHEMA, "random_state": 2}
    memory = dperm.LogisticRegression(**options, method=dperm.Gradient(steps=2)).fit(table)
    np.testing.assert_array_equal(found["coefficients"], memory.coef_)
    assert found["record"] == json.loads(json.dumps(memory.certificate_.record, default=str))
    persons = {"groups": "who", "max_rows_per_person": 50, "method": dperm.Gradient(steps=1)}
    np.testing.assert_array_equal(found["persons"], dperm.LogisticRegression(**options, **persons).fit(table).coef_)
    looked = dperm.profile(table[["age", "place", "income"]], epsilon=1.0, target="income", random_state=2)
    scored = dperm.evaluate(memory, table, epsilon=1.0, random_state=2)
    for name, record in (("profile", looked.record), ("evaluation", scored.record)):
        assert found[name] == json.loads(json.dumps(record, default=str)), name
    assert "two passes disagree" in found["drawn"] and "Nothing was spent" in found["drawn"]
    assert "declared columns 'age'" in found["missing"]
