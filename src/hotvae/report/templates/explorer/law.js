"use strict";
// What labels say of each other: the arithmetic of hotvae/net/messages.py, one place at a time.
const Law = (() => {
  // The logistic function, looked up: straight lines between steps of 1/256 are off by 2e-7 at most.
  const REACH = 16,
    STEPS = 256;
  const looked = new Float64Array(2 * REACH * STEPS + 2);
  for (let i = 0; i < looked.length; i++) looked[i] = 1 / (1 + Math.exp(REACH - i / STEPS));
  function sigmoid(x) {
    if (!(x > -REACH && x < REACH)) return 1 / (1 + Math.exp(-x));
    const at = (x + REACH) * STEPS,
      low = at | 0;
    return looked[low] + (at - low) * (looked[low + 1] - looked[low]);
  }

  // out[i] += sum over a of values[a] * weights[starts[a] + i]; four terms at a time save three loads of out.
  function gather(out, width, weights, starts, values, count) {
    let a = 0;
    for (; a + 3 < count; a += 4) {
      const s0 = starts[a],
        s1 = starts[a + 1],
        s2 = starts[a + 2],
        s3 = starts[a + 3];
      const v0 = values[a],
        v1 = values[a + 1],
        v2 = values[a + 2],
        v3 = values[a + 3];
      for (let i = 0; i < width; i++) {
        out[i] += v0 * weights[s0 + i] + v1 * weights[s1 + i] + v2 * weights[s2 + i] + v3 * weights[s3 + i];
      }
    }
    for (; a < count; a++) {
      const start = starts[a],
        value = values[a];
      for (let i = 0; i < width; i++) out[i] += value * weights[start + i];
    }
  }

  function transposed(weights, rows, columns) {
    const found = new Float32Array(rows * columns);
    for (let r = 0; r < rows; r++) for (let c = 0; c < columns; c++) found[c * rows + r] = weights[r * columns + c];
    return found;
  }

  // One voice: weights laid out by who speaks, so that what one label tells all others lies side by side.
  function voiceOf(arrays, number, passing) {
    const part = (name) => arrays[`law.${number}.${name}`];
    const voice = { passing: passing[0], passingKnown: passing[1], nCauses: 0, hubWidth: 0, edge: null, signed: false };
    const edge = part("edge"),
      difference = part("difference"),
      send = part("send"),
      hubIn = part("hub_in");
    if (edge) {
      const n = edge.shape[0],
        told = transposed(edge.values, n, n);
      voice.edge = told;
      if (difference) {
        // presence counts edge + difference, absence edge - difference
        const more = transposed(difference.values, n, n);
        voice.edge = new Float32Array(2 * n * n);
        voice.signed = true;
        for (let i = 0; i < n * n; i++) {
          voice.edge[i] = told[i] + more[i];
          voice.edge[n * n + i] = told[i] - more[i];
        }
      }
    }
    if (send) {
      const [n, width] = send.shape;
      voice.nCauses = width;
      voice.send = send.values;
      voice.hear = transposed(part("hear").values, n, width);
      voice.causeGate = part("cause_gate") || null;
    }
    if (hubIn) {
      const [width, both] = hubIn.shape;
      voice.hubWidth = width;
      voice.hubIn = transposed(hubIn.values, width, both); // row j: news of label j; row L + j: whether it is known
      voice.hubOut = transposed(part("hub_out").values, both / 2, width);
      voice.hubGate = part("hub_gate");
    }
    return voice;
  }

  // How loud causes or hub units are at a place.
  function loudness(gate, features, out) {
    if (!gate) return void out.fill(1);
    const [units, columns] = gate.shape;
    for (let u = 0; u < units; u++) {
      let sum = gate.values[u * columns + columns - 1];
      for (let f = 0; f < columns - 1; f++) sum += gate.values[u * columns + f] * features[f];
      out[u] = 1 + Math.tanh(sum);
    }
  }

  // A solver keeps its scratch numbers; `place` says what the base foretells there, `solve` what labels add.
  function solver(facts, arrays, nLabels) {
    const L = nLabels,
      rounds = facts.law.rounds;
    const voices = (facts.law.passing || []).map((passing, number) => voiceOf(arrays, number, passing));
    const floor = facts.precision === "float32" ? 0 : 1e-6; // news too small to be heard
    const base = new Float64Array(L),
      prob = new Float64Array(L),
      first = new Float64Array(L);
    const news = new Float64Array(L),
      moved = new Float64Array(L),
      sum = new Float64Array(L);
    const logits = new Float64Array(L),
      isKnown = new Uint8Array(L);
    const widest = Math.max(L, ...voices.map((v) => Math.max(v.nCauses, v.hubWidth)));
    const starts = new Int32Array(widest),
      values = new Float64Array(widest),
      index = new Int32Array(L);
    const unitStarts = new Int32Array(widest);
    for (const voice of voices) {
      voice.loud = new Float64Array(voice.nCauses);
      voice.hubLoud = new Float64Array(voice.hubWidth);
      voice.causes = new Float64Array(voice.nCauses);
      voice.units = new Float64Array(voice.hubWidth);
    }

    function place(numbers, at, features) {
      for (let i = 0; i < L; i++) prob[i] = sigmoid((base[i] = numbers[at + i]));
      const seen = features || prob;
      for (const voice of voices) {
        if (voice.nCauses) loudness(voice.causeGate, seen, voice.loud);
        if (voice.hubWidth) loudness(voice.hubGate, seen, voice.hubLoud);
      }
    }

    // What is heard in one round; of one label only where `only` is not -1.
    function hear(voice, known, nKnown, only) {
      let count = 0;
      for (let j = 0; j < L; j++) {
        const value = news[j];
        if (value > floor || value < -floor) {
          index[count] = j;
          values[count++] = value;
        }
      }
      moved.fill(0);
      if (voice.edge) {
        const other = voice.signed ? L * L : 0;
        for (let a = 0; a < count; a++) starts[a] = index[a] * L + (values[a] < 0 ? other : 0);
        if (only < 0) gather(moved, L, voice.edge, starts, values, count);
        else for (let a = 0; a < count; a++) moved[only] += values[a] * voice.edge[starts[a] + only];
      }
      const told = (width, sent, out) => {
        out.fill(0);
        for (let a = 0; a < count; a++) starts[a] = index[a] * width;
        gather(out, width, sent, starts, values, count);
      };
      const spread = (width, heard, units) => {
        if (only >= 0) {
          for (let u = 0; u < width; u++) moved[only] += units[u] * heard[u * L + only];
          return;
        }
        for (let u = 0; u < width; u++) unitStarts[u] = u * L;
        gather(moved, L, heard, unitStarts, units, width);
      };
      if (voice.nCauses) {
        told(voice.nCauses, voice.send, voice.causes);
        for (let k = 0; k < voice.nCauses; k++) voice.causes[k] *= voice.loud[k];
        spread(voice.nCauses, voice.hear, voice.causes);
      }
      if (voice.hubWidth) {
        const H = voice.hubWidth,
          units = voice.units;
        told(H, voice.hubIn, units);
        for (let a = 0; a < nKnown; a++) for (let u = 0; u < H; u++) units[u] += voice.hubIn[(L + known[a]) * H + u];
        for (let u = 0; u < H; u++) units[u] = units[u] > 0 ? units[u] * voice.hubLoud[u] : 0;
        spread(H, voice.hubOut, units);
      }
    }

    // Logits at the place given some labels; all of them, or one.
    function solve(known, told, nKnown, only = -1) {
      if (!nKnown || !voices.length) {
        logits.set(base);
        return logits;
      }
      first.fill(0);
      isKnown.fill(0);
      for (let a = 0; a < nKnown; a++) {
        first[known[a]] = told[a] - prob[known[a]];
        isKnown[known[a]] = 1;
      }
      sum.fill(0);
      for (const voice of voices) {
        news.set(first);
        for (let round = 0; round < rounds; round++) {
          const isLast = round === rounds - 1;
          hear(voice, known, nKnown, isLast ? only : -1);
          if (isLast) break;
          const unknown = voice.passing[round],
            fixed = voice.passingKnown[round];
          for (let i = 0; i < L; i++) {
            news[i] = first[i] + (isKnown[i] ? fixed : unknown) * (sigmoid(base[i] + moved[i]) - prob[i]);
          }
        }
        if (only < 0) for (let i = 0; i < L; i++) sum[i] += moved[i];
        else sum[only] += moved[only];
      }
      const share = 1 / voices.length;
      if (only < 0) for (let i = 0; i < L; i++) logits[i] = base[i] + share * sum[i];
      else logits[only] = base[only] + share * sum[only];
      return logits;
    }

    return { base, prob, place, solve, voices };
  }

  return { sigmoid, solver, gather };
})();
