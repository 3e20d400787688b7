// The matrix: a row for each group of cases, a column for each lane.

import { countOf, report } from "../../core/output/data.mjs";
import { counted, linked, make, visible } from "../../core/output/dom.mjs";
import { caseDetails, smallestSummary } from "./case.mjs";
import { cases, groups } from "./cases.mjs";
import { filters } from "./filters.mjs";
import { GLYPHS, worstOf } from "./states.mjs";

export function showMatrix() {
  const all = { name: "All cases", key: "", cases, parts: new Map() };
  const head = make("tr", {}, make("td"), report.lanes.map(laneHead));
  if (smallestOfRow(all)) {
    head.append(smallestHead());
    document.getElementById("matrix-pictures").hidden = false;
  }
  const body = make("tbody", {}, rowOf(all, true));
  for (const group of groups.values()) body.append(rowOf(group));
  const table = make("table", { "aria-labelledby": "matrix-title" }, make("thead", {}, head), body);
  const matrix = document.getElementById("matrix");
  matrix.replaceChildren(table);
  matrix.removeAttribute("aria-busy");
  // Case: a single group says no more than all cases do.
  if (groups.size === 1) body.querySelector("th [aria-expanded]")?.click();
}

/** Return the head of the column with the smallest case of each row. */
function smallestHead() {
  const title = make("strong", {}, "Smallest case");
  const which = make("small", { class: "line" }, "that is no PASS");
  return make("th", { scope: "col" }, title, which);
}

function laneHead(lane) {
  return make(
    "th",
    { scope: "col" },
    make("strong", {}, lane.name),
    lane.required ? make("small", {}, " required") : null,
    lane.runtime.map((line) => make("small", { class: "line" }, line)),
  );
}

/** Return a row; that of all cases has the cells of the lanes that did not start. */
function rowOf(group, isAll = false, isPart = false) {
  const row = make(
    "tr",
    { class: isAll ? "all" : isPart ? "part" : null },
    make(
      "th",
      { scope: "row" },
      group.parts.size ? opener(group) : group.name,
      make("small", { class: "line" }, counted(group.cases.length, "case")),
    ),
  );
  report.lanes.forEach((lane, number) => {
    if (lane.not_run === undefined) row.append(matrixCell(group, lane, number));
    else if (isAll) row.append(stoppedCell(lane));
  });
  const smallest = smallestOfRow(group);
  if (smallest) row.append(make("td", {}, pictureButton(group, smallest)));
  return row;
}

/** Return the smallest case of the worst state of a row that has a picture, with its lane. */
function smallestOfRow(group) {
  let smallest;
  for (const entry of group.cases) {
    if (entry.detail === undefined) continue;
    for (const { state, lane, number } of entry.results) {
      if (state === "PASS" || report.lanes[number].not_run !== undefined) continue;
      const rank = report.worst.indexOf(state);
      const isWorse = !smallest || rank > smallest.rank;
      const isSmaller = rank === smallest?.rank && entry.size < smallest.entry.size;
      if (isWorse || isSmaller) smallest = { entry, lane, state, rank };
    }
  }
  return smallest;
}

/** Return a button that shows the picture of a case below the matrix, or hides it. */
function pictureButton(group, { entry, lane, state }) {
  const place = document.getElementById("smallest");
  const button = make(
    "button",
    {
      type: "button",
      class: `drawn ${state}`,
      title: entry.name,
      "aria-label": `Picture of ${entry.name} on ${lane}`,
      "aria-expanded": "false",
      click: () => {
        const isOpen = button.getAttribute("aria-expanded") === "true";
        for (const other of document.querySelectorAll("#matrix .drawn"))
          other.setAttribute("aria-expanded", String(other === button && !isOpen));
        place.replaceChildren();
        if (isOpen) return;
        const item = caseDetails(entry, lane, smallestSummary(entry));
        item.open = true;
        const title = visible(`${group.name}: the smallest case that is ${state}, on ${lane}`);
        place.append(make("h3", {}, title), item);
        place.scrollIntoView({ block: "nearest" });
      },
    },
    "Picture",
  );
  return button;
}

