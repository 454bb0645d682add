"""An entry for the differential privacy deployments registry (opendp/deployments-registry-data), from a certificate.

What a certificate states is filled in; what only the people behind a deployment know is marked TO WRITE.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from dperm.pages.subject import Subject, upward

WRITE = "TO WRITE: "
_METRIC = {
    "replace-one": "change-one distance: one {unit} replaced by any other, the number of records public",
    "zero-out": "zero-out distance: one {unit} replaced by an empty one, the number of records public",
    "add-remove": "symmetric distance: one {unit} added or removed, the number of records protected",
}
_ACCOUNTED = {
    "gdp": "Gaussian differential privacy, exactly",
    "pure": "adding up pure budgets",
    "zcdp": "zero-concentrated differential privacy",
    "approximate": "basic composition",
}


def entry(subject: Subject, *, name: str | None = None, curator: str | None = None, use: str | None = None) -> dict[str, object]:
    """The entry as a dictionary in the registry's order of keys."""
    title = name or subject.title
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:80] or "deployment",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "product": _product(subject, title, curator, use),
            "dp_flavor": _flavor(subject),
            "privacy_loss": _loss(subject),
            "model": {
                "model_name": "Central",
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": _accounting(subject),
            "implementation": _implementation(subject),
            "resources": {
                "sources": WRITE + "links to the release and its certificate",
                "registry_authors": [WRITE + "your name"],
            },
        },
    }


def _product(subject: Subject, title: str, curator: str | None, use: str | None) -> dict[str, object]:
    count = subject.weights.size
    what = f"{subject.model or 'A model'}{f' of {subject.target}' if subject.target else ''}: {count} released coefficients"
    return {
        "name": title,
        "data_curators": [curator or WRITE + "who holds the data"],
        "intended_use": use or WRITE + "what the release is for",
        "data_product_type": "Machine learning model",
        "data_product_region": WRITE + "the region that the data cover",
        "description": f"{what}{f', from data set {subject.data}' if subject.data else ''}.",
        "publication_date": f"{WRITE}the day of publication (fitted {subject.date})",
    }


def _flavor(subject: Subject) -> dict[str, object]:
    certificate = subject.certificate
    rows = certificate.record["target"]["rows_per_person"]
    unit = "person's records" if certificate.unit == "person" else "record"
    pure = subject.delta == 0
    bound = f"epsilon = {upward(subject.epsilon)}" + ("" if pure else f", delta = {subject.delta:g}")
    free = "the declared bounds, levels and classes" if subject.earlier is None else "the names of the columns"
    nominal = certificate.relation == "add-remove"
    return {
        "name": "Pure DP" if pure else "Approximate DP",
        "input_metric": _METRIC[certificate.relation].format(unit=unit),
        "bound_on_input_distance": f"one person, of whose records at most {rows} count" if certificate.unit == "person" else "1",
        "output_measure": "max divergence" if pure else "smoothed max divergence",
        "bound_on_output_distance": bound + (" (the fit alone)" if subject.alone else ""),
        "data_domain": f"tables with {certificate.record['shape']['d']} bounded encoded columns",
        "unprotected_quantities": free + ("" if nominal else ", and the number of records"),
    }


def _loss(subject: Subject) -> dict[str, object]:
    certificate = subject.certificate
    person = certificate.unit == "person"
    return {
        "privacy_unit": "user-level" if person else "record-level",
        "privacy_unit_description": "one person with all their counted records" if person else "one row of the table",
        "privacy_parameters": {"epsilon": subject.epsilon, "delta": subject.delta},
        "privacy_parameters_description": certificate.statement + _with_profile(subject),
    }


def _with_profile(subject: Subject) -> str:
    """What a profile paid to find bounds and levels, where one did."""
    return "" if subject.earlier is None else f" That is the fit; epsilon: {subject.earlier.words}."


def _accounting(subject: Subject) -> dict[str, object]:
    record = subject.certificate.record
    kind = _ACCOUNTED.get(str(record["guarantee"]["kind"]["kind"]), "exact composition of the stages' privacy losses")
    stages = ", ".join(str(stage["name"]) for stage in record["stages"])
    ledger = record.get("ledger")
    spent = "" if not isinstance(ledger, Mapping) else f" Debited as entry {ledger['entry']['number']} of a budget ledger."
    return {
        "post_processing": "Everything published is computed from the released values, which the certificate lists.",
        "composition": f"{len(record['stages'])} stages ({stages}), accounted by {kind}; "
        f"composed epsilon {record['guarantee']['composed_epsilon']:.6g} at delta {record['guarantee']['delta']:g}."
        f"{_with_profile(subject)}{spent}",
    }


def _implementation(subject: Subject) -> dict[str, object]:
    record = subject.certificate.record
    kinds = ", ".join(sorted({str(stage["event"]["kind"]) for stage in record["stages"]}))
    before = "Bounds, levels and classes were declared without the data or paid for in the budget; settings follow a public rule."
    return {
        "pre_processing_eda_hyperparameter_tuning": f"{before} {WRITE}anything else that was looked at before the fit",
        "mechanisms": f"{record['mechanism']['name']}, of {kinds} events",
        "justification": WRITE + "why this budget and unit",
        "software": "dperm",
        "noise": f"{record['noise']['policy']}: {record['noise']['claim']}",
        "verification": "`dperm verify` recomputes the claim from the certificate, without the data",
        "certificate_coefficients_sha256": record["coefficients"]["sha256"],
    }


def to_yaml(value: Mapping[str, object], indent: int = 0) -> str:
    """Plain YAML: every text quoted as in JSON, which YAML reads alike, so that no name can become structure.

    >>> print(to_yaml({"a": {"b": ["x: y", 1e-6]}}))
    a:
      b:
        - "x: y"
        - 1.0e-06
    """
    space, lines = " " * indent, []
    for key, item in value.items():
        if isinstance(item, Mapping):
            lines += [f"{space}{key}:", to_yaml(item, indent + 2)]
        elif isinstance(item, list):
            lines += [f"{space}{key}:", *(f"{space}  - {_scalar(one)}" for one in item)]
        else:
            lines.append(f"{space}{key}: {_scalar(item)}")
    return "\n".join(lines)


def _scalar(value: object) -> str:
    """As JSON writes it, but 1e-06 with a point: without one YAML 1.1 reads a text."""
    text = json.dumps(value, ensure_ascii=True)
    mantissa, mark, power = text.partition("e")
    return f"{mantissa}.0e{power}" if isinstance(value, float) and mark and "." not in mantissa else text
