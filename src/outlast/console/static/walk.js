// Which place of a plan each step of a run came from. A name may stand in a plan several times; what tells its places
// apart is what came before. So the walked path is read as a sentence of the plan's language: the cheapest reading wins.

import { baseKey } from "./format.js";

const NOTHING = { first: [], last: [], all: [], empty: true };

/** The places of a plan, and for each the places that may come next. */
function readPlaces(plan) {
  const places = [];
  const next = [];
  const link = (from, to) => from.forEach((one) => to.forEach((other) => next[one].add(other)));
  const place = (node, name) => {
    places.push({ id: node.id, name });
    next.push(new Set());
    const here = [places.length - 1];
    return { first: here, last: here, all: here, empty: false };
  };
  const inTurn = (parts) => parts.reduce((before, part) => {
    link(before.last, part.first);
    return {
      first: before.empty ? [...before.first, ...part.first] : before.first,
      last: part.empty ? [...before.last, ...part.last] : part.last,
      all: [...before.all, ...part.all], empty: before.empty && part.empty,
    };
  }, NOTHING);
  const oneOf = (parts, orNone) => ({
    first: parts.flatMap((part) => part.first), last: parts.flatMap((part) => part.last),
    all: parts.flatMap((part) => part.all), empty: orNone || parts.some((part) => part.empty),
  });
  const optional = (part) => ({ ...part, empty: true });
  const again = (part) => { link(part.last, part.first); return optional(part); };
  const inAnyOrder = (parts, isRepeated) => {
    parts.forEach((part, i) => parts.forEach((other, j) => { if (i !== j || isRepeated) link(part.all, other.all); }));
    const all = parts.flatMap((part) => part.all);
    return { first: all, last: all, all, empty: isRepeated || parts.every((part) => part.empty) };
  };
  const tryOf = (node) => {
    const body = walk(node.body);
    const good = inTurn([body, walk(node.orelse)]);
    const caught = (node.handlers || []).map((arm) => { const part = walk(arm.body); link(body.all, part.first); return optional(part); });
    const ways = { first: [...good.first, ...(body.empty ? caught.flatMap((part) => part.first) : [])],
      last: [...good.last, ...(caught.length ? body.all : []), ...caught.flatMap((part) => part.last)],
      all: [...good.all, ...caught.flatMap((part) => part.all)], empty: good.empty };
    return inTurn([ways, walk(node.finalbody)]);
  };
  const walk = (nodes) => inTurn((nodes || []).map((node) => {
    switch (node.kind) {
      case "step": return place(node, node.name || node.function);
      case "child": return place(node, node.name || node.workflow);
      case "branch": {
        const arms = node.arms || [];
        const tests = arms.map((arm) => optional(walk(arm.test)));
        const otherwise = arms.some((arm) => !arm.condition && !arm.pattern);
        return inTurn([...tests, oneOf(arms.map((arm) => walk(arm.body)), !otherwise)]);
      }
      case "loop": return inTurn([again(inTurn([walk(node.test), walk(node.body)])), optional(walk(node.orelse))]);
      case "parallel": return inAnyOrder((node.lanes || []).map(walk), node.form === "map" || node.form === "group");
      case "try": return tryOf(node);
      default: return walk(node.body);
    }
  }));
  const whole = walk(plan.nodes);
  return { places, next, first: new Set(whole.first) };
}

const JUMP = 1;
const REUSE = 0.01;

/** By key of each step that the plan foresees: the id of its place. Steps are given in the order of their calls. */
export function placeSteps(plan, steps) {
  const found = new Map();
  const { places, next, first } = readPlaces(plan);
  const named = new Map();
  places.forEach((one, at) => named.set(one.name, [...(named.get(one.name) || []), at]));
  let ways = [{ at: -1, cost: 0, used: new Set(), before: null, key: null }];
  for (const step of steps) {
    const candidates = named.get(baseKey(step.key));
    if (step.compensates || !candidates) continue;
    if (candidates.length === 1 && ways.length === 1) { // nothing to choose
      const [way] = ways;
      ways = [{ at: candidates[0], cost: 0, used: way.used.has(candidates[0]) ? way.used : new Set(way.used).add(candidates[0]), before: way, key: step.key }];
      continue;
    }
    ways = candidates.map((at) => {
      let best = null;
      for (const way of ways) {
        const follows = way.at < 0 ? first.has(at) : next[way.at].has(at);
        const cost = way.cost + (follows ? 0 : JUMP) + (way.used.has(at) ? REUSE : 0);
        if (!best || cost < best.cost) best = { cost, way };
      }
      const { used } = best.way;
      return { at, cost: best.cost, used: used.has(at) ? used : new Set(used).add(at), before: best.way, key: step.key };
    });
  }
  let way = ways.reduce((one, other) => (other.cost < one.cost ? other : one));
  for (; way.before; way = way.before) found.set(way.key, places[way.at].id);
  return found;
}
