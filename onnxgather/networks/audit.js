// The page of an audit: its filters, and what is drawn of a gather when its entry is opened.

async function drawEntry(item, number) {
  if (!item.open || item.dataset.drawn) return;
  item.dataset.drawn = "yes";
  const body = item.querySelector(".body");
  const detail = await detailOf({ detail: number });
  const frame = { class: "scroll", tabindex: 0, role: "group", "aria-label": "Drawing of the graph" };
  const drawing = make("div", frame, graphDrawing(detail.around));
  body.append(make("section", { class: "graph" }, make("h3", {}, "In the model"), drawing));
  const hint =
    "There is no picture: the gather did not run (--inputs lets the model run), or DirectML gathers no such type.";
  body.append(
    ...(detail.picture ? detailSections(detail, detail) : [make("p", { class: "hint" }, hint)]),
  );
}

const entries = [...document.querySelectorAll("#gathers > details")];
entries.forEach((item, number) => item.addEventListener("toggle", () => drawEntry(item, number)));
const texts = entries.map((item) => item.textContent.toLowerCase());
const filters = document.getElementById("filters");

/** Show the gathers that pass the filters, and how many these are. */
function showChosen() {
  const states = [...filters.querySelectorAll(":checked[type]")].map((box) => box.value);
  const operator = filters.elements.operator.value;
  const text = filters.elements.text.value.trim().toLowerCase();
  entries.forEach((item, number) => {
    const { state, operator: its } = item.dataset;
    item.hidden =
      !states.includes(state) || (operator && operator !== its) || !texts[number].includes(text);
  });
  const count = entries.filter((item) => !item.hidden).length;
  document.getElementById("shown").textContent = `${count} of ${entries.length} gathers`;
}

filters.addEventListener("input", showChosen);
filters.addEventListener("reset", () => setTimeout(showChosen));
filters.addEventListener("submit", (event) => event.preventDefault());
showChosen();
for (const pasted of document.querySelectorAll(".repro > div"))
  pasted.append(copyButton(pasted.textContent));
