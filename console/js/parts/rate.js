// How fast events come, from a sample of the newest ones.

import { showNumber } from "../format.js";

/** So many of the newest events are read, and of no more than this length of time: a look costs the same at any rate. */
export const SAMPLE = 100;
export const LOOKED_SECONDS = 3600;
const RECENT_SECONDS = 300;
// Of fewer events in five minutes the hour says more.
const LEAST_RECENT = 5;

/**
 * Events per second, and the seconds that were counted.
 * @param {number[]} times of the newest events, in milliseconds, the newest first @param {boolean} more whether the hour holds older events
 * @param {number} now milliseconds @returns {{ rate: number, seconds: number }}
 */
export function rateOf(times, more, now) {
  const covered = more ? Math.max((now - times[times.length - 1]) / 1000, 0.001) : LOOKED_SECONDS;
  const recent = times.filter((time) => now - time <= RECENT_SECONDS * 1000).length;
  if (covered >= RECENT_SECONDS && recent >= LEAST_RECENT) return { rate: recent / RECENT_SECONDS, seconds: RECENT_SECONDS };
  return { rate: times.length / covered, seconds: covered };
}

/** A rate as people say it: few events are counted per minute or hour. @param {number} rate per second @returns {[string, string]} the number, and of what length of time */
export function rateWords(rate) {
  if (!rate) return ["0", "per second"];
  const [times, name] = rate >= 1 ? [1, "per second"] : rate * 60 >= 1 ? [60, "per minute"] : [3600, "per hour"];
  const value = rate * times;
  return [showNumber(value >= 100 ? Math.round(value) : Number(value.toPrecision(2))), name];
}

/** A length of time in its greatest unit. @param {number} milliseconds @returns {string} */
export function lengthWords(milliseconds) {
  const seconds = Math.round(Math.abs(milliseconds) / 1000);
  return seconds < 120 ? `${seconds} s` : seconds < 7200 ? `${Math.floor(seconds / 60)} min` : seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
}

/** How long ago an instant was. @param {number} milliseconds @returns {string} */
export function ageWords(milliseconds) {
  const text = lengthWords(milliseconds);
  return milliseconds < -1000 ? `${text} ahead` : Math.round(Math.abs(milliseconds) / 1000) < 1 ? "just now" : `${text} ago`;
}
