"""Rank maps: read from JSON and CSV, written back, mistakes by place."""

import pytest

from oncall.errors import ConfigError
from oncall.run.ranks import dump_rank_map, parse_rank_map

CSV = """rank,host,local_rank,gpu_index,gpu_uuid,pci_address,port,tp,dp
0,node001,0,0,GPU-aa,0000:4f:00,leaf1/3,0,0
1,node001,1,1,,,,1,0
4,node002,0,0,,,,0,1
"""


def test_csv_and_json_say_the_same() -> None:
    ranks = parse_rank_map(CSV, "map.csv", world_size=8)
    again = parse_rank_map(dump_rank_map(ranks), "map.json")
    assert again.places == ranks.places
    assert again.world_size == 8
    place = ranks.places[4]
    assert (place.host, place.local_rank, place.coordinate) == ("node002", 0, {"tp": 0, "dp": 1})
    assert ranks.places[1].gpu_uuid is None
    assert ranks.on("node001") == (0, 1)
    assert ranks.rank_of("node002", 0) == 4
    assert ranks.ranks == frozenset(range(8))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rank,host\nx,node001\n", "map:2: "),
        ("rank,host\n0,a\n0,b\n", "map:3: rank 0 stands here a second time"),
        ('[{"rank": 0}]', "map:[0]: "),
        ('[{"rank": 0, "host": "a", "gpu": 1}]', "map:[0]: "),
        ('{"ranks": 3}', "map: expected a list of ranks"),
        ('[{"rank": 0,', "map:1: "),
        ('{"world_size": 1, "ranks": [{"rank": 3, "host": "a"}]}', "map: ranks 3 are beyond the world size of 1"),
        ("", "map:1: the header names no column `rank`, `host`"),
        ("node001 slots=8\nnode002 slots=8\n", "map:1: the header names no column `rank`, `host`"),
        ("rank,host\n", "map: names no rank"),
        ("[]", "map: names no rank"),
        ("rank,host\n0,\n", "map:2: Object missing required field `host`"),
        ("rank,host\n-1,a\n", "map:2: Expected `int` >= 0"),
        ("rank,host\n1000000000000,a\n", "map:2: Expected `int` <= 999999"),
        ("rank,host\n\u00b2,a\n", "map:2: Expected `int`, got `str`"),
        (f"rank,host\n{'9' * 5000},a\n", "map:2: Expected `int`, got `str`"),
        ("rank,host\n0,a,7,8\n", "map:2: more cells than the header has columns"),
        ("rank,host,local_rank\n0,a,3\n1,a,3\n", "map:3: rank 0, too, is local rank 3 of a"),
        ("rank,host,tp\n0,a,left\n", "map:2: Expected `int`, got `str`"),
        (f"rank,host\n0,{'a' * 200000}\n", "map:1: field larger than field limit"),
        ("[" * 100_000, "map: maximum recursion depth exceeded"),
        (f'[{{"rank": {"9" * 5000}}}]', "map: Exceeds the limit"),
        ('{"world_size": 100000000000, "ranks": []}', "map: world_size: expected a number from 1 to 1,000,000"),
        ('{"world_size": true, "ranks": []}', "map: world_size: expected a number"),
    ],
)
def test_mistakes_are_named_by_place(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rank_map(text, "map")
    assert caught.value.problems[0].startswith(expected)


def test_a_slip_in_every_row_is_told_for_the_first_and_counted() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rank_map("rank,host\n" + "x,a\n" * 10_000, "map")
    assert len(caught.value.problems) == 21
    assert caught.value.problems[-1] == "map: 9,980 more mistakes"


def test_a_map_from_a_spreadsheet_is_read() -> None:
    """With the mark that some write in front, spaces after the commas, hosts that are numbers."""
    ranks = parse_rank_map("\ufeffrank, host, port\r\n0, 17, 4\r\n", "map.csv")
    assert (ranks.places[0].host, ranks.places[0].port) == ("17", "4")
