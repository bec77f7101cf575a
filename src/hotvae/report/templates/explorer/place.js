"use strict";
// The panel of a place: its likeliest community, how sure that is, and why.

const within = (share) => Math.min(1, Math.max(0, share));

function call(label, p) {
  if (!arrays.present_from || state.told.length || state.shifts.length) return "";
  const present = p >= arrays.present_from.values[label],
    absent = p <= arrays.absent_up_to.values[label];
  return present && !absent ? say("call_present") : absent && !present ? say("call_absent") : say("call_unclear");
}

function richness(probs) {
  let mean = 0,
    variance = 0;
  for (const p of probs) {
    mean += p;
    variance += p * (1 - p);
  }
  const spread = Math.sqrt(variance),
    terms = [1, mean, spread, mean * mean, variance, mean * spread];
  const bound = (row) => mean + spread * row.reduce((sum, weight, k) => sum + weight * terms[k], 0);
  const [low, high] = facts.spread.coefficients.map(bound);
  const possible = (value) => Math.min(nLabels, Math.max(0, value));
  return { mean, low: possible(Math.min(low, mean)), high: possible(Math.max(high, mean)) };
}

function coordinatesForm() {
  if (!arrays.degrees) return null;
  const field = (name, text) =>
    make("label", {}, text, make("input", { name, inputmode: "decimal", size: "7", autocomplete: "off" }));
  const told = make("p", { class: "note", role: "status" });
  return make(
    "form",
    {
      class: "coordinates",
      "aria-label": say("coordinates"),
      onsubmit: (event) => {
        event.preventDefault();
        const [latitude, longitude] = ["latitude", "longitude"].map((name) =>
          parseFloat(event.target.elements[name].value.replace(",", ".")),
        );
        if (!(Math.abs(latitude) <= 90 && Math.abs(longitude) <= 360))
          return void (told.textContent = say("coordinates_wrong"));
        let best = -1,
          least = Infinity;
        for (let i = 0; i < view.n; i++) {
          const [x, y] = [arrays.degrees.values[2 * i], arrays.degrees.values[2 * i + 1]];
          const east = (((x - longitude + 540) % 360) - 180) * Math.cos((latitude * Math.PI) / 180);
          const away = 111.195 * Math.hypot(east, y - latitude);
          if (away < least) {
            least = away;
            best = i;
          }
        }
        if (least > Math.max(2 * facts.reach, 5))
          return void (told.textContent = say("coordinates_far", { km: Math.round(least) }));
        told.textContent = "";
        change({ place: best });
        view.show(best);
      },
    },
    field("latitude", say("latitude")),
    field("longitude", say("longitude")),
    make("button", { type: "submit" }, say("go")),
    told,
  );
}

