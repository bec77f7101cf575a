"use strict";
// What panels share, and the first of them. Each builds itself once and returns what brings it up to date.

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

const alphabet = new Intl.Collator("en");
const byName = (() => {
  let order = null;
  return () =>
    (order ??= [...facts.labels.keys()].sort((a, b) => alphabet.compare(facts.labels[a], facts.labels[b])));
})();

function show(value) {
  const isWhole = value === "richness" || value === "unsure";
  change(
    isWhole
      ? { kind: value, threshold: null }
      : { kind: "label", label: +value, threshold: state.kind === "label" ? state.threshold : null },
  );
}

const heading = (text, level = 2) => make(`h${level}`, {}, text);
const note = (text, kind = "note") => make("p", { class: kind }, text);

function check(text, isOn, onchange, id) {
  const box = make("input", { type: "checkbox", id, onchange: () => onchange(box.checked) });
  box.checked = isOn;
  return make("label", { class: "check" }, box, text);
}

function choices(name, options, value, onchange) {
  return make(
    "div",
    { class: "choices", role: "radiogroup", "aria-label": say(name) },
    options.map(([key, text]) => {
      const input = make("input", {
        type: "radio",
        name,
        value: key,
        id: `${name}-${key}`,
        onchange: () => onchange(key),
      });
      input.checked = key === value;
      return make("label", {}, input, make("span", {}, text));
    }),
  );
}

const barOf = (p, before) =>
  make(
    "span",
    { class: "meter", "aria-hidden": "true" },
    make("i", { style: { width: `${100 * p}%` } }),
    before === undefined ? null : make("b", { style: { left: `${100 * before}%` } }),
  );

// A species in a list: its name shows it on the map, two buttons tell whether it was seen.
function speciesRow(label, { p, before, extra, tick = true } = {}) {
  const known = toldOf(label),
    name = facts.labels[label];
  const button = (value, text, sign) =>
    make(
      "button",
      {
        type: "button",
        class: value ? "seen" : "not",
        "aria-pressed": String(known === value),
        "data-key": `${label}-${value}`,
        "aria-label": say(value ? "tick_seen" : "tick_not", { name }),
        title: text,
        onclick: () => tell(label, known === value ? undefined : value),
      },
      sign,
    );
  return make(
    "li",
    { class: known === undefined ? "" : known ? "is-seen" : "is-not", "data-label": label },
    make(
      "button",
      {
        type: "button",
        class: "name",
        "data-key": `${label}-name`,
        title: say("show_on_map"),
        "aria-current": state.kind === "label" && state.label === label ? "true" : null,
        onclick: () => show(label),
      },
      name,
    ),
    p === undefined ? null : barOf(p, before),
    make("span", { class: "value" }, extra ?? (p === undefined ? "" : percent(p))),
    tick ? make("span", { class: "ticks" }, button(1, say("seen"), "✓"), button(0, say("not_seen"), "✕")) : null,
  );
}

// Replace the rows of a list, and keep the focus where it was.
function fill(list, rows) {
  const key = list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  list.replaceChildren(...rows);
  if (key) list.querySelector(`[data-key="${key}"]`)?.focus();
}

function searchBox(id, onsearch) {
  const input = make("input", {
    type: "search",
    id,
    placeholder: say("search"),
    "aria-label": say("search"),
    autocomplete: "off",
    oninput: () => onsearch(),
  });
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
      if (away < least) {
        least = away;
        middle = i;
      }
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
  panel.append(
    heading(say("map_title")),
    note(say("map_intro")),
    choices(
      "map-kind",
      [
        ["richness", say("layer_richness")],
        ["unsure", say("layer_unsure")],
        ["label", say("layer_label")],
      ],
      state.kind,
      (kind) => (kind === "label" ? show(state.label) : show(kind)),
    ),
    make(
      "div",
      { class: "options" },
      arrays.inside ? check(say("trust_mask"), state.trust, (trust) => change({ trust }), "trust") : null,
      check(say("change_mask"), state.change, (isOn) => change({ change: isOn }), "change"),
    ),
    make("p", { class: "note", id: "map-says" }),
    heading(say("layer_single"), 3),
    search,
    list,
  );
  // Hundreds of rows, of which few change: only those are made anew.
  const kept = new Map();
  const rowOf = (label) => {
    const told = toldOf(label),
      looks = `${told} ${state.kind === "label" && state.label === label}`;
    if (kept.get(label)?.looks !== looks) {
      const extra = told === undefined ? "" : say(told ? "seen" : "not_seen");
      kept.set(label, { looks, row: speciesRow(label, { tick: false, extra }) });
    }
    return kept.get(label).row;
  };
  const draw = () => {
    const rows = byName()
      .filter((label) => matches(label, search.value))
      .map(rowOf);
    if (rows.length !== list.children.length || rows.some((row, k) => row !== list.children[k])) fill(list, rows);
  };
  return (after, before) => {
    for (const kind of ["richness", "unsure", "label"]) byId(`map-kind-${kind}`).checked = kind === after.kind;
    byId("change").checked = after.change;
    byId("map-says").textContent = say(`explain_${after.kind}`, { name: facts.labels[after.label] });
    if (!before || after !== before) draw();
  };
}
