// The page: lanes, matrix, filters, and the list of cases, each opening to its details.

const PAGE = 100; // rows that the list grows by
const GLYPHS = { PASS: "✓", DIFF: "≠", ERROR: "!", "NOT-RUN": "–", KNOWN: "≈", FIXED: "↑" };
const MEANINGS = {
  PASS: "the reference's data type, shape and bytes",
  DIFF: "something else",
  ERROR: "the provider failed",
  "NOT-RUN": "the provider did not run it",
  KNOWN: "wrong, as is known and explained",
  FIXED: "passes, although listed as a known difference",
};

const report = JSON.parse(document.getElementById("report").textContent);
const cases = report.cases.map(readCase);
const filters = document.getElementById("filters");
const list = document.getElementById("list");

function readCase(row) {
  const text = (number) => report.texts[number];
  const [name, operator, type, indexType, dimensions, policy, inRange, wrapped, file, command,
    dispatchable, detail, results] = row;
  return {
    name, dimensions, detail, inRange, wrapped,
    operator: text(operator), type: text(type), indexType: text(indexType), policy: text(policy),
    place: [text(file), text(command), text(dispatchable)],
    results: results.map((found, k) => {
      const [state, reason, nodes, known, without, source] = [found].flat();
      return { lane: report.lanes[k].name, number: k, state: report.states[state],
        reason: text(reason ?? 0), nodes: text(nodes ?? 0), known: text(known ?? 0),
        found: text(without ?? 0), source: text(source ?? 0) };
    }),
  };
}

// Lanes and files

function showLanes() {
  document.getElementById("made").textContent = `${report.onnxgather} · ${report.made} · ${report.machine}`;
  document.getElementById("lanes").append(...report.lanes.map(laneItem));
  const files = document.getElementById("files");
  const bad = [...report.invalid.map((found) => `${found.file}: ${found.reason}`), ...report.unusable];
  files.hidden = !bad.length;
  files.querySelector("ul").append(...bad.map((text) => make("li", {}, visible(text))));
}

function laneItem(lane, number) {
  const counts = countOf(cases.map((found) => found.results[number]));
  const versions = Object.entries(lane.versions ?? {}).map(([name, version]) => `${name} ${version}`);
  const facts = [versions.join(", "), (lane.devices ?? []).join(", "), lane.python ?? ""].filter(Boolean);
  const stopped = lane.not_run !== undefined;
  return make("li", { class: stopped ? "stopped" : null },
    make("h3", {}, visible(lane.name), lane.required ? make("small", {}, " required") : null),
    make("p", { class: "provider" }, visible(lane.provider)),
    facts.map((fact) => make("p", {}, visible(fact))),
    stopped ? make("p", { class: "why" }, make("strong", {}, "Did not start. "), linked(lane.not_run)) : null,
    bar(counts), make("p", { class: "counts" }, countsText(counts) || "no cases"));
}

function bar(counts) {
  const parts = Object.entries(counts).map(([state, count]) =>
    make("span", { class: state, style: `flex-grow:${count}` }));
  return make("div", { class: "bar", "aria-hidden": "true" }, parts);
}

/** Return how many results have each state, the states in the report's order. */
function countOf(results) {
  const counts = {};
  for (const { state } of results) counts[state] = (counts[state] ?? 0) + 1;
  return Object.fromEntries(report.states.filter((s) => counts[s]).map((s) => [s, counts[s]]));
}

function countsText(counts) {
  return Object.entries(counts).map(([state, n]) => `${n.toLocaleString("en")} ${state}`).join(", ");
}

function worstOf(counts) {
  return report.worst.findLast((state) => counts[state]);
}

function badge(state, text) {
  return make("span", { class: `badge ${state}`, title: MEANINGS[state] }, `${GLYPHS[state]} ${text ?? state}`);
}

// Filters

function showFilters() {
  const counts = countOf(cases.flatMap((found) => found.results));
  document.getElementById("states").append(...Object.keys(counts).map((state) => make("label", { class: state, title: MEANINGS[state] },
    make("input", { type: "checkbox", name: "state", value: state, checked: report.bad.includes(state) }),
    ` ${GLYPHS[state]} ${state} `, make("small", {}, counts[state].toLocaleString("en")))));
  const options = {
    lane: report.lanes.map((lane) => lane.name),
    operator: unique("operator"), type: unique("type"), policy: unique("policy"),
  };
  for (const [name, values] of Object.entries(options))
    filters.elements[name].append(make("option", { value: "" }, "any"),
      ...values.map((value) => make("option", { value }, visible(value))));
}

function unique(field) {
  return [...new Set(cases.map((found) => found[field]))].sort();
}

function chosen() {
  const { lane, operator, type, policy, text } = filters.elements;
  const states = [...filters.querySelectorAll("[name=state]:checked")].map((box) => box.value);
  return { states: new Set(states), lane: lane.value, operator: operator.value, type: type.value,
    policy: policy.value, text: text.value.trim().toLowerCase() };
}

