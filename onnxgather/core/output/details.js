// What a case opens to: its results, its descriptor, its formula, and how to run it again.

function resultList(found) {
  const passed = found.results.filter((r) => r.state === "PASS" && !r.reason);
  const others = found.results.filter((r) => !passed.includes(r));
  const items = others.map((r) =>
    make(
      "li",
      {},
      badge(r.state),
      make("strong", {}, r.lane),
      make(
        "div",
        {},
        r.reason ? make("p", {}, r.found ? `${r.found}: ` : "", r.reason) : null,
        r.source ? make("p", {}, make("code", {}, r.source)) : null,
        r.known ? make("p", {}, linked(r.known)) : null,
        r.nodes ? make("p", { class: "hint" }, `Ran: ${r.nodes}`) : null,
      ),
    ),
  );
  if (passed.length)
    items.push(
      make(
        "li",
        {},
        badge("PASS"),
        make("strong", {}, passed.map((r) => r.lane).join(", ")),
        make(
          "div",
          {},
          [...new Set(passed.map((r) => r.nodes).filter(Boolean))].map((nodes) =>
            make("p", { class: "hint" }, `Ran: ${nodes}`),
          ),
        ),
      ),
    );
  return make("ul", { class: "results" }, items);
}

function factList(found, forbidden) {
  const origin = found.origin.filter(Boolean).join(", ");
  const range = found.inRange ? "all indices are in range" : "an index is out of range";
  const facts = [
    ["Out of range", forbidden ? "" : `${found.policy}; ${range}`],
    ["Program", origin],
    ["Wrapped", found.wrapped ? "between two multiplications by one" : ""],
  ];
  return make(
    "dl",
    { class: "facts" },
    facts
      .filter(([, value]) => value)
      .map(([name, value]) => fact(name, value)),
  );
}

/** Return a row of a list of facts. */
function fact(name, value) {
  return make("div", {}, make("dt", {}, name), make("dd", {}, value));
}

function detailSections(detail, found, lane) {
  const types = { data: found.type, index: found.indexType };
  const lanes = Object.fromEntries(laneFirst(Object.entries(detail.picture.lanes ?? {}), lane));
  const sections = [pictureSection({ ...detail.picture, lanes }, types, detail.answers, detail.note)];
  if (detail.descriptor) {
    sections.push(
      make("div", { class: "beside" }, descriptorSection(detail), formulaSection(detail)),
    );
    sections.push(...detail.graphs.map(graphSection));
  } else {
    sections.push(
      make("section", {}, make("h3", {}, "Node that ONNX forbids"), fieldTable(detail.node)),
    );
  }
  return sections;
}

/** Return sections that are folded below a line. */
function foldedSections(title, sections) {
  const summary = make("summary", {}, make("span", { class: "badges" }, title));
  return make("details", { class: "folded" }, summary, make("div", { class: "body" }, sections));
}

/** Return entries by lanes with that of a lane before the others. */
function laneFirst(entries, lane) {
  return [...entries].sort(([a], [b]) => (b === lane) - (a === lane));
}

function descriptorSection(detail) {
  return make(
    "section",
    {},
    make("h3", {}, detail.descriptor.type, make("small", {}, ` feature level ${detail.level}`)),
    fieldTable(detail.descriptor.desc),
  );
}

function fieldTable(fields) {
  return make(
    "dl",
    { class: "fields" },
    Object.entries(fields).map(([name, value]) => fact(name, fieldValue(value))),
  );
}

function fieldValue(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value))
    return spaced(value);
  return fieldTable(value);
}

function spaced(value) {
  return typeof value === "string" ? value : JSON.stringify(value).replaceAll(",", ", ");
}

function formulaSection({ formula }) {
  return make(
    "section",
    {},
    make("h3", {}, "Formula"),
    make("p", {}, make("code", {}, formula.equation)),
    formula.coordinates ? make("p", {}, make("code", {}, formula.coordinates)) : null,
    formula.bounds ? make("p", {}, make("code", {}, formula.bounds)) : null,
    make("p", { class: "hint" }, formula.range),
  );
}

function copyButton(text) {
  const copy = make(
    "button",
    {
      type: "button",
      click: async () => {
        try {
          await navigator.clipboard.writeText(text);
          copy.textContent = "Copied";
        } catch {
          // a browser that lets no page copy: the text is selected for the keys that do
          getSelection().selectAllChildren(copy.previousElementSibling);
          copy.textContent = "Press Ctrl+C";
        }
      },
    },
    "Copy",
  );
  return copy;
}

/** What a command leaves open: an interpreter, or the library of a provider from a plugin. */
function moreOf(command) {
  const python = " PYTHON is the interpreter of the lane's environment.";
  const plugin = " A provider from a plugin needs --plugin too.";
  return (/=PYTHON\b/.test(command) ? python : "") + (/ExecutionProvider/.test(command) ? plugin : "");
}

function againSection(command) {
  return commandSection(
    "Run again",
    `Checks this case alone, with the lane.${moreOf(command)}`,
    command,
  );
}

function reproSection(command) {
  return commandSection(
    "Reproduce",
    "Makes a folder with the smallest model that still shows it. REPORT.json is what " +
      `--json wrote.${moreOf(command)}`,
    command,
  );
}

function commandSection(title, hint, command) {
  return make(
    "section",
    { class: "repro" },
    make("h3", {}, title),
    make("p", { class: "hint" }, hint),
    pasted(command),
  );
}

/** Return a command to paste, with a button that copies it. */
function pasted(command) {
  return make("div", {}, make("pre", { tabindex: 0 }, command), copyButton(command));
}
