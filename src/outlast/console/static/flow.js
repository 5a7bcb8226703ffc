// A plan that is boxes and arrows: laid out in ranks from its start, arrows that lead back beside them.

import { html, useMemo } from "./vendor/preact.js";

const BOX = { width: 140, height: 40, across: 16, down: 46 };
const SIDE = 22;

/** Where each box goes: below all that leads to it, but for arrows that close a circle. */
function layOut(flow) {
  const out = new Map(flow.nodes.map((node) => [node.id, []]));
  for (const edge of flow.edges || []) if (out.has(edge.source) && out.has(edge.target)) out.get(edge.source).push(edge);
  const back = new Set();
  const state = new Map();
  const order = [];
  const visit = (id) => {
    state.set(id, "open");
    for (const edge of out.get(id)) {
      if (state.get(edge.target) === "open") back.add(edge);
      else if (!state.has(edge.target)) visit(edge.target);
    }
    state.set(id, "done");
    order.unshift(id);
  };
  flow.nodes.forEach((node) => state.has(node.id) || visit(node.id));
  const rank = new Map(order.map((id) => [id, 0]));
  for (const id of order) for (const edge of out.get(id)) if (!back.has(edge)) rank.set(edge.target, Math.max(rank.get(edge.target), rank.get(id) + 1));
  const rows = [];
  for (const node of flow.nodes) (rows[rank.get(node.id)] ||= []).push(node);
  const widest = Math.max(...rows.map((row) => row.length));
  const width = widest * (BOX.width + BOX.across) + 2 * SIDE;
  const places = new Map();
  rows.forEach((row, y) => row.forEach((node, x) => places.set(node.id, {
    x: width / 2 + (x - (row.length - 1) / 2) * (BOX.width + BOX.across), y: y * (BOX.height + BOX.down) + BOX.height / 2, rank: y,
  })));
  return { places, back, width, height: rows.length * (BOX.height + BOX.down) - BOX.down };
}

function Arrow({ edge, from, to, isBack, width }) {
  const [y1, y2] = [from.y + BOX.height / 2, to.y - BOX.height / 2];
  const far = isBack || to.rank - from.rank > 1;
  const side = far ? (from.x + to.x < width ? SIDE / 2 : width - SIDE / 2) : 0;
  const bend = BOX.down / 2;
  const path = far
    ? `M${from.x},${y1} C${from.x},${y1 + bend} ${side},${y1} ${side},${y1 + bend} L${side},${y2 - bend} C${side},${y2} ${to.x},${y2 - bend} ${to.x},${y2}`
    : `M${from.x},${y1} C${from.x},${y1 + bend} ${to.x},${y2 - bend} ${to.x},${y2}`;
  const [x, y] = far ? [(from.x + side) / 2, y1 + bend - 6] : [(from.x + to.x) / 2, (y1 + y2) / 2];
  return html`<g class=${`arrow ${isBack ? "back" : edge.kind || "next"}`}><path d=${path} marker-end="url(#head)" />
    ${edge.label && html`<text x=${x} y=${y}>${edge.label}</text>`}</g>`;
}

/** `box` draws one that a run passes through. */
export function Flow({ flow, box }) {
  const { places, back, width, height } = useMemo(() => layOut(flow), [flow]);
  const groups = new Map((flow.groups || []).map((group) => [group.id, group]));
  return html`<div class="flow" style=${{ width: `${width}px`, height: `${height}px` }}>
    <svg width=${width} height=${height} aria-hidden="true">
      <defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" /></marker></defs>
      ${(flow.edges || []).filter((edge) => places.has(edge.source) && places.has(edge.target)).map((edge, i) => html`<${Arrow} key=${i} edge=${edge}
        from=${places.get(edge.source)} to=${places.get(edge.target)} isBack=${back.has(edge)} width=${width} />`)}</svg>
    ${flow.nodes.map((node) => {
      const { x, y } = places.get(node.id);
      const group = groups.get(node.group);
      return html`<div class="place" key=${node.id} style=${{ left: `${x - BOX.width / 2}px`, top: `${y - BOX.height / 2}px`, width: `${BOX.width}px`, height: `${BOX.height}px` }}>
        ${node.kind === "start" || node.kind === "end" ? html`<div class="cap">${node.kind}</div>` : box(node, group)}</div>`;
    })}</div>`;
}
