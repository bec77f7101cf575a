"use strict";
// The worker: holds some of the places, and answers questions about them. Long work is done in pieces, so that a newer
// question never waits for an older one.
let facts,
  arrays,
  from,
  nPlaces,
  nLabels,
  solver,
  told = { known: [], values: [] },
  shifts = [],
  number = 0,
  standing = null;

const pause = (() => {
  const channel = new MessageChannel(),
    waiting = [];
  channel.port1.onmessage = () => waiting.shift()();
  return () =>
    new Promise((resolve) => {
      waiting.push(resolve);
      channel.port2.postMessage(0);
    });
})();

// --- numbers ---------------------------------------------------------------------------------------------------

async function unpack(text) {
  const coded = atob(text),
    bytes = new Uint8Array(coded.length);
  for (let i = 0; i < coded.length; i++) bytes[i] = coded.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

function valuesOf(entry, buffer) {
  const count = entry.shape.reduce((a, b) => a * b, 1);
  if (entry.type === "uint8") return new Uint8Array(buffer.slice(entry.start, entry.start + count));
  if (entry.type === "uint32") return new Uint32Array(buffer.slice(entry.start, entry.start + 4 * count));
  if (entry.type === "float32") return new Float32Array(buffer.slice(entry.start, entry.start + 4 * count));
  const bytes = new Uint8Array(buffer, entry.start, 2 * count),
    found = new Float32Array(count);
  const columns = entry.step.length,
    step = Float64Array.from(entry.step),
    middle = Float64Array.from(entry.middle);
  for (let i = 0, column = 0; i < count; i++) {
    const whole = ((bytes[count + i] << 24) >> 16) | bytes[i];
    found[i] = whole === -32768 ? NaN : middle[column] + step[column] * whole;
    if (++column === columns) column = 0;
  }
  return found;
}

// --- covariates that were moved ----------------------------------------------------------------------------------

function between(x, xs, ys) {
  const last = xs.length - 1;
  if (!(x > xs[0])) return ys[0];
  if (x >= xs[last]) return ys[last];
  let low = 0,
    high = last;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle;
  }
  return ys[low] + ((ys[high] - ys[low]) * (x - xs[low])) / (xs[high] - xs[low]);
}

// The value of a covariate once moved: never further beyond training than it was.
function movedValue(covariate, value, by) {
  return Math.min(Math.max(value + by, Math.min(covariate.low, value)), Math.max(covariate.high, value));
}

let gate, hidden, changed;
function featuresOf(cell, moves) {
  if (!arrays.gates) return null;
  const F = arrays.gates.shape[1],
    V = arrays.covariates.shape[1];
  for (let f = 0; f < F; f++) gate[f] = arrays.gates.values[cell * F + f];
  for (const [which, by, isValue] of moves) {
    const covariate = facts.covariates[which],
      value = arrays.covariates.values[cell * V + which];
    if (Number.isNaN(value)) continue;
    const now = isValue ? by : movedValue(covariate, value, by);
    for (const out of covariate.outs) {
      const turn = (2 * Math.PI * now) / out.period;
      const raw = out.how === "sin" ? Math.sin(turn) : out.how === "cos" ? Math.cos(turn) : now;
      gate[out.column] = between(raw, out.xs, out.ys);
    }
  }
  return gate;
}

function standIn(features, out) {
  let seen = features;
  for (let layer = 0; layer < facts.stand_in.layers; layer++) {
    const {
      values,
      shape: [units, columns],
    } = arrays[`stand_in.${layer}`];
    const isLast = layer === facts.stand_in.layers - 1,
      target = isLast ? out : hidden[layer];
    for (let u = 0; u < units; u++) {
      let sum = values[u * columns + columns - 1];
      for (let i = 0, at = u * columns; i < columns - 1; i++) sum += values[at + i] * seen[i];
      target[u] = isLast || sum > 0 ? sum : 0;
    }
    seen = target;
  }
}

// Put a place before the solver, with covariates moved as they are now.
function stand(cell, moves) {
  const start = cell * nLabels,
    logits = arrays.logits.values;
  if (!moves.length || !facts.stand_in) return solver.place(logits, start, featuresOf(cell, []));
  if (!standing) standing = new Map();
  let before = standing.get(cell);
  if (!before) {
    before = new Float32Array(nLabels);
    standIn(featuresOf(cell, []), before);
    standing.set(cell, before);
  }
  const features = featuresOf(cell, moves);
  standIn(features, changed);
  for (let i = 0; i < nLabels; i++) changed[i] += logits[start + i] - before[i];
  solver.place(changed, 0, features);
}

// --- the whole map -----------------------------------------------------------------------------------------------

function summary(kind, label, probs, at) {
  if (kind === "label") return probs[at + label];
  let sum = 0;
  for (let i = 0; i < nLabels; i++) {
    const p = probs[at + i];
    sum += kind === "unsure" ? Math.min(p, 1 - p) : p;
  }
  return sum;
}

