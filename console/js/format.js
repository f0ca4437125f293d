// Numbers as people write them.

// A formatter takes longer to build than to use ten thousand times.
const WHOLE = new Intl.NumberFormat(undefined);
const SHORT = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 6 });

/** @param {unknown} value */
export function showNumber(value) {
  if (typeof value === "bigint") return WHOLE.format(value);
  if (typeof value !== "number") return String(value ?? "");
  if (Number.isSafeInteger(value)) return WHOLE.format(value);
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e12 || size < 1e-4)) return value.toExponential(3);
  return SHORT.format(value);
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
  if (isNumber(value)) return showNumber(value);
  return typeof value === "string" ? value : writeJson(value);
}

/** Whether a value of an answer is a number; whole numbers beyond 2^53 are a bigint. @param {unknown} value */
export function isNumber(value) {
  return typeof value === "number" || typeof value === "bigint";
}

/**
 * The values of an answer. Whole numbers that JavaScript's own would round are a bigint, where the browser shows the digits to a reviver.
 * @param {string} text @returns {any}
 */
export function readJson(text) {
  // Sixteen digits in a row are rare, and a reviver takes five times as long.
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(text, /** @type {any} */ ((/** @type {string} */ _, /** @type {unknown} */ value, /** @type {{ source?: string }} */ context) =>
    typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "") ? BigInt(/** @type {string} */ (context.source)) : value));
}

/** JSON of values that `readJson` read. @param {unknown} value @param {number} [indent] @returns {string} */
export function writeJson(value, indent) {
  return JSON.stringify(value, (_, each) => (typeof each === "bigint" ? /** @type {any} */ (JSON).rawJSON(String(each)) : each), indent) ?? "";
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
