// The command palette: runs by id, workflow or attribute, workflows, places.

import { html, useEffect, useRef, useState } from "./vendor/preact.js";
import { get, runPath } from "./api.js";
import { Status } from "./parts.js";
import { go } from "./router.js";

const PLACES = ["workflows", "runs", "waits", "workers", "queues"];

export function Palette({ close }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState([]);
  const [at, setAt] = useState(0);
  const ref = useRef();
  useEffect(() => { ref.current.showModal(); }, []);
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => search(text.trim(), abort.signal).then((all) => { setFound(all); setAt(0); }, () => {}), 120);
    return () => { clearTimeout(timer); abort.abort(); };
  }, [text]);
  const choose = (one) => { close(); one.go(); };
  const press = (event) => {
    if (event.key === "ArrowDown") { setAt(Math.min(at + 1, found.length - 1)); event.preventDefault(); }
    if (event.key === "ArrowUp") { setAt(Math.max(at - 1, 0)); event.preventDefault(); }
    if (event.key === "Enter" && found[at]) { event.preventDefault(); choose(found[at]); }
  };
  return html`<dialog class="palette" ref=${ref} onCancel=${close} aria-label="Find" onClick=${(e) => e.target === ref.current && close()}>
    <input autofocus value=${text} onInput=${(e) => setText(e.target.value)} onKeyDown=${press} role="combobox" aria-expanded="true"
      aria-controls="found" aria-activedescendant=${`found-${at}`} placeholder="A run's id, a workflow, region=eu …" />
    <ul id="found" role="listbox">${found.map((one, i) => html`<li key=${one.key} id=${`found-${i}`} role="option" aria-selected=${i === at}
      onMouseMove=${() => setAt(i)} onClick=${() => choose(one)}>${one.status && html`<${Status} of=${one.status} small />`}<b>${one.name}</b> <span class="faint">${one.what}</span></li>`)}
      ${!found.length && text && html`<li class="faint">Nothing found.</li>`}</ul></dialog>`;
}

async function search(text, signal) {
  const places = PLACES.filter((place) => place.includes(text.toLowerCase())).map((place) => ({ key: place, name: place, what: "place", go: () => go(place) }));
  const asked = [
    get("workflows", null, signal).then((all) => all.filter((one) => one.name.toLowerCase().includes(text.toLowerCase())).slice(0, 8)
      .map((one) => ({ key: `w ${one.name}`, name: one.name, what: "workflow", go: () => go("workflow", [one.name]) }))),
  ];
  const toRun = (run) => ({ key: `r ${run.uid}`, name: run.id, what: run.workflow, status: run.status, go: () => go("run", [run.id], { uid: run.uid }) });
  if (text) {
    asked.push(get(runPath({ id: text }), null, signal).then((run) => [toRun(run)]));
    for (const filter of ["workflow", "user"]) asked.push(get("runs", { [filter]: text, limit: 5 }, signal).then((page) => page.runs.map(toRun)));
    if (text.includes("=")) asked.push(get("runs", { attribute: text, limit: 10 }, signal).then((page) => page.runs.map(toRun)));
  }
  asked.push(get("runs", { limit: 100 }, signal).then((page) => page.runs.filter((run) => `${run.id} ${run.workflow} ${run.user}`.toLowerCase().includes(text.toLowerCase())).slice(0, 10).map(toRun)));
  const parts = await Promise.all(asked.map((one) => one.catch(() => [])));
  const seen = new Set();
  return [...parts.flat(), ...places].filter((one) => !seen.has(one.key) && seen.add(one.key)).slice(0, 20);
}
