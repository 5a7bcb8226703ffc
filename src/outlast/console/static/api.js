// The HTTP API: requests, problems, streams.

export const API = new URL("../api/v1/", document.baseURI);

export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `HTTP ${status}`);
    this.status = status;
    this.code = document.code || `HTTP_${status}`;
    this.fields = document.fields || {};
  }
}

let onSignedOut = () => {};
export const whenSignedOut = (callback) => { onSignedOut = callback; };

/** Ask the API. `query` values that are null, "" or [] are left out. Throws a Problem. */
export async function ask(method, path, { query, body, signal } = {}) {
  const url = new URL(path, API);
  for (const [name, value] of Object.entries(query || {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") url.searchParams.append(name, one);
    }
  }
  let answer;
  try {
    answer = await fetch(url, {
      method, signal, credentials: "same-origin",
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { code: "OFFLINE", detail: "The server does not answer." });
  }
  const text = await answer.text();
  let data = null;
  try { data = text ? JSON.parse(text) : null; } catch { data = { detail: text.slice(0, 300) }; }
  if (!answer.ok) {
    if (answer.status === 401) onSignedOut();
    throw new Problem(answer.status, data || {});
  }
  return data;
}

export const get = (path, query, signal) => ask("GET", path, { query, signal });
export const post = (path, body, query) => ask("POST", path, { body: body ?? {}, query });

/** The path of one run; its uid names the very run, whoever has its id now. */
export const runPath = (run, tail = "") => `runs/${encodeURIComponent(run.id || "-")}${tail}`;

/** Follow a stream of server-sent events; gives what stops it. EventSource comes back by itself. */
export function follow(path, query, { onMessage, onEnd, onState, event = "message" }) {
  const url = new URL(path, API);
  for (const [name, value] of Object.entries(query || {})) url.searchParams.set(name, value);
  const source = new EventSource(url);
  source.addEventListener("open", () => onState && onState(true));
  source.addEventListener("error", () => onState && onState(source.readyState === EventSource.OPEN));
  source.addEventListener(event, (message) => onMessage(message.data ? JSON.parse(message.data) : null));
  source.addEventListener("end", () => { source.close(); if (onEnd) onEnd(); });
  return () => source.close();
}
