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
  number = 0;

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

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const coded = atob(text),
    bytes = new Uint8Array(coded.length);
  for (let i = 0; i < coded.length; i++) bytes[i] = coded.charCodeAt(i);
  return bytes;
}

// Pieces are unpacked as they come.
let writer = null,
  unpacked = null;
function takePiece(text) {
  if (!writer) {
    const { readable, writable } = new DecompressionStream("deflate");
    writer = writable.getWriter();
    unpacked = new Response(readable).arrayBuffer();
  }
  writer.write(bytesOf(text));
}

function valuesOf(entry, buffer) {
  const count = entry.shape.reduce((a, b) => a * b, 1);
  if (entry.type === "uint8") return new Uint8Array(buffer.slice(entry.start, entry.start + count));
  if (entry.type === "uint32") return new Uint32Array(buffer.slice(entry.start, entry.start + 4 * count));
  if (entry.type === "float32") return new Float32Array(buffer.slice(entry.start, entry.start + 4 * count));
  const bytes = new Uint8Array(buffer, entry.start, 2 * count),
    whole = new Int16Array(count);
  for (let i = 0; i < count; i++) whole[i] = (bytes[count + i] << 8) | bytes[i];
  if (entry.changes) {
    // folded changes from row to row; the array itself keeps sums modulo 2 ** 16
    const columns = entry.step.length;
    for (let i = 0; i < count; i++) {
      const change = ((whole[i] & 0xffff) >> 1) ^ -(whole[i] & 1);
      whole[i] = i < columns ? change : whole[i - columns] + change;
    }
  }
  if (entry.name === "logits") return whole; // by far the most numbers: made values of when they are asked for
  const found = new Float32Array(count);
  stepped(whole, entry, found);
  return found;
}

