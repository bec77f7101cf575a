"use strict";
// The panel of what was seen: ticks, what they changed, and what to look for next.

function sawPanel(panel) {
  const told = make("ul", { class: "species told", "aria-label": say("saw_told") }),
    next = make("ul", { class: "species next", "aria-label": say("saw_next") });
  const list = make("ul", { class: "species", "aria-label": say("saw_list") }),
    search = searchBox("saw-search", () => update(state, state));
  const where = make("p", { class: "where" }),
    nextTitle = heading(say("saw_next"), 3),
    effect = make("p", { class: "effect", role: "status" });
  panel.append(
    heading(say("saw_title")),
    note(say("saw_intro")),
    where,
    choices(
      "scope",
      [
        ["map", say("scope_map")],
        ["place", say("scope_place")],
      ],
      state.scope,
      (scope) => change({ scope }),
    ),
    told,
    effect,
    nextTitle,
    note(say("saw_next_note")),
    next,
    heading(say("saw_list"), 3),
    search,
    list,
    facts.law.voices ? "" : note(say("no_law"), "warning"),
  );
  const update = latest(async (isLast) => {
    byId(`scope-${state.scope}`).checked = true;
    where.textContent = state.place < 0 ? say("saw_middle") : nameOf(state.place);
    const question = questionHere(),
      { probs, before } = await engine.ask({ what: "place", ...question });
    if (!isLast()) return;
    fill(
      told,
      state.told.map(([label, value]) =>
        speciesRow(label, { extra: say("was", { p: percent(before[label]), what: say(value ? "seen" : "not_seen") }) }),
      ),
    );
    const a = richness(before),
      b = richness(probs);
    effect.textContent = state.told.length
      ? say("saw_effect", { before: a.mean.toFixed(1), after: b.mean.toFixed(1) })
      : "";
    fill(
      list,
      byName()
        .filter((label) => matches(label, search.value))
        .map((label) => speciesRow(label, { p: probs[label], before: before[label] })),
    );
    const gains = await engine.ask({ what: "next", ...question });
    if (!isLast() || !gains) return;
    const order = [...gains.keys()]
      .filter((label) => toldOf(label) === undefined)
      .sort((x, y) => gains[y] - gains[x])
      .slice(0, 6);
    fill(
      next,
      order.map((label) => {
        const row = speciesRow(label, {
          p: gains[label] / Math.max(gains[order[0]], 1e-9),
          extra: percent(probs[label]),
        });
        row.querySelector(".meter").title = say("bits", { n: gains[label].toFixed(3) });
        return row;
      }),
    );
  });
  return update;
}
