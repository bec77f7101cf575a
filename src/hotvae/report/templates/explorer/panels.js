"use strict";
// The six panels. Each builds itself into the panel once and returns what brings it up to date.

function drawPicker() {
  const box = byId("picker");
  if (!box.children.length) {
    const select = make("select", { id: "layer", "aria-label": say("layer") });
    const whole = make("optgroup", { label: say("layer_whole") });
    for (const kind of ["richness", "unsure"]) whole.append(make("option", { value: kind }, say(`layer_${kind}`)));
    const single = make("optgroup", { label: say("layer_single") });
    byName().forEach((label) => single.append(make("option", { value: label }, facts.labels[label])));
    select.append(whole, single);
    select.onchange = () => show(select.value);
    box.append(select);
  }
  byId("layer").value = state.kind === "label" ? state.label : state.kind;
}

const byName = (() => {
  let order = null;
  return () => order ??= facts.labels.map((_, label) => label).sort((a, b) => facts.labels[a].localeCompare(facts.labels[b]));
})();

function show(value) {
  const isWhole = value === "richness" || value === "unsure";
  change(isWhole ? { kind: value, threshold: null } : { kind: "label", label: +value, threshold: state.kind === "label" ? state.threshold : null });
}

const heading = (text, level = 2) => make(`h${level}`, {}, text);
const note = (text, kind = "note") => make("p", { class: kind }, text);

function check(text, isOn, onchange, id) {
  const box = make("input", { type: "checkbox", id, onchange: () => onchange(box.checked) });
  box.checked = isOn;
  return make("label", { class: "check" }, box, text);
}

function choices(name, options, value, onchange) {
  return make("div", { class: "choices", role: "radiogroup", "aria-label": say(name) }, options.map(([key, text]) => {
    const input = make("input", { type: "radio", name, value: key, id: `${name}-${key}`, onchange: () => onchange(key) });
    input.checked = key === value;
    return make("label", {}, input, make("span", {}, text));
  }));
}

const barOf = (p, before) => make("span", { class: "meter", "aria-hidden": "true" },
  make("i", { style: { width: `${100 * p}%` } }), before === undefined ? null : make("b", { style: { left: `${100 * before}%` } }));

// A species in a list: its name shows it on the map, two buttons tell whether it was seen.
function speciesRow(label, { p, before, extra, tick = true } = {}) {
  const known = toldOf(label), name = facts.labels[label];
  const button = (value, text, sign) => make("button", {
    type: "button", class: value ? "seen" : "not", "aria-pressed": String(known === value), "data-key": `${label}-${value}`,
    "aria-label": say(value ? "tick_seen" : "tick_not", { name }), title: text,
    onclick: () => tell(label, known === value ? undefined : value),
  }, sign);
  return make("li", { class: known === undefined ? "" : known ? "is-seen" : "is-not", "data-label": label },
    make("button", { type: "button", class: "name", "data-key": `${label}-name`, title: say("show_on_map"), "aria-current": state.kind === "label" && state.label === label ? "true" : null, onclick: () => show(label) }, name),
    p === undefined ? null : barOf(p, before),
    make("span", { class: "value" }, extra ?? (p === undefined ? "" : percent(p))),
    tick ? make("span", { class: "ticks" }, button(1, say("seen"), "✓"), button(0, say("not_seen"), "✕")) : null);
}

// Replace the rows of a list, and keep the focus where it was.
function fill(list, rows) {
  const key = list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  list.replaceChildren(...rows);
  if (key) list.querySelector(`[data-key="${key}"]`)?.focus();
}

function searchBox(id, onsearch) {
  const input = make("input", { type: "search", id, placeholder: say("search"), "aria-label": say("search"), autocomplete: "off", oninput: () => onsearch() });
  return input;
}
const matches = (label, text) => facts.labels[label].toLowerCase().includes(text.trim().toLowerCase());

// Where a panel speaks of: the place that was chosen, or else the one in the middle of the map.
let middle = -1;
function placeNow() {
  if (state.place >= 0) return state.place;
  if (middle < 0) {
    const [west, east, south, north] = view.bounds;
    let least = Infinity;
    for (let i = 0; i < view.n; i++) {
      const away = Math.hypot(view.where[2 * i] - (west + east) / 2, view.where[2 * i + 1] - (south + north) / 2);
      if (away < least) { least = away; middle = i; }
    }
  }
  return middle;
}
const questionHere = () => ({ cell: placeNow(), moves: state.shifts, ...asKnown(state.told) });

