"""Requests that a machine invents from the description of the service: answered as described, never by an error."""

from contextlib import suppress
from unittest import SkipTest

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from hotvae.serve.app import make_app
from hotvae.serve.limits import Limits
from hotvae.serve.questions import Served

TOKEN = "a-token-of-some-length"
SHOWN = {"Authorization": f"Bearer {TOKEN}"}
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.mark.slow
def test_openapi__invented_requests__answered_as_described(folder):
    app = make_app(Served.load(folder, Limits(workers=1, rows=20, cells=2_000)), TOKEN)
    described = schemathesis.openapi.from_asgi("/openapi.json", app, headers=SHOWN)
    seen = {}
    for operation in (found.ok() for found in described.get_all_operations()):
        for mode in GenerationMode:

            @settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
            @given(case=operation.as_strategy(generation_mode=mode))
            def ask(case):
                answer = case.call_and_validate(checks=CHECKS, headers=SHOWN)
                seen.setdefault(answer.status_code, set()).add(case.operation.path)

            with suppress(SkipTest):  # a path without parameters cannot be asked wrongly
                ask()
    assert {"/predict", "/sample", "/decide", "/model", "/species", "/health", "/metrics"} <= seen[200]
    assert {"/predict", "/sample", "/decide"} <= seen[422]
