"use strict";
// The panel of what can be taken away: tables, a picture, a link, and all about the model.

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

const placeColumns = (place) => [
  place,
  facts.places[place] ?? "",
  ...(arrays.degrees
    ? [0, 1].map((k) => arrays.degrees.values[2 * place + k].toFixed(5))
    : [0, 1].map((k) => arrays.where.values[2 * place + k])),
];
const placeTitles = () => ["place", "name", ...(arrays.degrees ? ["longitude", "latitude"] : ["x", "y"])];

async function savePlace() {
  const { probs, before } = await engine.ask({ what: "place", ...questionHere() });
  const rows = facts.labels.map((name, label) => [
    ...placeColumns(placeNow()),
    name,
    probs[label].toFixed(5),
    before[label].toFixed(5),
    toldOf(label) ?? "",
  ]);
  save(
    "place.csv",
    csv([[...placeTitles(), "species", "probability", "probability_untold", "told"], ...rows]),
    "text/csv",
  );
}

function saveLayer() {
  const rows = [...layer].map((value, place) => [
    ...placeColumns(place),
    value.toFixed(5),
    ...(arrays.inside ? [arrays.inside.values[place]] : []),
  ]);
  save(
    "map.csv",
    csv([[...placeTitles(), layerTitle(), ...(arrays.inside ? ["like_training"] : [])], ...rows]),
    "text/csv",
  );
}

async function saveAll() {
  const probability = await engine.all(),
    parts = [csv([[...placeTitles(), ...facts.labels]])];
  for (let place = 0; place < engine.nPlaces; place++) {
    parts.push(
      csv([[...placeColumns(place), ...facts.labels.map((_, label) => probability(place, label).toFixed(4))]]),
    );
    if (place % 200 === 199) await new Promise((resolve) => setTimeout(resolve));
  }
  save("all_species.csv", new Blob(["\ufeff", ...parts], { type: "text/csv" }));
}

// The map with its title and scale, as a picture.
function savePicture() {
  const source = byId("canvas"),
    dots = view.dots,
    foot = 56 * dots,
    head = 44 * dots,
    picture = make("canvas", { width: source.width, height: source.height + foot + head });
  const context = picture.getContext("2d"),
    style = getComputedStyle(document.documentElement),
    [low, high] = range(),
    scale = Colours.of(state.change);
  context.fillStyle = style.getPropertyValue("--paper");
  context.fillRect(0, 0, picture.width, picture.height);
  context.drawImage(source, 0, head);
  context.fillStyle = style.getPropertyValue("--ink");
  context.font = `600 ${18 * dots}px system-ui, sans-serif`;
  context.fillText(layerTitle(), 14 * dots, 29 * dots);
  const width = 260 * dots,
    top = source.height + head + 12 * dots;
  for (let i = 0; i < 256; i++) {
    context.fillStyle = Colours.css(scale[i]);
    context.fillRect(14 * dots + (i * width) / 256, top, width / 256 + 1, 12 * dots);
  }
  context.fillStyle = style.getPropertyValue("--ink");
  context.font = `${12 * dots}px system-ui, sans-serif`;
  context.fillText(state.kind === "label" ? percent(low) : short(low), 14 * dots, top + 30 * dots);
  context.textAlign = "right";
  context.fillText(state.kind === "label" ? percent(high) : short(high), 14 * dots + width, top + 30 * dots);
  context.fillText(document.title, picture.width - 14 * dots, top + 30 * dots);
  picture.toBlob((blob) => save("map.png", blob), "image/png");
}

function takePanel(panel) {
  const table = (rows) =>
    make(
      "dl",
      {},
      rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))),
    );
  const fold = (title, ...children) => make("details", {}, make("summary", {}, title), ...children);
  const button = (id, text, onclick) => make("button", { type: "button", id, onclick }, text);
  panel.append(
    heading(say("take_title")),
    make(
      "div",
      { class: "downloads" },
      button("save-place", say("save_place"), savePlace),
      button("save-layer", say("save_layer"), saveLayer),
      button("save-all", say("save_all"), saveAll),
      button("save-picture", say("save_picture"), savePicture),
      button("save-link", say("save_link"), share),
    ),
    heading(say("take_cite"), 3),
    make("blockquote", {}, facts.citation || "hotvae"),
    note(say("take_sources")),
    fold(
      say("take_card"),
      table(facts.card),
      make(
        "ul",
        {},
        facts.notes.map((text) => make("li", {}, text)),
      ),
    ),
    fold(
      say("take_exact"),
      note(say("exact_law")),
      facts.stand_in ? note(say("what_honest", standInWords())) : "",
      note(say("exact_richness", { error: facts.spread.error.toFixed(1) })),
      note(say(facts.precision === "float32" ? "exact_float" : "exact_bytes")),
    ),
    fold(
      say("take_recipe"),
      make(
        "ul",
        {},
        facts.recipe.map((line) => make("li", {}, line)),
      ),
    ),
    fold(say("take_settings"), table(facts.settings)),
    fold(
      say("take_versions"),
      table([
        ...facts.versions,
        [say("made"), facts.made],
        ...(facts.command ? [[say("command"), facts.command]] : []),
      ]),
    ),
  );
}