let now = { probs: null, key: "", upTo: 0 },
  untouched = null;
function start() {
  if (!untouched) {
    untouched = new Float32Array(nPlaces * nLabels);
    const logits = arrays.logits.values;
    for (let i = 0; i < logits.length; i++) untouched[i] = Law.sigmoid(logits[i]);
  }
  return untouched;
}

// All probabilities of all places as things are; stops when something newer was told.
async function solveAll(mine, onPiece) {
  const key = JSON.stringify([told, shifts]);
  if (!told.known.length && !shifts.length) {
    now = { probs: start(), key, upTo: nPlaces };
    return true;
  }
  if (now.key !== key) now = { probs: new Float32Array(nPlaces * nLabels), key, upTo: 0 };
  let since = performance.now();
  const { probs } = now,
    known = Int32Array.from(told.known),
    values = Float64Array.from(told.values);
  while (now.upTo < nPlaces) {
    const cell = now.upTo;
    stand(cell, shifts);
    const logits = solver.solve(known, values, known.length);
    for (let i = 0, at = cell * nLabels; i < nLabels; i++) probs[at + i] = Law.sigmoid(logits[i]);
    for (let a = 0; a < known.length; a++) probs[cell * nLabels + known[a]] = values[a];
    now.upTo++;
    if (performance.now() - since > 25) {
      onPiece();
      await pause();
      if (number !== mine || now.key !== key) return false;
      since = performance.now();
    }
  }
  return true;
}

// One label everywhere: the last round is needed of that label alone.
async function solveOne(label, mine) {
  const known = Int32Array.from(told.known),
    values = Float64Array.from(told.values),
    moves = shifts;
  const found = new Float32Array(nPlaces),
    fixed = told.known.indexOf(label);
  if (fixed >= 0) return found.fill(values[fixed]);
  let since = performance.now();
  for (let cell = 0; cell < nPlaces; cell++) {
    stand(cell, moves);
    found[cell] = Law.sigmoid(solver.solve(known, values, known.length, label)[label]);
    if (performance.now() - since > 25) {
      await pause();
      if (number !== mine) return null;
      since = performance.now();
    }
  }
  return found;
}

async function paint({ mine, layer }) {
  const { kind, label } = layer;
  const send = (values, done) => postMessage({ type: "layer", number: mine, from, values, done }, [values.buffer]);
  const started = performance.now();
  const read = (upTo) => {
    const values = new Float32Array(nPlaces).fill(NaN),
      before = start();
    for (let cell = 0; cell < upTo; cell++) {
      values[cell] = summary(kind, label, now.probs, cell * nLabels);
      if (layer.change) values[cell] -= summary(kind, label, before, cell * nLabels);
    }
    return values;
  };
  const isReady = now.key === JSON.stringify([told, shifts]) && now.upTo === nPlaces;
  if (kind === "label" && !isReady && (told.known.length || shifts.length)) {
    const values = await solveOne(label, mine);
    if (!values) return;
    if (layer.change) for (let cell = 0; cell < nPlaces; cell++) values[cell] -= start()[cell * nLabels + label];
    send(values, true);
    return postMessage({ type: "spent", number: mine, milliseconds: performance.now() - started });
  }
  const done = await solveAll(mine, () => {
    if (number === mine && kind !== "label") send(read(now.upTo), false);
  });
  if (!done || number !== mine) return;
  send(read(nPlaces), true);
  postMessage({ type: "spent", number: mine, milliseconds: performance.now() - started });
}

// --- one place ---------------------------------------------------------------------------------------------------

const entropy = (p) => (p <= 0 || p >= 1 ? 0 : -(p * Math.log2(p) + (1 - p) * Math.log2(1 - p)));

function probsAt(cell, known, values, moves) {
  stand(cell, moves);
  const logits = solver.solve(known, values, known.length),
    found = new Float32Array(nLabels);
  for (let i = 0; i < nLabels; i++) found[i] = Law.sigmoid(logits[i]);
  for (let a = 0; a < known.length; a++) found[known[a]] = values[a];
  return found;
}

// What each label would tell of the others, were it looked for: bits by which the rest is expected to be surer.
async function nextAt(cell, known, values, moves, stillWanted) {
  const probs = probsAt(cell, known, values, moves),
    gains = new Float32Array(nLabels);
  let since = performance.now();
  const rest = (logits, without) => {
    let sum = 0;
    for (let i = 0; i < nLabels; i++) if (i !== without && !known.includes(i)) sum += entropy(Law.sigmoid(logits[i]));
    return sum;
  };
  const all = probs.reduce((sum, p, i) => (known.includes(i) ? sum : sum + entropy(p)), 0);
  for (let j = 0; j < nLabels; j++) {
    if (known.includes(j)) continue;
    const names = Int32Array.from([...known, j]),
      p = probs[j];
    let after = 0;
    for (const value of [1, 0]) {
      const share = value ? p : 1 - p;
      if (share < 1e-4) {
        after += share * (all - entropy(p));
        continue;
      }
      after += share * rest(solver.solve(names, Float64Array.from([...values, value]), names.length), j);
    }
    gains[j] = all - entropy(p) - after;
    if (performance.now() - since > 25) {
      await pause();
      if (!stillWanted()) return null;
      stand(cell, moves);
      since = performance.now();
    }
  }
  return gains;
}