// Whole numbers back to values, column by column.
function stepped(whole, { step, middle }, out, at = 0) {
  for (let i = 0, column = 0; i < whole.length; i++) {
    out[at + i] = whole[i] === -32768 ? NaN : middle[column] + step[column] * whole[i];
    if (++column === step.length) column = 0;
  }
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

// What the law and the stand-in read at a place: scaled covariates, moved or as they are.
function featuresInto(row, cell, moves) {
  if (!arrays.gates) return;
  const F = arrays.gates.shape[1],
    V = arrays.covariates.shape[1],
    gate = solver.features.row(row);
  gate.set(arrays.gates.values.subarray(cell * F, (cell + 1) * F));
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
}

// The stand-in's layers, the bias as the last row; what it says of the features that the solver holds.
let layers = [];
function standInLayers() {
  const { Matrix, rowsOf } = Products;
  return Array.from({ length: facts.stand_in?.layers ?? 0 }, (_, number) => {
    const {
      values,
      shape: [units, columns],
    } = arrays[`stand_in.${number}`];
    const weights = Matrix.of(columns, units, (c, u) => values[u * columns + c]);
    const isLast = number === facts.stand_in.layers - 1;
    const out = new Matrix(Law.ROWS, isLast ? units : units + 1);
    return { weights, out, every: rowsOf(weights, [...Array(columns).keys()]) };
  });
}
function standIn(n) {
  let seen = solver.features;
  layers.forEach(({ weights, out, every }, number) => {
    const values = out.values;
    values.fill(0, 0, n * out.step);
    const inputs = seen.values;
    for (let r = 0; r < n; r++) inputs[r * seen.step + every.columns - 1] = 1; // the bias
    Products.addProduct(out, seen, weights, every, n);
    if (number < layers.length - 1) for (let i = 0; i < n * out.step; i++) if (values[i] < 0) values[i] = 0;
    seen = out;
  });
  return seen;
}

// Put some places before the solver, with covariates moved as they are now.
function stand(cells, moves) {
  const n = cells.length,
    { base } = solver,
    logits = base.values,
    { values, step: steps } = arrays.logits;
  for (let r = 0; r < n; r++) {
    const row = values.subarray(cells[r] * nLabels, (cells[r] + 1) * nLabels);
    if (steps) stepped(row, arrays.logits, logits, r * base.step);
    else logits.set(row, r * base.step);
    featuresInto(r, cells[r], []);
  }
  if (moves.length && layers.length) {
    const add = (sign) => {
      const change = standIn(n).values;
      for (let i = 0; i < n * base.step; i++) logits[i] += sign * change[i];
    };
    add(-1);
    for (let r = 0; r < n; r++) featuresInto(r, cells[r], moves);
    add(1);
  }
  solver.place(n);
}

// Probabilities of some places, given the same labels everywhere: all of them, or one.
function probsOf(cells, known, values, moves, only = -1) {
  const n = cells.length,
    K = known.length;
  stand(cells, moves);
  const everywhere = new Float32Array(n * K);
  for (let i = 0; i < n * K; i++) everywhere[i] = values[i % K];
  const found = solver.solve(known, everywhere, n, only);
  Products.logisticOf(found, n);
  const probs = found.values;
  if (only < 0) for (let r = 0; r < n; r++) for (let k = 0; k < K; k++) probs[r * found.step + known[k]] = values[k];
  return found;
}

// --- the whole map -----------------------------------------------------------------------------------------------

const BREATH = 25; // milliseconds of work before something newer is listened to
const from0 = (start, n) => Array.from({ length: n }, (_, r) => start + r);

// Go through the places from one on, some at a time; false if something newer was told meanwhile.
async function eachPiece(start, mine, work) {
  let since = performance.now();
  for (let at = start; at < nPlaces; at += Law.ROWS) {
    work(from0(at, Math.min(Law.ROWS, nPlaces - at)));
    if (performance.now() - since > BREATH) {
      await pause();
      if (number !== mine) return false;
      since = performance.now();
    }
  }
  return true;
}

function keep(probs, cells, into) {
  for (let r = 0; r < cells.length; r++) into.set(probs.row(r), cells[r] * nLabels);
}

function summary(kind, label, probs, at) {
  if (kind === "label") return probs[at + label];
  let sum = 0;
  if (kind === "unsure") for (let i = at; i < at + nLabels; i++) sum += Math.min(probs[i], 1 - probs[i]);
  else for (let i = at; i < at + nLabels; i++) sum += probs[i];
  return sum;
}

let now = { probs: null, key: "", upTo: 0 },
  untouched = null;
// Probabilities of all places where nothing is told or moved.
function start() {
  if (!untouched) {
    untouched = new Float32Array(nPlaces * nLabels);
    for (let at = 0; at < nPlaces; at += Law.ROWS) {
      const cells = from0(at, Math.min(Law.ROWS, nPlaces - at));
      keep(probsOf(cells, [], [], []), cells, untouched);
    }
  }
  return untouched;
}

const isPlain = () => !told.known.length && !shifts.length,
  keyNow = () => JSON.stringify([told, shifts]);

// All probabilities of all places as things are; stops when something newer was told.
async function solveAll(mine, onPiece) {
  const key = keyNow();
  if (isPlain()) now = { probs: start(), key, upTo: nPlaces };
  else if (now.key !== key) now = { probs: new Float32Array(nPlaces * nLabels), key, upTo: 0 };
  const mineNow = now,
    { known, values } = told,
    moves = shifts;
  return eachPiece(now.upTo, mine, (cells) => {
    keep(probsOf(cells, known, values, moves), cells, mineNow.probs);
    mineNow.upTo = Math.max(mineNow.upTo, cells.at(-1) + 1);
    onPiece(mineNow.upTo);
  });
}

async function paint({ mine, layer }) {
  const { kind, label } = layer,
    values = new Float32Array(nPlaces).fill(NaN),
    started = performance.now(),
    fixed = told.known.indexOf(label);
  const send = (part, done) => postMessage({ type: "layer", number: mine, from, values: part, done }, [part.buffer]);
  let done = true,
    filled = 0,
    sent = started;
  const isReady = now.key === keyNow() && now.upTo === nPlaces;
  if (kind === "label" && !isReady && !isPlain()) {
    // One label everywhere: the last round is needed of that label alone.
    const { known, values: said } = told,
      moves = shifts;
    if (fixed >= 0) values.fill(said[fixed]);
    else
      done = await eachPiece(0, mine, (cells) => {
        const probs = probsOf(cells, known, said, moves, label);
        for (let r = 0; r < cells.length; r++) values[cells[r]] = probs.values[r * probs.step];
      });
  } else {
    const fill = (upTo) => {
      for (; filled < upTo; filled++) values[filled] = summary(kind, label, now.probs, filled * nLabels);
      if (performance.now() - sent < 200) return;
      send(values.slice(), false); // a long work shows how far it is
      sent = performance.now();
    };
    done = await solveAll(mine, fill);
    if (done) fill(nPlaces);
  }
  if (!done || number !== mine) return;
  if (layer.change)
    for (let cell = 0; cell < nPlaces; cell++) values[cell] -= summary(kind, label, start(), cell * nLabels);
  send(values, true);
  postMessage({ type: "spent", number: mine, milliseconds: performance.now() - started });
}

// --- one place ---------------------------------------------------------------------------------------------------

const entropy = (p) => (p <= 0 || p >= 1 ? 0 : -(p * Math.log2(p) + (1 - p) * Math.log2(1 - p)));
const logistic = (x) => 1 / (1 + Math.exp(-x));
const probsAt = (cell, known, values, moves) => probsOf([cell], known, values, moves).row(0).slice();

// Logits at one place for each of many suppositions, lists of [label, value] on top of what is known. Each is handed
// to `use`; false if nobody wants them any more.
async function suppose({ cell, known, values, moves }, suppositions, use, isWanted = () => true) {
  let since = performance.now();
  for (let at = 0; at < suppositions.length; at += Law.ROWS) {
    const some = suppositions.slice(at, at + Law.ROWS),
      names = [...new Set([...known, ...some.flat().map(([label]) => label)])],
      said = new Float32Array(some.length * names.length).fill(NaN);
    some.forEach((supposed, r) => {
      const tell = (label, value) => (said[r * names.length + names.indexOf(label)] = value);
      known.forEach((label, k) => tell(label, values[k]));
      for (const [label, value] of supposed) tell(label, value);
    });
    stand(Array(some.length).fill(cell), moves);
    const logits = solver.solve(names, said, some.length);
    some.forEach((_, r) => use(at + r, logits.row(r)));
    if (performance.now() - since > BREATH) {
      await pause();
      if (!isWanted()) return false;
      since = performance.now();
    }
  }
  return true;
}

// What each label would tell of the others, were it looked for: bits by which the rest is expected to be surer.
async function nextAt(question, isWanted) {
  const { cell, known, values, moves } = question,
    probs = probsAt(cell, known, values, moves),
    gains = new Float32Array(nLabels);
  const open = from0(0, nLabels).filter((label) => !known.includes(label)),
    all = open.reduce((sum, label) => sum + entropy(probs[label]), 0);
  const asked = open.flatMap((label) => [[[label, 1]], [[label, 0]]]);
  for (const label of open) gains[label] = all - entropy(probs[label]);
  const isDone = await suppose(
    question,
    asked,
    (number, logits) => {
      const [[label, value]] = asked[number];
      let rest = 0;
      for (const other of open) if (other !== label) rest += entropy(logistic(logits[other]));
      gains[label] -= (value ? probs[label] : 1 - probs[label]) * rest;
    },
    isWanted,
  );
  return isDone ? gains : null;
}

// Edges: what knowing j alone, as present or as absent, does to the logit of i; on top of what is known.
async function edgesAt(question, only) {
  const { known } = question,
    found = new Float32Array(nLabels * nLabels);
  const asked = from0(0, nLabels)
    .filter((label) => !known.includes(label) && (!only || only.includes(label)))
    .flatMap((label) => [[[label, 1]], [[label, 0]]]);
  await suppose(question, asked, (number, logits) => {
    const [[label, value]] = asked[number];
    for (let i = 0; i < nLabels; i++)
      if (i !== label && !known.includes(i)) found[label * nLabels + i] += value ? logits[i] : -logits[i];
  });
  return found;
}

// How far a third label changes what the second tells the first.
async function tripleAt(question, [first, second]) {
  const found = { with: new Float32Array(nLabels), without: new Float32Array(nLabels) };
  const asked = from0(0, nLabels)
    .filter((third) => third !== first && third !== second && !question.known.includes(third))
    .flatMap((third) => [1, 0].flatMap((c) => [1, 0].map((b) => [[second, b], [third, c]])));
  await suppose(question, asked, (number, logits) => {
    const [[, b], [third, c]] = asked[number];
    (c ? found.with : found.without)[third] += b ? logits[first] : -logits[first];
  });
  return found;
}

async function ask({ id, what, cell, known = [], values = [], moves = [], label, pair, only }) {
  const question = { cell: cell - from, known, values, moves },
    here = question.cell;
  let answer = null;
  if (what === "place") {
    answer = { probs: probsAt(here, known, values, moves), before: probsAt(here, [], [], []) };
  } else if (what === "why") {
    const without = known.map((_, a) => {
      const but = (list) => list.filter((_, b) => b !== a);
      return probsAt(here, but(known), but(values), moves)[label];
    });
    const typical = facts.covariates.map((covariate, which) => {
      if (!facts.stand_in || !covariate.outs.length) return NaN;
      const others = moves.filter((move) => move[0] !== which);
      return probsAt(here, known, values, [...others, [which, covariate.median, true]])[label];
    });
    answer = { all: probsAt(here, known, values, moves)[label], without, typical };
  } else if (what === "next") {
    asking = id;
    answer = await nextAt(question, () => asking === id);
  } else if (what === "edges") {
    answer = await edgesAt(question, only);
  } else if (what === "triple") {
    answer = await tripleAt(question, pair);
  } else if (what === "all") {
    while (!(await solveAll(number, () => {}))) await pause();
    answer = now.probs.slice();
  }
  postMessage({ type: "answer", id, answer });
}
let asking = 0;

onmessage = async ({ data }) => {
  if (data.type === "text") takePiece(data.text);
  else if (data.type === "unpack") {
    writer.close();
    const buffer = await unpacked,
      arrays = {};
    for (const entry of data.index) arrays[entry.name] = { ...entry, values: valuesOf(entry, buffer) };
    const parts = data.from.slice(1).map((to, k) =>
      Object.fromEntries(
        ["logits", "gates", "covariates"]
          .filter((name) => arrays[name])
          .map((name) => {
            const { values, ...entry } = arrays[name],
              width = entry.shape[1],
              shape = [to - data.from[k], width];
            return [name, { ...entry, shape, values: values.slice(data.from[k] * width, to * width) }];
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
    solver = Law.solver(facts, arrays, nLabels);
    layers = standInLayers();
    postMessage({ type: "ready" });
  } else if (data.type === "world") {
    ({ told, shifts } = data);
    number = data.number;
    paint({ mine: number, layer: data.layer });
  } else if (data.type === "ask") ask(data);
};
