// Elements are built with text alone: nothing that comes from the API is ever parsed as HTML.

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * Build an element: `h("button.primary", { onclick, disabled: true }, "Run")`.
 * @param {string} tag the element's name, followed by its classes
 * @param {Record<string, any>} [attributes] `on…` are listeners, `vars` are CSS variables, true and false set and leave out
 * @param {...(Child | Child[])} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name || "div");
  apply(element, attributes, classes);
  element.append(...nodes(children));
  return element;
}

/**
 * The same for SVG.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
export function s(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  apply(element, attributes, classes);
  element.append(...nodes(children));
  return element;
}

/**
 * Replace everything in an element.
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
}

/**
 * Draw a view anew, and leave the focus on the same control: the one with the same name or text.
 * @param {Element} place @param {() => void} draw
 */
export function keepFocus(place, draw) {
  const focused = document.activeElement instanceof HTMLElement && place.contains(document.activeElement) ? document.activeElement : null;
  const sign = focused && signOf(focused);
  const opened = [...place.querySelectorAll("details.choice[open]")].some((each) => each.contains(focused));
  draw();
  if (!sign || (focused?.isConnected && document.activeElement === focused)) return;
  const same = /** @type {HTMLElement | undefined} */ ([...place.querySelectorAll("input, select, textarea, button, summary, a, .plot")].find((each) => signOf(each) === sign));
  // A list of boxes stays open while several are pressed.
  if (opened) same?.closest("details")?.setAttribute("open", "");
  same?.focus({ preventScroll: true });
}

/** @param {Element} element */
function signOf(element) {
  const name = element.getAttribute("name") ?? element.getAttribute("aria-label")?.split(":")[0] ?? (element.matches("button, summary, a") ? element.textContent : element.className);
  return `${element.localName} ${name}`;
}

/**
 * A listener that acts on Enter and Space, as a button does. The key does nothing else: else it would also press the button on which
 * an opened dialog puts the focus, and close it.
 * @param {() => void} act @returns {(event: KeyboardEvent) => void}
 */
export function onEnter(act) {
  return (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    act();
  };
}

/**
 * Let a screen reader say something.
 * @param {string} text
 */
export function say(text) {
  const place = document.getElementById("said");
  if (place) place.textContent = text;
}

/** A text whose parts between backticks are code. @param {string} text @returns {(Node | string)[]} */
export function withCode(text) {
  return text.split(/`([^`]+)`/).map((part, index) => (index % 2 ? h("code", {}, part) : part)).filter((part) => part !== "");
}

/** @param {(Child | Child[])[]} children @returns {(Node | string)[]} */
function nodes(children) {
  return /** @type {(Node | string)[]} */ (
    children
      .flat()
      .filter((child) => child !== null && child !== undefined && child !== false)
      .map((child) => (child instanceof Node ? child : String(child)))
  );
}

/** @param {Element} element @param {Record<string, any>} attributes @param {string[]} classes */
function apply(element, attributes, classes) {
  if (classes.length) element.classList.add(...classes);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "vars")
      for (const [key, text] of Object.entries(value)) /** @type {any} */ (element).style.setProperty(`--${key}`, text);
    else if (name === "value") /** @type {any} */ (element).value = value;
    else if (name === "class") element.classList.add(...String(value).split(" ").filter(Boolean));
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}
