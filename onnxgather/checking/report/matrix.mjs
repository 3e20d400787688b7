// The matrix: a row for each lane, the worst first, and below it rows for groups of cases.

import { countOf, report } from "../../core/output/data.mjs";
import { linked, make, visible } from "../../core/output/dom.mjs";
import { caseDetails, smallestSummary } from "./case.mjs";
import { cases, groups } from "./cases.mjs";
import { filters } from "./filters.mjs";
import { badge, GLYPHS, rankOf } from "./states.mjs";

const lanes = report.lanes.map((lane, number) => ({ ...lane, number }));

export function showMatrix() {
  const all = { name: "All cases", key: "", cases, parts: groups };
  const entries = inOrder(lanes.map((lane) => entryOf(lane.name, all, lane)));
  // Case: a single lane says all that all lanes do.
  if (lanes.length > 1) entries.unshift(entryOf("All lanes", all));
  const heads = ["Lane", "Results, the worst first"];
  const head = make(
    "tr",
    {},
    heads.map((text) => make("th", { scope: "col" }, text)),
  );
  const body = make(
    "tbody",
    {},
    entries.map((entry) => rowOf(entry, 0)),
  );
  const table = make("table", { "aria-labelledby": "matrix-title" }, make("thead", {}, head), body);
  const matrix = document.getElementById("matrix");
  matrix.replaceChildren(table);
  matrix.removeAttribute("aria-busy");
  if (lanes.length === 1) body.querySelector("th [aria-expanded]")?.click();
}

/** Return what a row is about: a group of cases on a lane, or on all lanes that started. */
function entryOf(name, group, lane) {
  const isOfLane = ({ number }) =>
    lane ? number === lane.number : lanes[number].not_run === undefined;
  const found = group.cases.flatMap((one) =>
    one.results.filter(isOfLane).map((result) => ({ one, result, rank: rankOf(result) })),
  );
  const rank = found.reduce((worst, { rank }) => Math.min(worst, rank), Infinity);
  return { name, group, lane, rank, found };
}

/** Return entries with the worst first; of two that are as bad, that with more of it. */
function inOrder(entries) {
  const countOfWorst = ({ found, rank }) => found.filter((one) => one.rank === rank).length;
  return entries.sort((a, b) => a.rank - b.rank || countOfWorst(b) - countOfWorst(a));
}

/** Return the entries of the rows below that of an entry: those of its groups, or of its lanes. */
function entriesBelow({ group, lane }) {
  let entries;
  // Case: a group on all lanes, which are compared there.
  if (!lane && group.key) {
    const started = lanes.filter((one) => one.not_run === undefined);
    entries = started.map((one) => entryOf(one.name, group, one));
  } else entries = [...group.parts.values()].map((part) => entryOf(part.name, part, lane));
  // A lane need not have been asked each case.
  return inOrder(entries.filter(({ found }) => found.length));
}

function rowOf(entry, depth) {
  const { name, group, lane, found } = entry;
  const isStopped = lane !== undefined && lane.not_run !== undefined;
  const hasBelow = !isStopped && (group.parts.size || !lane);
  const ofLane = depth === 0 && lane ? lane : { runtime: "" };
  const head = make(
    "th",
    { scope: "row" },
    hasBelow ? opener(entry, depth) : name,
    ofLane.required ? make("small", {}, " required") : null,
    make("small", { class: "line" }, ofLane.runtime),
  );
  const row = make("tr", { "data-depth": depth }, head);
  if (isStopped) {
    const why = ["Did not start. ", linked(lane.not_run)].flat();
    row.append(make("td", { class: "stopped" }, why));
    return row;
  }
  const smallest = smallestShown(found);
  const shown = found.length ? resultsButton(entry) : make("small", {}, "no cases");
  row.append(make("td", {}, shown, smallest ? pictureButton(entry, smallest) : null));
  return row;
}

/** Return the smallest case of the worst results that has a picture; none if all passed. */
function smallestShown(found) {
  let smallest;
  for (const entry of found) {
    if (entry.one.detail === undefined || entry.result.state === "PASS") continue;
    const isWorse = !smallest || entry.rank < smallest.rank;
    const isSmaller = entry.rank === smallest?.rank && entry.one.size < smallest.one.size;
    if (isWorse || isSmaller) smallest = entry;
  }
  return smallest;
}

