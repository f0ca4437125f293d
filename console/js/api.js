// Requests to the API of the stage that serves this page. The key stays in this tab, and travels in a header alone.

import { readJson } from "./format.js";

const KEY = "tidetable.key";
/** An event of the window: the API refused the key or its rights. */
export const REFUSED = "tidetable:refused";

/** The API's address: the page is served by its route /console. */
export const BASE = location.origin + location.pathname.replace(/\/console(\/.*)?$/, "/");

/** A refused request: the API's own problem, or what the network said. */
export class Problem extends Error {
  /** @param {number} status 0 if there was no answer @param {string} code @param {string} detail @param {number} [wait] seconds */
  constructor(status, code, detail, wait) {
    super(detail);
    this.status = status;
    this.code = code;
    this.wait = wait;
  }
}

/** @returns {string} the key of this tab, or nothing */
export function key() {
  return sessionStorage.getItem(KEY) ?? "";
}

/** @param {string} text the key; empty forgets it */
export function setKey(text) {
  if (text) sessionStorage.setItem(KEY, text);
  else sessionStorage.removeItem(KEY);
}

/**
 * @typedef {Record<string, string | number | boolean | string[] | null | undefined>} Parameters
 * @typedef {{ body: any, units: number | null, requests: number | null, milliseconds: number, url: string }} Answer
 */

/**
 * The address of a request. Parameters without a value are left out; lists repeat their name.
 * @param {string} path such as `v1/streams` @param {Parameters} [parameters] @returns {string}
 */
export function address(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters))
    for (const each of Array.isArray(value) ? value : [value])
      if (each !== null && each !== undefined && each !== "" && each !== false) query.append(name, String(each));
  const text = query.toString();
  return BASE + path + (text ? `?${text}` : "");
}

/** @param {...string} names the path of a stream's route, each name escaped */
export function streamPath(...names) {
  return ["v1/streams", ...names.map(encodeURIComponent)].join("/");
}

/**
 * Ask for JSON.
 * @param {string} path @param {Parameters} [parameters] @param {AbortSignal} [signal] @returns {Promise<Answer>}
 */
export async function get(path, parameters, signal) {
  const url = address(path, parameters);
  const begun = performance.now();
  const response = await send(url, { headers: { Accept: "application/json" }, signal });
  const body = readJson(await response.text());
  return { body, url, milliseconds: performance.now() - begun, ...cost(response) };
}

/**
 * Ask for text, such as CSV.
 * @param {string} path @param {Parameters} [parameters] @returns {Promise<string>}
 */
export async function getText(path, parameters) {
  return (await send(address(path, parameters), {})).text();
}

/**
 * Send a body of events.
 * @param {string} path @param {string} body @param {string} type @param {boolean} strict @returns {Promise<any>}
 */
export async function post(path, body, type, strict) {
  /** @type {Record<string, string>} */
  const headers = { "Content-Type": type };
  if (strict) headers.Prefer = "handling=strict";
  const response = await send(address(path), { method: "POST", headers, body }, [400, 422]);
  return { status: response.status, ...(await response.json()) };
}

/** @param {string} url @param {RequestInit} options @param {number[]} [expected] refusals that the caller reads itself */
async function send(url, options, expected = []) {
  const headers = new Headers(options.headers);
  if (key()) headers.set("x-api-key", key());
  let response;
  try {
    response = await fetch(url, { ...options, headers, cache: "no-store", credentials: "same-origin" });
  } catch (error) {
    if (/** @type {any} */ (error).name === "AbortError") throw error;
    throw new Problem(0, "no_answer", "The API gave no answer. Is the stage up, and this machine online?");
  }
  if (response.ok || expected.includes(response.status)) return response;
  const problem = await problemOf(response);
  if (problem.code === "forbidden" || response.status === 401) window.dispatchEvent(new Event(REFUSED));
  throw problem;
}

/** @param {Response} response */
async function problemOf(response) {
  let document = /** @type {any} */ ({});
  try {
    document = await response.json();
  } catch {
    // A proxy's own page: the status says enough.
  }
  const wait = Number(response.headers.get("Retry-After")) || undefined;
  const detail = document.detail ?? document.message ?? `The API answered ${response.status}.`;
  return new Problem(response.status, document.code ?? "unknown", String(detail), wait);
}

/** @param {Response} response */
function cost(response) {
  /** @param {string} name */
  const number = (name) => (response.headers.has(name) ? Number(response.headers.get(name)) : null);
  return { units: number("Tidetable-Read-Units"), requests: number("Tidetable-Requests") };
}
