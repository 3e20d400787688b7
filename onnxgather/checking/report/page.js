// The page: filters, which the address keeps, causes, and the list of cases, each opening to its details.

const PAGE = 100; // rows that the list grows by
const MOST_CAUSES = 20;
const MOST_OPENED = 5; // causes whose smallest case can be seen at once
const filters = document.getElementById("filters");
const list = document.getElementById("list");
const narrowing = ["group", "lane", "operator", "type", "policy", "text"]; // beside the states

// Filters

function showFilters() {
  const counts = countOf(cases.flatMap((found) => found.results));
  document.getElementById("meanings").append(
    ...Object.keys(counts).map((state) => fact(badge(state), MEANINGS[state])),
  );
  document.getElementById("states").append(
    ...Object.keys(counts).map((state) =>
      make(
        "label",
        { class: state, title: MEANINGS[state] },
        make("input", {
          type: "checkbox",
          name: "state",
          value: state,
          checked: report.bad.includes(state),
        }),
        ` ${GLYPHS[state]} ${state} `,
        make("small", {}, counts[state].toLocaleString("en")),
      ),
    ),
  );
  const options = {
    group: groupKeys(),
    lane: report.lanes.map((lane) => lane.name),
    operator: unique("operator"),
    type: unique("type"),
    policy: unique("policy"),
  };
  for (const [name, values] of Object.entries(options))
    filters.elements[name].append(
      make("option", { value: "" }, "any"),
      ...values.map((value) => make("option", { value }, value)),
    );
}

function unique(field) {
  return [...new Set(cases.map((found) => found[field]))].sort();
}

/** Return the keys of all groups, each before those of its parts. */
function groupKeys() {
  const keys = [];
  for (const group of groups.values())
    keys.push(group.key, ...[...group.parts.values()].map((part) => part.key));
  return keys;
}

function chosen() {
  const { group, lane, operator, type, policy, text } = filters.elements;
  const states = [...filters.querySelectorAll("[name=state]:checked")].map((box) => box.value);
  return {
    states: new Set(states),
    group: group.value,
    lane: lane.value,
    operator: operator.value,
    type: type.value,
    policy: policy.value,
    text: text.value.trim().toLowerCase(),
  };
}

/** Return the cases that are asked for, each with its results that are, whatever their states. */
function narrowed(wanted) {
  return cases.filter((found) => fits(found, wanted)).map((found) => [
    found,
    found.results.filter((result) => !wanted.lane || result.lane === wanted.lane),
  ]);
}

function fits(found, wanted) {
  return (
    (!wanted.group || found.group === wanted.group || keyOfPart(found) === wanted.group) &&
    (!wanted.operator || found.operator === wanted.operator) &&
    (!wanted.type || found.type === wanted.type) &&
    (!wanted.policy || found.policy === wanted.policy) &&
    (!wanted.text || searched(found).includes(wanted.text))
  );
}

function searched(found) {
  found.searched ??= [
    found.name,
    found.indexType,
    found.wrapped ? "wrapped" : "",
    ...found.results.flatMap((r) => [r.reason, r.known, r.nodes]),
  ]
    .join("\n")
    .toLowerCase();
  return found.searched;
}

/** Show what a cell counts: the causes of what did not pass, and the cases. */
function choose(group, lane, counts) {
  const states = Object.keys(counts).filter((state) => state !== "PASS");
  tick((box) => (states.length ? states.includes(box.value) : box.value === "PASS"));
  for (const name of narrowing) filters.elements[name].value = "";
  Object.assign(filters.elements.lane, { value: lane });
  Object.assign(filters.elements.group, { value: group });
  cause = null;
  update();
  document.getElementById("causes").scrollIntoView({ block: "start" });
  document.getElementById("causes-title").focus({ preventScroll: true });
}

// Causes

let causesShown = null; // what the causes are those of

/** Show why results are not PASS, each cause with its smallest case. */
function showCauses(found, wanted) {
  const { states: _, ...narrow } = wanted;
  const shown = JSON.stringify(narrow);
  // The same causes stay as they are, with what is open in them.
  if (causesShown === shown) return;
  causesShown = shown;
  const ofCell = Object.values(narrow).some(Boolean);
  const results = found.flatMap(([, matched]) => matched);
  const section = document.getElementById("causes");
  const sorted = causesOf(found);
  section.hidden = !sorted.length && !ofCell;
  document.getElementById("causes-title").textContent = ofCell
    ? visible(titleOf(narrow))
    : "What is not PASS, by cause";
  const counts = countOf(results);
  const passed = (counts.PASS ?? 0).toLocaleString("en");
  section.querySelector(".hint").textContent = ofCell
    ? `${passed} of ${counted(results.length, "result")} passed.`
    : "";
  const items = sorted.slice(0, MOST_CAUSES).map(causeItem);
  const rest = sorted.length - items.length;
  if (rest) items.push(make("li", {}, `… and ${counted(rest, "more cause")}: filter the cases below`));
  section.querySelector("ul").replaceChildren(...items);
  for (const [k, item] of items.slice(0, MOST_OPENED).entries()) {
    const { number } = sorted[k] ?? {};
    const isBad = report.bad.includes(report.causes[number]?.state);
    const details = item.querySelector("details");
    // The first says why it has no picture, if it has none.
    const isShown = k === 0 || smallestOf[number]?.detail !== undefined;
    if (details && isShown && (ofCell || isBad)) details.open = true;
  }
}

