"""Traces as CSV: both kinds of columns, and errors that name file, line and column."""

import pytest

from gpustack.model.cluster.replay import Arrival
from gpustack.wire.files.trace import BadTrace, parse_trace, shuffled

HEAD = "arrival,duration,cores,memory,count\n"
PAPER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\n"
)


def parse(text: str) -> tuple[Arrival, ...]:
    return parse_trace("t.csv", text, card_memory_units=60)


def asked(arrival: Arrival) -> tuple[int, int]:
    [container] = arrival.request.containers
    return container.cores, container.memory_units


def test_a_row_is_pods_that_arrive_together() -> None:
    [found] = parse(HEAD + "1.5,60,50,8,3\n")
    assert (found.at, found.duration, found.count, asked(found)) == (1.5, 60, 3, (50, 8))


def test_columns_stand_in_any_order_and_an_empty_duration_stays() -> None:
    first, second = parse("cores,memory,arrival,duration\n200,0,1,\n\n50, 8 ,2,9\n")
    assert (first.duration, first.count, asked(first)) == (None, 1, (200, 0))
    assert (second.duration, asked(second)) == (9, (50, 8))


def test_the_papers_columns_are_read_and_pods_without_gpu_passed_over() -> None:
    found = parse(
        PAPER
        + "a,8000,30517,1,460,,LS,Running,100,400,110\n"
        + "b,8000,30517,8,1000,V100M16,LS,Running,200,300,210\n"
        + "c,8000,30517,0,0,,BE,Running,200,300,210\n"
        + "d,8000,30517,1,1000,,BE,Failed,300,300,\n"
        + "e,8000,30517,1,995,,BE,Running,300,350,\n"
    )
    assert [(each.at, each.duration, asked(each)) for each in found] == [
        (100, 300, (46, 27)),
        (200, 100, (800, 0)),
        (300, 50, (100, 0)),
    ]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "t.csv: is empty; the first line names arrival,duration,cores,memory,count"),
        (" \n\n", "t.csv: is empty"),
        ("\narrival,duration,cores,memory\n", "t.csv:1: missing columns: 'arrival'"),
        ("arrival,duration,cores\n", "t.csv:1: missing columns: 'memory'"),
        (HEAD.replace("count", "speed"), "t.csv:1: unknown columns: 'speed'"),
        ("arrival,arrival,duration,cores,memory\n", "t.csv:1: doubled columns: 'arrival'"),
        ("name,num_gpu\n", "t.csv:1: missing columns: 'gpu_milli'"),
        (HEAD, "t.csv:1: no pods"),
        (HEAD + "1,2,50,8,1\n1,2,50\n", "t.csv:3: 3 values for 5 columns"),
        (HEAD + "x,2,50,8,1\n", "t.csv:2: arrival: 'x' is not a number of seconds"),
        (HEAD + "1,-2,50,8,1\n", "t.csv:2: duration: '-2' is not a number of seconds"),
        (HEAD + "1,0,50,8,1\n", "t.csv:2: duration: must be above 0"),
        (HEAD + "1,nan,50,8,1\n", "t.csv:2: duration: 'nan' is not a number"),
        (HEAD + "1,2,abc,8,1\n", "t.csv:2: cores: 'abc' is not a whole number"),
        (HEAD + "1,2,150,8,1\n", "t.csv:2: cores: 150 is neither a share"),
        (HEAD + "1,2,50,0,1\n", "t.csv:2: cores: a share of 50 needs memory; set memory"),
        (HEAD + "1,2,0,8,1\n", "t.csv:2: memory: 8 units of memory (2 GiB) without compute"),
        (HEAD + "1,2,0,0,1\n", "t.csv:2: cores: 0 cores are no GPU pod"),
        (HEAD + "1,2,50,8,600000\n2,2,50,8,600000\n", "t.csv:3: count: the trace has more than"),
        (HEAD + f"1,2,50,8,{'9' * 200_000}\n", "t.csv:2: field larger than field limit"),
        (HEAD + "1,2,50,8,1\r\n1,2,\u2028,8,1\r\n", "t.csv:3: cores: '' is not a whole number"),
        (HEAD + "1,2,50,8,0\n", "t.csv:2: count: must be above 0"),
        (PAPER + "a,1,1,1,0,,LS,Running,0,9,\n", "t.csv:2: gpu_milli: 0 is not 1 to 1000"),
    ],
)
def test_a_row_that_cannot_be_played_is_named_by_file_line_and_column(
    text: str, named: str
) -> None:
    with pytest.raises(BadTrace) as caught:
        parse(text)
    assert str(caught.value).startswith(named)


def test_a_seed_draws_the_order_within_a_moment_and_only_there() -> None:
    rows = "".join(f"{at},{duration},50,8,1\n" for at in (1, 2) for duration in range(1, 9))
    trace = parse(HEAD + rows)
    one, again, other = shuffled(trace, 1), shuffled(trace, 1), shuffled(trace, 2)
    assert one == again != other
    assert sorted(one, key=hash) == sorted(trace, key=hash)
    assert [each.at for each in one] == [1] * 8 + [2] * 8
