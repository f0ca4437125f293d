// The whole state of a view is in the address, behind the "#": a copied address shows the same view.

/** @typedef {{ view: string, values: URLSearchParams }} State */

/** The view is empty if the address names none. @returns {State} */
export function readState() {
  const [view, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { view, values: new URLSearchParams(query ?? "") };
}

/**
 * The address of a view. Values without text are left out; lists repeat their name.
 * @param {string} view @param {Record<string, string | string[] | null | undefined>} values @returns {string}
 */
export function hashOf(view, values) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values))
    for (const each of Array.isArray(value) ? value : [value]) if (each) query.append(name, each);
  const text = query.toString();
  return `#${view}${text ? `?${text}` : ""}`;
}

/**
 * Go to a view. It is a step of the browser's history, unless it replaces the present one.
 * @param {string} view @param {Record<string, string | string[] | null | undefined>} values @param {boolean} [replace]
 */
export function go(view, values, replace = false) {
  const hash = hashOf(view, values);
  if (replace || hash === location.hash) {
    history.replaceState(null, "", hash);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = hash;
}

/**
 * Note in the address how an answer is shown, such as its order. Nothing is asked again, and it is no step of the history.
 * @param {Record<string, string | string[]>} values
 */
export function note(values) {
  const state = readState();
  for (const [name, value] of Object.entries(values)) {
    state.values.delete(name);
    for (const each of Array.isArray(value) ? value : [value]) if (each) state.values.append(name, each);
  }
  const text = state.values.toString();
  history.replaceState(null, "", `#${state.view}${text ? `?${text}` : ""}`);
}

/** Show the address as it is once more. A field may have changed it a moment ago, which the view does not know yet. */
export function goAgain() {
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}
