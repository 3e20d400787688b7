// The page: filters, which the address keeps, causes, and the list of cases, each opening to its details.

import { countOf, fill, report, tellEmpty } from "../../core/output/data.mjs";
import { counted, linked, make, visible } from "../../core/output/dom.mjs";
import { caseDetails, smallestOf, smallestSummary } from "./case.mjs";
import { cases, causesOf, loadCases, smallerOf } from "./cases.mjs";
import { chosen, filters, narrowed, narrowing, showFilters, tick } from "./filters.mjs";
import { markChosen, showFiles, showLanes, showMatrix } from "./matrix.mjs";
import { badge } from "./states.mjs";

const PAGE = 100; // rows that the list grows by
const MOST_CAUSES = 20;
const MOST_OPENED = 5; // causes whose smallest case can be seen at once
const list = document.getElementById("list");

/** Show what a cell counts: the causes of what did not pass, and the cases. */
function choose({ group, lane, counts }) {
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
  if (rest)
    items.push(make("li", {}, `… and ${counted(rest, "more cause")}: filter the cases below`));
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

// The list

let rows = [];
let cause = null; // the number of a chosen cause

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
  const why = first.runs.map((run) => run.inputs + (run.reason ?? run.known ?? "")).join("; ");
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
    make("span", { class: "reason" }, why),
  ]);
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
document.getElementById("matrix").addEventListener("click", (event) => {
  const cell = event.target.closest("td [aria-pressed]");
  if (!cell) return;
  if (cell.getAttribute("aria-pressed") === "true") filters.reset();
  else choose(cell.chosenBy);
});
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
