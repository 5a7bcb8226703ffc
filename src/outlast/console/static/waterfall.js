// The waterfall: one bar a step, attempts as segments, waits hatched. Only the rows in sight are drawn.

import { html, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { limitOf, useZoom, Visible } from "./zoom.js";
import { ms, span, words } from "./format.js";
import { Status } from "./parts.js";
import { nestedRowsOf } from "./story.js";

const ROW = 30;
const SPARE = 8;
const STRIDE = 6;

export function Waterfall({ story, now, selected, onSelect, children, opened, toggle }) {
  const rows = useMemo(() => nestedRowsOf(story, children), [story, children]);
  const ref = useRef();
  const [top, setTop] = useState(0); // row, in strides: scrolling within one draws nothing
  const [height, setHeight] = useState(600);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => setHeight(entry.contentRect.height));
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, []);
  const begin = ms(story.from) ?? now;
  const ends = [...story.marks.map((mark) => mark.to), ...[...children.values()].map((child) => child.story.at)];
  const end = Math.max(begin + 1, now, ...ends.map((at) => ms(at) ?? 0));
  const most = limitOf(rows.length);
  const { zoom, zoomTo, show, zoomBy, isDragging } = useZoom(ref, most);
  const scale = (at) => ((at - begin) / (end - begin)) * 100;
  const count = Math.ceil(height / ROW) + 2 * SPARE;
  const first = Math.max(0, top - SPARE);
  const seen = rows.slice(first, first + count);
  const move = (event) => {
    const at = rows.findIndex((row) => row.key === selected);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const zooms = { "+": () => zoomBy(1.6), "=": () => zoomBy(1.6), "-": () => zoomBy(1 / 1.6), 0: () => zoomTo(1), z: () => rows[at] && fit(rows[at]) }[event.key];
    if (zooms) { event.preventDefault(); zooms(); return; }
    const child = rows[at] && rows[at].step && rows[at].step.child;
    if (child && opened.has(child) !== (event.key === "ArrowRight") && /^Arrow(Right|Left)$/.test(event.key)) {
      event.preventDefault();
      toggle(child);
      return;
    }
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, j: at + 1, k: at - 1 }[event.key];
    if (next === undefined || !rows[next]) return;
    event.preventDefault();
    onSelect(rows[next].key);
    ref.current.scrollTo({ top: Math.max(0, next * ROW - height / 2) });
  };
  const fit = (row) => {
    const [from, to] = extentOf(row, end);
    show(scale(from) / 100, scale(to) / 100);
  };
  return html`<div class="waterfall">
    <div class="ruler"><${Visible} of=${ref} zoom=${zoom} length=${end - begin} />
      <label>Zoom <input type="range" min="0" max="100" step="0.5" value=${(100 * Math.log(zoom)) / Math.log(most)} aria-label="Zoom of the waterfall"
        aria-valuetext=${`${zoom.toFixed(zoom < 10 ? 1 : 0)} times`} onInput=${(e) => zoomTo(most ** (Number(e.target.value) / 100))} /></label></div>
    <div class=${`rows ${zoom > 1 ? "zoomed" : ""} ${isDragging ? "dragging" : ""}`} ref=${ref} onScroll=${(e) => setTop(Math.floor(e.target.scrollTop / ROW / STRIDE) * STRIDE)} tabindex="0" role="listbox"
      aria-label="Steps" onKeyDown=${move}>
      <div class="all" style=${{ height: `${rows.length * ROW}px`, width: `${Math.max(100, zoom * 100)}%` }}>
        ${seen.map((row, i) => html`<${Row} key=${(first + i) % count} row=${row} y=${(first + i) * ROW} scale=${scale} end=${end}
          isSelected=${row.key === selected} onSelect=${onSelect} fit=${fit} isOpen=${row.step && row.step.child ? opened.has(row.step.child) : null} toggle=${toggle} />`)}
        ${!rows.length && html`<div class="faint pad">No step yet.</div>`}
      </div>
    </div></div>`;
}

/** When what a row shows began, and when it ended. */
function extentOf(row, end) {
  const bars = barsOf(row, end);
  return [Math.min(...bars.map((bar) => ms(bar.from)), row.from), Math.max(...bars.map((bar) => ms(bar.to) ?? end))];
}

const barsOf = (row, end) => (row.kind === "step" ? segmentsOf(row.step, end) : [{ ...row.mark, status: row.kind }]);

function Row({ row, y, scale, end, isSelected, onSelect, fit, isOpen, toggle }) {
  const bars = barsOf(row, end);
  const name = row.kind === "step" ? row.step.key : row.mark.name || row.kind;
  const status = row.kind === "step" ? row.step.status : row.kind;
  const [from, to] = extentOf(row, end);
  return html`<div class=${`row ${isSelected ? "selected" : ""} ${row.isUndo ? "undo" : ""} ${row.depth ? "nested" : ""}`} style=${{ top: `${y}px` }}
      role="option" aria-selected=${isSelected} aria-expanded=${isOpen === null ? undefined : isOpen} aria-level=${row.depth + 1} aria-label=${`${name}, ${words(status)}, ${span(to - from)}`}
      onClick=${() => onSelect(row.key)} onDblClick=${() => fit(row)}>
    <div class="what" style=${row.depth ? { paddingLeft: `${8 + 16 * row.depth}px` } : null}>
      ${isOpen !== null && html`<button class="fold" tabindex="-1" aria-label=${`${isOpen ? "Close" : "Open"} the run of ${name}`}
        onClick=${(event) => { event.stopPropagation(); toggle(row.step.child); }}>${isOpen ? "▾" : "▸"}</button>`}${row.isUndo && html`<i aria-hidden="true">↶ </i>`}<${Status} of=${status} small /><span>${name}</span>
      ${row.kind === "step" && row.step.attempts.length > 1 && html`<b class="times">×${row.step.attempts.length}</b>`}</div>
    <div class="lane">${bars.map((bar, i) => html`<i key=${i} class=${`bar ${bar.status} ${bar.to ? "" : "open"}`}
      title=${`${words(bar.status)} ${span((ms(bar.to) ?? end) - ms(bar.from))}`}
      style=${{ left: `${scale(ms(bar.from))}%`, width: `${Math.max(0.15, scale(ms(bar.to) ?? end) - scale(ms(bar.from)))}%` }} />`)}
      <${Length} from=${scale(from)} to=${scale(to)} text=${span(to - from)} /></div></div>`;
}

/** How long a row lasted: behind its bars, or before them, or on them where they fill the lane. */
function Length({ from, to, text }) {
  if (to < 85) return html`<span class="took num" style=${{ left: `${to}%` }}>${text}</span>`;
  if (from > 15) return html`<span class="took num" style=${{ right: `${100 - from}%` }}>${text}</span>`;
  return html`<span class="took on num" style=${{ right: "4px" }}>${text}</span>`;
}

function segmentsOf(step, end) {
  if (!step.attempts.length) return [{ from: step.asked, to: step.status === "pending" ? null : step.asked, status: "pending" }];
  const bars = [];
  step.attempts.forEach((attempt, i) => {
    bars.push({ from: attempt.from, to: attempt.to, status: attempt.status });
    const next = step.attempts[i + 1];
    if (attempt.to && (next || step.status === "retrying")) bars.push({ from: attempt.to, to: next ? next.from : null, status: "retry" });
  });
  return bars;
}
