"""Metrics over HTTP, as a scraper reads them (SPEC O6)."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.http.conftest import client_of

TOKEN = "a token that is long enough"


async def scrape(client, **headers):
    """Samples by name and the values of their labels, joined."""
    answer = await client.get("/metrics", headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = text_string_to_metric_families(answer.text)
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


async def test_a_scraper_sees_what_happens(app):
    """Runs and steps are counted from its first visit on, and what is in the store is told. # SPEC O6"""
    async with client_of(app.asgi(token=TOKEN)) as client:
        before = await scrape(client, authorization=f"Bearer {TOKEN}")
        assert before["outlast_workers", "alive"] == 1
        await (await app.start("double", 3)).result(timeout=20)
        await app.start("hold")
        counted = ("outlast_runs_ended_total", "double,completed")
        found = await scrape(client, authorization=f"Bearer {TOKEN}")
        while counted not in found:  # counting lags behind a little
            found = await scrape(client, authorization=f"Bearer {TOKEN}")
        assert found[counted] == 1
        assert found["outlast_step_seconds_count", "twice,succeeded"] == 1
        assert found["outlast_runs", "running"] == 1
        assert (await client.head("/metrics", headers={"authorization": f"Bearer {TOKEN}"})).text == ""
        assert (await client.post("/metrics", headers={"authorization": f"Bearer {TOKEN}"})).status_code == 405
