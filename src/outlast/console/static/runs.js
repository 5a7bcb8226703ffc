// The list of runs: filters live in the address, new runs appear by themselves, several can be cancelled or retried.

import { html, useCallback, useEffect, useMemo, useRef, useState } from "./vendor/preact.js";
import { get, post, runPath } from "./api.js";
import { StartRun } from "./actions.js";
import { ENDED, middle, waitingWords, words } from "./format.js";
import { CopyMark, Dialog, Empty, Loading, RunLink, Status, Time, Took, Trouble, tell, useData } from "./parts.js";
import { go, href } from "./router.js";

const MOST_CHOSEN = 5000;
const AT_ONCE = 8;
const STATUSES = ["queued", "running", "suspended", "compensating", "completed", "failed", "cancelled", "compensated", "compensation_failed"];

const params = (query) => ({
  workflow: query.workflow, status: query.status ? query.status.split(",") : [], waiting_on: query.waiting_on, user: query.user, worker: query.worker,
  attribute: query.attribute ? query.attribute.split(",") : [], limit: 100,
});

export function Runs({ query, changes }) {
  const [chosen, setChosen] = useState(new Set());
  const [bulk, setBulk] = useState(null);
  const keys = [query.workflow, query.status, query.waiting_on, query.user, query.attribute, query.worker];
  const [pages, setPages] = useState([]);
  const { data, problem, again } = useData((signal) => get("runs", params(query), signal), [...keys, changes]);
  useEffect(() => { setPages([]); setChosen(new Set()); }, keys);
  useEffect(() => { if (data) setPages((old) => renew(old, data)); }, [data]);
  const runs = pages.flatMap((page) => page.runs);
  const next = pages[pages.length - 1]?.next;
  const filter = (change) => go("runs", [], { ...query, ...change }, { replace: true });
  const toggle = (status) => {
    const set = new Set((query.status || "").split(",").filter(Boolean));
    if (!set.delete(status)) set.add(status);
    filter({ status: [...set].join(",") });
  };
  const choose = useCallback((uid) => setChosen((old) => { const set = new Set(old); if (!set.delete(uid)) set.add(uid); return set; }), []);
  const [loadingAll, setLoadingAll] = useState(false);
  const chooseShown = () => setChosen(chosen.size ? new Set() : new Set(runs.map((run) => run.uid)));
  const chooseAll = async () => {
    setLoadingAll(true);
    try {
      const all = [...pages];
      for (let after = next, count = runs.length; after && count < MOST_CHOSEN; after = all[all.length - 1].next) {
        all.push(await get("runs", { ...params(query), limit: 1000, after }));
        count += all[all.length - 1].runs.length;
      }
      setPages(all);
      setChosen(new Set(all.flatMap((page) => page.runs).slice(0, MOST_CHOSEN).map((run) => run.uid)));
    } catch (problem) { tell(`${problem.code}: ${problem.message}`, "bad"); }
    setLoadingAll(false);
  };
  return html`<div class="list">
    <header class="view-head"><h2>Runs</h2>${query.workflow && html`<button class="primary" onClick=${() => setBulk("start")}>Start ${query.workflow}</button>`}</header>
    <div class="filters" role="search">
      <${Text} label="Workflow" value=${query.workflow} onChange=${(workflow) => filter({ workflow })} />
      <${Text} label="User" value=${query.user} onChange=${(user) => filter({ user })} />
      <${Text} label="Waits for (step *)" value=${query.waiting_on} onChange=${(waiting_on) => filter({ waiting_on })} />
      <${Text} label="Attribute (region=eu)" value=${query.attribute} onChange=${(attribute) => filter({ attribute })} />
      ${query.worker && html`<button onClick=${() => filter({ worker: "" })} title=${`Held by worker ${query.worker}`}>held by ${middle(query.worker, 17)} ✕</button>`}
      <div class="chips" role="group" aria-label="Status">${STATUSES.map((status) => html`<button key=${status}
        aria-pressed=${(query.status || "").split(",").includes(status)} onClick=${() => toggle(status)}><${Status} of=${status} small /></button>`)}</div>
    </div>
    ${chosen.size > 0 && html`<div class="bulk">${chosen.size} chosen
      ${next && html`<button disabled=${loadingAll} onClick=${chooseAll}>${loadingAll ? "Loading …" : "Choose all that fit"}</button>`}
      <button onClick=${() => setBulk("cancel")}>Cancel them</button><button onClick=${() => setBulk("retry")}>Retry them</button></div>`}
    ${problem && !data ? html`<${Trouble} problem=${problem} retry=${again} />` : !data ? html`<${Loading} />`
      : !runs.length ? html`<${Empty}>No run fits.${Object.values(query).some(Boolean) && html` <a href=${href("runs")}>Show all</a>`}</${Empty}>`
      : html`<table class="runs"><thead><tr><th><input type="checkbox" aria-label="Choose all that are shown" checked=${chosen.size > 0} onChange=${chooseShown} /></th><th>Status</th><th>Run</th><th>Workflow</th><th>What it waits for</th>
          <th>Started</th><th>Took</th><th>User</th><th>Attributes</th></tr></thead>
        ${pages.map((page, i) => html`<${Rows} key=${i} runs=${page.runs} chosen=${chosen} choose=${choose} query=${query} />`)}</table>
        ${next && html`<${More} key=${next} load=${() => get("runs", { ...params(query), after: next }).then((page) => setPages((all) => [...all, page]))} />`}`}
    ${bulk === "start" && html`<${StartRun} name=${query.workflow} close=${() => setBulk(null)} />`}
    ${(bulk === "cancel" || bulk === "retry") && html`<${Bulk} kind=${bulk} runs=${runs.filter((run) => chosen.has(run.uid))}
      close=${() => setBulk(null)} done=${() => { setBulk(null); setChosen(new Set()); again(); }} />`}</div>`;
}

