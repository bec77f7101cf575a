"use strict";
// The panel of who goes together: at a place, along a gradient, at two places; and three at once.

const odds = (effect) =>
  `× ${Math.exp(effect) < 10 ? Math.exp(effect).toFixed(2) : short(+Math.exp(effect).toPrecision(2))}`;

// Pairs by how strongly they speak to each other, both ways taken together; species that are never here left out.
function strongest(edges, probs, count, focus = -1) {
  const found = [],
    candidates = [...probs.keys()].filter((label) => probs[label] > 0.02 && probs[label] < 0.995);
  for (const i of candidates)
    for (const j of candidates) {
      if (i >= j || (focus >= 0 && i !== focus && j !== focus)) continue;
      found.push({ i, j, effect: (edges[j * nLabels + i] + edges[i * nLabels + j]) / 2 });
    }
  return found.sort((a, b) => Math.abs(b.effect) - Math.abs(a.effect)).slice(0, count);
}

const svg = (tag, attributes = {}, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

// Places for the ends of lines: around an oval, those that speak to each other side by side where it can be.
function layout(pairs, width, height) {
  const strength = new Map();
  for (const { i, j, effect } of pairs)
    for (const [a, b] of [
      [i, j],
      [j, i],
    ])
      strength.set(a, (strength.get(a) ?? new Map()).set(b, Math.abs(effect)));
  const left = new Set(strength.keys()),
    order = [];
  while (left.size) {
    const near = order.length
      ? [...strength.get(order.at(-1))].filter(([node]) => left.has(node)).sort((a, b) => b[1] - a[1])[0]
      : null;
    const next = near ? near[0] : [...left].sort((a, b) => strength.get(a).size - strength.get(b).size)[0];
    order.push(next);
    left.delete(next);
  }
  // Down the right side and up the left, in even steps, so that no name lies on another.
  const right = Math.ceil(order.length / 2);
  return new Map(
    order.map((node, k) => {
      const east = k < right ? 1 : -1,
        step = east > 0 ? (k + 0.5) / right : (order.length - k - 0.5) / (order.length - right),
        bow = Math.sqrt(1 - (2 * step - 1) ** 2);
      return [node, { x: width / 2 + east * width * (0.05 + 0.14 * bow), y: height * (0.03 + 0.94 * step), east }];
    }),
  );
}

function networkOf(pairs, probs) {
  const width = 480,
    height = 400,
    at = layout(pairs, width, height);
  const most = Math.max(...pairs.map(({ effect }) => Math.abs(effect)), 0.1);
  const picture = svg("svg", {
    viewBox: `0 0 ${width} ${height}`,
    role: "group",
    "aria-label": say("network_alt", { n: at.size }),
  });
  for (const { i, j, effect } of pairs) {
    const [a, b] = [at.get(i), at.get(j)],
      inwards = Math.min(0.6, Math.hypot(a.x - b.x, a.y - b.y) / height);
    const bend = [
      ((1 - inwards) * (a.x + b.x)) / 2 + (inwards * width) / 2,
      ((1 - inwards) * (a.y + b.y)) / 2 + (inwards * height) / 2,
    ];
    picture.append(
      svg("path", {
        d: `M${a.x},${a.y} Q${bend[0]},${bend[1]} ${b.x},${b.y}`,
        class: effect < 0 ? "apart" : "together",
        "stroke-width": 1 + (5 * Math.abs(effect)) / most,
      }),
    );
  }
  for (const [node, { x, y, east }] of at) {
    const name = facts.labels[node],
      group = svg("g", {
        class: state.kind === "label" && state.label === node ? "node on" : "node",
        tabindex: "0",
        role: "button",
        "aria-label": name,
      });
    group.append(svg("circle", { cx: x, cy: y, r: 4 + 5 * probs[node] }));
    const text = svg("text", { x: x + (east < 0 ? -13 : 13), y: y + 4, "text-anchor": east < 0 ? "end" : "start" });
    text.textContent = name.length > 23 ? `${name.slice(0, 22)}…` : name;
    group.append(text);
    group.addEventListener("click", () => show(node));
    group.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        show(node);
      }
    });
    picture.append(group);
  }
  return picture;
}

const pairText = ({ i, j }) => `${facts.labels[i]} – ${facts.labels[j]}`;

