// Elements are made here and texts set as text, so that no name can become markup.

const SVG = "http://www.w3.org/2000/svg";

/** Return an element; `options` are attributes, and listeners where they are functions. */
export function make(tag, options = {}, ...children) {
  return furnish(document.createElement(tag), options, children);
}

/** Return an SVG element. */
export function draw(tag, options = {}, ...children) {
  return furnish(document.createElementNS(SVG, tag), options, children);
}

function furnish(element, options, children) {
  for (const [name, value] of Object.entries(options)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== undefined && value !== false && value !== null)
      element.setAttribute(name, value === true ? "" : name === "value" ? value : visible(value));
  }
  const shown = children.flat().filter((child) => child !== null && child !== undefined);
  element.append(...shown.map((child) => (child instanceof Node ? child : visible(child))));
  return element;
}

/** Return text in which control characters, lone surrogates and marks of direction can be seen. */
export function visible(text) {
  const escaped = (c) => {
    const [mark, digits] = c < "\u0100" ? ["x", 2] : c.length < 2 ? ["u", 4] : ["U", 8];
    return "\\" + mark + c.codePointAt(0).toString(16).padStart(digits, "0");
  };
  return String(text).replace(/[\p{Cc}\p{Cs}\p{Cf}\p{Zl}\p{Zp}]/gu, escaped);
}

/** Return text whose links to sources can be followed. */
export function linked(text) {
  return text
    .split(/(https?:\/\/[^\s()<>"']+)/)
    .map((part, k) =>
      k % 2 ? make("a", { href: part, rel: "noopener noreferrer" }, visible(part)) : visible(part),
    );
}

/** Return text in which what stands between backticks is code. */
export function coded(text) {
  return text.split("`").map((part, k) => (k % 2 ? make("code", {}, part) : part));
}

/** Return such as "1,500 cases". */
export function counted(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** Return a row of a list of facts. */
export function fact(name, value) {
  return make("div", {}, make("dt", {}, name), make("dd", {}, value));
}