/** Return the cases of a policy that hold a text: those that the matrix counts. */
function ofPolicyAndText(wanted) {
  return cases.filter((found) => (!wanted.policy || found.policy === wanted.policy)
    && (!wanted.text || searched(found).includes(wanted.text)));
}

function searched(found) {
  found.searched ??= [found.name, found.indexType, found.wrapped ? "wrapped" : "",
    ...found.results.flatMap((r) => [r.reason, r.known, r.nodes])].join("\n").toLowerCase();
  return found.searched;
}

/** Return the results of a case that are asked for. */
function matching(found, wanted) {
  if (wanted.operator && found.operator !== wanted.operator) return [];
  if (wanted.type && found.type !== wanted.type) return [];
  return found.results.filter((r) => wanted.states.has(r.state) && (!wanted.lane || r.lane === wanted.lane));
}

// The matrix

function showMatrix(found, wanted) {
  const blocks = unique("operator").map((operator) => matrixBlock(operator, found.filter((c) => c.operator === operator), wanted));
  document.getElementById("matrix").replaceChildren(...blocks.filter(Boolean));
}

function matrixBlock(operator, found, wanted) {
  if (!found.length) return null;
  const types = Map.groupBy ? Map.groupBy(found, (c) => c.type) : grouped(found);
  const rows = [...types].sort(([a], [b]) => (a < b ? -1 : 1)).map(([type, group]) => make("tr", {},
    make("th", { scope: "row" }, type),
    report.lanes.map((lane, k) => matrixCell(operator, type, lane.name, group.map((c) => c.results[k]), wanted))));
  return make("div", { class: "scroll" }, make("table", {},
    make("caption", {}, operator, make("small", {}, ` ${counted(found.length, "case")}`)),
    make("thead", {}, make("tr", {}, make("td"), report.lanes.map((lane) => make("th", { scope: "col" }, visible(lane.name))))),
    make("tbody", {}, rows)));
}

function matrixCell(operator, type, lane, results, wanted) {
  const counts = countOf(results);
  const worst = worstOf(counts);
  const whole = counts[worst] === results.length;
  const on = (!wanted.operator || wanted.operator === operator) && (!wanted.type || wanted.type === type)
    && (!wanted.lane || wanted.lane === lane) && (wanted.operator || wanted.type || wanted.lane);
  const said = `${lane}, ${operator} ${type}: ${countsText(counts)}`;
  return make("td", {}, make("button", { type: "button", class: worst, title: said, "aria-label": said,
    "aria-pressed": String(Boolean(on)), click: () => choose(operator, type, lane, counts) },
  make("span", {}, GLYPHS[worst]), ` ${counts[worst]}`, whole ? null : make("small", {}, `/${results.length}`)));
}

/** List the cases of a cell: what did not pass, or all where all did. */
function choose(operator, type, lane, counts) {
  const states = Object.keys(counts).filter((state) => state !== "PASS");
  for (const box of filters.querySelectorAll("[name=state]"))
    box.checked = states.length ? states.includes(box.value) : box.value === "PASS";
  Object.assign(filters.elements.lane, { value: lane });
  Object.assign(filters.elements.operator, { value: operator });
  Object.assign(filters.elements.type, { value: type });
  update();
  document.getElementById("browse").scrollIntoView({ block: "start" });
  document.getElementById("shown").focus();
}

// The list

let rows = [];

function update() {
  const wanted = chosen();
  const found = ofPolicyAndText(wanted);
  showMatrix(found, wanted);
  rows = found.map((c) => [c, matching(c, wanted)]).filter(([, results]) => results.length);
  list.replaceChildren();
  const results = rows.reduce((sum, [, matched]) => sum + matched.length, 0);
  document.getElementById("shown").textContent = rows.length
    ? `${counted(results, "result")} in ${counted(rows.length, "case")}`
    : emptyText(wanted);
  grow();
}

function emptyText(wanted) {
  const narrowed = wanted.lane || wanted.operator || wanted.type || wanted.policy || wanted.text;
  if (!cases.length) return "There are no cases.";
  if (!narrowed && !wanted.states.size) return "Nothing needs a look. Choose states above to see the cases.";
  return narrowed ? "No result fits these filters." : "No result has these states. Choose others above to see the rest.";
}

function grow() {
  const shown = list.childElementCount;
  list.append(...rows.slice(shown, shown + PAGE).map(caseItem));
  document.getElementById("further").hidden = list.childElementCount >= rows.length;
}

function caseItem([found, matched]) {
  const [first] = matched;
  const item = make("details", { toggle: () => open(item, found) },
    make("summary", {},
      make("span", { class: "badges" }, matched.map((r) => badge(r.state, visible(r.lane)))),
      make("span", { class: "name" }, visible(found.name), found.wrapped ? make("small", {}, " wrapped") : null),
      make("span", { class: "reason" }, visible(first.reason ?? first.known ?? ""))));
  return item;
}