// Questions are asked anew with every change; only the last answer counts.
function latest(run) {
  let number = 0;
  return async (...inputs) => {
    const mine = ++number;
    await run(() => mine === number, ...inputs);
  };
}

// --- Map -------------------------------------------------------------------------------------------------------

function mapPanel(panel) {
  const list = make("ul", { class: "species plain", "aria-label": say("layer_single") });
  const search = searchBox("map-search", () => draw());
  panel.append(heading(say("map_title")), note(say("map_intro")),
    choices("map-kind", [["richness", say("layer_richness")], ["unsure", say("layer_unsure")], ["label", say("layer_label")]], state.kind,
      (kind) => kind === "label" ? show(state.label) : show(kind)),
    make("div", { class: "options" },
      arrays.inside ? check(say("trust_mask"), state.trust, (trust) => change({ trust }), "trust") : null,
      check(say("change_mask"), state.change, (isOn) => change({ change: isOn }), "change")),
    make("p", { class: "note", id: "map-says" }), heading(say("layer_single"), 3), search, list);
  const draw = () => fill(list, byName().filter((label) => matches(label, search.value)).map((label) => speciesRow(label, { tick: false, extra: toldOf(label) === undefined ? "" : say(toldOf(label) ? "seen" : "not_seen") })));
  return (after, before) => {
    for (const kind of ["richness", "unsure", "label"]) byId(`map-kind-${kind}`).checked = kind === after.kind;
    byId("change").checked = after.change;
    byId("map-says").textContent = say(`explain_${after.kind}`, { name: facts.labels[after.label] });
    if (!before || after !== before) draw();
  };
}

// --- A place ---------------------------------------------------------------------------------------------------

function call(label, p) {
  if (!arrays.present_from || state.told.length || state.shifts.length) return "";
  const present = p >= arrays.present_from.values[label], absent = p <= arrays.absent_up_to.values[label];
  return present && !absent ? say("call_present") : absent && !present ? say("call_absent") : say("call_unclear");
}

function richness(probs) {
  let mean = 0, variance = 0;
  for (const p of probs) { mean += p; variance += p * (1 - p); }
  const spread = Math.sqrt(variance), terms = [1, mean, spread, mean * mean, variance, mean * spread];
  const bound = (row) => mean + spread * row.reduce((sum, weight, k) => sum + weight * terms[k], 0);
  const [low, high] = facts.spread.coefficients.map(bound);
  const within = (value) => Math.min(nLabels, Math.max(0, value));
  return { mean, low: within(Math.min(low, mean)), high: within(Math.max(high, mean)) };
}

function coordinatesForm() {
  if (!arrays.degrees) return null;
  const field = (name, text) => make("label", {}, text, make("input", { name, inputmode: "decimal", size: "7", autocomplete: "off" }));
  const told = make("p", { class: "note", role: "status" });
  return make("form", { class: "coordinates", "aria-label": say("coordinates"), onsubmit: (event) => {
    event.preventDefault();
    const [latitude, longitude] = ["latitude", "longitude"].map((name) => parseFloat(event.target.elements[name].value.replace(",", ".")));
    if (!(Math.abs(latitude) <= 90 && Math.abs(longitude) <= 360)) return void (told.textContent = say("coordinates_wrong"));
    let best = -1, least = Infinity;
    for (let i = 0; i < view.n; i++) {
      const [x, y] = [arrays.degrees.values[2 * i], arrays.degrees.values[2 * i + 1]];
      const east = ((x - longitude + 540) % 360 - 180) * Math.cos(latitude * Math.PI / 180);
      const away = 111.195 * Math.hypot(east, y - latitude);
      if (away < least) { least = away; best = i; }
    }
    if (least > Math.max(2 * facts.reach, 5)) return void (told.textContent = say("coordinates_far", { km: Math.round(least) }));
    told.textContent = "";
    change({ place: best });
    view.show(best);
  } }, field("latitude", say("latitude")), field("longitude", say("longitude")), make("button", { type: "submit" }, say("go")), told);
}

