"use strict";
// The panel of sliders: covariates moved everywhere.

function whatPanel(panel) {
  panel.append(heading(say("what_title")), note(say("what_intro")));
  if (!facts.stand_in) return void panel.append(note(say("what_none"), "warning"));
  const effect = make("p", { class: "effect", role: "status" }),
    beyond = make("p", { class: "note" });
  const rows = [];
  let before = null;
  const byOf = (which) => state.shifts.find(([other]) => other === which)?.[1] ?? 0;
  facts.covariates.forEach((covariate, which) => {
    if (!covariate.outs.length) return;
    const reach = facts.slider_reach * (covariate.high - covariate.low);
    const input = make("input", {
      type: "range",
      min: -reach,
      max: reach,
      step: reach / 50 || 1,
      id: `move-${which}`,
      "aria-describedby": `moved-${which}`,
    });
    const told = make("output", { id: `moved-${which}`, for: `move-${which}` });
    input.addEventListener("input", () => {
      before ??= state;
      const by = Math.abs(+input.value) < reach / 60 ? 0 : +input.value,
        shifts = state.shifts.filter(([other]) => other !== which);
      change({ shifts: by ? [...shifts, [which, by]] : shifts, change: true }, { undoable: false });
    });
    input.addEventListener("change", () => {
      if (before) past.push(before);
      before = null;
      byId("undo").disabled = !past.length;
    });
    rows.push({ which, covariate, input, told, reach });
    panel.append(
      make(
        "div",
        { class: "slider" },
        make("label", { for: `move-${which}` }, nice(covariate.name)),
        told,
        make("div", { class: "track" }, make("span", { class: "within", "aria-hidden": "true" }), input),
      ),
    );
  });
  const V = facts.covariates.length;
  panel.append(
    make("p", { class: "key" }, make("span", { class: "stroke within" }), say("what_range")),
    effect,
    beyond,
    make(
      "div",
      { class: "buttons" },
      make("button", { type: "button", onclick: () => change({ shifts: [], change: false }) }, say("what_reset")),
      check(say("change_mask"), state.change, (isOn) => change({ change: isOn }), "what-change"),
    ),
    note(say("what_honest", standInWords()), "warning"),
  );
  return latest(async (isLast) => {
    const here = placeNow();
    for (const { which, covariate, input, told, reach } of rows) {
      const by = byOf(which),
        value = arrays.covariates.values[here * V + which];
      if (document.activeElement !== input || before === null) input.value = by;
      told.textContent = by
        ? say("what_moved", {
            from: short(value),
            to: short(Math.min(Math.max(value + by, Math.min(covariate.low, value)), Math.max(covariate.high, value))),
            by: `${by > 0 ? "+" : "−"}${short(Math.abs(by))}`,
          })
        : short(value);
      const ends = [covariate.low - value, covariate.high - value].map((end) =>
        Math.min(1, Math.max(0, (end + reach) / (2 * reach || 1))),
      );
      Object.assign(input.previousSibling.style, { left: `${100 * ends[0]}%`, right: `${100 * (1 - ends[1])}%` });
    }
    byId("what-change").checked = state.change;
    let left = 0;
    if (state.shifts.length)
      for (let place = 0; place < engine.nPlaces; place++) {
        if (
          state.shifts.some(([which, by]) => {
            const moved = arrays.covariates.values[place * V + which] + by;
            return moved < facts.covariates[which].low || moved > facts.covariates[which].high;
          })
        )
          left++;
      }
    beyond.textContent = left
      ? say("what_beyond", { n: left.toLocaleString("en"), all: engine.nPlaces.toLocaleString("en") })
      : "";
    const { probs, before: today } = await engine.ask({ what: "place", ...questionHere() });
    if (!isLast()) return;
    effect.textContent = state.shifts.length
      ? say("what_effect", {
          where: state.place < 0 ? say("in_the_middle") : nameOf(state.place),
          before: richness(today).mean.toFixed(1),
          after: richness(probs).mean.toFixed(1),
        })
      : "";
  });
}
