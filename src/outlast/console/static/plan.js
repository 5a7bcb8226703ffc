// The plan of a workflow, drawn as boxes in boxes, with a run's live counts on its steps.

import { html, useMemo } from "./vendor/preact.js";
import { baseKey, glyph, tone, words } from "./format.js";

/** By plain name: how many steps of the run have which status. */
export function countsOf(story) {
  const counts = new Map();
  for (const step of story?.steps.values() || []) {
    const name = baseKey(step.key);
    const one = counts.get(name) || { total: 0, by: {}, key: step.key };
    one.total += 1;
    one.by[step.status] = (one.by[step.status] || 0) + 1;
    if (step.status !== "succeeded") one.key = step.key;
    counts.set(name, one);
  }
  return counts;
}

export function Plan({ plan, story, selected, onSelect }) {
  const counts = useMemo(() => countsOf(story), [story]);
  if (!plan) return html`<${Walked} story=${story} selected=${selected} onSelect=${onSelect} />`;
  return html`<div class="plan" role="group" aria-label="Plan"><div class="cap">start</div>
    <${Nodes} nodes=${plan.nodes || []} ...${{ counts, selected, onSelect }} /></div>`;
}

const Nodes = ({ nodes, ...rest }) => html`<div class="sequence">${(nodes || []).map((node) => html`
  <${Node} key=${node.id} node=${node} ...${rest} />`)}</div>`;

function Node({ node, ...rest }) {
  const title = node.label || node.id;
  switch (node.kind) {
    case "step": return html`<${StepBox} node=${node} name=${node.name || node.function} ...${rest} />`;
    case "child": return html`<${StepBox} node=${node} name=${node.name || node.workflow} child ...${rest} />`;
    case "wait": return html`<div class="leaf wait">‖ ${title}</div>`;
    case "mark": return html`<div class="leaf mark">◆ ${title}</div>`;
    case "end": return html`<div class=${`leaf end ${node.form}`}>${node.form === "raise" ? "✕" : "■"} ${title}</div>`;
    case "opaque": return html`<div class="leaf opaque" title=${node.why || ""}><code>${node.source}</code>
      <small>line ${node.line}: ${node.why || "not readable as a plan"}</small></div>`;
    case "branch": return html`<div class="frame branch"><div class="head">◇ ${title}</div><div class="columns">
      ${(node.arms || []).map((arm, i) => html`<div class="column" key=${i}><div class="when">${armLabel(arm, i, title)}</div>
        <${Nodes} nodes=${[...(arm.test || []), ...(arm.body || [])]} ...${rest} /></div>`)}</div></div>`;
    case "loop": return html`<div class="frame loop"><div class="head">⟳ ${title}</div>
      <${Nodes} nodes=${[...(node.test || []), ...(node.body || [])]} ...${rest} />
      ${(node.orelse || []).length > 0 && html`<div class="when">else</div><${Nodes} nodes=${node.orelse} ...${rest} />`}</div>`;
    case "parallel": return html`<div class="frame parallel"><div class="head">⇶ ${title}</div><div class="columns">
      ${(node.lanes || []).map((lane, i) => html`<div class="column" key=${i}><${Nodes} nodes=${lane} ...${rest} /></div>`)}</div></div>`;
    case "try": return html`<div class="frame try"><div class="head">try</div><${Nodes} nodes=${node.body} ...${rest} />
      ${(node.handlers || []).map((arm, i) => html`<div key=${i}><div class="when">except ${arm.pattern || ""}</div>
        <${Nodes} nodes=${arm.body} ...${rest} /></div>`)}
      ${(node.orelse || []).length > 0 && html`<div class="when">else</div><${Nodes} nodes=${node.orelse} ...${rest} />`}
      ${(node.finalbody || []).length > 0 && html`<div class="when">finally</div><${Nodes} nodes=${node.finalbody} ...${rest} />`}</div>`;
    case "task": return html`<${Nodes} nodes=${node.body} ...${rest} />`;
    case "join": return null;
    default: return html`<div class="frame"><div class="head">${title}</div><${Nodes} nodes=${node.body || []} ...${rest} /></div>`;
  }
}

const armLabel = (arm, at, title) => arm.pattern || (arm.condition || at === 0 ? (at === 0 ? `if ${title}` : "else if") : "else");

function StepBox({ node, name, child, counts, selected, onSelect }) {
  const found = counts.get(name) || counts.get(node.function) || counts.get(node.workflow);
  const status = found ? worst(found.by) : "planned";
  const isSelected = found && selected && baseKey(selected) === name;
  const label = node.label || name;
  return html`<button class=${`leaf step ${tone(status)} ${status} ${isSelected ? "selected" : ""}`} disabled=${!found || !onSelect}
      aria-label=${`${label}: ${words(status)}${found && found.total > 1 ? `, ${found.total} times` : ""}`}
      onClick=${() => onSelect && found && onSelect(found.key)}>
    <i aria-hidden="true">${found ? glyph(status) : "○"}</i><span>${label}${child && html` <small>child</small>`}</span>
    ${found && found.total > 1 && html`<b class="num">${found.by.succeeded || 0}/${found.total}</b>`}
    ${node.undo && html`<small class="faint" title=${`undone by ${node.undo}`}>↶</small>`}</button>`;
}

function worst(by) {
  return ["failed", "retrying", "started", "pending", "cancelled", "succeeded"].find((status) => by[status]) || "succeeded";
}

/** Without a plan: the path that was walked. */
function Walked({ story, selected, onSelect }) {
  const steps = [...(story?.steps.values() || [])].slice(0, 400);
  if (!steps.length) return html`<div class="faint pad">No plan can be read, and nothing was walked yet.</div>`;
  return html`<div class="plan"><div class="cap">walked so far</div><div class="sequence">
    ${steps.map((step) => html`<button key=${step.key} class=${`leaf step ${tone(step.status)} ${selected === step.key ? "selected" : ""}`}
      onClick=${() => onSelect(step.key)}><i aria-hidden="true">${glyph(step.status)}</i><span>${step.key}</span></button>`)}</div></div>`;
}
