// Numbers as people write them.

/** @param {unknown} value */
export function showNumber(value) {
  if (typeof value !== "number") return String(value ?? "");
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString(undefined);
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e12 || size < 1e-4)) return value.toExponential(3);
  return value.toLocaleString(undefined, { maximumSignificantDigits: 6 });
}

/** @param {number | null | undefined} bytes */
export function showBytes(bytes) {
  if (bytes === null || bytes === undefined) return "unknown";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let size = bytes;
  let unit = 0;
  for (; size >= 1000 && unit < units.length - 1; unit += 1) size /= 1000;
  return `${size.toLocaleString(undefined, { maximumSignificantDigits: 3 })} ${units[unit]}`;
}

/** Dollars as people write them: `$12.34`; amounts below a cent are not zero. @param {number} dollars */
export function showMoney(dollars) {
  const size = Math.abs(dollars);
  if (size > 0 && size < 0.005) return "under $0.01";
  const text = size.toLocaleString(undefined, { style: "currency", currency: "USD", currencyDisplay: "narrowSymbol" });
  return dollars < 0 && size ? `−${text}` : text;
}

/** @param {number} count @param {string} word */
export function plural(count, word) {
  return `${count.toLocaleString(undefined)} ${word}${count === 1 ? "" : "s"}`;
}

/** A value of an event, in a cell: text as it is, everything else as JSON. @param {unknown} value */
export function showValue(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return showNumber(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}

/**
 * The fields of an event's data by their paths.
 * @param {any} data @param {string} [prefix] @param {Record<string, unknown>} [into] @returns {Record<string, unknown>}
 */
export function flatten(data, prefix = "", into = {}) {
  for (const [name, value] of Object.entries(data ?? {})) {
    const path = prefix ? `${prefix}.${name}` : name;
    if (value && typeof value === "object" && !Array.isArray(value)) flatten(value, path, into);
    else into[path] = value;
  }
  return into;
}