/** The pages that are shown, the first read anew. What new runs pushed out of it stays in front of the second. */
function renew(pages, fresh) {
  if (pages.length < 2) return [fresh];
  const [first, ...others] = pages;
  const at = first.runs.findIndex((run) => run.uid === fresh.runs[fresh.runs.length - 1]?.uid);
  if (at < 0) return [fresh];
  return [{ runs: [...fresh.runs, ...first.runs.slice(at + 1)], next: first.next }, ...others];
}

/** One page of the list. Far out of sight it is an empty row of the same height, so that lists may be as long as they like. */
function Rows({ runs, chosen, choose, query }) {
  const ref = useRef();
  const [isNear, setNear] = useState(true);
  const height = useRef(0);
  useEffect(() => {
    const watch = new IntersectionObserver(([entry]) => {
      if (!entry.isIntersecting) height.current = entry.boundingClientRect.height;
      setNear(entry.isIntersecting);
    }, { root: document.getElementById("main"), rootMargin: "1500px 0px" });
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, []);
  const mine = runs.filter((run) => chosen.has(run.uid)).map((run) => run.uid).join();
  const rows = useMemo(() => runs.map((run) => html`<${RunRow} key=${run.uid} ...${{ run, isChosen: chosen.has(run.uid), choose, query }} />`), [runs, mine, query]);
  return html`<tbody ref=${ref}>${isNear ? rows : html`<tr class="far" style=${{ height: `${height.current}px` }}><td colspan="9" /></tr>`}</tbody>`;
}

const RunRow = ({ run, isChosen, choose, query }) => html`<tr>
  <td><input type="checkbox" aria-label=${`Choose ${run.id}`} checked=${isChosen} onChange=${() => choose(run.uid)} /></td>
  <td><${Status} of=${run.status} /></td>
  <td><${RunLink} run=${run} most=${20} main /> <${CopyMark} text=${run.id} /></td>
  <td><a href=${href("runs", [], { ...query, workflow: run.workflow })}>${run.workflow}</a></td>
  <td class="waits" title=${run.error || waitingWords(run)}>${run.error ? html`<span class="bad">${run.error}</span>` : waitingWords(run)}</td>
  <td><${Time} at=${run.started_at || run.created_at} /></td>
  <td><${Took} from=${run.started_at} to=${ENDED.has(run.status) ? run.finished_at : null} /></td>
  <td>${run.user && html`<a href=${href("runs", [], { ...query, user: run.user })}>${run.user}</a>`}</td>
  <td class="tags">${Object.entries(run.attributes || {}).map(([name, value]) => html`<${Tag} key=${name} name=${name} value=${value} query=${query} />`)}</td></tr>`;

/** An attribute, and the list of runs that have it. Names with a `=` or a comma are asked for as JSON. */
function Tag({ name, value, query }) {
  const text = `${name}=${value}`;
  const isPlain = typeof value === "string" && !/[=,{]/.test(name) && !/[,]/.test(value) && !/^(true|false|null|-?\d|["[{])/.test(value);
  const attribute = isPlain ? text : /,/.test(text) ? null : `${name}=${JSON.stringify(value)}`;
  if (!attribute || /=/.test(name)) return html`<span title=${text}>${middle(text, 18)}</span>`;
  return html`<a href=${href("runs", [], { ...query, attribute })} title=${text}>${middle(text, 18)}</a>`;
}

/** The next page, asked for when it is nearly in sight, or by the button. */
export function More({ load }) {
  const ref = useRef();
  const [problem, setProblem] = useState(null);
  const [loading, setLoading] = useState(false);
  const ask = () => { setLoading(true); setProblem(null); load().catch((error) => { setProblem(error); setLoading(false); }); };
  useEffect(() => {
    const watch = new IntersectionObserver(([entry]) => { if (entry.isIntersecting) { watch.disconnect(); ask(); } }, { root: document.getElementById("main"), rootMargin: "800px 0px" });
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, []);
  return html`<button class="more" ref=${ref} disabled=${loading} onClick=${ask}>${problem ? `${problem.message} Try again` : loading ? "Loading …" : "More"}</button>`;
}

function Text({ label, value, onChange }) {
  const [text, setText] = useState(value || "");
  useEffect(() => setText(value || ""), [value]);
  return html`<input aria-label=${label} placeholder=${label} value=${text} onInput=${(e) => setText(e.target.value)}
    onChange=${(e) => onChange(e.target.value.trim())} />`;
}

function Bulk({ kind, runs, close, done }) {
  const fit = runs.filter((run) => (kind === "cancel" ? !ENDED.has(run.status) : run.status === "failed"));
  const [sent, setSent] = useState(null);
  const send = async (event) => {
    event.preventDefault();
    const refused = new Map();
    let at = 0;
    const work = async () => {
      while (at < fit.length) {
        const run = fit[at];
        at += 1;
        setSent(at);
        const body = kind === "cancel" ? { reason: "cancelled in the console" } : {};
        await post(runPath(run, `/${kind}`), body, { uid: run.uid }).catch((problem) => refused.set(problem.code, (refused.get(problem.code) || 0) + 1));
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    const lost = [...refused.values()].reduce((one, other) => one + other, 0);
    tell(`${fit.length - lost} ${kind === "cancel" ? "were asked to stop" : "go on"}`);
    if (lost) tell(`${lost} were refused: ${[...refused].map(([code, count]) => `${count} ${code}`).join(", ")}`, "bad");
    done();
  };
  return html`<${Dialog} title=${`${words(kind)} ${fit.length} of ${runs.length} runs?`} onClose=${close}><form onSubmit=${send}>
    <p>${fit.length === runs.length ? "" : `${runs.length - fit.length} are left alone: `}${kind === "cancel" ? "only runs that have not ended can be cancelled." : "only failed runs can be retried."}</p>
    <ul>${fit.slice(0, 20).map((run) => html`<li key=${run.uid}><${RunLink} run=${run} /> <span class="faint">${run.workflow}</span></li>`)}
      ${fit.length > 20 && html`<li class="faint">and ${fit.length - 20} more</li>`}</ul>
    <footer><button type="button" onClick=${close}>Back</button><button class=${kind === "cancel" ? "danger" : "primary"} disabled=${!fit.length || sent !== null}>${sent !== null ? `${sent} of ${fit.length}` : kind === "cancel" ? "Cancel them" : "Retry them"}</button></footer></form></${Dialog}>`;
}
