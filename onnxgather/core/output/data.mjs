// What the report says: how many results have each state, and the details of cases.

import { make } from "./dom.mjs";

export const report = JSON.parse(document.getElementById("report").textContent);

/** Return how many results have each state, the states in the report's order. */
export function countOf(results) {
  const counts = {};
  for (const { state } of results) counts[state] = (counts[state] ?? 0) + 1;
  return Object.fromEntries(report.states.filter((s) => counts[s]).map((s) => [s, counts[s]]));
}

function countsText(counts) {
  return Object.entries(counts)
    .map(([state, n]) => `${n.toLocaleString("en")} ${state}`)
    .join(", ");
}

/**
 * Say why a list is empty, with a button for what the states alone leave out.
 *
 * `counts` has what fits the other filters, by state; `states` are the chosen ones.
 */
export function tellEmpty(counts, states, update) {
  const shown = document.getElementById("shown");
  if (!Object.keys(counts).length) {
    shown.textContent = "Nothing fits these filters, whatever its state.";
    return;
  }
  const click = () => {
    for (const box of document.querySelectorAll("#states input")) box.checked = box.value in counts;
    update();
    shown.focus();
  };
  const why = states.length ? `Nothing is ${states.join(" or ")}` : "No state is chosen";
  const button = make("button", { type: "button", click }, "Show them");
  shown.replaceChildren(`${why}; left out: ${countsText(counts)}. `, button);
}

/** Set a filter; a choice that this page does not have is none. */
export function fill(filter, value) {
  filter.value = value ?? "";
  if (filter.selectedIndex < 0) filter.value = "";
}

const chunks = new Map();

/** Return the details of a case, unpacking the chunk that holds them; null if there are none. */
export async function detailOf(found) {
  if (found.detail === undefined) return null;
  const number = Math.floor(found.detail / report.chunk);
  if (!chunks.has(number)) chunks.set(number, unpacked(report.details[number]));
  return (await chunks.get(number))[found.detail % report.chunk];
}

export async function unpacked(base64) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}
