"""What commands show of encrypted runs (SPEC D2): everything with the keys, and without them all but the values."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.cli.commands import call

SECRET = "4111-1111"
KEYS = f"k1={base64.b64encode(bytes(range(32))).decode()}"
APP = """
from outlast import Compress, Context, Encrypt, Outlast

app = Outlast("sqlite:///shop.db", codecs=[Compress(above=0), Encrypt.from_env()])

@app.step(retries=0)
async def charge(card: str) -> str:
    if card.endswith("0"):
        raise ValueError(card)
    return "receipt for " + card

@app.workflow
async def pay(ctx: Context, card: str) -> str:
    await ctx.set_state("card", card)
    return await charge(card)
"""


# SPEC D2
def test_an_encrypted_run_is_shown_with_and_without_its_keys(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`show` never fails for want of a key: it marks what it cannot read, and names the key; with the key it reads."""
    (shop / "sealed.py").write_text(APP)
    monkeypatch.setenv("OUTLAST_KEYS", KEYS)
    done = call("run", "sealed.py:pay", "--id", "A", "--input", f'"{SECRET}"')
    assert done.out.splitlines()[-1] == f'"receipt for {SECRET}"'
    assert call("run", "sealed.py:pay", "--id", "B", "--input", f'"{SECRET}0"').code == 1
    assert f"receipt for {SECRET}" in call("show", "A", "--store", "sqlite:///shop.db").out
    monkeypatch.delenv("OUTLAST_KEYS")
    for words in (("show", "A"), ("show", "B"), ("show", "A", "--timeline"), ("show", "A", "--at", "3"), ("runs",)):
        for mode in ((), ("--json",)):
            shown = call(*words, *mode, "--store", "sqlite:///shop.db")
            assert shown.code == 0, shown.err
            assert SECRET not in shown.out + shown.err
            assert "charge" in shown.out or words[0] == "runs" or "--at" in words
    assert "<sealed by aes-gcm:k1" in call("show", "A", "--store", "sqlite:///shop.db").out
    document = call("show", "A", "--json", "--store", "sqlite:///shop.db").document
    assert document["output"]["$outlast:sealed"] == ["aes-gcm:k1"]


def test_a_wrong_variable_is_told_without_what_it_holds(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that is no key does not end in the terminal's history."""
    (shop / "shop.db").touch()
    monkeypatch.setenv("OUTLAST_KEYS", "k1=hunter2")
    done = call("runs", "--store", "sqlite:///shop.db")
    assert done.code != 0
    assert "hunter2" not in done.out + done.err
