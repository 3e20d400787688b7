// The page of an audit: what is drawn of a gather when its entry is opened.

async function drawEntry(item, number) {
  if (!item.open || item.dataset.drawn) return;
  item.dataset.drawn = "yes";
  const body = item.querySelector(".body");
  const detail = await detailOf({ detail: number });
  const frame = { class: "scroll", tabindex: 0, role: "group", "aria-label": "Drawing of the graph" };
  const drawing = make("div", frame, graphDrawing(detail.around));
  body.append(make("section", { class: "graph" }, make("h3", {}, "In the model"), drawing));
  const hint = "There is no picture, as the gather did not run; --inputs lets the model run.";
  body.append(
    ...(detail.picture ? detailSections(detail, detail) : [make("p", { class: "hint" }, hint)]),
  );
}

/** Open the entry that the address names. */
function openNamed() {
  const item = document.getElementById("gathers").querySelector(`${location.hash || "#none"}`);
  if (item) item.open = true;
}

document
  .querySelectorAll("#gathers > details")
  .forEach((item, number) => item.addEventListener("toggle", () => drawEntry(item, number)));
/** Show the gathers whose states are chosen. */
function showStates() {
  const chosen = [...document.querySelectorAll("#states :checked")].map((box) => box.value);
  for (const item of document.querySelectorAll("main [data-state]"))
    item.hidden = !chosen.includes(item.dataset.state);
}

document.getElementById("states").addEventListener("change", showStates);
const pasted = document.getElementById("guard");
pasted.append(copyButton(pasted.textContent));
addEventListener("hashchange", openNamed);
openNamed();
