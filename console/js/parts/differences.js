// What two versions of an event's data differ in.

/** @typedef {{ path: string, kind: "added" | "removed" | "changed", before?: unknown, after?: unknown }} Difference */

/**
 * The fields that were added, removed or changed, by their paths; objects and arrays are looked into.
 * @param {unknown} before @param {unknown} after @param {string} [path] @returns {Difference[]}
 */
export function compareValues(before, after, path = "") {
  if (isContainer(before) && isContainer(after) && Array.isArray(before) === Array.isArray(after)) {
    const [old, now] = [/** @type {Record<string, unknown>} */ (before), /** @type {Record<string, unknown>} */ (after)];
    const names = [...new Set([...Object.keys(old), ...Object.keys(now)])];
    return names.flatMap((name) => {
      const inner = pathOf(path, name, Array.isArray(before));
      if (!Object.hasOwn(old, name)) return [{ path: inner, kind: /** @type {const} */ ("added"), after: now[name] }];
      if (!Object.hasOwn(now, name)) return [{ path: inner, kind: /** @type {const} */ ("removed"), before: old[name] }];
      return compareValues(old[name], now[name], inner);
    });
  }
  return Object.is(before, after) || (before === 0 && after === 0) ? [] : [{ path, kind: "changed", before, after }];
}

/** @param {unknown} value */
function isContainer(value) {
  return typeof value === "object" && value !== null;
}

/** A name with a dot, a bracket or a quotation mark in it is quoted: no two paths are the same. @param {string} path @param {string} name @param {boolean} array */
function pathOf(path, name, array) {
  if (array) return `${path}[${name}]`;
  const text = /[."[\]]/.test(name) || !name ? JSON.stringify(name) : name;
  return path ? `${path}.${text}` : text;
}