// Edges: what knowing j alone, as present or as absent, does to the logit of i; on top of what is known.
async function edgesAt(cell, known, values, moves, only) {
  stand(cell, moves);
  const found = new Float32Array(nLabels * nLabels);
  let since = performance.now();
  for (let j = 0; j < nLabels; j++) {
    if (known.includes(j) || (only && !only.includes(j))) continue;
    const names = Int32Array.from([...known, j]),
      at = j * nLabels;
    const present = Float64Array.from(solver.solve(names, Float64Array.from([...values, 1]), names.length));
    const absent = solver.solve(names, Float64Array.from([...values, 0]), names.length);
    for (let i = 0; i < nLabels; i++) if (i !== j && !known.includes(i)) found[at + i] = present[i] - absent[i];
    if (performance.now() - since > 25) {
      await pause();
      stand(cell, moves);
      since = performance.now();
    }
  }
  return found;
}

async function ask({ id, what, cell, known = [], values = [], moves = [], label, pair, only }) {
  const here = cell - from;
  let answer = null;
  if (what === "place") {
    answer = { probs: probsAt(here, known, values, moves), before: probsAt(here, [], [], []) };
  } else if (what === "why") {
    const all = Law.sigmoid((stand(here, moves), solver.solve(known, values, known.length))[label]);
    const without = known.map((_, a) => {
      const rest = known.filter((_, b) => b !== a),
        said = values.filter((_, b) => b !== a);
      return Law.sigmoid(solver.solve(rest, said, rest.length)[label]);
    });
    const typical = facts.covariates.map((covariate, which) => {
      if (!facts.stand_in || !covariate.outs.length) return NaN;
      stand(here, [...moves.filter((move) => move[0] !== which), [which, covariate.median, true]]);
      return Law.sigmoid(solver.solve(known, values, known.length)[label]);
    });
    answer = { all, without, typical };
  } else if (what === "next") {
    asking = id;
    answer = await nextAt(here, known, values, moves, () => asking === id);
  } else if (what === "edges") {
    answer = await edgesAt(here, known, values, moves, only);
  } else if (what === "triple") {
    // How far a third label changes what the second tells the first.
    const [first, second] = pair,
      found = { with: new Float32Array(nLabels), without: new Float32Array(nLabels) };
    stand(here, moves);
    for (let third = 0; third < nLabels; third++) {
      if (third === first || third === second || known.includes(third)) continue;
      const names = [...known, second, third];
      const logit = (b, c) => solver.solve(names, [...values, b, c], names.length)[first];
      found.with[third] = logit(1, 1) - logit(0, 1);
      found.without[third] = logit(1, 0) - logit(0, 0);
    }
    answer = found;
  } else if (what === "all") {
    while (!(await solveAll(number, () => {}))) await pause();
    answer = now.probs.slice();
  }
  postMessage({ type: "answer", id, answer });
}
let asking = 0,
  texts = [];

onmessage = async ({ data }) => {
  if (data.type === "text") texts.push(data.text);
  else if (data.type === "unpack") {
    const buffer = await unpack(texts.join("")),
      arrays = {};
    texts = [];
    for (const entry of data.index) arrays[entry.name] = { shape: entry.shape, values: valuesOf(entry, buffer) };
    const parts = data.from.slice(1).map((to, k) =>
      Object.fromEntries(
        ["logits", "gates", "covariates"]
          .filter((name) => arrays[name])
          .map((name) => {
            const {
              shape: [, width],
              values,
            } = arrays[name];
            return [
              name,
              { shape: [to - data.from[k], width], values: values.slice(data.from[k] * width, to * width) },
            ];
          }),
      ),
    );
    delete arrays.logits;
    delete arrays.gates;
    const moved = [...Object.values(arrays), ...parts.flatMap((part) => Object.values(part))].map(
      ({ values }) => values.buffer,
    );
    postMessage({ arrays, parts }, moved);
  } else if (data.type === "hold") {
    ({ facts, arrays, from } = data);
    [nPlaces, nLabels] = arrays.logits.shape;
    gate = new Float64Array(arrays.gates ? arrays.gates.shape[1] : 0);
    hidden = facts.stand_in
      ? Array.from({ length: facts.stand_in.layers }, (_, k) => new Float64Array(arrays[`stand_in.${k}`].shape[0]))
      : [];
    changed = new Float64Array(nLabels);
    solver = Law.solver(facts, arrays, nLabels);
    postMessage({ type: "ready" });
  } else if (data.type === "world") {
    ({ told, shifts } = data);
    number = data.number;
    paint({ mine: number, layer: data.layer });
  } else if (data.type === "ask") ask(data);
};
