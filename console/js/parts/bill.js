// The bill of the stage. Each answer costs up to two cents of CloudWatch's metrics, so it is kept for some minutes.

import { get, key } from "../api.js";

const KEPT = 300_000;
/** @type {{ key: string, at: number, body: Promise<any> } | null} */
let kept = null;

/** @param {boolean} [again] ask even if there is an answer of some minutes ago @returns {Promise<any>} the body of /v1/cost */
export function loadBill(again = false) {
  if (again || !kept || kept.key !== key() || performance.now() - kept.at > KEPT) {
    const loading = { key: key(), at: performance.now(), body: get("v1/cost").then(({ body }) => body) };
    kept = loading;
    loading.body.catch(() => {
      if (kept === loading) kept = null;
    });
  }
  return kept.body;
}

/** Whose prices these are, and of when. @param {any} prices */
export function pricesText(prices) {
  const month = new Intl.DateTimeFormat(undefined, { month: "long", year: "numeric", timeZone: "UTC" }).format(new Date(`${prices.month}-15T00:00:00Z`));
  return `AWS's prices of ${prices.region}, ${month}; a month has ${prices.hours} hours.${prices.note ? ` Note: ${prices.note}.` : ""}`;
}
