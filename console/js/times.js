// Times as people write them, in UTC or in local time. The API reads and writes UTC.

import { plural } from "./format.js";

const ZONE = "tidetable.zone";
// Steps are counted in seconds. A month stands for a month of the calendar, and is a twelfth of the calendar's mean year.
const MONTH = 2629746;
const UNITS = /** @type {const} */ ([["mo", MONTH], ["w", 604800], ["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]);

/** @returns {"utc" | "local"} */
export function zone() {
  return localStorage.getItem(ZONE) === "utc" ? "utc" : "local";
}

/** @param {"utc" | "local"} name */
export function setZone(name) {
  localStorage.setItem(ZONE, name);
}

/** The zone as the API takes it; empty for UTC, in which it counts without a zone. @returns {string} */
export function zoneOfRequests() {
  const name = zone() === "utc" ? "" : Intl.DateTimeFormat().resolvedOptions().timeZone;
  return name === "UTC" ? "" : (name ?? "");
}

/** The zone's name, for headings. */
export function zoneName() {
  return zone() === "utc" ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
}

/** @type {Intl.DateTimeFormatOptions} */
const TO_THE_SECOND = { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
/** @type {Intl.DateTimeFormatOptions} */
const TO_THE_MINUTE = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
/** @type {Intl.DateTimeFormatOptions} */
const TO_THE_MINUTE_OF_A_YEAR = { ...TO_THE_MINUTE, year: "numeric" };
/** @type {Map<Intl.DateTimeFormatOptions, { zone: string, format: Intl.DateTimeFormat }>} */
const formatters = new Map();

/** A formatter in the zone; building one takes longer than using it a hundred times. @param {Intl.DateTimeFormatOptions} options */
function formatter(options) {
  const known = formatters.get(options);
  if (known?.zone === zone()) return known.format;
  const format = new Intl.DateTimeFormat(undefined, { ...options, ...(zone() === "utc" ? { timeZone: "UTC" } : {}) });
  formatters.set(options, { zone: zone(), format });
  return format;
}

/** An instant to the second, or finer if it has a fraction. @param {string | number | Date} instant */
export function showTime(instant) {
  const date = new Date(instant);
  if (Number.isNaN(date.getTime())) return String(instant);
  const fraction = typeof instant === "string" ? (/\.(\d+)(?:Z|[+-]\d\d:\d\d)$/.exec(instant)?.[1] ?? "").replace(/0+$/, "") : "";
  const text = formatter(TO_THE_SECOND).format(date);
  return fraction ? `${text}.${fraction}` : text;
}

/** A day and the minute, and the year unless it is that of now. @param {string | number | Date} instant @param {Date} [now] */
export function showMinute(instant, now = new Date()) {
  const date = new Date(instant);
  return formatter(yearOf(date) === yearOf(now) ? TO_THE_MINUTE : TO_THE_MINUTE_OF_A_YEAR).format(date);
}

/** @param {Date} date */
function yearOf(date) {
  return zone() === "utc" ? date.getUTCFullYear() : date.getFullYear();
}

/** Seconds as a length such as `90s`, `5m` or `1d`, in the largest unit that divides it. @param {number} seconds */
export function lengthText(seconds) {
  for (const [unit, size] of UNITS) if (seconds % size === 0) return `${seconds / size}${unit}`;
  return `${seconds}s`;
}

/** A length such as `2d` in words: `2 days`. @param {string} text */
export function lengthWords(text) {
  const match = /^(\d+)(mo|[smhdw])$/.exec(text);
  return match ? plural(Number(match[1]), WORDS[match[2]]) : text;
}

const WORDS = /** @type {Record<string, string>} */ ({ s: "second", m: "minute", h: "hour", d: "day", w: "week", mo: "month" });
const PERIOD_DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", timeZone: "UTC" });
const PERIOD_MONTH = new Intl.DateTimeFormat(undefined, { month: "short", year: "numeric", timeZone: "UTC" });

/** A period's label as people write it. Periods are in UTC, in every zone. @param {string} label such as 2026-03-15T09, 2026-03-15, 2026-W11 or 2026-03 */
export function showPeriod(label) {
  if (label.includes("W")) return label.slice(5);
  if (label.length === 7) return PERIOD_MONTH.format(new Date(`${label}-01T00:00Z`));
  const day = PERIOD_DAY.format(new Date(`${label.slice(0, 10)}T00:00Z`));
  return label.includes("T") ? `${day}, ${label.slice(11)}h` : day;
}

/** The seconds of a length such as `5m`, or of the step `1mo`; null if it is none. @param {string} text */
export function secondsOf(text) {
  const match = /^(\d+)(mo|[smhdw])$/.exec(text.trim());
  if (!match) return null;
  const unit = UNITS.find(([name]) => name === match[2]);
  return unit ? Number(match[1]) * unit[1] : null;
}

/**
 * The instant that a bound of a range means: an age such as `-15m`, `now`, `today`, `yesterday`, RFC 3339 or epoch milliseconds.
 * @param {string} text @param {Date} [now] @returns {Date | null}
 */
export function instantOf(text, now = new Date()) {
  if (text === "now") return now;
  if (isDay(text)) return new Date(instantOfWall(alignTime(wallOf(now.getTime() / 1000), 86400) - (text === "today" ? 0 : 86400)) * 1000);
  if (text.startsWith("-")) {
    const seconds = secondsOf(text.slice(1));
    return seconds === null ? null : new Date(now.getTime() - seconds * 1000);
  }
  const date = /^\d+$/.test(text) ? new Date(Number(text)) : new Date(text);
  return Number.isNaN(date.getTime()) ? null : date;
}

/**
 * A bound of a range as the API reads it, from what people type: `now-6h`, `6h`, `-6h`, `today`, or a date and time in the zone.
 * @param {string} typed @returns {string | null} null if it is none of these
 */
export function boundOf(typed) {
  const text = typed.trim().toLowerCase().replace(/\s+/g, " ");
  const age = /^(?:now ?)?-? ?(\d+ ?[smhdw])$/.exec(text);
  if (age) return `-${age[1].replace(" ", "")}`;
  if (["now", "today", "yesterday"].includes(text)) return text;
  if (/^\d{12,14}$/.test(text)) return new Date(Number(text)).toISOString();
  const date = /^(\d{4}-\d{2}-\d{2})(?:[t ](\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?))?(z|[+-]\d{2}:\d{2})?$/.exec(text);
  // Date takes the 31st of February for a day in March.
  if (!date || new Date(`${date[1]}T00:00Z`).getUTCDate() !== Number(date[1].slice(8))) return null;
  const instant = new Date(`${date[1]}T${date[2] ?? "00:00"}${(date[3] ?? (zone() === "utc" ? "z" : "")).toUpperCase()}`);
  return Number.isNaN(instant.getTime()) ? null : instant.toISOString();
}

/** The value of a datetime-local field for an instant, in the zone. @param {Date} date */
export function fieldOf(date) {
  const shifted = zone() === "utc" ? date : new Date(date.getTime() - date.getTimezoneOffset() * 60000);
  return shifted.toISOString().slice(0, 19);
}

/** The instant that a datetime-local field means, in the zone. @param {string} value @returns {Date | null} */
export function instantOfField(value) {
  if (!value) return null;
  const date = new Date(zone() === "utc" ? `${value}Z` : value);
  return Number.isNaN(date.getTime()) ? null : date;
}

/** Whether a bound is the beginning of a day, which depends on the zone. @param {string} text */
export function isDay(text) {
  return text === "today" || text === "yesterday";
}

/** Whether steps are days, weeks or months of the zone's calendar, which the clocks make longer or shorter. @param {number} step seconds */
export function isCalendar(step) {
  return step % 86400 === 0 || isMonths(step);
}

/** @param {number} step seconds */
function isMonths(step) {
  return step % MONTH === 0;
}

/** A time moved by months. A month without its day ends with it. @param {number} wall as if it were UTC @param {number} months */
function moveMonths(wall, months) {
  const date = new Date(wall * 1000);
  const first = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + months, 1) / 1000;
  const next = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + months + 1, 1) / 1000;
  const inMonth = wall - Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1) / 1000;
  return inMonth < next - first ? first + inMonth : next - 86400 + (inMonth % 86400);
}

/** What clocks show so many steps later. @param {number} wall as if it were UTC @param {number} distance in whole steps @param {number} step seconds */
export function moveWall(wall, distance, step) {
  return isMonths(step) ? moveMonths(wall, Math.round(distance / MONTH)) : wall + distance;
}

/** What the clocks of the zone show at an instant, as if it were UTC. @param {number} seconds since 1970 */
export function wallOf(seconds) {
  if (zone() === "utc") return seconds;
  const date = new Date(seconds * 1000);
  return Date.UTC(date.getFullYear(), date.getMonth(), date.getDate(), date.getHours(), date.getMinutes(), date.getSeconds(), date.getMilliseconds()) / 1000;
}

/** The instant at which the clocks of the zone show this. @param {number} wall @returns {number} */
export function instantOfWall(wall) {
  if (zone() === "utc") return wall;
  const date = new Date(wall * 1000);
  return new Date(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate(), date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds(), date.getUTCMilliseconds()).getTime() / 1000;
}

/** An instant moved by whole steps: days keep the time of the day. @param {number} seconds since 1970 @param {number} distance @param {number} step */
export function moveTime(seconds, distance, step) {
  return isCalendar(step) ? instantOfWall(moveWall(wallOf(seconds), distance, step)) : seconds + distance;
}

/** The beginning of the step that holds a time: steps count from 1970, whole weeks from Mondays. @param {number} seconds @param {number} step */
export function alignTime(seconds, step) {
  if (isMonths(step)) {
    const date = new Date(seconds * 1000);
    const months = (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth();
    return Date.UTC(1970, months - (months % (step / MONTH))) / 1000;
  }
  const origin = step % 604800 === 0 ? 4 * 86400 : 0;
  return Math.floor((seconds - origin) / step) * step + origin;
}

/** A step that gives about as many points as wanted. @param {number} seconds the range's @param {number} [points] */
export function stepFor(seconds, points = 240) {
  const steps = [1, 5, 10, 15, 30, 60, 300, 600, 900, 1800, 3600, 10800, 21600, 43200, 86400, 604800];
  return steps.find((step) => seconds / step <= points) ?? 604800;
}
