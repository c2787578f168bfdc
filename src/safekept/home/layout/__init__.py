"""What an agent's home looks like, read from the data files in `layouts/`."""

from typing import TYPE_CHECKING

from safekept.core.doors import doors

if TYPE_CHECKING:
    from .layout import Layout, check_home, find_home, load_layouts, recognise, shipped_layout
    from .patterns import BadPattern, Matcher, Pattern, parse_pattern
    from .places import HomeNotDirectory, HomeNotFound
    from .rules import Count, Proven, is_file

__getattr__ = doors(
    __name__,
    {
        "layout": "Layout check_home find_home load_layouts recognise shipped_layout",
        "patterns": "BadPattern Matcher Pattern parse_pattern",
        "places": "HomeNotDirectory HomeNotFound",
        "rules": "Count Proven is_file",
    },
)
