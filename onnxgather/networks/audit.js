// The page of audits: its filters, which the address keeps, and the picture of an entry.

async function drawEntry(item) {
  if (!item.open || item.dataset.drawn || !item.dataset.detail) return;
  item.dataset.drawn = "yes";
  const detail = await detailOf({ detail: Number(item.dataset.detail) });
  item.querySelector(".body").append(...detailSections(detail, detail));
}

const entries = [...document.querySelectorAll(".entry")];
for (const item of entries) item.addEventListener("toggle", () => drawEntry(item));
const texts = entries.map((item) => item.textContent.toLowerCase());
const filters = document.getElementById("filters");
const boxes = [...filters.querySelectorAll("[type=checkbox]")];
const { model, operator, text } = filters.elements;

/** Show the gathers that pass the filters, how many these are, and the filters in the address. */
function showChosen() {
  const states = boxes.filter((box) => box.checked).map((box) => box.value);
  const wanted = text.value.trim().toLowerCase();
  for (const section of document.querySelectorAll(".model"))
    section.hidden = model.value && model.value !== section.dataset.model;
  entries.forEach((item, number) => {
    const { state, operator: its } = item.dataset;
    item.hidden =
      item.closest(".model").hidden ||
      !states.includes(state) ||
      (operator.value && operator.value !== its) ||
      !texts[number].includes(wanted);
  });
  if (wanted) for (const group of document.querySelectorAll(".group")) group.open = true;
  const count = entries.filter((item) => !item.hidden).length;
  document.getElementById("shown").textContent = `${count} of ${entries.length} shown`;
  const chosen = new URLSearchParams();
  if (states.length < boxes.length) chosen.set("states", states.join(" "));
  for (const one of [model, operator, text]) if (one.value) chosen.set(one.name, one.value);
  history.replaceState(null, "", `#${chosen}`);
}

/** Set the filters that the address has. */
function readAddress() {
  const chosen = new URLSearchParams(location.hash.slice(1));
  const states = chosen.get("states")?.split(" ");
  for (const box of boxes) box.checked = !states || states.includes(box.value);
  for (const one of [model, operator, text]) one.value = chosen.get(one.name) ?? "";
  showChosen();
}

filters.addEventListener("input", showChosen);
filters.addEventListener("reset", () => setTimeout(showChosen));
filters.addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", readAddress);
document.getElementById("models").addEventListener("click", ({ target }) => {
  if (!target.value) return;
  model.value = target.value;
  showChosen();
  document.querySelector(".model:not([hidden])").scrollIntoView();
});
readAddress();
for (const pasted of document.querySelectorAll(".repro > div"))
  pasted.append(copyButton(pasted.textContent));
