// The words of the page in the language that is spoken, with their values in place.

import { ENGLISH } from "./en.js";
import { CHINESE } from "./zh.js";

/** @type {Record<string, Texts>} */
export const TABLES = { en: ENGLISH, zh: CHINESE };

export const LANGUAGES = Object.keys(TABLES);
let language = "en";

/** @param {string} chosen */
export function speak(chosen) {
  language = chosen in TABLES ? chosen : "en";
}

export function spoken() {
  return language;
}

/**
 * The text of a key in the language, with its values in place.
 * @param {string} key
 * @param {Record<string, string | number>} values
 */
export function t(key, values = {}) {
  const text = TABLES[language]?.[key] ?? TABLES["en"]?.[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

/**
 * A time of day as logs have it, `14:02:11`; with its date where that is another day.
 * @param {string | number} at
 */
export function clock(at) {
  const time = new Date(at);
  const is_today = time.toDateString() === new Date().toDateString();
  return is_today
    ? time.toLocaleTimeString(spoken(), { hourCycle: "h23" })
    : time.toLocaleString(spoken(), { hourCycle: "h23" });
}

/**
 * A length of time in words, in one unit.
 * @param {number} seconds
 */
export function duration(seconds) {
  if (seconds < 99.5) return t("unit_s", { n: Math.max(0, Math.round(seconds)) });
  if (seconds < 5970) return t("unit_min", { n: Math.round(seconds / 60) });
  if (seconds < 172_800) return t("unit_h", { n: Math.round(seconds / 3600) });
  return t("unit_d", { n: Math.round(seconds / 86_400) });
}