function pairTable(pairs, columns) {
  return make(
    "div",
    { class: "wide" },
    make(
      "table",
      {},
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          make("th", {}, say("pair")),
          columns.map(([title]) => make("th", { class: "number" }, title)),
        ),
      ),
      make(
        "tbody",
        {},
        pairs.map((pair) =>
          make(
            "tr",
            {},
            make("th", { scope: "row" }, pairText(pair)),
            columns.map(([, of]) => make("td", { class: "number" }, of(pair))),
          ),
        ),
      ),
    ),
  );
}

function linesOf(centres, series, title) {
  const width = 460,
    height = 240,
    [left, right, top, bottom] = [44, 10, 12, 34];
  const values = series.flatMap(({ values }) => values),
    least = Math.min(0, ...values),
    most = Math.max(0, ...values),
    reach = most - least || 1;
  const x = (value) => left + ((width - left - right) * (value - centres[0])) / (centres.at(-1) - centres[0] || 1);
  const y = (value) => top + (height - top - bottom) * (1 - (value - least) / reach);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  picture.append(svg("line", { x1: left, x2: width - right, y1: y(0), y2: y(0), class: "axis" }));
  for (const [value, text] of [
    [least, odds(least)],
    [most, odds(most)],
    [0, odds(0)],
  ]) {
    const label = svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end", class: "faint" });
    label.textContent = text;
    picture.append(label);
  }
  centres.forEach((value, k) => {
    if (k % 2) return;
    const label = svg("text", { x: x(value), y: height - 16, "text-anchor": "middle", class: "faint" });
    label.textContent = short(value);
    picture.append(label);
  });
  const name = svg("text", { x: (left + width - right) / 2, y: height - 2, "text-anchor": "middle", class: "faint" });
  name.textContent = title;
  picture.append(name);
  series.forEach(({ values }, k) =>
    picture.append(
      svg("polyline", {
        class: `series s${k}`,
        points: values.map((value, at) => `${x(centres[at])},${y(value)}`).join(" "),
      }),
    ),
  );
  return picture;
}