function placePanel(panel) {
  const head = make("div"),
    sure = make("div", { class: "cards" }),
    list = make("ul", { class: "species" });
  const why = make("div", { class: "why", id: "why" }),
    environment = make("dl", { class: "environment" });
  const more = make("button", {
    type: "button",
    class: "more",
    onclick: () => {
      all = !all;
      update(state, state);
    },
  });
  let all = false,
    explained = -1;
  panel.append(
    heading(say("place_title")),
    head,
    coordinatesForm() ?? "",
    sure,
    why,
    heading(say("place_community"), 3),
    list,
    more,
    heading(say("place_environment"), 3),
    environment,
  );
  const update = latest(async (isLast, after, earlier) => {
    if (after.kind === "label" && after.label !== earlier?.label) explained = after.label;
    head.replaceChildren(
      state.place < 0 ? note(say("place_none")) : make("p", { class: "where" }, nameOf(state.place)),
    );
    const here = placeNow(),
      V = facts.covariates.length;
    environment.replaceChildren(
      ...facts.covariates.map((covariate, which) => {
        const value = arrays.covariates.values[here * V + which];
        const range = covariate.levels
          ? null
          : make(
              "span",
              { class: "range", "aria-hidden": "true" },
              make("i", {
                style: { left: `${100 * within((value - covariate.low) / (covariate.high - covariate.low || 1))}%` },
              }),
            );
        return make(
          "div",
          {},
          make("dt", {}, nice(covariate.name)),
          make(
            "dd",
            {},
            make("span", { class: "value" }, covariate.levels ? (covariate.levels[value] ?? "–") : short(value)),
            range,
          ),
        );
      }),
    );
    const { probs, before } = await engine.ask({ what: "place", ...questionHere() });
    if (!isLast()) return;
    const isNew = state.told.length || state.shifts.length;
    const { mean, low, high } = richness(probs);
    const inside = arrays.inside ? arrays.inside.values[here] : null;
    sure.replaceChildren(
      make(
        "div",
        { class: "card" },
        make("strong", {}, mean.toFixed(0)),
        make("span", {}, say("card_richness")),
        make("small", {}, say("card_interval", { low: Math.round(low), high: Math.round(high) })),
      ),
      make(
        "div",
        { class: "card" },
        make("strong", {}, probs.reduce((sum, p) => sum + Math.min(p, 1 - p), 0).toFixed(0)),
        make("span", {}, say("card_unsure")),
      ),
      ...(inside === null
        ? []
        : [
            make(
              "div",
              { class: inside ? "card" : "card warn" },
              make("strong", {}, say(inside ? "card_known" : "card_unknown")),
              make("span", {}, say(inside ? "card_known_text" : "card_unknown_text")),
            ),
          ]),
    );
    const order = [...probs.keys()].sort((a, b) => probs[b] - probs[a]);
    fill(
      list,
      order.slice(0, all ? nLabels : 15).map((label) => {
        const row = speciesRow(label, { p: probs[label], before: isNew ? before[label] : undefined, tick: false });
        const said = call(label, probs[label]);
        if (said) row.querySelector(".value").title = said;
        row.append(
          make(
            "button",
            {
              type: "button",
              class: "because",
              "data-key": `${label}-why`,
              "aria-label": say("why_of", { name: facts.labels[label] }),
              onclick: async () => {
                await explain(label);
                why.scrollIntoView({ block: "nearest" });
              },
            },
            say("why"),
          ),
        );
        return row;
      }),
    );
    more.textContent = say(all ? "fewer" : "all_species", { n: nLabels });
    if (explained >= 0) explain(explained);
  });
  const explain = latest(async (isLast, label) => {
    explained = label;
    const question = questionHere(),
      { all: now, without, typical } = await engine.ask({ what: "why", label, ...question });
    if (!isLast()) return;
    const name = facts.labels[label];
    const rows = [];
    question.known.forEach((known, a) => {
      if (known !== label)
        rows.push([
          now - without[a],
          say(question.values[a] ? "because_seen" : "because_not", { name: facts.labels[known] }),
          "exact",
        ]);
    });
    facts.covariates.forEach((covariate, which) => {
      if (Number.isFinite(typical[which])) {
        const value = arrays.covariates.values[question.cell * facts.covariates.length + which];
        rows.push([
          now - typical[which],
          say("because_covariate", {
            name: nice(covariate.name),
            value: short(value),
            median: short(covariate.median),
          }),
          "about",
        ]);
      }
    });
    const told = rows.filter(([moved]) => Math.abs(moved) >= 0.005).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
    const most = Math.max(0.02, ...told.map(([moved]) => Math.abs(moved)));
    why.replaceChildren(
      heading(say("why_title", { name, p: percent(now) }), 3),
      toldOf(label) !== undefined
        ? note(say("why_told"))
        : make(
            "ul",
            { class: "reasons" },
            told
              .slice(0, 8)
              .map(([moved, text, kind]) =>
                make(
                  "li",
                  {},
                  make(
                    "span",
                    { class: `push ${moved < 0 ? "down" : "up"}`, "aria-hidden": "true" },
                    make("i", { style: { width: `${(50 * Math.abs(moved)) / most}%` } }),
                  ),
                  make(
                    "span",
                    { class: "value" },
                    `${moved > 0 ? "+" : moved < 0 ? "−" : ""}${Math.abs(100 * moved).toFixed(0)}`,
                  ),
                  make("span", {}, text, kind === "exact" ? make("small", {}, ` (${say("exact")})`) : ""),
                ),
              ),
          ),
      note(facts.stand_in ? say("why_note", standInWords()) : say("why_note_exact")),
    );
  });
  return update;
}

const standInWords = () => ({
  error: (100 * facts.stand_in.error).toFixed(1),
  size: (100 * facts.stand_in.size).toFixed(1),
  explained: Math.round(100 * facts.stand_in.explained),
  n: facts.stand_in.n_tried.toLocaleString("en"),
});
