// The page: filters, which the address keeps, and the list of cases, each opening to its details.

const PAGE = 100; // rows that the list grows by
const filters = document.getElementById("filters");
const list = document.getElementById("list");
const narrowing = ["lane", "operator", "type", "policy", "text"]; // the filters beside the states

// Filters

function showFilters() {
  const counts = countOf(cases.flatMap((found) => found.results));
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

function chosen() {
  const { lane, operator, type, policy, text } = filters.elements;
  const states = [...filters.querySelectorAll("[name=state]:checked")].map((box) => box.value);
  return {
    states: new Set(states),
    lane: lane.value,
    operator: operator.value,
    type: type.value,
    policy: policy.value,
    text: text.value.trim().toLowerCase(),
  };
}

/** Return the cases of a policy that hold a text: those that the matrix counts. */
function ofPolicyAndText(wanted) {
  return cases.filter(
    (found) =>
      (!wanted.policy || found.policy === wanted.policy) &&
      (!wanted.text || searched(found).includes(wanted.text)),
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

/** Return the results of a case that are asked for. */
function matching(found, wanted) {
  if (wanted.operator && found.operator !== wanted.operator) return [];
  if (wanted.type && found.type !== wanted.type) return [];
  return found.results.filter(
    (r) => wanted.states.has(r.state) && (!wanted.lane || r.lane === wanted.lane),
  );
}

/** List the cases of a cell: what did not pass, or all where all did. */
function choose(operator, type, lane, counts) {
  const states = Object.keys(counts).filter((state) => state !== "PASS");
  tick((box) => (states.length ? states.includes(box.value) : box.value === "PASS"));
  Object.assign(filters.elements.lane, { value: lane });
  Object.assign(filters.elements.operator, { value: operator });
  Object.assign(filters.elements.type, { value: type });
  update();
  document.getElementById("browse").scrollIntoView({ block: "start" });
  document.getElementById("shown").focus();
}

// The list

let rows = [];
let cause = null; // the number of a chosen cause

/** List the cases of a cause. */
function chooseCause(number) {
  const [state, lane, , numbers] = report.causes[number];
  for (const name of narrowing) filters.elements[name].value = "";
  cause = number;
  choose("", "", lane, { [state]: numbers.length });
}

function update() {
  const wanted = chosen();
  const numbers = cause === null ? null : new Set(report.causes[cause][3]);
  const found = ofPolicyAndText(wanted).filter((c) => !numbers || numbers.has(c.number));
  writeAddress(wanted);
  showMatrix(found, wanted);
  rows = found.map((c) => [c, matching(c, wanted)]).filter(([, results]) => results.length);
  list.replaceChildren();
  const results = rows.reduce((sum, [, matched]) => sum + matched.length, 0);
  const ofCause = cause === null ? "" : ` of the cause: ${report.causes[cause][2]}`;
  const told = `${counted(results, "result")} in ${counted(rows.length, "case")}${ofCause}`;
  document.getElementById("shown").textContent = told;
  if (!rows.length) tellNone(wanted, found);
  grow();
}

/** Say why the list is empty. */
function tellNone(wanted, found) {
  const every = { ...wanted, states: new Set(report.states) };
  const counts = countOf(found.flatMap((c) => matching(c, every)));
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
  const item = make(
    "details",
    { toggle: () => open(item, found) },
    make(
      "summary",
      {},
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
    ),
  );
  return item;
}

async function open(item, found) {
  if (!item.open || item.children.length > 1) return;
  const body = make("div", { class: "body" });
  item.append(body);
  body.append(resultList(found));
  const detail = await detailOf(found).catch((error) => ({ failed: String(error) }));
  body.append(factList(found, detail?.node));
  if (detail?.failed)
    body.append(make("p", {}, `The details cannot be unpacked: ${detail.failed}`));
  else if (detail) body.append(...detailSections(detail, found));
  else body.append(make("p", { class: "hint" }, noDetail(found)));
  body.append(...(detail?.again ?? []).map(againSection));
  body.append(...(detail?.repro ?? []).map(reproSection));
}

showLanes();
showCauses();
showFilters();
readAddress();
addEventListener("hashchange", readAddress);
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
  while (!further.hidden) grow(); // paper has no button
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
