// The page of audits: its filters, which the address keeps, and the picture of an entry.

import { countOf, detailOf, fill, report, tellEmpty } from "../../core/output/data.mjs";
import { copyButton, detailSections, foldedSections } from "../../core/output/details.mjs";
import { fact, make } from "../../core/output/dom.mjs";

const MOST_UNFILTERED = 4; // gathers of a single model

async function drawEntry(item) {
  if (!item.open || item.dataset.drawn || !item.dataset.detail) return;
  item.dataset.drawn = "yes";
  const detail = await detailOf({ detail: Number(item.dataset.detail) });
  const [picture, ...others] = detailSections(detail, detail);
  const body = item.querySelector(".body");
  body.prepend(picture);
  body.append(foldedSections("Descriptor and formula", others));
}

/** Open the first gather of a model, if an index of it is out of range. */
function openFinding(section) {
  const first = section.querySelector(".entry");
  if (first?.dataset.state === "out-of-range") first.open = true;
}

const models = [...document.querySelectorAll(".model")];
const entries = [...document.querySelectorAll(".entry")];
for (const item of entries) item.addEventListener("toggle", () => drawEntry(item));
const texts = entries.map((item) => item.textContent.toLowerCase());
const filters = document.getElementById("filters");
const { model, operator, text } = filters.elements;

/** Make the filters of what there is. */
function showFilters() {
  for (const state of report.states) {
    const count = entries.filter((item) => item.dataset.state === state).length;
    const box = make("input", { type: "checkbox", value: state, checked: true });
    const label = make("label", { class: report.colours[state] }, box, ` ${state} ${count}`);
    if (!count) continue;
    document.getElementById("states").append(label);
    const told = make("span", { class: `badge ${report.colours[state]}` }, state);
    document.getElementById("meanings").append(fact(told, report.meanings[state]));
  }
  for (const one of [...new Set(entries.map((item) => item.dataset.operator))].sort())
    operator.append(make("option", { value: one }, one));
  if (models.length === 1) document.querySelector(".next").open = true;
  else
    models.forEach((section, number) => {
      const name = section.querySelector("h2").textContent;
      model.append(make("option", { value: number }, name));
    });
}

function hideFilters(isHidden) {
  for (const id of ["filters", "shown", "meanings"]) document.getElementById(id).hidden = isHidden;
}

/** Show one form of a contract, and a button for each form if there are several. */
function showForms(forms) {
  const parts = [...forms.children];
  const buttons = parts.map((part) =>
    make("button", { type: "button", click: () => choose(part) }, part.dataset.form),
  );
  const choose = (chosen) =>
    parts.forEach((part, number) => {
      part.hidden = part !== chosen;
      buttons[number].setAttribute("aria-pressed", part === chosen);
    });
  choose(parts[0]);
  if (parts.length > 1)
    forms.before(make("div", { class: "tabs", role: "group", "aria-label": "Form" }, ...buttons));
}

showFilters();
// A page with few gathers begins with them, unless the address filters them.
if (models.length === 1 && entries.length <= MOST_UNFILTERED) hideFilters(true);
const boxes = [...filters.querySelectorAll("[type=checkbox]")];

/** Show the gathers that pass the filters, how many these are, and the filters in the address. */
function showChosen() {
  const states = boxes.filter((box) => box.checked).map((box) => box.value);
  const wanted = text.value.trim().toLowerCase();
  models.forEach((section, number) => {
    section.hidden = model.value && model.value !== String(number);
  });
  const fitting = entries.filter(
    (item, number) =>
      !item.closest(".model").hidden &&
      (!operator.value || operator.value === item.dataset.operator) &&
      texts[number].includes(wanted),
  );
  const shown = new Set(fitting.filter((item) => states.includes(item.dataset.state)));
  for (const item of entries) item.hidden = !shown.has(item);
  if (wanted || operator.value || states.length < boxes.length)
    for (const section of models) section.hidden ||= !section.querySelector(".entry:not([hidden])");
  if (wanted) for (const group of document.querySelectorAll(".group")) group.open = true;
  // A line of a model is closed at first; what is looked for stands in it.
  if (wanted || model.value) for (const section of models) if (!section.hidden) section.open = true;
  document.getElementById("shown").textContent = `${shown.size} of ${entries.length} shown`;
  if (!shown.size) tellEmpty(countOf(fitting.map((item) => item.dataset)), states, showChosen);
  const chosen = new URLSearchParams();
  if (states.length < boxes.length) chosen.set("states", states.join(" "));
  for (const one of [model, operator, text]) if (one.value) chosen.set(one.name, one.value);
  if (chosen.size) hideFilters(false);
  history.replaceState(null, "", `#${chosen}`);
}

/** Set the filters that the address has. */
function readAddress() {
  const chosen = new URLSearchParams(location.hash.slice(1));
  const states = chosen.get("states")?.split(" ");
  for (const box of boxes) box.checked = !states || states.includes(box.value);
  for (const one of [model, operator, text]) fill(one, chosen.get(one.name));
  showChosen();
}

filters.addEventListener("input", showChosen);
filters.addEventListener("reset", () => setTimeout(showChosen));
filters.addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", readAddress);
readAddress();
for (const pasted of document.querySelectorAll(".repro > div:not([class]), .forms > div"))
  pasted.append(copyButton(pasted.textContent));
for (const forms of document.querySelectorAll(".forms")) showForms(forms);
// Those of closed models too: the browser draws a picture later than the line is opened, and a print
// does not wait.
models.forEach(openFinding);
addEventListener("beforeprint", () => {
  // Paper opens nothing; a closed gather has its sentence in its line.
  for (const section of document.querySelectorAll("details:not(.entry)")) section.open = true;
});