/** Return what is chosen, in words. */
function titleOf({ lane, ...others }) {
  const what = Object.values(others).filter(Boolean).join(", ") || "All cases";
  return lane ? `${what} on ${lane}` : what;
}

function causeItem({ number, count, smallest }) {
  const { state, lane, words, why } = report.causes[number];
  const { name } = report.lanes[lane];
  const drawn = smallest.detail === undefined ? smallestOf[number] : smallest;
  return make(
    "li",
    {},
    make(
      "p",
      {},
      badge(state, state === "KNOWN" ? "KNOWN" : `${state}: ${words}`),
      " ",
      make("strong", {}, name),
      " ",
      make(
        "button",
        { type: "button", class: state, click: () => chooseCause(number) },
        counted(count, "case"),
      ),
    ),
    make("p", {}, linked(why)),
    report.lanes[lane].not_run === undefined
      ? caseDetails(drawn, name, smallestSummary(drawn))
      : null,
  );
}

function smallestSummary({ name }) {
  const text = make("span", {}, make("small", {}, "smallest case "), name);
  return [make("span", { class: "badges" }), text];
}

// The list

let rows = [];
let cause = null; // the number of a chosen cause
const smallestOf = []; // the smallest case of each cause

/** List the cases of a cause, of those that are chosen. */
function chooseCause(number) {
  const { state, lane } = report.causes[number];
  cause = number;
  tick((box) => box.value === state);
  filters.elements.lane.value = report.lanes[lane].name;
  update();
  document.getElementById("browse").scrollIntoView({ block: "start" });
  document.getElementById("shown").focus({ preventScroll: true });
}

function update() {
  const wanted = chosen();
  const found = narrowed(wanted);
  writeAddress(wanted);
  markChosen();
  // A chosen cause narrows the list alone.
  if (cause === null || causesShown === null) showCauses(found, wanted);
  const isListed = (result) =>
    wanted.states.has(result.state) && (cause === null || result.cause === cause);
  rows = found.map(([c, results]) => [c, results.filter(isListed)]);
  rows = rows.filter(([, results]) => results.length);
  list.replaceChildren();
  const results = rows.reduce((sum, [, matched]) => sum + matched.length, 0);
  const ofCause = cause === null ? "" : ` of the cause: ${report.causes[cause].why}`;
  const told = `${counted(results, "result")} in ${counted(rows.length, "case")}${ofCause}`;
  document.getElementById("shown").textContent = visible(told);
  if (!rows.length) tellNone(wanted, found);
  grow();
}

/** Say why the list is empty. */
function tellNone(wanted, found) {
  const counts = countOf(found.flatMap(([, results]) => results));
  const isBad = report.bad.some((state) => state in counts);
  // A page without findings has no state to choose at first.
  const states = wanted.states.size || isBad ? [...wanted.states] : report.bad;
  if (cases.length) tellEmpty(counts, states, update);
  else document.getElementById("shown").textContent = "There are no cases.";
}

function tick(isWanted) {
  for (const box of filters.querySelectorAll("[name=state]")) box.checked = isWanted(box);
}

/** Write the filters that differ from those of a new page into the address. */
function writeAddress(wanted) {
  const kept = new URLSearchParams();
  const boxes = [...filters.querySelectorAll("[name=state]")];
  if (boxes.some((box) => box.checked !== box.defaultChecked))
    kept.set("states", [...wanted.states].join(" "));
  for (const name of narrowing)
    if (filters.elements[name].value) kept.set(name, filters.elements[name].value);
  if (cause !== null) kept.set("cause", cause);
  history.replaceState(null, "", `#${kept}`);
}

/** Set the filters that the address has. */
function readAddress() {
  const kept = new URLSearchParams(location.hash.slice(1));
  const states = kept.get("states")?.split(" ");
  const number = Number.parseInt(kept.get("cause"), 10);
  cause = number in report.causes ? number : null;
  tick((box) => (states ? states.includes(box.value) : box.defaultChecked));
  for (const name of narrowing) fill(filters.elements[name], kept.get(name));
  update();
}

function grow() {
  const shown = list.childElementCount;
  list.append(...rows.slice(shown, shown + PAGE).map(caseItem));
  document.getElementById("further").hidden = list.childElementCount >= rows.length;
}

