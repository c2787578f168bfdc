"""Where several vaults of one place hold the same home, the printed commands name the vaults."""

from __future__ import annotations

import pytest

from safekept.actions.offsite.choose_home import SeveralHomes, choose_home
from safekept.actions.offsite.homes_in_vault import HomeInVault
from support.users.states import made
from support.vault.snapshots import take


def test_each_command_names_another_vault(tmp_path):
    from safekept.actions.offsite.homes_in_vault import homes_in_vault
    from safekept.actions.vault.opening import open_vault

    state = made("fresh", tmp_path)
    take(state.context, state.home)
    homes: list[HomeInVault] = []
    for vault in ("/usb/one", "/usb/two"):
        with open_vault(state.context) as repository:
            homes += homes_in_vault(repository, vault)[0]
    with pytest.raises(SeveralHomes) as caught:
        choose_home(homes, "/usb")
    assert [str(one) for one in caught.value.next_steps] == [
        "Home 1: `safekept rebuild /usb/one`",
        "Home 2: `safekept rebuild /usb/two`",
    ]
