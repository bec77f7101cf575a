"use strict";
// What labels say of each other: the arithmetic of hotvae/net/messages.py, some places (rows) at a time.
const Law = (() => {
  const { Matrix, rowsOf, addProduct, logisticOf } = Products;
  const ROWS = 64; // that go together

  // One voice. Labels speak to each other directly (edge), and through units: causes, and a hub that also hears which
  // labels are known. A unit is as loud as its gate says at a place.
  function voiceOf(arrays, number, [passing, passingKnown], L) {
    const part = (name) => arrays[`law.${number}.${name}`];
    // A matrix that knows the list of its first rows: those that take part in a product with all that speak.
    const listed = (matrix, count = matrix.rows) => {
      matrix.every = rowsOf(matrix, [...Array(count).keys()]);
      return matrix;
    };
    const plain = ({ values, shape: [rows, columns] }) => Matrix.of(rows, columns, (r, c) => values[r * columns + c]);
    const turned = ({ values, shape: [rows, columns] }) => Matrix.of(columns, rows, (c, r) => values[r * columns + c]);
    const doubled = (gate) => turned({ ...gate, values: gate.values.map((value) => 2 * value) });
    const groupOf = (tell, gate, isHub) => ({
      ...{ tell: listed(tell, L), gate: gate && listed(doubled(gate)), isHub },
      ...{ units: new Matrix(ROWS, tell.columns), loud: new Matrix(ROWS, tell.columns) },
    });
    const groups = [],
      all = { edges: ["edge", "difference"].map((name) => part(name) && listed(turned(part(name)))), hears: [] };
    if (part("send")) {
      groups.push(groupOf(plain(part("send")), part("cause_gate"), false));
      all.hears.push(listed(turned(part("hear"))));
    }
    if (part("hub_in")) {
      groups.push(groupOf(turned(part("hub_in")), part("hub_gate"), true)); // row L + j: whether label j is known
      all.hears.push(listed(turned(part("hub_out"))));
    }
    // What all labels hear, and room for what one label hears.
    const narrow = (matrix) => matrix && listed(new Matrix(matrix.rows, 1));
    const one = { edges: all.edges.map(narrow), hears: all.hears.map(narrow) };
    return { passing, passingKnown, groups, all, one };
  }

  // Of `from`, the column that one label hears.
  function narrowTo(label, from, to) {
    if (!from) return;
    const heard = from.values,
      into = to.values;
    for (let r = 0; r < from.rows; r++) into[r * to.step] = heard[r * from.step + label];
  }

  // A solver keeps its scratch numbers. Fill `base` and `features`, call `place`, then `solve` as often as wanted.
  function solver(facts, arrays, L) {
    const voices = (facts.law.passing || []).map((passing, number) => voiceOf(arrays, number, passing, L)),
      rounds = facts.law.rounds;
    const scratch = () => new Matrix(ROWS, L);
    const [base, prob, first, isTold, news, size, moved, logits] = Array.from({ length: 8 }, scratch);
    const alone = new Matrix(ROWS, 1),
      picked = new Matrix(1, L, Int32Array);
    const nFeatures = arrays.gates ? arrays.gates.shape[1] : L;
    const features = new Matrix(ROWS, nFeatures + 1);

    function place(n) {
      prob.values.set(base.values.subarray(0, n * base.step));
      logisticOf(prob, n);
      const seen = features.values;
      for (let r = 0; r < n; r++) {
        if (!arrays.gates) features.row(r).set(prob.row(r));
        seen[r * features.step + nFeatures] = 1; // the bias
      }
      for (const voice of voices)
        for (const { gate, loud } of voice.groups) {
          const values = loud.values,
            count = n * loud.step;
          values.fill(gate ? 0 : 1, 0, count);
          if (!gate) continue;
          addProduct(loud, features, gate, gate.every, n);
          logisticOf(loud, n);
          for (let i = 0; i < count; i++) values[i] *= 2; // 1 + tanh(x) = 2 / (1 + exp(-2 x)); the gate has the inner 2
        }
    }

    // Add what is heard in one round to `out`. Only some labels speak in the first one: `spoken`, in the order `names`.
    function hear(voice, spoken, names, told, n, out, heard) {
      const speakers = (matrix) => (names ? rowsOf(matrix, names, picked) : matrix.every);
      const [edge, difference] = heard.edges;
      if (edge) addProduct(out, spoken, edge, speakers(edge), n);
      if (difference) {
        const from = spoken.values,
          to = size.values;
        for (let i = 0; i < n * size.step; i++) to[i] = Math.abs(from[i]);
        addProduct(out, size, difference, speakers(difference), n);
      }
      voice.groups.forEach(({ tell, units, loud, isHub }, number) => {
        const count = n * units.step,
          values = units.values,
          louder = loud.values;
        values.fill(0, 0, count);
        addProduct(units, spoken, tell, speakers(tell), n);
        if (isHub) {
          const shifted = told.map((label) => L + label);
          addProduct(units, isTold, tell, rowsOf(tell, shifted, picked), n);
          for (let i = 0; i < count; i++) if (values[i] < 0) values[i] = 0;
        }
        for (let i = 0; i < count; i++) values[i] *= louder[i];
        addProduct(out, units, heard.hears[number], heard.hears[number].every, n);
      });
    }

    // Logits of the first n rows, given labels by name: values[r * names.length + k], NaN where a row does not know.
    // Of all labels, or of `only` one (the first column).
    function solve(names, values, n, only = -1) {
      const K = names.length,
        out = only < 0 ? logits : alone;
      if (!K || !voices.length) {
        if (only < 0) logits.values.set(base.values.subarray(0, n * base.step));
        else narrowTo(only, { ...base, values: base.values, rows: n }, alone);
        return out;
      }
      const saying = first.values,
        knowing = isTold.values,
        expected = prob.values;
      for (let r = 0; r < n; r++)
        for (let k = 0; k < K; k++) {
          const value = values[r * K + k],
            at = r * first.step + k,
            isKnown = value === value;
          saying[at] = isKnown ? value - expected[r * prob.step + names[k]] : 0;
          knowing[at] = isKnown ? 1 : 0;
        }
      out.values.fill(0, 0, n * out.step);
      for (const voice of voices) {
        if (only >= 0) {
          voice.all.edges.forEach((edge, k) => narrowTo(only, edge, voice.one.edges[k]));
          voice.all.hears.forEach((heard, k) => narrowTo(only, heard, voice.one.hears[k]));
        }
        for (let round = 0; round < rounds; round++) {
          const isLast = round === rounds - 1,
            spoken = round ? news : first,
            speaking = round ? null : names;
          if (isLast) {
            hear(voice, spoken, speaking, names, n, out, only < 0 ? voice.all : voice.one);
            break;
          }
          moved.values.set(base.values.subarray(0, n * base.step));
          hear(voice, spoken, speaking, names, n, moved, voice.all);
          logisticOf(moved, n);
          pass(voice.passing[round], voice.passingKnown[round], names, n);
        }
      }
      const share = 1 / voices.length,
        foretold = base.values,
        found = out.values;
      if (only < 0) for (let i = 0; i < n * base.step; i++) found[i] = foretold[i] + share * found[i];
      else
        for (let r = 0; r < n; r++)
          found[r * out.step] = foretold[r * base.step + only] + share * found[r * out.step];
      return out;
    }

    // The news of the next round: how far each label moved; what was told is told again.
    function pass(unknown, known, names, n) {
      const to = news.values,
        after = moved.values,
        before = prob.values,
        knowing = isTold.values,
        saying = first.values;
      for (let i = 0; i < n * news.step; i++) to[i] = unknown * (after[i] - before[i]);
      for (let r = 0; r < n; r++)
        for (let k = 0; k < names.length; k++) {
          const at = r * news.step + names[k];
          if (knowing[r * first.step + k]) to[at] = saying[r * first.step + k] + known * (after[at] - before[at]);
        }
    }

    return { base, features, place, solve };
  }

  return { ROWS, solver };
})();
