// Whether the picture is live; where it is not, since when and how old it is.

import { byId } from "./dom.js";
import { clock, duration, t } from "./strings.js";

/** @param {import("./live.js").State} state */
export function showStage({ stage }) {
  document.body.dataset["stage"] = stage;
  const pill = byId("state");
  const words = t(stage);
  if (pill.textContent !== words) pill.textContent = words;
  pill.className = `pill ${stage}`;
}

/**
 * That nobody is heard, in whatever is shown: of the past, nobody hears what has changed since.
 * @param {import("./live.js").State} state
 * @param {boolean} is_past whether the picture that is shown is of the past
 */
export function showBanner({ stage, since_ms, why, fix, true_ms }, is_past) {
  const is_lost = stage === "lost";
  const banner = byId("banner");
  banner.hidden = !is_lost;
  if (!is_lost) return;
  const now = Date.now();
  const live = Number.isNaN(true_ms)
    ? t("no_picture")
    : t("picture_of", { clock: clock(true_ms), age: duration((now - true_ms) / 1000) });
  const old = is_past ? t("past_unheard") : live;
  const text = `${t("lost_for", { time: duration((now - since_ms) / 1000) })}: ${old}.`;
  byId("banner-text").textContent = text;
  byId("banner-why").textContent = [why, fix].filter(Boolean).join(" · ");
}
