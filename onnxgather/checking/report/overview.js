// Above the list: the lanes, the files that could not be checked, and the matrix.

function showLanes() {
  document.getElementById("made").textContent =
    `${report.onnxgather} · ${report.made} · ${report.machine}`;
  document.getElementById("lanes").append(...report.lanes.map(laneItem));
  const states = Object.keys(countOf(cases.flatMap((found) => found.results)));
  document
    .getElementById("meanings")
    .append(...states.map((state) => fact(badge(state), MEANINGS[state])));
  const files = document.getElementById("files");
  const bad = [
    ...report.invalid.map((found) => `${found.file}: ${found.reason}`),
    ...report.unusable,
  ];
  files.hidden = !bad.length;
  files.querySelector("ul").append(...bad.map((text) => make("li", {}, text)));
}

/** Show why results are not PASS, each cause with a button that lists its cases. */
function showCauses() {
  const section = document.getElementById("causes");
  section.hidden = !report.causes.length;
  const items = report.causes.slice(0, PAGE).map(([state, lane, reason, numbers], number) =>
    make(
      "li",
      {},
      make(
        "button",
        { type: "button", class: state, click: () => chooseCause(number) },
        badge(state, `${state} `),
        counted(numbers.length, "case"),
      ),
      make("strong", {}, lane),
      make("p", {}, linked(reason)),
    ),
  );
  const rest = report.causes.length - items.length;
  if (rest) items.push(make("li", {}, `… and ${counted(rest, "more cause")}: filter the cases below`));
  section.querySelector("ul").append(...items);
}

function laneItem(lane, number) {
  const counts = countOf(cases.map((found) => found.results[number]));
  const versions = Object.entries(lane.versions ?? {}).map(
    ([name, version]) => `${name} ${version}`,
  );
  const target = lane.target ? `target ${lane.target}` : "";
  const devices = (lane.devices ?? []).join(", ");
  const interpreter = lane.python ? `interpreter ${lane.python}` : "";
  const facts = [versions.join(", "), target, devices, interpreter].filter(Boolean);
  const stopped = lane.not_run !== undefined;
  return make(
    "li",
    { class: stopped ? "stopped" : null },
    make("h3", {}, lane.name, lane.required ? make("small", {}, " required") : null),
    make("p", { class: "provider" }, lane.provider),
    facts.map((fact) => make("p", {}, fact)),
    stopped
      ? make("p", { class: "why" }, make("strong", {}, "Did not start. "), linked(lane.not_run))
      : null,
    bar(counts),
    make("p", { class: "counts" }, countsText(counts) || "no cases"),
  );
}

function bar(counts) {
  const parts = Object.entries(counts).map(([state, count]) =>
    make("span", { class: state, style: `flex-grow:${count}` }),
  );
  return make("div", { class: "bar", "aria-hidden": "true" }, parts);
}

function showMatrix(found, wanted) {
  const blocks = unique("operator").map((operator) =>
    matrixBlock(
      operator,
      found.filter((c) => c.operator === operator),
      wanted,
    ),
  );
  document.getElementById("matrix").replaceChildren(...blocks.filter(Boolean));
}

function matrixBlock(operator, found, wanted) {
  if (!found.length) return null;
  const rows = [...new Set(found.map((c) => c.type))].sort().map((type) => {
    const group = found.filter((c) => c.type === type);
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, type),
      report.lanes.map((lane, k) =>
        matrixCell(
          operator,
          type,
          lane.name,
          group.map((c) => c.results[k]),
          wanted,
        ),
      ),
    );
  });
  return make(
    "div",
    { class: "scroll" },
    make(
      "table",
      {},
      make("caption", {}, operator, make("small", {}, ` ${counted(found.length, "case")}`)),
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          make("td"),
          report.lanes.map((lane) => make("th", { scope: "col" }, lane.name)),
        ),
      ),
      make("tbody", {}, rows),
    ),
  );
}

function matrixCell(operator, type, lane, results, wanted) {
  const counts = countOf(results);
  const worst = worstOf(counts);
  const whole = counts[worst] === results.length;
  const on =
    (!wanted.operator || wanted.operator === operator) &&
    (!wanted.type || wanted.type === type) &&
    (!wanted.lane || wanted.lane === lane) &&
    Boolean(wanted.operator || wanted.type || wanted.lane);
  const said = `${lane}, ${operator} ${type}: ${countsText(counts)}`;
  return make(
    "td",
    {},
    make(
      "button",
      {
        type: "button",
        class: worst,
        title: said,
        "aria-label": said,
        "aria-pressed": String(on),
        click: () => (on ? filters.reset() : choose(operator, type, lane, counts)),
      },
      make("span", {}, GLYPHS[worst]),
      ` ${counts[worst]}`,
      whole ? null : make("small", {}, `/${results.length}`),
    ),
  );
}
