"use strict";
// The page: what it shows is one state; every change goes through `change`, which can be undone and is in the address.
const facts = JSON.parse(document.getElementById("facts").textContent);
const words = JSON.parse(document.getElementById("text").textContent);
const byId = (id) => document.getElementById(id);
const nLabels = facts.labels.length;

function say(key, values = {}) {
  return (words[key] ?? key).replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

// An element with attributes, listeners (on…) and children; text is never read as HTML.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const percent = (p) => (p > 0.995 && p < 1 ? "> 99 %" : p > 0 && p < 0.005 ? "< 1 %" : `${Math.round(100 * p)} %`);
const short = (value) => (Number.isNaN(value) ? "–" : String(+value.toPrecision(Math.abs(value) >= 1000 ? 4 : 3)));
const nice = (name) => name.replaceAll("_", " ");

// --- state -----------------------------------------------------------------------------------------------------

const fresh = {
  tab: "map",
  kind: "richness",
  label: 0,
  change: false,
  trust: true,
  threshold: null,
  place: -1,
  other: -1,
  told: [],
  scope: "map",
  shifts: [],
  mode: "here",
  gradient: 0,
};
let state = { ...fresh },
  engine,
  view,
  arrays,
  layer = null;
const past = [];

const LISTENERS = [];
const onChange = (listener) => LISTENERS.push(listener);

function change(patch, { undoable = true } = {}) {
  const before = state;
  state = { ...state, ...patch };
  if (undoable && ["told", "scope", "shifts", "place", "other"].some((key) => key in patch)) past.push(before);
  byId("undo").disabled = !past.length;
  remember();
  for (const listener of LISTENERS) listener(state, before);
}

function undo() {
  if (!past.length) return;
  const { told, scope, shifts, place, other } = past.pop();
  change({ told, scope, shifts, place, other }, { undoable: false });
  announce(say("undone"));
}

// Everywhere known, everywhere moved, and known at the place.
const world = () => (state.scope === "map" ? state.told : []);
const asKnown = (told) => ({ known: told.map(([label]) => label), values: told.map(([, value]) => value) });
const toldOf = (label) => state.told.find(([which]) => which === label)?.[1];

function tell(label, value) {
  const told = state.told.filter(([which]) => which !== label);
  if (value !== undefined) told.push([label, value]);
  change({ told });
  announce(
    say(value === undefined ? "forgotten" : value ? "told_seen" : "told_not_seen", { name: facts.labels[label] }),
  );
}

function announce(text) {
  byId("said").textContent = text;
}

// The address holds the state in words: labels by name, places by number.
function remember() {
  const parts = new URLSearchParams(),
    { told, shifts } = state;
  for (const key of ["tab", "kind", "scope", "mode"]) if (state[key] !== fresh[key]) parts.set(key, state[key]);
  if (state.kind === "label") parts.set("species", facts.labels[state.label]);
  for (const key of ["place", "other"]) if (state[key] >= 0) parts.set(key, state[key]);
  for (const [label, value] of told) parts.append(value ? "seen" : "not", facts.labels[label]);
  for (const [which, by] of shifts) parts.append("move", `${facts.covariates[which].name}:${+by.toPrecision(6)}`);
  if (state.threshold !== null) parts.set("cut", +state.threshold.toPrecision(4));
  if (state.change) parts.set("change", 1);
  if (!state.trust) parts.set("trust", 0);
  if (state.gradient) parts.set("along", facts.covariates[state.gradient].name);
  const hash = parts.toString();
  history.replaceState(null, "", hash ? `#${hash}` : `${location.pathname}${location.search}`);
}

function recall() {
  const parts = new URLSearchParams(location.hash.slice(1)),
    found = { ...fresh };
  const oneOf = (key, allowed) => {
    if (allowed.includes(parts.get(key))) found[key] = parts.get(key);
  };
  oneOf(
    "tab",
    TABS.map(([name]) => name),
  );
  oneOf("kind", ["richness", "unsure", "label"]);
  oneOf("scope", ["map", "place"]);
  oneOf("mode", ["here", "along", "two"]);
  const label = facts.labels.indexOf(parts.get("species"));
  if (label >= 0) found.label = label;
  else if (found.kind === "label") found.kind = "richness";
  for (const key of ["place", "other"]) {
    const place = parseInt(parts.get(key) ?? "", 10);
    if (place >= 0 && place < engine.nPlaces) found[key] = place;
  }
  for (const [key, value] of [
    ["seen", 1],
    ["not", 0],
  ]) {
    for (const name of parts.getAll(key))
      if (facts.labels.includes(name)) found.told = [...found.told, [facts.labels.indexOf(name), value]];
  }
  for (const text of parts.getAll("move")) {
    const at = text.lastIndexOf(":"),
      which = facts.covariates.findIndex(({ name }) => name === text.slice(0, at));
    if (which >= 0 && Number.isFinite(+text.slice(at + 1)) && facts.stand_in)
      found.shifts = [...found.shifts, [which, +text.slice(at + 1)]];
  }
  const along = facts.covariates.findIndex(({ name }) => name === parts.get("along"));
  if (along >= 0) found.gradient = along;
  const cut = parseFloat(parts.get("cut"));
  if (Number.isFinite(cut)) found.threshold = cut;
  found.change = parts.get("change") === "1";
  found.trust = parts.get("trust") !== "0";
  return found;
}

// --- the map ---------------------------------------------------------------------------------------------------

function layerTitle() {
  const name = state.kind === "label" ? facts.labels[state.label] : say(`layer_${state.kind}`);
  return state.change ? say("layer_change", { name }) : name;
}

// Ends of the scale of what is shown.
function range() {
  if (state.kind === "label" && !state.change) return [0, 1];
  let most = 0;
  if (layer) for (const value of layer) if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
  most = Math.max(most, state.kind === "label" ? 0.05 : 0.5);
  return state.change ? [-most, most] : [0, Math.ceil(most)];
}

const cut = () => (state.change ? null : (state.threshold ?? (state.kind === "label" ? 0.5 : null)));

function colourMap() {
  if (!layer) return;
  const [low, high] = range(),
    scale = Colours.of(state.change),
    land = Colours.land(),
    limit = cut();
  const colours = view.colours;
  for (let i = 0; i < layer.length; i++) {
    const value = layer[i];
    if (Number.isNaN(value)) {
      colours[i] = land;
      continue;
    }
    const colour = scale[Math.min(255, Math.max(0, Math.round((255 * (value - low)) / (high - low))))];
    colours[i] = limit !== null && value < limit ? Colours.mix(colour, land, 0.5) : colour;
  }
  view.hatch = state.trust;
  view.hatchColour = Colours.hatch();
  view.pins = [];
  if (state.other >= 0 && state.tab === "together" && state.mode === "two")
    view.pins.push({ place: state.other, mark: "B", second: true });
  if (state.place >= 0)
    view.pins.push({ place: state.place, mark: state.tab === "together" && state.mode === "two" ? "A" : "" });
  view.draw();
}

function drawLegend() {
  const [low, high] = range(),
    scale = Colours.of(state.change),
    limit = cut();
  const stops = Array.from({ length: 16 }, (_, i) => Colours.css(scale[Math.round(i * 17)]));
  const box = byId("legend"),
    known = box.querySelector("#cut");
  const share = limit === null ? 0 : (limit - low) / (high - low);
  const sign = (value) => (value < 0 ? "−" : state.change && value > 0 ? "+" : "");
  const unit = (value) =>
    sign(value) + (state.kind === "label" ? `${Math.round(100 * Math.abs(value))} %` : short(Math.abs(value)));
  if (!known) {
    const handle = make("div", { id: "cut", role: "slider", tabindex: "0", "aria-label": say("cut") });
    const bar = make("div", { class: "bar" }, handle);
    const to = (event) => {
      const area = bar.getBoundingClientRect(),
        [from, until] = range();
      return from + Math.min(1, Math.max(0, (event.clientX - area.left) / area.width)) * (until - from);
    };
    bar.addEventListener("pointerdown", (event) => {
      if (state.change) return;
      bar.setPointerCapture(event.pointerId);
      change({ threshold: to(event) });
      handle.focus();
    });
    bar.addEventListener("pointermove", (event) => {
      if (bar.hasPointerCapture(event.pointerId)) change({ threshold: to(event) });
    });
    handle.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -0.01, ArrowDown: -0.01, ArrowRight: 0.01, ArrowUp: 0.01, PageUp: 0.1, PageDown: -0.1 }[
        event.key
      ];
      const [from, until] = range();
      if (step) change({ threshold: Math.min(until, Math.max(from, (cut() ?? from) + step * (until - from))) });
      else if (event.key === "Home") change({ threshold: from });
      else if (event.key === "End") change({ threshold: until });
      else return;
      event.preventDefault();
    });
    box.append(
      make("p", { class: "what" }),
      bar,
      make("div", { class: "ends" }, make("span"), make("span"), make("span")),
      make("p", { class: "above" }),
      make("p", { class: "marks" }),
    );
  }
  const handle = box.querySelector("#cut");
  box.querySelector(".what").textContent = layerTitle();
  box.querySelector(".bar").style.background = `linear-gradient(to right, ${stops.join(",")})`;
  handle.hidden = state.change;
  handle.style.left = `${100 * Math.min(1, Math.max(0, share))}%`;
  for (const [name, value] of [
    ["valuemin", low],
    ["valuemax", high],
    ["valuenow", limit ?? low],
  ])
    handle.setAttribute(`aria-${name}`, +value.toFixed(3));
  handle.setAttribute("aria-valuetext", limit === null ? say("cut_none") : unit(limit));
  const ends = box.querySelectorAll(".ends span");
  ends[0].textContent = unit(low);
  ends[1].textContent = limit === null ? "" : say("cut_at", { value: unit(limit) });
  ends[2].textContent = unit(high);
  let count = 0;
  if (layer && limit !== null) for (const value of layer) if (value >= limit) count++;
  box.querySelector(".above").textContent =
    limit === null
      ? say(state.change ? "change_hint" : "cut_hint")
      : say("cut_above", { n: count.toLocaleString("en"), all: engine.nPlaces.toLocaleString("en") });
  const marks = box.querySelector(".marks");
  marks.replaceChildren();
  if (arrays.inside && state.trust && view.inside.some((value) => !value))
    marks.append(make("span", { class: "mark hatched" }), say("mark_hatched"), " ");
  marks.append(make("span", { class: "mark outside" }), say("mark_outside"));
}

