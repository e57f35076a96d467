"""Whether a job fits is counted, and is what a search for its best place finds out."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.placement.oracle.worlds import capacities, policies, requests, reserving
from topo.model.ids import Kind
from topo.placement.engine import fits, place
from topo.placement.job.plan import Plan


@settings(max_examples=400, deadline=None)
@given(
    data=st.data(),
    scale=st.sampled_from((1, 1, 2, 4)),
    unknown=st.sampled_from((False, False, False, True)),
)
def test_a_job_fits_by_counting_exactly_where_a_plan_is_found(data, scale, unknown) -> None:
    capacity = data.draw(capacities(data.draw(st.one_of(policies, reserving))))
    request = data.draw(requests())
    request = replace(request, pods=request.pods * scale)
    if unknown:
        request = replace(request, within=Kind("unknown"))
    assert fits(capacity, request) is isinstance(place(capacity, request), Plan)
