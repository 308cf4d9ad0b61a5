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
    ],
)
def test_mistakes_are_named_by_place(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rank_map(text, "map")
    assert caught.value.problems[0].startswith(expected)
