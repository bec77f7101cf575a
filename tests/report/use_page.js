// Uses the page as a reader would and notes what happened; the tests put it at the end of a page.
(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("content").textContent);
  const last = data.names[data.names.length - 1];
  const type = (id, value) => {
    $(id).value = value;
    $(id).dispatchEvent(new Event("input"));
  };
  const result = { charts: {} };
  try {
    window.dispatchEvent(new Event("beforeprint")); // draws what is not in sight
    for (const chart of document.querySelectorAll(".chart")) result.charts[chart.id] = chart.querySelectorAll("svg *").length;
    const cells = (number) => [...$("label-table").tBodies[0].rows].map((row) => row.cells[number].textContent);
    const buttons = $("label-table").querySelectorAll("th button");
    buttons[1].click();
    result.sortedDown = cells(1);
    buttons[1].click();
    result.sortedUp = cells(1);
    buttons[0].click();
    type("label-search", last);
    result.filtered = cells(0);
    type("label-search", "");
    result.all = cells(0);
    if ($("network-slider")) {
      const lines = () => [...$("network-drawing-chart").querySelectorAll("line")].map((line) => `${line.getAttribute("class")} ${line.getAttribute("stroke-width")}`);
      result.network = [];
      for (let at = 0; at <= Number($("network-slider").max); at++) {
        type("network-slider", at);
        result.network.push({ where: $("network-where").textContent, lines: lines() });
      }
      type("network-label", data.names[data.network.edges[0][0]]);
      result.focus = [...$("network-table").tBodies[0].rows].map((row) => [row.cells[0].textContent, row.cells[1].textContent]);
    }
    if (data.map) {
      const fills = () => [...$("map-drawing-chart").querySelectorAll("circle")].map((dot) => dot.getAttribute("fill")).join();
      const before = fills();
      type("map-label", last);
      result.mapChanged = before !== fills();
      result.land = $("map-drawing-chart").querySelectorAll(".land").length;
    }
    const before = $("curve-drawing-chart").innerHTML;
    type("curve-label", last);
    result.curveChanged = before !== $("curve-drawing-chart").innerHTML;
    result.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  } catch (problem) {
    window.problems.push(String(problem));
  }
  result.errors = window.problems;
  const notes = document.createElement("pre");
  notes.id = "notes";
  notes.textContent = JSON.stringify(result);
  document.body.appendChild(notes);
})();