/** Return a button that shows the picture of a case below the matrix, or hides it. */
function pictureButton({ name }, { one, result }) {
  const { lane, words, severity } = result;
  const place = document.getElementById("smallest");
  const button = make(
    "button",
    {
      type: "button",
      class: `drawn ${severity}`,
      title: one.name,
      "aria-label": `Picture of ${one.name} on ${lane}`,
      "aria-expanded": "false",
      click: () => {
        const isOpen = button.getAttribute("aria-expanded") === "true";
        for (const other of document.querySelectorAll("#matrix .drawn"))
          other.setAttribute("aria-expanded", String(other === button && !isOpen));
        place.replaceChildren();
        if (isOpen) return;
        const item = caseDetails(one, lane, smallestSummary(one));
        item.open = true;
        const title = visible(`${name}: the smallest case that ${words}, on ${lane}`);
        place.append(make("h3", {}, title), item);
        place.scrollIntoView({ block: "nearest" });
      },
    },
    "Picture",
  );
  return button;
}

/** Return a button that shows the rows below a row, or hides them. */
function opener(entry, depth) {
  const button = make(
    "button",
    {
      type: "button",
      "aria-expanded": "false",
      click: () => {
        const isOpen = button.getAttribute("aria-expanded") === "true";
        button.setAttribute("aria-expanded", String(!isOpen));
        const row = button.closest("tr");
        if (!isOpen) row.after(...entriesBelow(entry).map((below) => rowOf(below, depth + 1)));
        else
          while (Number(row.nextElementSibling?.dataset.depth) > depth)
            row.nextElementSibling.remove();
        markChosen();
      },
    },
    entry.name,
  );
  return button;
}

/** Return a button with the counts of a row, which shows their causes and cases. */
function resultsButton({ group, lane, found }) {
  const results = found.map(({ result }) => result);
  const counts = countOf(results);
  const passed = (counts.PASS ?? 0).toLocaleString("en");
  const all = results.length.toLocaleString("en");
  const others = countsOfWords(found);
  const told = others.map(({ state, words, count }) => {
    const known = state === "KNOWN" ? ", known" : "";
    return `${count.toLocaleString("en")} ${words}${known}`;
  });
  const where = `${lane?.name ?? "All lanes"}, ${group.key || group.name}`;
  const button = make(
    "button",
    {
      type: "button",
      "aria-label": [`${where}: ${passed} of ${all} passed`, ...told].join("; "),
      "aria-pressed": "false",
    },
    others.map(({ state, severity, words, count }) =>
      badge(state, `${count.toLocaleString("en")} ${words}`, severity),
    ),
    make("span", { class: "passed" }, `${GLYPHS.PASS} ${passed}/${all}`),
  );
  // No attribute: there a hostile name would be written with escapes.
  button.chosenBy = { group: group.key, lane: lane?.name ?? "", counts };
  return button;
}

/** Return how many results say each words, the worst first, without those that just passed. */
function countsOfWords(found) {
  const byWords = new Map();
  for (const { result, rank } of found) {
    const { state, severity, words } = result;
    if (words === "passed") continue;
    const key = `${state} ${words}`;
    const entry = byWords.get(key) ?? { state, severity, words, rank, count: 0 };
    entry.count += 1;
    byWords.set(key, entry);
  }
  return [...byWords.values()].sort((a, b) => a.rank - b.rank || b.count - a.count);
}

/** Mark the counts whose cases are listed. */
export function markChosen() {
  const { group, lane } = filters.elements;
  for (const cell of document.querySelectorAll("#matrix td [aria-pressed]")) {
    const { chosenBy } = cell;
    const isAny = group.value || lane.value;
    const isChosen = isAny && chosenBy.group === group.value && chosenBy.lane === lane.value;
    cell.setAttribute("aria-pressed", String(Boolean(isChosen)));
  }
}

/** Show what a lane says of itself. */
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