function repaint() {
  busy(true);
  const told = asKnown(world());
  engine.paint(told, state.shifts, { kind: state.kind, label: state.label, change: state.change });
}

let busyTimer = 0;
function busy(isBusy) {
  clearTimeout(busyTimer);
  if (isBusy)
    busyTimer = setTimeout(() => {
      byId("busy").hidden = false;
    }, 300);
  else byId("busy").hidden = true;
}

function nameOf(place) {
  const where = arrays.degrees
    ? degreesOf(place)
    : `${short(arrays.where.values[2 * place])}, ${short(arrays.where.values[2 * place + 1])} km`;
  return facts.places.length ? `${facts.places[place]} · ${where}` : where;
}

function degreesOf(place) {
  const [longitude, latitude] = [0, 1].map((k) => arrays.degrees.values[2 * place + k]);
  const part = (value, below, above) => `${Math.abs(value).toFixed(2)}° ${say(value < 0 ? below : above)}`;
  return `${part(latitude, "south", "north")}, ${part(longitude, "west", "east")}`;
}

function valueText(value) {
  if (!Number.isFinite(value)) return "–";
  const sign = value < 0 ? "−" : state.change && value > 0 ? "+" : "",
    size = Math.abs(value);
  return state.kind === "label"
    ? sign + (state.change ? `${Math.round(100 * size)} %` : percent(size))
    : say("n_species", { n: sign + size.toFixed(1) });
}

