"use strict";
(() => {
  const data = JSON.parse(document.getElementById("content").textContent);
  const names = data.names || [];
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";

  // Names only ever become text or attribute values, never markup.
  function put(parent, tag, attributes = {}, text = null) {
    const made = parent.namespaceURI === SVG || tag === "svg" ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== null) made.textContent = text;
    parent.appendChild(made);
    return made;
  }

  function headings(table, titles) {
    table.tHead.replaceChildren();
    const head = put(table.tHead, "tr");
    for (const title of titles) put(head, "th", { scope: "col" }, title);
  }

  function unpack(text, Kind) {
    const raw = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    return new Kind(raw.buffer, 0, raw.length / Kind.BYTES_PER_ELEMENT);
  }

  const clean = (value) => String(value).replace("-", "−");
  const signed = (value) => (value === null ? "–" : (value > 0 ? "+" : "") + clean(value.toFixed(2)));
  const short = (value) => {
    const size = Math.abs(value);
    if (value === 0) return "0";
    if (size >= 1e5 || size < 1e-3) return clean(value.toExponential(1));
    return clean(Number(value.toPrecision(3)));
  };

  function ticks(low, high, count) {
    if (!(high > low)) return [low];
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= rough);
    const found = [];
    for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-6; value += step) found.push(Math.abs(value) < step * 1e-9 ? 0 : value);
    return found;
  }

  function canvas(id, height, label) {
    const place = $(id);
    place.replaceChildren();
    const width = Math.max(260, Math.min(place.clientWidth || 640, 1020));
    const drawing = put(place, "svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    return { drawing, width };
  }

  // A frame with axes; returns the functions that place values in it.
  function axes(parent, box, x, y, titles = {}) {
    const [left, top, width, height] = box;
    const placeX = (v) => left + ((v - x[0]) / (x[1] - x[0] || 1)) * width;
    const placeY = (v) => top + height - ((v - y[0]) / (y[1] - y[0] || 1)) * height;
    for (const tick of ticks(y[0], y[1], Math.max(2, height / 45))) {
      put(parent, "line", { x1: left, x2: left + width, y1: placeY(tick), y2: placeY(tick), class: "axis" });
      put(parent, "text", { x: left - 6, y: placeY(tick) + 4, "text-anchor": "end", class: "faint" }, short(tick));
    }
    if (!titles.noX) for (const tick of ticks(x[0], x[1], Math.max(2, width / 60))) {
      put(parent, "text", { x: placeX(tick), y: top + height + 16, "text-anchor": "middle", class: "faint" }, short(tick));
    }
    if (titles.title) put(parent, "text", { x: left, y: top - 9, class: "title" }, titles.title);
    if (titles.x) put(parent, "text", { x: left + width / 2, y: top + height + 33, "text-anchor": "middle", class: "faint" }, titles.x);
    return [placeX, placeY];
  }

  const range = (values) => {
    const known = values.filter((v) => v !== null && Number.isFinite(v));
    return [Math.min(...known), Math.max(...known)];
  };
  const wider = ([low, high]) => (high > low ? [low - (high - low) * 0.05, high + (high - low) * 0.05] : [low - 0.5, high + 0.5]);
  const path = (xs, ys) => {
    let pen = "M";
    return xs.map((x, i) => {
      if (ys[i] === null || Number.isNaN(ys[i])) { pen = "M"; return ""; }
      const part = `${pen}${x.toFixed(1)} ${ys[i].toFixed(1)}`;
      pen = "L";
      return part;
    }).join("");
  };

  // Charts are drawn when they come into sight, and again when the width changes.
  const charts = new Map();
  const drawn = new Set();
  function chart(id, draw) {
    if ($(id)) charts.set(id, draw);
  }
  function show(id) {
    drawn.add(id);
    charts.get(id)();
  }
  const again = (id) => { if (drawn.has(id)) charts.get(id)(); };

  function drawHistory() {
    const history = data.history;
    const { width: total } = canvas("history-chart", 10, "");
    const columns = Math.max(1, Math.min(history.series.length, Math.floor(total / 290)));
    const lines = Math.ceil(history.series.length / columns);
    const { drawing, width } = canvas("history-chart", lines * 220, `Training: ${history.epochs.length} epochs, of which epoch ${history.best} was kept`);
    const cell = width / columns;
    history.series.forEach((series, number) => {
      const box = [(number % columns) * cell + 46, Math.floor(number / columns) * 220 + 28, cell - 66, 142];
      const x = range(history.epochs);
      const [px, py] = axes(drawing, box, x[0] === x[1] ? [x[0] - 1, x[1] + 1] : x, wider(range(series.values)), { title: series.title, x: "epoch" });
      put(drawing, "path", { d: path(history.epochs.map(px), series.values.map((v) => (v === null ? null : py(v)))), class: "curve" });
      if (series.best !== null) put(drawing, "circle", { cx: px(history.best), cy: py(series.best), r: 5, class: "ring" });
    });
  }

  function drawReliability() {
    const curve = data.reliability;
    const place = $("reliability-chart");
    const side = Math.min(430, place.clientWidth || 430);
    const { drawing } = canvas("reliability-chart", side, "Observed share against predicted probability");
    const [px, py] = axes(drawing, [44, 12, side - 64, side - 58], [0, 1], [0, 1], { x: "predicted probability" });
    put(drawing, "text", { x: 50, y: 24, class: "faint" }, "observed share");
    put(drawing, "path", { d: path([px(0), px(1)], [py(0), py(1)]), class: "guide" });
    put(drawing, "path", { d: path(curve.predicted.map(px), curve.observed.map((v) => (v === null ? null : py(v)))), class: "curve" });
    const most = Math.max(...curve.count);
    curve.predicted.forEach((p, i) => {
      if (p === null || curve.observed[i] === null) return;
      const dot = put(drawing, "circle", { cx: px(p), cy: py(curve.observed[i]), r: 2.5 + 5 * Math.sqrt(curve.count[i] / most), class: "dot" });
      put(dot, "title", {}, `predicted ${p.toFixed(2)}, observed ${curve.observed[i].toFixed(2)}, ${curve.count[i].toLocaleString("en")} cells`);
    });
  }

  // --- table of labels
  let sorted = { column: 0, down: false };
  function tableOfLabels() {
    const table = data.labels;
    const head = put($("label-table").tHead, "tr");
    table.columns.forEach((column, number) => {
      const cell = put(head, "th", { scope: "col", title: column.help });
      put(cell, "button", { type: "button" }, column.title).addEventListener("click", () => {
        const isText = typeof table.rows[0]?.[number] === "string";
        sorted = { column: number, down: sorted.column === number ? !sorted.down : !isText };
        fillLabels();
      });
    });
    $("label-search").addEventListener("input", fillLabels);
    fillLabels();
    for (const name of names) put($("label-names"), "option", { value: name });
  }
  function fillLabels() {
    const table = data.labels;
    const wanted = $("label-search").value.trim().toLowerCase();
    const rows = table.rows.filter((row) => row[0].toLowerCase().includes(wanted));
    const sign = sorted.down ? -1 : 1;
    rows.sort((first, second) => {
      const [a, b] = [first[sorted.column], second[sorted.column]];
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
    });
    const body = $("label-table").tBodies[0];
    body.replaceChildren();
    for (const row of rows) {
      const line = put(body, "tr");
      row.forEach((value, number) => {
        if (number === 0) put(line, "th", { scope: "row" }, value);
        else if (typeof value === "string") put(line, "td", {}, value);
        else put(line, "td", { class: "number" }, value === null ? "–" : Number.isInteger(value) && number === 1 ? value.toLocaleString("en") : clean(value.toFixed(3)));
      });
    }
    [...$("label-table").tHead.rows[0].cells].forEach((cell, number) => {
      if (number === sorted.column) cell.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    $("label-count").textContent = `${rows.length} of ${table.rows.length}`;
  }

  const chosen = (id) => names.indexOf($(id).value);
  function option(select, value, text) { put(select, "option", { value }, text); }

  // --- map
  const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  function colour(share) {
    const at = Math.max(0, Math.min(1, share)) * (RAMP.length - 1);
    const i = Math.min(RAMP.length - 2, Math.floor(at));
    return `rgb(${RAMP[i].map((c, k) => Math.round(c + (RAMP[i + 1][k] - c) * (at - i))).join(",")})`;
  }
  let mapData = null;
  function drawMap() {
    const map = data.map;
    mapData = mapData || { probs: unpack(map.probs, Uint8Array), seen: unpack(map.seen, Uint8Array) };
    const count = map.x.length;
    const what = $("map-what").value;
    const label = Math.max(0, chosen("map-label"));
    let values, title, low = 0, top = null, marks = null;
    if (what === "label") {
      values = Array.from(mapData.probs.slice(label * count, (label + 1) * count), (v) => v / 250);
      marks = mapData.seen.slice(label * count, (label + 1) * count);
      title = `probability of ${names[label]}`;
      top = Math.max(0.05, ...values);
    } else if (what === "width") {
      values = map.upper.map((v, i) => v - map.lower[i]);
      title = "width of the 90 % interval of the number of labels";
    } else {
      values = what === "found" ? map.found : map.richness;
      title = what === "found" ? "number of labels found" : "expected number of labels";
      const both = [...map.richness, ...map.found.filter((v) => v !== null)];
      low = Math.min(...(what === "found" ? both : map.richness));
      top = Math.max(low + 1, ...(what === "found" ? both : map.richness));
    }
    top = top ?? Math.max(1e-9, ...values);
    const [west, south, east, north] = map.bounds;
    const shrink = map.degrees ? Math.cos(((south + north) / 2) * Math.PI / 180) : 1;
    const total = Math.max(260, Math.min($("map-drawing-chart").clientWidth || 640, 1020));
    const scale = Math.min(total / ((east - west) * shrink), 560 / (north - south));
    const tall = (north - south) * scale;
    const { drawing } = canvas("map-drawing-chart", tall + 46, `Map: ${title}`);
    const px = (v) => (v - west) * shrink * scale;
    const py = (v) => (north - v) * scale;
    const clip = put(put(drawing, "defs"), "clipPath", { id: "map-clip" });
    put(clip, "rect", { x: 0, y: 0, width: (east - west) * shrink * scale, height: tall });
    const inside = put(drawing, "g", { "clip-path": "url(#map-clip)" });
    const path = (points) => {
      let d = "";
      for (let i = 0; i < points.length; i += 2) d += `${i ? "L" : "M"}${px(points[i]).toFixed(1)} ${py(points[i + 1]).toFixed(1)}`;
      return d;
    };
    for (const ring of map.land) put(inside, "path", { d: path(ring) + "Z", class: "land" });
    for (const line of map.borders) put(inside, "path", { d: path(line), class: "border" });
    const unit = map.degrees ? "°" : "";
    for (const v of ticks(west, east, total / 120)) if (px(v) > 14) put(inside, "text", { x: px(v).toFixed(1), y: tall - 4, "text-anchor": "middle", class: "faint" }, short(v) + unit);
    for (const v of ticks(south, north, Math.max(2, tall / 120))) if (py(v) > 10 && py(v) < tall - 24) put(inside, "text", { x: 3, y: (py(v) + 4).toFixed(1), class: "faint" }, short(v) + unit);
    const size = Math.max(2, Math.min(5, Math.sqrt((total * tall) / count) / 4));
    const order = values.map((_, i) => i).sort((a, b) => (values[a] ?? -1) - (values[b] ?? -1));
    for (const i of order) {
      if (values[i] === null) continue;
      const dot = put(inside, "circle", { cx: px(map.x[i]).toFixed(1), cy: py(map.y[i]).toFixed(1), r: size.toFixed(1), fill: colour((values[i] - low) / (top - low)) });
      if (marks && marks[i] === 1) { dot.setAttribute("stroke", "var(--ink)"); dot.setAttribute("stroke-width", "1.4"); }
    }
    for (let i = 0; i < 60; i++) put(drawing, "rect", { x: i * 3, y: tall + 12, width: 3.2, height: 10, fill: colour(i / 59) });
    put(drawing, "text", { x: 0, y: tall + 38, class: "faint" }, short(low));
    put(drawing, "text", { x: 180, y: tall + 38, "text-anchor": "end", class: "faint" }, short(top));
    put(drawing, "text", { x: 192, y: tall + 22 }, title.length > 60 ? title.slice(0, 58) + "…" : title);
    const thinned = count < map.n_all ? ` ${count.toLocaleString("en")} of ${map.n_all.toLocaleString("en")} rows are drawn.` : "";
    $("map-note").textContent = (what === "label" ? "Ringed: the label was found there. " : what === "width" ? "Of drawn label sets, 90 % have a number of labels in an interval of this width. " : "") +
      (map.degrees ? "" : `Axes are ${map.names[0]} (to the right) and ${map.names[1]} (upwards), without coastlines: they are no degrees.`) + thinned;
  }
  function prepareMap() {
    const select = $("map-what");
    option(select, "richness", "expected number of labels");
    option(select, "width", "how uncertain that is");
    if (data.map.found.some((v) => v !== null)) option(select, "found", "number of labels found");
    option(select, "label", "one label");
    select.addEventListener("change", () => { if (select.value === "label" && chosen("map-label") < 0) $("map-label").value = names[0]; again("map-drawing-chart"); });
    $("map-label").addEventListener("input", () => { if (chosen("map-label") >= 0) { select.value = "label"; again("map-drawing-chart"); } });
  }

  // --- network
  const network = data.network && data.network.edges && data.network.edges.length ? data.network : null;
  let offsets = [];
  function position() {
    const gradient = Number($("network-gradient").value);
    return gradient < 0 ? 0 : offsets[gradient] + Number($("network-slider").value);
  }
  function drawNetwork() {
    const here = position();
    const focus = chosen("network-label");
    const { width: total } = canvas("network-drawing-chart", 10, "");
    const height = Math.round(Math.min(640, Math.max(420, total * 0.66)));
    const gradient = Number($("network-gradient").value);
    const where = gradient < 0 ? "all rows" : `${network.gradients[gradient].feature} ${network.gradients[gradient].groups[Number($("network-slider").value)]}`;
    const { drawing, width } = canvas("network-drawing-chart", height, `Network of ${network.edges.length} associations at ${where}; the table below lists the strongest`);
    $("network-where").textContent = where;
    $("network-slider").setAttribute("aria-valuetext", where);
    const pad = 46;
    const place = new Map(network.nodes.map(([label, x, y]) => [label, [pad + x * (width - 2 * pad), 24 + y * (height - 48)]]));
    // All lines at once are a ball of wool: the strongest that are clear here or over all rows, or all of one label.
    const shown = network.edges.map(([a, b], e) => ({ a, b, e, effect: network.effects[e][here], kept: network.kept[e][here] }))
      .filter(({ a, b, e, effect, kept }) => effect !== null && (focus < 0 ? kept || network.kept[e][0] : a === focus || b === focus))
      .sort((first, second) => second.kept - first.kept || Math.abs(second.effect) - Math.abs(first.effect)).slice(0, focus < 0 ? 70 : 200);
    const strongest = Math.max(...network.effects.flat().map((v) => Math.abs(v ?? 0)), 0.05);
    const lines = put(drawing, "g");
    const degree = new Map();
    for (const { a, b, effect, kept } of shown.reverse()) {
      const [x1, y1] = place.get(a), [x2, y2] = place.get(b);
      const line = put(lines, "line", { x1, y1, x2, y2, class: `${effect > 0 ? "together" : "apart"}${kept ? "" : " unclear"}`,
        "stroke-width": (0.8 + 7 * Math.abs(effect) / strongest).toFixed(2), "stroke-opacity": 0.75 });
      put(line, "title", {}, `${names[a]} – ${names[b]}: ${signed(effect)}`);
      for (const label of [a, b]) degree.set(label, (degree.get(label) || 0) + Math.abs(effect));
    }
    const taken = [];
    const ordered = [...place].sort(([a], [b]) => (b === focus) - (a === focus) || (degree.get(b) || 0) - (degree.get(a) || 0));
    for (const [label, [x, y]] of ordered) {
      const node = put(drawing, "circle", { cx: x, cy: y, r: label === focus ? 7 : degree.has(label) ? 5 : 3, class: `node${label === focus ? " on" : ""}`, opacity: degree.has(label) ? 1 : 0.35 });
      put(node, "title", {}, names[label]);
      node.addEventListener("click", () => { $("network-label").value = label === focus ? "" : names[label]; drawNetwork(); });
      if (!degree.has(label)) continue;
      const text = names[label].length > 24 ? names[label].slice(0, 22) + "…" : names[label];
      const long = text.length * 6.6 + 8;
      const end = x + long > width;
      const box = [end ? x - long : x + 6, y - 8, end ? x - 6 : x + long, y + 8];
      if (label !== focus && taken.some(([l, t, r, d]) => box[0] < r && l < box[2] && box[1] < d && t < box[3])) continue;
      taken.push(box);
      put(drawing, "text", { x: end ? x - 8 : x + 8, y: y + 4, "text-anchor": end ? "end" : "start", class: "halo" }, text);
    }
    fillNetworkTable(here, focus, where);
  }
  function fillNetworkTable(here, focus, where) {
    const table = $("network-table");
    $("network-caption").textContent = `${focus < 0 ? "Strongest clear associations" : `Associations of ${names[focus]}`} at ${where}: change of probability when the other label is present instead of absent`;
    const rows = network.edges.map((edge, e) => ({ edge, effect: network.effects[e][here], kept: network.kept[e][here], e }))
      .filter(({ edge, kept, effect }) => effect !== null && (focus < 0 ? kept : edge.includes(focus)))
      .sort((a, b) => Math.abs(b.effect) - Math.abs(a.effect)).slice(0, 20);
    headings(table, ["first label", "second label", "here, mean of both ways", "clear here", "all rows: first, if second is found", "all rows: second, if first is found"]);
    table.tBodies[0].replaceChildren();
    for (const { edge: [a, b], effect, kept, e } of rows) {
      const line = put(table.tBodies[0], "tr");
      put(line, "th", { scope: "row" }, names[a]);
      put(line, "td", {}, names[b]);
      for (const value of [effect, null, network.on_a[e], network.on_b[e]]) {
        if (value === null) put(line, "td", {}, kept ? "yes" : "no");
        else put(line, "td", { class: "number" }, signed(value));
      }
    }
    if (!rows.length) put(put(table.tBodies[0], "tr"), "td", { colspan: 6 }, "None is clear at this position.");
  }
  function prepareNetwork() {
    const select = $("network-gradient"), slider = $("network-slider");
    let next = 1;
    offsets = network.gradients.map(({ groups }) => { const first = next; next += groups.length; return first; });
    network.gradients.forEach(({ feature }, number) => option(select, number, feature));
    option(select, -1, "nothing: all rows at once");
    const reset = () => {
      const gradient = Number(select.value);
      slider.disabled = gradient < 0;
      slider.max = gradient < 0 ? 0 : network.gradients[gradient].groups.length - 1;
      slider.value = Math.floor(Number(slider.max) / 2);
      again("network-drawing-chart");
    };
    select.addEventListener("change", reset);
    slider.addEventListener("input", () => again("network-drawing-chart"));
    $("network-label").addEventListener("input", () => { if (!$("network-label").value || chosen("network-label") >= 0) again("network-drawing-chart"); });
    reset();
    const thirds = $("third-table");
    if (thirds) {
      headings(thirds, ["label", "changes when found", "third label", "change where third is missing", "change where third is found"]);
      for (const [i, j, k, absent, present] of network.thirds) {
        const line = put(thirds.tBodies[0], "tr");
        put(line, "th", { scope: "row" }, names[i]);
        put(line, "td", {}, names[j]);
        put(line, "td", {}, names[k]);
        put(line, "td", { class: "number" }, signed(absent));
        put(line, "td", { class: "number" }, signed(present));
      }
    }
  }

  // --- curves
  function drawCurve() {
    const feature = data.curves.features[Number($("curve-feature").value)];
    const label = Math.max(0, chosen("curve-label"));
    const points = unpack(feature.points, Uint16Array);
    const count = feature.values.length;
    const part = (kind) => Array.from(points.slice((label * 3 + kind) * count, (label * 3 + kind + 1) * count), (v) => v / 65535);
    const [middle, low, high] = [part(0), part(1), part(2)];
    const { drawing, width } = canvas("curve-drawing-chart", 320, `Mean probability of ${names[label]} along ${feature.name}`);
    const top = Math.max(0.05, ...high) * 1.08;
    const xs = feature.numeric ? feature.values : feature.values.map((_, i) => i);
    const span = range(xs);
    const x = feature.numeric ? (span[0] === span[1] ? [span[0] - 1, span[1] + 1] : span) : [-0.5, count - 0.5];
    const box = [52, 30, Math.min(width, 720) - 72, 220];
    const [px, py] = axes(drawing, box, x, [0, Math.min(1, top)], { title: `probability of ${names[label]}`, x: feature.name, noX: !feature.numeric });
    if (feature.numeric) {
      put(drawing, "path", { d: path([...xs.map(px), ...xs.map(px).reverse()], [...high.map(py), ...low.map(py).reverse()]) + "Z", class: "band" });
      put(drawing, "path", { d: path(xs.map(px), middle.map(py)), class: "curve" });
      for (const mark of feature.marks) if (mark !== null && mark >= x[0] && mark <= x[1]) put(drawing, "line", { x1: px(mark), x2: px(mark), y1: 250, y2: 256, stroke: "var(--soft)" });
    } else xs.forEach((v, i) => {
      put(drawing, "line", { x1: px(v), x2: px(v), y1: py(low[i]), y2: py(high[i]), stroke: "var(--accent)", "stroke-width": 3, opacity: 0.4 });
      put(drawing, "circle", { cx: px(v), cy: py(middle[i]), r: 5, class: "dot" });
      put(drawing, "text", { x: px(v), y: 266, "text-anchor": "middle", class: "faint" }, feature.values[i].slice(0, Math.max(3, Math.floor(box[2] / count / 7))));
    });
    if (feature.numeric) put(drawing, "text", { x: box[0], y: 306, class: "faint" }, "small marks: twentieths of the rows");
  }
  function prepareCurves() {
    data.curves.features.forEach(({ name }, number) => option($("curve-feature"), number, name));
    $("curve-label").value = names[0];
    $("curve-feature").addEventListener("change", () => again("curve-drawing-chart"));
    $("curve-label").addEventListener("input", () => { if (chosen("curve-label") >= 0) again("curve-drawing-chart"); });
  }

  // --- bars
  function drawImportance() {
    const label = chosen("importance-label");
    const table = data.importance;
    const values = label < 0 ? table.overall : table.labels[label];
    const order = values.map((_, i) => i).sort((a, b) => values[b] - values[a]);
    const { drawing, width } = canvas("importance-chart", order.length * 24 + 40, `Importance of features for ${label < 0 ? "all labels" : names[label]}`);
    const left = Math.min(260, width * 0.42);
    const most = Math.max(1e-9, ...(label < 0 ? table.upper : values));
    const px = (v) => left + (Math.max(0, v) / most) * (width - left - 70);
    order.forEach((i, row) => {
      const y = row * 24 + 8;
      const fits = Math.floor(left / 7);
      const name = table.groups[i];
      put(put(drawing, "text", { x: left - 8, y: y + 13, "text-anchor": "end" }, name.length > fits ? name.slice(0, fits - 1) + "…" : name), "title", {}, name);
      put(drawing, "rect", { x: left, y: y + 2, width: Math.max(0, px(values[i]) - left), height: 14, class: "dot" });
      if (label < 0) put(drawing, "line", { x1: px(table.lower[i]), x2: px(table.upper[i]), y1: y + 9, y2: y + 9, stroke: "var(--ink)", "stroke-width": 1.5 });
      put(drawing, "text", { x: px(label < 0 ? Math.max(values[i], table.upper[i]) : values[i]) + 6, y: y + 13, class: "faint" }, short(values[i]));
    });
    put(drawing, "text", { x: left, y: order.length * 24 + 28, class: "faint" }, "rise of the deviance per cell");
  }
  function drawPartition() {
    const label = chosen("partition-label");
    const table = data.partition;
    const values = label < 0 ? table.overall : table.labels[label];
    const { drawing, width } = canvas("partition-chart", values.length * 30 + 14, `Parts of the deviance of ${label < 0 ? "all labels" : names[label]}`);
    const left = Math.min(190, width * 0.45);
    const low = Math.min(0, ...values.map((v) => v ?? 0)), high = Math.max(1, ...values.map((v) => v ?? 0));
    const px = (v) => left + ((v - low) / (high - low)) * (width - left - 64);
    values.forEach((value, i) => {
      const y = i * 30 + 8;
      put(drawing, "text", { x: left - 8, y: y + 15, "text-anchor": "end" }, table.parts[i]);
      if (value === null) { put(drawing, "text", { x: left, y: y + 15, class: "faint" }, "–"); return; }
      put(drawing, "rect", { x: Math.min(px(0), px(value)), y: y + 2, width: Math.abs(px(value) - px(0)), height: 18, class: "dot", opacity: table.parts[i] === "unexplained" ? 0.35 : 1 });
      put(drawing, "text", { x: Math.max(px(0), px(value)) + 6, y: y + 15, class: "faint" }, `${clean((100 * value).toFixed(1))} %`);
    });
    put(drawing, "line", { x1: px(0), x2: px(0), y1: 4, y2: values.length * 30 + 6, class: "axis" });
  }
  function prepareBars(id, chartId) {
    $(id).addEventListener("input", () => { if (!$(id).value || chosen(id) >= 0) again(chartId); });
  }

  // --- start
  if (data.labels) tableOfLabels();
  if (data.map) { prepareMap(); chart("map-drawing-chart", drawMap); }
  if (network) { chart("network-drawing-chart", drawNetwork); prepareNetwork(); }
  if (data.history) chart("history-chart", drawHistory);
  if (data.reliability) chart("reliability-chart", drawReliability);
  if (data.curves) { prepareCurves(); chart("curve-drawing-chart", drawCurve); }
  if (data.importance) { chart("importance-chart", drawImportance); prepareBars("importance-label", "importance-chart"); }
  if (data.partition) { chart("partition-chart", drawPartition); prepareBars("partition-label", "partition-chart"); }
  const showAll = () => { for (const id of charts.keys()) if (!drawn.has(id)) show(id); };
  if ("IntersectionObserver" in window) {
    // Room is kept, so that the page does not jump while it is filled.
    for (const id of charts.keys()) $(id).style.minHeight = "12rem";
    const watcher = new IntersectionObserver((seen) => {
      for (const { target, isIntersecting } of seen) if (isIntersecting && !drawn.has(target.id)) { show(target.id); target.style.minHeight = ""; watcher.unobserve(target); }
    }, { rootMargin: "300px" });
    for (const id of charts.keys()) watcher.observe($(id));
  } else showAll();
  window.addEventListener("beforeprint", showAll);
  let waiting = 0, lastWidth = document.documentElement.clientWidth;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      if (document.documentElement.clientWidth === lastWidth) return;
      lastWidth = document.documentElement.clientWidth;
      drawn.forEach((id) => charts.get(id)());
    }, 150);
  });
})();