function placePanel(panel) {
  const head = make("div"), sure = make("div", { class: "cards" }), list = make("ul", { class: "species" });
  const why = make("div", { class: "why", id: "why" }), environment = make("dl", { class: "environment" });
  const more = make("button", { type: "button", class: "more", onclick: () => { all = !all; update(state, state); } });
  let all = false;
  panel.append(heading(say("place_title")), head, coordinatesForm() ?? "", sure, heading(say("place_community"), 3), list, more, why,
    heading(say("place_environment"), 3), environment);
  const update = latest(async (isLast) => {
    head.replaceChildren(state.place < 0 ? note(say("place_none")) : make("p", { class: "where" }, nameOf(state.place)));
    const here = placeNow(), V = facts.covariates.length;
    environment.replaceChildren(...facts.covariates.map((covariate, which) => {
      const value = arrays.covariates.values[here * V + which];
      const range = covariate.levels ? null : make("span", { class: "range", "aria-hidden": "true" }, make("i", { style: { left: `${100 * Math.min(1, Math.max(0, (value - covariate.low) / (covariate.high - covariate.low || 1)))}%` } }));
      return make("div", {}, make("dt", {}, nice(covariate.name)), make("dd", {}, make("span", { class: "value" }, covariate.levels ? covariate.levels[value] ?? "–" : short(value)), range));
    }));
    const { probs, before } = await engine.ask({ what: "place", ...questionHere() });
    if (!isLast()) return;
    const isNew = state.told.length || state.shifts.length;
    const { mean, low, high } = richness(probs);
    const inside = arrays.inside ? arrays.inside.values[here] : null;
    sure.replaceChildren(
      make("div", { class: "card" }, make("strong", {}, mean.toFixed(0)), make("span", {}, say("card_richness")), make("small", {}, say("card_interval", { low: Math.round(low), high: Math.round(high) }))),
      make("div", { class: "card" }, make("strong", {}, probs.reduce((sum, p) => sum + Math.min(p, 1 - p), 0).toFixed(0)), make("span", {}, say("card_unsure"))),
      ...(inside === null ? [] : [make("div", { class: inside ? "card" : "card warn" }, make("strong", {}, say(inside ? "card_known" : "card_unknown")), make("span", {}, say(inside ? "card_known_text" : "card_unknown_text")))]));
    const order = [...probs.keys()].sort((a, b) => probs[b] - probs[a]);
    fill(list, order.slice(0, all ? nLabels : 15).map((label) => {
      const row = speciesRow(label, { p: probs[label], before: isNew ? before[label] : undefined, tick: false });
      const said = call(label, probs[label]);
      if (said) row.querySelector(".value").title = said;
      row.append(make("button", { type: "button", class: "because", "data-key": `${label}-why`, "aria-label": say("why_of", { name: facts.labels[label] }), onclick: () => { explain(label); } }, say("why")));
      return row;
    }));
    more.textContent = say(all ? "fewer" : "all_species", { n: nLabels });
    if (explained >= 0) explain(explained);
  });
  let explained = -1;
  const explain = latest(async (isLast, label) => {
    explained = label;
    const question = questionHere(), { all: now, without, typical } = await engine.ask({ what: "why", label, ...question });
    if (!isLast()) return;
    const name = facts.labels[label];
    const rows = [];
    question.known.forEach((known, a) => {
      if (known !== label) rows.push([now - without[a], say(question.values[a] ? "because_seen" : "because_not", { name: facts.labels[known] }), "exact"]);
    });
    facts.covariates.forEach((covariate, which) => {
      if (Number.isFinite(typical[which])) {
        const value = arrays.covariates.values[question.cell * facts.covariates.length + which];
        rows.push([now - typical[which], say("because_covariate", { name: nice(covariate.name), value: short(value), median: short(covariate.median) }), "about"]);
      }
    });
    rows.sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
    const most = Math.max(0.02, ...rows.map(([moved]) => Math.abs(moved)));
    why.replaceChildren(heading(say("why_title", { name, p: percent(now) }), 3),
      toldOf(label) !== undefined ? note(say("why_told")) : make("ul", { class: "reasons" }, rows.slice(0, 8).map(([moved, text, kind]) => make("li", {},
        make("span", { class: `push ${moved < 0 ? "down" : "up"}`, "aria-hidden": "true" }, make("i", { style: { width: `${50 * Math.abs(moved) / most}%` } })),
        make("span", { class: "value" }, `${moved > 0 ? "+" : moved < 0 ? "−" : ""}${Math.abs(100 * moved).toFixed(0)}`),
        make("span", {}, text, kind === "exact" ? make("small", {}, ` (${say("exact")})`) : "")))),
      note(facts.stand_in ? say("why_note", standInWords()) : say("why_note_exact")));
  });
  return update;
}

