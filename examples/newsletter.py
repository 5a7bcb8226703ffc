"""What the graph in newsletter.yaml is made of: the steps, and the app that works them.

python newsletter.py
"""

from pathlib import Path
from typing import Any

from outlast import Outlast

FEEDS = {
    "news": "The town has a new bridge. It is closed for repairs.",
    "sport": "Our team drew. Nobody scored. It rained.",
}

app = Outlast("sqlite:///newsletter.db")


@app.step
async def fetch(feed: str) -> str:
    if feed not in FEEDS:
        raise ConnectionError("no answer")
    return FEEDS[feed]


@app.step
async def draft(pieces: list[str | None]) -> str:
    return " ".join(piece for piece in pieces if piece)


@app.step
async def trim(draft: str, shorter: str | None, longest: int) -> dict[str, Any]:
    text = draft if shorter is None else " ".join(f"{part}." for part in shorter.rstrip(".").split(". ")[:-1])
    return {"text": text, "verdict": "fits" if len(text) <= longest else "too long"}


@app.step
def complain(text: str) -> str:  # a plain function runs in a thread
    return f"to the editors: {text}"


@app.step
def send(text: str) -> str:
    return text


newsletter = app.graph_from(Path(__file__).with_suffix(".yaml"))

if __name__ == "__main__":
    print(app.run_sync(newsletter, {"feeds": ["news", "sport", "broken"], "longest": 60}))