function hover(place, at) {
  const tip = byId("tip");
  tip.hidden = place < 0 && !at;
  if (tip.hidden) return;
  tip.style.left = `${Math.min(at[0] + 14, view.width - 230)}px`;
  tip.style.top = `${at[1] + 14}px`;
  if (place < 0) return void tip.replaceChildren(make("span", {}, say("outside")));
  tip.replaceChildren(
    make("strong", {}, valueText(layer?.[place] ?? NaN)),
    make("span", {}, nameOf(place)),
    ...(arrays.inside && !arrays.inside.values[place] ? [make("em", {}, say("not_like_training"))] : []),
  );
}

function choosePlace(place, event) {
  if (place < 0) return announce(say("outside"));
  if (state.tab === "together" && state.mode === "two" && (event?.shiftKey || (state.place >= 0 && state.other < 0)))
    return change({ other: place });
  change({ place, tab: state.tab === "map" || state.tab === "take" ? "place" : state.tab });
  announce(`${nameOf(place)}: ${layerTitle()} ${valueText(layer?.[place] ?? NaN)}`);
}

// --- start -----------------------------------------------------------------------------------------------------

const TABS = [
  ["map", mapPanel],
  ["place", placePanel],
  ["saw", sawPanel],
  ["together", togetherPanel],
  ["what", whatPanel],
  ["take", takePanel],
];