function togetherPanel(panel) {
  const body = make("div", { class: "together-body" }),
    only = make("p", { class: "where" });
  panel.append(
    heading(say("together_title")),
    note(say("together_intro")),
    choices(
      "mode",
      [
        ["here", say("mode_here")],
        ["along", say("mode_along")],
        ["two", say("mode_two")],
      ],
      state.mode,
      (mode) => change({ mode }),
    ),
    only,
    body,
  );
  const edgesOf = async (cell, senders) => await engine.ask({ what: "edges", ...questionHere(), cell, only: senders });
  const probsOf = async (cell) => (await engine.ask({ what: "place", ...questionHere(), cell })).probs;

  async function here(isLast) {
    const cell = placeNow(),
      [edges, probs] = await Promise.all([edgesOf(cell), probsOf(cell)]);
    if (!isLast()) return;
    const focus = state.kind === "label" ? state.label : -1,
      pairs = strongest(edges, probs, focus >= 0 ? 12 : 22, focus);
    const third = make("div", { class: "triple" });
    body.replaceChildren(
      pairs.length ? networkOf(pairs, probs) : note(say("no_pairs")),
      make(
        "p",
        { class: "key" },
        make("span", { class: "stroke together" }),
        say("goes_together"),
        " ",
        make("span", { class: "stroke apart" }),
        say("goes_apart"),
      ),
      note(focus >= 0 ? say("network_focus", { name: facts.labels[focus] }) : say("network_all")),
      focus >= 0 ? make("button", { type: "button", onclick: () => show("richness") }, say("network_reset")) : "",
      third,
      pairTable(pairs.slice(0, 12), [
        [say("both_ways"), ({ effect }) => odds(effect)],
        [say("effect"), ({ i, j }) => `${odds(edges[j * nLabels + i])} / ${odds(edges[i * nLabels + j])}`],
      ]),
    );
    const best = { size: 0 };
    for (const { i, j } of pairs.slice(0, 4)) {
      const { with: present, without } = await engine.ask({ what: "triple", ...questionHere(), pair: [i, j] });
      if (!isLast()) return;
      for (let k = 0; k < nLabels; k++) {
        const size = Math.abs(present[k] - without[k]);
        if (probs[k] > 0.02 && probs[k] < 0.98 && size > best.size)
          Object.assign(best, { size, i, j, k, present: present[k], without: without[k] });
      }
    }
    third.replaceChildren(
      heading(say("triple_title"), 3),
      note(
        best.size > 0.2
          ? say("triple", {
              first: facts.labels[best.i],
              second: facts.labels[best.j],
              third: facts.labels[best.k],
              present: odds(best.present),
              without: odds(best.without),
            })
          : say("triple_none"),
      ),
    );
  }

  async function along(isLast) {
    const select = make(
      "select",
      { id: "along", "aria-label": say("gradient"), onchange: () => change({ gradient: +select.value }) },
      facts.covariates.map((covariate, which) =>
        covariate.levels ? null : make("option", { value: which }, nice(covariate.name)),
      ),
    );
    select.value = state.gradient;
    const V = facts.covariates.length,
      values = [...Array(engine.nPlaces).keys()]
        .filter((place) => Number.isFinite(arrays.covariates.values[place * V + state.gradient]))
        .sort(
          (a, b) => arrays.covariates.values[a * V + state.gradient] - arrays.covariates.values[b * V + state.gradient],
        );
    const groups = 6,
      each = 5,
      parts = Array.from({ length: groups }, (_, g) =>
        Array.from({ length: each }, (_, k) => values[Math.floor(((g + (k + 0.5) / each) * values.length) / groups)]),
      );
    const chosen = placeNow(),
      [first, probs] = await Promise.all([edgesOf(chosen), probsOf(chosen)]);
    if (!isLast()) return;
    const focus = state.kind === "label" ? state.label : -1,
      pairs = strongest(first, probs, 5, focus),
      senders = [...new Set(pairs.flatMap(({ i, j }) => [i, j]))];
    const means = await Promise.all(
      parts.map(async (part) => {
        const all = await Promise.all(part.map((cell) => edgesOf(cell, senders)));
        return pairs.map(
          ({ i, j }) =>
            all.reduce((sum, edges) => sum + (edges[j * nLabels + i] + edges[i * nLabels + j]) / 2, 0) / each,
        );
      }),
    );
    if (!isLast()) return;
    const centres = parts.map(
      (part) => part.reduce((sum, cell) => sum + arrays.covariates.values[cell * V + state.gradient], 0) / each,
    );
    body.replaceChildren(
      make("label", {}, `${say("gradient")} `, select),
      pairs.length
        ? linesOf(
            centres,
            pairs.map((_, k) => ({ values: means.map((row) => row[k]) })),
            nice(facts.covariates[state.gradient].name),
          )
        : note(say("no_pairs")),
      make(
        "ul",
        { class: "series-key" },
        pairs.map((pair, k) => make("li", {}, make("span", { class: `stroke s${k}` }), pairText(pair))),
      ),
      note(say("along_note", { n: groups * each })),
      pairTable(pairs, [
        [say("low_end"), (pair) => odds(means[0][pairs.indexOf(pair)])],
        [say("high_end"), (pair) => odds(means.at(-1)[pairs.indexOf(pair)])],
      ]),
    );
  }

  async function two(isLast) {
    if (state.place < 0 || state.other < 0)
      return void body.replaceChildren(note(say(state.place < 0 ? "two_first" : "two_second")));
    const [a, b, pa, pb] = await Promise.all([
      edgesOf(state.place),
      edgesOf(state.other),
      probsOf(state.place),
      probsOf(state.other),
    ]);
    if (!isLast()) return;
    const probs = pa.map((p, k) => Math.min(p, pb[k])),
      both = new Float32Array(a.length);
    for (let k = 0; k < a.length; k++) both[k] = b[k] - a[k];
    const mean = (edges, { i, j }) => (edges[j * nLabels + i] + edges[i * nLabels + j]) / 2;
    const pairs = strongest(both, probs, 12, state.kind === "label" ? state.label : -1);
    body.replaceChildren(
      note(say("two_places", { a: nameOf(state.place), b: nameOf(state.other) })),
      make("button", { type: "button", onclick: () => change({ other: -1 }) }, say("two_reset")),
      pairs.length
        ? pairTable(pairs, [
            ["A", (pair) => odds(mean(a, pair))],
            ["B", (pair) => odds(mean(b, pair))],
          ])
        : note(say("no_pairs")),
    );
  }

  return latest(async (isLast) => {
    byId(`mode-${state.mode}`).checked = true;
    only.textContent = state.mode === "two" ? "" : state.place < 0 ? say("saw_middle") : nameOf(state.place);
    if (!facts.law.voices) return void body.replaceChildren(note(say("no_law"), "warning"));
    await { here, along, two }[state.mode](isLast);
  });
}
