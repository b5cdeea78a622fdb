// Numbers, sizes and times as people write them.

const UNITS = ["B", "KB", "MB", "GB", "TB"];
const DAY = 86400;

export function writeSize(bytes) {
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

export function writeSeconds(seconds) {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 2 * DAY) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / DAY)} days`;
}

/** How long ago something was, from seconds since 1970. */
export function writeAgo(at, now = Date.now() / 1000) {
  if (!at) return "never";
  const seconds = now - at;
  return seconds < 10 ? "just now" : `${writeSeconds(seconds)} ago`;
}

export function writeTime(at) {
  return new Date(at * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

/** Where a conversation stands in the list: Today, Yesterday, This week, Earlier. */
export function nameDay(at) {
  const midnight = new Date().setHours(0, 0, 0, 0) / 1000;
  if (at >= midnight) return "Today";
  if (at >= midnight - DAY) return "Yesterday";
  return at >= midnight - 6 * DAY ? "This week" : "Earlier";
}

export function writeCount(number) {
  return Number(number ?? 0).toLocaleString();
}

/** A number that fits beside an axis: 950, 12k, 3.4M. */
export function writeShort(number) {
  if (number >= 1e9) return `${trim(number / 1e9)}G`;
  if (number >= 1e6) return `${trim(number / 1e6)}M`;
  if (number >= 1e3) return `${trim(number / 1e3)}k`;
  return trim(number);
}

function trim(number) {
  return String(Number(number.toFixed(number < 10 ? 1 : 0)));
}

export function writeMoney(dollars) {
  if (!dollars) return "$0";
  return dollars >= 1 ? `$${dollars.toFixed(2)}` : `$${dollars.toFixed(4)}`;
}

/** The cost of calls as far as prices are known: what has none did not cost nothing. */
export function writeCost({ cost, calls, unpriced }) {
  if (!unpriced) return writeMoney(cost);
  return unpriced < calls ? `${writeMoney(cost)} and more` : "no price known";
}

export function writePercent(share) {
  return share === null || share === undefined ? "–" : `${Math.round(100 * share)} %`;
}
