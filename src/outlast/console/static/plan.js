// The plan of a workflow, drawn as boxes in boxes (a graph: as boxes and arrows), with what became of each in a run.

import { html, useMemo } from "./vendor/preact.js";
import { Flow } from "./flow.js";
import { baseKey, glyph, tone, words } from "./format.js";
import { placeSteps } from "./walk.js";

/** What became of each place of a plan: how many steps of the run came from it, and which have which status. */
function standingsOf(plan, story) {
  const steps = [...(story?.steps.values() || [])];
  const placeOf = plan?.nodes?.length ? placeSteps(plan, steps) : new Map(steps.map((step) => [step.key, baseKey(step.key)]));
  const standings = new Map();
  for (const step of steps) {
    const place = placeOf.get(step.key);
    if (place === undefined) continue;
    const one = standings.get(place) || { total: 0, by: {}, key: step.key };
    one.total += 1;
    one.by[step.status] = (one.by[step.status] || 0) + 1;
    if (step.status !== "succeeded") one.key = step.key;
    standings.set(place, one);
  }
  return { standings, placeOf };
}

export function Plan({ plan, story, selected, onSelect }) {
  const { standings, placeOf } = useMemo(() => standingsOf(plan, story), [plan, story]);
  if (!plan || !(plan.nodes?.length || plan.flow)) return html`<${Walked} story=${story} selected=${selected} onSelect=${onSelect} />`;
  const rest = { standings, onSelect, at: selected ? placeOf.get(selected) : undefined };
  return html`<div class="plan" role="group" aria-label="Plan">${plan.nodes?.length
    ? html`<div class="cap">start</div><${Nodes} nodes=${plan.nodes} ...${rest} />`
    : html`<${Flow} flow=${plan.flow} box=${(node, group) => html`<${StepBox} node=${node} child=${node.kind === "child"} group=${group} ...${rest} />`} />`}</div>`;
}

/** By name of a step's function or a child's workflow: what undoes it, where the plan says so. */
export function undosOf(plan) {
  const found = new Map();
  const look = (node) => {
    if (node.kind === "step" && node.undo) found.set(node.function, node.undo);
    if (node.kind === "child" && node.workflow) found.set(node.workflow, "its own unwind");
    const { arms = [], handlers = [], lanes = [], test = [], body = [], orelse = [], finalbody = [] } = node;
    const inside = [...arms, ...handlers].flatMap((arm) => [...(arm.test || []), ...(arm.body || [])]);
    [...inside, ...lanes.flat(), ...test, ...body, ...orelse, ...finalbody].forEach(look);
  };
  (plan?.nodes || []).forEach(look);
  return found;
}

const Nodes = ({ nodes, ...rest }) => html`<div class="sequence">${(nodes || []).map((node) => html`
  <${Node} key=${node.id} node=${node} ...${rest} />`)}</div>`;

function Node({ node, ...rest }) {
  const title = node.label || node.id;
  switch (node.kind) {
    case "step": return html`<${StepBox} node=${node} ...${rest} />`;
    case "child": return html`<${StepBox} node=${node} child ...${rest} />`;
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

function StepBox({ node, child, group, standings, at, onSelect }) {
  const found = standings.get(node.id);
  const status = found ? worst(found.by) : "planned";
  const label = node.label || node.name || node.function || node.workflow || node.id;
  const many = found && found.total > 1;
  return html`<button class=${`leaf step ${tone(status)} ${status} ${at === node.id ? "selected" : ""}`} disabled=${!found || !onSelect}
      title=${[node.detail, group && `${group.kind}: ${group.label}`, node.undo && `undone by ${node.undo}`].filter(Boolean).join(" · ") || null}
      aria-label=${`${label}: ${words(status)}${many ? `, ${found.total} times` : ""}`}
      onClick=${() => onSelect && found && onSelect(found.key)}>
    <i aria-hidden="true">${found ? glyph(status) : "○"}</i><span>${label}${child && html` <small>child</small>`}</span>
    ${many && html`<b class="num">${found.by.succeeded || 0}/${found.total}</b>`}
    ${group && html`<small class="faint" aria-hidden="true">⇶</small>`}
    ${node.undo && html`<small class="faint" aria-hidden="true">↶</small>`}</button>`;
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