const standInWords = () => ({
  error: (100 * facts.stand_in.error).toFixed(1), size: (100 * facts.stand_in.size).toFixed(1),
  explained: Math.round(100 * facts.stand_in.explained), n: facts.stand_in.n_tried,
});

// --- What I saw ------------------------------------------------------------------------------------------------

function sawPanel(panel) {
  const told = make("ul", { class: "species told", "aria-label": say("saw_told") }), next = make("ul", { class: "species next", "aria-label": say("saw_next") });
  const list = make("ul", { class: "species", "aria-label": say("saw_list") }), search = searchBox("saw-search", () => update(state, state));
  const where = make("p", { class: "where" }), nextTitle = heading(say("saw_next"), 3), effect = make("p", { class: "effect", role: "status" });
  panel.append(heading(say("saw_title")), note(say("saw_intro")), where,
    choices("scope", [["map", say("scope_map")], ["place", say("scope_place")]], state.scope, (scope) => change({ scope })),
    told, effect, nextTitle, note(say("saw_next_note")), next, heading(say("saw_list"), 3), search, list,
    facts.law.voices ? "" : note(say("no_law"), "warning"));
  const update = latest(async (isLast) => {
    byId(`scope-${state.scope}`).checked = true;
    where.textContent = state.place < 0 ? say("saw_middle") : nameOf(state.place);
    const question = questionHere(), { probs, before } = await engine.ask({ what: "place", ...question });
    if (!isLast()) return;
    fill(told, state.told.map(([label, value]) => speciesRow(label, { extra: say("was", { p: percent(before[label]), what: say(value ? "seen" : "not_seen") }) })));
    const a = richness(before), b = richness(probs);
    effect.textContent = state.told.length ? say("saw_effect", { before: a.mean.toFixed(1), after: b.mean.toFixed(1) }) : "";
    fill(list, byName().filter((label) => matches(label, search.value)).map((label) => speciesRow(label, { p: probs[label], before: before[label] })));
    const gains = await engine.ask({ what: "next", ...question });
    if (!isLast() || !gains) return;
    const order = [...gains.keys()].filter((label) => toldOf(label) === undefined).sort((x, y) => gains[y] - gains[x]).slice(0, 6);
    fill(next, order.map((label) => {
      const row = speciesRow(label, { p: gains[label] / Math.max(gains[order[0]], 1e-9), extra: percent(probs[label]) });
      row.querySelector(".meter").title = say("bits", { n: gains[label].toFixed(3) });
      return row;
    }));
  });
  return update;
}

// --- Together --------------------------------------------------------------------------------------------------

const odds = (effect) => `× ${Math.exp(effect) < 10 ? Math.exp(effect).toFixed(2) : short(+Math.exp(effect).toPrecision(2))}`;

// Pairs by how strongly they speak to each other, both ways taken together; species that are never here left out.
function strongest(edges, probs, count, focus = -1) {
  const found = [], candidates = [...probs.keys()].filter((label) => probs[label] > 0.02 && probs[label] < 0.995);
  for (const i of candidates) for (const j of candidates) {
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

// Places for the ends of lines: around an ellipse, those that speak to each other side by side where it can be.
function layout(pairs, width, height) {
  const strength = new Map();
  for (const { i, j, effect } of pairs) for (const [a, b] of [[i, j], [j, i]]) strength.set(a, (strength.get(a) ?? new Map()).set(b, Math.abs(effect)));
  const left = new Set(strength.keys()), order = [];
  while (left.size) {
    const near = order.length ? [...strength.get(order.at(-1))].filter(([node]) => left.has(node)).sort((a, b) => b[1] - a[1])[0] : null;
    const next = near ? near[0] : [...left].sort((a, b) => strength.get(a).size - strength.get(b).size)[0];
    order.push(next);
    left.delete(next);
  }
  return new Map(order.map((node, k) => {
    const angle = 2 * Math.PI * (k + 0.5) / order.length, [east, south] = [Math.sin(angle), -Math.cos(angle)];
    return [node, { x: width / 2 + 0.25 * width * east, y: height / 2 + 0.43 * height * south, east }];
  }));
}

function networkOf(pairs, probs) {
  const width = 480, height = 400, at = layout(pairs, width, height);
  const most = Math.max(...pairs.map(({ effect }) => Math.abs(effect)), 0.1);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": say("network_alt", { n: at.size }) });
  for (const { i, j, effect } of pairs) {
    const [a, b] = [at.get(i), at.get(j)], inwards = Math.min(0.6, Math.hypot(a.x - b.x, a.y - b.y) / height);
    const bend = [(1 - inwards) * (a.x + b.x) / 2 + inwards * width / 2, (1 - inwards) * (a.y + b.y) / 2 + inwards * height / 2];
    picture.append(svg("path", { d: `M${a.x},${a.y} Q${bend[0]},${bend[1]} ${b.x},${b.y}`, class: effect < 0 ? "apart" : "together", "stroke-width": 1 + 5 * Math.abs(effect) / most }));
  }
  for (const [node, { x, y, east }] of at) {
    const name = facts.labels[node], group = svg("g", { class: state.kind === "label" && state.label === node ? "node on" : "node", tabindex: "0", role: "button", "aria-label": name });
    group.append(svg("circle", { cx: x, cy: y, r: 4 + 5 * probs[node] }));
    const text = svg("text", { x: x + (east < 0 ? -13 : 13), y: y + 4, "text-anchor": east < 0 ? "end" : "start" });
    text.textContent = name.length > 20 ? `${name.slice(0, 19)}…` : name;
    group.append(text);
    group.addEventListener("click", () => show(node));
    group.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); show(node); } });
    picture.append(group);
  }
  return picture;
}

