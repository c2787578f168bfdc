"""Options that several commands share, and what they stand for."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.actions.surroundings import Surroundings
from holdfast.cli.console import Console
from holdfast.home.layout import load_layouts
from holdfast.settings import Settings, load_settings

Command = TypeVar("Command", bound=Callable[..., Any])


def common_options(function: Command) -> Command:
    """`--home`, `--layout` and `--json`: on every command that works on a home."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout."),
        click.option("--layout", metavar="NAME", default="", help="Which agent the home belongs to."),
        click.option("--home", metavar="PATH", default="", help="The home; default: the agent's own place."),
    ):
        function = option(function)
    return function


def surroundings_from(settings: Settings) -> Surroundings:
    """What the actions need to know of this user."""
    own = os.path.join(settings.config_directory, "layouts")
    directories = (*settings.texts("layouts"), *((own,) if os.path.isdir(own) else ()))
    return Surroundings(
        user_home=settings.user_home,
        data_directory=settings.data_directory,
        layouts=load_layouts(directories),
        environment=settings.environment,
        default_layout=settings.text("layout"),
        default_home=settings.text("home"),
    )


def start(as_json: bool) -> tuple[Settings, Surroundings, Console]:
    """What every command does first."""
    from holdfast.cli.main import program

    settings = load_settings(os.environ)
    return settings, surroundings_from(settings), Console(as_json=as_json, program=program())