function drawTabs() {
  const bar = byId("tabs");
  if (!bar.children.length) {
    for (const [name] of TABS) {
      bar.append(
        make(
          "button",
          {
            type: "button",
            role: "tab",
            id: `tab-${name}`,
            "aria-controls": "panel",
            onclick: () => change({ tab: name }),
          },
          say(`tab_${name}`),
        ),
      );
    }
    bar.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const at = TABS.findIndex(([name]) => name === state.tab),
        to = TABS[(at + step + TABS.length) % TABS.length][0];
      change({ tab: to });
      byId(`tab-${to}`).focus();
    });
  }
  for (const [name] of TABS) {
    const tab = byId(`tab-${name}`),
      isOn = name === state.tab;
    tab.setAttribute("aria-selected", String(isOn));
    tab.tabIndex = isOn ? 0 : -1;
  }
  byId("panel").setAttribute("aria-labelledby", `tab-${state.tab}`);
}

// A panel is built when its tab opens, and refreshed by what it returns whenever the state changes.
let refresh = () => {};
function openTab() {
  drawTabs();
  const panel = byId("panel");
  panel.replaceChildren();
  panel.scrollTop = 0;
  refresh = TABS.find(([name]) => name === state.tab)[1](panel) ?? (() => {});
  refresh(state, null);
}

async function begin() {
  busy(true);
  engine = new Engine(facts, (values, done) => {
    layer = values;
    if (done) {
      busy(false);
      document.documentElement.dataset.painted = engine.number;
    }
    colourMap();
    drawLegend();
    if (state.tab === "map") refresh(state, state);
  });
  arrays = await engine.open(document.querySelectorAll(".numbers"), byId("worker").textContent);
  await breath();
  view = new MapView(
    byId("canvas"),
    {
      facts,
      where: arrays.where.values,
      inside: arrays.inside?.values,
      land: arrays.land?.values,
      landLengths: arrays.land_lengths?.values,
      borders: arrays.borders?.values,
      bordersLengths: arrays.borders_lengths?.values,
    },
    {
      hover,
      pick: choosePlace,
      step: (dx, dy) => {
        const place = view.neighbour(state.place, dx, dy);
        choosePlace(place);
        view.show(place);
        byId("canvas").focus();
      },
      drawn: () => {
        byId("canvas").setAttribute("aria-label", say("map_of", { name: layerTitle() }));
      },
    },
  );
  state = recall();
  await breath();
  drawPicker();
  await breath();
  onChange((after, before) => {
    const differs = (...keys) => keys.some((key) => after[key] !== before[key]);
    if (differs("told", "scope", "shifts", "kind", "label", "change")) repaint();
    else if (differs("threshold", "trust", "place", "other", "tab", "mode")) {
      colourMap();
      drawLegend();
    }
    if (differs("tab")) openTab();
    else refresh(after, before);
    if (differs("kind", "label")) drawPicker();
  });
  byId("zoom-in").onclick = () => view.zoom(1.5);
  byId("zoom-out").onclick = () => view.zoom(1 / 1.5);
  byId("zoom-home").onclick = () => {
    view.touched = false;
    view.home();
  };
  if (facts.closer) offerWindows();
  byId("undo").onclick = undo;
  byId("share").onclick = share;
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "z" && !/INPUT|TEXTAREA/.test(event.target.tagName)) {
      event.preventDefault();
      undo();
    }
  });
  addEventListener("hashchange", () => {
    const before = state;
    state = recall();
    for (const listener of LISTENERS) listener(state, before);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    colourMap();
    drawLegend();
  });
  repaint();
  await breath();
  openTab();
  document.documentElement.dataset.ready = "1";
}

// A service has more cells than a page: what is in view is asked for anew, with the state as it is but for places,
// which have other numbers there.
function offerWindows() {
  const go = (search) => {
    const parts = new URLSearchParams(location.hash.slice(1));
    for (const key of ["place", "other"]) parts.delete(key);
    location.assign(`${location.pathname}${search}#${parts}`);
  };
  const button = (sign, key, onclick) =>
    make("button", { type: "button", "aria-label": say(key), title: say(key), onclick }, sign);
  const [right, up] = facts.closer.scale;
  if (facts.closer.has_more)
    byId("zoom").append(
      button("⊕", "closer", () => {
        const [west, north] = view.plane(0, 0),
          [east, south] = view.plane(view.width, view.height);
        const box = [west / right, south / up, east / right, north / up];
        go(`?window=${box.map((value) => +value.toPrecision(9)).join(",")}`);
      }),
    );
  if (facts.closer.is_part) byId("zoom").append(button("▭", "whole", () => go("")));
}

async function share() {
  let text = say("copied");
  try {
    await navigator.clipboard.writeText(location.href);
  } catch {
    text = say("copy_from_bar");
  }
  announce(text);
  const button = byId("share"),
    before = button.textContent;
  button.textContent = text;
  setTimeout(() => {
    button.textContent = before;
  }, 2500);
}

begin();