function caseItem([found, matched]) {
  const [first] = matched;
  return caseDetails(found, first.lane, [
    make(
      "span",
      { class: "badges" },
      matched.map((r) => badge(r.state, r.lane)),
    ),
    make(
      "span",
      { class: "name" },
      found.name,
      found.wrapped ? make("small", {}, " wrapped") : null,
    ),
    make("span", { class: "reason" }, first.reason ?? first.known ?? ""),
  ]);
}

/** Return a case that opens to its details, of which those of a lane come first. */
function caseDetails(found, lane, summary) {
  const item = make(
    "details",
    { toggle: () => open(item, found, lane) },
    make("summary", {}, summary),
  );
  return item;
}

async function open(item, found, lane) {
  if (!item.open || item.children.length > 1) return;
  const body = make("div", { class: "body" });
  item.append(body);
  body.append(resultList(found));
  const detail = await detailOf(found).catch((error) => ({ failed: String(error) }));
  if (detail?.failed)
    body.append(make("p", {}, `The details cannot be unpacked: ${detail.failed}`));
  else if (detail) {
    if (detail.bytes) body.append(bytesSection(detail, lane));
    const [picture, ...others] = detailSections(detail, found, lane);
    body.append(picture, foldedSections("Descriptor, formula and graphs", others));
  } else body.append(noDetail(found, lane));
  body.append(factList(found, detail?.node));
  body.append(...(detail?.again ?? []).map(againSection));
  body.append(...(detail?.repro ?? []).map(reproSection));
}

const BYTES_AT = [2, 4]; // the columns of bytes: those expected, and those returned

/** Return a table of the first wrong elements with their bytes; lanes that are alike share rows. */
function bytesSection(detail, lane) {
  const byElements = new Map();
  for (const [name, elements] of laneFirst(Object.entries(detail.bytes), lane)) {
    const key = JSON.stringify(elements);
    const entry = byElements.get(key) ?? { names: [], elements };
    entry.names.push(name);
    byElements.set(key, entry);
  }
  const heads = ["Lane", "OutputTensor", "expected", "its bytes", "returned", "its bytes"];
  const bodies = [...byElements.values()].map(({ names, elements }) =>
    make(
      "tbody",
      {},
      elements.map((texts, k) =>
        make(
          "tr",
          {},
          k ? null : make("th", { scope: "rowgroup", rowspan: elements.length }, names.join(", ")),
          texts.map((text, n) => {
            // A narrow page has the heads beside the cells.
            const isMemory = BYTES_AT.includes(n);
            return make("td", { class: isMemory ? "memory" : null, "data-head": heads[n + 1] }, text);
          }),
        ),
      ),
    ),
  );
  return make(
    "section",
    { class: "scroll" },
    make("h3", {}, "Expected and returned"),
    make(
      "table",
      { class: "rows bytes" },
      make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))),
      bodies,
    ),
  );
}

/** Say why a case has no picture, and which case of the same cause has one. */
function noDetail(found, lane) {
  const failed = found.results.filter(
    (r) => r.state !== "PASS" && report.lanes[r.number].not_run === undefined,
  );
  if (!failed.length && found.size < 0)
    return hint("Every lane that started passed, and the report holds no arrays of this case to draw.");
  const why =
    found.size < 0
      ? "The report does not hold the arrays of this case, so that there is no picture."
      : "The page has no room for the picture of this case.";
  const { cause } = failed.find((r) => r.lane === lane) ?? failed[0] ?? {};
  const drawn = smallestOf[cause];
  if (drawn?.detail === undefined) return hint(why);
  const button = make(
    "button",
    {
      type: "button",
      click: () => button.replaceWith(caseDetails(drawn, lane, [drawn.name])),
    },
    `Show a smaller case of the same cause: ${drawn.name}`,
  );
  return make("div", {}, hint(why), button);
}

function hint(text) {
  return make("p", { class: "hint" }, text);
}

async function start() {
  try {
    await loadCases();
  } catch (error) {
    document.getElementById("matrix").textContent = `The cases cannot be unpacked: ${error}`;
    return;
  }
  for (const found of cases)
    for (const { cause } of found.results)
      if (cause !== null) smallestOf[cause] = smallerOf(smallestOf[cause], found);
  showMatrix();
  showFilters();
  readAddress();
  addEventListener("hashchange", readAddress);
}

showLanes();
showFiles();
start();
filters.addEventListener("input", () => {
  cause = null;
  update();
});
filters.addEventListener("submit", (event) => event.preventDefault());
filters.addEventListener("reset", () => {
  cause = null;
  setTimeout(update);
});
const further = document.getElementById("further");
further.addEventListener("click", grow);
addEventListener("beforeprint", () => {
  while (!further.hidden) grow(); // paper has no button, and opens nothing
  for (const section of document.querySelectorAll("#lanes details")) section.open = true;
});
const nearEnd = new IntersectionObserver(
  ([entry]) => {
    if (!entry.isIntersecting) return;
    grow();
    nearEnd.unobserve(further); // so that it is told again if the end is still near
    nearEnd.observe(further);
  },
  { rootMargin: "1000px" },
);
nearEnd.observe(further);
