"""One name in or out of `plugins.enabled`, and every other byte of Hermes's settings as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some
from ruamel.yaml import YAML

from safekept.integrations.connecting.settings_file import Unfit
from safekept.integrations.hermes.enabling import LINES, disabled, enabled, is_enabled

FORMS = {
    "nothing": "",
    "comments only": "# mine\n\n# and more\n",
    "another section": "model:\n  default: x  # fast\n",
    "no newline at the end": "model: x",
    "windows lines": "model: x\r\nplugins:\r\n  enabled:\r\n    - other\r\n",
    "a list": "plugins:\n  enabled:\n    - other  # keep\n    - 'third'\nz: 1\n",
    "a list at the margin": "plugins:\n  enabled:\n  - other\n  - third\n",
    "an empty list": "plugins:\n  enabled: []  # none yet\nz: 1\n",
    "a list in one line": "plugins:\n  enabled: [ other, third ] # two\n",
    "a list over lines": "plugins:\n  enabled: [\n    other,\n  ]\n",
    "no list": "plugins:\n  disabled:\n    - bad\n  entries: {}\n",
    "a list of nothing": "plugins:\n  enabled:\n  disabled: []\n",
    "null": "plugins:\n  enabled: null  # why\n",
    "a tilde": "plugins:\n  enabled: ~\nz: 1\n",
    "an empty section": "plugins:  # later\nz: 1\n",
    "an empty section at the end": "z: 1\nplugins:",
    "an empty table": "plugins: {}\nz: 1\n",
    "all in one line": "{model: x, plugins: {enabled: [other], disabled: []}}\n",
    "one line without it": "{model: x}\n",
    "an empty document of one line": "{}\n",
    "a section in one line": "plugins: {disabled: [bad]}\n",
    "disabled": "plugins:\n  enabled: [other]\n  disabled:\n    - bad\n    - safekept\n    - worse # x\n",
    "only it is disabled": "plugins:\n  disabled:\n    - safekept\n",
    "disabled in one line": "plugins:\n  disabled: [safekept, bad]\n",
    "disabled last in one line": "plugins:\n  disabled: [bad, safekept]\n",
    "long names and odd ones": '\'plugins\':\n    "enabled":\n        - a/b\n        - "c d"\n# end\n',
    "a document mark": "---\nmodel: x\n",
    "text blocks": "prompt: |\n  plugins:\n    enabled:\n      - trap\nz: >\n  more\n",
    "not ASCII": "name: Zoë 🦀\nplugins:\n  enabled:\n    - ünder\n",
    "anchors": "a: &x [1]\nb: *x\n",
}
LEFT_ALONE = {
    "broken": "plugins: [\n",
    "two documents": "a: 1\n---\nb: 2\n",
    "a list of settings": "- a\n- b\n",
    "a text": "plugins\n",
    "plugins is a text": "plugins: all\n",
    "enabled is a text": "plugins:\n  enabled: all\n",
    "a key twice": "plugins: {}\nplugins: {enabled: [x]}\n",
    "an end mark": "model: x\n...\n",
    "the list is a copy": "a: &x [other]\nplugins:\n  enabled: *x\n",
}


def meaning(text: str) -> dict:
    return YAML(typ="safe", pure=True).load(text) or {}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS.keys())
def test_it_is_enabled_and_nothing_else_is_changed(text):
    after = enabled(text)
    was, now = meaning(text), meaning(after)
    assert is_enabled(after) and not is_enabled(text)
    old = dict(was.get("plugins") or {})
    new = dict(now.pop("plugins"))
    was.pop("plugins", None)
    assert now == was
    assert new.pop("enabled") == ["safekept", *(old.pop("enabled", None) or [])]
    assert (new.pop("disabled", None) or []) == [
        name for name in old.pop("disabled", None) or [] if name != "safekept"
    ]
    assert new == old


#: Where something has to give way: a value that says "nothing", or an entry that says "not this one".
REPLACED = {"null", "a tilde", "an empty table", *(name for name in FORMS if "disabled" in name)}


@pytest.mark.parametrize("name", sorted(FORMS.keys() - REPLACED))
def test_something_is_put_in_at_one_place_and_no_byte_is_lost(name):
    text, after = FORMS[name], enabled(FORMS[name])
    more = len(after) - len(text)
    assert any(after[:at] + after[at + more :] == text for at in range(len(text) + 1))


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS.keys())
def test_a_second_time_changes_nothing(text):
    assert enabled(enabled(text)) == enabled(text)


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS.keys())
def test_taking_it_out_after_somebody_wrote_brings_the_meaning_back(text):
    end = "\n" if "\r" not in text else "\r\n"
    lead = "" if enabled(text).endswith("\n") else end
    back = disabled(f"{enabled(text)}{lead}# by somebody else{end}", text)
    assert "# by somebody else" in back
    assert not is_enabled(back)
    was, now = meaning(text), meaning(back)
    for document in (was, now):
        section = document.get("plugins") or {}
        for key in ("enabled", "disabled"):
            if key in section:
                section[key] = sorted(section[key] or [])
        document["plugins"] = section
    assert now == was


@pytest.mark.parametrize("name", sorted(FORMS))
def test_taking_it_out_brings_the_very_bytes_back(name):
    assert disabled(enabled(FORMS[name]), FORMS[name]) == FORMS[name]


def test_what_others_wrote_meanwhile_stays():
    base = "model: x\n"
    text = enabled(base) + "    - theirs\nlater: 1\n"
    assert disabled(text, base) == "model: x\nplugins:\n  enabled:\n    - theirs\nlater: 1\n"


def test_settings_that_do_not_have_it_are_left_as_they_are():
    text = "plugins: {enabled: [other]} # x\n"
    assert disabled(text, None) == text


@pytest.mark.parametrize("text", LEFT_ALONE.values(), ids=LEFT_ALONE.keys())
def test_what_cannot_be_edited_safely_is_left_alone(text):
    with pytest.raises(Unfit) as caught:
        enabled(text)
    assert str(caught.value).startswith(("is ", "has "))


def test_the_lines_for_a_person_do_it():
    assert is_enabled("model: x\n" + LINES)


@given(some.text(alphabet="plugins:enabled -[]{}#\n'\"\\x&*|", max_size=60))
def test_whatever_the_text_is_it_is_proven_or_left_alone(text):
    try:
        after = enabled(text)
    except Unfit:
        return
    assert is_enabled(after)
    assert enabled(after) == after


@pytest.mark.parametrize("base", [None, "model: x\n"])
@pytest.mark.parametrize("more", ["", "  disabled:\n  - bad\n", "z: 1\n"])
def test_it_goes_from_settings_that_hermes_wrote_again_with_its_lists_at_the_margin(more, base):
    text = "model: x\nplugins:\n  enabled:\n  - safekept\n" + more
    wanted = meaning(text)
    del wanted["plugins"]["enabled"]
    wanted = {key: value for key, value in wanted.items() if value != {}}
    assert meaning(disabled(text, base)) == wanted