/** Return a button that shows the parts of a group below its row, or hides them. */
function opener(group) {
  const button = make(
    "button",
    {
      type: "button",
      "aria-expanded": "false",
      click: () => {
        const isOpen = button.getAttribute("aria-expanded") === "true";
        button.setAttribute("aria-expanded", String(!isOpen));
        const row = button.closest("tr");
        if (!isOpen)
          row.after(...[...group.parts.values()].map((part) => rowOf(part, false, true)));
        else
          while (row.nextElementSibling?.classList.contains("part"))
            row.nextElementSibling.remove();
        markChosen();
      },
    },
    group.name,
  );
  return button;
}

/** Return the cell of a lane that did not start, which is the whole column. */
function stoppedCell(lane) {
  return make(
    "td",
    { class: "stopped", rowspan: "0" },
    make("strong", {}, "Did not start. "),
    linked(lane.not_run),
  );
}

function matrixCell(group, lane, number) {
  const results = group.cases.map((found) => found.results[number]);
  if (!results.length) return make("td", {}, make("small", {}, "no cases"));
  const counts = countOf(results);
  const worst = worstOf(counts);
  const passed = (counts.PASS ?? 0).toLocaleString("en");
  const all = results.length.toLocaleString("en");
  const others = countsOfWords(results);
  const told = others.map(({ words, count }) => `${count.toLocaleString("en")} ${words}`);
  const said = [`${lane.name}, ${group.key || group.name}: ${passed} of ${all} passed`, ...told];
  const button = make(
    "button",
    {
      type: "button",
      class: worst,
      "aria-label": said.join("; "),
      "aria-pressed": "false",
    },
    make("span", {}, `${GLYPHS[worst]} ${passed}/${all}`),
    others.map(({ state }, k) =>
      make("small", { class: `line ${state}` }, `${GLYPHS[state]} ${told[k]}`),
    ),
  );
  // No attribute: there a hostile name would be written with escapes.
  button.chosenBy = { group: group.key, lane: lane.name, counts };
  return make("td", {}, button);
}

/** Return how many results say each words, without those that just passed; what is known comes last. */
function countsOfWords(results) {
  const byWords = new Map();
  for (const { state, words } of results) {
    if (words === "passed") continue;
    const entry = byWords.get(words) ?? { state, words, count: 0 };
    entry.count += 1;
    byWords.set(words, entry);
  }
  const order = ({ state, count }) => report.worst.indexOf(state) * cases.length + count;
  return [...byWords.values()].sort((a, b) => order(b) - order(a));
}

/** Mark the cell whose cases are listed. */
export function markChosen() {
  const { group, lane } = filters.elements;
  for (const cell of document.querySelectorAll("#matrix td [aria-pressed]")) {
    const { chosenBy } = cell;
    const isChosen = chosenBy.group === group.value && chosenBy.lane === lane.value;
    cell.setAttribute("aria-pressed", String(isChosen));
  }
}

/** Show what a lane says of itself beside the head of its column. */
export function showLanes() {
  document.getElementById("made").textContent =
    `${report.onnxgather} · ${report.made} · ${report.machine}`;
  const items = report.lanes.map((lane) => {
    const versions = Object.entries(lane.versions ?? {}).map((pair) => pair.join(" "));
    const facts = [
      versions.join(", "),
      lane.target ? `target ${lane.target}` : "",
      (lane.devices ?? []).join(", "),
      lane.python ? `interpreter ${lane.python}` : "",
    ];
    return make(
      "li",
      {},
      make("strong", {}, lane.name),
      facts.filter(Boolean).map((text) => make("p", {}, text)),
    );
  });
  const about = make(
    "details",
    {},
    make("summary", {}, make("span", { class: "badges" }), "About the lanes"),
    make("ul", {}, items),
  );
  if (items.length) document.getElementById("lanes").append(about);
}

export function showFiles() {
  const files = document.getElementById("files");
  const bad = [
    ...report.invalid.map((found) => `${found.file}: ${found.reason}`),
    ...report.unusable,
  ];
  files.hidden = !bad.length;
  files.querySelector("ul").append(...bad.map((text) => make("li", {}, text)));
}
