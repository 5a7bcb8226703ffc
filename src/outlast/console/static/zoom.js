// Zoom and pan of the waterfall: what is under the pointer, or in the middle, stays where it is.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/preact.js";
import { span } from "./format.js";

const SLACK = 4; // px that a click may move

/** How far in one may zoom: a step of many still fills a good part of the lane. */
export const limitOf = (rows) => Math.min(20_000, Math.max(40, 2 * rows));

/** Where the lanes are: how far from the left of the box, and how wide of all and in sight. */
function lanesOf(box) {
  const names = box.querySelector(".what")?.offsetWidth ?? 0;
  return { names, all: box.firstElementChild.offsetWidth - names, seen: Math.max(1, box.clientWidth - names) };
}

/** State of the zoom of the rows in `ref`, and what changes it. Shares are of the whole run, from 0 to 1. */
export function useZoom(ref, most) {
  const [zoom, setZoom] = useState(1);
  const [isDragging, setDragging] = useState(false);
  const now = useRef({ zoom: 1, most });
  now.current.most = most;
  const anchor = useRef(null); // which share is to be how far into the lanes
  const settle = () => {
    if (!anchor.current) return;
    const { share, at } = anchor.current;
    anchor.current = null;
    ref.current.scrollLeft = share * lanesOf(ref.current).all - at;
  };
  useLayoutEffect(settle, [zoom]);
  const zoomTo = (wanted, at) => {
    const { all, seen } = lanesOf(ref.current);
    const place = at ?? seen / 2;
    const next = Math.min(now.current.most, Math.max(1, wanted));
    if (next === now.current.zoom) return;
    anchor.current = { share: (ref.current.scrollLeft + place) / Math.max(1, all), at: place };
    now.current.zoom = next;
    setZoom(next);
  };
  const zoomBy = (factor, at) => zoomTo(now.current.zoom * factor, at);
  const show = (from, to) => {
    const { names, seen } = lanesOf(ref.current);
    const wanted = (0.7 * seen) / Math.max(1e-9, to - from) + names; // of all, in px
    const next = Math.min(now.current.most, Math.max(1, wanted / (seen + names)));
    anchor.current = { share: (from + to) / 2, at: seen / 2 };
    now.current.zoom = next;
    if (next === zoom) settle(); else setZoom(next);
  };
  useEffect(() => {
    const box = ref.current;
    const wheel = (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault(); // the page is not to zoom
      const lines = event.deltaMode === 1 ? 16 : 1;
      const at = event.clientX - box.getBoundingClientRect().left - lanesOf(box).names;
      zoomBy(Math.exp(-Math.max(-60, Math.min(60, event.deltaY * lines)) * 0.01), Math.max(0, at));
    };
    const drag = dragOf(box, setDragging);
    box.addEventListener("wheel", wheel, { passive: false });
    box.addEventListener("pointerdown", drag);
    return () => { box.removeEventListener("wheel", wheel); box.removeEventListener("pointerdown", drag); };
  }, []);
  return { zoom, zoomTo, zoomBy, show, isDragging };
}

/** The mouse takes hold of the lanes, and what is dragged selects nothing. A finger scrolls as everywhere. */
function dragOf(box, setDragging) {
  return (down) => {
    if (down.button !== 0 || down.pointerType !== "mouse" || !down.target.closest(".lane")) return;
    const [left, top] = [box.scrollLeft, box.scrollTop];
    let hasMoved = false;
    const move = (event) => {
      const [x, y] = [event.clientX - down.clientX, event.clientY - down.clientY];
      if (!hasMoved && Math.hypot(x, y) > SLACK) { hasMoved = true; setDragging(true); }
      if (hasMoved) { box.scrollLeft = left - x; box.scrollTop = top - y; }
    };
    const swallow = (click) => { click.stopPropagation(); click.preventDefault(); };
    const up = () => {
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", up);
      window.removeEventListener("pointercancel", up);
      if (!hasMoved) return;
      setDragging(false);
      window.addEventListener("click", swallow, { capture: true, once: true });
      setTimeout(() => window.removeEventListener("click", swallow, { capture: true }), 0);
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", up);
    window.addEventListener("pointercancel", up);
  };
}

/** What of the run is in sight, as times since its beginning. */
export function Visible({ of, zoom, length }) {
  const [seen, setSeen] = useState([0, 1]);
  useEffect(() => {
    const box = of.current;
    const look = () => {
      const lanes = lanesOf(box);
      const from = box.scrollLeft / Math.max(1, lanes.all);
      setSeen([from, Math.min(1, from + lanes.seen / Math.max(1, lanes.all))]);
    };
    look();
    box.addEventListener("scroll", look, { passive: true });
    return () => box.removeEventListener("scroll", look);
  }, [zoom]);
  if (zoom <= 1) return html`<span class="num">${span(length)} in all</span>`;
  return html`<span class="num">${span(seen[0] * length)} to ${span(seen[1] * length)}, of ${span(length)}</span>`;
}
