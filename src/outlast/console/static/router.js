// The page's address: `view`, `parts` of its path, and filters in its query. Links are real links.

import { useEffect, useState } from "./vendor/preact.js";

const base = () => new URL(document.baseURI).pathname;

function read() {
  const path = location.pathname.startsWith(base()) ? location.pathname.slice(base().length) : "";
  const [view = "", ...parts] = path.split("/").filter(Boolean).map(decodeURIComponent);
  return { view: view || "runs", parts, query: Object.fromEntries(new URLSearchParams(location.search)) };
}

const listeners = new Set();
addEventListener("popstate", () => listeners.forEach((tell) => tell(read())));

export function href(view, parts = [], query = {}) {
  const path = [view, ...parts].map(encodeURIComponent).join("/");
  const filled = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return base() + path + (filled.length ? `?${new URLSearchParams(filled)}` : "");
}

export function go(view, parts, query, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", href(view, parts, query));
  listeners.forEach((tell) => tell(read()));
}

/** Links of this page are followed without loading it anew. */
export function followLinks(event) {
  const link = event.target.closest("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  if (link.target || link.origin !== location.origin || !link.pathname.startsWith(base())) return;
  event.preventDefault();
  history.pushState(null, "", link.href);
  listeners.forEach((tell) => tell(read()));
  document.querySelector("main")?.scrollTo(0, 0);
}

export function useRoute() {
  const [route, setRoute] = useState(read);
  useEffect(() => { listeners.add(setRoute); return () => listeners.delete(setRoute); }, []);
  return route;
}