const pairText = ({ i, j }) => `${facts.labels[i]} – ${facts.labels[j]}`;

function pairTable(pairs, columns) {
  return make("div", { class: "wide" }, make("table", {}, make("thead", {}, make("tr", {}, make("th", {}, say("pair")), columns.map(([title]) => make("th", { class: "number" }, title)))),
    make("tbody", {}, pairs.map((pair) => make("tr", {}, make("th", { scope: "row" }, pairText(pair)), columns.map(([, of]) => make("td", { class: "number" }, of(pair))))))));
}

function linesOf(centres, series, title) {
  const width = 460, height = 240, [left, right, top, bottom] = [44, 10, 12, 34];
  const values = series.flatMap(({ values }) => values), least = Math.min(0, ...values), most = Math.max(0, ...values), reach = most - least || 1;
  const x = (value) => left + (width - left - right) * (value - centres[0]) / (centres.at(-1) - centres[0] || 1);
  const y = (value) => top + (height - top - bottom) * (1 - (value - least) / reach);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  picture.append(svg("line", { x1: left, x2: width - right, y1: y(0), y2: y(0), class: "axis" }));
  for (const [value, text] of [[least, odds(least)], [most, odds(most)], [0, odds(0)]]) {
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
  series.forEach(({ values }, k) => picture.append(svg("polyline", { class: `series s${k}`, points: values.map((value, at) => `${x(centres[at])},${y(value)}`).join(" ") })));
  return picture;
}

function togetherPanel(panel) {
  const body = make("div", { class: "together-body" }), only = make("p", { class: "where" });
  panel.append(heading(say("together_title")), note(say("together_intro")),
    choices("mode", [["here", say("mode_here")], ["along", say("mode_along")], ["two", say("mode_two")]], state.mode, (mode) => change({ mode })), only, body);
  const edgesOf = async (cell, senders) => (await engine.ask({ what: "edges", ...questionHere(), cell, only: senders }));
  const probsOf = async (cell) => (await engine.ask({ what: "place", ...questionHere(), cell })).probs;

  async function here(isLast) {
    const cell = placeNow(), [edges, probs] = await Promise.all([edgesOf(cell), probsOf(cell)]);
    if (!isLast()) return;
    const focus = state.kind === "label" ? state.label : -1, pairs = strongest(edges, probs, focus >= 0 ? 12 : 22, focus);
    const third = make("div", { class: "triple" });
    body.replaceChildren(
      pairs.length ? networkOf(pairs, probs) : note(say("no_pairs")),
      make("p", { class: "key" }, make("span", { class: "stroke together" }), say("goes_together"), " ", make("span", { class: "stroke apart" }), say("goes_apart")),
      note(focus >= 0 ? say("network_focus", { name: facts.labels[focus] }) : say("network_all")),
      focus >= 0 ? make("button", { type: "button", onclick: () => show("richness") }, say("network_reset")) : "", third,
      pairTable(pairs.slice(0, 12), [[say("both_ways"), ({ effect }) => odds(effect)], [say("effect"), ({ i, j }) => `${odds(edges[j * nLabels + i])} / ${odds(edges[i * nLabels + j])}`]]));
    const best = { size: 0 };
    for (const { i, j } of pairs.slice(0, 4)) {
      const { with: present, without } = await engine.ask({ what: "triple", ...questionHere(), pair: [i, j] });
      if (!isLast()) return;
      for (let k = 0; k < nLabels; k++) {
        const size = Math.abs(present[k] - without[k]);
        if (probs[k] > 0.02 && probs[k] < 0.98 && size > best.size) Object.assign(best, { size, i, j, k, present: present[k], without: without[k] });
      }
    }
    third.replaceChildren(heading(say("triple_title"), 3), note(best.size > 0.2
      ? say("triple", { first: facts.labels[best.i], second: facts.labels[best.j], third: facts.labels[best.k], present: odds(best.present), without: odds(best.without) })
      : say("triple_none")));
  }

  async function along(isLast) {
    const select = make("select", { id: "along", "aria-label": say("gradient"), onchange: () => change({ gradient: +select.value }) },
      facts.covariates.map((covariate, which) => covariate.levels ? null : make("option", { value: which }, nice(covariate.name))));
    select.value = state.gradient;
    const V = facts.covariates.length, values = [...Array(engine.nPlaces).keys()].filter((place) => Number.isFinite(arrays.covariates.values[place * V + state.gradient]))
      .sort((a, b) => arrays.covariates.values[a * V + state.gradient] - arrays.covariates.values[b * V + state.gradient]);
    const groups = 6, each = 5, parts = Array.from({ length: groups }, (_, g) => Array.from({ length: each }, (_, k) => values[Math.floor((g + (k + 0.5) / each) * values.length / groups)]));
    const chosen = placeNow(), [first, probs] = await Promise.all([edgesOf(chosen), probsOf(chosen)]);
    if (!isLast()) return;
    const focus = state.kind === "label" ? state.label : -1, pairs = strongest(first, probs, 5, focus), senders = [...new Set(pairs.flatMap(({ i, j }) => [i, j]))];
    const means = await Promise.all(parts.map(async (part) => {
      const all = await Promise.all(part.map((cell) => edgesOf(cell, senders)));
      return pairs.map(({ i, j }) => all.reduce((sum, edges) => sum + (edges[j * nLabels + i] + edges[i * nLabels + j]) / 2, 0) / each);
    }));
    if (!isLast()) return;
    const centres = parts.map((part) => part.reduce((sum, cell) => sum + arrays.covariates.values[cell * V + state.gradient], 0) / each);
    body.replaceChildren(make("label", {}, `${say("gradient")} `, select), pairs.length ? linesOf(centres, pairs.map((_, k) => ({ values: means.map((row) => row[k]) })), nice(facts.covariates[state.gradient].name)) : note(say("no_pairs")),
      make("ul", { class: "series-key" }, pairs.map((pair, k) => make("li", {}, make("span", { class: `stroke s${k}` }), pairText(pair)))), note(say("along_note", { n: groups * each })),
      pairTable(pairs, [[say("low_end"), (pair) => odds(means[0][pairs.indexOf(pair)])], [say("high_end"), (pair) => odds(means.at(-1)[pairs.indexOf(pair)])]]));
  }

  async function two(isLast) {
    if (state.place < 0 || state.other < 0) return void body.replaceChildren(note(say(state.place < 0 ? "two_first" : "two_second")));
    const [a, b, pa, pb] = await Promise.all([edgesOf(state.place), edgesOf(state.other), probsOf(state.place), probsOf(state.other)]);
    if (!isLast()) return;
    const probs = pa.map((p, k) => Math.min(p, pb[k])), both = new Float32Array(a.length);
    for (let k = 0; k < a.length; k++) both[k] = b[k] - a[k];
    const mean = (edges, { i, j }) => (edges[j * nLabels + i] + edges[i * nLabels + j]) / 2;
    const pairs = strongest(both, probs, 12, state.kind === "label" ? state.label : -1);
    body.replaceChildren(note(say("two_places", { a: nameOf(state.place), b: nameOf(state.other) })), make("button", { type: "button", onclick: () => change({ other: -1 }) }, say("two_reset")),
      pairs.length ? pairTable(pairs, [["A", (pair) => odds(mean(a, pair))], ["B", (pair) => odds(mean(b, pair))]]) : note(say("no_pairs")));
  }

  return latest(async (isLast) => {
    byId(`mode-${state.mode}`).checked = true;
    only.textContent = state.mode === "two" ? "" : state.place < 0 ? say("saw_middle") : nameOf(state.place);
    if (!facts.law.voices) return void body.replaceChildren(note(say("no_law"), "warning"));
    await { here, along, two }[state.mode](isLast);
  });
}

// --- What if ---------------------------------------------------------------------------------------------------

function whatPanel(panel) {
  panel.append(heading(say("what_title")), note(say("what_intro")));
  if (!facts.stand_in) return void panel.append(note(say("what_none"), "warning"));
  const effect = make("p", { class: "effect", role: "status" }), beyond = make("p", { class: "note" });
  const rows = [];
  let before = null;
  const byOf = (which) => state.shifts.find(([other]) => other === which)?.[1] ?? 0;
  facts.covariates.forEach((covariate, which) => {
    if (!covariate.outs.length) return;
    const reach = facts.slider_reach * (covariate.high - covariate.low);
    const input = make("input", { type: "range", min: -reach, max: reach, step: reach / 50 || 1, id: `move-${which}`, "aria-describedby": `moved-${which}` });
    const told = make("output", { id: `moved-${which}`, for: `move-${which}` });
    input.addEventListener("input", () => {
      before ??= state;
      const by = Math.abs(+input.value) < reach / 60 ? 0 : +input.value, shifts = state.shifts.filter(([other]) => other !== which);
      change({ shifts: by ? [...shifts, [which, by]] : shifts, change: true }, { undoable: false });
    });
    input.addEventListener("change", () => { if (before) past.push(before); before = null; byId("undo").disabled = !past.length; });
    rows.push({ which, covariate, input, told, reach });
    panel.append(make("div", { class: "slider" }, make("label", { for: `move-${which}` }, nice(covariate.name)), told, make("div", { class: "track" }, make("span", { class: "within", "aria-hidden": "true" }), input)));
  });
  const V = facts.covariates.length;
  panel.append(make("p", { class: "key" }, make("span", { class: "stroke within" }), say("what_range")), effect, beyond,
    make("div", { class: "buttons" }, make("button", { type: "button", onclick: () => change({ shifts: [], change: false }) }, say("what_reset")), check(say("change_mask"), state.change, (isOn) => change({ change: isOn }), "what-change")),
    note(say("what_honest", standInWords()), "warning"));
  return latest(async (isLast) => {
    const here = placeNow();
    for (const { which, covariate, input, told, reach } of rows) {
      const by = byOf(which), value = arrays.covariates.values[here * V + which];
      if (document.activeElement !== input || before === null) input.value = by;
      told.textContent = by ? say("what_moved", { from: short(value), to: short(Math.min(Math.max(value + by, Math.min(covariate.low, value)), Math.max(covariate.high, value))), by: `${by > 0 ? "+" : "−"}${short(Math.abs(by))}` }) : short(value);
      const ends = [covariate.low - value, covariate.high - value].map((end) => Math.min(1, Math.max(0, (end + reach) / (2 * reach || 1))));
      Object.assign(input.previousSibling.style, { left: `${100 * ends[0]}%`, right: `${100 * (1 - ends[1])}%` });
    }
    byId("what-change").checked = state.change;
    let left = 0;
    if (state.shifts.length) for (let place = 0; place < engine.nPlaces; place++) {
      if (state.shifts.some(([which, by]) => { const moved = arrays.covariates.values[place * V + which] + by; return moved < facts.covariates[which].low || moved > facts.covariates[which].high; })) left++;
    }
    beyond.textContent = left ? say("what_beyond", { n: left.toLocaleString("en"), all: engine.nPlaces.toLocaleString("en") }) : "";
    const { probs, before: today } = await engine.ask({ what: "place", ...questionHere() });
    if (!isLast()) return;
    effect.textContent = state.shifts.length ? say("what_effect", { where: state.place < 0 ? say("in_the_middle") : nameOf(state.place), before: richness(today).mean.toFixed(1), after: richness(probs).mean.toFixed(1) }) : "";
  });
}

// --- Take it away ----------------------------------------------------------------------------------------------

// Text that a spreadsheet would run is marked as text.
const cell = (value) => {
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
const csv = (rows) => `${rows.map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;

function save(name, content, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob(["\ufeff", content], { type }));
  const link = make("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

const placeColumns = (place) => [place, facts.places[place] ?? "", ...(arrays.degrees ? [0, 1].map((k) => arrays.degrees.values[2 * place + k].toFixed(5)) : [0, 1].map((k) => arrays.where.values[2 * place + k]))];
const placeTitles = () => ["place", "name", ...(arrays.degrees ? ["longitude", "latitude"] : ["x", "y"])];

async function savePlace() {
  const { probs, before } = await engine.ask({ what: "place", ...questionHere() });
  const rows = facts.labels.map((name, label) => [...placeColumns(placeNow()), name, probs[label].toFixed(5), before[label].toFixed(5), toldOf(label) ?? ""]);
  save("place.csv", csv([[...placeTitles(), "species", "probability", "probability_untold", "told"], ...rows]), "text/csv");
}

function saveLayer() {
  const rows = [...layer].map((value, place) => [...placeColumns(place), value.toFixed(5), ...(arrays.inside ? [arrays.inside.values[place]] : [])]);
  save("map.csv", csv([[...placeTitles(), layerTitle(), ...(arrays.inside ? ["like_training"] : [])], ...rows]), "text/csv");
}

async function saveAll() {
  const probability = await engine.all(), parts = [csv([[...placeTitles(), ...facts.labels]])];
  for (let place = 0; place < engine.nPlaces; place++) {
    parts.push(csv([[...placeColumns(place), ...facts.labels.map((_, label) => probability(place, label).toFixed(4))]]));
    if (place % 200 === 199) await new Promise((resolve) => setTimeout(resolve));
  }
  save("all_species.csv", new Blob(["\ufeff", ...parts], { type: "text/csv" }));
}

// The map with its title and scale, as a picture.
function savePicture() {
  const source = byId("canvas"), dots = view.dots, foot = 56 * dots, head = 44 * dots, picture = make("canvas", { width: source.width, height: source.height + foot + head });
  const context = picture.getContext("2d"), style = getComputedStyle(document.documentElement), [low, high] = range(), scale = Colours.of(state.change);
  context.fillStyle = style.getPropertyValue("--paper");
  context.fillRect(0, 0, picture.width, picture.height);
  context.drawImage(source, 0, head);
  context.fillStyle = style.getPropertyValue("--ink");
  context.font = `600 ${18 * dots}px system-ui, sans-serif`;
  context.fillText(layerTitle(), 14 * dots, 29 * dots);
  const width = 260 * dots, top = source.height + head + 12 * dots;
  for (let i = 0; i < 256; i++) { context.fillStyle = Colours.css(scale[i]); context.fillRect(14 * dots + i * width / 256, top, width / 256 + 1, 12 * dots); }
  context.fillStyle = style.getPropertyValue("--ink");
  context.font = `${12 * dots}px system-ui, sans-serif`;
  context.fillText(state.kind === "label" ? percent(low) : short(low), 14 * dots, top + 30 * dots);
  context.textAlign = "right";
  context.fillText(state.kind === "label" ? percent(high) : short(high), 14 * dots + width, top + 30 * dots);
  context.fillText(document.title, picture.width - 14 * dots, top + 30 * dots);
  picture.toBlob((blob) => save("map.png", blob), "image/png");
}

function takePanel(panel) {
  const table = (rows) => make("dl", {}, rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  const fold = (title, ...children) => make("details", {}, make("summary", {}, title), ...children);
  const button = (id, text, onclick) => make("button", { type: "button", id, onclick }, text);
  panel.append(heading(say("take_title")),
    make("div", { class: "downloads" }, button("save-place", say("save_place"), savePlace), button("save-layer", say("save_layer"), saveLayer),
      button("save-all", say("save_all"), saveAll), button("save-picture", say("save_picture"), savePicture), button("save-link", say("save_link"), share)),
    heading(say("take_cite"), 3), make("blockquote", {}, facts.citation || "hotvae"), note(say("take_sources")),
    fold(say("take_card"), table(facts.card), make("ul", {}, facts.notes.map((text) => make("li", {}, text)))),
    fold(say("take_exact"), note(say("exact_law")), facts.stand_in ? note(say("what_honest", standInWords())) : "", note(say("exact_richness", { error: facts.spread.error.toFixed(1) })), note(say(facts.precision === "float32" ? "exact_float" : "exact_bytes"))),
    fold(say("take_recipe"), make("ul", {}, facts.recipe.map((line) => make("li", {}, line)))),
    fold(say("take_settings"), table(facts.settings)),
    fold(say("take_versions"), table([...facts.versions, [say("made"), facts.made], ...(facts.command ? [[say("command"), facts.command]] : [])])));
}