async function open(item, found) {
  if (!item.open || item.children.length > 1) return;
  const body = make("div", { class: "body" });
  item.append(body);
  body.append(resultList(found), factList(found));
  const detail = await detailOf(found).catch((error) => ({ failed: String(error) }));
  if (detail?.failed) body.append(make("p", {}, `The details cannot be unpacked: ${detail.failed}`));
  else if (detail) body.append(...detailSections(detail, found));
  else body.append(make("p", { class: "hint" }, noDetail(found)));
  body.append(reproSection(found));
}

function noDetail(found) {
  return found.results.every((r) => r.state === "PASS")
    ? "All lanes passed, so the report holds no arrays of this case."
    : "The report holds no arrays of this case: they exceed 1 MiB, or only lanes that did not start lack it.";
}

const chunks = new Map();

/** Return the details of a case, unpacking the chunk that holds them; null if there are none. */
async function detailOf(found) {
  if (found.detail < 0) return null;
  const number = Math.floor(found.detail / report.chunk);
  if (!chunks.has(number)) chunks.set(number, unpacked(report.details[number]));
  return (await chunks.get(number))[found.detail % report.chunk];
}

async function unpacked(base64) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

// The details

function resultList(found) {
  const passed = found.results.filter((r) => r.state === "PASS" && !r.reason);
  const others = found.results.filter((r) => !passed.includes(r));
  const items = others.map((r) => make("li", {}, badge(r.state), make("strong", {}, visible(r.lane)),
    make("div", {},
      r.reason ? make("p", {}, r.found ? `${r.found}: ` : "", visible(r.reason)) : null,
      r.source ? make("p", {}, make("code", {}, visible(r.source))) : null,
      r.known ? make("p", {}, linked(r.known)) : null,
      r.nodes ? make("p", { class: "hint" }, `Ran on the provider: ${visible(r.nodes)}`) : null)));
  if (passed.length) items.push(make("li", {}, badge("PASS"), make("strong", {}, passed.map((r) => visible(r.lane)).join(", ")),
    make("div", {}, [...new Set(passed.map((r) => r.nodes).filter(Boolean))].map((nodes) => make("p", { class: "hint" }, `Ran on the provider: ${visible(nodes)}`)))));
  return make("ul", { class: "results" }, items);
}

function factList(found) {
  const place = found.place.filter(Boolean).map(visible).join(", ");
  const range = found.inRange ? "all indices are in range" : "an index is out of range";
  const facts = [["Out of range", `${found.policy}; ${range}`], ["Program", place],
    ["Wrapped", found.wrapped ? "between two multiplications by one" : ""]];
  return make("dl", { class: "facts" }, facts.filter(([, value]) => value).map(([name, value]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

function detailSections(detail, found) {
  const types = { data: found.type, index: found.indexType };
  const sections = [pictureSection(detail.picture, types)];
  if (detail.descriptor) {
    sections.push(make("div", { class: "beside" }, descriptorSection(detail), formulaSection(detail)));
    sections.push(...detail.graphs.map(graphSection));
  } else {
    sections.push(make("section", {}, make("h3", {}, "Node that ONNX forbids"), fieldTable(detail.bare)));
  }
  return sections;
}

function descriptorSection(detail) {
  return make("section", {}, make("h3", {}, detail.descriptor.type, make("small", {}, ` feature level ${detail.level}`)),
    fieldTable(detail.descriptor.desc));
}

function fieldTable(fields) {
  return make("dl", { class: "fields" }, Object.entries(fields).map(([name, value]) => make("div", {},
    make("dt", {}, name), make("dd", {}, fieldValue(value)))));
}

function fieldValue(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return visible(spaced(value));
  return fieldTable(value);
}

function spaced(value) {
  return typeof value === "string" ? value : JSON.stringify(value).replaceAll(",", ", ");
}

function formulaSection({ formula }) {
  return make("section", {}, make("h3", {}, "Formula"),
    make("p", {}, make("code", {}, formula.equation)),
    formula.coordinates ? make("p", {}, make("code", {}, formula.coordinates)) : null,
    formula.bounds ? make("p", {}, make("code", {}, formula.bounds)) : null,
    make("p", { class: "hint" }, formula.range));
}

function reproSection(found) {
  const command = `onnxgather repro REPORT.json --case '${found.name.replaceAll("'", "'\\''")}'`;
  const copy = make("button", { type: "button", click: async () => {
    await navigator.clipboard.writeText(command);
    copy.textContent = "Copied";
  } }, "Copy");
  return make("section", { class: "repro" }, make("h3", {}, "Reproduce"),
    make("p", { class: "hint" }, "Makes a folder with the smallest model that still shows it; REPORT.json is what --json wrote."),
    make("div", {}, make("pre", { tabindex: 0 }, visible(command)), copy));
}

showLanes();
showFilters();
update();
filters.addEventListener("input", update);
filters.addEventListener("submit", (event) => event.preventDefault());
filters.addEventListener("reset", () => setTimeout(update));
const further = document.getElementById("further");
further.addEventListener("click", grow);
new IntersectionObserver(([entry]) => entry.isIntersecting && grow(), { rootMargin: "600px" }).observe(further);
